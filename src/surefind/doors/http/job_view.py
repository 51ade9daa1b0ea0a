"""What a caller sees of a job. A job runs as the owner, so its output is about every document.

A caller who may read everything sees all of it. Others see the state, the kinds of work without their counts, the new
generation of a sync or a publication, and the figures of the benchmark or study that was made for their groups. Its
report quotes the documents that they may read when they open it.
"""

from __future__ import annotations

import re
from typing import Any

from surefind.base.access import EVERYTHING
from surefind.base.disk.records import from_json, to_json
from surefind.base.errors import (
    BudgetError,
    ConflictError,
    ExamError,
    GateError,
    LockedError,
    NotBuiltError,
    NotFoundError,
    NothingIndexedError,
    SpecError,
    UsageError,
)
from surefind.base.redact import without_folders
from surefind.doors.auth.caller import Caller
from surefind.doors.events import Notice, ProgressEvent
from surefind.doors.http.job import Job
from surefind.lab.bench.readable import readable_report
from surefind.lab.bench.report import BenchReport
from surefind.lab.study.files import readable_study

_WORK = re.compile(r"[A-Z][a-z]+ing\b")
"""The first word of a kind of work, such as Reading or Indexing, without what it works on."""
_ABOUT_THE_REQUEST = frozenset(
    kind.__name__
    for kind in (
        BudgetError, ConflictError, ExamError, LockedError, NotBuiltError, NotFoundError, NothingIndexedError,
        SpecError, UsageError,
    )
)  # fmt: skip
"""Errors that are about what was asked for. The messages of others quote questions, documents or files."""
_GATE = (
    "The gate refused the new documents: the standing exam got worse, or could not be asked. Nothing was published. "
    "Somebody who may read every document sees the reason."
)
_OTHER = "The job failed. Somebody who may read every document sees the reason."


def job_data(job: Job, caller: Caller) -> dict[str, Any]:
    """Returns a job as JSON, as far as the caller may know it."""
    lines, whole = job_lines(job, caller), _sees_all(caller)
    last, progress = job.told[-1] if whole and job.told else None, None
    if isinstance(last, ProgressEvent) and last.state == "running":
        progress = {"what": last.what, "done": last.done, "total": last.total}
    return {
        "id": job.id, "kind": job.kind, "state": job.state, "began": job.began, "ended": job.ended,
        "progress": progress, "message": lines[-1] if lines else "",
        "result": job.result if whole else _result(job, caller),
        "error": (job.error if whole else _error(job)) or None,
    }  # fmt: skip


def job_lines(job: Job, caller: Caller) -> list[str]:
    """Returns the lines of progress that the caller may see."""
    return [line for event in job.told if (line := shown_line(event, caller))]


def shown_line(event: ProgressEvent | Notice, caller: Caller) -> str:
    """Returns what a caller may see of an event, as a line; empty if that is nothing."""
    if _sees_all(caller):
        return str(event)
    work = _WORK.match(event.what) if isinstance(event, ProgressEvent) else None
    if work is None or not isinstance(event, ProgressEvent):
        return ""
    return work[0] if event.state == "running" else f"{work[0]}: {event.state}"


def job_about(job: Job, caller: Caller) -> str:
    """Returns what a job works on, such as the name of an exam, to those who asked for it."""
    return job.about if _sees_all(caller) or caller.name in job.callers else ""


def _sees_all(caller: Caller) -> bool:
    return EVERYTHING in caller.groups


def _result(job: Job, caller: Caller) -> Any:
    if not isinstance(job.result, dict):
        return None
    if job.kind in ("sync", "publish", "retire"):
        return {key: value for key, value in job.result.items() if key == "generation"}
    if job.kind not in ("bench", "study") or not job.groups <= caller.groups:
        return None
    return readable_study(job.result) if job.kind == "study" else _figures(job.result)


def _figures(result: dict[str, Any]) -> Any:
    """Returns the report of a benchmark without its quotes; None if another version of Surefind made it."""
    try:
        return to_json(readable_report(from_json(BenchReport, result)))
    except ValueError:
        return None


def _error(job: Job) -> str:
    if not job.error or job.error_kind in _ABOUT_THE_REQUEST:
        return without_folders(job.error)
    return _GATE if job.error_kind == GateError.__name__ else _OTHER
