"""Prompts that `surefind train prompt` made from an exam's tuning half, stored with the knowledge base's models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from surefind.base.disk.sealed import from_json, read_sealed, to_json, write_sealed
from surefind.base.errors import SpecError, StoreError
from surefind.engine.store.database import FileVersion, find_named

if TYPE_CHECKING:
    from surefind.base.protocols import Services

FILE = "prompt.json"
_FORMAT = 1


@dataclass(frozen=True)
class RankedExample:
    """A query with its passages and their right order (numbers from 1)."""

    query: str
    passages: tuple[str, ...]
    ranking: tuple[int, ...]


@dataclass(frozen=True)
class Weighed:
    """A query with a description of each method's scores, and the weights that were best for it."""

    query: str
    scores: str
    weights: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class TrainedPrompt:
    name: str
    kind: str
    """The step that the prompt is for: `llm_listwise` or `llm_weights`."""
    learnt: tuple[str, ...]
    """Keys (`fuse.learned.question_key`) of the questions it was made from; `surefind bench` leaves these out."""
    system: str = ""
    example: RankedExample | None = None
    weighed: tuple[Weighed, ...] = ()


def save_prompt(folder: Path, made: TrainedPrompt, report: Mapping[str, object]) -> Path:
    """Saves a prompt and the report of its training."""
    place = folder / made.name
    place.mkdir(parents=True, exist_ok=True)
    write_sealed(place / FILE, {"format": _FORMAT, "prompt": to_json(made), "report": report})
    return place


def trained_prompt(services: Services, name: str | None, kind: str = "llm_listwise") -> TrainedPrompt:
    advice = "Make one with: surefind train prompt --exam NAME."
    made = read_prompt(*find_named(services.models_folder, name or "", FILE, "trained prompt", advice))
    if made.kind != kind:
        raise SpecError(f"The trained prompt {name!r} is for {made.kind}, not for {kind}.")
    return made


def saved_prompts(folder: Path) -> list[tuple[Path, Mapping[str, object]]]:
    """The files of all trained prompts in the folder, and the report in each."""
    return [(path, _read(path)[1]) for path in sorted(folder.glob(f"[!.]*/{FILE}"))]


@lru_cache(maxsize=16)
def read_prompt(path: Path, version: FileVersion) -> TrainedPrompt:
    """Reads a prompt; `version` is a cache key, so that a retrained prompt is read again."""
    return _read(path)[0]


def _read(path: Path) -> tuple[TrainedPrompt, Mapping[str, object]]:
    try:
        data = read_sealed(path, _FORMAT)
        return from_json(TrainedPrompt, data["prompt"]), dict(data["report"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: Exception) -> StoreError:
    return StoreError(
        f"The trained prompt in {path.parent} cannot be read ({error}). Make it again with: surefind train prompt."
    )
