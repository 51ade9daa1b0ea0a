"""Runs a sentence encoder in ONNX form, from one of our folders or an export (`surefind.engine.inference.folder`).

Our graphs take `input_ids`, `attention_mask` and `token_type_ids` and give `embedding`, pooled and of unit length.
Other graphs get the inputs that they declare. Their output is a text vector (`sentence_embedding`, `embedding`), or
token vectors (`last_hidden_state`, `token_embeddings`), which are pooled; the result is scaled to unit length.

Texts run one at a time, spread over the cores, longest first. An int8 model scales its activations over the whole
batch, so in a batch a text's vector depends on its neighbours (cosine down to 0.986 to itself), and the same folder
would not give the same index twice. One text per call and one core per text is as fast as batches
(docs/results/engine.md) and needs no padding.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from surefind.base.errors import SurefindError
from surefind.base.protocols import Progress
from surefind.base.running import Workers, usable_cores
from surefind.base.types import FloatArray
from surefind.engine.inference.folder import OnnxFolder
from surefind.engine.store.database import FileVersion, file_version

_MAX_CHARACTERS = 20_000
"""Longer texts are cut before tokenizing, so that a huge text costs no more; no encoder here reads as much."""
_MAX_TOKENS = 256
_WHOLE = ("sentence_embedding", "embedding")
_BY_TOKEN = ("last_hidden_state", "token_embeddings")


class OnnxEncoder:
    def __init__(self, folder: Path, max_tokens: int | None = None) -> None:
        self._files = OnnxFolder.open(folder)
        self._max_tokens = max_tokens or int(self._files.config.get("max_tokens", _MAX_TOKENS))
        self._lock = threading.Lock()
        self._tokenizer: Any = None

    @cached_property
    def dimension(self) -> int:
        known = self._files.config.get("dimension")
        if known:
            return int(known)
        self._load()
        return len(self._run(self._tokenizer.encode("dimension").ids))

    @property
    def fingerprint(self) -> str:
        """Identifies the vectors of passages; the final 1 stands for one text per call."""
        return self._prefixed(self._files.passage_prefix)

    @property
    def query_fingerprint(self) -> str:
        """Identifies the vectors of questions."""
        return self._prefixed(self._files.query_prefix)

    def _prefixed(self, prefix: str) -> str:
        plain = f"{self._files.identity}:{self._max_tokens}:1"
        return f"prefixed({plain}, {prefix!r})" if prefix else plain

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        return self._vectors([self._files.query_prefix + text for text in texts])

    def embed(self, texts: Sequence[str], progress: Progress | None = None) -> FloatArray:
        return self._vectors([self._files.passage_prefix + text for text in texts], progress)

    def _vectors(self, texts: Sequence[str], progress: Progress | None = None) -> FloatArray:
        self._load()
        tokens = [encoding.ids for encoding in self._tokenizer.encode_batch([_readable(text) for text in texts])]
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        if len(texts) == 1:  # a question: it takes one core, because a server answers others at the same time
            vectors[0] = self._run(tokens[0])
            return vectors
        order = sorted(range(len(texts)), key=lambda i: -len(tokens[i]))
        with Workers(usable_cores()) as workers:
            vectors_of = workers.map(lambda i: self._run(tokens[i]), order)
            for done, (i, vector) in enumerate(zip(order, vectors_of, strict=True), 1):
                vectors[i] = vector
                if progress:
                    progress(done, len(order))
        return vectors

    def _run(self, ids: list[int]) -> FloatArray:
        model = self._files.model
        session = open_session(model, 1)
        output, inputs = _output(session, model), _inputs(session, model, ids or [0])
        try:
            output_array = np.asarray(session.run([output], inputs)[0][0], dtype=np.float32)
        except Exception as error:  # onnxruntime's errors have no common base class
            raise SurefindError(
                f"The model {model} failed on {len(ids)} tokens: {error}. Try a lower max_tokens."
            ) from error
        return output_array if self._files.config else self._pooled(output_array)

    def _pooled(self, output_array: FloatArray) -> FloatArray:
        vector = output_array if output_array.ndim == 1 else _POOL[self._pooling](output_array)
        return np.asarray(vector / max(float(np.linalg.norm(vector)), 1e-12), dtype=np.float32)

    @cached_property
    def _pooling(self) -> str:
        return self._files.pooling()

    def _load(self) -> None:
        with self._lock:
            if self._tokenizer is None:
                from tokenizers import Tokenizer

                self._files.check()
                tokenizer = Tokenizer.from_file(str(self._files.tokenizer))
                tokenizer.enable_truncation(self._max_tokens)
                tokenizer.no_padding()
                self._tokenizer = tokenizer


def _readable(text: str) -> str:
    """Cuts a text and replaces lone surrogates, which the tokenizer refuses."""
    return text[:_MAX_CHARACTERS].encode("utf-8", "replace").decode()


def _inputs(session: Any, model: Path, ids: list[int]) -> dict[str, Any]:
    """The inputs that this model declares, among those that a sentence encoder may have."""
    row = np.array([ids], dtype=np.int64)
    known = {
        "input_ids": row,
        "attention_mask": np.ones_like(row),
        "token_type_ids": np.zeros_like(row),
        "position_ids": np.arange(len(ids), dtype=np.int64)[None],
    }
    inputs = session.get_inputs()
    unknown = [put.name for put in inputs if put.name not in known or put.type not in _TYPES]
    if unknown:
        raise SurefindError(
            f"The model {model} needs the inputs {', '.join(unknown)}; a sentence encoder has only {', '.join(known)} "
            f"as integers. Export it again."
        )
    return {put.name: known[put.name].astype(_TYPES[put.type], copy=False) for put in inputs}


def _output(session: Any, model: Path) -> str:
    names = [output.name for output in session.get_outputs()]
    for name in (*_WHOLE, *_BY_TOKEN):
        if name in names:
            return name
    if len(names) == 1:
        return str(names[0])
    raise SurefindError(
        f"The model {model} gives {', '.join(names)}; a sentence encoder gives one of "
        f"{', '.join((*_WHOLE, *_BY_TOKEN))}. Export it again."
    )


_POOL = {
    "mean": lambda tokens: tokens.mean(axis=0),
    "cls": lambda tokens: tokens[0],
    "max": lambda tokens: tokens.max(axis=0),
    "lasttoken": lambda tokens: tokens[-1],
}
"""Pooling functions. A text runs alone, without padding, so there is nothing to mask."""
_TYPES = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}


def open_session(model: Path, threads: int) -> Any:
    """Opens a model on `threads` threads, once."""
    return _session(model, threads, file_version(model))


@lru_cache(maxsize=8)
def _session(model: Path, threads: int, version: FileVersion) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors have no common base class
        raise SurefindError(f"The model {model} cannot be loaded: {error}. Export or download it again.") from error
