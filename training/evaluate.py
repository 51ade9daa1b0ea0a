"""Measures nDCG@10 of a reranker or an encoder on packed exams, with bootstrap intervals of the gain.

    python training/evaluate.py reranker work/reranker.pt work
    python training/evaluate.py encoder work/encoder.pt work

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

from material import DEVICE, load_transformer, pair_scores, precision, vectors
from measures import interval, minmax, ndcg
from pairs import CHOOSING
from tokens import QUERY_TOKENS, TEXT_TOKENS, Tokens, tokenise
from transformer import CrossEncoder, Transformer

BLENDS = (0.3, 0.5, 0.7, 1.0)
TOPS = (20, 50)


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


@torch.no_grad()
def rerank_scores(model: CrossEncoder, exam: Packed) -> np.ndarray:
    model.eval()
    q = torch.arange(len(exam.queries), device=DEVICE).repeat_interleave(exam.candidates.shape[1])
    p = torch.from_numpy(exam.candidates.reshape(-1)).to(DEVICE).clamp(min=0)
    with precision():
        parts = [
            pair_scores(model, exam.queries, a, exam.passages, b, 8)
            for a, b in zip(q.split(4096), p.split(4096), strict=True)
        ]
    return torch.cat(parts).float().cpu().numpy().reshape(exam.candidates.shape)


def reranked(exam: Packed, scores: np.ndarray, blend: float, top: int) -> np.ndarray:
    """Reorders the first `top` candidates by the blend of both scores."""
    ids, fused = exam.candidates[:, :top], exam.scores[:, :top]
    there = ids >= 0
    mixed = blend * minmax(scores[:, :top], there) + (1 - blend) * minmax(fused, there)
    order = np.argsort(-np.where(there, mixed, -np.inf), axis=1, kind="stable")
    return np.take_along_axis(ids, order, 1)


def report_reranker(model: CrossEncoder, exams: Sequence[Packed]) -> None:
    settings = [(top, blend) for top in TOPS for blend in BLENDS]
    print("set                     fused  " + "  ".join(f"top{t} b{b:.1f}" for t, b in settings))
    rows: dict[str, list[float]] = {}
    for exam in exams:
        base = ndcg(exam.candidates, exam.gold)
        scores = rerank_scores(model, exam)
        gains = [interval(ndcg(reranked(exam, scores, b, t), exam.gold) - base) for t, b in settings]
        rows[exam.name] = [g[0] for g in gains]
        middle = gains[settings.index((20, 0.5))]
        print(
            f"{exam.name:22s} {base.mean() * 100:6.1f}  "
            + "  ".join(f"{g[0]:+9.2f}" for g in gains)
            + f"   top20 b0.5 [{middle[1]:+.1f}, {middle[2]:+.1f}]",
            flush=True,
        )
    for label, chosen in (("choosing", True), ("test", False)):
        table = [row for name, row in rows.items() if (name in CHOOSING) == chosen]
        if table:
            print(f"{label:22s}         " + "  ".join(f"{v:+9.2f}" for v in np.mean(table, axis=0)))


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


def main(kind: str, file: Path, work: Path) -> None:
    exams = read_exams(work)
    state = torch.load(file, map_location=DEVICE)
    body = load_transformer(work / "minilm")
    if kind == "reranker":
        model = CrossEncoder(body).to(DEVICE)
        model.load_state_dict(state)
        report_reranker(model, exams)
    else:
        tuned = load_transformer(work / "minilm")
        tuned.load_state_dict(state)
        report_encoders({"minilm": body, file.stem: tuned}, exams)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
