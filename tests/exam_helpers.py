"""What the tests of exams, measures, benchmarks and commands share."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import typer

from helpers import EXAMPLE
from surefind.base.types import Document
from surefind.doors import cli
from surefind.engine.ingest.markdown import Markdown
from surefind.lab.exam.known_item import generate
from surefind.lab.exam.model import Exam, ExamQuery, Judgment

QUESTIONS = EXAMPLE.parent / "questions.jsonl"
FEW = (
    "sops/sop-104-ctr-filing.md",
    "sops/sop-107-monetary-instrument-log.md",
    "sops/sop-202-teller-drawer-balancing.md",
    "sops/sop-301-outgoing-domestic-wire.md",
    "sops/sop-306-reg-e-disputes.md",
    "sops/sop-404-mortgage-trid-timeline.md",
    "policies/pol-302-courtesy-pay.md",
    "policies/pol-701-leave-and-attendance.md",
    "runbooks/rb-501-eod-7-failure.md",
    "faq/faq-03-loan-officer-faq.md",
)
"""Ten documents of the sample: enough to differ, few enough to be quick."""
BODY = "The teller counts the drawer twice and then signs the sheet for the shift.\n"
"""A text for the sections of made-up documents."""


def document(key: str, text: str, title: str = "") -> Document:
    return Document(key, text, title)


@cache
def sample_documents() -> tuple[Document, ...]:
    """Quillhaven, as a sync would read it."""
    paths = sorted(path.relative_to(EXAMPLE).as_posix() for path in EXAMPLE.rglob("*.md"))
    return tuple(found for key in paths for found in Markdown().read(EXAMPLE / key, key))


@cache
def few_documents() -> tuple[Document, ...]:
    return tuple(document for document in sample_documents() if document.id in FEW)


@cache
def sample_exam() -> Exam:
    return generate(sample_documents())


def copy_few(folder: Path) -> None:
    """The ten files below `folder`."""
    for name in FEW:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(EXAMPLE / name, folder / name)


def query(key: str, text: str, *judgments: Judgment, family: str = "questions") -> ExamQuery:
    return ExamQuery(key, text, judgments, family)


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


command_of = cache(typer.main.get_command)
"""The commands as typer makes them from an app. A process does this once; it takes longer than most commands."""
_make_program = cli.build


@cache
def _program(modules: tuple[str, ...]) -> typer.Typer:
    return _make_program(modules)


def program_of(modules: Iterable[str]) -> typer.Typer:
    """The program with the commands of these modules, the same one every time."""
    return _program(tuple(modules))


def surefind(*words: str | Path, kb: Path | None = None) -> Ran:
    """A command as the shell would run it, in this process: what it printed and its exit code."""
    argv = ["surefind", *map(str, words), *(["--kb", str(kb)] if kb else [])]
    out, err = io.StringIO(), io.StringIO()
    code: Any = 0
    with (
        mock.patch.object(sys, "argv", argv),
        mock.patch.object(cli, "build", program_of),
        mock.patch.object(typer.main, "get_command", command_of),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            cli.main()
        except SystemExit as stop:
            code = stop.code or 0
    return Ran(code, out.getvalue(), err.getvalue())
