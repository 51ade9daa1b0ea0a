"""Says why a question got worse or better when the documents changed: in one line, the most direct cause first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from surefind.kb.changes import Difference
from surefind.lab.bench.gold import Gold

_NAMED = 2
"""The most documents that are named for one cause."""
_MAX_ABOVE = 10
"""If the gold was not found, this many documents are above it."""


@dataclass(frozen=True)
class QuestionResult:
    """The answer to one question on one generation."""

    documents: tuple[str, ...]
    """The documents that were found, best first."""
    gold: Gold
    score: float
    rank: int | None
    """The rank of the best gold document; None if none was found."""

    @property
    def above(self) -> tuple[str, ...]:
        """The documents above the best gold document."""
        return self.documents[: _MAX_ABOVE if self.rank is None else self.rank - 1]


def why_worse(was: QuestionResult, now: QuestionResult, changed: Difference) -> str:
    gone = [document for document in was.gold.documents if document in now.gold.lost]
    causes = [
        _says([d for d in gone if d in changed.removed], "was removed", "were removed"),
        _says(
            [d for d in gone if d not in changed.removed],
            "changed and no longer has the passage",
            "changed and no longer have the passages",
        ),
        _says([d for d in now.gold.documents if d in changed.changed], "changed", "changed"),
    ]
    if now.gold.documents:  # a lost document cannot be outranked
        causes += [
            _says([d for d in now.above if d in changed.added], "is new and ranked above it", "are new and above it"),
            _says(
                [d for d in now.above if d in changed.changed], "changed and is ranked above it", "changed, above it"
            ),
        ]
    return _joined(causes, [d for d in now.above if d not in was.above])


def why_better(was: QuestionResult, now: QuestionResult, changed: Difference) -> str:
    back = [document for document in now.gold.documents if document in was.gold.lost]
    causes = [
        _says([d for d in back if d in changed.added], "is new", "are new"),
        _says(
            [d for d in back if d not in changed.added],
            "changed and has the passage now",
            "changed and have the passages now",
        ),
        _says([d for d in now.gold.documents if d in changed.changed and d not in back], "changed", "changed"),
        _says(
            [d for d in was.above if d in changed.removed], "was ranked above it and is gone", "were above it, now gone"
        ),
        _says(
            [d for d in was.above if d in changed.changed], "was ranked above it and changed", "were above it, changed"
        ),
    ]
    return _joined(causes, [d for d in was.above if d not in now.above])


def _joined(causes: Iterable[str], moved: list[str]) -> str:
    reasons = "; ".join(filter(None, causes))
    if reasons:
        return reasons
    passed = f"; {_listed(moved)} changed places with it" if moved else ""
    return f"no gold document and none above it changed, but word weights depend on all documents{passed}"


def _says(documents: list[str], one: str, several: str) -> str:
    return f"{_listed(documents)} {one if len(documents) == 1 else several}" if documents else ""


def _listed(documents: list[str]) -> str:
    more = f" and {len(documents) - _NAMED} more" if len(documents) > _NAMED else ""
    return (" and " if len(documents) == _NAMED else ", ").join(documents[:_NAMED]) + more
