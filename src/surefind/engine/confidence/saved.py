"""A calibrated threshold on disk: `.surefind/models/NAME/calibration.json`, written by `surefind calibrate`.

It holds for the documents, the stages before the reranker and the reranker that it was calibrated with, and for no
others.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from surefind.base.disk.records import from_json, to_json
from surefind.base.disk.sealed import digest, read_sealed, write_sealed
from surefind.base.errors import StoreError
from surefind.engine.confidence.measures import When
from surefind.engine.confidence.predictor import LogisticModel, SavedModel
from surefind.engine.store.version import FileVersion, find_named

FILE = "calibration.json"
FORMAT = 1


@dataclass(frozen=True, eq=False)
class Calibration:
    name: str
    stage: str
    """The reranker."""
    path: str
    """The stages before it, in the text form of a pipeline."""
    corpus: str
    """The fingerprint of the documents."""
    when: When
    below: float | None
    """τ: queries with less confidence are reranked. None if no threshold keeps the promise: all are reranked."""
    predictor: LogisticModel | None
    training_questions: frozenset[str]
    """The questions that chose the threshold, as `question_key` writes them."""
    stamp: str
    """A hash of the file's content."""

    def refused(self, stage: str, path: str, corpus: str) -> str:
        """Why the threshold does not hold here; "" if it does."""
        if stage != self.stage:
            return f"it was calibrated for {self.stage}"
        if path != self.path:
            return f"it was calibrated after {self.path}"
        return "the documents changed since" if corpus != self.corpus else ""


@dataclass(frozen=True, kw_only=True)
class SavedThreshold:
    """A calibration as it is saved. The report of `surefind calibrate` adds its figures."""

    format: int = FORMAT
    name: str
    stage: str
    path: str
    corpus: str
    when: When
    below: float | None
    predictor: SavedModel | None
    learnt: tuple[str, ...]

    def __post_init__(self) -> None:
        if (self.when == "predicted") != (self.predictor is not None):
            raise ValueError("its measure of confidence is not known")


def write_calibration(folder: Path, saved: SavedThreshold) -> Path:
    """Saves a calibration under its name."""
    place = folder / saved.name / FILE
    place.parent.mkdir(parents=True, exist_ok=True)
    write_sealed(place, to_json(saved))
    return place


def find_calibration(folder: Path | None, name: str) -> Calibration:
    """Reads a calibration by its name."""
    advice = "Make one with: surefind calibrate cross_encoder --exam NAME."
    return _read(*find_named(folder, name, FILE, "calibration called", advice))


@lru_cache(maxsize=8)
def _read(path: Path, version: FileVersion) -> Calibration:
    """`version` is part of the cache key, so that a new calibration of the same name is read."""
    try:
        data = read_sealed(path, FORMAT)
        saved = from_json(SavedThreshold, data)
        return Calibration(
            saved.name,
            saved.stage,
            saved.path,
            saved.corpus,
            saved.when,
            saved.below,
            None if saved.predictor is None else LogisticModel.of(saved.predictor),
            frozenset(saved.learnt),
            digest(data),
        )
    except ValueError as error:
        raise StoreError(
            f"The calibration in {path.parent} cannot be used ({error}). Make it again with: surefind calibrate."
        ) from error
