"""The manifest of a trained fusion: what it may be used with, and what its training recorded.

`train.report.FusionReport` adds the figures of the training, which no search needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

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
