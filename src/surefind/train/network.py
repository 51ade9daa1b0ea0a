"""BERT in torch, for training. Its parameters have the same names as in our ONNX graphs.

It is our own code, not a library's, for two reasons. The exported graph is then the plain pattern that onnxruntime's
optimiser fuses. And training can start from any folder we ship: its int8 weights are read back (`weights_of_graph`),
which loses the last bits, but training recovers them. Hugging Face folders (`model.safetensors`) can be read, too.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from surefind.errors import SurefindError
from surefind.train.smoothing import FACTOR

_EPSILON = 1e-12
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


class Layer(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.query, self.key, self.value, self.out = (nn.Linear(shape.width, shape.width) for _ in range(4))
        self.attention_norm = nn.LayerNorm(shape.width, eps=_EPSILON)
        self.up = nn.Linear(shape.width, shape.inner)
        self.down = nn.Linear(shape.inner, shape.width)
        self.norm = nn.LayerNorm(shape.width, eps=_EPSILON)

    def split(self, x: Tensor) -> Tensor:
        return x.view(x.size(0), x.size(1), self.heads, -1).permute(0, 2, 1, 3)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        query, key, value = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(query.size(-1)) + bias
        context = torch.matmul(scores.softmax(-1), value).permute(0, 2, 1, 3).contiguous()
        x = self.attention_norm(self.out(context.view(context.size(0), context.size(1), -1)) + x)
        normed: Tensor = self.norm(self.down(nn.functional.gelu(self.up(x))) + x)
        return normed


class Network(nn.Module):
    """Maps tokens to unit vectors (encoder: by `pooling`, `mean` or `cls`) or to one number (reranker: from [CLS])."""

    position_ids: Tensor

    def __init__(self, shape: Shape, ranks: bool, pooling: str = "mean") -> None:
        super().__init__()
        self.shape, self.ranks, self.pooling = shape, ranks, pooling
        self.words = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(shape.positions, shape.width)
        self.types = nn.Embedding(2, shape.width)
        self.norm = nn.LayerNorm(shape.width, eps=_EPSILON)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        if ranks:
            self.pooler = nn.Linear(shape.width, shape.width)
            self.head = nn.Linear(shape.width, 1)
        self.register_buffer("position_ids", torch.arange(shape.positions)[None], persistent=False)

    @property
    def dimension(self) -> int:
        """The length of an encoder's vectors."""
        return self.shape.width

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        places = self.position_ids[:, : input_ids.size(1)]
        x = self.norm(self.words(input_ids) + self.types(token_type_ids) + self.positions(places))
        bias = (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * _PADDING_SCORE
        for layer in self.layers:
            x = layer(x, bias)
        if self.ranks:
            logits: Tensor = self.head(torch.tanh(self.pooler(x[:, 0])))
            return logits
        if self.pooling == "cls":
            return self.vectors(x[:, 0])
        kept = attention_mask.unsqueeze(-1).to(x.dtype)
        return self.vectors((x * kept).sum(1) / kept.sum(1).clamp(min=1e-9))

    def vectors(self, pooled: Tensor) -> Tensor:
        """The vectors of texts, from the pooled states of their tokens."""
        scaled: Tensor = pooled / pooled.norm(dim=1, keepdim=True).clamp(min=_EPSILON)
        return scaled


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
    network = Network(_shape_of(state, heads, folder), ranks)
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

    def table(name: str) -> Any:
        """(stored - zero point) · scale; there is one scale, or one for each column."""
        base = name.removesuffix("_quantized")
        whole = stored[name].astype(np.float32) - stored[f"{base}_zero_point"].astype(np.float32)
        return whole * stored[f"{base}_scale"].astype(np.float32)

    state: dict[str, Any] = {_name(name): value for name, value in stored.items() if value.dtype == np.float32}
    heads = 0
    for node in graph.node:
        if node.op_type == "QAttention":
            layer = int(re.findall(r"\d+", node.name)[0])
            heads = next(a.i for a in node.attribute if a.name == "num_heads")
            weights, biases = np.split(table(node.input[1]), 3, axis=1), np.split(stored[node.input[2]], 3)
            for part, weight, bias in zip(("query", "key", "value"), weights, biases, strict=True):
                state[f"layers.{layer}.{part}.weight"], state[f"layers.{layer}.{part}.bias"] = weight.T, bias
        elif node.op_type == "MatMulInteger":
            state[_name(node.name) + ".weight"] = table(node.input[1]).T
        elif node.op_type == "Gather" and node.input[0].endswith("_quantized"):
            state[_name(node.input[0].removesuffix("_quantized"))] = table(node.input[0])
        elif node.op_type == "MatMul" and node.input[1] in stored:
            state[_name(node.name) + ".weight"] = stored[node.input[1]].T
        elif node.op_type == "Gemm":
            turned = any(a.name == "transB" and a.i for a in node.attribute)
            state[_name(node.name) + ".weight"] = stored[node.input[1]] if turned else stored[node.input[1]].T
    _unsmoothed(state)
    return {key: torch.tensor(np.ascontiguousarray(value)) for key, value in state.items()}, heads


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
    return found[1] if (found := _OURS.search(plain)) else plain


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


def _upstream(folder: Path) -> tuple[dict[str, Tensor], int]:
    from safetensors.torch import load_file

    state = {}
    for key, tensor in load_file(folder / "model.safetensors").items():
        module, _, kind = key.removeprefix("bert.").rpartition(".")
        layer = re.match(r"encoder\.layer\.(\d+)\.(.+)", module)
        known = _UPSTREAM.get(layer[2] if layer else module)
        if known:
            state[f"layers.{layer[1]}.{known}.{kind}" if layer else f"{known}.{kind}"] = tensor.float()
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return state, int(config.get("num_attention_heads", 0))
