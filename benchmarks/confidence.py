"""Measures how well the confidence of a search is calibrated, and makes the built-in predictor.

    python benchmarks/confidence.py collect --data DATA --work WORK [--only NAME …]     asks every question
    python benchmarks/confidence.py report --work WORK           the tables of docs/results/confidence.md
    python benchmarks/confidence.py fit --work WORK              writes src/surefind/confidence/builtin.json
    python benchmarks/confidence.py cost --work WORK             the time that it takes

DATA holds collections in BEIR layout (a folder each). Each question is asked of all documents of its collection, and of
all but those that answer it. Besides, each collection is asked questions of the others, its own unanswerable questions
if it has some (`unanswerable.jsonl`), and nonsense. `collect` can be stopped and continued.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from _collecting import DEFAULT, collections, fewer, questions_of
from _shared import machine
from surefind import Access
from surefind.bench.plan import Contender, Plan
from surefind.calibrate.answers import ask, ask_twice
from surefind.confidence.builtin import FILE
from surefind.confidence.predictor import Predictor, fit
from surefind.confidence.signals import NAMES, Kind
from surefind.kb import KnowledgeBase
from surefind.measure.names import parse_measure
from surefind.measure.reliability import auc, brier, calibration_error, error_by_chance
from surefind.sample import sample_questions
from surefind.search.pipeline import Pipeline
from surefind.search.sure import sureness
from surefind.spec import make
from surefind.store.backend import View
from surefind.types import BoolArray, Floats, Query

MOST = 1000
"""Questions of a collection."""
FOREIGN = 200
"""Questions of other collections that a collection is asked."""
NONSENSE = 40
PIPELINES = {"words": "bm25", "meaning": "dense", "both": DEFAULT}
SEED = 7
SPLITS = 20
WEIGHT = 1000.0
"""The questions that each collection counts as in the built-in predictors."""
OTHERS = ("foreign", "nonsense", "unanswerable")


def collect(data: Path, work: Path, only: list[str]) -> None:
    names = collections(data)
    for name in only or names:
        target = work / f"confidence-{name}.npz"
        if target.exists():
            continue
        folder = work / name
        folder.mkdir(parents=True, exist_ok=True)
        with KnowledgeBase.open(folder) as kb:
            exam = fewer(questions_of(kb, name, data, work), MOST)
            others = {"foreign": foreign(data, name), "nonsense": nonsense(), "unanswerable": unanswerable(data, name)}
            found: dict[str, Any] = {}
            for kind, text in PIPELINES.items():
                pipeline = Pipeline.parse(text)
                plan = Plan((Contender("", pipeline),), exam, (parse_measure("Success@1"),))
                answers = ask_twice(kb, plan)
                assert answers.kind == kind
                found |= {f"{kind}/signals": answers.signals, f"{kind}/success": answers.success}
                found["groups"] = answers.groups
                for origin, texts in others.items():
                    if texts:
                        queries = [Query(text, str(i)) for i, text in enumerate(texts)]
                        found[f"{kind}/{origin}"] = ask(kb, pipeline, queries, answers.view)[1]
        np.savez_compressed(target, **found)
        print(f"{name}: {len(answers.queries)} questions", flush=True)


def foreign(data: Path, name: str) -> list[str]:
    others = [path for path in sorted(data.glob("*/queries.jsonl")) if path.parent.name != name]
    chance = random.Random(SEED)
    return [text for path in others for text in chance.sample(list(texts(path)), FOREIGN // len(others))]


def unanswerable(data: Path, name: str) -> list[str]:
    path = data / name / "unanswerable.jsonl"
    return random.Random(SEED).sample(list(texts(path)), MOST) if path.exists() else []


def nonsense() -> list[str]:
    """Strings of random letters, one to four words each."""
    chance = random.Random(SEED)
    word = lambda: "".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(4, 9)))  # noqa: E731
    return [" ".join(word() for _ in range(chance.randint(1, 4))) for _ in range(NONSENSE)]


def texts(path: Path) -> Iterator[str]:
    for line in path.read_text(encoding="utf-8").splitlines():
        yield json.loads(line)["text"]


# ---------------------------------------------------------------- the built-in predictors


@dataclass(frozen=True, eq=False)
class Collection:
    """The searches of one kind of pipeline in one collection."""

    name: str
    signals: Floats
    success: BoolArray
    groups: Any
    others: dict[str, Floats]
    answerable: int

    @classmethod
    def load(cls, path: Path, kind: Kind) -> Collection:
        found = dict(np.load(path))
        stored = kind if kind != "other" else "words"
        read = (lambda values: values) if kind != "other" else (lambda values: _common(values))
        others = {one: read(found[f"{stored}/{one}"]) for one in OTHERS if f"{stored}/{one}" in found}
        name = path.stem.removeprefix("confidence-")
        success = found[f"{stored}/success"]
        return cls(name, read(found[f"{stored}/signals"]), success, found["groups"], others, len(success) // 2)

    @property
    def with_unanswerable(self) -> Collection:
        """The same with its own unanswerable questions beside those whose answer was removed."""
        more = self.others["unanswerable"]
        groups = np.concatenate([self.groups, self.groups.max() + 1 + np.arange(len(more))])
        success = np.concatenate([self.success, np.zeros(len(more), np.bool_)])
        signals = np.concatenate([self.signals, more])
        return Collection(f"{self.name} + unanswerable", signals, success, groups, {}, self.answerable)

    @property
    def all(self) -> tuple[Floats, BoolArray]:
        """Its own questions with and without answers, and those that it cannot answer."""
        signals = np.concatenate([self.signals, *self.others.values()])
        return signals, np.concatenate([self.success, np.zeros(len(signals) - len(self.success), np.bool_)])

    @property
    def counts(self) -> Floats:
        """How often each row of `all` counts. Questions that have nothing to do with the documents are a tenth, however
        many were asked."""
        own, rest = len(self.success), sum(map(len, self.others.values()))
        return np.concatenate([np.full(own, 0.9 * WEIGHT / own), np.full(rest, 0.1 * WEIGHT / rest)])


def _common(values: Floats) -> Floats:
    return values[:, [NAMES["words"].index(name) for name in NAMES["other"]]]


def loaded(work: Path, kind: Kind) -> list[Collection]:
    return [Collection.load(path, kind) for path in sorted(work.glob("confidence-*.npz"))]


def learnt(parts: Sequence[Collection]) -> list[Collection]:
    """The collections that the built-in predictors learn from. The questions of PolicyQA name no web site ("do you
    share my data?"), so no search without a filter can answer them."""
    return [part for part in parts if part.name != "policyqa"]


def pooled(parts: Sequence[Collection]) -> Predictor:
    """A predictor in which every collection counts the same."""
    signals, success = (np.concatenate(values) for values in zip(*(part.all for part in parts), strict=True))
    return fit(signals, success, counts=np.concatenate([part.counts for part in parts]))


def write(work: Path) -> None:
    found = {kind: learnt(loaded(work, kind)) for kind in NAMES}
    data = {
        "command": "python benchmarks/confidence.py fit",
        "encoder": make("retrieve", "dense").index_spec,
        "collections": {part.name: len(part.success) // 2 for part in found["both"]},
        "signals": NAMES,
        "predictors": {kind: pooled(parts).as_data() for kind, parts in found.items()},
    }
    place = Path(__file__).parents[1] / "src" / "surefind" / "confidence" / FILE
    place.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    print(f"Wrote {place.name} from {len(found['both'])} collections.")


# ---------------------------------------------------------------- report


def report(work: Path) -> None:
    for kind in ("both", "words", "meaning"):
        parts = loaded(work, kind)
        before = {part.name: pooled([other for other in learnt(parts) if other is not part]) for part in parts}
        print(f"\n## {kind}: {PIPELINES[kind]}")
        own_exam(parts, before)
        small_exams(parts, before)
        never_seen(parts, before)
        unanswered(parts, before)


def halves(part: Collection) -> Iterator[BoolArray]:
    """Which rows are held out, in each split. Questions about a document, with and without it, are in the same half."""
    rng = np.random.default_rng(SEED)
    names = np.unique(part.groups)
    for _ in range(SPLITS):
        yield (rng.permutation(len(names)) < len(names) // 2)[np.searchsorted(names, part.groups)]


def own_exam(parts: list[Collection], before: dict[str, Predictor]) -> None:
    from sklearn.isotonic import IsotonicRegression

    print("\nCalibrated on one half of the questions, checked on the other; 20 splits\n")
    print("| collection | questions | first right | ECE [range] | perfect | Brier | AUC | isotonic: ECE | Brier |")
    print("|---|---|---|---|---|---|---|---|---|")
    for part in [*parts, *(part.with_unanswerable for part in parts if "unanswerable" in part.others)]:
        rows = []
        for out in halves(part):
            made = fit(part.signals[~out], part.success[~out], earlier=before[part.name.partition(" ")[0]])
            p, truth = made(part.signals[out]), part.success[out]
            steps = IsotonicRegression(out_of_bounds="clip").fit(made(part.signals[~out]), part.success[~out])
            q = steps.predict(p)
            steady = calibration_error(p, truth), error_by_chance(p), brier(p, truth), auc(p, truth) or np.nan
            rows.append((*steady, calibration_error(q, truth), brier(q, truth)))
        mean, low, high = np.mean(rows, axis=0), np.min(rows, axis=0), np.max(rows, axis=0)
        half = part.answerable
        row = [part.name, str(half), f"{part.success[:half].mean():.3f}"]
        row += [f"{mean[0]:.3f} [{low[0]:.3f}, {high[0]:.3f}]", *(f"{value:.3f}" for value in mean[1:])]
        print(f"| {' | '.join(row)} |")


def small_exams(parts: list[Collection], before: dict[str, Predictor], questions: int = 60) -> None:
    """Whether the built-in weights help an exam of few questions."""
    print(
        f"\nBrier on the other half, calibrated on {questions} questions: built-in alone, from nothing, from built-in\n"
    )
    for part in parts:
        rows = []
        for out in halves(part):
            some = np.flatnonzero(~out)
            some = np.concatenate([some[some < len(out) // 2][:questions], some[some >= len(out) // 2][:questions]])
            few = part.signals[some], part.success[some]
            made = before[part.name], fit(*few), fit(*few, earlier=before[part.name])
            rows.append([brier(one(part.signals[out]), part.success[out]) for one in made])
        print(f"{part.name}: " + " ".join(f"{value:.4f}" for value in np.mean(rows, axis=0)))


def never_seen(parts: list[Collection], before: dict[str, Predictor]) -> None:
    print("\nThe built-in predictor of the other collections, on all questions with and without their documents\n")
    print("| collection | ECE | mean predicted | observed | Brier | AUC |\n|---|---|---|---|---|---|")
    for part in parts:
        p = before[part.name](part.signals)
        print(f"| {part.name} | {calibration_error(p, part.success):.3f} | {p.mean():.3f} | {part.success.mean():.3f} "
              f"| {brier(p, part.success):.3f} | {auc(p, part.success) or np.nan:.3f} |")  # fmt: skip


def unanswered(parts: list[Collection], before: dict[str, Predictor]) -> None:
    """How sure searches are whose questions have no answer; calibrated on the whole exam, and built-in."""
    print("\nMean confidence (share of at least 0.5) by origin of the question: calibrated; built-in\n")
    for part in parts:
        made = fit(part.signals, part.success, earlier=before[part.name])
        half = len(part.success) // 2
        groups = {"answerable": part.signals[:half], "answer removed": part.signals[half:], **part.others}
        cells = []
        for name, signals in groups.items():
            found = [one(signals) for one in (made, before[part.name])]
            cells.append(f"{name} " + "; ".join(f"{p.mean():.3f} ({(p >= 0.5).mean():.0%})" for p in found))
        print(f"{part.name}: " + " | ".join(cells))


# ---------------------------------------------------------------- cost


def cost(work: Path) -> None:
    """CPU time of the confidence of one search, beside that of the search, on the sample; the shortest of five, because
    other work on the machine makes it longer."""
    print(machine("numpy"))
    with KnowledgeBase.open(work / "sample") as kb:
        view, owner = kb.reader().view, Access.owner()
        questions = [row["query"] for row in map(json.loads, sample_questions().read_text("utf-8").splitlines())]
        for kind, text in PIPELINES.items():
            pipeline = Pipeline.parse(text)
            tries = [[_taken(kb, pipeline, Query(text), view, owner) for text in questions] for _ in range(5)]
            taken = np.min(tries, axis=0) * 1000
            median, high = np.median(taken, axis=0), np.quantile(taken, 0.95, axis=0)
            print(f"{kind}: search {median[0]:.2f} ms, confidence {median[1]:.2f} ms (95%: {high[1]:.2f} ms)")


def _taken(kb: KnowledgeBase, pipeline: Pipeline, query: Query, view: View, access: Access) -> tuple[float, float]:
    first = next(iter(kb.search(query.text, access, 1, pipeline).hits), None)
    started = time.thread_time()
    run = pipeline.run([query], 10, view, kb.services, access)
    searched = time.thread_time()
    sureness(run, query, pipeline, view, kb.services, access, first)
    return searched - started, time.thread_time() - searched


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["collect", "report", "fit", "cost"])
    parser.add_argument("--data", type=Path, help="a folder of collections in BEIR layout")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--only", action="append", default=[], help="a collection; may be repeated")
    args = parser.parse_args()
    if args.step == "collect":
        if args.data is None:
            parser.error("collect needs --data")
        collect(args.data, args.work, args.only)
    elif args.step == "fit":
        write(args.work)
    elif args.step == "cost":
        cost(args.work)
    else:
        report(args.work)


if __name__ == "__main__":
    main()
