"""A small corpus for the tests of studies: fifteen documents of a line each, three questions about each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from exam_helpers import Ran, query
from helpers import Home
from surefind.base.access import Access
from surefind.lab.exam.model import Exam, ExamQuery, Judgment
from surefind.lab.exam.store import ExamStore
from surefind.lab.study.stage import find_study
from surefind.lab.study.tables import Printed

THINGS = "cash cheque wire loan card deposit vault ledger audit teller branch mortgage receipt statement fee".split()
ASKED = (("How is the {} handled?", "plain"), ("Rule {n} about a {}", "coded"), ("Who approves a {}?", "plain"))
EXAM = "mine"


def make_base(folder: Path, more: str = "") -> Path:
    """A knowledge base with an exam called `mine`; `more` is said in each document."""
    home = Home(folder)
    for n, thing in enumerate(THINGS):
        home.write(
            f"docs/{thing}.md", f"# The {thing}\n\nRule {n}: Mia Reyes approves each {thing} of the day. {more}\n"
        )
    home.sync("docs")
    with home.open() as kb:
        ids = {Path(document.id).stem: document.id for document in kb.documents(Access.owner())}
        ExamStore(kb.data / "exams").save(Exam(EXAM, questions(ids)))
    return home.folder


def questions(ids: dict[str, str]) -> tuple[ExamQuery, ...]:
    return tuple(
        query(f"q{n}-{i}", text.format(thing, n=n), Judgment(ids[thing]), family=kind)
        for n, thing in enumerate(THINGS)
        for i, (text, kind) in enumerate(ASKED)
    )


def tables_of(ran: Ran) -> dict[str, Any]:
    """The tables of a study that was run with --json, by number."""
    assert ran.code == 0, ran.err
    return {table["number"]: table for table in ran.json["tables"]}


def printed(study: str, number: str) -> Printed:
    """The figures that a paper printed in one of its tables, by row."""
    specs = [table for stage in find_study(study).stages for table in stage.tables]
    return next(table.figures for table in specs if table.number == number)


def figures(table: dict[str, Any]) -> dict[str, list[Any]]:
    """The cells of a table, by the names of its rows."""
    return {row["name"]: row["cells"] for row in table["rows"]}
