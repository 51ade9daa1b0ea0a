"""Times a cross-encoder on one query: our way against batches and against torch, in one run.

    python benchmarks/rerank_speed.py [--model FOLDER] [--passages 20] [--tokens 200]

torch and transformers are timed if they are installed: a BERT of the same shape in float32 (its weights do not matter
for time), one padded batch on all cores, as sentence-transformers runs it. Every round times all of them, so that other
work on the machine affects them equally. `CPU / core` is the time that an idle machine would take.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from surefind.base.running import usable_cores
from surefind.base.types import Chunk
from surefind.engine.inference.cross_encoder import OnnxCrossEncoder, PairTokenizer
from surefind.engine.inference.encoder import open_session

QUERY = "who signs off a currency transaction report that is late"
WORDS = (
    "the teller counts cash twice and signs the form before noon when two officers open vault doors while members "
    "wait for a wire transfer that must be filed within fifteen days of the report"
).split()


def passages(count: int, tokens: int, seed: int = 0) -> list[Chunk]:
    """Makes passages that have about `tokens` tokens together with the query; every word in WORDS is one token."""
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice(WORDS, tokens - 14).tolist()) for _ in range(count)]
    return [Chunk(f"{i}.md", 0, len(text), text) for i, text in enumerate(texts)]


def batched(folder: Path, found: list[Chunk]) -> Callable[[], Any]:
    pairs = PairTokenizer(folder / "tokenizer.json", 256)
    session = open_session(folder / "model.onnx", usable_cores())

    def run() -> Any:
        query = pairs.query(QUERY)
        made = [pairs.pair(query, "", chunk.text) for chunk in found]
        longest = max(len(pair.ids) for pair in made)
        for pair in made:
            pair.pad(longest)
        rows = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
        feed = {name: np.array([getattr(pair, what) for pair in made], np.int64) for name, what in rows.items()}
        return session.run(None, feed)[0].ravel()

    return run


def with_torch(folder: Path, found: list[Chunk]) -> Callable[[], Any] | None:
    if find_spec("torch") is None or find_spec("transformers") is None:
        return None
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    shape = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
    model = BertForSequenceClassification(BertConfig(num_labels=1, **shape)).eval()
    pairs = PairTokenizer(folder / "tokenizer.json", 256)

    def run() -> Any:
        query = pairs.query(QUERY)
        made = [pairs.pair(query, "", chunk.text) for chunk in found]
        longest = max(len(pair.ids) for pair in made)
        for pair in made:
            pair.pad(longest)
        with torch.inference_mode():
            return model(
                input_ids=torch.tensor([pair.ids for pair in made]),
                attention_mask=torch.tensor([pair.attention_mask for pair in made]),
                token_type_ids=torch.tensor([pair.type_ids for pair in made]),
            ).logits.numpy()

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--model", type=Path, help="a folder with model.onnx and tokenizer.json (default: the bundled reranker)"
    )
    parser.add_argument("--passages", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    folder = given.model
    if folder is None:
        import surefind_models

        folder = surefind_models.path("reranker")
    found = passages(given.passages, given.tokens)
    model = OnnxCrossEncoder(folder, 256)
    ways: dict[str, Callable[[], Any] | None] = {
        "one pair a core (ours)": lambda: model.score(QUERY, found),
        "one batch, int8": batched(folder, found),
        "one batch, torch float32": with_torch(folder, found),
    }
    usable = {name: way for name, way in ways.items() if way}
    first = {name: np.asarray(way()).ravel() for name, way in usable.items()}
    cores = usable_cores()
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in usable}
    for _ in range(given.rounds):
        for name, way in usable.items():
            started, used = time.perf_counter(), time.process_time()
            way()
            times[name].append((time.perf_counter() - started, time.process_time() - used))
    print(f"{given.passages} passages of {given.tokens} tokens, {cores} cores, medians of {given.rounds} rounds")
    print(f"  {'':<26}{'seconds':>9}{'fastest':>9}{'CPU s':>9}{'CPU / core':>12}{'x ours':>8}{'x ours, CPU':>13}")
    ours = np.median(times["one pair a core (ours)"], axis=0)
    for name, taken in times.items():
        wall, cpu = np.median(taken, axis=0)
        fastest = min(wall for wall, _ in taken)
        shares = f"{wall / ours[0]:8.2f}{cpu / ours[1]:13.2f}"
        print(f"  {name:<26}{wall:9.3f}{fastest:9.3f}{cpu:9.3f}{cpu / cores:12.3f}{shares}")
    alone, together = first["one pair a core (ours)"], first["one batch, int8"]
    spread = alone.max() - alone.min()
    print(f"  batching changes a score by up to {abs(alone - together).max() / spread:.1%} of the range")


if __name__ == "__main__":
    main()
