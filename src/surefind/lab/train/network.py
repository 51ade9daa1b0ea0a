"""BERT in torch, for training: the only implementation, of `surefind train` and of the scripts in `training/` and
`models/scripts/`. Its parameters have the same names as in our ONNX graphs.

It is our own code, not a library's, for two reasons. The exported graph is then the plain pattern that onnxruntime's
optimiser fuses. And training can start from any folder we ship (`network_weights`).

Reads the weights of a network: from a folder of ours, whose int8 weights become float again (which loses the last
bits, but training recovers them), or from one of Hugging Face (`model.safetensors`).

Moves outliers of activations into weights before a graph is quantised, so that 8 bits lose less.

A few channels of BERT's states are ten times as large as the others, and eight bits for all of them leave little for
the rest. So each channel is divided by a factor, and the rows of the matrices that read it are multiplied by it
(SmoothQuant, Xiao et al., 2023). The division is part of the layer normalisation or of the value projection before it,
where it costs nothing. Only the residual path needs one product per normalisation, of a vector with a vector.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from surefind.base.errors import SurefindError
from surefind.engine.inference.folder import OnnxFolder

_NORM_EPSILON = 1e-12
_PADDING_SCORE = -10000.0
"""Added to the attention scores of padding, so that its weight is 0."""


@dataclass(frozen=True)
class Shape:
    width: int
    heads: int
    layers: int
    inner: int
    vocabulary: int
    positions: int
    epsilon: float = _NORM_EPSILON
    """What the norms add to a variance."""


class Layer(nn.Module):
    def __init__(self, shape: Shape, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads, self.dropout = shape.heads, dropout
        self.query, self.key, self.value, self.out = (nn.Linear(shape.width, shape.width) for _ in range(4))
        self.attention_norm = nn.LayerNorm(shape.width, eps=shape.epsilon)
        self.up = nn.Linear(shape.width, shape.inner)
        self.down = nn.Linear(shape.inner, shape.width)
        self.norm = nn.LayerNorm(shape.width, eps=shape.epsilon)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        query, key, value = self._split(self.query(x)), self._split(self.key(x)), self._split(self.value(x))
        context = attention(query, key, value, bias).permute(0, 2, 1, 3).contiguous()
        return self.after_attention(x, context.view(context.size(0), context.size(1), -1))

    def after_attention(self, x: Tensor, context: Tensor) -> Tensor:
        """The rest of the layer, given its input and the result of its attention."""
        x = self.attention_norm(self._drop(self.out(context)) + x)
        normed: Tensor = self.norm(self._drop(self.down(nn.functional.gelu(self.up(x)))) + x)
        return normed

    def _split(self, x: Tensor) -> Tensor:
        return x.view(x.size(0), x.size(1), self.heads, -1).permute(0, 2, 1, 3)

    def _drop(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(x, self.dropout, self.training) if self.dropout else x


def attention(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> Tensor:
    """Attention with a bias of the scores: by the fast kernels, and for the export written out, as the optimiser of
    onnxruntime wants it."""
    if torch.onnx.is_in_onnx_export() and bias is not None:
        scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(query.size(-1)) + bias
        return torch.matmul(scores.softmax(-1), value)
    bias = None if bias is None else bias.to(query.dtype)  # under autocast, only the products have the short type
    return nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=bias)


_TRAINED = ("mean", "cls")
"""The ways to pool that `Network` knows."""


class Network(nn.Module):
    """Maps tokens to unit vectors (encoder: by `pooling`, `mean` or `cls`) or to one number (reranker: from [CLS])."""

    position_ids: Tensor

    def __init__(self, shape: Shape, ranks: bool, pooling: str = "mean", dropout: float = 0.0) -> None:
        super().__init__()
        self.shape, self.ranks, self.pooling = shape, ranks, pooling
        self.query_prefix = ""
        self.words = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(shape.positions, shape.width)
        self.types: nn.Embedding | None = nn.Embedding(2, shape.width)
        self.norm = nn.LayerNorm(shape.width, eps=shape.epsilon)
        self.layers = nn.ModuleList(Layer(shape, dropout) for _ in range(shape.layers))
        if ranks:
            self.pooler = nn.Linear(shape.width, shape.width)
            self.head = nn.Linear(shape.width, 1)
        self.register_buffer("position_ids", torch.arange(shape.positions)[None], persistent=False)

    @property
    def dimension(self) -> int:
        """The length of an encoder's vectors."""
        return self.shape.width

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        x = self.embedded(input_ids, torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids)
        bias = self.bias(attention_mask, x)
        for layer in self.layers:
            x = layer(x, bias)
        if self.ranks:
            logits: Tensor = self.head(torch.tanh(self.pooler(x[:, 0])))
            return logits
        if self.pooling == "cls":
            return self.vectors(x[:, 0])
        kept = attention_mask.unsqueeze(-1).to(x.dtype)
        return self.vectors((x * kept).sum(1) / kept.sum(1).clamp(min=1e-9))

    def embedded(self, input_ids: Tensor, token_type_ids: Tensor) -> Tensor:
        """What the first layer reads."""
        places = self.position_ids[:, : input_ids.size(1)]
        assert self.types is not None
        x: Tensor = self.norm(self.words(input_ids) + self.types(token_type_ids) + self.positions(places))
        return x

    def bias(self, attention_mask: Tensor, x: Tensor) -> Tensor:
        """What is added to the attention scores of every layer."""
        return (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * _PADDING_SCORE

    def vectors(self, pooled: Tensor) -> Tensor:
        """The vectors of texts, from the pooled states of their tokens."""
        scaled: Tensor = pooled / pooled.norm(dim=1, keepdim=True).clamp(min=_NORM_EPSILON)
        return scaled


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


def load_network(folder: Path, ranks: bool, seed: int = 0) -> tuple[Network, list[str]]:
    """Loads the network of a folder. Also returns the parts that the folder lacks, such as the head of a reranker that
    starts from an encoder; they are initialised at random."""
    if (folder / "model.safetensors").is_file():
        state, heads = _upstream(folder)
    elif (folder / "model.onnx").is_file():
        state, heads = weights_of_graph(folder / "model.onnx")
    else:
        raise SurefindError(
            f"There are no weights to start from in {folder}: it has neither model.safetensors nor model.onnx. "
            "Name a folder that has one of them with --start."
        )
    torch.manual_seed(seed)
    files = OnnxFolder.found(folder)
    network = Network(_shape_of(state, heads, folder), ranks, "mean" if ranks else _pooling(files))
    network.query_prefix = files.query_prefix
    own = network.state_dict()
    fitting = {key: value for key, value in state.items() if key in own and own[key].shape == value.shape}
    missing = sorted({key.rpartition(".")[0] for key in own if key not in fitting})
    if unexpected := [name for name in missing if name not in ("pooler", "head")]:
        raise SurefindError(
            f"The weights in {folder} are not those of a BERT model: {', '.join(unexpected[:3])} is missing. "
            "Name another folder with --start."
        )
    network.load_state_dict({**own, **fitting})
    return network, missing


def _pooling(files: OnnxFolder) -> str:
    pooling = files.pooling()
    if pooling not in _TRAINED:
        raise SurefindError(
            f"The model in {files.folder} pools by {pooling}, and can only be trained if it pools by "
            f"{' or '.join(_TRAINED)}. Name another folder with --start."
        )
    return pooling


def _shape_of(state: dict[str, Tensor], heads: int, folder: Path) -> Shape:
    try:
        vocabulary, width = state["words.weight"].shape
        layers = 1 + max(int(key.split(".")[1]) for key in state if key.startswith("layers."))
        return Shape(width, heads, layers, len(state["layers.0.up.bias"]), vocabulary, len(state["positions.weight"]))
    except (KeyError, ValueError):
        raise SurefindError(
            f"The weights in {folder} are not those of a BERT model. Name another folder with --start."
        ) from None


# ---------------------------------------------------------------- from our int8 graphs


def weights_of_graph(file: Path) -> tuple[dict[str, Tensor], int]:
    """The float weights of a graph that `export` wrote, and its number of attention heads."""
    import onnx

    graph = onnx.load(file).graph
    stored = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}

    state: dict[str, Any] = {_name(name): value for name, value in stored.items() if value.dtype == np.float32}
    heads = 0
    for node in graph.node:
        if node.op_type == "QAttention":
            layer = int(re.findall(r"\d+", node.name)[0])
            heads = next(a.i for a in node.attribute if a.name == "num_heads")
            weights, biases = (
                np.split(float_weights(stored, node.input[1]), 3, axis=1),
                np.split(stored[node.input[2]], 3),
            )
            for part, weight, bias in zip(("query", "key", "value"), weights, biases, strict=True):
                state[f"layers.{layer}.{part}.weight"], state[f"layers.{layer}.{part}.bias"] = weight.T, bias
        elif node.op_type == "MatMulInteger":
            state[_name(node.name) + ".weight"] = float_weights(stored, node.input[1]).T
        elif node.op_type == "Gather" and node.input[0].endswith("_quantized"):
            state[_name(node.input[0].removesuffix("_quantized"))] = float_weights(stored, node.input[0])
        elif node.op_type == "MatMul" and node.input[1] in stored:
            state[_name(node.name) + ".weight"] = stored[node.input[1]].T
        elif node.op_type == "Gemm":
            turned = any(a.name == "transB" and a.i for a in node.attribute)
            state[_name(node.name) + ".weight"] = stored[node.input[1]] if turned else stored[node.input[1]].T
    _unsmoothed(state)
    return {key: torch.tensor(np.ascontiguousarray(value)) for key, value in state.items()}, heads


