"""A pipeline: retrieve, fuse, rerank. Its text form is its identity:

    bm25(k1=1.5, b=0.75, analyzer=auto) + dense(model=minilm) >> convex(alpha=0.3)

Every retriever returns `depth` candidates (100 by default; `@50` after the retrievers sets 50). The fuser joins them,
each reranker reorders the ranking before it, and a passage that contains several candidates counts once. `depth`
belongs to the pipeline and does not depend on the number of hits that are requested, so neither does the ranking. If an
optional stage fails, the ranking before it is used and the trace says so.

How the stages of a pipeline run: plainly, or recorded for the trace of a search.

`Pipeline.rank` decides which stages run, on what and in which order. Its hooks decide how each of them runs. Benchmarks
have hooks of their own, which cache rankings and count failures.

`missing=score`: scores the candidates that a retriever did not return, so that all rankings hold the same chunks.

What a search still waits for: retrievers whose indexes are being built, and how far that is.

Gives rerankers passages, neighbours and new searches, limited to what the caller may read.

Every reranker gets passages by id. An adaptive reranker (`slidegar`) asks for the neighbours of a good hit, and one
that searches again (`agentic`) asks for the rankings of other queries. Both requests use the access of the search
itself, so neither the result nor a model's prompt can contain a passage that the caller may not read. `conditional`
asks for the rankings of the retrievers, and for what a calibrated threshold depends on: the stages before it and the
documents.

If small passages are searched and larger ones returned, `fold` keeps each larger passage once, at the rank of its best
child, and `Pipeline.deepen` searches deeper if fewer than k are left.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np

from surefind.base import spec
from surefind.base.abilities import asks_llm, declared, name_of
from surefind.base.access import Access
from surefind.base.errors import SpecError, SurefindError
from surefind.base.protocols import Corpus, Fuser, Reranker, Retriever, Services
from surefind.base.running import FELL_BACK, about, collecting, note
from surefind.base.spec import split_outside
from surefind.base.types import PAD, BoolArray, Chunk, IdArray, Query, Rankings, TraceEntry, Waiting
from surefind.engine.store.backend import Passage, View
from surefind.engine.store.lock import vectors_progress


class Retrieving(Protocol):
    """The stages of a pipeline before its rerankers."""

    @property
    def retrieve(self) -> tuple[Retriever, ...]: ...

    @property
    def depth(self) -> int: ...

    @property
    def path(self) -> str: ...

    def found(self, queries: Sequence[Query], depth: int, reading: Reading) -> Rankings: ...


@dataclass(frozen=True)
class Reading:
    """What is searched, with which services, and for whom."""

    view: View
    services: Services
    access: Access

    def search(self, retriever: Retriever, queries: Sequence[Query], k: int) -> Rankings:
        """Finds the best k chunks for each query."""
        return self.view.search(retriever, queries, k, self.access)

    def passages(self, ids: Sequence[int], around: int | None = None) -> list[Passage]:
        """Returns the passages that a search returns for these chunks, or the chunks with what is around them."""
        return self.view.passages(ids, self.access, around)


class PipelinePassages:
    """Implements `PassageSource` and `Sourced` for one search, with its pipeline and its access."""

    def __init__(
        self,
        pipeline: Retrieving,
        reading: Reading,
        queries: Sequence[Query] = (),
        rankings: Sequence[Rankings] = (),
    ) -> None:
        """`rankings` are those of the retrievers for `queries`, if they are known."""
        self._pipeline = pipeline
        self._reading = reading
        self._retrieved = tuple(queries), tuple(rankings)

    def __getitem__(self, ids: Sequence[int]) -> list[Chunk]:
        return self._reading.view.chunks(ids, self._reading.access)

    def search(self, queries: Sequence[Query], k: int) -> Rankings:
        """Returns the best k chunks for other queries, before reranking."""
        fused = self._pipeline.found(queries, self._pipeline.depth, self._reading)
        return Rankings(fused.ids[:, :k], fused.scores[:, :k], fused.source, fused.signal, fused.floor)

    def near(self, ids: Sequence[int], k: int) -> list[list[int]]:
        """Returns the k nearest other passages of each passage, by vectors if the pipeline has a dense retriever, else
        by words."""
        retrievers = self._pipeline.retrieve
        retriever = next((r for r in retrievers if r.signal == "dense"), retrievers[0])
        neighbours = self._reading.view.near(retriever, ids, k + 1, self._reading.access)
        rows = [neighbours.row(i)[0].tolist() for i in range(len(ids))]
        return [[other for other in row if other != own][:k] for own, row in zip(ids, rows, strict=True)]

    @property
    def path(self) -> str:
        """The stages before the rerankers, in the text form of a pipeline."""
        return self._pipeline.path

    @property
    def corpus(self) -> str:
        """The fingerprint of the documents."""
        return self._reading.view.fingerprint

    def retrieved(self, queries: Sequence[Query]) -> list[Rankings]:
        """Returns the rankings of each retriever."""
        known, rankings = self._retrieved
        if rankings and tuple(queries) == known:
            return list(rankings)
        depth = self._pipeline.depth
        return [self._reading.search(retriever, queries, depth) for retriever in self._pipeline.retrieve]


def score_missing(
    rankings: Sequence[Rankings], queries: Sequence[Query], retrievers: Sequence[Retriever], view: View, access: Access
) -> list[Rankings]:
    """Extends each ranking of a query to the union of all of them: each candidate gets a score from every retriever."""
    return [
        _with_missing(ranking, missing, queries, retriever, view, access)
        for ranking, missing, retriever in zip(rankings, _missing(rankings), retrievers, strict=True)
    ]


def _missing(rankings: Sequence[Rankings]) -> list[IdArray]:
    """Returns, for each ranking and each query, the candidates of other rankings that this ranking lacks, padded."""
    own = [[set(row) - {PAD} for row in ranking.ids.tolist()] for ranking in rankings]
    joined = [set().union(*rows) for rows in zip(*own, strict=True)]
    return [_padded([sorted(every - row) for every, row in zip(joined, rows, strict=True)]) for rows in own]


def _padded(rows: Sequence[Sequence[int]]) -> IdArray:
    table = np.full((len(rows), max(map(len, rows), default=0)), PAD, np.int64)
    for q, row in enumerate(rows):
        table[q, : len(row)] = row
    return table


def _with_missing(
    ranking: Rankings, missing: IdArray, queries: Sequence[Query], retriever: Retriever, view: View, access: Access
) -> Rankings:
    if not missing.shape[1]:
        return ranking
    scores = np.concatenate([ranking.scores, view.score(retriever, queries, missing, access)], axis=1)
    ids = np.concatenate([ranking.ids, missing], axis=1)
    scores = np.where(ids == PAD, -np.inf, scores).astype(np.float32)
    order = np.lexsort((np.where(ids == PAD, np.iinfo(np.int64).max, ids), -scores), axis=1)
    return replace(ranking, ids=np.take_along_axis(ids, order, 1), scores=np.take_along_axis(scores, order, 1))


Work = Callable[[], Rankings]
"""Runs a stage."""


@dataclass(frozen=True)
class Run:
    """The result of a pipeline: the rankings after each stage, and the trace."""

    stages: tuple[tuple[str, Rankings], ...]
    trace: tuple[TraceEntry, ...]

    @property
    def rankings(self) -> Rankings:
        """The rankings after the last stage."""
        return self.stages[-1][1]


class StageHooks:
    """Runs each stage as it is. A reranker is optional: if it fails, the ranking before it is kept."""

    def retrieve(self, retriever: Retriever, depth: int, work: Work) -> Rankings:
        return work()

    def fuse(self, fuser: Fuser, work: Work) -> Rankings:
        return work()

    def rerank(self, reranker: Reranker, before: Rankings, work: Work) -> Rankings:
        try:
            return work()
        except Exception as error:
            note(f"{FELL_BACK}{_reason(error)}")
            return before

    def finish(self, name: str, before: Rankings, work: Work) -> Rankings:
        """Runs a step that follows the stages: `parents` or `deeper`. It returns `before` if there is nothing to do."""
        return work()


class Recorder(StageHooks):
    """Times each stage and writes the trace."""

    def __init__(self) -> None:
        self._stages: list[tuple[str, Rankings]] = []
        self._trace: list[TraceEntry] = []

    def retrieve(self, retriever: Retriever, depth: int, work: Work) -> Rankings:
        return self._record("retrieve", retriever, work)

    def fuse(self, fuser: Fuser, work: Work) -> Rankings:
        return self._record("fuse", fuser, work)

    def rerank(self, reranker: Reranker, before: Rankings, work: Work) -> Rankings:
        return self._record("rerank", reranker, partial(super().rerank, reranker, before, work))

    def finish(self, name: str, before: Rankings, work: Work) -> Rankings:
        return self._record(name, name, work, before)

    def _record(self, stage: str, step: object, work: Work, unless: Rankings | None = None) -> Rankings:
        """Runs `work` and records it, unless it returns the rankings `unless`."""
        started = time.perf_counter()
        with collecting() as notes:
            rankings = work()
        ms = (time.perf_counter() - started) * 1000
        if rankings is unless:
            return rankings
        self._stages.append((label_of(step, [name for name, _ in self._stages]), rankings))
        candidates = int((rankings.ids >= 0).sum())
        self._trace.append(TraceEntry(stage, str(step), candidates, ms, notes.text, notes.calls, notes.dollars))
        return rankings

    @property
    def finished(self) -> Run:
        return Run(tuple(self._stages), tuple(self._trace))


def _reason(error: Exception) -> str:
    """Describes an error. Messages of Surefind's errors are sentences; other errors are shown with their type."""
    return str(error) if isinstance(error, SurefindError) else f"{type(error).__name__}: {error}"


