"""How much of each question stands word for word in its gold passage, and what that does to the scores."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from surefind.exam.model import Exam, ExamQuery

BANDS = ("0–33%", "33–67%", "67–99%", "100%")


def band(query: ExamQuery) -> str | None:
    """Where the query's lexical overlap lies."""
    if query.overlap is None:
        return None
    edges = (1 / 3, 2 / 3, 1.0)
    return BANDS[sum(query.overlap >= edge for edge in edges)]


@dataclass(frozen=True)
class Leakage:
    text: str
    families: dict[str, dict[str, float]]
    bands: dict[str, int]


def leakage(exam: Exam) -> Leakage | None:
    """None where no overlap is known (questions without gold spans)."""
    known = [query for query in exam.queries if query.overlap is not None]
    if not known:
        return None
    families: dict[str, list[float]] = defaultdict(list)
    for query in known:
        families[query.family].append(query.overlap or 0.0)
    means = {
        name: {"queries": len(values), "overlap": sum(values) / len(values)}
        for name, values in sorted(families.items())
    }
    bands = {name: sum(band(query) == name for query in known) for name in BANDS}
    return Leakage(_words(known, bands), means, bands)


def _words(known: Sequence[ExamQuery], bands: dict[str, int]) -> str:
    mean = sum(query.overlap or 0.0 for query in known) / len(known)
    whole = bands["100%"] / len(known)
    verdict = (
        "This exam flatters lexical retrieval: read BM25's lead by overlap band, and trust the low bands most."
        if mean > 0.8
        else "Words are shared about as much as in questions that people ask."
        if mean > 0.45
        else "The questions share few words with their passages: lexical retrieval has a hard time here."
    )
    return (
        f"On average {mean:.0%} of a question's words stand in its gold passage, and {whole:.0%} of the questions "
        f"have all of theirs there. {verdict}"
    )
