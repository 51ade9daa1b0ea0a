"""Clients of `surefind serve`, for programs without the knowledge base on their disk.

    with Client("http://127.0.0.1:8080", key="sf_…") as surefind:
        for hit in surefind.search("When is the wire cutoff?").hits:
            print(hit.document, hit.lines, hit.text)

`AsyncClient` has the same methods, to be awaited: both come from one table of requests. Errors of the server are
`RefusedError`, with its sentence.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import wraps
from types import TracebackType
from typing import Any, Generic, Literal, ParamSpec, Self, TypeVar, overload
from urllib.parse import quote

from surefind.base.errors import MissingPartError, RefusedError
from surefind.base.types import Effort, Hit, SearchResult, StageScore, TraceEntry, Turn

__all__ = ["AsyncClient", "Client"]

_TRIES = 3
"""Attempts at a request that the server refused because it is busy."""
_BUSY = (429, 503)
T = TypeVar("T")
P = ParamSpec("P")
Row = dict[str, Any]


@dataclass(frozen=True)
class Found(SearchResult):
    """The result of a search over HTTP."""

    next: str | None = None
    """The address of the next hits, of the same ranking; None after the last ones."""


@dataclass(frozen=True)
class ServerRequest(Generic[T]):
    """One request, and how its answer is read."""

    read: Callable[[Any], T]
    method: str
    path: str
    params: Mapping[str, Any] | None = None
    json: Mapping[str, Any] | None = None
    content: bytes | None = None
    headers: Mapping[str, str] | None = None

    def sent(self) -> dict[str, Any]:
        """The arguments of an httpx request."""
        names = ("method", "params", "json", "content", "headers")
        return {"url": self.path, **{name: getattr(self, name) for name in names}}


# ---------------------------------------------------------------- the requests


def search(
    query: str,
    k: int | None = None,
    *,
    pipeline: str | None = None,
    where: Sequence[str] = (),
    text: str | None = None,
    max_chars: int | None = None,
    offset: int = 0,
    confidence: Effort | None = None,
    min_confidence: float | None = None,
    history: Sequence[Turn] = (),
) -> ServerRequest[Found]:
    """Finds passages. The parameters are those of `/v1/search`."""
    given = _given(
        k=k, pipeline=pipeline, where=list(where), text=text, max_chars=max_chars, offset=offset,
        confidence=confidence, min_confidence=min_confidence, history=list(map(asdict, history)) or None,
    )  # fmt: skip
    return ServerRequest(_found, "POST", "/v1/search", json={"query": query, **given})


def ask(
    query: str, *, pipeline: str | None = None, quote: bool = False, history: Sequence[Turn] = ()
) -> ServerRequest[Row]:
    """Answers a question, with citations."""
    given = _given(pipeline=pipeline, quote=quote, history=list(map(asdict, history)) or None)
    return ServerRequest(dict, "POST", "/v1/ask", json={"query": query, **given})


def passage(
    passage_id: str, *, text: str | None = None, max_chars: int | None = None, query: str | None = None
) -> ServerRequest[Hit]:
    """Reads the passage with the id of a hit."""
    given = _given(text=text, max_chars=max_chars, query=query)
    return ServerRequest(_hit, "GET", f"/v1/passages/{quote(passage_id, safe='')}", given)


def document(document: str) -> ServerRequest[Row]:
    """Reads a document."""
    return ServerRequest(dict, "GET", f"/v1/documents/{quote(document)}")


def documents(below: str = "", offset: int = 0, limit: int = 100) -> ServerRequest[Row]:
    """Lists documents."""
    return ServerRequest(dict, "GET", "/v1/documents", {"below": below, "offset": offset, "limit": limit})


def upload(name: str, content: bytes, document: str = "") -> ServerRequest[Row]:
    """Uploads a file as a draft."""
    return ServerRequest(dict, "POST", "/v1/documents", {"name": name, "document": document}, content=content)


def versions(document: str) -> ServerRequest[Row]:
    """Lists the kept versions of a document, newest first; `retired` says whether it is retired."""
    return ServerRequest(dict, "GET", "/v1/versions", {"document": document})


def retire(document: str) -> ServerRequest[Row]:
    """Starts the job that takes a document out of every search. Its text is kept."""
    return ServerRequest(dict, "POST", f"/v1/documents/{quote(document)}/retire")


def restore(version: int) -> ServerRequest[Row]:
    """Makes a draft with the text of a kept version, such as the last one of a retired document."""
    return ServerRequest(dict, "POST", f"/v1/versions/{version}/restore")


def drafts() -> ServerRequest[Row]:
    """Lists your drafts; for reviewers, all that they may read. `upload` and `restore` make one."""
    return ServerRequest(dict, "GET", "/v1/drafts")


def draft(number: int, revision: int | None = None) -> ServerRequest[Row]:
    """Reads a draft: its text, its difference to the published version, its comments and what happened to it."""
    return ServerRequest(dict, "GET", f"/v1/drafts/{number}", _given(revision=revision))


def save(number: int, revision: int, content: bytes, name: str = "") -> ServerRequest[Row]:
    """Saves a new revision of a draft. `revision` is the one that was edited: if there is a newer one, the server
    refuses with 409."""
    edited = {"If-Match": str(revision)}
    return ServerRequest(dict, "PUT", f"/v1/drafts/{number}", {"name": name}, content=content, headers=edited)


def submit(number: int) -> ServerRequest[Row]:
    """Submits a draft for review."""
    return _done(number, "submit")


def comment(number: int, revision: int, text: str, *, line: int = 0, reply_to: int | None = None) -> ServerRequest[Row]:
    """Comments on a line of a revision; on the whole draft if the line is 0."""
    given = _given(revision=revision, text=text, line=line, reply_to=reply_to)
    return ServerRequest(dict, "POST", f"/v1/drafts/{number}/comments", json=given)


def resolve(number: int, comment: int) -> ServerRequest[Row]:
    """Marks a comment as resolved."""
    return ServerRequest(dict, "POST", f"/v1/drafts/{number}/comments/{comment}/resolve")


def preview(number: int) -> ServerRequest[Row]:
    """Returns the chunks that a draft will have and, for reviewers, the exam questions that it gains or loses."""
    return ServerRequest(dict, "GET", f"/v1/drafts/{number}/preview")


def rebase(number: int) -> ServerRequest[Row]:
    """Puts the text of a draft on the version that is published now."""
    return _done(number, "rebase")


def discard(number: int) -> ServerRequest[Row]:
    """Discards a draft: it cannot be published any more."""
    return _done(number, "discard")


def approve(number: int, revision: int) -> ServerRequest[Row]:
    """Approves the revision of a draft that you read. Nobody can approve a draft that they wrote a part of."""
    return _done(number, "approve", revision)


def hand_back(number: int) -> ServerRequest[Row]:
    """Hands a draft back to its author."""
    return _done(number, "return")


def publish(number: int, revision: int | None = None) -> ServerRequest[Row]:
    """Starts the job that publishes a draft. If `revision` is not its newest one, the server refuses with 409."""
    return _done(number, "publish", revision)


def feedback(query: str, passage_id: str, kind: Literal["up", "down", "click"]) -> ServerRequest[None]:
    """Says what somebody thought of a hit."""
    return ServerRequest(_nothing, "POST", "/v1/feedback", json={"query": query, "id": passage_id, "kind": kind})


def start(kind: Literal["sync", "bench", "study"], **options: Any) -> ServerRequest[Row]:
    """Starts a job."""
    return ServerRequest(dict, "POST", "/v1/jobs", json={"kind": kind, **_given(**options)})


def job(job_id: str) -> ServerRequest[Row]:
    """Reads the state of a job."""
    return ServerRequest(dict, "GET", f"/v1/jobs/{quote(job_id, safe='')}")


def cancel(job_id: str) -> ServerRequest[Row]:
    """Stops a job."""
    return ServerRequest(dict, "DELETE", f"/v1/jobs/{quote(job_id, safe='')}")


def _done(number: int, action: str, revision: int | None = None) -> ServerRequest[Row]:
    about = None if revision is None else {"revision": revision}
    return ServerRequest(dict, "POST", f"/v1/drafts/{number}/{action}", json=about)


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


# ---------------------------------------------------------------- the answers


def _nothing(data: object) -> None:
    return None


def _found(data: Mapping[str, Any]) -> Found:
    """Reads the JSON of a search. Fields that a newer server adds are left out."""
    known = {field.name for field in fields(Found)}
    rest = {name: value for name, value in data.items() if name in known - {"hits", "trace", "closest"}}
    trace = tuple(TraceEntry(**_known(TraceEntry, entry)) for entry in data["trace"])
    return Found(hits=tuple(map(_hit, data["hits"])), trace=trace, **rest)


def _hit(data: Mapping[str, Any]) -> Hit:
    given = _known(Hit, data)
    for name in ("matched", "sentence", "lines"):
        given[name] = tuple(given[name]) if given.get(name) else None
    given["headings"] = tuple(given["headings"])
    given["stages"] = {name: StageScore(**place) for name, place in given["stages"].items()}
    return Hit(**given)


def _known(kind: type, data: Mapping[str, Any]) -> dict[str, Any]:
    names = {field.name for field in fields(kind)}
    return {name: value for name, value in data.items() if name in names}


def _checked(answer: Any) -> Any:
    """Returns the JSON of an answer. Raises `RefusedError` with the server's sentence."""
    if answer.status_code < 400:
        return answer.json()
    try:
        detail = str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        detail = f"The server answered {answer.status_code}."
    raise RefusedError(detail, answer.status_code)


