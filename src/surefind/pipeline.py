"""A pipeline: retrieve, fuse, rerank. Its text form is its identity:

    bm25(k1=1.5, b=0.75, analyzer=english) + dense(model=minilm) >> convex(alpha=0.3)

Every retriever returns `depth` candidates (100; `@50` after the retrievers says otherwise), the fuser joins them,
each reranker reorders what the stage before it left. An optional stage that fails leaves the ranking before it
and says so in the trace.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from surefind import spec
from surefind.completion import complete
from surefind.errors import SpecError, SurefindError
from surefind.families import enough, fold
from surefind.notes import FELL_BACK, collecting, note
from surefind.protocols import Corpus, Fuser, Index, Passages, QueryFuser, Reranker, Retriever, TrainedFuser
from surefind.reach import Reach
from surefind.services import Services
from surefind.types import BoolArray, IntArray, Query, Rankings, TraceEntry

DEPTH = 100
DEFAULT_FUSER = "rrf(k=60.0)"


@dataclass(frozen=True)
class Run:
    """What a pipeline did: the rankings after each stage, and the trace."""

    stages: tuple[tuple[str, Rankings], ...]
    trace: tuple[TraceEntry, ...]

    @property
    def rankings(self) -> Rankings:
        return self.stages[-1][1]


@dataclass(frozen=True)
class Pipeline:
    retrieve: tuple[Retriever, ...]
    fuse: Fuser | None = None
    rerank: tuple[Reranker, ...] = ()
    depth: int = DEPTH
    name: str = field(default="", compare=False)
    """What the user calls it; not part of its identity."""

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
        """From specs. Several retrievers without a fuser are joined by RRF."""
        if fuse is None and len(retrieve) > 1:
            fuse = DEFAULT_FUSER
        if fuse is not None and len(retrieve) < 2:
            raise SpecError(f"{fuse} has one ranking to fuse. Give it two or more retrievers, or leave it out.")
        return cls(
            tuple(cast(Retriever, spec.make("retrieve", text)) for text in retrieve),
            cast(Fuser, spec.make("fuse", fuse)) if fuse is not None else None,
            tuple(cast(Reranker, spec.make("rerank", text)) for text in rerank),
            depth,
            name,
        )

    @classmethod
    def parse(cls, text: str, name: str = "") -> Pipeline:
        """`bm25 + dense @50 >> rrf(k=60)` -> the pipeline."""
        first, *later = split_outside(text, ">>")
        first, *depths = split_outside(first, "@")
        depth = "@".join(depths)
        if depths and not re.fullmatch(r"\s*\d+\s*", depth):
            raise SpecError(f"Cannot read the depth {depth.strip()!r} in {text!r}. Write it like 'bm25 + dense @50'.")
        retrieve = split_outside(first, "+")
        fuse = later.pop(0) if later and len(retrieve) > 1 else None
        return cls.of(retrieve, fuse, later, int(depth) if depth else DEPTH, name)

    def __str__(self) -> str:
        first = " + ".join(map(str, self.retrieve)) + (f" @{self.depth}" if self.depth != DEPTH else "")
        return " >> ".join([first, *map(str, [self.fuse] if self.fuse else []), *map(str, self.rerank)])

    @property
    def stages(self) -> tuple[Any, ...]:
        """All of them, in order."""
        return (*self.retrieve, *([self.fuse] if self.fuse is not None else []), *self.rerank)

    def run(
        self,
        queries: Sequence[Query],
        k: int,
        index_of: Callable[[Retriever], Index],
        passages: Passages,
        services: Services,
        allow: BoolArray | None = None,
        families: IntArray | None = None,
    ) -> Run:
        """With `families` (`Snapshot.families`) the stages rank children, and the k best parents come out."""
        stages: list[tuple[str, Rankings]] = []
        trace: list[TraceEntry] = []

        def record(
            stage: str, step: object, work: Callable[[], Rankings], fallback: Rankings | None = None
        ) -> Rankings:
            started = time.perf_counter()
            with collecting() as heard:
                try:
                    rankings = work()
                except SurefindError as error:
                    if fallback is None:
                        raise
                    rankings = fallback
                    note(f"{FELL_BACK}{error}")
            ms = (time.perf_counter() - started) * 1000
            stages.append((_unique(getattr(step, "name", stage), stages), rankings))
            candidates = int((rankings.ordinals >= 0).sum())
            trace.append(TraceEntry(stage, str(step), candidates, ms, heard.text, heard.calls, heard.dollars))
            return rankings

        wanted = k if families is None else enough(families, k)
        depth = max(self.depth, wanted)
        ready = [(r, index_of(r)) for r in self.retrieve]  # loading is not searching: it stays out of the trace
        found = [record("retrieve", r, partial(index.search, r, queries, depth, allow)) for r, index in ready]
        best = found[0]
        if self.fuse is not None:
            width = depth if self.rerank else wanted
            indexes = [index for _, index in ready]
            work = partial(self.join, queries, found, width, indexes, services, passages, allow)
            best = record("fuse", self.fuse, work)
        reach = Reach(self, index_of, passages, services, allow)
        for reranker in self.rerank:
            work = partial(reranker.rerank, queries, best, reach, wanted, services)
            best = record("rerank", reranker, work, fallback=best)
        if families is not None:
            record("parents", "parents", partial(fold, best, families, k))
        return Run(tuple(stages), tuple(trace))

    def found(
        self,
        queries: Sequence[Query],
        k: int,
        index_of: Callable[[Retriever], Index],
        services: Services,
        allow: BoolArray | None = None,
    ) -> Rankings:
        """The ranking before any reranking."""
        depth = max(self.depth, k)
        indexes = [index_of(retriever) for retriever in self.retrieve]
        pairs = zip(self.retrieve, indexes, strict=True)
        lists = [index.search(retriever, queries, depth, allow) for retriever, index in pairs]
        return self.join(queries, lists, k, indexes, services)

    @property
    def completes(self) -> bool:
        """Whether the fuser wants every candidate scored by every retriever (`missing=score`)."""
        return getattr(self.fuse, "missing", None) == "score"

    def check(self, passages: object, services: Services) -> None:
        """A trained fuser refuses retrievers and documents that it was not trained on."""
        if isinstance(self.fuse, TrainedFuser) and isinstance(passages, Corpus):
            self.fuse.check(self.retrieve, self.depth, passages, services)

    def join(
        self,
        queries: Sequence[Query],
        rankings: Sequence[Rankings],
        k: int,
        indexes: Sequence[Index],
        services: Services,
        passages: Passages | None = None,
        allow: BoolArray | None = None,
    ) -> Rankings:
        """The fusion step: candidates scored by every retriever first if the fuser wants that (`missing=score`). A
        trained fuser is held to the `passages` if they are given."""
        if self.fuse is None:
            return rankings[0]
        self.check(passages, services)
        if self.completes:
            rankings = complete(rankings, queries, list(zip(self.retrieve, indexes, strict=True)), allow)
        if isinstance(self.fuse, QueryFuser):
            return self.fuse.fuse_for(queries, rankings, k, services)
        return self.fuse.fuse(rankings, k)


def split_outside(text: str, separator: str) -> list[str]:
    """Split outside parentheses, brackets and quotes."""
    parts: list[str] = []
    depth, start = 0, 0
    for match in re.finditer(rf'"(?:[^"\\]|\\.)*"|[()\[\]]|{re.escape(separator)}', text):
        token = match.group()
        if token in "([":
            depth += 1
        elif token in ")]":
            depth -= 1
        elif token == separator and depth == 0:
            parts.append(text[start : match.start()].strip())
            start = match.end()
    return [*parts, text[start:].strip()]


def _unique(label: str, taken: Sequence[tuple[str, Rankings]]) -> str:
    """Two dense retrievers in one pipeline are `dense` and `dense:2`."""
    same = sum(1 for name, _ in taken if name.partition(":")[0] == label)
    return f"{label}:{same + 1}" if same else label
