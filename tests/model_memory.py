"""Lets the bundled models compute each vector and each score once in a run of the tests, whichever process asks first.

For tests that use the models and do not test them. The models score one text, or one pair, at a time, so what they
give does not depend on what else is asked.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from surefind.base.types import FloatArray
from surefind.engine.inference.cross_encoder import OnnxCrossEncoder
from surefind.engine.inference.encoder import OnnxEncoder
from surefind.engine.store.vectors import VectorCache


class _Memory:
    """Vectors and scores by what they were computed from: of this process, and of all processes in a file."""

    def __init__(self, path: Path) -> None:
        self._known: dict[bytes, bytes] = {}
        self._shared = VectorCache(path)

    def get(self, source: str, compute: Callable[[], bytes]) -> bytes:
        key = hashlib.blake2b(source.encode(), digest_size=16).digest()
        if key not in self._known:
            found = self._shared.get([key]).get(key)
            if found is None:
                found = compute()
                self._shared.put([(key, found)])
            self._known[key] = found
        return self._known[key]

    def close(self) -> None:
        self._shared.close()


@contextlib.contextmanager
def remembering(path: Path) -> Iterator[None]:
    """Within it, models in this process read and write what they compute in the file `path`."""
    memory = _Memory(path)
    embed, score = OnnxEncoder._run, OnnxCrossEncoder._run

    def vector(self: OnnxEncoder, ids: list[int]) -> FloatArray:
        found = memory.get(f"{self.fingerprint} {ids}", lambda: embed(self, ids).tobytes())
        return np.frombuffer(found, np.float32)

    def logit(self: OnnxCrossEncoder, pair: Any) -> float:
        source = f"{self.identity} {pair.ids} {pair.type_ids}"
        return float(np.frombuffer(memory.get(source, lambda: np.float64(score(self, pair)).tobytes()), np.float64)[0])

    with mock.patch.object(OnnxEncoder, "_run", vector), mock.patch.object(OnnxCrossEncoder, "_run", logit):
        yield
    memory.close()
