"""A sentence encoder in ONNX form: tokenizer.json + model.onnx + config.json in a folder.

The graph takes `input_ids`, `attention_mask` and `token_type_ids` and gives `embedding`, pooled and of unit
length. Texts are sorted by length and batched to about the same number of tokens each, because a batch costs
what its longest text costs.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from surefind.errors import CorruptIndexError, MissingPartError
from surefind.protocols import Progress
from surefind.types import FloatArray

_BATCH_TOKENS = 4096
_MAX_BATCH = 64
_MAX_CHARACTERS = 20_000
"""More text than any encoder here reads; cut before tokenizing so that a huge text costs no more."""


class OnnxEncoder:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._config = _config(folder)
        self._session: Any = None
        self._tokenizer: Any = None

    @property
    def dimension(self) -> int:
        return int(self._config["dimension"])

    @property
    def fingerprint(self) -> str:
        return f"{self._config['name']}:{self._config['sha256']['model.onnx'][:16]}:{self._config['max_tokens']}"

    def embed(self, texts: Sequence[str], progress: Progress | None = None) -> FloatArray:
        self._load()
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        encodings = self._tokenizer.encode_batch([text[:_MAX_CHARACTERS] for text in texts])
        lengths = [len(encoding.ids) for encoding in encodings]
        done = 0
        for batch in _batches(lengths):
            ids = np.zeros((len(batch), lengths[batch[0]]), dtype=np.int64)
            mask = np.zeros_like(ids)
            for row, i in enumerate(batch):
                ids[row, : lengths[i]] = encodings[i].ids
                mask[row, : lengths[i]] = 1
            inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
            vectors[batch] = self._session.run(["embedding"], inputs)[0]
            done += len(batch)
            if progress:
                progress(done, len(texts))
        return vectors

    def _load(self) -> None:
        if self._session is not None:
            return
        import onnxruntime
        from tokenizers import Tokenizer

        _check(self._folder, self._config["sha256"])
        tokenizer = Tokenizer.from_file(str(self._folder / "tokenizer.json"))
        tokenizer.enable_truncation(self._config["max_tokens"])
        tokenizer.no_padding()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = os.cpu_count() or 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._tokenizer = tokenizer
        self._session = onnxruntime.InferenceSession(
            str(self._folder / "model.onnx"), options, providers=["CPUExecutionProvider"]
        )


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Positions grouped so that each group, padded to its longest, holds about `_BATCH_TOKENS`."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    at = 0
    while at < len(order):
        size = max(1, min(_MAX_BATCH, _BATCH_TOKENS // max(1, lengths[order[at]])))
        yield order[at : at + size]
        at += size


def _config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise MissingPartError(f"There is no model in {folder} (config.json is missing).") from None


def _check(folder: Path, expected: dict[str, str]) -> None:
    for name, digest in expected.items():
        with (folder / name).open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                raise CorruptIndexError(
                    f"The model file {folder / name} is damaged (SHA-256 differs). Install it again."
                )
