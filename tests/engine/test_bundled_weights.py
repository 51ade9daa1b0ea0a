"""The bundled models are right on every x86_64: two products of their weights fit into 16 bits."""

from __future__ import annotations

import numpy as np
import surefind_models

from cases import each
from helpers import integer_weights

_MOST = 2**15 - 1


@each(("name", "layers"), [("arctic", 12), ("careful", 12), ("minilm", 6), ("reranker", 6)])
def test_no_processor_overflows(name: str, layers: int) -> None:
    """Without VNNI, x86_64 adds two products of a uint8 and a weight in a signed 16-bit lane, which saturates."""
    weights = integer_weights(surefind_models.path(name) / "model.onnx")
    assert len(weights) == 4 * layers  # attention, its output, and the two of the feed-forward part
    widest = max(int(np.abs(matrix.astype(int)).max()) for matrix in weights)
    assert 2 * 255 * widest <= _MOST < 2 * 255 * 127
