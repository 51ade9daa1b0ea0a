"""Trained encoders and rerankers on disk: moved into place, listed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from surefind.inference.record import RECORD, record_of
from surefind.kb import KnowledgeBase
from surefind.train.adopt import UNDO


def keep(model: Path, place: Path, manifest: dict[str, Any]) -> None:
    """Moved into place whole: a reader sees the old model or the new one."""
    (model / RECORD).write_text(json.dumps(manifest, ensure_ascii=False, indent=1), encoding="utf-8")
    for file in UNDO:  # the one before may be in use
        if (place / file).is_file():
            shutil.copy(place / file, model / file)
    old = place.with_name(f".{place.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if place.exists():
        place.rename(old)
    model.rename(place)
    shutil.rmtree(old, ignore_errors=True)


def trained_models(kb: KnowledgeBase) -> list[dict[str, Any]]:
    """Every encoder and reranker trained here, with `changed` and `drift` as other trained models have them."""
    corpus = kb.reader().fingerprint
    found = []
    for path in sorted((kb.data / "models").glob(f"[!.]*/{RECORD}")):
        record = record_of(path.parent)
        if record.get("model") in ("encoder", "reranker"):
            drift = "documents changed since it was trained" if record["corpus"] != corpus else ""
            shown = {key: value for key, value in record.items() if key != "learnt"}
            found.append({**shown, "changed": [], "drift": drift})
    return found


def stopped_trainings(kb: KnowledgeBase) -> list[dict[str, Any]]:
    """Trainings that were stopped and can go on, each with the folder that waits for that."""
    found = sorted((kb.data / "models").glob(".*.training/checkpoint.pt"))
    names = [(path.parent.name.removeprefix(".").removesuffix(".training"), path.parent) for path in found]
    return [{"name": name, "stopped": str(folder)} for name, folder in names]
