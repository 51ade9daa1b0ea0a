"""Prompts that `surefind train prompt` made from an exam's tuning half, stored with the knowledge base's models."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surefind.disk.sealed import read_sealed, write_sealed
from surefind.errors import SpecError, StoreError
from surefind.store.version import FileVersion, file_version, find_named

if TYPE_CHECKING:
    from surefind.protocols import Services

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


def save_prompt(folder: Path, made: TrainedPrompt, report: dict[str, Any]) -> Path:
    """Saves a prompt."""
    place = folder / made.name
    place.mkdir(parents=True, exist_ok=True)
    write_sealed(place / FILE, {"format": _FORMAT, "prompt": asdict(made), "report": report})
    return place


def trained_prompt(services: Services, name: str | None, kind: str = "llm_listwise") -> TrainedPrompt:
    advice = "Make one with: surefind train prompt --exam NAME."
    made, _ = read_prompt(*find_named(services.models_folder, name or "", FILE, "trained prompt", advice))
    if made.kind != kind:
        raise SpecError(f"The trained prompt {name!r} is for {made.kind}, not for {kind}.")
    return made


def trained_prompts(folder: Path) -> list[dict[str, Any]]:
    """The reports of all trained prompts in the folder."""
    return [read_prompt(path, file_version(path))[1] for path in sorted(folder.glob(f"[!.]*/{FILE}"))]


@lru_cache(maxsize=16)
def read_prompt(path: Path, version: FileVersion) -> tuple[TrainedPrompt, dict[str, Any]]:
    """Reads a prompt and its training report; `version` is a cache key, so that a retrained prompt is read again."""
    try:
        data = read_sealed(path, _FORMAT)
        prompt = dict(data["prompt"])
        example = prompt.pop("example")
        weighed = prompt.pop("weighed")
        made = TrainedPrompt(
            **{**prompt, "learnt": tuple(prompt["learnt"])},
            example=RankedExample(example["query"], tuple(example["passages"]), tuple(example["ranking"]))
            if example
            else None,
            weighed=tuple(
                Weighed(w["query"], w["scores"], tuple((str(n), float(v)) for n, v in w["weights"])) for w in weighed
            ),
        )
        return made, data["report"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"The trained prompt in {path.parent} cannot be read ({error}). Make it again with: surefind train prompt."
        ) from error
