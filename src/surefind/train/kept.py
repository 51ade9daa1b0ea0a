"""Saves and lists trained encoders and rerankers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from surefind.disk.replacing import replace_folder
from surefind.disk.sealed import list_files, write_sealed
from surefind.inference.record import RECORD, record_of
from surefind.kb import KnowledgeBase


def keep(model: Path, place: Path, manifest: dict[str, Any]) -> None:
    """Moves a model into place by renaming, so that a reader sees the whole old or new model."""
    write_sealed(model / RECORD, {**manifest, "files": list_files(model)})
    replace_folder(model, place)


def trained_models(kb: KnowledgeBase) -> list[dict[str, Any]]:
    """The records of all encoders and rerankers trained here, with `changed` and `drift` like other trained models."""
    corpus = kb.reader().fingerprint
    found = []
    for path in sorted((kb.data / "models").glob(f"[!.]*/{RECORD}")):
        record = record_of(path.parent)
        if record.get("model") in ("encoder", "reranker"):
            drift = "documents changed since it was trained" if record["corpus"] != corpus else ""
            shown = {key: value for key, value in record.items() if key not in ("learnt", "files")}
            found.append({**shown, "changed": [], "drift": drift})
    return found


def stopped_trainings(kb: KnowledgeBase) -> list[dict[str, Any]]:
    """Trainings that were stopped and can be resumed, each with its folder."""
    found = sorted((kb.data / "models").glob(".*.training/checkpoint.pt"))
    names = [(path.parent.name.removeprefix(".").removesuffix(".training"), path.parent) for path in found]
    return [{"name": name, "stopped": str(folder)} for name, folder in names]