def label_of(step: object, taken: Sequence[str]) -> str:
    """Returns the name of a step in the stages of a hit. Repeated names are numbered: two dense retrievers in one
    pipeline are `dense` and `dense:2`."""
    label = step if isinstance(step, str) else name_of(step)
    same = sum(1 for name in taken if name.partition(":")[0] == label)
    return f"{label}:{same + 1}" if same else label


def work_of(retriever: Retriever) -> str:
    """Returns how reports of progress name the work on the index of a retriever."""
    return f"Indexing {retriever}"


def waiting_for(
    missing: Sequence[Retriever], others: Sequence[Retriever], data: Path, counts: bool
) -> tuple[Waiting, ...]:
    """Returns how far the indexes of these retrievers are, which a search with the `others` waits for, given the data
    folder of the knowledge base. Without `counts` it does not tell how many passages there are, since the caller may
    not read all of them."""
    progress = vectors_progress(data)
    by_words = all(declared(retriever).at_once for retriever in others)
    waiting = []
    for retriever in missing:
        known = progress if progress is not None and progress.what == work_of(retriever) else None
        done, total = (known.done, known.total) if known and counts else (0, 0)
        share = round(known.done / max(1, known.total), 2) if known else 0.0
        left = known.seconds_left if known else None
        waiting.append(Waiting(str(retriever), done, total, share, left, progress is not None, by_words))
    return tuple(waiting)


