"""The exported int8 reranker on packed exams, as it will be used: the first `top` of the fused candidates, blended.

    python training/evaluate_folder.py work/exams.jsonl.xz SETS QUESTIONS FOLDER …

SETS: `choosing` or `test`. Several folders are compared on the same questions.
"""

from __future__ import annotations

import json
import lzma
import sys
from pathlib import Path

import numpy as np

from measures import interval, minmax, ndcg
from pairs import CHOOSING
from surefind.rerank._onnx import OnnxCrossEncoder
from surefind.types import Chunk

TOP = 20
BLENDS = (0.2, 0.3, 0.4, 0.5, 1.0)


def scores_of(model: OnnxCrossEncoder, query: str, passages: list[str]) -> np.ndarray:
    return model.score(query, [Chunk("", 0, len(text), text) for text in passages])


def main(packed: Path, which: str, most: int, folders: list[Path]) -> None:
    with lzma.open(packed, "rt", encoding="utf-8") as lines:
        exams = [json.loads(line) for line in lines]
    gains: dict[Path, list[list[np.ndarray]]] = {folder: [[] for _ in BLENDS] for folder in folders}
    for raw in exams:
        if (raw["name"] in CHOOSING) != (which == "choosing"):
            continue
        chosen = np.unique(np.linspace(0, len(raw["queries"]) - 1, most).astype(int))
        ids = np.array(raw["candidates"])[chosen, :TOP]
        fused = np.array(raw["scores"])[chosen, :TOP]
        gold = [{int(o): float(g) for o, g in raw["gold"][q]} for q in chosen]
        base = ndcg(ids, gold)
        for folder in folders:
            model = OnnxCrossEncoder(folder)
            scores = np.zeros(ids.shape)
            for row, q in enumerate(chosen):
                there = ids[row] >= 0
                scores[row, there] = scores_of(model, raw["queries"][q], [raw["passages"][o] for o in ids[row][there]])
            for place, blend in enumerate(BLENDS):
                mixed = blend * minmax(scores, ids >= 0) + (1 - blend) * minmax(fused, ids >= 0)
                order = np.argsort(-np.where(ids >= 0, mixed, -np.inf), axis=1, kind="stable")
                gains[folder][place].append(ndcg(np.take_along_axis(ids, order, 1), gold) - base)
            shown = "  ".join(
                "b{} {:+.2f} [{:+.1f}, {:+.1f}]".format(b, *interval(g[-1]))
                for b, g in zip(BLENDS, gains[folder], strict=True)
            )
            print(
                f"{raw['name']:22s} {len(chosen)} fused {base.mean() * 100:.1f}  {folder.name:14s} {shown}", flush=True
            )
    for folder, sets in gains.items():
        print(
            f"macro {folder.name:14s} "
            + "  ".join(
                f"b{b} {np.mean([g.mean() for g in one]) * 100:+.2f}" for b, one in zip(BLENDS, sets, strict=True)
            )
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), [Path(name) for name in sys.argv[4:]])
