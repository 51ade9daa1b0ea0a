"""What to ask a person: candidate questions in the order of their value, each with passages pooled from the leading
configurations.

The value of a question is how much configurations disagree on it. They are the leading ones and other fusions of the
same retrievers, which cost nothing more: the more choices disagree, the more an answer decides (docs/your-questions.md
has the simulation).

The pool takes the first passage of each configuration, then the second of each, and so on, until it is full. Then it is
shuffled, so that a person sees neither which configuration found a passage nor how high.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from surefind.access import Access
from surefind.errors import MissingPartError, UsageError
from surefind.exam.candidates import Candidate
from surefind.exam.disagreement import K, disagreement
from surefind.kb import KnowledgeBase
from surefind.protocols import OnProgress, Retriever
from surefind.search.hooks import StageHooks, Work
from surefind.search.pipeline import Pipeline
from surefind.search.reader import Searcher
from surefind.types import Hit, Query, Rankings

LEADING = ("bm25", "dense", "bm25 + dense >> convex(alpha=0.5, missing=score)")
"""The configurations whose passages are shown, besides those of the pipelines of surefind.toml."""
_FUSERS = (
    *(f"rrf(k={k})" for k in (10, 60)),
    *(f"rrf(k=60, weights={weights})" for weights in ("[1, 2]", "[2, 1]")),
    *(f"convex(alpha={alpha})" for alpha in (0.1, 0.3, 0.5, 0.7)),
    "dbsf",
    "combmnz",
)
_FUSIONS = tuple(f"bm25 + dense >> {fuser}" for fuser in _FUSERS)
"""Fusions of the retrievers of `LEADING` that also disagree or agree."""
_BATCH = 64


@dataclass(frozen=True)
class Ask:
    """A question for a person."""

    candidate: Candidate
    value: float | None
    """How much the configurations disagree; None if the order is random."""
    typical: float | None = None
    """The mean disagreement over all candidates."""


class Asking:
    """Ranks candidates and pools passages over some configurations, on one generation."""

    def __init__(self, kb: KnowledgeBase, pipelines: Sequence[str], access: Access, report: OnProgress | None) -> None:
        self.pipelines = leading(kb, pipelines, report)
        self.access = access
        self.reader: Searcher = kb.reader()
        self._services = kb.services
        self._compared = self.pipelines if pipelines else self._with_fusions()
        self._report: OnProgress = report or (lambda what, done, total: None)

    def by_disagreement(self, candidates: Sequence[Candidate]) -> list[Ask]:
        """Returns the candidates, those on which the configurations disagree most first."""
        values: list[float] = []
        for at in range(0, len(candidates), _BATCH):
            self._report("Comparing the configurations", at, len(candidates))
            queries = [Query(candidate.text) for candidate in candidates[at : at + _BATCH]]
            values += disagreement(self._rankings(queries)).tolist()
        self._report("Comparing the configurations", len(candidates), len(candidates))
        typical = sum(values) / max(1, len(values))
        asks = [Ask(candidate, value, typical) for candidate, value in zip(candidates, values, strict=True)]
        return sorted(asks, key=lambda ask: (-(ask.value or 0.0), ask.candidate.key))

    def _with_fusions(self) -> list[Pipeline]:
        """The leading configurations, and the fusions whose retrievers they use."""
        built = {str(retriever) for pipeline in self.pipelines for retriever in pipeline.retrieve}
        fusions = map(Pipeline.parse, _FUSIONS)
        return _distinct(
            [*self.pipelines, *(fusion for fusion in fusions if {str(r) for r in fusion.retrieve} <= built)]
        )

    def _rankings(self, queries: Sequence[Query]) -> list[Rankings]:
        """The rankings of all compared configurations; each retriever runs once."""
        once = _RetrieveOnce()
        where = self.reader.view, self._services, self.access
        return [pipeline.rank(queries, K, *where, once) for pipeline in self._compared]

    def at_random(self, candidates: Iterable[Candidate], seed: int) -> list[Ask]:
        """Returns the candidates in a random order, the same for the same seed."""
        asks = [Ask(candidate, None) for candidate in sorted(candidates, key=lambda candidate: candidate.key)]
        random.Random(seed).shuffle(asks)
        return asks

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


class _RetrieveOnce(StageHooks):
    """Shares the rankings of retrievers between the pipelines that are run on the same queries."""

    def __init__(self) -> None:
        self._retrieved: dict[tuple[str, int], Rankings] = {}

    def retrieve(self, retriever: Retriever, depth: int, work: Work) -> Rankings:
        key = (str(retriever), depth)
        if key not in self._retrieved:
            self._retrieved[key] = work()
        return self._retrieved[key]


def part(hit: Hit) -> Hit:
    """Cuts a hit to its best matching part: a person reads and marks that part, not the large passage around it."""
    start, end = hit.matched or (hit.start, hit.end)
    return replace(hit, text=hit.text[start - hit.start : end - hit.start], start=start, end=end, matched=None)


def leading(kb: KnowledgeBase, given: Sequence[str] = (), build: OnProgress | None = None) -> list[Pipeline]:
    """Returns the configurations to compare, with their indexes built: the given ones, else the pipelines of
    surefind.toml and `LEADING`.

    Of the pipelines of surefind.toml, those that ask a language model are left out, and so are rerankers, because both
    would run on every candidate. If the encoder of `LEADING` is not installed, the others are compared."""
    if given:
        chosen = _distinct(map(kb.pipeline, given))
        for pipeline in chosen:
            if pipeline.asks_llm:
                raise UsageError(f"{pipeline} asks a language model for every candidate. Choose another pipeline.")
        if len(chosen) < 2:
            raise UsageError("One configuration cannot disagree with itself. Name at least two with --pipeline.")
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
