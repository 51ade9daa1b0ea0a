"""Measures how many of a question's words are in its gold passage, and says how this affects the scores."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from surefind.lab.exam.model import Exam, ExamQuery

BANDS = ("0–33%", "33–67%", "67–99%", "100%")


def band(query: ExamQuery) -> str | None:
    """The band of the query's lexical overlap."""
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
    """The leakage of an exam; None if the overlap of no question is known."""
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
        "This exam favours lexical retrieval: compare the results by overlap band, and trust the low bands most."
        if mean > 0.8
        else "These questions share about as many words with their passages as questions that people ask."
        if mean > 0.45
        else "The questions share few words with their passages, which is hard for lexical retrieval."
    )
    return (
        f"On average {mean:.0%} of a question's words are in its gold passage, and {whole:.0%} of the questions "
        f"have all of their words there. {verdict}"
    )
