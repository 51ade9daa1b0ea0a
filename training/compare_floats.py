"""Compares encoders and sums of them in float on packed collections, on the accelerator's machine, without surefind.

    python training/compare_floats.py WORK minilm gte gte+e5+arctic+mpnet ensemble.pt [--out OUT]

An encoder is a folder in WORK, or NAME.pt for a trained student; names with `+` are the sum of several similarities,
each divided by its spread. The first is what the others are compared with. Settings are chosen on one half of the
questions and judged on the other (`halves.py`). `judge_encoders.py` judges what would ship, in eight bits and in the
engine. OUT/scores.npz keeps the score of every question.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from collection import Collection
from halves import Scores, report
from material import DEVICE
from teachers import Teacher, load_teacher
from tokens import Tokens

ALPHAS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


class Encoders:
    """The vectors of texts by encoders in a folder."""

    def __init__(self, work: Path) -> None:
        self._work = work
        self._teachers: dict[str, Teacher] = {}

    def similarity(self, system: str, collection: Collection, known: dict[str, Tensor]) -> Tensor:
        """Of every question with every passage; `known` keeps vectors and similarities of a collection."""
        parts = [self._one(name, collection, known) for name in system.split("+")]
        return torch.stack([(part - part.mean()) / part.std() for part in parts]).sum(0)

    def _one(self, name: str, collection: Collection, known: dict[str, Tensor]) -> Tensor:
        q, p = (self._vectors(name, collection, known, asked) for asked in (True, False))
        return q.float() @ p.float().T

    def _vectors(self, name: str, collection: Collection, known: dict[str, Tensor], asked: bool) -> Tensor:
        key = f"{name} {asked}"
        if key not in known:
            if name not in self._teachers:
                self._teachers[name] = load_teacher(self._work, name, DEVICE)
            tokens: Tokens = collection.queries if asked else collection.passages
            known[key] = self._teachers[name].embed(tokens, asked)
        return known[key]


def compare(work: Path, systems: list[str], out: Path | None) -> None:
    encoders, table = Encoders(work), Scores()
    for file in sorted((work / "collections").glob("*.npz")):
        collection, known = Collection.read(file, DEVICE), dict[str, Tensor]()
        for system in systems:
            similarity = encoders.similarity(system, collection, known)
            alone, both = table.setdefault(f"{system} alone", {}), table.setdefault(system, {})
            alone.setdefault("", {})[collection.name] = collection.dense(similarity)
            for alpha, found in collection.hybrid(similarity, ALPHAS).items():
                both.setdefault(f"α={alpha}", {})[collection.name] = found
    text = report(table, systems[0])
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
    parser.add_argument("systems", nargs="+")
    parser.add_argument("--out", type=Path)
    parsed = parser.parse_args()
    compare(parsed.work, parsed.systems, parsed.out)
