"""A session in which one judge labels an exam. It shows the questions all of whose passages
the judge may read.

Judges see the passages of a question in an order of their own, without the configurations that found them.

Passages to judge for a question, pooled from several configurations.

The pool takes the first passage of each configuration, then the second of each, and so on, until it is full. Then it is
shuffled, so that a judge sees neither which configuration found a passage nor how high.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from surefind.base.access import Access, Caller
from surefind.base.errors import ExamError, MissingPartError, NotFoundError, UsageError
from surefind.base.protocols import OnProgress
from surefind.base.types import Hit
from surefind.engine.search.pipeline import Pipeline
from surefind.engine.search.reader import Searcher
from surefind.kb import KnowledgeBase
from surefind.lab.exam.formats.library import Library
from surefind.lab.exam.formats.table import id_of
from surefind.lab.exam.labels import Agreement, Pooled, PooledPassage, agreement, exam_of
from surefind.lab.exam.model import Exam
from surefind.lab.exam.store import ExamStore

LEADING = ("bm25", "dense", "bm25 + dense >> convex(alpha=0.5, missing=score)")
"""The configurations whose passages are shown, besides those of the pipelines of surefind.toml."""


class Asking:
    """Pools passages over some configurations, on one generation."""

    def __init__(self, kb: KnowledgeBase, pipelines: Sequence[str], access: Access, report: OnProgress | None) -> None:
        self.pipelines = leading(kb, pipelines, report)
        self.access = access
        self.reader: Searcher = kb.reader()

    def pool(self, text: str, size: int, seed: int = 0) -> list[Hit]:
        """Returns up to `size` passages for a question, shuffled. A hit's span is that of its best matching part."""
        search = partial(self.reader.search, text, self.access, k=size, confidence="off")
        pools = [search(pipeline=pipeline).hits for pipeline in self.pipelines]
        pooled: dict[tuple[str, int, int], Hit] = {}
        for rank in range(size):
            for hits in pools:
                if rank < len(hits) and len(pooled) < size:
                    hit = part(hits[rank])
                    pooled.setdefault((hit.document, hit.start, hit.end), hit)
        shown = list(pooled.values())
        random.Random(f"{seed} {text}").shuffle(shown)
        return shown


def part(hit: Hit) -> Hit:
    """Cuts a hit to its best matching part: a person reads and marks that part, not the large passage around it."""
    start, end = hit.matched or (hit.start, hit.end)
    return replace(hit, text=hit.text[start - hit.start : end - hit.start], start=start, end=end, matched=None)


def leading(kb: KnowledgeBase, given: Sequence[str] = (), build: OnProgress | None = None) -> list[Pipeline]:
    """Returns the configurations whose passages are pooled, with their indexes built: the given ones, else the
    pipelines of surefind.toml and `LEADING`.

    Of the pipelines of surefind.toml, those that ask a language model are left out, and so are rerankers, because both
    would run on every candidate. If the encoder of `LEADING` is not installed, the others are pooled."""
    if given:
        chosen = _distinct(map(kb.pipeline, given))
        for pipeline in chosen:
            if pipeline.asks_llm:
                raise UsageError(f"{pipeline} asks a language model for every candidate. Choose another pipeline.")
        if len(chosen) < 2:
            raise UsageError("A pool needs at least two configurations. Name another one.")
        _build(kb, chosen, build)
        return chosen
    plain = [replace(pipeline, rerank=()) for pipeline in kb.settings.pipelines.values()]
    own = _distinct(pipeline for pipeline in plain if not pipeline.asks_llm)
    every = _distinct([*own, *map(Pipeline.parse, LEADING)])
    try:
        _build(kb, every, build)
    except MissingPartError:
        if len(own) < 2:
            raise
        _build(kb, own, build)
        return own
    return every


def _distinct(pipelines: Iterable[Pipeline]) -> list[Pipeline]:
    return list({str(pipeline): pipeline for pipeline in pipelines}.values())


def _build(kb: KnowledgeBase, pipelines: Sequence[Pipeline], report: OnProgress | None) -> None:
    kb.build_for([retriever for pipeline in pipelines for retriever in pipeline.retrieve], report=report)


QUESTIONS = 50
"""The most questions of a pool, by default."""
NO_QUESTIONS = "There are no questions to label. Collect some with: surefind exam collect {} FILE."
PASSAGES = 10
"""The most passages of a question, by default."""
_PLAIN = re.compile(r"[A-Za-z0-9][\w.-]{0,60}")
_OTHER = re.compile(r"[^\w.-]+", re.ASCII)
_WORDS = ((0.2, "slight"), (0.4, "fair"), (0.6, "moderate"), (0.8, "substantial"), (1.0, "almost perfect"))
"""Landis and Koch, The Measurement of Observer Agreement for Categorical Data, 1977."""