def waiting_text(waiting: Sequence[Waiting]) -> str:
    """Says in a sentence what a search waits for; empty if it waits for nothing."""
    if not waiting:
        return ""
    names = " and ".join(item.retriever for item in waiting)
    lead, what = ("By words so far", "vectors") if waiting[0].by_words else (f"Without {names} so far", "its index")
    if not any(item.running for item in waiting):
        return f"{lead}; {what} not complete. surefind sync and surefind serve go on."
    now = next((item for item in waiting if item.total or item.share), None)
    if now is None:
        return f"{lead}; {what} in progress."
    share = f"{now.done:,} of {now.total:,}" if now.total else f"{now.share:.0%}"
    left = f", {about(now.seconds_left)} left" if now.seconds_left is not None else ""
    return f"{lead}; {what} {share}{left}."


DEPTH = 100
"""The default number of candidates from each retriever."""
SPEC_MARKS = "(+>@"
"""Characters that tell a spec from the name of a stage."""
DEFAULT_FUSER = "rrf(k=60.0)"
"""The fuser of several retrievers if none is given."""
_DEEPER = 4
"""The factor by which `depth` grows in each step of `deepen`, when the candidates hold too few different passages."""


@dataclass(frozen=True)
class Pipeline:
    """Retrievers, a fuser and rerankers: how a query is answered."""

    retrieve: tuple[Retriever, ...]
    fuse: Fuser | None = None
    rerank: tuple[Reranker, ...] = ()
    depth: int = DEPTH
    name: str = field(default="", compare=False)
    """The name in surefind.toml; not part of the pipeline's identity."""

    def __post_init__(self) -> None:
        if not self.retrieve:
            raise SpecError('A pipeline needs at least one retriever. Write retrieve = ["bm25"] or --retrieve bm25.')
        if self.depth < 1:
            raise SpecError(f"A pipeline's depth must be at least 1, not {self.depth}.")

    @classmethod
    def of(
        cls,
        retrieve: Sequence[str],
        fuse: str | None = None,
        rerank: Sequence[str] = (),
        depth: int = DEPTH,
        name: str = "",
    ) -> Pipeline:
        """Builds a pipeline from specs. Several retrievers without a fuser are joined by RRF."""
        if fuse is None and len(retrieve) > 1:
            fuse = DEFAULT_FUSER
        if fuse is not None and len(retrieve) < 2:
            raise SpecError(f"{fuse} has one ranking to fuse. Give two or more retrievers, or leave out the fuser.")
        return cls(
            tuple(cast(Retriever, spec.make("retrieve", text)) for text in retrieve),
            cast(Fuser, spec.make("fuse", fuse)) if fuse is not None else None,
            tuple(cast(Reranker, spec.make("rerank", text)) for text in rerank),
            depth,
            name,
        )

    @classmethod
    def parse(cls, text: str, name: str = "") -> Pipeline:
        """Reads a pipeline from its text form, such as `bm25 + dense @50 >> rrf(k=60)`."""
        first, *later = split_outside(text, ">>")
        first, *depths = split_outside(first, "@")
        depth = "@".join(depths)
        if depths and not re.fullmatch(r"\s*\d{1,9}\s*", depth):
            raise SpecError(f"Cannot read the depth {depth.strip()!r} in {text!r}. Write it like 'bm25 + dense @50'.")
        retrieve = split_outside(first, "+")
        fuse = later.pop(0) if later and len(retrieve) > 1 else None
        return cls.of(retrieve, fuse, later, int(depth) if depth else DEPTH, name)

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        first = " + ".join(map(str, self.retrieve)) + (f" @{self.depth}" if self.depth != DEPTH else "")
        return " >> ".join([first, *map(str, [self.fuse] if self.fuse else []), *map(str, self.rerank)])

    @cached_property
    def path(self) -> str:
        """The text form without the rerankers."""
        return str(replace(self, rerank=()))

    @property
    def stages(self) -> tuple[Any, ...]:
        """All stages, in order."""
        return (*self.retrieve, *([self.fuse] if self.fuse is not None else []), *self.rerank)

    @cached_property
    def asks_llm(self) -> bool:
        """Whether answering a query may ask a language model, also by a stage inside another."""
        return asks_llm(self.stages)

    def without(self, missing: Sequence[Retriever]) -> Pipeline:
        """Returns the pipeline without these retrievers, of which it needs at least one other."""
        kept = [at for at, retriever in enumerate(self.retrieve) if retriever not in missing]
        fuse = declared(self.fuse).only(kept) if len(kept) > 1 else None
        return replace(self, retrieve=tuple(self.retrieve[at] for at in kept), fuse=fuse)

    def run(self, queries: Sequence[Query], want: int, reading: Reading) -> Run:
        """Ranks the passages for each query, at least `want` of them if there are as many. `want` decides only how long
        the ranking is, not its order."""
        reading.view.ready(self.retrieve)  # opens the indexes before timing starts: the trace shows searching only
        recorder = Recorder()
        self.rank(queries, want, reading, recorder)
        return recorder.finished

    def rank(self, queries: Sequence[Query], want: int, reading: Reading, hooks: StageHooks) -> Rankings:
        """Does what `run` does, with each stage run by `hooks`."""
        retrieved = [
            hooks.retrieve(retriever, self.depth, partial(reading.search, retriever, queries, self.depth))
            for retriever in self.retrieve
        ]
        best = retrieved[0]
        if self.fuse is not None:
            best = hooks.fuse(self.fuse, partial(self.join, queries, retrieved, reading))
        for reranker in self.rerank:
            work = partial(self.rerank_by, reranker, queries, best, reading, retrieved)
            best = hooks.rerank(reranker, best, work)
        best = hooks.finish("parents", best, partial(fold, best, reading.view.parents))
        deeper = partial(self.deepen, queries, best, retrieved, want, reading)
        return hooks.finish("deeper", best, deeper)

    def more(self, retrieved: Sequence[Rankings]) -> BoolArray:
        """Returns which queries have a retriever that may find more than the candidates it returned."""
        rows: BoolArray = np.any([~short(ranking, self.depth) for ranking in retrieved], axis=0)
        return rows

    def found(self, queries: Sequence[Query], depth: int, reading: Reading) -> Rankings:
        """Returns the ranking before reranking, with `depth` candidates from each retriever."""
        return self.join(queries, [reading.search(retriever, queries, depth) for retriever in self.retrieve], reading)

    def deepen(
        self,
        queries: Sequence[Query],
        best: Rankings,
        retrieved: Sequence[Rankings],
        want: int,
        reading: Reading,
    ) -> Rankings:
        """Extends rankings that hold fewer than `want` passages: retrieves and fuses with more and more candidates, and
        appends the new passages. The passages above stay as they are. `retrieved` has the retrievers' rankings at the
        pipeline's own depth. A fuser that asks a model about scores is not asked again for each depth: the end of a
        list is not worth it, and nobody was quoted that."""
        if not short(best, want).any():
            return best
        deeper = replace(self, fuse=cast(Fuser, spec.make("fuse", DEFAULT_FUSER))) if asks_llm([self.fuse]) else self
        more = self.more(retrieved)
        while (rows := np.flatnonzero(short(best, want) & more)).size:
            deeper = replace(deeper, depth=deeper.depth * _DEEPER)
            some = [queries[i] for i in rows.tolist()]
            lists = [reading.search(retriever, some, deeper.depth) for retriever in self.retrieve]
            joined = fold(deeper.join(some, lists, reading), reading.view.parents)
            best = extend(best, rows, joined, reading.view.parents)
            more[rows] = deeper.more(lists)
        return best

    def rerank_by(
        self,
        reranker: Reranker,
        queries: Sequence[Query],
        best: Rankings,
        reading: Reading,
        retrieved: Sequence[Rankings] = (),
    ) -> Rankings:
        """Runs a reranker on all candidates; its k is their number, so none is lost. `retrieved` has the rankings
        of the retrievers, for rerankers that ask for them."""
        source = PipelinePassages(self, reading, queries, retrieved)
        return reranker.rerank(queries, best, source, max(1, best.ids.shape[1]), reading.services)

    @property
    def completes(self) -> bool:
        """Whether the fuser needs every candidate scored by every retriever (`missing=score`)."""
        return bool(declared(self.fuse).missing == "score")

    def check(self, corpus: Corpus, services: Services) -> None:
        """Raises `SpecError` if a trained fuser was trained on other retrievers or documents."""
        declared(self.fuse).check(self.retrieve, self.depth, corpus, services)

    def join(self, queries: Sequence[Query], rankings: Sequence[Rankings], reading: Reading) -> Rankings:
        """Fuses rankings and keeps every candidate. Missing scores are computed first if the fuser needs them
        (`missing=score`)."""
        if self.fuse is None:
            return rankings[0]
        self.check(reading.view, reading.services)
        if self.completes:
            rankings = score_missing(rankings, queries, self.retrieve, reading.view, reading.access)
        width = sum(ranking.ids.shape[1] for ranking in rankings)
        stage = declared(self.fuse)
        if stage.reads_queries:
            return stage.fuse_for(queries, rankings, width, reading.services)
        return self.fuse.fuse(rankings, width)


