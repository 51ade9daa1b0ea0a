"""The calibrated confidence of a pipeline: `.surefind/models/confidence/KEY.json`, by `surefind calibrate confidence`.

There is one for each pipeline and layout. It holds as long as the indexes are of the same kind and at least half of the
documents are those of the calibration; otherwise the built-in predictor is used.

The built-in predictors: how likely it is that the first hit answers a query, learnt from public collections.

`benchmarks/confidence.py fit` writes `builtin.json`; docs/results/confidence.md says how well it does on collections
that it has not seen.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from surefind.base.disk.sealed import from_json, read_sealed, to_json, write_sealed
from surefind.base.errors import StoreError
from surefind.base.protocols import Corpus, Retriever, Services
from surefind.base.types import Floats
from surefind.engine.confidence.predictor import LogisticModel, SavedModel
from surefind.engine.confidence.signals import NAMES, Kind, without_meaning
from surefind.engine.inference.provenance import MIN_SHARED, alike
from surefind.engine.store.database import FileVersion, file_version

FILE = "builtin.json"


@dataclass(frozen=True, eq=False)
class Builtin:
    predictors: Mapping[Kind, LogisticModel]
    encoder: str
    """The index spec of the dense retriever whose cosines it knows."""
    collections: int

    def __call__(self, kind: Kind, values: Floats, encoder: str) -> Floats:
        """The probability for each query. The cosines of another encoder mean something else and are left out."""
        if encoder and encoder != self.encoder:
            kind, values = without_meaning(kind, values)
        return self.predictors[kind](values)

    @property
    def words(self) -> str:
        """What it was calibrated on."""
        return f"questions of {self.collections} public collections"


@cache
def builtin() -> Builtin:
    data = json.loads(files("surefind.engine.confidence").joinpath(FILE).read_text(encoding="utf-8"))
    predictors = {kind: LogisticModel.of(SavedModel(**model)) for kind, model in data["predictors"].items()}
    return Builtin(predictors, data["encoder"], len(data["collections"]))


FOLDER = "confidence"
FORMAT = 3


@dataclass(frozen=True, eq=False)
class Answering:
    """The predictors that were fitted on an exam, and what they are valid for."""

    predictors: Mapping[Kind, LogisticModel]
    """One for searches that read their first hits, one for those that do not."""
    indexes: tuple[str, ...]
    """The index specs of the retrievers."""
    corpus: str
    """The fingerprint of the documents."""
    documents: tuple[int, ...]
    """Their sketch."""
    words: str
    """What it was calibrated on."""

    def refused(self, indexes: Sequence[str], corpus: Corpus) -> str:
        """Why it does not hold here; "" if it does."""
        if tuple(indexes) != self.indexes:
            return "the indexes are others"
        changed = corpus.fingerprint != self.corpus and not _alike(self.documents, corpus.sketch)
        return "most documents are others" if changed else ""


class Probability(NamedTuple):
    p: float
    words: str
    """What it was calibrated on."""
    own: bool
    """Whether that were questions about these documents."""


def probability(
    services: Services, pipeline: str, retrievers: Sequence[Retriever], corpus: Corpus, kind: Kind, values: Floats
) -> Probability:
    """Returns the probability that the first hit answers a query with these signals."""
    indexes = [retriever.index_spec(services) for retriever in retrievers]
    why = ""
    try:
        own = find_answering(services.models_folder, pipeline, corpus.layout)
        if own is not None and kind in own.predictors:
            why = own.refused(indexes, corpus)
            if not why:
                return Probability(float(own.predictors[kind](values)[0]), own.words, True)
    except StoreError as error:
        why = str(error)
    encoder = next((index for r, index in zip(retrievers, indexes, strict=True) if r.signal == "dense"), "")
    words = builtin().words + (f"; your own calibration was not used: {why}" if why else "")
    return Probability(float(builtin()(kind, values, encoder)[0]), words, False)


@lru_cache(maxsize=32)
def place_of(folder: Path, pipeline: str, layout: str) -> Path:
    key = hashlib.blake2b(f"{layout}\0{pipeline}".encode(), digest_size=8).hexdigest()
    return folder / FOLDER / f"{key}.json"


@dataclass(frozen=True, kw_only=True)
class SavedConfidence:
    """A calibration as it is saved. The report of `surefind calibrate confidence` adds its figures."""

    format: int = FORMAT
    pipeline: str
    layout: str
    indexes: tuple[str, ...]
    corpus: str
    documents: tuple[int, ...]
    predictors: Mapping[Kind, SavedModel]
    words: str


def write_answering(folder: Path, saved: SavedConfidence) -> Path:
    """Saves a calibration for its pipeline and layout."""
    place = place_of(folder, saved.pipeline, saved.layout)
    place.parent.mkdir(parents=True, exist_ok=True)
    write_sealed(place, to_json(saved))
    return place


def find_answering(folder: Path | None, pipeline: str, layout: str) -> Answering | None:
    """Returns the calibration of a pipeline; None if there is none. Raises `StoreError` if it is damaged."""
    if folder is None:
        return None
    place = place_of(folder, pipeline, layout)
    try:
        return read_answering(place, file_version(place))
    except FileNotFoundError:
        return None


@lru_cache(maxsize=32)
def read_answering(path: Path, version: FileVersion) -> Answering:
    """`version` is part of the cache key, so that a new calibration is read."""
    try:
        saved = from_json(SavedConfidence, read_sealed(path, FORMAT))
        predictors = {kind: LogisticModel.of(model) for kind, model in saved.predictors.items()}
        if any(kind not in NAMES or len(model.weights) != len(NAMES[kind]) for kind, model in predictors.items()):
            raise ValueError("its predictor is not sound")
        return Answering(predictors, saved.indexes, saved.corpus, saved.documents, saved.words)
    except ValueError as error:
        raise StoreError(
            f"The calibration {path} cannot be used ({error}). Make it again with: surefind calibrate confidence."
        ) from error


@lru_cache(maxsize=32)
def _alike(then: tuple[int, ...], now: tuple[int, ...]) -> bool:
    return alike(then, now) >= MIN_SHARED
