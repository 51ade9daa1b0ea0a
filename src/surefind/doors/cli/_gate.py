"""The gate of a command that publishes: `gate = true` in surefind.toml turns it on, --no-gate turns it off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefind.doors.cli._common import progress
from surefind.doors.cli._money import agree

if TYPE_CHECKING:
    from surefind.base.prompts.values import Calls
    from surefind.base.protocols import OnProgress
    from surefind.kb import KnowledgeBase
    from surefind.kb.gate import Gate
    from surefind.lab.bench.gate import ExamGate

NoGate = Annotated[
    bool, typer.Option("--no-gate", help="Publish even if the standing exam gets worse (gate = true, below [sync]).")
]


class CliGate:
    """The gate of one command. Without a gate in the settings, nothing is asked."""

    def __init__(self, kb: KnowledgeBase, no_gate: bool, report: OnProgress | None = None) -> None:
        self.report = report
        self._exam: ExamGate | None = None
        self._off = no_gate
        if kb.settings.gate and not no_gate:
            from surefind.lab.bench.gate import ExamGate

            self._exam = ExamGate(kb, report)

    @property
    def gate(self) -> Gate | None:
        if self._off:
            from surefind.kb.gate import always_open

            return always_open
        return self._exam

    def calls(self) -> list[Calls]:
        """Estimates the LLM calls of the gate."""
        return self._exam.calls() if self._exam else []

    def show(self) -> None:
        """Prints what the gate found, if it asked something."""
        if self._exam and self._exam.drift:
            from surefind.lab.bench.drift_text import summary

            drift = self._exam.drift
            typer.echo(f"The gate asked {drift.exam}: {summary(drift)}. {drift.affected} questions could be affected.")

    def as_json(self) -> dict[str, Any]:
        return {"gate": self._exam.drift} if self._exam else {}


@contextmanager
def guarded(
    kb: KnowledgeBase, no_gate: bool, money: tuple[float | None, bool], as_json: bool, calls: Sequence[Calls] = ()
) -> Iterator[CliGate]:
    """Agrees on the cost of the gate and of `calls`, by `money`, the budget and whether it was agreed to; then shows
    progress for as long as the guard is in use."""
    agree(kb, [*calls, *CliGate(kb, no_gate).calls()], *money, as_json)
    with progress(quiet=as_json) as report:
        yield CliGate(kb, no_gate, report)
