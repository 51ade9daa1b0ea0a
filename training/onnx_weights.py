"""Reads the weights of a BERT encoder from an ONNX file into a folder with upstream's names.

    python training/onnx_weights.py FILE.onnx CONFIG.json TOKENIZER.json TARGET

Matrices often have no names of their own in such a file, so they are taken in the order in which the graph uses them:
query, key, value, out, up and down of each layer, each with the bias that is added to its product. Matrices of eight
bits become float. At the end our implementation is compared with onnxruntime on a few texts; nothing is written if the
vectors differ. (docs of where the files come from: README.md.)
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import NodeProto
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor

from surefind.lab.train.network import float_weights
from transformer import Shape, Transformer, upstream_state

LEAST, LEAST_OF_BYTES = 0.99999, 0.97
"""The lowest cosine to the graph's vectors; a graph of eight bits also rounds activations, which we do not."""
TEXTS = (
    "ctr deadline sunday holiday",
    "How do I reset a forgotten password?",
    "Vitamin D deficiency is common in older adults, and a low dose taken daily prevents it in most of them.",
    "The offside rule. " * 30,
)
PRODUCTS = ("MatMul", "MatMulInteger")
PLACES = (
    *(f"attention.self.{name}" for name in ("query", "key", "value")),
    *("attention.output.dense", "intermediate.dense", "output.dense"),
)


class Graph:
    def __init__(self, file: Path) -> None:
        self.nodes = list(onnx.load(file).graph.node)
        self.stored = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(file).graph.initializer}
        self.bytes = any(node.op_type == "MatMulInteger" for node in self.nodes)

    def value(self, name: str) -> np.ndarray | None:
        """A stored tensor as float; one of eight bits has its scale and zero point beside it."""
        if f"{name}_quantized" in self.stored:
            name = f"{name}_quantized"
        return float_weights(self.stored, name) if name in self.stored else None

    def bias_after(self, node: NodeProto) -> np.ndarray:
        """What is added to a product, past the steps that bring it back from eight bits."""
        output = node.output[0]
        for later in self.nodes[self.nodes.index(node) + 1 :]:
            if output not in later.input:
                continue
            if later.op_type == "Add":
                (found,) = [one for name in later.input if (one := self.value(name)) is not None]
                return found
            output = later.output[0]
        raise ValueError(f"Nothing is added to the product {node.name}.")


def weights_of(graph: Graph) -> dict[str, Tensor]:
    found = {name: value for name, value in graph.stored.items() if "LayerNorm" in name and name.startswith("e")}
    for name in ("word_embeddings", "position_embeddings", "token_type_embeddings"):
        found[f"embeddings.{name}.weight"] = graph.value(f"embeddings.{name}.weight")
    products = [
        node
        for node in graph.nodes
        if node.op_type in PRODUCTS and (one := graph.value(node.input[1])) is not None and one.ndim == 2
    ]
    for number, node in enumerate(products):
        place = f"encoder.layer.{number // len(PLACES)}.{PLACES[number % len(PLACES)]}"
        found[f"{place}.weight"] = graph.value(node.input[1]).T
        found[f"{place}.bias"] = graph.bias_after(node)
    return {name: torch.from_numpy(value.astype(np.float32).copy()) for name, value in found.items()}


def lowest_cosine(file: Path, config: Path, tokenizer_file: Path, weights: dict[str, Tensor]) -> float:
    model = Transformer(Shape.read(config))
    model.load_state_dict(upstream_state(weights))
    model.eval()
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    wanted = {one.name for one in session.get_inputs()}
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    tokenizer.no_padding()
    cosines = []
    for text in TEXTS:
        ids = np.array([tokenizer.encode(text).ids])
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        theirs = session.run(["last_hidden_state"], {k: v for k, v in inputs.items() if k in wanted})[0][0].mean(0)
        with torch.no_grad():
            ours = model(torch.from_numpy(ids), torch.ones(ids.shape, dtype=torch.bool))[0].numpy()
        cosines.append(float(ours @ theirs / np.linalg.norm(theirs)))
    return min(cosines)


def main(file: Path, config: Path, tokenizer: Path, target: Path) -> None:
    graph = Graph(file)
    weights = weights_of(graph)
    lowest = lowest_cosine(file, config, tokenizer, weights)
    if lowest < (LEAST_OF_BYTES if graph.bytes else LEAST):
        sys.exit(f"The weights of {file} give other vectors than its graph: cosine {lowest:.6f}. Nothing was written.")
    target.mkdir(parents=True, exist_ok=True)
    save_file(weights, target / "model.safetensors")
    shutil.copy(config, target / "config.json")
    shutil.copy(tokenizer, target / "tokenizer.json")
    print(f"{target}: {sum(w.numel() for w in weights.values()):,} weights, lowest cosine {lowest:.7f}")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
