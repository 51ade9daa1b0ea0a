"""Compares encoders in float on packed collections, on the accelerator's machine, without surefind.

    python training/compare_floats.py WORK [--out OUT]

It reads WORK/gte, WORK/minilm, WORK/collections and, if they are there, WORK/student*.pt and WORK/joint*.pt. It shows
during training where an encoder stands; `judge_encoders.py` judges what would ship, in eight bits and in the engine.
Both choose settings on one half of the questions and report on the other (`halves.py`). OUT/scores.npz keeps the score
of every question.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from collection import Collection
from flat import FlatEncoder, Joint, embed, load_encoder
from halves import Scores, report
from material import DEVICE

ALPHAS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
LAYERS = (0, 2, 4, 6, 8, 10)
BASE = "minilm"
SHARES = (0.5, 0.65, 0.8)
"""Weights of the better encoder in a sum of its similarities and MiniLM's; at 0.5 it is the engine's `concat`."""


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


def similarities(models: dict[str, FlatEncoder], collection: Collection) -> Iterator[tuple[str, str, np.ndarray]]:
    """Of every encoder, of MiniLM's sums with others, and of the parts of a joint encoder by other weights: the name,
    the weight, the similarities."""
    known: dict[str, np.ndarray] = {}
    for name, model in models.items():
        q, p = embed(model, collection.queries), embed(model, collection.passages)
        known[name] = (q @ p.T).cpu().numpy()
        if isinstance(model, Joint):
            first, second = (2 * (a @ b.T).cpu().numpy() for a, b in zip(q.chunk(2, 1), p.chunk(2, 1), strict=True))
            for share in SHARES:
                yield name, f"{share} ", share * first + (1 - share) * second
            continue
        yield name, "", known[name]
        if name != BASE:
            for share in SHARES:
                yield f"{BASE} + {name}", f"{share} ", share * known[name] + (1 - share) * known[BASE]


def scored(models: dict[str, FlatEncoder], files: list[Path], most: int | None) -> Scores:
    table: Scores = {}
    for file in files:
        collection = Collection.read(file, DEVICE, most)
        for name, share, similarity in similarities(models, collection):
            alone, both = table.setdefault(f"{name} alone", {}), table.setdefault(name, {})
            alone.setdefault(share, {})[collection.name] = collection.dense(similarity)
            for alpha, found in collection.hybrid(similarity, ALPHAS).items():
                both.setdefault(f"{share}α={alpha}", {})[collection.name] = found
    return table


def compare(work: Path, out: Path | None, most: int | None = None) -> None:
    files = sorted((work / "collections").glob("*.npz"))
    table = scored(encoders(work), files if most is None else files[:2], most)
    text = report(table, BASE)
    print(text, flush=True)
    if out:
        out.mkdir(parents=True, exist_ok=True)
        (out / "report.txt").write_text(text + "\n", encoding="utf-8")
        flat = {f"{s}|{at}|{name}": row for s, all_ in table.items() for at, one in all_.items()
                for name, row in one.items()}  # fmt: skip
        np.savez_compressed(out / "scores.npz", **flat)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("--out", type=Path)
    parsed = parser.parse_args()
    compare(parsed.work, parsed.out)