def float_weights(stored: Mapping[str, Any], name: str) -> Any:
    """A stored tensor as float. One of eight bits is (stored - zero point) · scale; there is one scale, or one for each
    column."""
    if stored[name].dtype.itemsize > 1:
        return stored[name].astype(np.float32)
    base = name.removesuffix("_quantized")
    whole = stored[name].astype(np.float32) - stored[f"{base}_zero_point"].astype(np.float32)
    return whole * stored[f"{base}_scale"].astype(np.float32)


def _unsmoothed(state: dict[str, Any]) -> None:
    """Undoes `smoothing`: its factors belong to the output of a norm, not to the products that read it."""
    for key in [key for key in state if key.endswith(f".weight{FACTOR}")]:
        factor, norm = state.pop(key), key.removesuffix(f".weight{FACTOR}")
        for kind in ("weight", "bias"):
            state[f"{norm}.{kind}"] = state[f"{norm}.{kind}"] * factor
        for reader in _readers(norm):
            state[f"{reader}.weight"] = state[f"{reader}.weight"] / factor


def _readers(norm: str) -> list[str]:
    """The products that read a norm's output."""
    if norm.endswith(".attention_norm"):
        return [norm.replace("attention_norm", "up")]
    layer = 0 if norm == "norm" else int(norm.split(".")[1]) + 1
    return [f"layers.{layer}.{part}" for part in ("query", "key", "value")]


