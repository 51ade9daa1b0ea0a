"""What a benchmark leaves out, and why: questions of the exam, and built-in pipelines."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from surefind.base.running.time_left import about
from surefind.lab.exam.model import Exam

_READ_SECONDS = 0.75
"""About how long a reranker reads for a question, on two cores."""
_EMBED_SECONDS = 0.05
"""About how long an encoder reads a passage, on two cores."""


@dataclass(frozen=True)
class Unasked:
    """How many questions were not asked."""

    gone: int = 0
    """Their passages are no longer in the documents."""
    restricted: int = 0
    """Their passages are in documents that the audience may not read."""

    @property
    def total(self) -> int:
        return self.gone + self.restricted

    @property
    def facts(self) -> dict[str, int]:
        """What reports keep of it."""
        return {"dropped": self.total, "restricted": self.restricted}


def left_out_text(dropped: int | None, restricted: int | None) -> str:
    """Says which questions of a report's exam were left out, and why; empty if none was. None: the reader may not know
    it."""
    restricted = restricted or 0
    gone = (dropped or 0) - restricted
    said = [f"{_questions(gone)} left out: {_theirs(gone)} no longer in the documents."] if gone else []
    if restricted:
        theirs = f"{_theirs(restricted)} in restricted documents (--as GROUP includes them)."
        said.append(f"{_questions(restricted)} left out: {theirs}")
    return " ".join(said)


def _questions(count: int) -> str:
    return "1 question was" if count == 1 else f"{count} questions were"


def _theirs(count: int) -> str:
    return "its passage is" if count == 1 else "their passages are"


@dataclass(frozen=True)
class LeftOut:
    """A built-in pipeline that the default comparison leaves out, because it takes long."""

    name: str
    passages: int = 0
    """Passages that its second encoder would have to read first; 0: its reranker would read for each question."""


def about_left_out(exam: Exam, left_out: Sequence[LeftOut], groups: Collection[str], restricted: bool) -> str:
    """Says of each pipeline that was not compared what adding it takes; "" if there is none. `groups` are those that
    the searches were for, and `restricted` says whether they may not know how many passages there are."""
    audience = [word for group in sorted(groups) for word in ("--as", group)]
    command = ["surefind", "bench", "--exam", exam.name.removesuffix("-held-out"), *audience, "-p", "hybrid", "-p"]
    return " ".join(
        f"Not compared: {one.name}. {_takes(one, len(exam.queries), restricted)}. To add it: "
        f"{shlex.join([*command, one.name])}."
        for one in left_out
    )


def _takes(one: LeftOut, questions: int, restricted: bool) -> str:
    if not one.passages:
        takes = about(questions * _READ_SECONDS)
        return f"Its reranker would read for each of the {questions} questions, {takes} on two cores"
    takes = "which takes minutes" if restricted else f"{about(one.passages * _EMBED_SECONDS)} on two cores"
    return f"Its second encoder would read all passages first, {takes}"
