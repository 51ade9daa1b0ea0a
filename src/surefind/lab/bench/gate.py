"""The gate that asks the standing exam: it refuses a generation on which the exam's answers get worse.

A generation is refused if both hold:

- the mean nDCG@10 falls by more than `gate_margin`;
- the upper end of the 95% interval of the difference is below 0, so that chance does not explain the loss.
"""

from __future__ import annotations

from surefind.base.errors import GateError, NothingIndexedError, SurefindError
from surefind.base.prompts.values import Calls
from surefind.base.protocols import OnProgress
from surefind.engine.search.reader import Searcher
from surefind.kb import KnowledgeBase
from surefind.lab.bench.drift import Drift, drift_calls, measure_drift
from surefind.lab.bench.drift_text import listed, summary
from surefind.lab.bench.standing import standing_exam

_WAY_OUT = "To publish without the gate, run the same command with --no-gate."


class ExamGate:
    """Asks the standing exam on the current generation and on the next one. Raises `GateError` to refuse the next."""

    def __init__(self, kb: KnowledgeBase, report: OnProgress | None = None) -> None:
        self.kb = kb
        self.report = report
        self.drift: Drift | None = None
        """The result of the last exam; None if nothing was asked."""

    def __call__(self, before: Searcher, after: Searcher) -> None:
        try:
            exam = standing_exam(self.kb, before)
            self.drift = measure_drift(self.kb, exam, before, after, self.report)
        except SurefindError as error:
            raise GateError(_unasked(str(error), before)) from error
        if self.drift.problems:
            raise GateError(_unasked(f"{self.drift.problems[0]}.", before))
        if self.drift.lost_more_than(self.kb.settings.gate_margin):
            raise GateError(_refusal(self.drift, before, self.kb.settings.gate_margin))

    def calls(self) -> list[Calls]:
        """Estimates the LLM calls of the exam, as an upper bound."""
        if not self.kb.pipeline().asks_llm:
            return []
        try:
            return drift_calls(self.kb, standing_exam(self.kb, self.kb.reader()))
        except NothingIndexedError:  # the first generation is not compared with anything
            return []


def _refusal(drift: Drift, before: Searcher, margin: float) -> str:
    lines = [
        f"The gate refused the new documents: {drift.exam} got worse by more than gate_margin = {margin:g}. "
        f"{_unchanged(before)}",
        f"{summary(drift)}, on {drift.questions} questions",
        *listed("got worse", drift.worse),
        f"Fix the documents and run the command again. {_WAY_OUT}",
    ]
    return "\n".join(lines)


def _unasked(why: str, before: Searcher) -> str:
    return f"The gate could not ask the standing exam: {why} {_unchanged(before)} {_WAY_OUT}"


def _unchanged(before: Searcher) -> str:
    return f"Nothing was published: searches still see generation {before.generation}."
