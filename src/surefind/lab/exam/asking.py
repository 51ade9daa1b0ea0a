"""Passages to judge for a question, pooled from several configurations.

The pool takes the first passage of each configuration, then the second of each, and so on, until it is full. Then it is
shuffled, so that a judge sees neither which configuration found a passage nor how high.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from surefind.base.access import Access
from surefind.base.errors import MissingPartError, UsageError
from surefind.base.protocols import OnProgress
from surefind.base.types import Hit
from surefind.engine.search.pipeline import Pipeline
from surefind.engine.search.reader import Searcher
from surefind.kb import KnowledgeBase

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
