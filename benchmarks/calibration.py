"""Measures whether a calibrated threshold keeps its promise, and what conditional reranking keeps and saves.

    python benchmarks/calibration.py collect --data DATA --work WORK [--only NAME …]     asks every question once
    python benchmarks/calibration.py report --work WORK              the tables of docs/results/calibration.md

DATA holds collections in BEIR layout (a folder each). `collect` reranks up to `MOST` questions of each with the bundled
cross-encoder: half a second to two seconds for a question on 2 cores. It can be stopped and continued. `report` takes
seconds: it divides the same questions into two halves a hundred times, keeping questions about a document together.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from _collecting import DEFAULT, collections, fewer, questions_of
from _shared import machine
from surefind.engine.confidence.predictor import fit
from surefind.engine.confidence.signals import MEASURED, features
from surefind.engine.search.pipeline import Pipeline
from surefind.kb import KnowledgeBase
from surefind.lab.calibrate.report import SkipResult
from surefind.lab.calibrate.run import WHENS, Cutoff, Evidence, Rows, ask, checked, choose, plan_of
from surefind.lab.measure.ranks import parse_measure
from surefind.lab.measure.thresholds import Threshold
from surefind.testing import rankings_of

MOST = 400
SUCCESSES = ("Success@5", "Success@1")
QUALITY = parse_measure("nDCG@10")
STAGE = "cross_encoder"
SPLITS = 100
LEVEL = 0.95
LEAST_GAIN = 0.002
"""The smallest gain in nDCG@10 of which shares are given."""


def collect(data: Path, work: Path, only: list[str]) -> None:
    for name in only or collections(data):
        target = work / f"{name}.npz"
        if target.exists():
            continue
        folder = work / name
        folder.mkdir(parents=True, exist_ok=True)
        with KnowledgeBase.open(folder) as kb:
            exam = fewer(questions_of(kb, name, data, work), MOST)
            found: dict[str, Any] = {}
            for success in SUCCESSES:
                plan = plan_of(Pipeline.parse(DEFAULT), STAGE, exam, parse_measure(success), QUALITY)
                asked = ask(kb, plan)
                found[success] = asked.evidence.success
        evidence = asked.evidence
        kept = {name: getattr(evidence, name) for name in ("features", "before", "after", "groups")}
        np.savez_compressed(target, seconds=asked.seconds, **kept, **found, **evidence.confidences)
        print(f"{name}: {len(evidence.success)} questions", flush=True)


# ---------------------------------------------------------------- report


@dataclass
class Tally:
    """What happened in the splits of one collection."""

    kept: int = 0
    not_below: int = 0
    used: int = 0
    skipped: float = 0.0
    success: float = 0.0
    gain: float = 0.0
    possible: float = 0.0

    @property
    def gain_kept(self) -> str:
        """The share of the gain of always reranking; a dash if that is next to nothing."""
        return f"{self.gain / self.possible:.1%}" if self.possible > LEAST_GAIN * SPLITS else "–"

    def add(self, found: SkipResult, beta: float) -> None:
        quality = found.quality
        self.skipped += found.skip_rate / SPLITS
        self.gain += quality.conditional - quality.never
        self.possible += quality.always - quality.never
        if found.success is not None:
            self.used += 1
            self.success += found.success
        self.kept += found.success is None or found.success >= beta
        self.not_below += found.success is None or found.high >= beta


def load(path: Path, success: str) -> Evidence:
    found = dict(np.load(path))
    kept = (found[name] for name in ("before", "after", "groups"))
    return Evidence({when: found[when] for when in MEASURED}, found["features"], found[success], *kept)


def halves(evidence: Evidence, seed: int = 1) -> Iterator[tuple[Rows, Rows]]:
    rng = np.random.default_rng(seed)
    names = np.unique(evidence.groups)
    for _ in range(SPLITS):
        out = (rng.permutation(len(names)) < len(names) // 2)[np.searchsorted(names, evidence.groups)]
        yield np.flatnonzero(~out), np.flatnonzero(out)


def report(work: Path) -> None:
    paths = sorted(work.glob("*.npz"))
    print(machine("numpy"))
    about(paths)
    for success, beta in (("Success@5", 0.9), ("Success@5", 0.8), ("Success@1", 0.9)):
        promise(paths, success, beta)
    promise(paths, "Success@1", 0.8, 0.55)
    half_the_time(paths)
    print(f"Deciding about one question takes {1000 * deciding():.2f} ms.")


def about(paths: list[Path]) -> None:
    print("\n| collection | questions | Success@5 | Success@1 | nDCG@10 never | always | s/question |")
    print("|---|---|---|---|---|---|---|")
    for path in paths:
        found = dict(np.load(path))
        shares = " | ".join(f"{found[success].mean():.3f}" for success in SUCCESSES)
        quality = f"{found['before'].mean():.4f} | {found['after'].mean():.4f}"
        print(f"| {path.stem} | {len(found['before'])} | {shares} | {quality} | {float(found['seconds']):.2f} |")


def promise(paths: list[Path], success: str, beta: float, most: float = 1.0) -> None:
    print(f"\n{success}, β = {beta:g}, at most {most:.0%} skipped\n")
    print("kept in … of 100 splits (splits with a threshold), skipped, success of the skipped, gain kept\n")
    print(f"| collection | {' | '.join(WHENS)} |\n|---|{'---|' * len(WHENS)}")
    for path in paths:
        evidence = load(path, success)
        cells = []
        for when in WHENS:
            tally = Tally()
            for tuning, held in halves(evidence):
                tally.add(checked(evidence, held, choose(evidence, tuning, when, beta, LEVEL, most), LEVEL), beta)
            share = f"{tally.success / tally.used:.3f}" if tally.used else "–"
            cells.append(f"{tally.kept} ({tally.used}), {tally.skipped:.0%}, {share}, {tally.gain_kept}")
        print(f"| {path.stem} | {' | '.join(cells)} |")


def half_the_time(paths: list[Path]) -> None:
    """The gain of always reranking that is left if the surer half of the questions is skipped."""
    print("\nGain kept with half of the questions reranked (share reranked); the predictor learns Success@1\n")
    print(f"| collection | gain of reranking | {' | '.join(WHENS)} |\n|---|---|{'---|' * len(WHENS)}")
    for path in paths:
        evidence = load(path, "Success@1")
        gain = float((evidence.after - evidence.before).mean())
        cells = []
        for when in WHENS:
            tally = Tally()
            for tuning, held in halves(evidence):
                tally.add(checked(evidence, held, surer_half(evidence, tuning, when), LEVEL), 0.0)
            cells.append(f"{tally.gain_kept} ({1 - tally.skipped:.0%})")
        print(f"| {path.stem} | {gain:+.4f} | {' | '.join(cells)} |")


def surer_half(evidence: Evidence, tuning: Rows, when: Any) -> Cutoff:
    """A threshold at the median confidence of the tuning questions."""
    predictor = fit(evidence.features[tuning], evidence.success[tuning]) if when == "predicted" else None
    choice = Cutoff(when, None, (), predictor)
    middle = float(np.median(choice.confidences(evidence)[tuning]))
    return replace(choice, threshold=Threshold(middle, 0, 0, 0.0))


def deciding() -> float:
    """Seconds to compute the features of one question and to predict."""
    rng = np.random.default_rng(1)
    ranking = rankings_of([(list(range(100)), sorted(rng.random(100).tolist(), reverse=True))])
    predictor = fit(rng.random((50, 10)), rng.random(50) < 0.5)
    taken = []
    for _ in range(200):
        started = time.perf_counter()
        predictor(features(ranking, [ranking, ranking]))
        taken.append(time.perf_counter() - started)
    return float(np.median(taken))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["collect", "report"])
    parser.add_argument("--data", type=Path, help="a folder of collections in BEIR layout")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--only", action="append", default=[], help="a collection; may be repeated")
    args = parser.parse_args()
    if args.step == "collect":
        if args.data is None:
            parser.error("collect needs --data")
        collect(args.data, args.work, args.only)
    else:
        report(args.work)


if __name__ == "__main__":
    main()
