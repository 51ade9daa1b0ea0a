"""Measures how often a benchmark with few questions detects differences that all questions show.

    python benchmarks/power.py [--questions 30] [--draws 300]

Fifteen configurations (the preset context-layer) answer the 175 staff questions of the sample. A pair of configurations
that differs significantly on all questions is taken as truly different. Each draw takes some of the questions at
random, without replacement, and compares all pairs, with Holm's correction and without. The power is the share of the
truly different pairs that a draw finds significant.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from _shared import machine
from surefind import KnowledgeBase
from surefind.bench.engine import OWNER, Bench
from surefind.bench.plan import Plan, parse_measures, preset
from surefind.exam.clusters import clusters_of
from surefind.exam.formats.table import read_table
from surefind.exam.library import Library
from surefind.measure.statistics import ALPHA, compare_all

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def scored() -> tuple[NDArray[np.float64], NDArray[np.int64], list[str]]:
    """nDCG@10 of each question and configuration, the number of each question's document, and the configurations."""
    with tempfile.TemporaryDirectory() as home, KnowledgeBase.open(home) as kb:
        kb.sync(EXAMPLES / "quillhaven")
        exam = read_table(EXAMPLES / "questions.jsonl", Library(kb.documents(OWNER)))
        contenders, _ = preset("context-layer")
        outcome = Bench(kb).score(Plan(tuple(contenders), exam, parse_measures(["nDCG@10"])))
        return outcome.scores["nDCG@10"], clusters_of(outcome.plan.exam.queries), [c.name for c in contenders]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=30)
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    scores, clusters, names = scored()
    whole = compare_all(scores, clusters=clusters)
    different = [i for i, c in enumerate(whole) if c.significant]
    largest = max(different, key=lambda i: abs(whole[i].difference))
    rng = np.random.default_rng(args.seed)
    started = time.perf_counter()
    found = np.zeros((2, len(whole)))
    any_pair = 0
    for _ in range(args.draws):
        drawn = np.sort(rng.choice(len(scores), args.questions, replace=False))
        compared = compare_all(scores[drawn], 100, clusters=clusters[drawn])
        found += [[c.significant for c in compared], [c.p < ALPHA for c in compared]]
        any_pair += any(c.significant for c in compared)
    found /= args.draws
    print(machine("surefind", "numpy"))
    print(
        f"{args.draws} draws of {args.questions} of {len(scores)} questions about {len(set(clusters.tolist()))} "
        f"documents; {len(different)} of {len(whole)} pairs differ on all questions"
    )
    a, b = names[whole[largest].a], names[whole[largest].b]
    for label, power in zip(("with Holm over all pairs", "without correction"), found, strict=True):
        print(
            f"  {label:<25} mean power {power[different].mean():.1%}; "
            f"for the largest difference ({a}, {b}: {whole[largest].difference:+.3f}) {power[largest]:.1%}"
        )
    print(f"  draws with any significant pair: {any_pair / args.draws:.1%} ({time.perf_counter() - started:.0f} s)")


if __name__ == "__main__":
    main()
