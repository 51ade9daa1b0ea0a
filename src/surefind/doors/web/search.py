"""`/`: the search page. It shows how sure the answer is, why each passage was found, and two pipelines side by side.

`/ask`: a page that answers a question with quotes, or says that nothing here does.

The text of a passage as a page shows it: the best sentence and the words of the query are marked.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate, pairwise
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Query, Request
from pydantic import ValidationError
from starlette.background import BackgroundTask
from starlette.responses import Response

from surefind.base.access import Caller
from surefind.base.errors import NotBuiltError, NothingIndexedError, QueryError, SurefindError, UsageError
from surefind.base.text.markup import cut_out, markup_spans
from surefind.base.types import Effort, Hit, SearchResult, Turn
from surefind.doors.http.answers import TurnRequest, shown_to, turns_of
from surefind.doors.http.guard import same_origin
from surefind.doors.http.service import Served, Service
from surefind.doors.web.page import back_to, hit_path, is_fragment, local_path, page
from surefind.doors.words import pieces, sought, why
from surefind.engine.search.history import MOST_TURNS
from surefind.engine.search.hits import Extent, window
from surefind.engine.search.pipeline import Pipeline, waiting_text
from surefind.engine.search.reader import RequestedSearch
from surefind.engine.store.table import Facet
from surefind.kb.answer.answering import answer
from surefind.kb.answer.values import Answer, Cited
from surefind.lab.bench.drift import has_standing_exam, standing_exam
from surefind.lab.bench.plan import short
from surefind.lab.exam import keeping
from surefind.lab.exam import keeping as kept_feedback
from surefind.lab.exam.model import readable_questions
from surefind.lab.study.archive import saved_reports

_SYNTAX = re.compile(
    r"(?m)^[ \t]*#{1,6}[ \t]+|^[ \t]*\|[ :|-]+\|[ \t]*\n|^[ \t]*\|[ \t|]*+|^[ \t]*`{3}[^`\n]*\n?|\*{2,3}|`"
    r"|(?<=\n)[ \t]*\n|\A\s+"
    r"|(?<!\s)\s+\Z"
    r"|!?\[(?=[^\[\]\n]{1,200}\]\()|(?<=[^\s\[\]])\]\([^()\s]{0,500}(?:[ \t]\"[^\"\n]{0,200}\")?\)"
)
"""What a reader of Markdown does not want to see: marks of headings, code and bold type, the first marks of a table's
rows (the others stay between its cells), the targets of links, empty lines."""
_ITALIC = re.compile(
    r"(?<![\w*\\])\*(?=[^\s*])[^*\n]{1,200}(?<!\s)\*(?![\w*])|(?<![\w\\])_(?=[^\s_])[^_\n]{1,200}(?<!\s)_(?!\w)"
)
"""Words in italics, with the mark before and the mark after them. A mark alone stays: it is a footnote or a product."""
_SNIPPET_CHARS = 340
"""Characters of a passage that a hit shows: about four lines."""


@dataclass(frozen=True)
class TextSpan:
    """A stretch of a hit's text."""

    text: str
    word: bool
    """Whether it is a word of the query."""
    sentence: bool
    """Whether it belongs to the best sentence."""


def parts_of(hit: Hit, words: frozenset[str], most: int = _SNIPPET_CHARS) -> list[TextSpan]:
    """Cuts the text of a hit to `most` characters, and then where its best sentence or a word of the query begins or
    ends."""
    first, last = hit.sentence or (hit.start, hit.start)
    whole, (start, end) = _without_syntax(hit.text, (first - hit.start, last - hit.start))
    at, until = window(whole, start, end, most)
    text, start, end = whole[at:until], max(0, start - at), max(0, min(end, until) - at)
    emphasised = sorted((a, b) for a, b, key in pieces(text, True) if key in words)
    cuts = sorted({0, start, end, len(text), *(at for span in emphasised for at in span)})
    rest = iter(emphasised)
    inside, parts = next(rest, None), [TextSpan("…\u00a0", False, False)] if at else []
    for a, b in pairwise(cuts):
        while inside and inside[1] <= a:
            inside = next(rest, None)
        parts.append(TextSpan(text[a:b], bool(inside and inside[0] <= a), start <= a < end))
    return [*parts, TextSpan("\u00a0…", False, False)] if until < len(whole) else parts


