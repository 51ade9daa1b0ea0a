"""Runs many calls in parallel, a bounded number at a time, and returns results in the order of the items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heapreplace
from typing import Any

from surefind.base.errors import BudgetError, SurefindError
from surefind.base.protocols import Progress
from surefind.base.running import notes
from surefind.base.running.notes import CollectedNotes
from surefind.base.running.workers import Workers


def map_calls(
    work: Callable[[Any], Any], items: Sequence[Any], concurrency: int, progress: Progress | None = None
) -> list[Any]:
    """Runs `work` on each item, `concurrency` at a time. A SurefindError takes the place of a failed result.

    A `BudgetError` and Ctrl-C are raised. Calls that have not begun are then dropped, and running calls are waited for
    (after Ctrl-C only for a moment).
    """
    if not items:
        return []

    def one(item: Any) -> tuple[Any, CollectedNotes]:
        with notes.collecting() as collected:
            try:
                return work(item), collected
            except BudgetError:
                raise
            except SurefindError as error:
                return error, collected

    results: list[Any] = []
    waits: list[float] = []
    with Workers(concurrency) as workers:
        for done, (result, collected) in enumerate(workers.map(one, items), 1):
            results.append(result)
            waits.append(collected.waited)
            notes.pass_on(collected, 0.0)
            if progress:
                progress(done, len(items))
    notes.wait(makespan(waits, concurrency))
    return results


def makespan(seconds: Iterable[float], workers: int) -> float:
    """Seconds until jobs of these lengths are done, if each is started by the first free worker."""
    free = [0.0] * workers
    for length in seconds:
        heapreplace(free, free[0] + length)
    return max(free)
