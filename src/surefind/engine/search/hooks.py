"""How the stages of a pipeline run: plainly, or recorded for the trace of a search.

`Pipeline.rank` decides which stages run, on what and in which order. Its hooks decide how each of them runs. Benchmarks
have hooks of their own, which cache rankings and count failures.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from surefind.base.abilities import name_of
from surefind.base.errors import SurefindError
from surefind.base.protocols import Fuser, Reranker, Retriever
from surefind.base.running.notes import FELL_BACK, collecting, note
from surefind.base.types import Rankings, TraceEntry

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
