"""Checks whether a trained model may be used: with the retrievers, the layout and the documents of its training.

Retrievers with other parameters, another encoder, another depth or another layout give scores that the model has never
seen, so it must not be used with them. Documents change every day, and a few new ones do not change the distribution of
scores. As long as at least `MIN_SHARED` of the documents are those of the training, the model is used and the trace
says how many changed. Below that, the corpus counts as another one.

The manifest of a trained fusion: what it may be used with, and what its training recorded.

`train.report.FusionReport` adds the figures of the training, which no search needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from surefind.base.protocols import SKETCH, Corpus, Retriever, Services
from surefind.base.spec import parse_spec
from surefind.base.types import ExamName

FORMAT = 4


@dataclass(frozen=True)
class TrainedRetriever:
    """A retriever of the training."""

    spec: str
    index: str
    name: str
    signal: str


@dataclass(frozen=True, kw_only=True)
class FusionManifest:
    format: int = FORMAT
    name: str
    model: str
    """The kind of model."""
    corpus: str
    """The fingerprint of the documents."""
    layout: str
    depth: int
    missing: Literal["score"] | None
    retrievers: tuple[TrainedRetriever, ...]
    embedder: str
    exam: ExamName
    metrics: Mapping[str, Any]
    """R², SHAP values and the like, by the kind of model."""
    files: Mapping[str, tuple[int, int]] | None = None
    """The size and the checksum of each file of a saved model."""


@dataclass(frozen=True, kw_only=True)
class FusionTraining:
    """What is too long for the manifest."""

    documents: tuple[int, ...]
    """A sketch of the documents."""
    learnt: tuple[str, ...]
    """The keys (`question_key`) of the questions of the training."""
    alphas: tuple[tuple[float, float, str], ...]
    """α*, the predicted α and the family of held-out questions."""


MIN_SHARED = 0.5
"""Smallest share of documents in common with the training."""


def differences(
    manifest: FusionManifest,
    documents: Sequence[int],
    retrievers: Sequence[Retriever],
    depth: int,
    corpus: Corpus,
    services: Services,
) -> list[str]:
    """Every reason not to use the model, each with the value now and the value in training. `documents` is the sketch
    of those of the training."""
    trained = manifest.retrievers
    if [r.name for r in retrievers] != [r.name for r in trained]:
        return [f"the retrievers are {_listed(retrievers)}, not {' + '.join(r.spec for r in trained)}"]
    reasons = [text for now, then in zip(retrievers, trained, strict=True) for text in _changed(now, then, services)]
    if depth != manifest.depth:
        reasons.append(f"each retriever returns {depth} candidates, not {manifest.depth}")
    if corpus.layout != manifest.layout:
        reasons.append(f"documents are cut by {corpus.layout}, not {manifest.layout}")
    same = alike(documents, corpus.sketch)
    if same < MIN_SHARED:
        reasons.append(f"{1 - same:.0%} of the documents are different")
    return reasons


def drift(manifest: FusionManifest, documents: Sequence[int], corpus: Corpus) -> str:
    """A note on documents that changed, if the model may still be used; "" if none changed."""
    if manifest.corpus == corpus.fingerprint:
        return ""
    share = 1 - alike(documents, corpus.sketch)
    return f"{share:.1%} of the documents changed since the model was trained" if share else ""


def alike(then: Sequence[int], now: Sequence[int]) -> float:
    """Estimates the share of documents that two corpora have in common (Jaccard) from their sketches.

    A sketch holds the smallest hashes. Up to the largest hash that both sketches reach, they are a random sample
    (bottom-k; Broder 1997). Exact if both sketches are complete.
    """
    reach = min((max(sketch) for sketch in (then, now) if len(sketch) >= SKETCH), default=None)
    union = [digest for digest in {*then, *now} if reach is None or digest <= reach]
    both = {*then} & {*now}
    return sum(digest in both for digest in union) / len(union) if union else 1.0


def _changed(now: Retriever, then: TrainedRetriever, services: Services) -> list[str]:
    before, after = parse_spec(then.spec)[1], parse_spec(str(now))[1]
    reasons = [
        f"{now.name}'s {key} is {after.get(key)}, not {before.get(key)}"
        for key in {**before, **after}
        if before.get(key) != after.get(key)
    ]
    index = now.index_spec(services)
    if not reasons and index != then.index:
        reasons.append(f"{now.name} searches another index ({index}, not {then.index})")
    return reasons


def _listed(retrievers: Sequence[Retriever]) -> str:
    return " + ".join(map(str, retrievers))