def _without_syntax(text: str, places: tuple[int, ...]) -> tuple[str, list[int]]:
    """Returns the text without markup and the syntax of Markdown, and where these places are in it."""
    removed: list[tuple[int, int]] = []
    syntax = (match.span() for match in _SYNTAX.finditer(text))
    italics = (span for match in _ITALIC.finditer(text) for span in _first_and_last(match.span()))
    for start, end in sorted((*markup_spans(text), *syntax, *italics)):
        begin = max(start, removed[-1][1]) if removed else start
        if begin < end:
            removed.append((begin, end))
    starts = [start for start, _ in removed]
    lost = list(accumulate((end - start for start, end in removed), initial=0))

    def moved(place: int) -> int:
        at = min(max(place, 0), len(text))
        before = bisect_right(starts, at)
        inside = max(0, removed[before - 1][1] - at) if before else 0  # the place is within something removed
        return at - lost[before] + inside

    return cut_out(text, removed), [moved(place) for place in places]


def _first_and_last(span: tuple[int, int]) -> tuple[tuple[int, int], tuple[int, int]]:
    start, end = span
    return (start, start + 1), (end - 1, end)


router = APIRouter(include_in_schema=False)
_HIT_EXTENT = Extent.parse("parent", 700)
"""How much of a passage a hit shows: around its best sentence."""
_MAX_FILTERS = 20
_K = 10
_EXAMPLES, _EXAMPLE_CHARS = 5, 90
"""How many examples an empty page shows, and how long each is at most."""
T = TypeVar("T")


@dataclass(frozen=True)
class ResultColumn:
    """What one pipeline found."""

    pipeline: str
    result: SearchResult
    parts: Mapping[str, list[TextSpan]]
    """The text of each hit, by its id."""
    why: Mapping[str, str]
    """Why each hit was found, in words, by its id."""
    elsewhere: Mapping[str, int]
    """The rank of a hit in the other column, by its id; empty if there is one column."""
    ms: float
    trace: Sequence[Mapping[str, Any]]
    """The stages, as the visitor may see them."""
    later: str = ""
    """The address that says how sure the search is, once its first hits have been read; empty if it is known."""


@dataclass(frozen=True)
class FilterChoice:
    """A value to filter by."""

    value: str
    documents: int
    chosen: bool
    address: str


@dataclass(frozen=True)
class FacetView:
    key: str
    choices: list[FilterChoice]


@dataclass(frozen=True)
class SearchForm:
    """What the address of the page asks for."""

    query: str
    where: tuple[str, ...]
    pipeline: str
    compare: str

    def address(self, path: str = "/", **other: object) -> str:
        """Returns the address of this search with something else in it."""
        given = {"query": self.query, "where": self.where, "pipeline": self.pipeline, "compare": self.compare, **other}
        return f"{path}?" + urlencode(
            {name: value for name, value in given.items() if value}, doseq=True, errors="replace"
        )


