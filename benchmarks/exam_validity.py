"""Measures what a recommendation loses, on collections with real questions.

An exam of n real questions is drawn at random from those of a collection (with replacement), and the choice is judged
by the scores of all of them: they are the population.

    python benchmarks/exam_validity.py collect --data DATA --work WORK     scores of every configuration, once
    python benchmarks/exam_validity.py report --work WORK                  the table of docs/results/exam-validity.md

DATA holds collections in BEIR layout (a folder each); the bundled sample with its staff questions is added. `collect`
needs the encoders and the cross-encoders for every collection: hours on 2 cores for ten of them. It can be stopped and
continued.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from _collecting import ALONE, CONFIGURATIONS, LEFT_OUT, OTHER_LANGUAGES, collect
from surefind.lab.bench.recommendation import DefaultRow, recommend
from surefind.lab.exam.model import ExamQuery

ROWS = [*CONFIGURATIONS, "arctic α=0.5", "pair", "pair + few walks"]
DEFAULT = ROWS.index("pair")
QUESTIONS = (30, 75, 150, 300)
REPEATS = 30
"""Random samples of real questions for each number of them."""
Scores = dict[str, np.ndarray]
"""Scores of one collection: `real` and each family of known-item questions, (questions, rows)."""


def load(work: Path, rows: Iterable[str] = ROWS) -> dict[str, Scores]:
    """The scores of these rows on every collection."""
    loaded = {}
    for path in sorted(work.glob("*.npz")):
        if path.stem not in LEFT_OUT:
            stored = np.load(path)
            names = stored["names"].tolist()
            columns = [names.index(row) for row in rows]
            loaded[path.stem] = {key: stored[key][:, columns].astype(float) for key in stored if key not in ALONE}
    return loaded


def report(collections: dict[str, Scores]) -> None:
    """What is lost against the best row, in points, by each way to choose one."""
    lost: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    rng = np.random.default_rng(5)
    for name, scores in collections.items():
        real = scores["real"]
        truth = real.mean(axis=0)

        def judge(way: str, chosen: int, name: str = name, truth: np.ndarray = truth) -> None:
            lost[way][name].append(100 * float(truth.max() - truth[chosen]))

        judge("always the default", DEFAULT)
        written = [own for family, own in scores.items() if family != "real"]
        if written:
            judge("the winner of the known-item exam", int(np.concatenate(written).mean(axis=0).argmax()))
        for count in QUESTIONS:
            for _ in range(REPEATS):
                drawn = real[rng.integers(0, len(real), count)]
                judge(f"{count} questions: the best row", int(drawn.mean(axis=0).argmax()))
                asked = [ExamQuery(str(i), "", ()) for i in range(count)]
                judge(f"{count} questions: **the rule**", recommend(drawn, asked, DefaultRow(DEFAULT)).best)
    print(f"| chosen by, {len(collections)} collections | mean loss | worst |\n|---|---|---|")
    for way, by in lost.items():
        means = [float(np.mean(own)) for own in by.values()]
        print(f"| {way} | {np.mean(means):.2f} | {max(means):.2f} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["collect", "report"])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--only", action="append", default=[], help="a collection; may be repeated")
    given = parser.parse_args()
    if given.step == "collect":
        collect(given.data, given.work, given.only)
    else:
        judged = load(given.work)
        report({name: scores for name, scores in judged.items() if name not in OTHER_LANGUAGES})
        report(judged)
