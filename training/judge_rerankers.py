"""Compares rerankers on packed collections with real questions: nDCG@10 after reordering the hybrid's first passages.

    python training/judge_rerankers.py WORK --onnx FOLDER [--out OUT]      # a folder with an exported cross-encoder

It reads WORK/minilm and WORK/collections. The hybrid is the engine's default with MiniLM, `bm25 + dense >>
convex(alpha=0.5, missing=score)`. A reranker's scores are blended as in the engine; the usual spread of its scores is
the median over `CHOOSING`. OUT/NAME-scores.npz keeps every gain.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from collection import LOWEST, Collection, minmax
from flat import embed, load_encoder
from material import DEVICE, pair_scores, precision
from measures import interval, macro
from tokens import Tokens, pairs_batch
from transformer import Transformer

CHOOSING = ("covidqa-partial", "hotpotqa-sub", "policyqa", "squad2-dev-half")
ALPHA, DEPTH, TOPS, BLENDS = 0.5, 50, (20, 50), (0.3, 0.5, 0.7, 1.0)
SETTINGS = [(top, blend) for top in TOPS for blend in BLENDS]
Scorer = Callable[[Collection, Tensor], Tensor]
"""(collection, passages of every question) -> their scores."""


def by_network(model: Transformer) -> Scorer:
    @torch.no_grad()
    def score(collection: Collection, ids: Tensor) -> Tensor:
        model.eval()
        q = torch.arange(len(ids), device=DEVICE).repeat_interleave(ids.shape[1])
        p = ids.reshape(-1).clamp(min=0)
        with precision():
            parts = [
                pair_scores(model, collection.queries, a, collection.passages, b, 8)
                for a, b in zip(q.split(4096), p.split(4096), strict=True)
            ]
        return torch.cat(parts).float().reshape(ids.shape)

    return score


def _here(tokens: Tokens) -> Tokens:
    return Tokens(tokens.flat.cpu(), tokens.start.cpu(), tokens.length.cpu())


def by_onnx(folder: Path, threads: int) -> Scorer:
    """An exported model, one pair at a time, as the engine runs it."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options, ["CPUExecutionProvider"])

    def score(collection: Collection, ids: Tensor) -> Tensor:
        queries, passages = _here(collection.queries), _here(collection.passages)

        def one(q: int, p: int) -> float:
            tokens = pairs_batch(queries, torch.tensor([q]), passages, torch.tensor([p]), "bert")
            names = ("input_ids", "attention_mask", "token_type_ids")
            length = int(tokens[1].sum())
            feed = {name: one[:, :length].long().numpy() for name, one in zip(names, tokens, strict=True)}
            return float(np.asarray(session.run(None, feed)[0]).reshape(-1)[0])

        with ThreadPoolExecutor(threads) as pool:
            rows = np.repeat(np.arange(len(ids)), ids.shape[1]).tolist()
            found = list(pool.map(one, rows, ids.clamp(min=0).reshape(-1).tolist()))
        return torch.tensor(found, device=ids.device).reshape(ids.shape)

    return score


def reranked(ids: Tensor, fused: Tensor, found: Tensor, top: int, blend: float, spread: float) -> Tensor:
    """Scores by which the first `top` passages are ordered by the blend of both scores, and the others come after."""
    there = ids >= 0
    mixed = blend * minmax(found[:, :top], there[:, :top], spread) + (1 - blend) * minmax(
        fused[:, :top], there[:, :top]
    )
    after = -1.0 - torch.arange(ids.size(1) - mixed.size(1), device=ids.device).expand(len(ids), -1)
    return torch.cat([mixed, after], 1).masked_fill(~there, LOWEST)


def ranges(ids: Tensor, found: Tensor) -> np.ndarray:
    """The spread of the scores of each question's first passages."""
    head, there = found[:, : TOPS[0]], ids[:, : TOPS[0]] >= 0
    spread = head.masked_fill(~there, LOWEST).amax(1) - head.masked_fill(~there, -LOWEST).amin(1)
    return np.asarray(spread.cpu())


def report(name: str, score: Scorer, work: Path, depth: int, out: Path | None) -> None:
    encoder = load_encoder(work / "minilm", DEVICE)
    lists = {}
    for file in sorted((work / "collections").glob("*.npz")):
        collection = Collection.read(file, DEVICE)
        similarity = embed(encoder, collection.queries).float() @ embed(encoder, collection.passages).float().T
        ids, fused = collection.fused(similarity, ALPHA, DEPTH)
        lists[collection.name] = collection, ids, fused, score(collection, ids[:, :depth])
    usual = [ranges(ids, found) for one, (_, ids, _, found) in lists.items() if one in CHOOSING]
    spread = float(np.median(np.concatenate(usual)))
    settings = [(top, blend) for top, blend in SETTINGS if top <= depth]
    print(f"{name}: spread {spread:.1f}; gain in points of nDCG@10, by the passages read and the blend")
    print(f"{'':20s} {'fused':>6s}  " + "  ".join(f"{f'{top}/{blend}':>8s}" for top, blend in settings))
    gains: dict[str, list[np.ndarray]] = {}
    for one, (collection, ids, fused, found) in lists.items():
        base = collection.ndcg(ids, fused)
        gains[one] = [collection.ndcg(ids, reranked(ids, fused, found, t, b, spread)) - base for t, b in settings]
        cells = "  ".join(f"{gain.mean() * 100:+8.2f}" for gain in gains[one])
        low, high = interval(gains[one][1])[1:]
        shown = f"({one})" if one in CHOOSING else one
        print(f"{shown:20s} {base.mean() * 100:6.1f}  {cells}   20/0.5 [{low:+.1f}, {high:+.1f}]", flush=True)
    for label, chosen in (("mean of ( )", True), ("mean of judges", False)):
        rows = [row for one, row in gains.items() if (one in CHOOSING) == chosen]
        cells = [macro(list(one)) for one in zip(*rows, strict=True)]
        print(f"{label:20s} {'':6s}  " + "  ".join(f"{mean:+8.2f}" for mean, _, _ in cells))
        print(f"{'':27s}  " + "  ".join(f"{f'{low:+.1f},{high:+.1f}':>8s}" for _, low, high in cells), flush=True)
    if out:
        out.mkdir(parents=True, exist_ok=True)
        keys = [f"{top}/{blend}" for top, blend in settings]
        flat = {f"{one}|{key}": gain for one, row in gains.items() for key, gain in zip(keys, row, strict=True)}
        np.savez_compressed(out / f"{name}-scores.npz", **flat)


def judge(name: str, model: Transformer, work: Path, out: Path | None, depth: int = DEPTH) -> None:
    report(name, by_network(model), work, depth, out)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("--onnx", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=12)
    parser.add_argument("--depth", type=int, default=20, help="passages to read: 20 or 50")
    parser.add_argument("--out", type=Path)
    parsed = parser.parse_args()
    report(parsed.onnx.name, by_onnx(parsed.onnx, parsed.threads), parsed.work, parsed.depth, parsed.out)
