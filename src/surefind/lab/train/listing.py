"""Lists what was trained: fusions, encoders, rerankers and prompts, and whether each can be used now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from surefind.base.disk.records import to_json
from surefind.kb import KnowledgeBase
from surefind.lab.train.fusion import UnreadableModel, manifests
from surefind.lab.train.kept import stopped_trainings, trained_models
from surefind.lab.train.report import FusionReport, ModelReport, PromptReport, prompt_reports


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
