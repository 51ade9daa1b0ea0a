"""Simulates `surefind exam grow`: how good is the choice of a configuration after 10 and 30 questions?

    python benchmarks/grow.py collect --data DATA --work WORK     rankings of every configuration, once
    python benchmarks/grow.py report --work WORK                  the tables of docs/your-questions.md

DATA holds collections in BEIR layout (a folder each); the bundled sample with its staff questions is added. `--only`
names some of them. The qrels play the person: of the eight passages in the pool, the person marks those of relevant
documents, and answers "none of these" if there is none. That costs a question and adds nothing to the exam.

In each of 100 repeats, a random half of the questions are the candidates. 10 or 30 of them are asked: at random, those
with the most disagreement (of the three leading configurations, or of all fifteen), or half of each. The configuration
with the best mean nDCG@10 over the answered questions is chosen; in the rows "with the prior", the one with the best
posterior mean, as `surefind bench` does. The prior comes from the other collections. The regret is what the choice
lacks to the best configuration on the other half, which nobody looked at.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from surefind import Access
from surefind.bench.engine import Bench
from surefind.bench.plan import Contender, Plan
from surefind.bench.presets.context_layer import CONTENDERS
from surefind.bench.prior import Belief, evidence, fit_prior, pooled
from surefind.exam.asking import LEADING
from surefind.exam.disagreement import disagreement
from surefind.exam.formats.beir import read_beir
from surefind.exam.formats.table import read_table
from surefind.exam.library import Library
from surefind.exam.model import Exam
from surefind.kb import KnowledgeBase
from surefind.kb.sample import sample_folder, sample_questions
from surefind.measure.names import parse_measure
from surefind.search.pipeline import Pipeline
from surefind.types import PAD, Rankings

MEASURE = parse_measure("nDCG@10")
K, POOL = 10, 8
MOST, REPEATS, SEED = 1000, 100, 7
COUNTS = (10, 30)
DEFAULT = "Convex α=0.5"
"""The configuration of someone who asks no question."""
FIGURES = ("regret", "answered", "level", "gap")
DISCOUNTS = 1 / np.log2(np.arange(K) + 2)


def collect(data: Path | None, work: Path, only: list[str]) -> None:
    """Saves, for each collection, the scores of the 15 configurations, their first documents, the documents of the
    pool, the grades and the disagreement of the leading configurations."""
    found = ["sample", *sorted(path.parent.name for path in data.glob("*/queries.jsonl"))] if data else ["sample"]
    for name in [one for one in found if not only or one in only]:
        target = work / f"{name}.npz"
        if target.exists():
            continue
        folder = work / name
        folder.mkdir(parents=True, exist_ok=True)
        with KnowledgeBase.open(folder) as kb:
            source = data / name if data and name != "sample" else None
            kb.sync(_corpus(source, work / "corpora" / name) if source else sample_folder())
            library = Library(kb.documents(Access.owner()))
            real = read_beir(source, library) if source else read_table(sample_questions(), library)
            np.savez_compressed(target, **_measured(kb, real))
        print(name, "done", flush=True)


def _corpus(source: Path, folder: Path) -> Path:
    """The documents alone: a folder of data also holds questions and notes on its origin."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source / "corpus.jsonl", folder / "corpus.jsonl")
    return folder


def _measured(kb: KnowledgeBase, exam: Exam) -> dict[str, np.ndarray]:
    if len(exam.queries) > MOST:
        chosen = sorted(np.random.default_rng(SEED).choice(len(exam.queries), MOST, replace=False))
        exam = replace(exam, queries=tuple(exam.queries[i] for i in chosen))
    pipelines = {**CONTENDERS, **{f"leading {n}": text for n, text in enumerate(LEADING)}}
    contenders = tuple(Contender(name, Pipeline.parse(text)) for name, text in pipelines.items())
    outcome = Bench(kb).score(Plan(contenders, exam, (MEASURE,)))
    spans = outcome.view.spans()
    numbers = {name: number for number, name in enumerate(spans.names)}
    documents = dict(zip(spans.ids.tolist(), spans.documents.tolist(), strict=True))
    queries = outcome.plan.exam.queries
    own, leaders = outcome.rankings[: len(CONTENDERS)], outcome.rankings[len(CONTENDERS) :]
    width = max(len(query.judgments) for query in queries)
    gold, grades = np.full((len(queries), width), PAD), np.zeros((len(queries), width))
    for row, query in enumerate(queries):
        best: dict[int, int] = {}
        for judgment in query.judgments:
            number = numbers[judgment.document]
            best[number] = max(best.get(number, 0), judgment.grade)
        gold[row, : len(best)], grades[row, : len(best)] = list(best), list(best.values())
    return {
        "scores": outcome.scores[str(MEASURE)][:, : len(CONTENDERS)],
        "top": np.stack([_documents(ranking, documents) for ranking in own], axis=1),
        "pool": _pool(leaders, documents),
        "gold": gold,
        "grades": grades,
        "value": disagreement(leaders),
    }


