"""`surefind drift`: asks the standing exam on an earlier generation and on the current one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated

import typer

from surefind.base.errors import NotBuiltError, UsageError
from surefind.doors.cli import _complete
from surefind.doors.cli._common import HERE, Folder, Json, print_json, progress, tell_problems
from surefind.doors.cli._money import Budget, Yes, agree

if TYPE_CHECKING:
    from surefind.engine.search.reader import Searcher
    from surefind.kb import KnowledgeBase
    from surefind.lab.bench.drift import Drift
    from surefind.lab.exam.model import Exam


def register(app: typer.Typer) -> None:
    app.command("drift")(drift)


def drift(
    generation: Annotated[int, typer.Argument(help="A kept generation; surefind history lists them.")],
    exam: Annotated[
        list[str] | None,
        typer.Option(
            "--exam",
            help="An exam from `surefind exam list`; may be repeated.",
            show_default="the standing exam",
            autocompletion=_complete.exams,
        ),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Run again even if nothing changed.")] = False,
    budget: Budget = None,
    yes: Yes = False,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Show which answers got worse since a generation, and why.

    The default pipeline answers the standing exam on that generation and on the current one. Exits with 1 if an exam
    got significantly worse by nDCG@10.
    """
    from surefind.kb import KnowledgeBase
    from surefind.lab.bench.comparison import corrected
    from surefind.lab.bench.drift import drift_calls, measure_drift
    from surefind.lab.bench.drift_text import drift_text

    with KnowledgeBase.open(kb) as base:
        tell_problems(base)
        before = _earlier(base, generation)
        exams = _exams(base, exam or [], before)
        agree(base, [calls for questions in exams for calls in drift_calls(base, questions)], budget, yes, as_json)
        with progress(quiet=as_json) as report:
            base.build(base.pipeline(), report=report)
            base.refresh()
            results = corrected(
                [measure_drift(base, planned, before, base.reader(), report, fresh) for planned in exams]
            )
    failed = any(drift.failed for drift in results)
    if as_json:
        shown = [_json(drift) for drift in results]
        print_json({**shown[0], "failed": failed} if len(shown) == 1 else {"exams": shown, "failed": failed})
    else:
        typer.echo("\n\n".join(map(drift_text, results)))
    if failed:
        raise typer.Exit(1)


def _json(drift: Drift) -> dict[str, object]:
    return {field.name: getattr(drift, field.name) for field in fields(drift)}


def _exams(kb: KnowledgeBase, names: Sequence[str], before: Searcher) -> list[Exam]:
    from surefind.lab.bench.standing import standing_exam
    from surefind.lab.exam.store import ExamStore

    store = ExamStore(kb.data / "exams")
    return [store.load(name) for name in names] or [standing_exam(kb, before)]


def _earlier(kb: KnowledgeBase, since: int) -> Searcher:
    """Opens the earlier generation. Raises `UsageError` if it cannot be searched with the current settings."""
    try:
        reader = kb.reader_of(since)
        missing = reader.missing(kb.pipeline().retrieve)
    except NotBuiltError:
        raise UsageError(
            f"Generation {since} is not cut by {kb.settings.layout}: the settings have changed since. Choose a later "
            "generation; surefind history lists them."
        ) from None
    if missing:
        listed = ", ".join(sorted({retriever.name for retriever in missing}))
        raise UsageError(
            f"Generation {since} has no index for {listed}: the settings have changed since. Choose a later "
            "generation; surefind history lists them."
        )
    return reader