def _pause(answer: Any, attempt: int) -> float | None:
    """Returns how many seconds to wait before the next attempt; None if there is to be none."""
    if answer.status_code not in _BUSY or attempt + 1 >= _TRIES:
        return None
    given = answer.headers.get("retry-after", "")
    return min(10.0, float(given)) if given.isdigit() else 0.5 * 2**attempt


# ---------------------------------------------------------------- the clients


class _Method(Generic[P, T]):
    """A method of both clients: it makes a request, sends it and reads the answer."""

    def __init__(self, make: Callable[P, ServerRequest[T]]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, client: Client, owner: object = None) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: object = None) -> Callable[P, Awaitable[T]]: ...
    @overload
    def __get__(self, client: None, owner: object = None) -> Self: ...
    def __get__(self, client: Any, owner: object = None) -> Any:
        if client is None:
            return self

        @wraps(self._make)
        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client._send(self._make(*args, **kwargs))

        return call


class _Requests:
    """What can be asked of a server."""

    search = _Method(search)
    ask = _Method(ask)
    passage = _Method(passage)
    document = _Method(document)
    documents = _Method(documents)
    upload = _Method(upload)
    versions = _Method(versions)
    retire = _Method(retire)
    restore = _Method(restore)
    drafts = _Method(drafts)
    draft = _Method(draft)
    save = _Method(save)
    submit = _Method(submit)
    comment = _Method(comment)
    resolve = _Method(resolve)
    preview = _Method(preview)
    rebase = _Method(rebase)
    discard = _Method(discard)
    approve = _Method(approve)
    hand_back = _Method(hand_back)
    publish = _Method(publish)
    feedback = _Method(feedback)
    start = _Method(start)
    job = _Method(job)
    cancel = _Method(cancel)