@router.get("/")
async def search(
    request: Request,
    service: Served,
    query: str = "",
    where: Annotated[list[str] | None, Query(max_length=_MAX_FILTERS)] = None,
    pipeline: Annotated[str, Query(max_length=500)] = "",
    compare: Annotated[str, Query(max_length=500)] = "",
) -> Response:
    """The whole page, or what was found, if somebody is typing."""
    caller = await service.caller(request, "read")
    asked = SearchForm(query.strip(), tuple(dict.fromkeys(where or ())), pipeline, compare)
    began = time.perf_counter()
    columns, empty = await _apart(service, request, caller, asked, "quick", lambda: _found(service, caller, asked))
    begins, template = not asked.query and not empty, "hits_part.html" if is_fragment(request) else "search.html"

    def made() -> Response:
        return page(
            caller, template, title=asked.query or "Search", here="search", asked=asked,
            facets=_facets(service, caller, asked), columns=columns, pipelines=service.pipelines(),
            default=service.kb.settings.pipeline, empty=empty, examples=_examples(service, caller) if begins else [],
            waiting=begins and _waiting(service, caller), unmeasured=begins and _unmeasured(service, caller),
        )  # fmt: skip

    shown = await service.work(made)
    shown.headers["Server-Timing"] = f"search;dur={(time.perf_counter() - began) * 1000:.1f}"
    typing = request.headers.get("hx-request") == "true"  # or going back: neither asks a question
    if columns and service.kb.settings.keep_queries and not typing and same_origin(request.headers):
        shown.background = BackgroundTask(service.kb.queries.keep, columns[0].result, caller.access(asked.where))
    return shown


@router.get("/sure")
async def sure(
    request: Request,
    service: Served,
    query: str,
    where: Annotated[list[str] | None, Query(max_length=_MAX_FILTERS)] = None,
    pipeline: Annotated[str, Query(max_length=500)] = "",
) -> Response:
    """How sure a search is, after its first hits have been read."""
    caller = await service.caller(request, "read")
    asked = SearchForm(query.strip(), tuple(dict.fromkeys(where or ())), pipeline, "")

    def read() -> Response:
        columns = _columns(service, caller, asked, read=True)
        return page(caller, "sure_part.html", title="", here="search", column=columns[0])

    return await _apart(service, request, caller, asked, "read", read)


async def _apart(
    service: Service, request: Request, caller: Caller, asked: SearchForm, effort: Effort, do: Callable[[], T]
) -> T:
    """Searches where the slower one of the two pipelines has its place."""
    if not asked.query:
        return await service.work(do)
    names = [asked.pipeline or None, *([asked.compare] if asked.compare else [])]
    if service.kb.settings.min_confidence:
        effort = service.kb.settings.effort(person=True)
    slowest = max((service.pipeline(name, caller) for name in names), key=service.slowness)
    return await service.search_apart(request, caller, slowest, effort, do)


def _found(service: Service, caller: Caller, asked: SearchForm) -> tuple[list[ResultColumn], bool]:
    """Returns what was found, and whether there is nothing to search."""
    if not asked.query:
        return [], _empty(service, caller)
    try:
        return _columns(service, caller, asked), False
    except NothingIndexedError:
        return [], True


def _columns(service: Service, caller: Caller, asked: SearchForm, read: bool = False) -> list[ResultColumn]:
    """Returns what each pipeline found. Hits are shown at once; without `read`, how sure the search is comes later."""
    most = service.settings.max_query
    if len(asked.query) > most:
        raise QueryError(f"The query has {len(asked.query):,} characters; the limit is {most:,}.")
    first = service.pipeline(asked.pipeline or None, caller)
    second = service.pipeline(asked.compare, caller) if asked.compare else None
    reader, access, words = service.reader(), caller.access(asked.where), sought(asked.query)
    k = min(_K, service.settings.max_k)
    searched: list[tuple[Pipeline, SearchResult, float]] = []
    effort, least = service.kb.settings.effort(person=True), service.kb.settings.min_confidence
    later = effort == "read" and not least and not read
    for pipeline in (first, second) if second else (first,):
        began = time.perf_counter()
        sure = "quick" if later else effort
        wanted = RequestedSearch(asked.query, access, pipeline, k, 0, _HIT_EXTENT, least, sure)
        result = service.search(reader, wanted).result
        searched.append((pipeline, result, (time.perf_counter() - began) * 1000))
    ranks = [{hit.id: hit.rank for hit in result.hits} for _, result, _ in searched]
    others = list(reversed(ranks)) if second else [{}]
    return [
        ResultColumn(
            pipeline.name or short(pipeline),
            result,
            {hit.id: parts_of(hit, words) for hit in result.hits},
            {hit.id: why(hit, pipeline) for hit in result.hits},
            other,
            ms,
            shown_to(caller, {"trace": [asdict(entry) for entry in result.trace]})["trace"],
            asked.address("/sure", pipeline=name, compare="") if later else "",
        )
        for (pipeline, result, ms), other, name in zip(searched, others, (asked.pipeline, asked.compare), strict=False)
    ]


