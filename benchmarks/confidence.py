"""Measures how far the confidence of a search holds on documents that it has not seen, and makes the built-in one.

    python benchmarks/confidence.py collect --data DATA --work WORK [--only NAME …]     asks every question
    python benchmarks/confidence.py report --work WORK           the tables of docs/results/confidence.md
    python benchmarks/confidence.py fit --work WORK              writes src/surefind/engine/confidence/builtin.json
    python benchmarks/confidence.py cost --work WORK             the time that it takes

DATA holds collections in BEIR layout (a folder each); the four handbooks of `questions/` beside this file are folders
of documents there. Each question is asked of all documents of its collection, and of all but those that answer it.
Besides, each collection is asked questions of the others (foreign) and questions that were written to have no answer
(trick), if it has some. `collect` can be stopped and continued.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from _collecting import collections, fewer, questions_of
from _shared import machine
from surefind import Access
from surefind.base.disk.sealed import to_json
from surefind.base.protocols import Retriever
from surefind.base.spec import make
from surefind.base.types import PAD, SURE, BoolArray, Effort, Floats, Query, Rankings
from surefind.doors.cli.demo import sample_questions
from surefind.engine.confidence.answering import FILE
from surefind.engine.confidence.predictor import LogisticModel, fit
from surefind.engine.confidence.signals import NAMES, READ_SIGNALS, Kind
from surefind.engine.search.pipeline import Pipeline
from surefind.engine.services import LocalServices
from surefind.engine.store.backend import View
from surefind.kb import KnowledgeBase
from surefind.kb.settings.template import BASES
from surefind.lab.bench.engine import OWNER
from surefind.lab.calibrate.confidence import ask
from surefind.lab.exam.formats.library import Library
from surefind.lab.exam.formats.table import read_table
from surefind.lab.exam.model import Exam
from surefind.lab.measure.thresholds import auc, brier, calibration_error, error_by_chance

MOST, AWAY, FOREIGN, TRICK = 100, 50, 54, 50
"""Questions of a collection: with an answer, with their answer removed, of other collections, made to have none."""
PIPELINES: dict[Kind, str] = {"words": "bm25", "meaning": "dense", "both": BASES["pair"]}
ORIGINS = ("there", "removed", "foreign", "trick")
SHARES = {"there": 1.0, "removed": 0.3, "foreign": 1.0, "trick": 0.3}
"""How much each origin counts for the weights of the signals, which order searches."""
SCALED = {"there": 1.0, "removed": 0.1, "foreign": 0.05, "trick": 0.1}
"""The same for the scale of the probabilities. A knowledge base is asked mostly what it can answer."""
WEIGHT = 500.0
"""The questions that each collection counts as."""
HANDBOOKS = {
    "govuk-devdocs": "kb-govuk-devdocs/source",
    "openshift-runbooks": "kb-openshift-runbooks/alerts",
    "debian-handbook": "kb-debian-handbook",
    "gnucash": "kb-gnucash",
}
"""The documents of the questions beside this file. Two are of Debian packages: `apt-get download debian-handbook
gnucash-docs`, and of these the folders html/en-US and gnucash-guide-en, gnucash-help-en."""
QUESTIONS = Path(__file__).parent / "questions"
SEED = 7
SPLITS = 20
FEW = (20, 60)


# ---------------------------------------------------------------- collect


def collect(data: Path, work: Path, only: list[str]) -> None:
    for name in only or [*HANDBOOKS, *collections(data)]:
        target = work / f"confidence-{name}.npz"
        found = dict(np.load(target)) if target.exists() else {}
        kinds = [kind for kind in PIPELINES if f"{kind}/there" not in found]
        if not kinds:
            continue
        folder = work / name
        folder.mkdir(parents=True, exist_ok=True)
        with KnowledgeBase.open(folder) as kb:
            exam = fewer(exam_of(kb, name, data, work), MOST)
            for kind in kinds:
                others = {"foreign": foreign(data, name) + elsewhere(name), "trick": trick(data, name)}
                found |= asked(kb, kind, exam, others)
                np.savez_compressed(target, **found)
        print(f"{name}: {len(exam.queries)} questions", flush=True)


def exam_of(kb: KnowledgeBase, name: str, data: Path, work: Path) -> Exam:
    if name not in HANDBOOKS:
        return questions_of(kb, name, data, work)
    kb.sync(data / HANDBOOKS[name])
    return read_table(QUESTIONS / f"{name}.jsonl", Library(kb.documents(Access.owner())))


def asked(kb: KnowledgeBase, kind: Kind, exam: Exam, others: dict[str, list[str]]) -> dict[str, Floats | BoolArray]:
    """Returns the signals of each origin, and whether the first hit is right. Only the default pipeline reads."""
    pipeline = Pipeline.parse(PIPELINES[kind])
    kb.build(pipeline)
    view = kb.reader().view
    gold = {query.id: frozenset(j.document for j in query.judgments if j.grade > 0) for query in exam.queries}
    queries = [Query(query.text, query.id) for query in exam.queries]

    def signals(some: list[Query], where: View = view) -> Floats:
        quick = ask(kb, pipeline, some, where)[1]
        read = [ask(kb, pipeline, some, where, "read")[1][:, -len(READ_SIGNALS) :]] if kind == "both" else []
        return np.concatenate([quick, *read], axis=1)

    run = pipeline.run(queries, 1, kb.reader().reading(OWNER))
    firsts = [view.passages(run.rankings.row(number)[0][:1].tolist(), OWNER) for number in range(len(queries))]
    right = [bool(one) and one[0].chunk.document in gold[query.id] for one, query in zip(firsts, queries, strict=True)]
    found = {f"{kind}/there": signals(queries), f"{kind}/right": np.array(right)}
    found[f"{kind}/removed"] = signals(queries[:AWAY], cast(View, Without(view, gold)))
    for origin, texts in others.items():
        if texts:
            found[f"{kind}/{origin}"] = signals([Query(text, str(number)) for number, text in enumerate(texts)])
    return found


def foreign(data: Path, name: str) -> list[str]:
    others = [path for path in sorted(data.glob("*/queries.jsonl")) if path.parent.name != name]
    chance = random.Random(SEED)
    return [text for path in others for text in chance.sample(texts(path), FOREIGN // len(others))]


def trick(data: Path, name: str) -> list[str]:
    path = data / name / "unanswerable.jsonl"
    if path.exists():
        return random.Random(SEED).sample(texts(path), TRICK)
    path = QUESTIONS / f"{name}.unanswerable.jsonl"
    return texts(path) if path.exists() else []


def elsewhere(name: str) -> list[str]:
    """Questions of other subjects, for a handbook."""
    return texts(QUESTIONS / "other-subjects.jsonl") if name in HANDBOOKS else []


def texts(path: Path) -> list[str]:
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [row.get("text") or row["query"] for row in rows]


# ---------------------------------------------------------------- the built-in predictors


@dataclass(frozen=True, eq=False)
class Collection:
    """The searches of one kind in one collection, by the origin of their questions."""

    name: str
    signals: dict[str, Floats]
    right: BoolArray

    @classmethod
    def load(cls, path: Path, kind: Kind) -> Collection:
        """What was not collected for a kind is taken from the default pipeline: readings of BM25 or vectors alone."""
        found = dict(np.load(path))
        stored = kind if f"{kind}/there" in found else "both"
        have = (*NAMES["both"], *READ_SIGNALS) if stored == "both" else NAMES[stored]
        columns = [have.index(name) for name in NAMES[kind]]
        signals = {one: found[f"{stored}/{one}"][:, columns] for one in ORIGINS if f"{stored}/{one}" in found}
        return cls(path.stem.removeprefix("confidence-"), signals, found[f"{stored}/right"])

    def rows(self, shares: Mapping[str, float]) -> tuple[Floats, BoolArray, Floats]:
        """All signals, whether the first hit is right, and how much each search counts."""
        success = [self.right if one == "there" else np.zeros(len(self.signals[one]), np.bool_) for one in self.signals]
        counts = [np.full(len(values), shares[one] * WEIGHT / len(values)) for one, values in self.signals.items()]
        return np.concatenate(list(self.signals.values())), np.concatenate(success), np.concatenate(counts)


def loaded(work: Path, kind: Kind) -> list[Collection]:
    return [Collection.load(path, kind) for path in sorted(work.glob("confidence-*.npz"))]


NOT_LEARNT = ("policyqa", "cranfield", "hotpotqa-sub", "debian-handbook", "gnucash")
"""Collections that are judged only. The questions of PolicyQA name no web site ("do you share my data?"), so no search
without a filter can answer them; by the judgments of Cranfield, no signal tells right first hits from wrong ones; and a
question of HotpotQA needs two documents. Two of the handbooks are kept to judge."""


def learnt(parts: Sequence[Collection]) -> list[Collection]:
    """The collections that the built-in predictors learn from."""
    return [part for part in parts if part.name not in NOT_LEARNT]


def pooled(parts: Sequence[Collection]) -> LogisticModel:
    """A predictor in which every collection counts the same: first the weights, then the scale."""
    made = fit(*joined(parts, SHARES)[:2], counts=joined(parts, SHARES)[2])
    signals, success, counts = joined(parts, SCALED)
    logits = ((signals - made.means) / made.scales @ made.weights + made.intercept)[:, None]
    scale = fit(logits, success, strength=0.01, counts=counts)
    slope = float(scale.weights[0] / scale.scales[0])
    shift = scale.intercept - slope * float(scale.means[0])
    return LogisticModel(made.means, made.scales, made.weights * slope, made.intercept * slope + shift)


def joined(parts: Sequence[Collection], shares: Mapping[str, float]) -> tuple[Floats, BoolArray, Floats]:
    signals, success, counts = (np.concatenate(v) for v in zip(*(part.rows(shares) for part in parts), strict=True))
    return signals, success, counts


def write(work: Path) -> None:
    """Writes the maps of the searches that read. The others stay as they are: they were learnt from more collections,
    with 300 questions each, and do not depend on the reader."""
    found = {kind: learnt(loaded(work, kind)) for kind in NAMES if kind.endswith("read")}
    place = Path(__file__).parents[1] / "src" / "surefind" / "engine" / "confidence" / FILE
    data = json.loads(place.read_text(encoding="utf-8"))
    data |= {
        "command": "python benchmarks/confidence.py fit",
        "encoder": make("retrieve", "dense").index_spec(LocalServices()),
        "collections": {part.name: len(part.right) for part in found["both, read"]},
        "signals": NAMES,
    }
    data["predictors"] |= {kind: to_json(pooled(parts).saved) for kind, parts in found.items()}
    place.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    print(f"Wrote {place.name} from {len(found['both, read'])} collections.")


# ---------------------------------------------------------------- report


def report(work: Path) -> None:
    for kind in ("both", "both, read"):
        parts = loaded(work, cast(Kind, kind))
        others = {part.name: pooled([other for other in learnt(parts) if other is not part]) for part in parts}
        never_seen(kind, parts, others)
        if kind == "both, read":
            words(parts, others)
            minimum(parts, others)
            few(parts, others)


def never_seen(kind: str, parts: list[Collection], others: dict[str, LogisticModel]) -> None:
    print(f"\n## {kind}: the predictor of the other collections\n")
    print("| collection | questions | right | confidence | ECE | perfect | AUROC right | removed | foreign | trick |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    rows = []
    for part in parts:
        p = {one: others[part.name](values) for one, values in part.signals.items()}
        there = p["there"]
        apart = [auc(np.append(there, p[one]), np.arange(len(there) + len(p[one])) < len(there)) if one in p else None
                 for one in ORIGINS[1:]]  # fmt: skip
        row = [part.right.mean(), there.mean(), calibration_error(there, part.right), error_by_chance(there)]
        rows.append([*row, auc(there, part.right), *apart])
        print(f"| {part.name} | {len(there)} | {' | '.join(map(figure, rows[-1]))} |")
    table = np.array([[np.nan if value is None else value for value in row] for row in rows])
    print(f"| mean | | {' | '.join(map(figure, np.nanmean(table, axis=0)))} |")


def figure(value: float | None) -> str:
    return "–" if value is None or np.isnan(value) else f"{value:.3f}"


def words(parts: list[Collection], others: dict[str, LogisticModel]) -> None:
    """How often each of the words holds, over all collections that are not PolicyQA."""
    print("\n## Words\n\n| words | right, of questions with an answer | of them, by collection |"
          " share of removed | of foreign | of trick |\n|---|---|---|---|---|---|")  # fmt: skip
    known = learnt(parts)
    above = 1.01
    for least, text in SURE:
        rights, shares = [], {one: [] for one in ORIGINS}
        for part in known:
            p = {one: others[part.name](values) for one, values in part.signals.items()}
            said = {one: (values >= least) & (values < above) for one, values in p.items()}
            if said["there"].sum() >= 5:
                rights.append(part.right[said["there"]].mean())
            for one, values in said.items():
                shares[one].append(values.mean())
        apart = " | ".join(f"{np.mean(shares[one]):.0%}" for one in ORIGINS[1:])
        print(f"| {text} ({np.mean(shares['there']):.0%} of the questions with an answer) | {np.mean(rights):.0%} "
              f"| {min(rights):.0%} to {max(rights):.0%} | {apart} |")  # fmt: skip
        above = least


def minimum(parts: list[Collection], others: dict[str, LogisticModel]) -> None:
    print("\n## min_confidence: right first hits that are hidden, wrong ones that are shown\n")
    print("| min_confidence | right hidden | wrong shown | removed shown | foreign shown |\n|---|---|---|---|---|")
    known = learnt(parts)
    for least in (0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6):
        rows = []
        for part in known:
            p = {one: others[part.name](values) >= least for one, values in part.signals.items()}
            shown = p["there"]
            rows.append(
                [(~shown[part.right]).mean(), shown[~part.right].mean(), p["removed"].mean(), p["foreign"].mean()]
            )
        print(f"| {least:g} | {' | '.join(f'{value:.0%}' for value in np.mean(rows, axis=0))} |")


def few(parts: list[Collection], others: dict[str, LogisticModel]) -> None:
    """What a few labelled questions of a collection improve, on its other questions."""
    print("\n## Few labels: ECE and Brier score on the other questions, means of 20 draws\n")
    print(f"| collection | built in | {' | '.join(f'{count} labels' for count in FEW)} |\n|---|---|{'---|' * len(FEW)}")
    table = []
    for part in parts:
        rng, rows = np.random.default_rng(SEED), []
        signals, right = part.signals["there"], part.right
        for _ in range(SPLITS):
            order = rng.permutation(len(right))
            held = order[max(FEW) :]
            row = [others[part.name](signals[held])]
            for count in FEW:
                some = order[:count]
                row.append(fit(signals[some], right[some], earlier=others[part.name])(signals[held]))
            rows.append([f(p, right[held]) for p in row for f in (calibration_error, brier)])
        table.append(np.mean(rows, axis=0))
        print(f"| {part.name} | {pairs(table[-1])} |")
    print(f"| mean | {pairs(np.mean(table, axis=0))} |")


def pairs(values: Floats) -> str:
    return " | ".join(f"{error:.3f}, {score:.3f}" for error, score in values.reshape(-1, 2).tolist())


# ---------------------------------------------------------------- cost


def cost(work: Path) -> None:
    """Seconds of a search of the sample, by how it finds out how sure it is; the shortest of three."""
    print(machine("numpy", "onnxruntime"))
    with KnowledgeBase.open(work / "sample") as kb:
        questions = [row["query"] for row in map(json.loads, sample_questions().read_text("utf-8").splitlines())][:60]
        for effort in ("off", "quick", "read"):
            tries = [[_taken(kb, text, cast(Effort, effort)) for text in questions] for _ in range(3)]
            taken = np.min(tries, axis=0) * 1000
            print(f"{effort}: p50 {np.median(taken):.1f} ms, p95 {np.quantile(taken, 0.95):.1f} ms")


def _taken(kb: KnowledgeBase, text: str, effort: Effort) -> float:
    started = time.perf_counter()
    kb.search(text, Access.owner(), confidence=effort)
    return time.perf_counter() - started


class Without:
    """A `View` whose searches leave out some documents of each query, by the query's id. The rest is the inner view's.

    A passage is left out after the search, so the weights of words are those of all documents."""

    def __init__(self, view: View, gone: Mapping[str, frozenset[str]]) -> None:
        self._view = view
        spans = view.spans()
        numbers = {name: number for number, name in enumerate(spans.names)}
        self._gone = {query: np.array([numbers[d] for d in names if d in numbers]) for query, names in gone.items()}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._view, name)

    def __len__(self) -> int:
        return len(self._view)

    def search(self, retriever: Retriever, queries: Sequence[Query], k: int, access: Access) -> Rankings:
        found = self._view.search(retriever, queries, k, access)
        spans = self._view.spans()
        documents = spans.documents[np.maximum(spans.at(found.ids), 0)]
        hidden = [np.isin(row, self._gone[query.id]) for row, query in zip(documents, queries, strict=True)]
        kept = ~np.array(hidden).reshape(found.ids.shape) & (found.ids != PAD)
        order = np.argsort(~kept, axis=1, kind="stable")
        ids = np.take_along_axis(np.where(kept, found.ids, PAD), order, 1)
        scores = np.take_along_axis(np.where(kept, found.scores, -np.inf), order, 1)
        return replace(found, ids=ids, scores=scores.astype(found.scores.dtype))


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
    else:
        {"fit": write, "cost": cost, "report": report}[args.step](args.work)


if __name__ == "__main__":
    main()
