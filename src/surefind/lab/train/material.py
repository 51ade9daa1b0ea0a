"""The data for training: an exam's questions with the rankings of every retriever, in two halves.

The tuning half is for fitting and choosing; the held-out half is only for the report (`exam.split`). With
`split=70/15/15`, questions are divided as in the agentic-knowledge-base study: 70% to fit, 15% to choose and 15% for
the report, at random within each family. Questions about one document then fall into several parts.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from surefind.base.errors import ExamError, MissingPartError, SpecError
from surefind.base.protocols import OnProgress
from surefind.base.types import FloatArray, Floats, IdArray, Query, Rankings
from surefind.engine.fuse.support.predictors import Norm, blend
from surefind.engine.retrieve.dense import Dense
from surefind.engine.search.pipeline import Pipeline, fold, score_missing
from surefind.engine.store.backend import View
from surefind.kb import KnowledgeBase
from surefind.lab.bench.engine import OWNER, places_of
from surefind.lab.bench.plan import short
from surefind.lab.bench.reranking import stacked
from surefind.lab.exam.model import Exam, ExamQuery, held_out, relocate
from surefind.lab.measure.lss import Labeller
from surefind.lab.measure.ranks import MEASURES, ChunkSpans, Judge, Measure

MIN_QUESTIONS = 60
"""Fewest questions of an exam to train on; with fewer, the halves would be too small to learn from or to test on."""
_DIVISIBLE = 7
"""Fewest questions of a family for which a 70/15/15 split leaves one in each part."""
_BATCH = 256
NORMS: tuple[Norm, Norm] = ("floor", "minmax")
Split = Literal["halves", "70/15/15"]
SPLITS: tuple[Split, ...] = ("halves", "70/15/15")
Missing = Literal["score"] | None
"""Whether retrievers also score the candidates that they did not return."""


@dataclass(frozen=True)
class Half:
    """Some of an exam's questions with the rankings of every retriever."""

    queries: tuple[ExamQuery, ...]
    found: tuple[Rankings, ...]
    """The rankings as each retriever returned them."""
    rankings: tuple[Rankings, ...]
    """The rankings to fuse; with `missing=score`, every candidate has a score in each."""
    measure: Measure
    places: ChunkSpans
    labeller: Labeller
    parents: Callable[[IdArray], IdArray | None] = lambda ids: None
    """The parent of each id, if the layout searches children and returns parents; otherwise None."""

    @property
    def texts(self) -> list[str]:
        return [query.text for query in self.queries]

    @cached_property
    def judge(self) -> Judge:
        return Judge(self.queries, self.places)

    def taken(self, rows: NDArray[np.int64]) -> Half:
        """A subset of the questions."""
        queries = tuple(self.queries[i] for i in rows)
        retrieved, rankings = (tuple(take(r, rows) for r in lists) for lists in (self.found, self.rankings))
        return replace(self, queries=queries, found=retrieved, rankings=rankings, labeller=self.labeller.of(queries))

    def score(self, ranking: Rankings) -> Floats:
        """The measure of each question."""
        whole = fold(ranking, self.parents)
        return MEASURES[self.measure.name](self.judge.gains(whole, self.measure.level), self.measure.k)

    @property
    def width(self) -> int:
        """The length of fused rankings: all candidates, as in a search."""
        return sum(ranking.ids.shape[1] for ranking in self.found)

    def blended(self, weights: Floats, norm: Norm) -> Floats:
        """The measure of each question with these weights: one row for all questions, or one row for each."""
        return self.score(blend(self.rankings, np.atleast_2d(weights), norm, self.width, "blend"))

    def sweep(self, candidates: Floats, norm: Norm) -> Floats:
        """The measure of each question with each candidate weighting, (questions, candidates)."""
        return np.stack([self.blended(candidate, norm) for candidate in candidates], axis=1)

    @cached_property
    def alphas(self) -> Floats:
        """α* of each question."""
        return self.labeller.alphas(self.rankings)


@dataclass(frozen=True)
class Material:
    exam: Exam
    pipeline: Pipeline
    """The retrievers, without a fuser."""
    missing: Missing
    view: View
    tuning: Half
    held: Half
    embed: Callable[[Sequence[str]], FloatArray]
    embedder: str
    validation: NDArray[np.int64] | None = None
    """The rows of the tuning part that only choose among models; None if the fit divides the tuning half itself."""

    @property
    def swapped(self) -> Material:
        """The same material with the halves exchanged."""
        return replace(self, tuning=self.held, held=self.tuning)

    @property
    def joined(self) -> str:
        """The retrievers in the text form of a pipeline."""
        return " + ".join(short(Pipeline((retriever,))) for retriever in self.pipeline.retrieve)