def _documents(rankings: Rankings, documents: dict[int, int]) -> np.ndarray:
    """The first K different documents of each query."""
    top = np.full((len(rankings), K), PAD)
    for row in range(len(rankings)):
        first = list(dict.fromkeys(documents[chunk_id] for chunk_id in rankings.row(row)[0].tolist()))[:K]
        top[row, : len(first)] = first
    return top


def _pool(leaders: tuple[Rankings, ...], documents: dict[int, int]) -> np.ndarray:
    """The documents of the passages that a person sees."""
    pool = np.full((len(leaders[0]), POOL), PAD)
    for row in range(len(pool)):
        lists = [ranking.row(row)[0].tolist() for ranking in leaders]
        turns = [ids[rank] for rank in range(POOL) for ids in lists if rank < len(ids)]
        seen = [documents[chunk_id] for chunk_id in list(dict.fromkeys(turns))[:POOL]]
        pool[row, : len(seen)] = seen
    return pool


# ---------------------------------------------------------------- the simulation


def judged(data: dict[str, np.ndarray]) -> np.ndarray:
    """nDCG@10 by the marks of a person who saw the pool only, (questions, configurations); NaN if nothing was marked.
    A person does not grade: every marked document counts 1."""
    seen = (data["gold"][:, :, None] == data["pool"][:, None, :]).any(axis=2) & (data["grades"] > 0)
    marked = np.where(seen, data["gold"], -2)
    gains = (data["top"][:, :, :, None] == marked[:, None, None, :]).any(axis=3) @ DISCOUNTS
    ideal = np.array([DISCOUNTS[: min(K, count)].sum() for count in seen.sum(axis=1)])
    return np.where(ideal[:, None] > 0, gains / np.maximum(ideal, 1e-9)[:, None], np.nan)


Way = Callable[[np.ndarray, dict[str, np.ndarray], int], np.ndarray]


def by_chance(candidates: np.ndarray, data: dict[str, np.ndarray], count: int) -> np.ndarray:
    return candidates[:count]  # they are shuffled


def by_value(candidates: np.ndarray, data: dict[str, np.ndarray], count: int) -> np.ndarray:
    return candidates[np.argsort(-data["value"][candidates], kind="stable")][:count]


def by_value_of_all(candidates: np.ndarray, data: dict[str, np.ndarray], count: int) -> np.ndarray:
    return candidates[np.argsort(-data["value_of_all"][candidates], kind="stable")][:count]


