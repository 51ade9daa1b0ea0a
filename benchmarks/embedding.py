"""Texts a second of our encoder against sentence-transformers on torch, in the same run, and how close the vectors are.

    python benchmarks/embedding.py ../shared/data/scifact FP32_MODEL_FOLDER

96 abstracts that fill 128 tokens, cut to 128 by both; both use all cores. FP32_MODEL_FOLDER is a folder with
all-MiniLM-L6-v2 as sentence-transformers reads it (models/scripts/make_minilm.py says where it comes from).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sentence_transformers import SentenceTransformer

from _shared import beir, machine, medians
from surefind.embed.minilm import MiniLM

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

    cosine = (MiniLM().embed(texts) * theirs(texts)).sum(axis=1)
    speed = medians({"ours": lambda: rate(MiniLM().embed, texts), "torch": lambda: rate(theirs, texts)}, ROUNDS)
    print(f"surefind {speed['ours']:.1f} texts/s, torch {speed['torch']:.1f}: {speed['ours'] / speed['torch']:.2f}x")
    print(f"cosine to fp32: mean {cosine.mean():.4f}, min {cosine.min():.4f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
