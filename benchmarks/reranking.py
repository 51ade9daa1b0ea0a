"""What the pipelines that reread hits gain over the default, and what a shorter way of reading costs.

    python benchmarks/reranking.py --data DATA --work WORK [--only NAME …] [--questions 60]

DATA holds collections in BEIR layout; WORK keeps knowledge bases, vectors and what the models have read, so a stopped
run goes on. Prints nDCG@10 of documents, differences from reading all 50 passages with the large model, and the median
seconds of a question on all cores.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from _collecting import collections, fewer, questions_of, scores_of
from surefind.base.types import Query
from surefind.engine.search.pipeline import Pipeline
from surefind.kb import KnowledgeBase
from surefind.kb.settings.template import BASES, RERANKED
from surefind.lab.bench.engine import OWNER

PAIR = BASES["pair"]
LARGE = "cross_encoder(model=large, top=16, blend=0.7)"
WAYS = {
    "hybrid": BASES["hybrid"],
    "pair": PAIR,
    "large, 50 read, blend 0.7": f"{PAIR} >> cross_encoder(model=large, top=50, blend=0.7)",
    "large, 50 read, blend 0.5": f"{PAIR} >> cross_encoder(model=large, top=50)",
    "large, 20 read, blend 0.5": f"{PAIR} >> cross_encoder(model=large)",
    "small, 20 read": f"{PAIR} >> cross_encoder",
    "small, 50 read, 128 tokens": f"{PAIR} >> cross_encoder(top=50, max_tokens=128)",
    "small chooses 12 of 50": f"{PAIR} >> cross_encoder(top=50, keep=12) >> {LARGE.replace('16', '12')}",
    "small chooses 16 of 50": f"{PAIR} >> cross_encoder(top=50, keep=16) >> {LARGE}",
    "small chooses 20 of 50": f"{PAIR} >> cross_encoder(top=50, keep=20) >> {LARGE.replace('16', '20')}",
    **{name: f"{PAIR} >> {stages}" for name, stages in RERANKED.items()},
}
TIMED = 8
"""Questions whose time is taken, one after the other, with nothing cached."""


def seconds(kb: KnowledgeBase, spec: str, queries: list[Query]) -> float:
    pipeline, reading, took = Pipeline.parse(spec), kb.reader().reading(OWNER), []
    for query in queries:
        started = time.perf_counter()
        pipeline.run([query], 10, reading)
        took.append(time.perf_counter() - started)
    return float(np.median(took[1:]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--only", action="append", default=[], help="a collection; may be repeated")
    parser.add_argument("--questions", type=int, default=60, help="the most questions of a collection")
    args = parser.parse_args()
    scores, times = {}, []
    for name in args.only or collections(args.data):
        folder = args.work / name
        folder.mkdir(parents=True, exist_ok=True)
        with KnowledgeBase.open(folder) as kb:
            exam = fewer(questions_of(kb, name, args.data, args.work), args.questions)
            scores[name] = 100 * scores_of(kb, exam, WAYS)
            some = [Query(query.text, query.id) for query in exam.queries[:TIMED]]
            times.append([seconds(kb, spec, some) for spec in WAYS.values()])
    whole = list(WAYS).index("large, 50 read, blend 0.7")
    chance = np.random.default_rng(7)
    print(f"| | {' | '.join(scores)} | mean | from reading 50 with the large one [95%] | s |")
    print(f"|---|{'---|' * (len(scores) + 3)}")
    for at, name in enumerate(WAYS):
        means = [table[:, at].mean() for table in scores.values()]
        lost = [table[:, at] - table[:, whole] for table in scores.values()]
        drawn = [np.mean([chance.choice(one, len(one)).mean() for one in lost]) for _ in range(2_000)]
        low, high = np.quantile(drawn, [0.025, 0.975])
        print(f"| {name} | {' | '.join(f'{mean:.1f}' for mean in means)} | {np.mean(means):.1f} | "
              f"{np.mean([one.mean() for one in lost]):+.2f} [{low:+.2f}, {high:+.2f}] | "
              f"{np.median([row[at] for row in times]):.2f} |")  # fmt: skip


if __name__ == "__main__":
    main()