def by_both(candidates: np.ndarray, data: dict[str, np.ndarray], count: int) -> np.ndarray:
    first = by_value(candidates, data, count // 2)
    return np.concatenate([first, np.setdiff1d(candidates, first, assume_unique=True)[: count - len(first)]])


WAYS: dict[str, Way] = {
    "at random": by_chance,
    "most disagreement": by_value,
    "half of each": by_both,
    "most disagreement of all 15": by_value_of_all,
}


@dataclass(frozen=True)
class Row:
    """The mean over the repeats, of one way to choose a number of questions."""

    regret: float
    """What the chosen configuration lacks to the best one, in points of nDCG@10."""
    answered: float
    """Questions with a relevant passage in the pool."""
    level: float
    """How far the answered questions overestimate the configurations' scores, in points."""
    gap: float
    """By how many points they misjudge the difference between BM25 and vectors, after averaging over the repeats: the
    bias, without the noise of small samples."""


def against_default(scores: np.ndarray) -> np.ndarray:
    return np.asarray(scores - scores[:, [list(CONTENDERS).index(DEFAULT)]], dtype=np.float64)


@dataclass(frozen=True)
class Prior:
    """What the other collections say."""

    belief: Belief
    typical: np.ndarray
    """Covariance of one question's differences."""

    def with_answers(self, marks: np.ndarray, scale: float) -> np.ndarray:
        """The posterior mean after these answers; `scale` makes up for questions that were chosen by disagreement."""
        if len(marks) < 3:
            return self.belief.mean
        seen = evidence(scale * against_default(marks), None, scale**2 * self.typical)
        return self.belief.updated(seen).mean


def simulate(data: dict[str, np.ndarray], prior: Prior) -> dict[str, Row]:
    marks, scores = judged(data), data["scores"]
    chance = np.random.default_rng(SEED)
    rows: dict[str, list[tuple[float, ...]]] = {}
    default = list(CONTENDERS).index(DEFAULT)
    for _ in range(REPEATS):
        order = chance.permutation(len(scores))
        candidates, rest = order[: len(order) // 2], order[len(order) // 2 :]
        truth = scores[rest].mean(axis=0)
        rows.setdefault("no question", []).append((100 * float(truth.max() - truth[default]), 0, 0, 0))
        offline = truth[int(np.argmax(prior.belief.mean))]
        rows.setdefault("the prior", []).append((100 * float(truth.max() - offline), 0, 0, 0))
        asked = {f"{way}, {n}": choose(candidates, data, n) for n in COUNTS for way, choose in WAYS.items()}
        for key, chosen in {**asked, "every candidate": candidates}.items():
            answered = chosen[~np.isnan(marks[chosen, 0])]
            estimate = marks[answered].mean(axis=0) if len(answered) else np.zeros(len(truth))
            best = np.flatnonzero(estimate >= estimate.max() - 1e-12)
            regret = float((truth.max() - truth[best]).mean())  # of equals, one at random
            level = float((estimate - truth).mean())
            bias = 100 * float(estimate[0] - estimate[1] - truth[0] + truth[1])
            rows.setdefault(key, []).append((100 * regret, len(answered), 100 * level, bias))
            value = data["value_of_all" if "all 15" in key else "value"]
            scale = min(1.0, value[candidates].mean() / max(value[chosen].mean(), 1e-9)) if "most" in key else 1.0
            best = int(np.argmax(prior.with_answers(marks[answered], scale)))
            lost = 100 * float(truth.max() - truth[best])
            rows.setdefault(f"{key}, with the prior", []).append((lost, len(answered), 100 * level, bias))
    means = {key: np.mean(found, axis=0).tolist() for key, found in rows.items()}
    return {key: Row(regret, answered, level, abs(bias)) for key, (regret, answered, level, bias) in means.items()}


def report(work: Path) -> None:
    collected = {path.stem: dict(np.load(path)) for path in sorted(work.glob("*.npz"))}
    differences = {name: against_default(data["scores"]) for name, data in collected.items()}
    found: dict[str, dict[str, Row]] = {}
    sizes = {}
    for name, data in collected.items():
        tops = [Rankings(top, np.zeros(top.shape)) for top in np.moveaxis(data["top"].astype(np.int64), 1, 0)]
        data["value_of_all"] = disagreement(tops)
        others = [scores for key, scores in differences.items() if key != name]
        found[name], sizes[name] = simulate(data, Prior(fit_prior(others), pooled(others))), len(data["scores"])
    keys = list(next(iter(found.values())))
    print(f"Collections: {', '.join(f'{name} ({size})' for name, size in sizes.items())}\n")
    print("| questions | mean regret | worst | answered | level | BM25 - vectors |\n|---|---|---|---|---|---|")
    for key in keys:
        rows = [every[key] for every in found.values()]
        regret, answered, level, gap = (np.mean([getattr(row, what) for row in rows]) for what in FIGURES)
        worst = max(row.regret for row in rows)
        print(f"| {key} | {regret:.2f} | {worst:.2f} | {answered:.0f} | {level:+.1f} | {gap:.1f} |")


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
        report(given.work)
