"""Measures nDCG@10 of an encoder on packed exams, with bootstrap intervals of the gain over MiniLM.

    python training/evaluate.py work/encoder.pt work

The last lines give the mean gain on the sets for choosing settings, and on the test sets.
"""

from __future__ import annotations

import json
import lzma
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from material import DEVICE, load_transformer, vectors
from measures import interval, ndcg
from pairs import CHOOSING
from tokens import QUERY_TOKENS, TEXT_TOKENS, Tokens, tokenise
from transformer import Transformer


@dataclass
class Packed:
    name: str
    passages: Tokens
    queries: Tokens
    gold: list[dict[int, float]]
    candidates: np.ndarray
    scores: np.ndarray


def read_exams(work: Path) -> list[Packed]:
    tokenizer = work / "minilm" / "tokenizer.json"
    exams = []
    with lzma.open(work / "exams.jsonl.xz", "rt", encoding="utf-8") as lines:
        for raw in map(json.loads, lines):
            exams.append(
                Packed(
                    raw["name"],
                    tokenise(raw["passages"], tokenizer, DEVICE),
                    tokenise(raw["queries"], tokenizer, DEVICE, QUERY_TOKENS),
                    [{int(o): float(g) for o, g in gold} for gold in raw["gold"]],
                    np.array(raw["candidates"]),
                    np.array(raw["scores"]),
                )
            )
    return exams


def encoder_ndcg(model: Transformer, exam: Packed) -> np.ndarray:
    p = vectors(model, exam.passages, TEXT_TOKENS).float()
    q = vectors(model, exam.queries, QUERY_TOKENS + 2).float()
    best = (q @ p.T).topk(min(10, len(p)), dim=1).indices
    return ndcg(best.cpu().numpy(), exam.gold)


def report_encoders(models: dict[str, Transformer], exams: Sequence[Packed]) -> None:
    """Compares each model with the first."""
    names = list(models)
    print(f"{'set':22s} {names[0]:>7s}  " + "  ".join(f"{name:>9s}" for name in names[1:]))
    rows: dict[str, list[float]] = {}
    for exam in exams:
        scores = [encoder_ndcg(model, exam) for model in models.values()]
        gains = [interval(one - scores[0]) for one in scores[1:]]
        rows[exam.name] = [g[0] for g in gains]
        shown = "  ".join(f"{g[0]:+9.2f}" for g in gains)
        last = f"   last [{gains[-1][1]:+.1f}, {gains[-1][2]:+.1f}]" if gains else ""
        print(f"{exam.name:22s} {scores[0].mean() * 100:7.1f}  {shown}{last}", flush=True)
    for label, chosen in (("choosing", True), ("test", False)):
        table = [row for name, row in rows.items() if (name in CHOOSING) == chosen]
        if table:
            print(f"{label:22s}          " + "  ".join(f"{v:+9.2f}" for v in np.mean(table, axis=0)))


def main(file: Path, work: Path) -> None:
    tuned = load_transformer(work / "minilm")
    tuned.load_state_dict(torch.load(file, map_location=DEVICE))
    report_encoders({"minilm": load_transformer(work / "minilm"), file.stem: tuned}, read_exams(work))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
