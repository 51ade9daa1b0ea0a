"""Compares our encoder with sentence-transformers on torch, in one run: texts per second and similarity of vectors.

    python benchmarks/embedding.py data/scifact FP32_MODEL_FOLDER

Both embed 96 abstracts of more than 128 tokens, cut to 128, and use all cores. FP32_MODEL_FOLDER is a folder with
all-MiniLM-L6-v2 in the format of sentence-transformers (models/scripts/make_minilm.py says where to get it). "batches
of 32" is our own model file run in batches over all cores, the usual way; ours runs one text per core.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import surefind_models
from sentence_transformers import SentenceTransformer

from _shared import beir, machine, medians
from surefind.engine.embed.minilm import MiniLM

TEXTS, TOKENS, ROUNDS = 96, 128, 7


def rate(embed: Callable[[list[str]], object], texts: list[str]) -> float:
    started = time.perf_counter()
    embed(texts)
    return len(texts) / (time.perf_counter() - started)


def main(data: Path, model: Path) -> None:
    print(machine("surefind", "onnxruntime", "sentence-transformers", "torch"))
    peer = SentenceTransformer(str(model), device="cpu")
    peer.max_seq_length = TOKENS
    tokenizer = peer.tokenizer
    texts = []
    for row in beir(data)[0]:
        encoded = tokenizer(f"{row['title']}\n{row['text']}", return_offsets_mapping=True)
        if len(encoded["input_ids"]) > TOKENS:  # cut by characters, so that both encoders see 128 tokens
            texts.append(f"{row['title']}\n{row['text']}"[: encoded["offset_mapping"][TOKENS - 2][1]])
    texts = texts[:TEXTS]

    def theirs(batch: list[str]) -> np.ndarray:
        return peer.encode(batch, batch_size=32, normalize_embeddings=True, show_progress_bar=False)

    session = onnxruntime.InferenceSession(str(surefind_models.path("minilm") / "model.onnx"))

    def batches(batch: list[str]) -> None:
        for at in range(0, len(batch), 32):
            ids = np.array(
                tokenizer(batch[at : at + 32], truncation=True, max_length=TOKENS, padding=True)["input_ids"]
            )
            inputs = {"input_ids": ids, "attention_mask": (ids > 0) * 1, "token_type_ids": ids * 0}
            session.run(["embedding"], inputs)

    cosine = (MiniLM().embed(texts) * theirs(texts)).sum(axis=1)
    ways = {"surefind": MiniLM().embed, "batches of 32": batches, "torch": theirs}
    speed = medians({name: lambda way=way: rate(way, texts) for name, way in ways.items()}, ROUNDS)
    for name, figure in speed.items():
        print(f"{name:14} {figure:5.1f} texts/s, {figure / speed['torch']:.2f}x torch")
    print(f"cosine to fp32: mean {cosine.mean():.4f}, min {cosine.min():.4f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
