"""Saves and lists trained encoders and rerankers.

Lists what was trained: fusions, encoders, rerankers and prompts, and whether each can be used now.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surefind.base.disk.sealed import from_json, list_files, replace_folder, to_json, write_sealed
from surefind.engine.inference.folder import RECORD, record_of
from surefind.kb import KnowledgeBase
from surefind.lab.train.fusion import UnreadableModel, manifests
from surefind.lab.train.report import FusionReport, ModelReport, PromptReport, prompt_reports


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


@dataclass(frozen=True)
class TrainedThing:
    name: str
    text: str
    """Its kind, the exam, the pipeline and its state, in one line."""
    data: Mapping[str, Any]
    """The same with its report, for JSON."""


def trained_things(kb: KnowledgeBase) -> list[TrainedThing]:
    """Everything that was trained in a knowledge base."""
    corpus = kb.reader().fingerprint
    things = []
    for trained in (*manifests(kb), *trained_models(kb)):
        if isinstance(trained, UnreadableModel):
            things.append(TrainedThing(trained.name, trained.unreadable, to_json(trained)))
        else:
            things.append(_listed(trained.report, trained.changed, trained.drift))
    for stopped in stopped_trainings(kb):
        text = f"stopped: run the same command to continue, or delete {stopped.stopped}"
        things.append(TrainedThing(stopped.name, text, to_json(stopped)))
    # A prompt keeps working after documents change, unlike a fusion model, so this is only a remark.
    for prompt in prompt_reports(kb.data / "models"):
        things.append(_listed(prompt, (), "documents changed since it was trained" if prompt.corpus != corpus else ""))
    return things


def _listed(report: FusionReport | ModelReport | PromptReport, changed: tuple[str, ...], drift: str) -> TrainedThing:
    refusal = f"cannot be used: {'; '.join(changed)}; train again" if changed else ""
    if isinstance(report, PromptReport):
        kind, where = report.step, report.pipeline
    else:
        kind, where = report.model, " + ".join(retriever.spec for retriever in report.retrievers)
    text = f"{kind:<12} {report.exam.name:<18} {where}  {refusal or drift or 'up to date'}"
    return TrainedThing(report.name, text, {**to_json(report), "changed": list(changed), "drift": drift})
