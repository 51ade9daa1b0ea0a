"""`surefind sync`: brings the knowledge base up to date with its folders and repositories.

The gate of a command that publishes: `gate = true` in surefind.toml turns it on, --no-gate turns it off.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefind.base.errors import LockedError, SurefindError, UsageError
from surefind.doors.cli._common import (
    HERE,
    LEFT_TO_OWNER,
    Budget,
    Folder,
    Json,
    Yes,
    agree,
    list_problems,
    print_json,
    progress,
)
from surefind.doors.events import plain

if TYPE_CHECKING:
    from surefind.base.prompts.values import Calls
    from surefind.base.protocols import OnProgress
    from surefind.engine.write.intake import SyncReport
    from surefind.kb import KnowledgeBase
    from surefind.kb.shared import Gate
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
            from surefind.kb.shared import always_open

            return always_open
        return self._exam

    def calls(self) -> list[Calls]:
        """Estimates the LLM calls of the gate."""
        return self._exam.calls() if self._exam else []

    def show(self) -> None:
        """Prints what the gate found, if it asked something."""
        if self._exam and self._exam.drift:
            from surefind.lab.bench.drift import summary

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


_RETRY_SECONDS = 5
"""Pause before --watch tries again while another process is writing."""


def register(app: typer.Typer) -> None:
    app.command("sync")(sync)


def sync(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            help="Folders or files to index, or git+https://HOST/REPOSITORY@REVISION; without any, all sources that "
            "were synced before."
        ),
    ] = None,
    rev: Annotated[str, typer.Option("--rev", help="Read the paths as git repositories, at this revision.")] = "",
    forget: Annotated[
        list[str] | None, typer.Option("--forget", help="Remove this source and its documents; may be repeated.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Keep syncing when files change, until Ctrl-C.")] = False,
    ray: Annotated[
        str, typer.Option("--ray", metavar="ADDRESS", help="Prepare the files on this Ray cluster: HOST:6379, or auto.")
    ] = "",
    no_gate: NoGate = False,
    budget: Budget = None,
    yes: Yes = False,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Index new and changed files, and remove deleted ones.

    Unchanged files are not read again. Files that cannot be read are skipped and listed. You can stop a sync at any
    time: searches still see the last complete state, and the next sync reuses the vectors already computed.
    """
    from surefind.kb import KnowledgeBase
    from surefind.lab.fitness.check import check_calls, require_fit, sync_needs

    if ray and watch:
        raise UsageError("--ray is for one large sync, and --watch for many small ones. Leave out one of them.")
    if rev and not paths:
        raise UsageError("--rev needs a repository. Write: surefind sync PATH --rev REVISION.")
    with KnowledgeBase.open(kb) as base:
        given = paths or []
        calls = base.sync_calls(*given)
        needs = sync_needs(base) if calls else []
        with guarded(base, no_gate, (budget, yes), as_json, [*calls, *check_calls(base, needs)]) as guard:
            require_fit(base, needs, guard.report)
            result = base.sync(
                *given, forget=forget or [], report=guard.report, revision=rev, gate=guard.gate, ray=ray,
                tell=partial(typer.echo, err=True),
            )  # fmt: skip
        _print(result, guard, as_json)
        if not as_json and (result.added or result.changed):
            _advise(base)
        _compact(base, as_json)
        if watch:
            _watch(base, result, no_gate, as_json)


def _print(result: SyncReport, guard: CliGate, as_json: bool) -> None:
    if as_json:
        print_json(plain(result) | guard.as_json())
        return
    show(result)
    guard.show()


def _compact(base: KnowledgeBase, as_json: bool) -> None:
    """Merges the parts of large indexes, which few syncs need. The result of the sync is shown before, because it is
    published and stays so if the user stops here, or if this fails."""
    from surefind.doors.work import merge_parts

    with progress(quiet=as_json) as report:
        merge_parts(base, report, partial(typer.echo, err=True))


def _advise(base: KnowledgeBase) -> None:
    from surefind.kb.completing import advice_on_languages

    text = "" if base.settings.auto else advice_on_languages(base)  # a default that nobody chose was explained
    if text:
        typer.echo(text)


def _watch(base: KnowledgeBase, last: SyncReport, no_gate: bool, as_json: bool) -> None:
    stop = threading.Event()

    def end(*_: object) -> None:
        stop.set()  # a KeyboardInterrupt raised inside a callback would be lost; the event is not
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, end)
    try:
        for turn, _ in enumerate(base.changes(stop)):
            if turn == 0:
                typer.echo("Watching for changes. Stop with Ctrl-C.", err=True)
            last = _again(base, last, no_gate, as_json, stop)
    finally:
        signal.signal(signal.SIGINT, before)
    raise KeyboardInterrupt


def _again(base: KnowledgeBase, last: SyncReport, no_gate: bool, as_json: bool, stop: threading.Event) -> SyncReport:
    """Syncs again after `last`, and prints the result only if something changed."""
    while not stop.is_set():
        try:
            with progress(quiet=as_json) as report:
                guard = CliGate(base, no_gate, report)
                result = base.sync(report=report, gate=guard.gate)
            other_problems = (result.problems, result.skipped) != (last.problems, last.skipped)
            if result.added or result.changed or result.removed or other_problems:
                _print(result, guard, as_json)
            _compact(base, as_json)
            return result
        except LockedError:
            time.sleep(_RETRY_SECONDS)
            continue
        except SurefindError as error:  # a source may be unavailable for a moment: try again at the next change
            typer.echo(f"surefind: {error}", err=True)
            return last
    return last


def show(result: SyncReport) -> None:
    from surefind.engine.write.sync import listing

    changes = f"{result.added} added, {result.changed} changed, {result.removed} removed, {result.unchanged} unchanged"
    typer.echo(f"{changes} in {result.seconds:.1f} s.")
    typer.echo(f"{result.documents} documents, {result.chunks} passages (generation {result.generation}).")
    if result.ignored:
        count = sum(result.ignored.values())
        typer.echo(f"{count} files ignored because no reader reads their type: {listing(result.ignored)}.")
    if result.aliases:
        typer.echo(f"{result.aliases} links ignored: their targets are read under their own names.")
    list_problems("links and special files skipped", result.skipped)
    list_problems(
        "files skipped or read only in part", [problem for problem in result.problems if not problem.left_to_owner]
    )
    list_problems(LEFT_TO_OWNER, [problem for problem in result.problems if problem.left_to_owner])