def _facets(service: Service, caller: Caller, asked: SearchForm) -> list[FacetView]:
    """Returns the metadata to filter by. The link of a chosen value takes the filter away."""
    try:
        facets = service.reader().facets(caller.access(asked.where), service.kb.settings.filters)
    except NothingIndexedError:
        return []
    return [FacetView(facet.key, _choices(facet, asked)) for facet in facets]


def _choices(facet: Facet, asked: SearchForm) -> list[FilterChoice]:
    """Returns the values of a facet. Several chosen values of one key mean either of them."""
    mine = [given for given in asked.where if given.startswith(f"{facet.key}=")]
    rest = tuple(given for given in asked.where if given not in mine)
    chosen = [value for given in mine for value in given.partition("=")[2].lower().split(",")]
    choices = []
    for value, number in facet.values:
        is_chosen = value.lower() in chosen
        wanted = [kept_value for kept_value in chosen if kept_value != value.lower()] if is_chosen else [*chosen, value]
        where = (*rest, f"{facet.key}={','.join(wanted)}") if wanted else rest
        choices.append(FilterChoice(value, number, is_chosen, asked.address(where=where)))
    return choices


def _examples(service: Service, caller: Caller) -> list[str]:
    """Returns things to search for: questions of the standing exam, for those who may see it, or titles."""
    reader, access = service.reader(), caller.access()
    texts: list[str] = []
    if caller.may("review") and has_standing_exam(service.kb):
        with contextlib.suppress(SurefindError):  # the settings name an exam that is gone
            asked = readable_questions(standing_exam(service.kb, reader), reader, access)
            texts = [question.text for question in asked if "?" in question.text] or [
                question.text for question in asked
            ]
    if not texts:
        documents = _spread(reader.view.readable(access))
        texts = [title for title in reader.titles(documents).values() if title]
    return _spread([text for text in dict.fromkeys(texts) if len(text) <= _EXAMPLE_CHARS])


def _waiting(service: Service, caller: Caller) -> str:
    """Says what searches still wait for."""
    try:
        return waiting_text(service.reader().ready(service.kb.pipeline(), caller.access())[1])
    except NotBuiltError as error:
        return str(error)


def _unmeasured(service: Service, caller: Caller) -> bool:
    """Whether the visitor may run a benchmark and there is no report yet that they may see."""
    return caller.may("review") and not saved_reports(service.kb.data, caller.groups)


