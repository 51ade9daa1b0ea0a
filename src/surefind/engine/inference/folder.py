"""Finds and checks the files in the folder of an ONNX model.

Our folders have `model.onnx`, `tokenizer.json` and a `config.json` with the SHA-256 of both. An export (by optimum,
sentence-transformers or a model hub) has `model.onnx` or `onnx/model.onnx` and `tokenizer.json`. Its
`1_Pooling/config.json` says how token vectors become one vector; without it they are averaged.

Reads the record beside a model that `surefind train encoder | reranker` made: how, and from which questions.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from surefind.base.disk.sealed import check_files, read_sealed
from surefind.base.errors import CorruptIndexError, MissingPartError, SurefindError
from surefind.engine.store.database import FileVersion, file_version

RECORD = "record.json"


def record_of(folder: Path) -> dict[str, Any]:
    """The record of a model; empty for a model from elsewhere. Raises `CorruptIndexError` if it is damaged."""
    path = folder / RECORD
    if not path.is_file():
        return {}
    try:
        return read_sealed(path)
    except (OSError, ValueError) as error:
        raise _damaged(folder, error) from None


def check_record(folder: Path) -> None:
    """Checks the files of a model against its record. Raises `CorruptIndexError` if one differs."""
    try:
        check_files(folder, record_of(folder).get("files", {}))
    except (OSError, ValueError) as error:
        raise _damaged(folder, error) from None


def _damaged(folder: Path, error: Exception) -> CorruptIndexError:
    return CorruptIndexError(f"The model in {folder} is damaged ({error}). Train it again, or restore a backup.")


def questions_trained_on(folder: Path) -> frozenset[str]:
    """Keys (`question_key`) of the exam questions that the model was trained on."""
    return frozenset(map(str, record_of(folder).get("learnt", ())))


_GRAPHS = ("model.onnx", "onnx/model.onnx")
_POOLINGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean",  # same direction as the mean
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
KNOWN_POOLINGS = ("cls", "lasttoken", "max", "mean")
_PLAIN_MODULES = ("Transformer", "Pooling", "Normalize")


@dataclass(frozen=True)
class OnnxFolder:
    folder: Path
    model: Path
    config: dict[str, Any] = field(default_factory=dict)
    """The `config.json` of one of our folders: name, dimension, max_tokens, sha256. Empty for an export."""

    @classmethod
    def open(cls, folder: Path) -> OnnxFolder:
        config = _json(folder / "config.json")
        if "sha256" in config:
            return cls(folder, folder / "model.onnx", config)
        model = next((folder / name for name in _GRAPHS if (folder / name).is_file()), None)
        if model is None or not (folder / "tokenizer.json").is_file():
            missing = "tokenizer.json" if model else " or ".join(_GRAPHS)
            raise MissingPartError(f"There is no model in {folder} ({missing} is missing). Check the path.")
        return cls(folder, model)

    @classmethod
    def found(cls, folder: Path) -> OnnxFolder:
        """The folder of a model that need not have a graph."""
        config = _json(folder / "config.json")
        return cls(folder, folder / "model.onnx", config if "sha256" in config else {})

    @property
    def query_prefix(self) -> str:
        """What the model was trained to read before a question; empty for an export of others, which does not say."""
        return str(self.config.get("query_prefix", ""))

    @property
    def passage_prefix(self) -> str:
        """What the model was trained to read before a passage."""
        return str(self.config.get("passage_prefix", ""))

    @property
    def tokenizer(self) -> Path:
        return self.folder / "tokenizer.json"

    @property
    def identity(self) -> str:
        """Identifies the model: by its config if the folder is ours (`check` verifies it), else by its files."""
        if self.config:
            digests = self.config["sha256"]
            return f"{self.config['name']}:{digests.get('weights.bin', digests['model.onnx'])[:16]}"
        return f"{self.folder.resolve().name}:{self._digest}"

    @cached_property
    def _digest(self) -> str:
        """Covers weights beside the graph too, where large models keep them (`model.onnx_data`)."""
        parts = [_sha256(path) for path in (*sorted(self.model.parent.glob("model.onnx*")), self.tokenizer)]
        return hashlib.sha256("".join(parts).encode()).hexdigest()[:16]

    def check(self) -> None:
        """Checks the model's files against its config, and against its record if it was trained here."""
        check_record(self.folder)
        for name, digest in self.config.get("sha256", {}).items():
            if not (self.folder / name).is_file():
                raise MissingPartError(f"There is no model in {self.folder} ({name} is missing). Install it again.")
            if _sha256(self.folder / name) != digest:
                raise CorruptIndexError(
                    f"The model file {self.folder / name} is damaged (SHA-256 differs). Install it again."
                )

    def pooling(self) -> str:
        """How token vectors become one vector."""
        if self.config:
            return str(self.config.get("pooling", "mean"))
        extra = [kind for kind in self._modules() if kind not in _PLAIN_MODULES]
        if extra:
            raise SurefindError(
                f"The model in {self.folder} has a further step ({extra[0]}) that its ONNX graph leaves out. "
                f"Export it with that step inside, or use sentence_transformers(model={self.folder})."
            )
        config = _json(self.folder / "1_Pooling" / "config.json")
        modes = [name for key, name in _POOLINGS.items() if config.get(key)] or [config.get("pooling_mode", "mean")]
        if len(modes) > 1 or modes[0] not in KNOWN_POOLINGS:
            raise SurefindError(
                f"The model in {self.folder} pools by {modes}; known are {', '.join(KNOWN_POOLINGS)}. "
                f"Use sentence_transformers(model={self.folder})."
            )
        return str(modes[0])

    def _modules(self) -> list[str]:
        path = self.folder / "modules.json"
        listed = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
        return [str(module["type"]).rpartition(".")[2] for module in listed]


def graph_version(folder: Path) -> FileVersion | None:
    """The version of the graph's file; None if there is no graph."""
    return next((file_version(folder / name) for name in _GRAPHS if (folder / name).is_file()), None)


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except ValueError:
        raise CorruptIndexError(f"The model file {path} is not a JSON object. Install the model again.") from None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
