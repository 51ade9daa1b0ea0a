"""`/ask`: a page that answers a question with quotes, or says that nothing here does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from surefind.answer.answering import answer
from surefind.answer.values import Answer, Cited
from surefind.errors import NothingIndexedError, QueryError
from surefind.serve.auth.caller import Caller
from surefind.serve.http.answers import shown_to
from surefind.serve.http.service import Served, Service
from surefind.serve.web.page import document_path, is_fragment, page
from surefind.types import Hit

router = APIRouter(include_in_schema=False)
_MAX_LINK_CHARS = 500
"""Characters of a quote that a link carries, so that the document's page marks it."""


@dataclass(frozen=True)
class Quote:
    """A sentence of the answer, and where it is from."""

    text: str
    sources: list[tuple[Hit, str]]
    """The hits, each with the address that opens its document at the sentence."""


@router.get("/ask")
async def ask(request: Request, service: Served, q: Annotated[str, Query(max_length=10_000)] = "") -> Response:
    """The whole page, or the answer alone."""
    caller = await service.caller(request, "read")
    question = q.strip()
    found, empty = await service.work(lambda: _answered(service, caller, question))
    quotes = [_quote(one, found) for one in found.sentences] if found else []
    note = shown_to(caller, {"note": found.note})["note"] if found else ""
    return page(
        caller, "answer.html" if is_fragment(request) else "ask.html", title=question or "Ask", here="ask", q=question,
        found=found, quotes=quotes, note=note, empty=empty,
    )  # fmt: skip


def _answered(service: Service, caller: Caller, question: str) -> tuple[Answer | None, bool]:
    """Returns the answer, and whether there is nothing to search."""
    most = service.settings.max_query
    if len(question) > most:
        raise QueryError(f"The question has {len(question):,} characters; the limit is {most:,}.")
    try:
        return (answer(service.kb, question, caller.access()) if question else None), False
    except NothingIndexedError:
        return None, True


def _quote(one: Cited, found: Answer) -> Quote:
    hits = [hit for hit in found.result.hits if hit.rank in one.citations]
    marked = one.text[:_MAX_LINK_CHARS]
    return Quote(one.text, [(hit, document_path(hit.document, passage=hit.id, q=marked) + "#passage") for hit in hits])
