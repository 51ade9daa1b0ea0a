"""What a benchmark leaves out, and why: questions of the exam, and built-in pipelines."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from surefind.bench.plan import Plan


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


def about_left_out(plan: Plan) -> str:
    """Says which built-in pipelines were not compared, and how to compare them; "" if there is none."""
    if not plan.left_out:
        return ""
    exam = ["--exam", plan.exam.name.removesuffix("-held-out")]
    named = [word for name in ("hybrid", *plan.left_out) for word in ("-p", name)]
    return (
        f"Not compared: {', '.join(plan.left_out)}, because its second encoder would have to read all passages first, "
        f"which takes minutes. To compare it: {shlex.join(['surefind', 'bench', *exam, *named])}."
    )
