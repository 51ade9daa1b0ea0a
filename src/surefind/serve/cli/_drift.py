"""`surefind bench --since`: asks the standing exam on an earlier generation and on the current one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from surefind.errors import NotBuiltError, UsageError
from surefind.serve.cli._common import print_json, progress, tell_problems
from surefind.serve.cli._money import agree

if TYPE_CHECKING:
    from surefind.bench.drift import Drift
    from surefind.exam.model import Exam
    from surefind.kb import KnowledgeBase
    from surefind.search.reader import Reader


def compare_generations(
    folder: Path,
    since: int,
    names: Sequence[str],
    fresh: bool,
    money: tuple[float | None, bool],
    as_json: bool,
    others: Mapping[str, object],
) -> None:
    """Shows the drift since a generation. Exits with 1 if an exam got significantly worse. `others` are the options
    that do not go with --since."""
    from surefind.bench.comparison import corrected
    from surefind.bench.drift import drift_calls, measure_drift
    from surefind.bench.drift_text import drift_text
    from surefind.kb import KnowledgeBase

    given = [option for option, value in others.items() if value]
    if given:
        raise UsageError(
            f"--since compares two generations with the default pipeline and nDCG@10. Leave out {given[0]}, or leave "
            "out --since."
        )
    with KnowledgeBase.open(folder) as kb:
        tell_problems(kb)
        before = _earlier(kb, since)
        exams = _exams(kb, names, before)
        agree(kb, [calls for exam in exams for calls in drift_calls(kb, exam)], *money, as_json)
        with progress(quiet=as_json) as report:
            kb.build(kb.pipeline(), report=report)
            kb.refresh()
            drifts = corrected([measure_drift(kb, exam, before, kb.reader(), report, fresh) for exam in exams])
    failed = any(drift.failed for drift in drifts)
    if as_json:
        shown = [_json(drift) for drift in drifts]
        print_json({**shown[0], "failed": failed} if len(shown) == 1 else {"exams": shown, "failed": failed})
    else:
        typer.echo("\n\n".join(map(drift_text, drifts)))
    if failed:
        raise typer.Exit(1)


def _json(drift: Drift) -> dict[str, object]:
    from dataclasses import fields

    return {field.name: getattr(drift, field.name) for field in fields(drift)}


def _exams(kb: KnowledgeBase, names: Sequence[str], before: Reader) -> list[Exam]:
    from surefind.bench.standing import standing_exam
    from surefind.exam.store import ExamStore

    store = ExamStore(kb.data / "exams")
    return [store.load(name) for name in names] or [standing_exam(kb, before)]


def _earlier(kb: KnowledgeBase, since: int) -> Reader:
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
        listed = ", ".join(sorted({one.name for one in missing}))
        raise UsageError(
            f"Generation {since} has no index for {listed}: the settings have changed since. Choose a later "
            "generation; surefind history lists them."
        )
    return reader
