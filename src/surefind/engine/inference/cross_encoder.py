"""Runs a cross-encoder in ONNX form, from one of our folders or an export, on the CPU.

Pairs run one at a time, one per core, longest first, for the same reason as texts in the encoder: an int8 model scales
its activations over the batch, so in a batch a passage's score would depend on its neighbours (docs/results/rerank.md
shows how much, and that batches are no faster).

Encodes a query and a passage as one row of tokens: `[CLS] query [SEP] title text [SEP]`, at most `max_tokens`.

Of a passage that does not fit, only the window that fits the query best is read. Windows overlap by half. A window's
score is the sum of the query's tokens in it, each weighted by how few windows contain it (so that a word on every line
decides nothing). The title is kept, cut to a third of the room if necessary.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from surefind.base.errors import SurefindError
from surefind.base.running import Workers, all_cores, usable_cores
from surefind.base.types import Chunk, Floats
from surefind.engine.inference.encoder import open_session
from surefind.engine.inference.folder import OnnxFolder

_MAX_CHARACTERS = 50_000
"""Longer passages are cut before tokenizing, so that a huge text costs no more; this is many times what fits."""
_QUERY_SHARE, _TITLE_SHARE = 2, 3
"""A query may fill a half of the row, a title a third of what the query leaves."""


class PairTokenizer:
    def __init__(self, file: Path, max_tokens: int) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(file))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._room = max_tokens - self._tokenizer.num_special_tokens_to_add(True)

    def query(self, text: str) -> Any:
        """Encodes a query, once for all passages."""
        encoding = self._encode(text)
        encoding.truncate(max(1, self._room // _QUERY_SHARE))
        return encoding

    def pair(self, query: Any, title: str, text: str) -> Any:
        """Returns an `Encoding` with ids, attention mask and types."""
        room = self._room - len(query.ids)
        parts = []
        if title:
            heading = self._encode(title)
            heading.truncate(max(1, room // _TITLE_SHARE))
            room -= len(heading.ids)
            parts.append(heading)
        parts.append(best_window(self._encode(text), set(query.ids), max(1, room)))
        merged = type(query).merge(parts, growing_offsets=False)
        return self._tokenizer.post_process(query, merged)

    def _encode(self, text: str) -> Any:
        """Encodes a text; replaces lone surrogates, which the tokenizer refuses."""
        readable = text[:_MAX_CHARACTERS].encode("utf-8", "replace").decode()
        return self._tokenizer.encode(readable, add_special_tokens=False)


def best_window(encoding: Any, wanted: set[int], size: int) -> Any:
    """The window of at most `size` tokens with the highest weight of wanted tokens; the first among equals."""
    if len(encoding.ids) <= size:
        return encoding
    encoding.truncate(size, stride=size // 2)
    windows = [encoding, *encoding.overflowing]
    held = [wanted.intersection(window.ids) for window in windows]
    weights = {
        token: math.log((len(windows) + 1) / sum(token in window for window in held)) for token in set().union(*held)
    }
    return windows[max(range(len(windows)), key=lambda i: (sum(weights[t] for t in sorted(held[i])), -i))]


def title_of(chunk: Chunk) -> str:
    """The text that the model reads before a passage: its context from enrichers, or its headings."""
    return chunk.context or " > ".join(chunk.headings)


MAX_TOKENS = 256
_TYPES = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}


class OnnxCrossEncoder:
    def __init__(self, folder: Path, max_tokens: int | None = None) -> None:
        self._files = OnnxFolder.open(folder)
        self._max_tokens = max_tokens or int(self._files.config.get("max_tokens", MAX_TOKENS))
        self.spread = float(self._files.config.get("spread", 0.0))
        self._lock = threading.Lock()
        self._pairs: PairTokenizer | None = None

    @property
    def identity(self) -> str:
        return f"{self._files.identity}:{self._max_tokens}"

    def score(self, query: str, passages: Sequence[Chunk], max_ms: float | None = None) -> Floats:
        """The model's logit for each passage. With `max_ms`, passages are scored in order, and only those begun in
        time; the first is always scored, so that a slow machine returns something too."""
        end = time.perf_counter() + max_ms / 1000 if max_ms is not None else None
        tokenizer = self._load()
        query_tokens = tokenizer.query(query)

        def one(i: int) -> float | None:
            if end is not None and i > 0 and time.perf_counter() > end:
                return None
            return self._run(tokenizer.pair(query_tokens, title_of(passages[i]), passages[i].text))

        order = range(len(passages)) if end is not None else _longest_first(passages)
        scores = np.full(len(passages), np.nan)
        with all_cores(), Workers(usable_cores()) as workers:
            for i, score in zip(order, workers.map(one, order), strict=True):
                scores[i] = np.nan if score is None else score
        late = np.isnan(scores)
        return scores[: int(late.argmax()) if late.any() else len(scores)]

    def _run(self, pair: Any) -> float:
        session = open_session(self._files.model, 1)
        try:
            logits = np.asarray(session.run(None, self._feed(session, pair))[0], dtype=np.float64)
        except SurefindError:
            raise
        except Exception as error:  # onnxruntime's errors have no common base class
            raise SurefindError(
                f"The model {self._files.model} failed on {len(pair.ids)} tokens: {error}. Try a lower max_tokens."
            ) from error
        if logits.size != 1 or not np.isfinite(logits).all():
            raise SurefindError(
                f"The model {self._files.model} gives {logits.size} numbers for a passage ({logits.ravel()[:3]}); a "
                "reranker gives one finite number. Use a cross-encoder with one label."
            )
        return float(logits.reshape(()))

    def _feed(self, session: Any, pair: Any) -> dict[str, Any]:
        known = {"input_ids": pair.ids, "attention_mask": pair.attention_mask, "token_type_ids": pair.type_ids}
        inputs = session.get_inputs()
        unknown = [put.name for put in inputs if put.name not in known or put.type not in _TYPES]
        if unknown:
            raise SurefindError(
                f"The model {self._files.model} needs the inputs {', '.join(unknown)}; a cross-encoder has only "
                f"{', '.join(known)} as integers. Export it again."
            )
        return {put.name: np.array([known[put.name]], dtype=_TYPES[put.type]) for put in inputs}

    def _load(self) -> PairTokenizer:
        with self._lock:
            if self._pairs is None:
                self._files.check()
                self._pairs = PairTokenizer(self._files.tokenizer, self._max_tokens)
            return self._pairs


def _longest_first(passages: Sequence[Chunk]) -> list[int]:
    """The order of the passages by length, so that no core is left with a long one at the end."""
    return sorted(range(len(passages)), key=lambda i: -len(passages[i].text))
