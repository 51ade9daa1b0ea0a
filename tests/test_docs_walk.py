"""Every command of every page is run: here, in a folder as the reader of the page has it, or by the test that a table
names. A command must end as the page shows it: with an error where the page shows one, else with success.

`test_docs.py` runs the README and `test_tutorial.py` the first tutorial, and both compare what is printed. The pages of
results are about data sets that are not here: of their programs the options are checked.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from cases import each
from exam_helpers import FEW, QUESTIONS, copy_few, surefind
from helpers import EXAMPLE
from llm_server import LLMServer
from surefind.lab.exam.model import Exam
from surefind.lab.exam.store import ExamStore

pytestmark = pytest.mark.usefixtures("remembered_models")

ROOT = Path(__file__).parent.parent
WALKED_ELSEWHERE = ("README.md", "first-knowledge-base.md", "cli.md", "api.md")
PAGES = [page for page in sorted((ROOT / "docs").glob("*.md")) if page.name not in WALKED_ELSEWHERE]
_SHELL = re.compile(r" (?:\\||&&|<|>|;) |\\$[a-z]")
_FENCE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)

ELSEWHERE = {
    r"pip install|ollama pull|export |printf |ray start|cd handbook": "no command of Surefind",
    r"pytest test_isr.py": "tests/test_plugin.py runs the example of this page",
    r"surefind .*isr": "tests/test_plugin.py runs the example of this page",
    r"surefind (serve|mcp)|curl ": "tests/test_http.py, tests/test_mcp.py and tests/test_agent_docs.py",
    r"surefind sync .*--watch": "tests/test_ingest_git.py: it ends with Ctrl-C",
    r"surefind sync .*(git\+https|--rev|--forget)": "tests/test_ingest_git.py: with repositories of its own",
    r".*--ray ": "tests/test_ray_sync.py and tests/test_ray_bench.py, on a cluster of two nodes",
    r"surefind --install-completion|surefind --show-completion": "tests/test_cli_completion.py",
    r"surefind use --undo": "tests/test_cli_use.py: what train --use adopted",
    r"surefind train (encoder|reranker)": "tests/test_train_models.py: torch is not installed everywhere",
    r"surefind .*(openai|gpt-4|cohere)": "asks a paid service: test_llm_models.py, test_rerank_hosted.py",
    r"surefind .*(--beir|scifact|beir-folder)": "tests/test_bench_run.py, with a collection of its own",
    r"surefind study ": "tests/test_study_agentic.py and its neighbours run all four studies",
    r"surefind train prompt|surefind .*(examples=weighed|llm_listwise\(mode=\[)": "tests/test_train_prompt.py",
    r"surefind llm check": "tests/test_llm_check.py, with models that answer in several ways",
    r"surefind ask .*summaries=llm": "tests/test_ask_overview.py, with a server that has summaries",
    r"surefind exam write|surefind bench --exam written": "tests/test_exam_by_llm.py, with a server that has questions",
    r"(PYTHONPATH=benchmarks )?python benchmarks/": "data sets that are not here; the options are checked",
}
"""What is not run here, and where it is."""
STATES = {
    r"surefind: There is no generation": "tests/test_drift.py: an earlier generation was deleted",
    r"surefind: .*llm.example.com": "tests/test_trust.py: a server that nobody trusts",
    r"surefind: The gate refused": "tests/test_drift.py: many documents were changed for the worse",
}
"""Outputs of a state that the reader of the page does not come to, and where they are tested."""
NO = re.compile(r"surefind: |Nothing here answers|.*\nWORSE", re.DOTALL)
"""How outputs begin of commands that end with an error, or with "no"."""


MORE = ("policies/pol-201-funds-availability.md", "sops/sop-407-early-collections.md")
"""With these there are enough questions to calibrate."""


class Command(NamedTuple):
    text: str
    shown: str

    @property
    def fails(self) -> bool:
        return NO.match(self.shown) is not None


def commands_of(page: Path) -> Iterator[Command]:
    for body in _FENCE.findall(page.read_text(encoding="utf-8")):
        for part in re.split(r"^\$ ", body.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
            text, _, shown = part.partition("\n")
            yield Command(text.strip(), shown)


def elsewhere(command: Command) -> bool:
    excused = [(pattern, command.text) for pattern in ELSEWHERE] + [(pattern, command.shown) for pattern in STATES]
    return any(re.match(pattern, text) for pattern, text in excused)


# ---------------------------------------------------------------- the reader's folder


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some documents of the sample, an exam of staff questions about them, and known-item questions."""
    folder = tmp_path_factory.mktemp("walk") / "base"
    copy_few(folder / "docs")
    for name in MORE:
        (folder / "docs" / name).parent.mkdir(exist_ok=True)
        shutil.copy(EXAMPLE / name, folder / "docs" / name)
    rows = [json.loads(line) for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]
    kept = [row for row in rows if all(gold["document"] in (*FEW, *MORE) for gold in row["gold"])]
    (folder / "questions.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in kept), encoding="utf-8")
    for words in (
        ["init"],
        ["sync", folder / "docs"],
        ["exam", "import", folder / "questions.jsonl"],
        ["exam", "generate"],
    ):
        done = surefind(*words, kb=folder)
        assert done.code == 0, done.err
    return folder


def with_rules(folder: Path) -> None:
    (folder / "docs" / "payroll").mkdir()
    (folder / "docs" / "payroll" / "grades.csv").write_text("name,grade,salary\nAda Brandt,7,61500\n", encoding="utf-8")
    _settings(folder, '[[access.rules]]\npath = "payroll/**"\ngroups = ["hr"]\n')
    surefind("sync", kb=folder)


def with_two_generations(folder: Path) -> None:
    """As the page begins: two documents, then a third one and a change."""
    shutil.rmtree(folder / ".surefind")
    shutil.rmtree(folder / "docs")
    (folder / "docs").mkdir()
    for name in ("wires.md", "cash.md"):
        (folder / "docs" / name).write_text(f"# {name}\n\nDomestic wires leave until 3:00 p.m.\n", encoding="utf-8")
    surefind("sync", folder / "docs", kb=folder)
    for name in ("wires.md", "fees.md"):
        (folder / "docs" / name).write_text(f"# {name}\n\nDomestic wires leave until 4:30 p.m.\n", encoding="utf-8")
    surefind("sync", kb=folder)
    (folder / "july.md").write_text("# Wire cutoff\n\nDomestic wires leave at noon in July.\n", encoding="utf-8")


def with_a_draft(folder: Path) -> None:
    (folder / "july.md").write_text("# Wire cutoff\n\nDomestic wires leave at noon in July.\n", encoding="utf-8")
    surefind("draft", "new", folder / "july.md", kb=folder)


def with_a_change(folder: Path) -> None:
    (folder / "docs" / FEW[0]).unlink()
    surefind("sync", kb=folder)


def with_an_encoder(folder: Path) -> None:
    models = pytest.importorskip("surefind_models")
    (folder / "models").mkdir()
    (folder / "models" / "my-encoder").symlink_to(models.path("minilm"))


def with_questions(folder: Path) -> None:
    texts = [json.loads(line)["query"] for line in (folder / "questions.jsonl").read_text().splitlines()]
    (folder / "asked.txt").write_text("\n".join(texts[:5]), encoding="utf-8")
    (folder / "questions.txt").write_text("\n".join(texts[:2]) + "\n", encoding="utf-8")
    (folder / "not-here.txt").write_text("recipe for carrot cake\nhow tall is the moon\n", encoding="utf-8")
    for name, mark in (("tickets.csv", ","), ("faq.tsv", "\t")):
        rows = [
            f"id{mark}Customer wrote{mark}query",
            *(f"{i}{mark}{text}{mark}{text}" for i, text in enumerate(texts[:4])),
        ]
        (folder / name).write_text("\n".join(rows) + "\n", encoding="utf-8")
    (folder / "chat.jsonl").write_text(json.dumps({"query": texts[5]}) + "\n", encoding="utf-8")
    (folder / "asked.csv").write_text(f"query,document\nwhen is the wire cutoff,{FEW[3]}\n", encoding="utf-8")
    (folder / "bad.csv").write_text("query,document\nwhere,nowhere.md\n", encoding="utf-8")
    (folder / "topics.tsv").write_text("q1\twhen is the wire cutoff\n", encoding="utf-8")
    (folder / "qrels.txt").write_text(f"q1 0 {FEW[3]} 1\n", encoding="utf-8")


def with_sixty_questions(folder: Path) -> None:
    """A threshold with a promise needs them, and there are too few of the staff's about these documents."""
    exams = ExamStore(folder / ".surefind" / "exams")
    exams.save(Exam("questions", exams.load("known-item").queries[:60]))


def with_documents_alone(folder: Path) -> None:
    (folder / "surefind.toml").unlink()
    shutil.rmtree(folder / ".surefind")


def with_the_clone(folder: Path) -> None:
    (folder / "surefind").symlink_to(ROOT)


PREPARED: dict[str, Callable[[Path], None]] = {
    "access.md": with_rules,
    "ask.md": with_questions,
    "choosing-models.md": with_an_encoder,
    "command-line.md": with_questions,
    "damage.md": with_a_draft,
    "drift.md": with_a_change,
    "exam.md": with_questions,
    "first-pages.md": with_the_clone,
    "rerank.md": with_sixty_questions,
    "versions.md": with_two_generations,
    "web.md": with_documents_alone,
    "your-questions.md": with_questions,
}
NEEDS = {"fusion.md": "lightgbm"}
"""The packages of an extra that a page installs."""


def _settings(folder: Path, more: str) -> None:
    path = folder / "surefind.toml"
    path.write_text(f"{path.read_text(encoding='utf-8')}\n{more}", encoding="utf-8")


@pytest.fixture
def reader(request: pytest.FixtureRequest, base: Path, tmp_path: Path, llm: LLMServer) -> Path:
    """The folder of the reader of a page. On pages about language models one answers, with words of no use."""
    page: Path = request.param
    if page.name in NEEDS:
        pytest.importorskip(NEEDS[page.name])
    folder = tmp_path / "reader"
    shutil.copytree(base, folder)
    surefind("sync", folder / "docs", kb=folder)
    if page.name.startswith("llm"):
        _settings(folder, f'[llm]\nmodel = "{llm.model}"\n')
    PREPARED.get(page.name, lambda folder: None)(folder)
    return folder


# ---------------------------------------------------------------- walking


@pytest.mark.walk
@pytest.mark.parametrize(
    ("page", "reader"), [(page, page) for page in PAGES], indirect=["reader"], ids=[page.stem for page in PAGES]
)
def test_every_command_ends_as_the_page_shows(page: Path, reader: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(reader)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    for name in ("EDITOR", "VISUAL"):
        monkeypatch.delenv(name, raising=False)
    wrong = []
    for command in commands_of(page):
        code, said = (command.fails, "") if elsewhere(command) else run(command.text)
        if bool(code) != command.fails:
            wrong.append(f"{command.text}: {code} {said[-500:]}")
    assert wrong == []


def run(text: str) -> tuple[int, str]:
    """The exit code of a command and what it says of errors. A plain one runs in this process, which remembers what the
    models computed."""
    plain = text.partition("  #")[0]
    if plain.startswith("surefind ") and not _SHELL.search(plain):
        done = surefind(*shlex.split(plain)[1:])
        return done.code, done.err
    call = ["bash", "-c", f"pbpaste() {{ echo wire cutoff; }}\n{text}"]
    ended = subprocess.run(call, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)
    if moved := re.search(r"&& cd (\S+)$", text):
        os.chdir(moved[1])
    return ended.returncode, ended.stderr


def test_nothing_is_excused_twice_or_in_vain() -> None:
    """A rule of the table that no command needs hides a command that is written later."""
    texts = [command.text for page in PAGES for command in commands_of(page)]
    assert [pattern for pattern in ELSEWHERE if not any(re.match(pattern, text) for text in texts)] == []
    named = {
        name for where in (*ELSEWHERE.values(), *STATES.values()) for name in re.findall(r"test_[a-z_]+\.py", where)
    }
    assert sorted(named - {path.name for path in (ROOT / "tests").rglob("test_*.py")}) == []


@each("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.stem)
def test_programs_of_benchmarks_have_the_options_that_pages_use(page: Path) -> None:
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    wrong = []
    for name, rest in re.findall(
        r"python (?:\S+=\S+ )*((?:benchmarks|scripts|training|models/scripts)/[\w/]+\.py)([^\n`|]*)", text
    ):
        if not (ROOT / name).exists():
            wrong.append(name)
            continue
        source = (ROOT / name).read_text(encoding="utf-8")
        wrong += [
            f"{name} {option}" for option in re.findall(r"(?<= )--[a-z][a-z-]*", rest) if f'"{option}"' not in source
        ]
    assert wrong == []