def _spread(rows: Sequence[T]) -> list[T]:
    """Returns a few rows, evenly spread over all of them."""
    return list(rows[:: max(1, len(rows) // _EXAMPLES)][:_EXAMPLES])


def _empty(service: Service, caller: Caller) -> bool:
    """Whether there is no document that the visitor may read."""
    try:
        return not service.reader().listed(caller.access(), "", 0, 1)
    except NothingIndexedError:
        return True


@router.post("/feedback")
async def feedback(
    request: Request,
    service: Served,
    query: Annotated[str, Form(min_length=1, max_length=2_000)],
    passage_id: Annotated[str, Form(alias="id", max_length=64)],
    kind: Annotated[Literal["up", "down", "click"], Form()],
    then: Annotated[str, Form(alias="next")] = "/",
) -> Response:
    """Keeps a thumb. `surefind exam feedback` makes an exam of them."""
    caller = await service.caller(request, "write")
    if not query.strip():
        raise UsageError("Feedback needs the question.")

    def keep() -> None:
        hit = service.reader().passage(passage_id, caller.access(), Extent(around=0))
        kept_feedback.add(service.kb.data, query, hit.document, hit.start, hit.end, kind, caller.name)

    await service.work(keep)
    if is_fragment(request):
        return await service.work(lambda: page(caller, "thanks.html", title="", here="", kind=kind))
    return back_to(request, local_path(then))


@router.post("/keep")
async def keep(
    request: Request,
    service: Served,
    query: Annotated[str, Form(min_length=1, max_length=2_000)],
    passage_id: Annotated[str, Form(alias="id", max_length=64)],
    then: Annotated[str, Form(alias="next")] = "/",
) -> Response:
    """Keeps the question and this passage, its answer, in an exam."""
    caller = await service.caller(request, "review")
    kept = await service.write(lambda: keeping.keep(service.kb, query, passage_id, caller.access()))
    if is_fragment(request):
        return await service.work(lambda: page(caller, "kept.html", title="", here="", kept=kept))
    return back_to(request, local_path(then))


@dataclass(frozen=True)
class ShownQuote:
    """A quote or a sentence of the answer, and where it is from."""

    before: str
    marked: str
    """What answers best."""
    after: str
    sources: list[tuple[int, Hit, str]]
    """The hits with their numbers, each with the address that opens its document at what is marked."""


_TURNS = 5
"""Questions that the page remembers. They are part of its address: the server keeps none of them."""


@router.get("/ask")
async def ask(
    request: Request,
    service: Served,
    query: Annotated[str, Query(max_length=10_000)] = "",
    before: Annotated[list[Annotated[str, Query(max_length=10_000)]] | None, Query(max_length=MOST_TURNS)] = None,
) -> Response:
    """The whole page, or the answer alone. `before` are the questions of the conversation, each as JSON with the
    documents that answered it."""
    caller = await service.caller(request, "read")
    question = query.strip()
    history = [turn for text in before or () if (turn := _turn(text))][-_TURNS:]
    template = "answer.html" if is_fragment(request) else "ask.html"

    def made() -> Response:
        answered, empty = _answered(service, caller, question, history)
        said = [(sentence.quoted, _quote(sentence, answered)) for sentence in answered.sentences] if answered else []
        quotes, written = ([shown for is_quote, shown in said if is_quote is wanted] for wanted in (True, False))
        sources = list({source[0]: source for shown in written for source in shown.sources}.values())
        note = shown_to(caller, {"note": answered.note})["note"] if answered else ""
        return page(
            caller, template, title=question or "Ask", here="ask", query=question, found=answered, quotes=quotes,
            written=written, sources=sources, note=note, empty=empty, history=history,
            conversation=_conversation(history, answered),
        )  # fmt: skip

    if not question:
        return await service.work(made)
    return await service.answer_apart(request, caller, service.kb.pipeline(), False, made)


def _turn(text: str) -> Turn | None:
    """Reads a question that was asked before; None if somebody has written the address by hand."""
    try:
        return turns_of([TurnRequest.model_validate_json(text)])[0]
    except ValidationError:
        return None


def _conversation(history: Sequence[Turn], answered: Answer | None) -> list[str]:
    """The questions so far, as the next request sends them."""
    turns = [*history]
    if answered is not None:
        turns.append(Turn(answered.query, tuple(dict.fromkeys(hit.document for hit in answered.cited))))
    return [json.dumps(asdict(turn), ensure_ascii=False) for turn in turns[-_TURNS:]]


def _answered(service: Service, caller: Caller, question: str, history: Sequence[Turn]) -> tuple[Answer | None, bool]:
    """Returns the answer, and whether there is nothing to search."""
    most = service.settings.max_query
    if len(question) > most:
        raise QueryError(f"The question has {len(question):,} characters; the limit is {most:,}.")
    try:
        return (answer(service.kb, question, caller.access(), history=history) if question else None), False
    except NothingIndexedError:
        return None, True


def _quote(sentence: Cited, answered: Answer) -> ShownQuote:
    start, end = sentence.mark or (0, 0)
    best = sentence.text[start:end] or sentence.text
    hits = [(number, answered.cited[number - 1]) for number in sentence.citations]
    return ShownQuote(
        sentence.text[:start], sentence.text[start:end], sentence.text[end:],
        [(number, hit, hit_path(hit, "", best)) for number, hit in hits],
    )  # fmt: skip
