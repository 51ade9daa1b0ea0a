"""What stages say and spend reaches their entry of the trace, and nobody else's."""

from __future__ import annotations

import contextvars
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar

from memory_view import MemoryView
from surefind.base.access import Access
from surefind.base.errors import SurefindError
from surefind.base.protocols import Passages, Services
from surefind.base.running import collecting, note, spend
from surefind.base.spec import Stage
from surefind.base.types import Chunk, Query, Rankings
from surefind.engine.retrieve.bm25 import BM25
from surefind.engine.search.pipeline import Pipeline, Reading
from surefind.engine.services import LocalServices

CHUNKS = [Chunk("a.md", 0, 4, "cash"), Chunk("b.md", 0, 11, "cash report")]


@dataclass(frozen=True)
class Talking(Stage):
    """Says and spends something; fails afterwards if it is to."""

    kind: ClassVar[str] = "rerank"
    name: ClassVar[str] = "talking"

    words: str = "hello"
    dollars: float = 0.0
    fails: bool = False

    def rerank(
        self, queries: Sequence[Query], rankings: Rankings, passages: Passages, k: int, services: Services
    ) -> Rankings:
        note(self.words)
        spend(1, 100, 10, self.dollars)
        if self.fails:
            raise SurefindError("The model did not answer.")
        return rankings


def test_each_stage_has_its_own_notes_and_costs() -> None:
    retriever = BM25()
    stages = Talking("first", 0.25), Talking("second", 0.5, fails=True), Talking("third")
    pipeline = Pipeline((retriever,), None, stages)
    run = pipeline.run(
        [Query("cash")], 2, Reading(MemoryView(CHUNKS, LocalServices()), LocalServices(), Access.owner())
    )
    found = [(entry.note, entry.calls, entry.dollars) for entry in run.trace]
    assert found == [
        ("", 0, 0.0),
        ("first", 1, 0.25),
        ("second; fell back: The model did not answer.", 1, 0.5),
        ("third", 1, 0.0),
    ]


def test_outside_a_run_nothing_happens() -> None:
    note("nobody hears this")
    spend(1, 1, 1, 1.0)
    with collecting() as collected:
        pass
    assert (collected.text, collected.calls) == ("", 0)


def test_the_same_note_is_made_once() -> None:
    with collecting() as collected:
        for text in ("cut", "cut", "slow"):
            note(text)
    assert collected.text == "cut; slow"


def test_an_inner_collector_hears_for_itself_and_the_outer_one_goes_on() -> None:
    with collecting() as outer:
        note("before")
        with collecting() as inner:
            note("inside")
        note("after")
    assert (outer.text, inner.text) == ("before; after", "inside")


def test_threads_that_run_in_a_copy_of_the_context_are_heard() -> None:
    with collecting() as collected, ThreadPoolExecutor(4) as pool:
        work = [pool.submit(contextvars.copy_context().run, spend, 1, 10, 2, 0.5) for _ in range(200)]
        for one in work:
            one.result()
    assert (collected.calls, collected.tokens_in, collected.tokens_out, collected.dollars) == (200, 2000, 400, 100.0)
