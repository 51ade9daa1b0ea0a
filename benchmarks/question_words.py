"""Measures retrieval with and without the question words of a query (docs/results/question-words.md).

    python benchmarks/question_words.py --data DATA --work WORK

DATA holds collections in BEIR layout (a folder each); the bundled sample with its staff questions is added. WORK keeps
the knowledge bases between runs; benchmarks/exam_validity.py can share it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from exam_validity import MEASURE, collections, fewer, questions_of
from surefind.bench.engine import Bench
from surefind.bench.plan import Contender, Plan
from surefind.kb import KnowledgeBase
from surefind.measure.statistics import bootstrap, permutation_p
from surefind.search.pipeline import Pipeline

KEPT = "bm25(analyzer=english(question_words=true))"
FUSED = "{} + dense >> convex(alpha=0.5, missing=score)"
PAIRS = {"BM25": (KEPT, "bm25"), "default": (FUSED.format(KEPT), FUSED.format("bm25"))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    given = parser.parse_args()
    heads = [f"{name}: kept | dropped | points [95%] | p" for name in PAIRS]
    print(f"| collection | questions | {' | '.join(heads)} |")
    print("|---" * (2 + 4 * len(PAIRS)) + "|")
    for name in collections(given.data):
        (given.work / name).mkdir(parents=True, exist_ok=True)
        with KnowledgeBase.open(given.work / name) as kb:
            exam = fewer(questions_of(kb, name, given.data, given.work))
            cells = []
            for texts in PAIRS.values():
                rivals = tuple(Contender(text, Pipeline.parse(text)) for text in texts)
                scores = Bench(kb).score(Plan(rivals, exam, (MEASURE,))).scores[str(MEASURE)]
                change = 100 * (scores[:, 1] - scores[:, 0])[:, None]
                gain, p = bootstrap(change)[0], permutation_p(change)[0]
                kept, dropped = scores.mean(axis=0)
                cells += [f"{kept:.3f}", f"{dropped:.3f}", f"{gain.mean:+.1f} [{gain.low:+.1f}, {gain.high:+.1f}]"]
                cells.append(f"{p:.4f}")
        print(f"| {name} | {len(exam.queries)} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
