"""A pipeline: retrieve, fuse, rerank. Its text form is its identity:

    bm25(k1=1.5, b=0.75, analyzer=english) + dense(model=minilm) >> convex(alpha=0.3)

Every retriever returns `depth` candidates (100 by default; `@50` after the retrievers sets 50). The fuser joins them,
each reranker reorders the ranking before it, and a passage that contains several candidates counts once. `depth`
belongs to the pipeline and does not depend on the number of hits that are requested, so neither does the ranking. If an
optional stage fails, the ranking before it is used and the trace says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, cast

import numpy as np

from surefind.base import spec
from surefind.base.abilities import asks_llm, declared
from surefind.base.access import Access
from surefind.base.errors import SpecError
from surefind.base.grammar import split_outside
from surefind.base.protocols import Corpus, Fuser, Reranker, Retriever, Services
from surefind.base.types import BoolArray, Query, Rankings
from surefind.engine.search.hooks import Recorder, Run, StageHooks
from surefind.engine.search.missing import score_missing
from surefind.engine.search.parents import extend, fold, short
from surefind.engine.search.passage_source import PipelinePassages
from surefind.engine.store.backend import View

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

    def run(self, queries: Sequence[Query], want: int, view: View, services: Services, access: Access) -> Run:
        """Ranks the passages for each query, at least `want` of them if there are as many. `want` decides only how long
        the ranking is, not its order."""
        view.ready(self.retrieve)  # opens the indexes before timing starts: the trace shows searching only
        recorder = Recorder()
        self.rank(queries, want, view, services, access, recorder)
        return recorder.finished

    def rank(
        self,
        queries: Sequence[Query],
        want: int,
        view: View,
        services: Services,
        access: Access,
        hooks: StageHooks,
    ) -> Rankings:
        """Does what `run` does, with each stage run by `hooks`."""
        retrieved = [
            hooks.retrieve(retriever, self.depth, partial(view.search, retriever, queries, self.depth, access))
            for retriever in self.retrieve
        ]
        best = retrieved[0]
        if self.fuse is not None:
            best = hooks.fuse(self.fuse, partial(self.join, queries, retrieved, view, services, access))
        for reranker in self.rerank:
            work = partial(self.rerank_by, reranker, queries, best, view, services, access, retrieved)
            best = hooks.rerank(reranker, best, work)
        best = hooks.finish("parents", best, partial(fold, best, view.parents))
        deeper = partial(self.deepen, queries, best, retrieved, want, view, services, access)
        return hooks.finish("deeper", best, deeper)

    def more(self, retrieved: Sequence[Rankings]) -> BoolArray:
        """Returns which queries have a retriever that may find more than the candidates it returned."""
        rows: BoolArray = np.any([~short(ranking, self.depth) for ranking in retrieved], axis=0)
        return rows

    def found(self, queries: Sequence[Query], depth: int, view: View, services: Services, access: Access) -> Rankings:
        """Returns the ranking before reranking, with `depth` candidates from each retriever."""
        lists = [view.search(retriever, queries, depth, access) for retriever in self.retrieve]
        return self.join(queries, lists, view, services, access)

    def deepen(
        self,
        queries: Sequence[Query],
        best: Rankings,
        retrieved: Sequence[Rankings],
        want: int,
        view: View,
        services: Services,
        access: Access,
    ) -> Rankings:
        """Extends rankings that hold fewer than `want` passages: retrieves and fuses with more and more candidates, and
        appends the new passages. The passages above stay as they are. `retrieved` has the retrievers' rankings at the
        pipeline's own depth. A fuser that asks a model about scores is not asked again for each depth: the end of a
        list is not worth it, and nobody was quoted that."""
        deeper = replace(self, fuse=cast(Fuser, spec.make("fuse", DEFAULT_FUSER))) if asks_llm([self.fuse]) else self
        more = self.more(retrieved)
        while (rows := np.flatnonzero(short(best, want) & more)).size:
            deeper = replace(deeper, depth=deeper.depth * _DEEPER)
            some = [queries[i] for i in rows.tolist()]
            lists = [view.search(retriever, some, deeper.depth, access) for retriever in self.retrieve]
            joined = deeper.join(some, lists, view, services, access)
            best = extend(best, rows, fold(joined, view.parents), view.parents)
            more[rows] = deeper.more(lists)
        return best

    def rerank_by(
        self,
        reranker: Reranker,
        queries: Sequence[Query],
        best: Rankings,
        view: View,
        services: Services,
        access: Access,
        retrieved: Sequence[Rankings] = (),
    ) -> Rankings:
        """Runs a reranker on all candidates; its k is their number, so none is lost. `retrieved` has the rankings
        of the retrievers, for rerankers that ask for them."""
        source = PipelinePassages(self, view, services, access, queries, retrieved)
        return reranker.rerank(queries, best, source, max(1, best.ids.shape[1]), services)

    @property
    def completes(self) -> bool:
        """Whether the fuser needs every candidate scored by every retriever (`missing=score`)."""
        return bool(declared(self.fuse).missing == "score")

    def check(self, corpus: Corpus, services: Services) -> None:
        """Raises `SpecError` if a trained fuser was trained on other retrievers or documents."""
        declared(self.fuse).check(self.retrieve, self.depth, corpus, services)

    def join(
        self,
        queries: Sequence[Query],
        rankings: Sequence[Rankings],
        view: View,
        services: Services,
        access: Access,
    ) -> Rankings:
        """Fuses rankings and keeps every candidate. Missing scores are computed first if the fuser needs them
        (`missing=score`)."""
        if self.fuse is None:
            return rankings[0]
        self.check(view, services)
        if self.completes:
            rankings = score_missing(rankings, queries, self.retrieve, view, access)
        width = sum(ranking.ids.shape[1] for ranking in rankings)
        stage = declared(self.fuse)
        if stage.reads_queries:
            return stage.fuse_for(queries, rankings, width, services)
        return self.fuse.fuse(rankings, width)
