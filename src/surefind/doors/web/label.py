"""`/label`: people judge which passages answer a question, blind and in shuffled order, and see how far they agree."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Query, Request
from starlette.responses import Response

from surefind.base.access import Caller
from surefind.base.errors import ExamError, UsageError
from surefind.doors.http.drafting import seen_questions
from surefind.doors.http.service import Served, Service
from surefind.doors.web.page import back_to, page
from surefind.engine.store.lock import growing_lock
from surefind.lab.exam.formats.table import id_of
from surefind.lab.exam.judging import Judging, in_words, judge_name
from surefind.lab.exam.store import ExamStore, check_name

router = APIRouter(include_in_schema=False)
Name = Annotated[str, Query(max_length=100)]
Given = Annotated[str, Form(max_length=100)]
_MAX_PASTED_CHARS = 100_000


@router.get("/label")
async def overview(request: Request, service: Served, judge: Name = "") -> Response:
    """The exams that can be labelled, and how far they are."""
    caller = await service.caller(request, "review")
    who = _judge(service, caller, judge)

    def read() -> Response:
        store = ExamStore(service.kb.data / "exams")
        exams = [Judging(service.kb, name, who) for name in store.collected()]
        return page(
            caller, "label.html", title="Label", here="label", exams=exams, judge=judge_name(who.name),
            named=service.gatekeeper.lets_everybody_in, given=judge, link=_link,
        )  # fmt: skip

    return await service.work_apart("report", request, caller, read)


@router.post("/label")
async def collect(
    request: Request,
    service: Served,
    name: Given,
    questions: Annotated[str, Form(max_length=_MAX_PASTED_CHARS)],
    judge: Given = "",
) -> Response:
    """Adds questions, one a line, to those that wait to be labelled."""
    await service.caller(request, "review")

    def add() -> None:
        exam = name.strip()
        check_name(exam)
        with growing_lock(service.kb.data, exam):  # whoever writes, writes all that it has read
            candidates = ExamStore(service.kb.data / "exams").candidates(exam)
            made = candidates.collect(questions.splitlines(), "page")
        if not made.added:
            why = next(iter(made.skipped), "there was none")
            raise ExamError(f"No question was added: {why}.")

    await service.write(add)
    return back_to(request, _link("/label", judge))


@router.post("/label/{name}/pool")
async def pool(name: str, request: Request, service: Served, judge: Given = "") -> Response:
    """Collects the passages to label, from several configurations."""
    caller = await service.caller(request, "review")
    who = _judge(service, caller, judge)
    judging = await service.work_apart("report", request, caller, lambda: Judging(service.kb, name, who))
    after = _link(f"/label/{name}", judge)
    job = await service.jobs.start(caller, "pool", {"exam": judging.name, "judge": judging.judge}, name, after)
    return back_to(request, f"/jobs/{job.id}")


@router.get("/label/{name}")
async def question(
    name: str, request: Request, service: Served, at: Annotated[int | None, Query(ge=1)] = None, judge: Name = ""
) -> Response:
    """One question and its passages: the one that was asked for, or the next without a label."""
    caller = await service.caller(request, "review")
    who = _judge(service, caller, judge)
    if service.gatekeeper.lets_everybody_in and not judge:
        return back_to(request, "/label")

    def read() -> Response:
        judging = Judging(service.kb, name, who)
        number = judging.next() if at is None else min(at, len(judging.pool)) - 1
        if judging.stale or number is None or number < 0:
            number, pooled, passages = None, None, []
        else:
            pooled, passages = judging.pool[number], judging.passages(number)
        return page(
            caller, "label_question.html", title=f"Label {name}", here="label", found=judging, at=number, pooled=pooled,
            passages=passages, id=id_of(pooled.query) if pooled else "", judge=judge, link=_link,
        )  # fmt: skip

    return await service.work_apart("report", request, caller, read)


@router.post("/label/{name}")
async def save(
    name: str,
    request: Request,
    service: Served,
    query_id: Annotated[str, Form(alias="id", max_length=100)],
    relevant: Annotated[list[int] | None, Form(max_length=100)] = None,
    none: Annotated[bool, Form()] = False,
    judge: Given = "",
    document: Annotated[str, Form(max_length=1000)] = "",
    words: Annotated[str, Form(max_length=_MAX_PASTED_CHARS)] = "",
) -> Response:
    """Saves the label of a question, and goes on to the next one without a label. `document` and `words` name a passage
    from outside the pool."""
    caller = await service.caller(request, "review")
    who = _judge(service, caller, judge)

    def mark() -> int | None:
        judging = Judging(service.kb, name, who)
        at = judging.find(query_id)
        marked = [] if none else list(relevant or [])
        if document.strip() and not none:
            with growing_lock(service.kb.data, name):
                marked.append(judging.add(at, judging.outside(document.strip(), words)))
        if not marked and not none:
            raise UsageError("Mark the relevant passages, or say that none is.")
        judging.mark(at, marked, ranked=False)
        return judging.next(at)

    following = await service.write(mark)
    return back_to(request, _link(f"/label/{name}", judge, "" if following is None else following + 1))


@router.get("/label/{name}/agreement")
async def agreement(name: str, request: Request, service: Served, judge: Name = "", made: str = "") -> Response:
    """How far the judges agree, and on which passages they do not."""
    caller = await service.caller(request, "review")
    who = _judge(service, caller, judge)

    def read() -> Response:
        judging = Judging(service.kb, name, who)
        store = ExamStore(service.kb.data / "exams")
        exam = store.load(name) if name in store.names() else None
        questions = len(seen_questions(exam, service, caller)) if exam else 0
        return page(
            caller, "label_agreement.html", title=f"Agreement on {name}", here="label", found=judging,
            pairs=[(pair, in_words(pair.kappa)) for pair in judging.agreement], splits=judging.splits(), exam=exam,
            questions=questions, made=bool(made), judge=judge, link=_link,
        )  # fmt: skip

    return await service.work_apart("report", request, caller, read)


@router.post("/label/{name}/exam")
async def make_exam(name: str, request: Request, service: Served, judge: Given = "") -> Response:
    """Makes an exam of the labels: a passage is gold if at least half of the judges marked it."""
    caller = await service.caller(request, "review")
    who = _judge(service, caller, judge)

    def make() -> None:
        judging = Judging(service.kb, name, who)
        with growing_lock(service.kb.data, name):
            made = judging.make_exam()
        if made is None:
            raise ExamError("No question has a relevant passage yet, so there is no exam.")

    await service.write(make)
    return back_to(request, _link(f"/label/{name}/agreement", judge, made="1"))


def _judge(service: Service, caller: Caller, given: str) -> Caller:
    """Returns who judges: the caller. A server without keys does not know its callers, so they say who they are."""
    return replace(caller, name=given.strip() or "me") if service.gatekeeper.lets_everybody_in else caller


def _link(path: str, judge: str, at: int | str = "", **more: str) -> str:
    given = {name: value for name, value in {"judge": judge, "at": at, **more}.items() if value not in ("", None)}
    return path + ("?" + urlencode(given, errors="replace") if given else "")
