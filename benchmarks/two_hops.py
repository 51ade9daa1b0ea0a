"""Compares readings of two-hop questions: by the graph alone, reranked once, and with a second reading.

    PYTHONPATH=benchmarks python benchmarks/two_hops.py DATA WORK [hotpotqa-sub …]

WORK has a knowledge base for each collection. Gains over `ppr` are paired by question, with 95% intervals.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from _collecting import questions_of
from surefind.engine.search.pipeline import Pipeline
from surefind.kb import KnowledgeBase
from surefind.lab.bench.engine import Bench
from surefind.lab.bench.plan import Contender, Plan
from surefind.lab.measure.ranks import parse_measure

ROWS = {
    "graph": "ppr",
    "graph, read once": "ppr >> cross_encoder",
    "graph, read twice": "ppr >> cross_encoder(blend=0.6, second=0.7)",
    "careful": "bm25 + dense >> convex(alpha=0.5, missing=score) >> cross_encoder",
}
MEASURES = ("nDCG@10", "R@5", "R@20")
SETTINGS = '[search]\npipeline = "walks"\n[pipelines.walks]\nretrieve = ["ppr"]\n'


def interval(gains: np.ndarray) -> str:
    dice = np.random.default_rng(7)
    means = gains[dice.integers(0, len(gains), (2000, len(gains)))].mean(1) * 100
    low, high = np.percentile(means, [2.5, 97.5])
    return f"{gains.mean() * 100:+.1f} [{low:+.1f}, {high:+.1f}]"


def main(data: Path, work: Path, *names: str) -> None:
    for name in names or ("hotpotqa-sub",):
        folder = work / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "surefind.toml").write_text(SETTINGS, encoding="utf-8")
        with KnowledgeBase.open(folder) as kb:
            exam = questions_of(kb, name, data, work)
            contenders = tuple(Contender(label, Pipeline.parse(text)) for label, text in ROWS.items())
            measures = tuple(parse_measure(one) for one in MEASURES)
            scores = Bench(kb).score(Plan(contenders, exam, measures)).scores
        print(f"{name}, {len(exam.queries)} questions: mean, gain over {next(iter(ROWS))}")
        for at, label in enumerate(ROWS):
            cells = [scores[measure][:, at] for measure in MEASURES]
            first = [scores[measure][:, 0] for measure in MEASURES]
            shown = [
                f"{m} {a.mean() * 100:.1f} {interval(a - b)}" for m, a, b in zip(MEASURES, cells, first, strict=True)
            ]
            print(f"  {label:20s} {'  '.join(shown)}  all of R@5: {(cells[1] == 1).mean() * 100:.1f}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
