"""Graphs with faster operators: the same numbers, the same weights, and a session does not undo it."""

from __future__ import annotations

from collections import Counter
from math import erf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import surefind_models

from cases import each

onnx = pytest.importorskip("onnx")
import onnxruntime  # noqa: E402
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info  # noqa: E402
from onnx.numpy_helper import from_array  # noqa: E402

from surefind.lab.train.operators import use_faster_operators  # noqa: E402

WIDTH = 8
SLOW = {"SkipLayerNormalization", "BiasGelu"}
DICE = np.random.default_rng(0)
SCALE, SHIFT, BIAS, INNER = (DICE.normal(size=WIDTH).astype(np.float32) for _ in range(4))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A graph of both operators: gelu(norm(x + bias + residual) + inner)."""
    return written(tmp_path, ["x", "residual", "scale", "shift", "bias"])


def written(folder: Path, inputs: list[str]) -> Path:
    own = "com.microsoft"
    nodes = [
        make_node("SkipLayerNormalization", inputs, ["normed"], "norm", domain=own, epsilon=1e-5),
        make_node("BiasGelu", ["normed", "inner"], ["y"], "gelu", domain=own),
    ]
    ends = [
        make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, "tokens", WIDTH]) for name in ("x", "residual", "y")
    ]
    weights = {"scale": SCALE, "shift": SHIFT, "bias": BIAS, "inner": INNER}
    stored = [from_array(value, name) for name, value in weights.items()]
    graph = make_graph(nodes, "tiny", ends[:2], ends[2:], stored)
    imports = [make_opsetid("", 17), make_opsetid(own, 1)]
    onnx.save(make_model(graph, opset_imports=imports, ir_version=8), folder / "model.onnx")
    return folder / "model.onnx"


def operators(file: Path) -> Counter[str]:
    return Counter(node.op_type for node in onnx.load(file).graph.node)


def run(file: Path, x: Any, residual: Any) -> Any:
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x, "residual": residual})[0]


def test_numbers_are_those_of_the_formula_and_of_the_graph_before(file: Path) -> None:
    x, residual = DICE.normal(size=(2, 1, 5, WIDTH)).astype(np.float32)
    before = run(file, x, residual)
    assert use_faster_operators(file) == 2
    after = run(file, x, residual)
    total = x + BIAS + residual
    centred = total - total.mean(-1, keepdims=True)
    inner = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * SCALE + SHIFT + INNER
    expected = inner * 0.5 * (1 + np.vectorize(erf)(inner / np.sqrt(2)))
    assert np.allclose(after, expected, atol=1e-5)
    assert np.allclose(after, before, atol=1e-5)


def test_weights_stay_and_a_second_time_changes_nothing(file: Path) -> None:
    before = [tensor.SerializeToString() for tensor in onnx.load(file).graph.initializer]
    use_faster_operators(file)
    assert [tensor.SerializeToString() for tensor in onnx.load(file).graph.initializer] == before
    assert operators(file) == {"Add": 2, "Sum": 1, "LayerNormalization": 1, "Gelu": 1}
    once = file.read_bytes()
    assert use_faster_operators(file) == 0
    assert file.read_bytes() == once


def test_norm_without_a_bias_is_left(tmp_path: Path) -> None:
    file = written(tmp_path, ["x", "residual", "scale", "shift"])
    assert use_faster_operators(file) == 1
    assert operators(file) == {"SkipLayerNormalization": 1, "Add": 1, "Gelu": 1}


@each(("name", "layers"), [("arctic", 12), ("careful", 12), ("minilm", 6), ("reranker", 6)])
def test_session_of_a_bundled_model_runs_the_faster_operators(name: str, layers: int, tmp_path: Path) -> None:
    """A session fuses operators, too. It must not bring the slow ones back, and must add biases within the products."""
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "session.onnx")
    options.log_severity_level = 3
    model = surefind_models.path(name) / "model.onnx"
    onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    used = operators(tmp_path / "session.onnx")
    assert not SLOW & used.keys()
    assert used["LayerNormalization"] == 2 * layers + 1 and used["Gelu"] == layers
    assert used["Add"] < layers, "those of the embeddings and of a reranker's head"