class Client(_Requests):
    """Asks a server. It keeps its connections open, and threads may share it."""

    def __init__(self, url: str, key: str | None = None, timeout: float = 30.0) -> None:
        self._http = _httpx().Client(**_arguments(url, key, timeout))

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def pages(self, query: str, k: int | None = None, **options: Any) -> Iterator[Found]:
        """Yields the result of a search and what follows it, page by page, of one ranking."""
        page = self.search(query, k, **options)
        yield page
        while page.next:
            page = self._send(ServerRequest(_found, "GET", page.next))
            yield page

    def _send(self, request: ServerRequest[T]) -> T:
        attempt = 0
        while True:
            answer = self._http.request(**request.sent())
            wait = _pause(answer, attempt)
            if wait is None:
                return request.read(_checked(answer))
            time.sleep(wait)
            attempt += 1


class AsyncClient(_Requests):
    """Asks a server, for programs with an event loop. It keeps its connections open, and tasks may share it."""

    def __init__(self, url: str, key: str | None = None, timeout: float = 30.0) -> None:
        self._http = _httpx().AsyncClient(**_arguments(url, key, timeout))

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    async def pages(self, query: str, k: int | None = None, **options: Any) -> AsyncIterator[Found]:
        """Yields the result of a search and what follows it, page by page, of one ranking."""
        page = await self.search(query, k, **options)
        yield page
        while page.next:
            page = await self._send(ServerRequest(_found, "GET", page.next))
            yield page

    async def _send(self, request: ServerRequest[T]) -> T:
        attempt = 0
        while True:
            answer = await self._http.request(**request.sent())
            wait = _pause(answer, attempt)
            if wait is None:
                return request.read(_checked(answer))
            await asyncio.sleep(wait)
            attempt += 1


def _arguments(url: str, key: str | None, timeout: float) -> dict[str, Any]:
    """Returns the arguments of an httpx client. A key that is not given is read from $SUREFIND_KEY."""
    chosen = os.environ.get("SUREFIND_KEY", "") if key is None else key
    headers = {"Authorization": f"Bearer {chosen}"} if chosen else {}
    return {"base_url": url, "headers": headers, "timeout": timeout, "follow_redirects": False}


def _httpx() -> Any:
    try:
        import httpx
    except ModuleNotFoundError:
        raise MissingPartError("The client needs httpx. Install it with: pip install 'surefind[client]'.") from None
    return httpx
