"""The client for programs with an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Literal, Self

from surefind.client import calls
from surefind.client.calls import Call, Found, Where
from surefind.types import Effort, Hit


class AsyncClient:
    """Asks a server. It keeps its connections open, and tasks may share it."""

    def __init__(self, url: str, key: str | None = None, timeout: float = 30.0) -> None:
        self._http = calls.httpx().AsyncClient(**calls.arguments(url, key, timeout))

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    async def search(
        self,
        query: str,
        k: int | None = None,
        *,
        pipeline: str | None = None,
        where: Where = (),
        text: str | None = None,
        max_chars: int | None = None,
        offset: int = 0,
        confidence: Effort | None = None,
        min_confidence: float | None = None,
    ) -> Found:
        """Finds passages. The parameters are those of `/v1/search`."""
        options: dict[str, Any] = {
            "k": k,
            "pipeline": pipeline,
            "where": list(where),
            "text": text,
            "max_chars": max_chars,
        }
        options |= {"confidence": confidence, "min_confidence": min_confidence}
        return calls.found_of(await self._send(calls.search(query, {**options, "offset": offset})))

    async def pages(self, query: str, k: int | None = None, **options: Any) -> AsyncIterator[Found]:
        """Yields the result of a search and what follows it, page by page, of one ranking."""
        page = await self.search(query, k, **options)
        yield page
        while page.next:
            page = calls.found_of(await self._send(Call("GET", page.next)))
            yield page

    async def ask(self, query: str, *, pipeline: str | None = None, quote: bool = False) -> dict[str, Any]:
        """Answers a question, with citations."""
        return dict(await self._send(calls.ask(query, {"pipeline": pipeline, "quote": quote})))

    async def passage(
        self, passage_id: str, *, text: str | None = None, max_chars: int | None = None, query: str | None = None
    ) -> Hit:
        """Reads the passage with the id of a hit."""
        return calls.hit_of(
            await self._send(calls.passage(passage_id, {"text": text, "max_chars": max_chars, "query": query}))
        )

    async def document(self, document: str) -> dict[str, Any]:
        """Reads a document."""
        return dict(await self._send(calls.document(document)))

    async def documents(self, below: str = "", offset: int = 0, limit: int = 100) -> dict[str, Any]:
        """Lists documents."""
        return dict(await self._send(calls.documents(below, offset, limit)))

    async def upload(self, name: str, content: bytes, document: str = "") -> dict[str, Any]:
        """Uploads a file as a draft."""
        return dict(await self._send(calls.upload(name, content, document)))

    async def versions(self, document: str) -> dict[str, Any]:
        """Lists the kept versions of a document, newest first; `retired` says whether it is retired."""
        return dict(await self._send(calls.versions(document)))

    async def retire(self, document: str) -> dict[str, Any]:
        """Starts the job that takes a document out of every search. Its text is kept."""
        return dict(await self._send(calls.retire(document)))

    async def restore(self, version: int) -> dict[str, Any]:
        """Makes a draft with the text of a kept version, such as the last one of a retired document."""
        return dict(await self._send(calls.restore(version)))

    async def drafts(self) -> dict[str, Any]:
        """Lists your drafts; for reviewers, all that they may read. `upload` and `restore` make one."""
        return dict(await self._send(calls.drafts()))

    async def draft(self, number: int, revision: int | None = None) -> dict[str, Any]:
        """Reads a draft: its text, its difference to the published version, its comments and what happened to it."""
        return dict(await self._send(calls.draft(number, revision)))

    async def save(self, number: int, revision: int, content: bytes, name: str = "") -> dict[str, Any]:
        """Saves a new revision of a draft. `revision` is the one that was edited: if there is a newer one, the server
        refuses with 409."""
        return dict(await self._send(calls.save(number, revision, content, name)))

    async def submit(self, number: int) -> dict[str, Any]:
        """Submits a draft for review."""
        return dict(await self._send(calls.act(number, "submit")))

    async def comment(
        self, number: int, revision: int, text: str, *, line: int = 0, reply_to: int | None = None
    ) -> dict[str, Any]:
        """Comments on a line of a revision; on the whole draft if the line is 0."""
        options = {"text": text, "line": line, "reply_to": reply_to}
        return dict(await self._send(calls.comment(number, revision, options)))

    async def resolve(self, number: int, comment: int) -> dict[str, Any]:
        """Marks a comment as resolved."""
        return dict(await self._send(calls.resolve(number, comment)))

    async def preview(self, number: int) -> dict[str, Any]:
        """Returns the chunks that a draft will have and, for reviewers, the exam questions that it gains or loses."""
        return dict(await self._send(calls.preview(number)))

    async def rebase(self, number: int) -> dict[str, Any]:
        """Puts the text of a draft on the version that is published now."""
        return dict(await self._send(calls.act(number, "rebase")))

    async def discard(self, number: int) -> dict[str, Any]:
        """Discards a draft: it cannot be published any more."""
        return dict(await self._send(calls.act(number, "discard")))

    async def approve(self, number: int, revision: int) -> dict[str, Any]:
        """Approves the revision of a draft that you read. Nobody can approve a draft that they wrote a part of."""
        return dict(await self._send(calls.act(number, "approve", revision)))

    async def hand_back(self, number: int) -> dict[str, Any]:
        """Hands a draft back to its author."""
        return dict(await self._send(calls.act(number, "return")))

    async def publish(self, number: int, revision: int | None = None) -> dict[str, Any]:
        """Starts the job that publishes a draft. If `revision` is not its newest one, the server refuses with 409."""
        return dict(await self._send(calls.act(number, "publish", revision)))

    async def feedback(self, query: str, passage_id: str, kind: Literal["up", "down", "click"]) -> None:
        """Says what somebody thought of a hit."""
        await self._send(calls.feedback(query, passage_id, kind))

    async def start(self, kind: Literal["sync", "bench", "study"], **options: Any) -> dict[str, Any]:
        """Starts a job."""
        return dict(await self._send(calls.start(kind, options)))

    async def job(self, job_id: str) -> dict[str, Any]:
        """Reads the state of a job."""
        return dict(await self._send(calls.job(job_id)))

    async def cancel(self, job_id: str) -> dict[str, Any]:
        """Stops a job."""
        return dict(await self._send(calls.job(job_id, cancel=True)))

    async def _send(self, call: Call) -> Any:
        attempt = 0
        while True:
            answer = await self._http.request(
                call.method, call.path, params=call.params, json=call.json, content=call.content, headers=call.headers
            )
            wait = calls.pause(answer, attempt)
            if wait is None:
                return calls.checked(answer)
            await asyncio.sleep(wait)
            attempt += 1