def gather(
    kb: KnowledgeBase,
    exam: Exam,
    retrieve: Sequence[str],
    measure: Measure,
    missing: Missing = None,
    report: OnProgress | None = None,
    split: Split = "halves",
) -> Material:
    if measure.of_spans:
        raise SpecError(f"Training needs a rank measure such as nDCG@10 or RR@10:span, not {measure}.")
    pipeline = Pipeline.of(retrieve, "rrf" if len(retrieve) > 1 else None)
    if len(set(map(str, pipeline.retrieve))) < max(2, len(retrieve)):
        raise SpecError("Training needs two or more different retrievers: --retrieve bm25 --retrieve dense.")
    _enough(exam, len(exam.queries))
    kb.build_for(pipeline.retrieve, report=report)
    reader = kb.reader()
    view = reader.view
    documents = {document.id: document.text for document in reader.documents(OWNER)}
    queries = relocate(exam, documents)[0].queries
    _enough(exam, len(queries))
    retrieved = _retrieved(view, pipeline, queries, report)
    lists = list(retrieved)
    if missing == "score":
        lists = score_missing(lists, [Query(query.text, query.id) for query in queries], pipeline.retrieve, view, OWNER)
    embedder = next((r.model for r in pipeline.retrieve if isinstance(r, Dense)), "")
    labeller = Labeller(queries, view.spans(), documents)
    places = places_of(view.spans(), documents)
    whole = Half(queries, retrieved, tuple(lists), measure, places, labeller, view.parents)
    tuning, held, validation = divided(queries, split)
    return Material(
        exam,
        pipeline,
        missing,
        view,
        whole.taken(tuning),
        whole.taken(held),
        lambda texts: kb.services.embedder(embedder).embed_queries(texts),
        embedder,
        validation,
    )


Rows = NDArray[np.int64]


def divided(queries: Sequence[ExamQuery], split: Split) -> tuple[Rows, Rows, Rows | None]:
    """The rows of the tuning and of the held-out part, and the places of the validation rows in the tuning part."""
    if split == "halves":
        out = np.array(held_out(queries))
        return np.flatnonzero(~out), np.flatnonzero(out), None
    train, validation, test = parts([query.family for query in queries])
    tuning = np.sort(np.concatenate([train, validation]))
    return tuning, test, np.searchsorted(tuning, validation)


def _retrieved(
    view: View, pipeline: Pipeline, queries: Sequence[ExamQuery], report: OnProgress | None
) -> tuple[Rankings, ...]:
    """The rankings of each retriever, as deep as in a search."""
    progress: OnProgress = report or (lambda what, done, total: None)
    searches = [Query(query.text, query.id) for query in queries]
    retrieved = []
    for retriever in pipeline.retrieve:
        parts = []
        for at in range(0, len(searches), _BATCH):
            progress(f"Retrieving {retriever.name}", at, len(searches))
            parts.append(view.search(retriever, searches[at : at + _BATCH], pipeline.depth, OWNER))
        retrieved.append(stacked(parts, pipeline.depth))
        progress(f"Retrieving {retriever.name}", len(searches), len(searches))
    return tuple(retrieved)


def best_static(material: Material) -> tuple[Norm, Floats]:
    """The scaling and the weights with the best mean on the tuning half."""
    candidates = simplex(len(material.tuning.rankings))
    means = {norm: material.tuning.sweep(candidates, norm).mean(axis=0) for norm in NORMS}
    norm = max(NORMS, key=lambda norm: float(means[norm].max()))
    return norm, candidates[int(means[norm].argmax())]


def _enough(exam: Exam, there: int) -> None:
    if there < MIN_QUESTIONS:
        raise ExamError(
            f"The exam {exam.label} has {there} questions about the current documents; training needs at least "
            f"{MIN_QUESTIONS}. Write more with: surefind exam generate --per-family 200."
        )


def take(ranking: Rankings, rows: NDArray[np.int64]) -> Rankings:
    return replace(ranking, ids=ranking.ids[rows], scores=ranking.scores[rows])


def simplex(rankings: int, parts: int = 0) -> Floats:
    """The candidate weightings: every way to distribute this many equal parts. By default, ten parts for two rankings
    (α, the weight of the second, from 0 to 1), five for three, and four for more."""
    parts = parts or (10 if rankings == 2 else 5 if rankings == 3 else 4)
    rows = []
    for bars in combinations(range(parts + rankings - 1), rankings - 1):
        edges = (-1, *bars, parts + rankings - 1)
        rows.append([b - a - 1 for a, b in pairwise(edges)])
    return np.array(rows, dtype=np.float64)[::-1] / parts


def sklearn(module: str) -> Any:
    return _package(f"sklearn.{module}", "scikit-learn")


def xgboost() -> Any:
    return _package("xgboost", "xgboost")


def one_thread() -> Any:
    """A context in which matrices are multiplied on one core. Small ones take up to ten times the time on several."""
    return _package("threadpoolctl", "scikit-learn").threadpool_limits(limits=1)


def _package(module: str, name: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingPartError(
            f"This training needs {name}, which is not installed. Install it: pip install 'surefind[learn]'."
        ) from None


def parts(families: Sequence[str], seed: int = 42) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The row numbers of train, validation and test: 70/15/15 within each family; small families are split together."""
    rng = np.random.default_rng(seed)
    sizes = Counter(families)
    families = [family if sizes[family] >= _DIVISIBLE else "" for family in families]
    train: list[int] = []
    validation: list[int] = []
    test: list[int] = []
    for family in sorted(set(families)):
        rows = rng.permutation([i for i, f in enumerate(families) if f == family]).tolist()
        first, second = round(len(rows) * 0.7), round(len(rows) * 0.85)
        train += rows[:first]
        validation += rows[first:second]
        test += rows[second:]
    return np.array(sorted(train), np.int64), np.array(sorted(validation), np.int64), np.array(sorted(test), np.int64)
