"""A sentence encoder in ONNX form: tokenizer.json + model.onnx + config.json in a folder.

The graph takes `input_ids`, `attention_mask` and `token_type_ids` and gives `embedding`, pooled and of unit
length.

Texts are run one at a time, spread over the cores, longest first. An int8 model scales its activations over the
whole batch, so that in a batch a text's vector depends on its neighbours (cosine down to 0.986 to itself): the
same folder would not give the same index twice. One text per call and one core per text is as fast as batches
(docs/results/foundation.md) and needs no padding.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from surefind.errors import CorruptIndexError, MissingPartError
from surefind.protocols import Progress
from surefind.types import FloatArray

_MAX_CHARACTERS = 20_000
"""More text than any encoder here reads; cut before tokenizing so that a huge text costs no more."""
_CORES = os.cpu_count() or 1


class OnnxEncoder:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._config = _config(folder)
        self._lock = threading.Lock()
        self._tokenizer: Any = None

    @property
    def dimension(self) -> int:
        return int(self._config["dimension"])

    @property
    def fingerprint(self) -> str:
        """Ends in 1 for one text a call."""
        weights = self._config["sha256"]["model.onnx"][:16]
        return f"{self._config['name']}:{weights}:{self._config['max_tokens']}:1"

    def embed(self, texts: Sequence[str], progress: Progress | None = None) -> FloatArray:
        self._load()
        tokens = [encoding.ids for encoding in self._tokenizer.encode_batch([_readable(text) for text in texts])]
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        if len(texts) == 1:
            vectors[0] = self._run(tokens[0], _CORES)
            return vectors
        order = sorted(range(len(texts)), key=lambda i: -len(tokens[i]))
        with ThreadPoolExecutor(_CORES) as pool:
            found = pool.map(lambda i: self._run(tokens[i], 1), order)
            for done, (i, vector) in enumerate(zip(order, found, strict=True), 1):
                vectors[i] = vector
                if progress:
                    progress(done, len(order))
        return vectors

    def _run(self, ids: list[int], threads: int) -> FloatArray:
        row = np.array([ids], dtype=np.int64)
        inputs = {"input_ids": row, "attention_mask": np.ones_like(row), "token_type_ids": np.zeros_like(row)}
        return np.asarray(_session(self._folder, threads).run(["embedding"], inputs)[0][0], dtype=np.float32)

    def _load(self) -> None:
        with self._lock:
            if self._tokenizer is None:
                from tokenizers import Tokenizer

                _check(self._folder, self._config["sha256"])
                tokenizer = Tokenizer.from_file(str(self._folder / "tokenizer.json"))
                tokenizer.enable_truncation(self._config["max_tokens"])
                tokenizer.no_padding()
                self._tokenizer = tokenizer


def _readable(text: str) -> str:
    """Cut, and without half characters, which the tokenizer refuses."""
    return text[:_MAX_CHARACTERS].encode("utf-8", "replace").decode()


@cache
def _session(folder: Path, threads: int) -> Any:
    """A single text uses every core; of many, each uses one."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])


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
