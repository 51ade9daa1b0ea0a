"""docs/first-knowledge-base.md: every command is run, in its order, in a fresh folder, and prints what the page shows.

What differs from run to run is masked by rules: `…` stands for any text, and alone on a line for any lines; a time in
seconds is any time, a percentage any percentage; a number with decimals may differ by what another processor's rounding
does to it (0.02), which may also swap rows. Everything else is compared word by word. Where a block leaves nothing out,
nothing else is printed.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from cases import each
from exam_helpers import surefind
from http_helpers import serving
from surefind.doors.cli.demo import sample_vectors
from surefind.kb import KnowledgeBase

pytestmark = pytest.mark.usefixtures("remembered_models")

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "first-knowledge-base.md"
ADDRESS = "http://127.0.0.1:8080"
INSTALL = ("git clone ", "python3 -m venv ", ". .venv/bin/activate", "pip install ")
"""What only an install runs: scripts/smoke.sh does it."""
_FENCE = re.compile(r"^```(console|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_PART = re.compile(r"…|\d+\.\d+ s\b|\d+\.\d+|\d+%|\s+")
MORE = "…"


@dataclass(frozen=True)
class Step:
    """A command and what the page shows below it, or a program."""

    kind: str
    text: str
    shown: Sequence[str]


def steps() -> Iterator[Step]:
    for kind, body in _FENCE.findall(PAGE.read_text(encoding="utf-8")):
        if kind == "python":
            yield Step(kind, body, [])
            continue
        for command in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
            text, *shown = command.splitlines()
            yield Step(kind, text, [line for line in shown if line.strip()])


def pattern(line: str) -> tuple[re.Pattern[str], list[float]]:
    """Returns what a line of the page matches, and the numbers that it shows."""
    made, at = "", 0
    numbers = []
    for part in _PART.finditer(line):
        made += re.escape(line[at : part.start()])
        at = part.end()
        if part[0] == MORE:
            made += ".*"
        elif part[0].endswith(" s"):
            made += r"\d+\.\d+ s"
        elif part[0].endswith("%"):
            made += r"\d+%"
        elif part[0].isspace():
            made += r"\s+"
        else:
            numbers.append(float(part[0]))
            made += r"(\d+\.\d+)"
    return re.compile(made + re.escape(line[at:])), numbers


def prints(line: str, printed: str) -> bool:
    wanted, numbers = pattern(line.strip())
    match = wanted.fullmatch(printed.strip())
    return bool(match) and all(abs(float(a) - b) <= 0.02 for a, b in zip(match.groups(), numbers, strict=True))


def compare(step: Step, out: str) -> None:
    """Raises if a line of the page is not printed, or if more is printed than the page shows or leaves out."""
    printed = [line for line in out.splitlines() if line.strip()]
    for line in step.shown:
        if line.strip() == MORE:
            continue
        found = next((one for one in printed if prints(line, one)), None)
        assert found is not None, f"{step.text}: the page shows a line that is not printed: {line}\n{out}"
        printed.remove(found)
    if step.shown and MORE not in [line.strip() for line in step.shown]:
        assert printed == [], f"{step.text}: the page does not show all that is printed"


class Terminal:
    """Runs the commands of the page: `surefind` in this process, a server in its own, the rest in a shell."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack) -> None:
        self.folder = folder
        self.stack = stack
        self.url = ADDRESS

    def run(self, step: Step) -> str:
        if step.kind == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(step.text.replace(ADDRESS, self.url), PAGE.name, "exec"), {})
            return out.getvalue()
        return "".join(self.one(text.strip()) for text in step.text.split("&&"))

    def one(self, text: str) -> str:
        program, *words = shlex.split(text)
        if text.startswith(INSTALL):
            return ""
        if program == "cd":
            if words != ["surefind"]:  # the terminal begins there
                self.folder = (self.folder / words[0]).resolve()
            return ""
        if program == "curl":
            return httpx.get(words[0].replace(ADDRESS, self.url), trust_env=False).text
        if text == "surefind serve":
            served = self.stack.enter_context(serving(self.folder))
            self.url = served.url
            return served.log.read_text(encoding="utf-8").replace(served.url, ADDRESS)
        if program == "surefind":
            with contextlib.chdir(self.folder):
                if words[0] == "sync":
                    self._keep_vectors("minilm")
                if words[0] == "bench" and "pair" in words:
                    self._keep_vectors("arctic")
                return surefind(*words).out
        assert program in ("cp", "mkdir"), f"no test runs {text!r}"
        subprocess.run([program, *words], cwd=self.folder, check=True)
        return ""

    def _keep_vectors(self, encoder: str) -> None:
        """Keeps the vectors of the sample, as `surefind demo` does: the encoder would take a minute."""
        with KnowledgeBase.open(self.folder) as kb:
            kb.services.keep_vectors(sample_vectors(encoder))


def test_every_command_prints_what_the_tutorial_shows(tmp_path: Path) -> None:
    clone = tmp_path / "surefind"
    clone.mkdir()
    (clone / "examples").symlink_to(ROOT / "examples")
    printed = {}
    with contextlib.ExitStack() as stack:
        terminal = Terminal(clone, stack)
        for step in steps():
            printed[step.text] = terminal.run(step)
            compare(step, printed[step.text])
    programs = " ".join(printed)
    assert all(f"surefind {one}" in programs for one in ("sync", "search", "ask", "bench", "use", "serve"))
    (program,) = [step for step in steps() if step.kind == "python"]
    asked = next(text for step, text in printed.items() if step.startswith("surefind ask"))
    assert printed[program.text].strip() and asked.startswith(printed[program.text].strip())


@each(
    ("shown", "out"),
    [
        (["a 0.812", "b"], "a 0.700\nb\n"),
        (["a", "b"], "a\nc\n"),
        (["a"], "a\nb\n"),
        (["175 questions"], "152 questions\n"),
        (["a … z"], "a b y\n"),
        (["in 3.2 s."], "in 3.2 ms.\n"),
        (["x 0.5", "x 0.5"], "x 0.5\n"),
    ],
)
def test_other_output_would_be_noticed(shown: list[str], out: str) -> None:
    with pytest.raises(AssertionError):
        compare(Step("console", "command", shown), out)


def test_noise_is_masked() -> None:
    shown = ["115 added in 38.2 s.", "* BM25   0.973  …", MORE]
    compare(Step("console", "command", shown), "115 added in 71.3 s.\n*  BM25  0.961 0.2 0.3\nand more\n")
