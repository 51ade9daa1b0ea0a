"""Writes a fused graph with the operators that onnxruntime computes fastest on the CPU. The weights stay, and so do the
results but for the rounding of floats.

- SkipLayerNormalization (bias + residual + norm) takes one number at a time, and was a quarter of an encoder's time on
  x86_64. LayerNormalization and sums use vector instructions.
- The bias of a product is added by an Add of its own, also that of BiasGelu: a session makes one step of a quantised
  product and its Add, which costs nothing.
- The residual is added by Sum, because a session would fuse an Add and the norm after it again.

docs/results/models.md says what this gains, and what else was tried.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

_OWN = "com.microsoft"
"""The domain of onnxruntime's own operators."""


def use_faster_operators(file: Path) -> int:
    """Rewrites the graph in a file; returns how many of its operators were replaced."""
    import onnx

    model = onnx.load(file)
    nodes = list(model.graph.node)
    slow = [_way(node) for node in nodes]
    del model.graph.node[:]
    for node, way in zip(nodes, slow, strict=True):
        model.graph.node.extend(way(node) if way else [node])
    onnx.checker.check_model(model)
    onnx.save(model, file)
    return sum(way is not None for way in slow)


def _way(node: Any) -> Callable[[Any], list[Any]] | None:
    """How to replace a node; None to leave it. A node that lacks a bias or has a second output is left."""
    way, inputs = _WAYS.get(node.op_type, (None, 0))
    return way if len(node.input) == inputs and len(node.output) == 1 else None


def _skip_norm(node: Any) -> list[Any]:
    from onnx.helper import make_node

    product, residual, scale, shift, bias = node.input
    output = node.output[0]
    epsilon = next(attribute.f for attribute in node.attribute if attribute.name == "epsilon")
    return [
        make_node("Add", [product, bias], [f"{output}_biased"], f"{node.name}_bias"),
        make_node("Sum", [f"{output}_biased", residual], [f"{output}_sum"], f"{node.name}_residual"),
        make_node("LayerNormalization", [f"{output}_sum", scale, shift], [output], node.name, axis=-1, epsilon=epsilon),
    ]


def _bias_gelu(node: Any) -> list[Any]:
    from onnx.helper import make_node

    product, bias = node.input
    output = node.output[0]
    return [
        make_node("Add", [product, bias], [f"{output}_biased"], f"{node.name}_bias"),
        make_node("Gelu", [f"{output}_biased"], [output], node.name, domain=_OWN),
    ]


_WAYS = {"SkipLayerNormalization": (_skip_norm, 5), "BiasGelu": (_bias_gelu, 2)}
"""By operator: what replaces it, and how many inputs it has."""