_OURS = re.compile(r"(?:^|\.)((?:words|positions|types|norm|pooler|head|layers\.\d+)(?:\..+)?)$")


def _name(text: str) -> str:
    """`/body/layers.0/up/MatMul_quant` and `body.layers.0.up.bias` -> `layers.0.up`, `layers.0.up.bias`."""
    plain = re.sub(r"\.(?:Gemm_)?(?:MatMul|Gemm)(?:_quant)?$", "", text.strip("/").replace("/", "."))
    return match[1] if (match := _OURS.search(plain)) else plain


# ---------------------------------------------------------------- from Hugging Face's names

_UPSTREAM = {
    "embeddings.word_embeddings": "words",
    "embeddings.position_embeddings": "positions",
    "embeddings.token_type_embeddings": "types",
    "embeddings.LayerNorm": "norm",
    "pooler.dense": "pooler",
    "classifier": "head",
    "attention.self.query": "query",
    "attention.self.key": "key",
    "attention.self.value": "value",
    "attention.output.dense": "out",
    "attention.output.LayerNorm": "attention_norm",
    "intermediate.dense": "up",
    "output.dense": "down",
    "output.LayerNorm": "norm",
}


def upstream_state(tensors: Mapping[str, Tensor], others: Mapping[str, str] | None = None) -> dict[str, Tensor]:
    """Gives Hugging Face's tensors the names of ours. `others`: names that BERT does not have."""
    names, state = _UPSTREAM | dict(others or {}), {}
    for key, tensor in tensors.items():
        module, _, kind = key.removeprefix("bert.").rpartition(".")
        layer = re.match(r"encoder\.layer\.(\d+)\.(.+)", module)
        known = names.get(layer[2] if layer else module)
        if known:
            state[f"layers.{layer[1]}.{known}.{kind}" if layer else f"{known}.{kind}"] = tensor.float()
    return state


def _upstream(folder: Path) -> tuple[dict[str, Tensor], int]:
    from safetensors.torch import load_file

    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return upstream_state(load_file(folder / "model.safetensors")), int(config.get("num_attention_heads", 0))
