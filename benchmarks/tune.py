"""Tunes collections that nobody tuned by hand, and judges the result by held-out real questions.

    python benchmarks/tune.py run --data DATA --work WORK [--only NAME …] [--grid]     races on real questions
    python benchmarks/tune.py race --work WORK                         races over real scores, against the grid

`run` needs knowledge bases of the collections; it makes them like `exam_validity.py collect`, whose WORK it can share.
For each collection it prints the winner, its held-out score against the usual baselines and the default (differences
with 95% intervals) and what share of the full grid's question-runs the race took. With `--grid` it also runs the grid,
and prints its time and how far the winner is behind the grid's on the tuning half. `race` needs the scores of
`exam_validity.py collect`: its 29 rows race on a random half of the questions of each collection, ten times, and the
leader at the end is compared with the best of the half.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from _collecting import DEFAULT, MEASURE, collections, fewer, questions_of
from exam_validity import load
from surefind.engine.search.pipeline import Pipeline
from surefind.kb import KnowledgeBase
from surefind.lab.bench.engine import Bench
from surefind.lab.bench.plan import Contender, Plan
from surefind.lab.exam.model import Exam, ExamQuery, clusters_of
from surefind.lab.measure.statistics import Interval, bootstrap
from surefind.lab.tune.search import Race, Standing, Tuner, blocks
from surefind.lab.tune.space import TuningLimits, candidates

MOST = 400
"""Questions of a collection that are used."""
BASELINES = {
    "BM25": "bm25",
    "dense": "dense",
    "RRF k=60": "bm25 + dense >> rrf(k=60)",
    "convex 0.5": "bm25 + dense >> convex(alpha=0.5)",
    "default": DEFAULT,
}


def run(data: Path, work: Path, only: list[str], whole: bool) -> None:
    for name in [one for one in collections(data) if not only or one in only]:
        folder = work / name
        folder.mkdir(parents=True, exist_ok=True)
        with KnowledgeBase.open(folder) as kb:
            exam = fewer(questions_of(kb, name, data, work), MOST)
            Bench(kb, fresh=True).build(Plan(tuple(candidates(kb.settings)), exam, (MEASURE,)))
        print(json.dumps({"collection": name, **_tuned(folder, exam, whole)}, ensure_ascii=False), flush=True)


def _tuned(folder: Path, exam: Exam, whole: bool) -> dict[str, object]:
    with _fresh(folder) as kb:
        contenders = candidates(kb.settings)
        seconds: list[float] = []
        tuner = Tuner(Bench(kb, fresh=True), exam, MEASURE, TuningLimits(), watch=_ends(seconds))
        tuner.run(contenders)
    found = tuner.found
    assert found.winner is not None
    others = [Contender(name, Pipeline.parse(text)) for name, text in BASELINES.items()]
    with KnowledgeBase.open(folder) as kb:
        winner = Contender("winner", found.winner.pipeline, found.winner.layout)
        held = _scores(Bench(kb), [winner, *others], tuner.held)
    clusters = clusters_of(tuner.held)
    gains = bootstrap(held[:, [0]] - held[:, 1:], clusters=clusters)
    first, race = found.races[0]
    result = {
        "candidates": len(contenders),
        "tuning": len(tuner.tuning),
        "held_out": len(tuner.held),
        "winner": str(found.winner.pipeline),
        "held_out_means": dict(zip(["winner", *BASELINES], held.mean(axis=0).round(4).tolist(), strict=True)),
        "gain over": {name: _shown(gain) for name, gain in zip(BASELINES, gains, strict=True)},
        "confirmed": found.better,
        "runs": round(float(race.questions.sum() / (len(contenders) * len(tuner.tuning))), 3),
        "seconds": {"first race": round(seconds[0], 1), "all": round(found.seconds, 1)},
        "dropped": len(race.drops),
        "first": len(first),
    }
    return result | (_grid(folder, contenders, tuner, found.winner) if whole else {})


def _grid(folder: Path, contenders: list[Contender], tuner: Tuner, winner: Contender) -> dict[str, object]:
    """What the full grid takes and finds on the questions of the race."""
    with _fresh(folder) as kb:
        started = time.perf_counter()
        scores = _scores(Bench(kb, fresh=True), contenders, tuner.tuning).mean(axis=0)
        seconds = time.perf_counter() - started
    at = next((i for i, one in enumerate(contenders) if str(one) == str(winner)), None)
    return {
        "grid seconds": round(seconds, 1),
        "grid winner": contenders[int(scores.argmax())].name,
        "behind the grid": None if at is None else round(float(scores.max() - scores[at]), 4),
    }


def _fresh(folder: Path) -> KnowledgeBase:
    """Opens a knowledge base that remembers no score of a cross-encoder: the race and the grid pay for each of them."""
    for path in (folder / ".surefind" / "cache").glob("scores.db*"):
        path.unlink()
    return KnowledgeBase.open(folder)


def _ends(seconds: list[float]) -> Callable[[Standing], None]:
    """Records how long the race of all candidates took, without the steps around the winner and the confirmation."""

    def watch(standing: Standing) -> None:
        if standing.stage == "all candidates":
            seconds[:] = [standing.seconds]

    return watch


def _scores(bench: Bench, contenders: list[Contender], queries: list[ExamQuery]) -> np.ndarray:
    exam = Exam("judged", tuple(queries))
    return bench.score(Plan(tuple(contenders), exam, (MEASURE,))).scores[str(MEASURE)]


def _shown(interval: Interval) -> list[float]:
    return [round(100 * value, 1) for value in (interval.mean, interval.low, interval.high)]


def races(work: Path, repeats: int = 10) -> None:
    real = {name: scores["real"] for name, scores in load(work).items()}
    print("| collection | share of the grid's question-runs | behind the grid's winner, points | within 1 point |")
    print("|---|---|---|---|")
    every: list[tuple[float, float]] = []
    for name, scores in real.items():
        rng = np.random.default_rng(3)
        found = [_raced(scores[rng.permutation(len(scores))][: len(scores) // 2]) for _ in range(repeats)]
        every += found
        print(f"| {name} | {_row(found)} |")
    print(f"| all | {_row(every)} |")


def _raced(scores: np.ndarray) -> tuple[float, float]:
    """The share of the question-runs that a race took, and how far its leader is behind the best."""
    race, start = Race(scores.shape[1]), 0
    for end in blocks(len(scores)):
        race.add(scores[start:end][:, race.alive])
        start = end
        if race.over:
            break
    means = scores.mean(axis=0)
    return float(race.questions.sum() / scores.size), 100 * float(means.max() - means[race.leader])


def _row(found: list[tuple[float, float]]) -> str:
    share, behind = np.array(found).T
    return f"{share.mean():.0%} | {behind.mean():.2f} (worst {behind.max():.2f}) | {(behind <= 1).mean():.0%}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["run", "race"])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--only", action="append", default=[], help="a collection; may be repeated")
    parser.add_argument("--grid", action="store_true", help="also run the full grid, for comparison")
    given = parser.parse_args()
    if given.step == "run":
        run(given.data, given.work, given.only, given.grid)
    else:
        races(given.work)
