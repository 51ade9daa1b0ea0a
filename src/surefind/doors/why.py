"""Why a passage was found, in words: `second by words, first by meaning`."""

from __future__ import annotations

from collections.abc import Mapping

from surefind.base.types import Hit, Signal
from surefind.engine.search.hooks import label_of
from surefind.engine.search.pipeline import Pipeline

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
