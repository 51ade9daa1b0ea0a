"""Compares encoders on packed collections with real questions: nDCG@10 alone, and in a hybrid with BM25.

    python training/judge_encoders.py WORK [--out OUT]

It reads WORK/gte, WORK/minilm, WORK/collections and, if they are there, WORK/student*.pt and WORK/joint*.pt. α and the
weight in a sum of two encoders are chosen on `CHOOSING`; the other collections judge. Every gain is over MiniLM's
hybrid: at α = 0.5, which is the default, and at the α that is best for MiniLM on `CHOOSING`. OUT/scores.npz keeps the
score of every question.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from collection import Collection
from flat import FlatEncoder, Joint, embed, load_encoder
from material import DEVICE
from measures import interval, macro

CHOOSING = ("covidqa-partial", "hotpotqa-sub", "policyqa", "squad2-dev-half")
ALPHAS = (0.4, 0.5, 0.6, 0.7, 0.8)
LAYERS = (0, 2, 4, 6, 8, 10)
BASE = "minilm"
SUMS = (0.5, 0.65, 0.8)
"""Weights of the better encoder in a sum of its similarities and MiniLM's; at 0.5 it is the engine's `concat`."""

Scores = dict[str, dict[str, np.ndarray]]
"""By encoder and α (or `dense`), then by collection: the score of every question."""


def encoders(work: Path) -> dict[str, FlatEncoder]:
    found = {BASE: load_encoder(work / "minilm", DEVICE), "gte": load_encoder(work / "gte", DEVICE)}
    for file in sorted([*work.glob("student*.pt"), *work.glob("joint*.pt")]):
        found[file.stem] = trained_encoder(work / "gte", file)
    return found


def trained_encoder(gte: Path, file: Path) -> FlatEncoder:
    """gte-small's embeddings with trained layers."""
    state = torch.load(file, map_location=DEVICE)
    model = load_encoder(gte, DEVICE, LAYERS)
    if "head.weight" in state:
        wide = Joint(model.shape, len(state["head.weight"]) // model.shape.width)
        wide.load_state_dict({**wide.state_dict(), **model.state_dict()})
        model = wide.to(DEVICE).eval()
    model.load_state_dict({**model.state_dict(), **state})
    return model


def similarities(models: dict[str, FlatEncoder], collection: Collection) -> Iterator[tuple[str, np.ndarray]]:
    """Of every encoder, of MiniLM's sums with others, and of the parts of a joint encoder by other weights."""
    known: dict[str, np.ndarray] = {}
    for name, model in models.items():
        q, p = embed(model, collection.queries), embed(model, collection.passages)
        known[name] = (q @ p.T).cpu().numpy()
        yield name, known[name]
        if isinstance(model, Joint):
            first, second = (2 * (a @ b.T).cpu().numpy() for a, b in zip(q.chunk(2, 1), p.chunk(2, 1), strict=True))
            for weight in SUMS[1:]:
                yield f"{name} {weight}", weight * first + (1 - weight) * second
        elif name != BASE:
            for weight in SUMS:
                yield f"{BASE}+{name} {weight}", weight * known[name] + (1 - weight) * known[BASE]


def scored(models: dict[str, FlatEncoder], files: list[Path], most: int | None) -> Scores:
    table: Scores = {}
    for file in files:
        collection = Collection.read(file, DEVICE, most)
        for name, similarity in similarities(models, collection):
            table.setdefault(f"{name} dense", {})[collection.name] = collection.dense(similarity)
            for alpha, found in collection.hybrid(similarity, ALPHAS).items():
                table.setdefault(f"{name} α={alpha}", {})[collection.name] = found
    return table


def mean(scores: dict[str, np.ndarray], names: list[str]) -> float:
    return float(np.mean([scores[name].mean() for name in names])) * 100


def best_alpha(table: Scores, name: str, chosen: list[str]) -> float:
    return max(ALPHAS, key=lambda alpha: mean(table[f"{name} α={alpha}"], chosen))


def report(table: Scores) -> str:
    every = list(next(iter(table.values())))
    chosen = [name for name in every if name in CHOOSING] or every
    judges = [name for name in every if name not in CHOOSING] or every
    names = list(dict.fromkeys(key.rpartition(" ")[0] for key in table))
    default, own = f"{BASE} α=0.5", f"{BASE} α={best_alpha(table, BASE, chosen)}"
    lines = [f"means over {len(chosen)} collections that choose | {len(judges)} that judge: dense, then α = {ALPHAS}"]
    for name in names:
        keys = [f"{name} dense", *(f"{name} α={alpha}" for alpha in ALPHAS)]
        rows = "  ".join(f"{mean(table[key], chosen):5.1f}|{mean(table[key], judges):5.1f}" for key in keys)
        lines.append(f"{name:24s} {rows}")
    lines.append(f"judges, gains with 95% intervals: dense over MiniLM | hybrid over {default} | hybrid over {own}")
    for name in names[1:]:
        alpha = best_alpha(table, name, chosen)
        pairs = (f"{name} dense", f"{BASE} dense"), (f"{name} α={alpha}", default), (f"{name} α={alpha}", own)
        cells = [macro([table[a][one] - table[b][one] for one in judges]) for a, b in pairs]
        lines.append(f"{name:24s} α={alpha}  " + "  |  ".join(map(_shown, cells)))
    lines.append(f"hybrid by collection over {default} at the chosen α; in brackets: the collections that chose")
    for name in names[1:]:
        alpha = best_alpha(table, name, chosen)
        lines.append(f"{name} α={alpha}")
        for one in [*judges, *chosen]:
            gain = _shown(interval(table[f"{name} α={alpha}"][one] - table[default][one]))
            dense = _shown(interval(table[f"{name} dense"][one] - table[f"{BASE} dense"][one]))
            shown = one if one in judges else f"({one})"
            lines.append(f"  {shown:22s} {table[default][one].mean() * 100:5.1f} {gain}   dense {dense}")
    return "\n".join(lines)


def _shown(cell: tuple[float, float, float]) -> str:
    return f"{cell[0]:+5.2f} [{cell[1]:+.1f}, {cell[2]:+.1f}]"


def judge(work: Path, out: Path | None, most: int | None = None) -> None:
    files = sorted((work / "collections").glob("*.npz"))
    table = scored(encoders(work), files if most is None else files[:2], most)
    text = report(table)
    print(text, flush=True)
    if out:
        out.mkdir(parents=True, exist_ok=True)
        (out / "report.txt").write_text(text + "\n", encoding="utf-8")
        flat = {f"{key}|{name}": value for key, row in table.items() for name, value in row.items()}
        np.savez_compressed(out / "scores.npz", **flat)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("--out", type=Path)
    parsed = parser.parse_args()
    judge(parsed.work, parsed.out)
