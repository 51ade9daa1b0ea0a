"""`surefind help`: the pages of docs/ by their topic, and nothing in a message that a user cannot open."""

from __future__ import annotations

import ast
import os
import pty
import re
import select
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

from cases import each
from exam_helpers import surefind
from surefind.doors.cli import help as cli_help

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src" / "surefind").rglob("*.py"))
TOPIC = re.compile(r"surefind help ([a-z][\w/-]*)")


def messages(path: Path) -> list[str]:
    """Every text of a module that is no docstring."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    said = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said
    ]


@cache
def known_topics() -> set[str]:
    return {*cli_help.topics(), *(name.stem for name in (ROOT / "src/surefind/doors/cli").glob("[a-z]*.py"))}


def test_every_page_is_listed_once() -> None:
    listed = [topic for group in cli_help.groups() for topic, _ in group.entries]
    assert sorted(listed) == cli_help.topics()


def test_without_a_topic_the_topics_are_listed() -> None:
    result = surefind("help")
    assert result.code == 0
    assert re.search(r"^Guides$", result.out, re.MULTILINE)
    assert re.search(r"^  exam +questions, measures", result.out, re.MULTILINE)


def test_topics_as_json() -> None:
    found = surefind("help", "--json").json
    assert "exam" in [entry["topic"] for group in found for entry in group["topics"]]


@each("name", ["exam", "exam.md", "docs/exam.md"])
def test_a_page_is_printed_as_it_is_where_nobody_reads_along(name: str) -> None:
    result = surefind("help", name)
    assert result.code == 0
    assert result.out.startswith("# Exams and statistics\n")
    assert "\x1b" not in result.out


def test_a_page_as_json() -> None:
    found = surefind("help", "results", "models", "--json").json
    assert found["topic"] == "results/models"
    assert found["text"].startswith("# A reranker")


def test_links_to_pages_say_which_command_shows_them() -> None:
    text = "[how](exam.md#gate) [there](../exam.md) [here](#x) [web](https://a.b/c.md)\n```toml\n[a](exam.md)\n```\n"
    assert cli_help.readable(text, "results/llm") == (
        "how (`surefind help results/exam`) there (`surefind help exam`) here [web](https://a.b/c.md)\n"
        "```toml\n[a](exam.md)\n```\n"
    )


def test_links_out_of_the_documentation_name_the_file() -> None:
    assert cli_help.readable("[the log](../CHANGELOG.md)", "exam") == "the log (`CHANGELOG.md` in the repository)"
    assert cli_help.readable("[training/a.md](../../training/a.md)", "results/x") == "`training/a.md` in the repository"


@each("page", cli_help.topics())
def test_no_page_keeps_a_link_that_leads_nowhere_after_an_install(page: str) -> None:
    text = re.sub(r"^```.*?^```", "", surefind("help", page).out, flags=re.MULTILINE | re.DOTALL)
    assert re.findall(r"\]\((?!https?://)[^)]*\)", text) == []


@each("words", [("search",), ("exam", "import"), ("train", "fusion")])
def test_a_command_shows_its_own_help(words: tuple[str, ...]) -> None:
    assert f"Usage: surefind {' '.join(words)} " in surefind("help", *words).out


def test_an_unknown_topic_names_the_nearest() -> None:
    result = surefind("help", "acess")
    assert result.code == 2
    assert "Did you mean access?" in result.err


def test_on_a_terminal_the_page_is_rendered(tmp_path: Path) -> None:
    here, there = pty.openpty()
    environment = {**os.environ, "PAGER": "cat", "TERM": "xterm", "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "surefind", "help", "exam"]
    with subprocess.Popen(command, stdin=there, stdout=there, stderr=there, env=environment, cwd=tmp_path) as process:
        os.close(there)
        shown = _everything(here)
        assert process.wait(30) == 0
    os.close(here)
    assert "Exams and statistics" in shown
    assert "# Exams and statistics" not in shown


def _everything(terminal: int, seconds: float = 60) -> str:
    """What is written to a terminal until its other end is closed."""
    parts, ends = [], time.monotonic() + seconds
    while select.select([terminal], [], [], max(0.0, ends - time.monotonic()))[0]:
        try:
            part = os.read(terminal, 1 << 16)
        except OSError:  # Linux says so at the end
            break
        if not part:
            break
        parts.append(part)
    return b"".join(parts).decode("utf-8", "replace")


# ---------------------------------------------------------------- what messages point to


@each("path", SOURCES, ids=lambda path: path.relative_to(ROOT / "src").as_posix())
def test_messages_point_to_topics_that_exist(path: Path) -> None:
    text = "\n".join(messages(path))
    assert set(TOPIC.findall(text)) <= known_topics()
    if "testing" not in path.parts:
        assert re.findall(r"docs/[\w/-]+\.md", text) == []


def test_the_wheel_takes_the_pages_along() -> None:
    """scripts/smoke.sh reads one from a bare install."""
    assert '"docs" = "surefind/help"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
