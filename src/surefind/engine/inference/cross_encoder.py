"""Runs a cross-encoder in ONNX form, from one of our folders or an export, on the CPU.

Pairs run one at a time, one per core, longest first, for the same reason as texts in the encoder: an int8 model scales
its activations over the batch, so in a batch a passage's score would depend on its neighbours (docs/results/rerank.md
shows how much, and that batches are no faster).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from surefind.base.errors import SurefindError
from surefind.base.running.cores import all_cores, usable_cores
from surefind.base.running.workers import Workers
from surefind.base.types import Chunk, Floats
from surefind.engine.inference.encoder import open_session
from surefind.engine.inference.folder import OnnxFolder
from surefind.engine.inference.pairs import PairTokenizer, title_of

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
