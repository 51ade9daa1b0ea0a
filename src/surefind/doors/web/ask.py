"""`/ask`: a page that answers a question with quotes, or says that nothing here does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from surefind.base.errors import NothingIndexedError, QueryError
from surefind.base.types import Hit
from surefind.doors.auth.caller import Caller
from surefind.doors.http.answers import shown_to
from surefind.doors.http.service import Served, Service
from surefind.doors.web.page import hit_path, is_fragment, page
from surefind.doors.web.passage import plain
from surefind.kb.answer.answering import answer
from surefind.kb.answer.values import Answer, Cited

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True)
class Quote:
    """A sentence of the answer, and where it is from."""

    text: str
    sources: list[tuple[Hit, str]]
    """The hits, each with the address that opens its document at the sentence."""


@router.get("/ask")
async def ask(request: Request, service: Served, query: Annotated[str, Query(max_length=10_000)] = "") -> Response:
    """The whole page, or the answer alone."""
    caller = await service.caller(request, "read")
    question = query.strip()
    template = "answer.html" if is_fragment(request) else "ask.html"

    def made() -> Response:
        answered, empty = _answered(service, caller, question)
        quotes = [_quote(sentence, answered) for sentence in answered.sentences] if answered else []
        note = shown_to(caller, {"note": answered.note})["note"] if answered else ""
        return page(
            caller, template, title=question or "Ask", here="ask", query=question, found=answered, quotes=quotes,
            note=note, empty=empty,
        )  # fmt: skip

    if not question:
        return await service.work(made)
    return await service.answer_apart(request, caller, service.kb.pipeline(), False, made)


def _answered(service: Service, caller: Caller, question: str) -> tuple[Answer | None, bool]:
    """Returns the answer, and whether there is nothing to search."""
    most = service.settings.max_query
    if len(question) > most:
        raise QueryError(f"The question has {len(question):,} characters; the limit is {most:,}.")
    try:
        return (answer(service.kb, question, caller.access()) if question else None), False
    except NothingIndexedError:
        return None, True


def _quote(sentence: Cited, answered: Answer) -> Quote:
    hits = [hit for hit in answered.result.hits if hit.rank in sentence.citations]
    return Quote(plain(sentence.text), [(hit, hit_path(hit, "", sentence.text)) for hit in hits])