def fold(rankings: Rankings, parents_of: Callable[[IdArray], IdArray | None]) -> Rankings:
    """Keeps the best child of each parent, with the child's score. `parents_of` returns the number of each child's
    parent, in the shape of the ranking; None if passages have no parents, and then nothing changes."""
    parents = parents_of(rankings.ids)
    if parents is None:
        return rankings
    there = rankings.ids != PAD
    order = np.argsort(parents, axis=1, kind="stable")
    ordered = np.take_along_axis(parents, order, 1)
    first = np.ones(parents.shape, np.bool_)
    first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    kept = np.zeros_like(first)
    np.put_along_axis(kept, order, first, 1)
    return _closed_up(rankings, kept & there)


def short(rankings: Rankings, want: int) -> BoolArray:
    """Returns which rows hold fewer than `want` chunks."""
    return np.asarray(np.count_nonzero(rankings.ids != PAD, axis=1) < want)


def extend(rankings: Rankings, rows: IdArray, more: Rankings, parents: Callable[[IdArray], IdArray | None]) -> Rankings:
    """Appends to some rows of a ranking the passages of `more` that they do not hold yet. Scores of a deeper search may
    have another scale, so appended scores are capped at the last score before them."""
    wide = rankings.ids.shape[1] + more.ids.shape[1]
    ids = np.full((len(rankings), wide), PAD, np.int64)
    scores = np.full((len(rankings), wide), -np.inf, np.result_type(rankings.scores, more.scores))
    ids[:, : rankings.ids.shape[1]], scores[:, : rankings.ids.shape[1]] = rankings.ids, rankings.scores
    known, added = parents(rankings.ids), parents(more.ids)
    known, added = (rankings.ids, more.ids) if known is None or added is None else (known, added)
    for at, row in enumerate(rows.tolist()):
        n = int(np.count_nonzero(rankings.ids[row] != PAD))
        new = (more.ids[at] != PAD) & ~np.isin(added[at], known[row, :n])
        new_ids = more.ids[at][new]
        ids[row, n : n + len(new_ids)] = new_ids
        last = scores[row, n - 1] if n else np.inf
        scores[row, n : n + len(new_ids)] = np.minimum(more.scores[at][new], last)
    return _narrowed(replace(rankings, ids=ids, scores=scores))


def _closed_up(rankings: Rankings, kept: BoolArray) -> Rankings:
    """Removes the chunks that are not kept, and moves the others up."""
    close = np.argsort(~kept, axis=1, kind="stable")
    ids = np.take_along_axis(np.where(kept, rankings.ids, PAD), close, 1)
    scores = np.take_along_axis(np.where(kept, rankings.scores, -np.inf), close, 1)
    return _narrowed(replace(rankings, ids=ids, scores=scores))


def _narrowed(rankings: Rankings) -> Rankings:
    """Removes columns that are all padding."""
    width = int(np.max(np.count_nonzero(rankings.ids != PAD, axis=1), initial=0))
    return replace(rankings, ids=rankings.ids[:, :width], scores=rankings.scores[:, :width])
