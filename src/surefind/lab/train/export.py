"""Exports a trained network to a folder that searches can use: int8 ONNX, tokenizer, checksums.

The recipe is that of the bundled models: onnxruntime's optimiser fuses operators if it can, weights have 7 bits per
channel (so that no x86 processor overflows), embedding tables have 8. With typical texts, outliers of activations are
moved into the weights first (`smoothing`). At last, operators that the CPU computes slowly are replaced (`operators`).
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from surefind.lab.train.network import STRENGTH, Feed, Network, smooth
from surefind.lab.train.operators import use_faster_operators

_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_OPSET = 17


def export(
    network: Network,
    tokenizer: Path,
    folder: Path,
    name: str,
    max_tokens: int,
    spread: float = 0.0,
    precise: bool = False,
    texts: Sequence[str] = (),
    strength: float = STRENGTH,
) -> None:
    """Writes model.onnx, tokenizer.json and config.json into `folder`. `spread`: the usual spread of a reranker's
    scores, if it is known; `precise`: without quantisation, to measure what it costs; `texts`: typical texts, to find
    outliers of activations with; `strength`: how far these are moved into the weights."""
    folder.mkdir(parents=True, exist_ok=True)
    noise = logging.getLogger().level
    logging.getLogger().setLevel(logging.ERROR)  # the quantiser recommends a step that cannot handle fused operators
    try:
        with tempfile.TemporaryDirectory() as work:
            plain, fused = Path(work) / "plain.onnx", Path(work) / "fused.onnx"
            _trace(network.cpu().eval(), plain)
            best = fused if _fuse(network, plain, fused) else plain
            if texts and best is fused and not precise:
                best = Path(work) / "smoothed.onnx"
                smooth(fused, best, feeds_of(texts, tokenizer, max_tokens), strength)
            if precise:
                shutil.copy(best, folder / "model.onnx")
            else:
                _quantise(best, Path(work), folder / "model.onnx")
            use_faster_operators(folder / "model.onnx")
    finally:
        logging.getLogger().setLevel(noise)
    shutil.copy(tokenizer, folder / "tokenizer.json")
    digests = {
        file: hashlib.sha256((folder / file).read_bytes()).hexdigest() for file in ("model.onnx", "tokenizer.json")
    }
    config: dict[str, Any] = {"name": name, "max_tokens": max_tokens, "sha256": digests}
    if spread:
        config["spread"] = spread
    if not network.ranks:
        config |= {"dimension": network.dimension, "pooling": network.pooling, "normalize": True}
    if network.query_prefix:
        config["query_prefix"] = network.query_prefix
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def feeds_of(texts: Sequence[str], tokenizer: Path, max_tokens: int) -> list[Feed]:
    """The inputs of a graph for each text."""
    from tokenizers import Tokenizer

    reader = Tokenizer.from_file(str(tokenizer))
    reader.no_padding()
    reader.enable_truncation(max_tokens)
    ids = [np.array([encoding.ids], dtype=np.int64) for encoding in reader.encode_batch(list(texts))]
    return [dict(zip(_INPUTS, (one, np.ones_like(one), np.zeros_like(one)), strict=True)) for one in ids]


def _trace(network: Network, file: Path) -> None:
    ones = torch.ones(2, 8, dtype=torch.long)
    output = "logits" if network.ranks else "embedding"
    axes = {name: {0: "batch", 1: "sequence"} for name in _INPUTS} | {output: {0: "batch"}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the newer exporter writes graphs that cannot be fused
        torch.onnx.export(
            network,
            (ones, ones, torch.zeros_like(ones)),
            str(file),
            input_names=list(_INPUTS),
            output_names=[output],
            dynamic_axes=axes,
            opset_version=_OPSET,
            dynamo=False,
        )


def _fuse(network: Network, source: Path, target: Path) -> bool:
    """Fuses operators; returns whether the attention of every layer became one operator. If not, the plain graph gives
    the same results, a little slower."""
    from onnxruntime.transformers.fusion_options import FusionOptions
    from onnxruntime.transformers.optimizer import optimize_model

    options = FusionOptions("bert")
    options.enable_embed_layer_norm = False
    shape = network.shape
    model = optimize_model(
        str(source),
        model_type="bert",
        num_heads=shape.heads,
        hidden_size=shape.width,
        opt_level=0,
        optimization_options=options,
    )
    model.save_model_to_file(str(target))
    return bool(model.get_fused_operator_statistics()["Attention"] == shape.layers)


def _quantise(source: Path, work: Path, target: Path) -> None:
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    options = {"DefaultTensorType": onnx.TensorProto.FLOAT}
    # The last two products turn one vector into one number: 8 bits would cost precision and save nothing.
    last = [node.name for node in onnx.load(source).graph.node if node.name.startswith(("/pooler/", "/head/"))]
    products = work / "products.onnx"
    quantize_dynamic(
        source,
        products,
        op_types_to_quantize=["MatMul", "Attention"],
        per_channel=True,
        reduce_range=True,
        weight_type=QuantType.QInt8,
        nodes_to_exclude=[*last, *(f"{name}_MatMul" for name in last)],
        extra_options=options,
    )
    quantize_dynamic(
        products, target, op_types_to_quantize=["Gather"], weight_type=QuantType.QInt8, extra_options=options
    )
