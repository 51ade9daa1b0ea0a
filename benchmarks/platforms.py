"""Compares the results of the bundled models on different processors.

    python benchmarks/platforms.py write HERE.npz           # on each machine
    python benchmarks/platforms.py compare HERE.npz THERE.npz
    python benchmarks/platforms.py nudge HERE.npz

`write` first multiplies integers as the models do, with weights of 7 and of 8 bits, and counts the sums that are not
exact: on x86_64 without VNNI, sums with 8 bits may overflow, which is why the models use 7. Then it embeds 40 sentences
of the sample and scores 20 of them for 8 of its questions. `nudge` embeds the sentences again on the same machine, with
every weight of the layer norms changed in its last bit: the smallest difference that two processors may have.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import surefind_models
from onnx import helper, numpy_helper
from tokenizers import Tokenizer

from _shared import machine
from surefind.embed.minilm import MiniLM
from surefind.inference.cross_encoder import OnnxCrossEncoder
from surefind.types import Chunk

EXAMPLES = Path(__file__).parent.parent / "examples"
SENTENCES, QUESTIONS, NUDGES = 40, 8, 5
SHAPES = (1, 384, 384), (7, 384, 1536), (33, 1536, 384), (128, 384, 1152)
"""Shapes of matrix products in the models: tokens, input size, output size."""


def spread(items: list[Any], count: int) -> list[Any]:
    return [items[i] for i in np.linspace(0, len(items) - 1, count).astype(int)]


def sample() -> tuple[list[str], list[str]]:
    texts = []
    for path in sorted((EXAMPLES / "quillhaven").glob("**/*.md")):
        for piece in re.split(r"(?<=[.!?])\s+|\n\n+", path.read_text(encoding="utf-8")):
            text = piece.strip()
            if 40 < len(text) < 1500 and not text.startswith(("---", "|")):
                texts.append(text)
    lines = (EXAMPLES / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    return spread(texts, SENTENCES), spread([json.loads(line)["query"] for line in lines], QUESTIONS)


def wrong_sums(low: int, high: int) -> tuple[int, int]:
    """Counts the sums of uint8 activations times int8 weights that are not exact, and all sums."""
    chance = np.random.default_rng(0)
    wrong = total = 0
    for rows, inner, columns in SHAPES:
        weights = chance.integers(low, high + 1, (inner, columns)).astype(np.int8)
        weights[:, :2] = low, high
        zeros = numpy_helper.from_array(np.zeros(columns, np.int8), "zeros")
        graph = helper.make_graph(
            [helper.make_node("MatMulInteger", ["a", "weights", "shift", "zeros"], ["sums"])],
            "product",
            [
                helper.make_tensor_value_info("a", onnx.TensorProto.UINT8, [rows, inner]),
                helper.make_tensor_value_info("shift", onnx.TensorProto.UINT8, []),
            ],
            [helper.make_tensor_value_info("sums", onnx.TensorProto.INT32, [rows, columns])],
            [numpy_helper.from_array(weights, "weights"), zeros],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        a = chance.integers(0, 256, (rows, inner)).astype(np.uint8)
        a[0] = 255
        for shift in (0, 128, 255):
            found = session.run(None, {"a": a, "shift": np.array(shift, np.uint8)})[0]
            wrong += int((found != (a.astype(np.int64) - shift) @ weights.astype(np.int64)).sum())
            total += found.size
    return wrong, total


def nudged(texts: list[str], seed: int) -> np.ndarray:
    """Embeds texts with the bundled encoder after changing each layer-norm weight in its last bit (the names of these
    weights all contain "orm")."""
    folder = surefind_models.path("minilm")
    model = onnx.load(folder / "model.onnx")
    chance = np.random.default_rng(seed)
    for tensor in model.graph.initializer:
        if "orm" in tensor.name and tensor.data_type == onnx.TensorProto.FLOAT:
            values = numpy_helper.to_array(tensor)
            towards = np.where(chance.random(values.shape) < 0.5, np.inf, -np.inf).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(np.nextafter(values, towards), tensor.name))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(256)
    vectors = []
    for encoding in tokenizer.encode_batch(texts):
        ids = np.array([encoding.ids], dtype=np.int64)
        feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        vectors.append(session.run(["embedding"], feed)[0][0])
    return np.array(vectors)


def difference(name: str, one: np.ndarray, other: np.ndarray) -> str:
    cosines = (one * other).sum(axis=1)
    between = np.abs(one @ one.T - other @ other.T).max()
    return (
        f"{name}: cosine of a sentence to itself mean {cosines.mean():.4f}, median {np.median(cosines):.6f}, "
        f"min {cosines.min():.4f}; cosines between sentences changed by at most {between:.3f}"
    )


def write(path: Path) -> None:
    print(machine("surefind", "surefind-models", "onnxruntime"))
    for low, high in ((-64, 64), (-128, 127)):
        wrong, total = wrong_sums(low, high)
        print(f"weights from {low} to {high}: {wrong} of {total} sums wrong")
    texts, questions = sample()
    vectors = MiniLM().embed(texts)
    reranker = OnnxCrossEncoder(surefind_models.path("reranker"))
    passages = [Chunk("", 0, len(text), text) for text in texts[::2]]
    scores = np.array([reranker.score(question, passages) for question in questions])
    np.savez(path, texts=np.array(texts), vectors=vectors, scores=scores)


def compare(one: Path, other: Path) -> None:
    a, b = np.load(one), np.load(other)
    assert (a["texts"] == b["texts"]).all()
    print(difference("encoder", a["vectors"], b["vectors"]))
    apart = np.abs(a["scores"] - b["scores"])
    ranks = [np.argsort(np.argsort(scores, axis=1), axis=1) for scores in (a["scores"], b["scores"])]
    correlation = min(np.corrcoef(x, y)[0, 1] for x, y in zip(*ranks, strict=True))
    same = int((a["scores"].argmax(axis=1) == b["scores"].argmax(axis=1)).sum())
    print(
        f"reranker: scores differ by {apart.mean():.3f} on average, at most {apart.max():.3f}; lowest rank correlation "
        f"of a question {correlation:.3f}; the same passage first for {same} of {len(ranks[0])} questions"
    )


def nudge(path: Path) -> None:
    found = np.load(path)
    for seed in range(NUDGES):
        print(difference(f"nudge {seed}", found["vectors"], nudged(found["texts"].tolist(), seed)))


if __name__ == "__main__":
    {"write": write, "compare": compare, "nudge": nudge}[sys.argv[1]](*map(Path, sys.argv[2:]))
