"""Measures exported int8 rerankers on packed exams as they will be used: on the first `TOP` fused candidates, blended.

    python training/evaluate_folder.py work/exams.jsonl.xz choosing FOLDER …
    python training/evaluate_folder.py work/exams.jsonl.xz report FOLDER … [--sets NAME …]

`choosing` uses some questions of the sets for choosing settings. `report` uses other questions of those sets, and the
test sets. All folders are compared on the same questions. A model's scores are cached beside the exams (`work/scores`),
so that another blend costs nothing.
"""

from __future__ import annotations

import argparse
import json
import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from measures import interval, macro, minmax, ndcg
from pairs import CHOOSING
from surefind.base.types import Chunk
from surefind.engine.inference.cross_encoder import OnnxCrossEncoder

TOP = 20
BLENDS = (0.2, 0.3, 0.4, 0.5, 0.6, 1.0)
CHOSEN, REPORTED = 160, 300
"""Questions per set for `choosing` and for `report`, taken at even intervals."""


@dataclass
class Part:
    name: str
    queries: list[str]
    passages: list[str]
    gold: list[dict[int, float]]
    ids: np.ndarray
    fused: np.ndarray


def evenly(numbers: np.ndarray, most: int) -> np.ndarray:
    return numbers[np.unique(np.linspace(0, len(numbers) - 1, most).astype(int))]


def parts(packed: Path, choosing: bool) -> Iterator[Part]:
    with lzma.open(packed, "rt", encoding="utf-8") as lines:
        for raw in map(json.loads, lines):
            every = np.arange(len(raw["queries"]))
            if raw["name"] in CHOOSING:
                seen = evenly(every, CHOSEN)
                used = seen if choosing else evenly(np.setdiff1d(every, seen), REPORTED)
            elif choosing:
                continue
            else:
                used = evenly(every, REPORTED)
            yield Part(
                raw["name"],
                [raw["queries"][q] for q in used],
                raw["passages"],
                [{int(o): float(g) for o, g in raw["gold"][q]} for q in used],
                np.array(raw["candidates"])[used, :TOP],
                np.array(raw["scores"])[used, :TOP],
            )


def scores_of(model: OnnxCrossEncoder, part: Part, kept: Path) -> np.ndarray:
    if kept.exists():
        return np.load(kept)
    scores = np.zeros(part.ids.shape)
    for row, query in enumerate(part.queries):
        there = part.ids[row] >= 0
        texts = [part.passages[o] for o in part.ids[row][there]]
        scores[row, there] = model.score(query, [Chunk("", 0, len(text), text) for text in texts])
    kept.parent.mkdir(exist_ok=True)
    np.save(kept, scores)
    return scores


def gains(part: Part, scores: np.ndarray, spread: float) -> list[np.ndarray]:
    """The gain in nDCG@10 of every question, for each blend."""
    there, base = part.ids >= 0, ndcg(part.ids, part.gold)
    found = []
    for blend in BLENDS:
        mixed = blend * minmax(scores, there, spread or 1e-9) + (1 - blend) * minmax(part.fused, there)
        order = np.argsort(-np.where(there, mixed, -np.inf), axis=1, kind="stable")
        found.append(ndcg(np.take_along_axis(part.ids, order, 1), part.gold) - base)
    return found


def show(name: str, cells: list[tuple[float, float, float]]) -> None:
    shown = "  ".join(
        f"b{blend} {mean:+.2f} [{low:+.1f}, {high:+.1f}]"
        for blend, (mean, low, high) in zip(BLENDS, cells, strict=True)
    )
    print(f"{name:44s} {shown}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("packed", type=Path)
    parser.add_argument("which", choices=("choosing", "report"))
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--sets", nargs="*", default=[])
    arguments = parser.parse_args()
    packed, which = arguments.packed, arguments.which
    added: dict[Path, list[list[np.ndarray]]] = {folder: [] for folder in arguments.folders}
    spreads: dict[Path, list[np.ndarray]] = {folder: [] for folder in arguments.folders}
    for part in parts(packed, which == "choosing"):
        if arguments.sets and part.name not in arguments.sets:
            continue
        fused = ndcg(part.ids, part.gold).mean() * 100
        for folder in arguments.folders:
            kept = packed.parent / "scores" / f"{folder.name}.{which}.{part.name}.npy"
            model = OnnxCrossEncoder(folder)
            scores = scores_of(model, part, kept)
            spreads[folder].append(np.ptp(np.where(part.ids >= 0, scores, scores[:, :1]), axis=1))
            found = gains(part, scores, model.spread)
            added[folder].append(found)
            show(f"{folder.name} {part.name} ({len(part.queries)}) {fused:.1f}", [interval(one) for one in found])
    for folder, sets in added.items():
        show(f"{folder.name} macro", [macro(list(one)) for one in zip(*sets, strict=True)])
        print(f"{folder.name}: median spread of scores {np.median(np.concatenate(spreads[folder])):.1f}")


if __name__ == "__main__":
    main()
