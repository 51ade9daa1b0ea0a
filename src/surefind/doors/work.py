"""The long work that a server does for its callers: one function for each kind of job.

A function gets the knowledge base, opened for its author, and what the caller may read. It reports progress, says what
the owner should know, and returns plain data. It spends no money: a job has nobody to ask.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surefind.base.access import Access
from surefind.base.errors import LockedError, SurefindError, UsageError
from surefind.base.prompts.values import Calls
from surefind.base.protocols import OnProgress
from surefind.doors.events import plain
from surefind.engine.store.lock import growing_lock, patiently
from surefind.kb import KnowledgeBase

if TYPE_CHECKING:
    from surefind.lab.bench.gate import ExamGate

_SPARE = 10
"""How much lower the priority of a process is that computes vectors in the background."""
_PUBLISH_SECONDS = 600.0
"""Seconds that publishing and retiring wait for another writer, such as a long sync."""
_SYNC_SECONDS = 60.0
"""Seconds that a sync waits for another writer."""


@dataclass(frozen=True)
class JobContext:
    """What the function of a job works with."""

    kb: KnowledgeBase
    access: Access
    report: OnProgress
    say: Callable[[str], None]
    """Tells the owner something."""
    give: Callable[[Any], None]
    """Gives the result."""

    def gate(self) -> ExamGate | None:
        """The gate of the settings, if they have one."""
        if not self.kb.settings.gate:
            return None
        from surefind.lab.bench.gate import ExamGate

        return ExamGate(self.kb, self.report)

    def spend_nothing(self, calls: Sequence[Calls]) -> None:
        """Raises `UsageError` if calls of a language model may cost money."""
        from surefind.engine.llm.models import quote

        quoted = quote(self.kb.services.llm, calls) if calls else None
        if quoted and quoted.costs:
            raise UsageError(f"This may cost money: {quoted}. Run it on the command line, and add --yes.")


def sync(task: JobContext, folder: str = "") -> None:
    """Reads the sources again, or adds a folder to them. The parts of indexes are merged after the result is given,
    because that is published and stays so if this fails."""
    from surefind.lab.fitness.check import check_calls, require_fit, sync_needs

    gate = task.gate()
    added = [str(task.kb.folder / Path(folder).expanduser())] if folder else []
    calls = task.kb.sync_calls(*added)
    needs = sync_needs(task.kb) if calls else []
    task.spend_nothing([*calls, *check_calls(task.kb, needs), *(gate.calls() if gate else ())])
    require_fit(task.kb, needs, task.report)
    work = partial(task.kb.sync, *added, report=task.report, gate=gate, tell=task.say, wait=False)
    made = patiently(work, _SYNC_SECONDS)
    task.give({**plain(made), **({"gate": gate.drift} if gate else {})})
    merge_parts(task.kb, task.report, task.say)


def complete(task: JobContext) -> None:
    """Builds the indexes that the documents still wait for, with what the processor has to spare."""
    os.nice(_SPARE)
    task.give({"built": task.kb.complete(task.report, task.say)})


def publish(task: JobContext, version: int, approved: bool = False, revision: int | None = None) -> None:
    gate = task.gate()
    task.spend_nothing(gate.calls() if gate else [])
    needed = task.kb.settings.drafts.approvals if approved else 0
    do = partial(task.kb.drafts.publish, version, task.report, gate, needed, revision, task.say, task.access)
    number = patiently(do, _PUBLISH_SECONDS)
    task.give({"generation": number, **({"gate": gate.drift} if gate else {})})


def retire(task: JobContext, document: str) -> None:
    gate = task.gate()
    task.spend_nothing(gate.calls() if gate else [])
    number = patiently(partial(task.kb.retire, document, task.report, gate), _PUBLISH_SECONDS)
    task.give({"generation": number, **({"gate": gate.drift} if gate else {})})


def bench(task: JobContext, exam: str | None = None, preset: str | None = None) -> None:
    from surefind.base.disk.sealed import to_json
    from surefind.lab.bench.cost import llm_calls, plan_needs
    from surefind.lab.bench.files import write_files
    from surefind.lab.bench.names import compared, plan_for
    from surefind.lab.bench.run import known_item_exam, run_bench
    from surefind.lab.bench.saved import report_folder
    from surefind.lab.exam.store import ExamStore
    from surefind.lab.fitness.check import check_calls, require_fit

    kb = task.kb
    what = compared(kb, preset, [], [], [])
    store = ExamStore(kb.data / "exams")
    questions = store.load(exam) if exam else known_item_exam(kb, access=task.access, tell=task.say)
    plan = plan_for(kb, questions, what, task.access)
    needs = plan_needs(kb, plan)
    task.spend_nothing([*llm_calls(kb, plan), *check_calls(kb, needs)])
    require_fit(kb, needs, task.report)
    options = [word for name, value in (("--exam", exam), ("--preset", preset)) if value for word in (name, value)]
    groups = [word for group in sorted(task.access.groups) for word in ("--as", group)]
    command = shlex.join(["surefind", "bench", *options, *groups])
    report = run_bench(kb, plan, command, report=task.report).report
    page = write_files(report, report_folder(kb.data, report.exam.name, report.created))
    task.give({**to_json(report), "page": str(page)})


def study(task: JobContext, study: str, exam: str | None = None) -> None:
    from surefind.lab.study.context import Options, Wanted, flags_of, open_collections
    from surefind.lab.study.html import folder_of, write_files
    from surefind.lab.study.run import StudyRun
    from surefind.lab.study.stage import find_study

    chosen = find_study(study)
    wanted = Wanted((exam,) if exam else (), questions=chosen.questions, access=task.access, writes=chosen.exam)
    spend = lambda kb, calls: task.spend_nothing(calls)  # noqa: E731
    collections = open_collections(task.kb.folder, wanted, task.report, task.say, spend)
    try:
        options = Options(llm=bool(task.kb.services.llm.settings.model))
        run = StudyRun(study, chosen, collections, options, flags=flags_of(wanted, options), report=task.report)
        task.spend_nothing([call for _, listed in run.calls() for call in listed])
        made = run.run()
    finally:
        for collection in collections:
            collection.kb.close()
    task.give({**made, "page": str(write_files(made, folder_of(task.kb.data, made)))})


def pool(task: JobContext, exam: str, judge: str) -> None:
    """Collects the passages that judges of an exam will see."""
    from surefind.base.access import Caller
    from surefind.lab.exam.judging import Judging

    with growing_lock(task.kb.data, exam):
        session = Judging(task.kb, exam, Caller(judge, frozenset(), task.access.groups))
        session.make_pool(report=task.report)
    task.give({"name": exam, "judge": judge, "questions": len(session.pool)})


def graph(task: JobContext) -> None:
    """Builds the graph's index, and counts what the caller may read. Later syncs keep it only if a pipeline uses it."""
    from surefind.kb.graph import GRAPH, figures, graph_of

    task.kb.build_for([GRAPH], report=task.report)
    made = graph_of(task.kb.reader(), task.access)
    task.give(figures(*made[:2]))


def adopt(task: JobContext, folder: str, row: str) -> None:
    """Makes a row of a report the default of the knowledge base."""
    from surefind.base.disk.sealed import to_json
    from surefind.lab.bench.names import adopt, change_for, find_in
    from surefind.lab.bench.saved import saved_configs

    change = change_for(task.kb, find_in(saved_configs(Path(folder)), row))
    task.give(to_json(adopt(task.kb, change, task.spend_nothing, task.report, task.say)))


def merge_parts(kb: KnowledgeBase, report: OnProgress | None, say: Callable[[str], None]) -> None:
    """Merges the parts of large indexes, which few syncs need. A failure is said, because the sync itself is done."""
    try:
        kb.compact(report)
    except LockedError:
        return  # another sync has begun, and will see to it
    except (SurefindError, OSError) as error:
        say(f"The parts of the indexes were not merged ({error}). The next sync tries again.")


KINDS: Mapping[str, Callable[..., None]] = {
    "sync": sync, "publish": publish, "retire": retire, "bench": bench, "study": study, "pool": pool,
    "graph": graph, "adopt": adopt, "complete": complete,
}  # fmt: skip
