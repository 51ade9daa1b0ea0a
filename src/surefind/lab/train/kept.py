"""Saves and lists trained encoders and rerankers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from surefind.base.disk.records import from_json
from surefind.base.disk.replacing import replace_folder
from surefind.base.disk.sealed import list_files, write_sealed
from surefind.engine.inference.record import RECORD, record_of
from surefind.kb import KnowledgeBase
from surefind.lab.train.fusion import UnreadableModel
from surefind.lab.train.report import ModelReport


@dataclass(frozen=True)
class ListedModel:
    """A trained encoder or reranker, and whether documents changed since."""

    report: ModelReport
    drift: str
    changed: tuple[str, ...] = ()
    """Reasons why it cannot be used: none, because it works with any documents."""


@dataclass(frozen=True)
class StoppedTraining:
    name: str
    stopped: str
    """The folder from which it continues."""


def keep(model: Path, place: Path, manifest: Mapping[str, object]) -> None:
    """Moves a model into place by renaming, so that a reader sees the whole old or new model."""
    write_sealed(model / RECORD, {**manifest, "files": list_files(model)})
    replace_folder(model, place)


def trained_models(kb: KnowledgeBase) -> list[ListedModel | UnreadableModel]:
    """All encoders and rerankers that were trained and tested here."""
    corpus = kb.reader().fingerprint
    models: list[ListedModel | UnreadableModel] = []
    for path in sorted((kb.data / "models").glob(f"[!.]*/{RECORD}")):
        record = record_of(path.parent)
        if record.get("model") in ("encoder", "reranker") and "exam" in record:
            try:
                made = from_json(ModelReport, record)
            except ValueError as error:
                says = f"another version of Surefind trained it ({error}); train it again"
                models.append(UnreadableModel(path.parent.name, says))
                continue
            drift = "documents changed since it was trained" if made.corpus != corpus else ""
            models.append(ListedModel(made, drift))
    return models


def stopped_trainings(kb: KnowledgeBase) -> list[StoppedTraining]:
    """Trainings that were stopped and can be resumed, each with its folder."""
    checkpoints = sorted((kb.data / "models").glob(".*.training/checkpoint.pt"))
    names = [(path.parent.name.removeprefix(".").removesuffix(".training"), path.parent) for path in checkpoints]
    return [StoppedTraining(name, str(folder)) for name, folder in names]