def judge_name(name: str) -> str:
    """Returns the name of a judge for the name of a caller. Labels are in a file of this name, so other characters are
    replaced, and a hash tells apart names that would become the same."""
    if _PLAIN.fullmatch(name):
        return name
    plain = _OTHER.sub("-", name).strip("-._")[:40] or "judge"
    return f"{plain}-{hashlib.sha256(name.encode(errors='replace')).hexdigest()[:16]}"


@dataclass(frozen=True)
class JudgedPassage:
    """A passage as a judge sees it."""

    number: int
    document: str
    title: str
    text: str
    marked: bool


@dataclass(frozen=True)
class Split:
    """A passage on which judges differ."""

    title: str
    document: str
    text: str
    marked: tuple[str, ...]
    unmarked: tuple[str, ...]


class Judging:
    """One exam, as one judge labels it."""

    def __init__(self, kb: KnowledgeBase, name: str, caller: Caller) -> None:
        store = ExamStore(kb.data / "exams")
        if name not in store.collected():
            raise NotFoundError(f"There is nothing to label called {name!r}.")
        self.name = name
        self.judge = judge_name(caller.name)
        self.candidates = store.candidates(name)
        self._kb, self._store, self._access = kb, store, caller.access()
        self._labels = store.labels(name)

    def make_pool(
        self,
        pipelines: Sequence[str] = (),
        number: int = QUESTIONS,
        size: int = PASSAGES,
        report: OnProgress | None = None,
    ) -> None:
        """Pools up to `size` passages of several configurations for each of the first questions, unless that was done
        before. Raises an error if the documents have changed since."""
        if self.stale:
            raise ExamError(self.stale)
        if self._labels.pool():
            return
        wanted = [candidate.text for candidate in self.candidates.all()][:number]
        if not wanted:
            raise ExamError(NO_QUESTIONS.format(self.name))
        asking = Asking(self._kb, pipelines, self._access, report)
        pool = [
            Pooled(text, tuple(PooledPassage(h.document, h.start, h.end, h.title) for h in asking.pool(text, size)))
            for text in wanted
        ]
        self._labels.put_pool(pool, [str(pipeline) for pipeline in asking.pipelines], self._kb.reader().fingerprint)

    @cached_property
    def pool(self) -> list[Pooled]:
        """The questions that the judge may see."""
        admitted = set(self._kb.reader().view.admitted(self._access))
        return [
            pooled for pooled in self._labels.pool() if all(passage.document in admitted for passage in pooled.passages)
        ]

    @cached_property
    def stale(self) -> str:
        """Why these passages cannot be labelled any more; empty if they can."""
        try:
            self._labels.check(self._kb.reader().fingerprint)
        except ExamError as error:
            return str(error)
        return ""

    @cached_property
    def mine(self) -> dict[str, list[int]]:
        """The labels of this judge."""
        return self._labels.of(self.judge)

    @property
    def done(self) -> int:
        return sum(pooled.query in self.mine for pooled in self.pool)

    @property
    def waiting(self) -> int:
        """Candidate questions that are not in the pool."""
        pooled = {pooled_query.query for pooled_query in self._labels.pool()}
        return sum(candidate.text not in pooled for candidate in self.candidates.all())

    def next(self, after: int = -1) -> int | None:
        """Returns the number of the next question without a label of this judge; None if there is none."""
        order = [*range(after + 1, len(self.pool)), *range(after + 1)]
        return next((at for at in order if self.pool[at].query not in self.mine), None)

    def passages(self, at: int) -> list[JudgedPassage]:
        """Returns the passages of a question, in the order of this judge."""
        pooled = self.pool[at]
        marked = self.mine.get(pooled.query, [])
        passages = []
        for number, i in enumerate(pooled.order_for(self.judge), 1):
            passage = pooled.passages[i]
            passages.append(JudgedPassage(number, passage.document, passage.title, self._text(passage), i in marked))
        return passages

    def find(self, query_id: str) -> int:
        """Returns the number of a question by its id."""
        at = next((at for at, pooled in enumerate(self.pool) if id_of(pooled.query) == query_id), None)
        if at is None:
            raise NotFoundError("This question is not among those that you may label.")
        return at

    def check(self, at: int, numbers: Sequence[int]) -> None:
        """Raises `ExamError` if the question cannot be answered with these passages."""
        if self.stale:
            raise ExamError(self.stale)
        most = len(self.pool[at].passages)
        if any(not 1 <= number <= most for number in numbers):
            raise ExamError(f"A passage has a number from 1 to {most}, not {list(numbers)}.")

    def mark(self, at: int, numbers: Sequence[int], ranked: bool = True) -> None:
        """Saves which passages are relevant, by their numbers in the order of this judge; best first if `ranked`."""
        self.check(at, numbers)
        order = self.pool[at].order_for(self.judge)
        self._save(at, [order[number - 1] for number in dict.fromkeys(numbers)], ranked)

    def outside(self, document: str, text: str) -> PooledPassage:
        """Returns a passage that is in no pool, by its document and its exact words. Raises `ExamError` if the judge
        may not read the document, or if it does not contain the words once."""
        if self.stale:
            raise ExamError(self.stale)
        library = Library(self._kb.reader().documents(self._access))
        if not text.strip():
            raise ExamError(f"which words of {document!r} answer the question? Copy them")
        judgment = library.judge(document, text.strip())
        assert judgment.start is not None and judgment.end is not None
        return PooledPassage(judgment.document, judgment.start, judgment.end, library.find(document).title, self.judge)

    def add(self, at: int, passage: PooledPassage) -> int:
        """Adds a passage to the pool of a question; returns its number. The caller holds the lock of the exam."""
        there = self.pool[at].passages
        same = [
            i
            for i, passage_there in enumerate(there)
            if (passage_there.document, passage_there.start, passage_there.end) == _place(passage)
        ]
        if not same:
            self._labels.add(self.pool[at].query, passage)
            self.__dict__.pop("pool", None)
            same = [len(there)]
        return self.pool[at].order_for(self.judge).index(same[0]) + 1

    def _save(self, at: int, passages: list[int], ranked: bool = True) -> None:
        self._labels.mark(self.judge, self.pool[at].query, passages, ranked)
        self.__dict__.pop("mine", None)

    # ------------------------------------------------------------ all judges

    @cached_property
    def labels(self) -> dict[str, dict[str, list[int]]]:
        return self._labels.all()

    @property
    def agreement(self) -> list[Agreement]:
        return agreement(self.pool, self.labels)

    def progress(self) -> dict[str, int]:
        """Returns how many questions each judge has labelled."""
        return {judge: sum(pooled.query in marks for pooled in self.pool) for judge, marks in self.labels.items()}

    def splits(self) -> dict[str, list[Split]]:
        """Returns the passages on which judges differ, by question. Only questions that this judge has labelled count:
        nobody sees the labels of others before their own."""
        splits: dict[str, list[Split]] = {}
        for pooled in self.pool:
            votes = {judge: marks[pooled.query] for judge, marks in self.labels.items() if pooled.query in marks}
            for i, passage in enumerate(pooled.passages if pooled.query in self.mine else ()):
                yes = tuple(judge for judge, marked in votes.items() if i in marked)
                no = tuple(judge for judge in votes if judge not in yes)
                if yes and no:
                    title, text = passage.title or passage.document, self._text(passage)
                    splits.setdefault(pooled.query, []).append(Split(title, passage.document, text, yes, no))
        return splits

    def _text(self, passage: PooledPassage) -> str:
        document, _ = self._kb.reader().document(passage.document, self._access)
        return document.text[passage.start : passage.end].strip()

    def make_exam(self) -> Exam | None:
        """Saves the labels of all judges as the next version of the exam; None if no question has a relevant passage.
        The caller holds the lock of the exam."""
        if self.stale:
            raise ExamError(self.stale)
        reader, pool = self._kb.reader(), self._labels.pool()
        documents = {passage.document for pooled in pool for passage in pooled.passages}
        library = Library([document for document in reader.documents(Access.owner()) if document.id in documents])
        made = exam_of(self.name, pool, self._labels.all(), library, reader.fingerprint, self._labels.ranked())
        return self._store.save(made) if made.queries else None


def _place(passage: PooledPassage) -> tuple[str, int, int]:
    return passage.document, passage.start, passage.end


def in_words(kappa: float | None) -> str:
    """Names how strong an agreement is."""
    if kappa is None:
        return "not defined: both gave one label to every passage"
    if kappa <= 0:
        return "no better than chance"
    return next(word for most, word in _WORDS if kappa <= most)
