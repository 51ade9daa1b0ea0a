"""The words of a query in a text, for every interface that emphasises them.

Why a passage was found, in words: `second by words, first by meaning`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from surefind.base.text.words import CLUSTER, HANGUL, MARKS, UNSPACED, UNSPACED_RUN, fold, pattern
from surefind.base.types import Hit, Signal
from surefind.engine.analyze.auto import COMMON
from surefind.engine.search.pipeline import Pipeline, label_of

_RUN = (
    rf"(?P<pairs>{UNSPACED_RUN}|[{HANGUL}]+)|(?P<words>[^\W{UNSPACED}{HANGUL}]+(?:[{MARKS}]+[^\W{UNSPACED}{HANGUL}]*)*)"
)
_UNIT = rf"{CLUSTER}|[{HANGUL}]"


def sought(query: str) -> frozenset[str]:
    """The keys to emphasise in hits: the query's words of three letters or more, without words such as "the". In
    scripts without spaces between words, the keys are pairs of characters, or a single character that has no
    neighbour."""
    return frozenset(key for _, _, key in pieces(query) if key not in COMMON and (len(key) > 2 or not key.isascii()))


def pieces(text: str, singly: bool = False) -> Iterator[tuple[int, int, str]]:
    """Yields each word or pair of characters as (start, end, key to compare); if `singly`, also each character."""
    for run in pattern(_RUN).finditer(text):
        start, word = run.start(), run.group()
        if run.lastgroup == "words":
            yield start, run.end(), fold(word).lower()
            continue
        units = [(start + unit.start(), start + unit.end()) for unit in pattern(_UNIT).finditer(word)]
        spans = [(a, end) for (a, _), (_, end) in pairwise(units)]
        for a, end in (*spans, *units) if singly or not spans else spans:
            yield a, end, text[a:end]


_BY: Mapping[Signal, str] = {
    "sparse": "by words",
    "dense": "by meaning",
    "graph": "by what passages have in common",
    "mixed": "by words and meaning",
}
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


def why(hit: Hit, pipeline: Pipeline) -> str:
    """Returns where each retriever put a hit, and where the rerankers moved it."""
    labels = _labels(pipeline)
    places, missing = [], []
    for label, retriever in zip(labels, pipeline.retrieve, strict=False):
        alike = sum(other.signal == retriever.signal for other in pipeline.retrieve) > 1
        by = _BY[retriever.signal] + (f" ({label})" if alike else "")
        if label in hit.stages:
            places.append(f"{ordinal(hit.stages[label].rank)} {by}")
        else:
            missing.append(by)
    said = [", ".join(places)] if places else []
    if missing and places:
        said.append(f"not found {' or '.join(missing)}")
    read = [hit.stages[label].rank for label in labels[len(pipeline.retrieve) :] if label in hit.stages]
    if read:
        said.append(f"{ordinal(read[-1])} after a model had read the passages")
    text = "; ".join(said)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _labels(pipeline: Pipeline) -> list[str]:
    """Returns the names of the retrievers and rerankers in the stages of a hit."""
    made: list[str] = []
    for stage in pipeline.stages:
        made.append(label_of(stage, made))
    return made[: len(pipeline.retrieve)] + made[len(made) - len(pipeline.rerank) :]


def ordinal(rank: int) -> str:
    if rank <= len(_ORDINALS):
        return _ORDINALS[rank - 1]
    end = "th" if rank % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th")
    return f"{rank}{end}"
