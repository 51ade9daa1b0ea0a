"""Measures how often a benchmark calls a configuration better when none is. It must be at most 5% of benchmarks.

    python benchmarks/type_one_error.py [--benchmarks 500] [--configurations 15] [--queries 200]
                                        [--per-document 1] [--ignore-documents]

Each simulated benchmark has identical configurations: for every query all of them draw the rank of its gold passage
from the same distribution, which depends on the query (easy ones are found first by nearly all, hard ones by few).
A configuration's score is the nDCG@10 of that rank. The scores go through the whole selection of `surefind bench`:
every pair tested over all flips, Holm over all pairs, on all questions and on the third that shares few words. A
benchmark errs if it announces a difference. With --per-document, several queries ask for the same document, and each
configuration finds some documents more easily and others less, for all of their queries. --ignore-documents then shows
what happens if the statistics do not know it.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from numpy.typing import NDArray

from _shared import machine
from surefind.lab.bench.recommendation import decide
from surefind.lab.measure.statistics import bootstrap, compare_all, wilson

K = 10
WHAT = ("any pair of the table", "the winner", "anything in the verdict")


def simulate(rng: np.random.Generator, queries: int, configurations: int, per_document: int = 1) -> NDArray[np.float64]:
    """Draws nDCG@10 of identical configurations, as (queries, configurations). Ranks are geometric, with a probability
    for each query; with several queries per document, the odds also vary by document and configuration."""
    chance = rng.beta(0.7, 0.7, size=(queries, 1)).clip(0.02, 1.0)
    if per_document > 1:
        luck = rng.normal(0, 1, size=(-(-queries // per_document), configurations))
        odds = 1 / (1 / chance - 0.999) * np.exp(luck.repeat(per_document, axis=0)[:queries])
        chance = (odds / (1 + odds)).clip(0.02, 1.0)
    rank = rng.geometric(np.broadcast_to(chance, (queries, configurations)))
    return np.where(rank <= K, 1 / np.log2(rank + 1), 0.0)


def announces(scores: NDArray[np.float64], clusters: NDArray[np.int64]) -> tuple[bool, bool, bool]:
    """Three answers: whether any pair is called different, whether the winner is called better than another, and
    whether the verdict calls any better at all."""
    comparisons = compare_all(scores, clusters=clusters)
    names = [str(i) for i in range(scores.shape[1])]
    intervals = bootstrap(scores, 100)
    verdict = decide(
        names=names,
        measure="nDCG@10",
        scores=scores,
        held_out=[False] * len(scores),
        comparisons=comparisons,
        intervals=intervals,
        held_out_intervals=intervals,
        latency={},
        advice=None,
    )
    winner = len(verdict.ties) < len(names) - 1
    return any(c.significant for c in comparisons), winner, winner or "significantly better" in verdict.text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--benchmarks", type=int, default=500)
    parser.add_argument("--configurations", type=int, default=15)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--per-document", type=int, default=1)
    parser.add_argument("--ignore-documents", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    started = time.perf_counter()
    clusters = np.arange(args.queries) // (1 if args.ignore_documents else args.per_document)
    made = (simulate(rng, args.queries, args.configurations, args.per_document) for _ in range(args.benchmarks))
    found = [announces(scores, clusters) for scores in made]
    seconds = time.perf_counter() - started
    print(machine("numpy"))
    print(
        f"{args.benchmarks} benchmarks of {args.configurations} identical configurations, {args.queries} queries each:"
    )
    for what, wrong in zip(WHAT, map(sum, zip(*found, strict=True)), strict=True):
        share = wilson(wrong, args.benchmarks)
        print(f"  {what:<24} {wrong} ({share.mean:.1%}, 95% interval {share.low:.1%} to {share.high:.1%}); allowed: 5%")
    print(f"{seconds:.0f} s")


if __name__ == "__main__":
    main()
