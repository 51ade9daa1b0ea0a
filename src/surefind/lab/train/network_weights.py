"""Reads the weights of a network: from a folder of ours, whose int8 weights become float again (which loses the last
bits, but training recovers them), or from one of Hugging Face (`model.safetensors`)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from surefind.base.errors import SurefindError
from surefind.lab.train.network import Network, Shape
from surefind.lab.train.smoothing import FACTOR


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
