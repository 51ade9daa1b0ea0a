"""Moves outliers of activations into weights before a graph is quantised, so that 8 bits lose less.

A few channels of BERT's states are ten times as large as the others, and eight bits for all of them leave little for
the rest. So each channel is divided by a factor, and the rows of the matrices that read it are multiplied by it
(SmoothQuant, Xiao et al., 2023). The division is part of the layer normalisation or of the value projection before it,
where it costs nothing. Only the residual path needs one product per normalisation, of a vector with a vector.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

STRENGTH = 0.5
"""0 leaves the activations as they are, 1 moves all of their differences into the weights."""
FACTOR = ".factor"
"""Follows the name of a normalisation's scale in the name of its factors; reading the weights back needs them."""
_NORMS = {"LayerNormalization": (1, 2), "SkipLayerNormalization": (2, 3)}
"""Where the scale and the shift are among a node's inputs."""
_PRODUCTS = ("Attention", "MatMul")
_MIN_RANGE = 1e-5

Feed = Mapping[str, Any]


def smooth(source: Path, target: Path, feeds: Sequence[Feed], strength: float = STRENGTH) -> int:
    """Writes a graph that computes the same as the fused graph in `source`; returns how many activations it smoothed.
    `feeds` are inputs of the graph for some typical texts."""
    import onnx

    graph = _Graph(onnx.load(source))
    norms = [node for node in graph.nodes() if node.op_type in _NORMS and graph.readers_of_norm(node)]
    attentions = [node for node in graph.nodes() if node.op_type == "Attention" and graph.product_after(node)]
    highest = _highest(source, [node.output[0] for node in (*norms, *attentions)], feeds)
    for node in norms:
        graph.smooth_norm(node, highest[node.output[0]], strength)
    for node in attentions:
        graph.smooth_values(node, highest[node.output[0]], strength)
    onnx.save(graph.model, target)
    return len(norms) + len(attentions)


class _Graph:
    def __init__(self, model: Any) -> None:
        self.model = model
        self._stored = {tensor.name: tensor for tensor in model.graph.initializer}
        self._readers: dict[str, list[Any]] = defaultdict(list)
        for node in model.graph.node:
            for name in node.input:
                self._readers[name].append(node)

    def nodes(self) -> list[Any]:
        return list(self.model.graph.node)

    def readers_of_norm(self, node: Any) -> list[Any]:
        """The products that read a norm's output; none if anything else reads it that cannot be adapted, or if the norm
        shares its scale or shift with another."""
        readers = self._readers[node.output[0]]
        products = [reader for reader in readers if self._multiplies(reader, node.output[0])]
        others = [reader for reader in readers if not any(reader is product for product in products)]
        own = all(len(self._readers[node.input[place]]) == 1 for place in _NORMS[node.op_type])
        return products if own and all(other.op_type == "SkipLayerNormalization" for other in others) else []

    def product_after(self, node: Any) -> Any | None:
        """The product that alone reads an attention's output."""
        readers = self._readers[node.output[0]]
        return readers[0] if len(readers) == 1 and self._multiplies(readers[0], node.output[0]) else None

    def smooth_norm(self, node: Any, highest: Any, strength: float) -> None:
        products = self.readers_of_norm(node)
        factor = _factor(highest, [self._read(product.input[1]) for product in products], strength)
        for place in _NORMS[node.op_type]:
            self._write(node.input[place], self._read(node.input[place]) / factor)
        for product in products:
            self._write(product.input[1], self._read(product.input[1]) * factor[:, None])
        self._restore(node, factor)

    def smooth_values(self, node: Any, highest: Any, strength: float) -> None:
        product = self.product_after(node)
        assert product is not None
        factor = _factor(highest, [self._read(product.input[1])], strength)
        three = np.concatenate([np.ones(2 * len(factor), np.float32), factor])
        for place in (1, 2):
            self._write(node.input[place], self._read(node.input[place]) / three)
        self._write(product.input[1], self._read(product.input[1]) * factor[:, None])

    def _restore(self, node: Any, factor: Any) -> None:
        """Gives the residual path the values that it had."""
        import onnx

        name, stored = node.output[0], node.input[_NORMS[node.op_type][0]] + FACTOR
        skips = [reader for reader in self._readers[name] if reader.op_type == "SkipLayerNormalization"]
        self.model.graph.initializer.append(onnx.numpy_helper.from_array(factor, stored))
        product = onnx.helper.make_node("Mul", [name, stored], [f"{name}_whole"], f"{name}_restored")
        for skip in skips:
            for place, given in enumerate(skip.input):
                if given == name:
                    skip.input[place] = f"{name}_whole"
        at = next(i for i, other in enumerate(self.model.graph.node) if other is node or other == node)
        self.model.graph.node.insert(at + 1, product)

    def _multiplies(self, node: Any, name: str) -> bool:
        weight = node.input[1] if node.op_type in _PRODUCTS else ""
        return node.input[0] == name and weight in self._stored and len(self._readers[weight]) == 1

    def _read(self, name: str) -> Any:
        import onnx

        return onnx.numpy_helper.to_array(self._stored[name])

    def _write(self, name: str, value: Any) -> None:
        import onnx

        self._stored[name].CopyFrom(onnx.numpy_helper.from_array(value.astype(np.float32), name))


def _factor(highest: Any, weights: Sequence[Any], strength: float) -> Any:
    """What to divide each channel by: more if its activations are high and its weights are low."""
    rows = np.max([np.abs(weight).max(axis=1) for weight in weights], axis=0)
    factor = np.maximum(highest, _MIN_RANGE) ** strength / np.maximum(rows, _MIN_RANGE) ** (1 - strength)
    return (factor / np.exp(np.log(factor).mean())).astype(np.float32)


def _highest(source: Path, names: Sequence[str], feeds: Sequence[Feed]) -> dict[str, Any]:
    """The greatest absolute value of every channel of these activations."""
    import onnx
    import onnxruntime

    model = onnx.load(source)
    for name in names:
        model.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    highest_by_name: dict[str, Any] = {}
    for feed in feeds:
        for name, value in zip(names, session.run(list(names), dict(feed)), strict=True):
            highest = np.abs(value).max(axis=(0, 1))
            highest_by_name[name] = np.maximum(highest_by_name[name], highest) if name in highest_by_name else highest
    return highest_by_name
