"""What happens to every request: time, queue and size limits, and failures that must not show their inside."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response

from cases import each
from surefind.base.access import Caller
from surefind.base.errors import StoreError
from surefind.doors.http.guard import Guard
from surefind.doors.http.metrics import Metrics
from surefind.doors.http.turns import give_back_soon
from surefind.doors.web.page import as_page
from surefind.kb.settings.serve import ServeSettings


async def _anyone(request: Request, scope: str) -> Caller:
    return Caller(request.headers.get("authorization", "anyone"), frozenset({"read", "write"}), frozenset())


def _name(request: Request) -> str:
    return request.headers.get("authorization", "anyone")


async def _page(*about: Any) -> Response:
    return as_page(*about)


def _guard(app: object, **settings: object) -> Guard:
    chosen = ServeSettings(**settings)  # type: ignore[arg-type]
    return Guard(app, chosen, {"localhost"}, 1000, Metrics(), _page, 60, _anyone, _name)  # type: ignore[arg-type]


def _guarded(app: object, **settings: object) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(_guard(app, **settings)), base_url="http://localhost")


async def _slow(scope: object, receive: object, send: object) -> None:
    await asyncio.sleep(0.3)
    await _done(send)


async def _done(send: object) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})  # type: ignore[operator]
    await send({"type": "http.response.body", "body": b"done"})  # type: ignore[operator]


async def _failing(scope: object, receive: object, send: object) -> None:
    raise RuntimeError("the password is hunter2")


async def _broken_store(scope: object, receive: object, send: object) -> None:
    raise StoreError("/home/ada/secret/catalogue.db is damaged")


def test_a_request_that_takes_too_long_is_ended() -> None:
    async def go() -> httpx.Response:
        async with _guarded(_slow, timeout=0.05) as client:
            return await client.get("/v1/search")

    assert asyncio.run(go()).status_code == 504


def test_requests_beyond_the_queue_are_told_to_come_again() -> None:
    async def go() -> list[httpx.Response]:
        async with _guarded(_slow, queue=3) as client:
            return await asyncio.gather(*(client.get("/v1/search") for _ in range(8)))

    answers = asyncio.run(go())
    assert sorted({answer.status_code for answer in answers}) == [200, 503]
    assert all(answer.headers.get("retry-after") for answer in answers if answer.status_code == 503)


@each("path", ["/v1/jobs/1/events", "/v1/ask", "/mcp"])
def test_streams_are_bounded_apart_from_other_requests(path: str) -> None:
    """Neither the streams of a caller nor those of all callers keep others from being answered."""

    async def go() -> tuple[list[int], list[int], int]:
        over = asyncio.Event()

        async def app(scope: dict[str, str], receive: object, send: object) -> None:
            if scope["path"] == path:
                await over.wait()
            await _done(send)

        async with _guarded(app, queue=20, streams_per_caller=3, streams=4, concurrency=10) as client:
            opened = [asyncio.create_task(client.get(path, headers={"Authorization": who})) for who in "aaaaabbb"]
            await asyncio.sleep(0)
            while sum(one.done() for one in opened) < 4:
                await asyncio.sleep(0.01)
            others = [(await client.get(other)).status_code for other in ("/healthz", "/v1/search", "/")]
            over.set()
            statuses = [(await one).status_code for one in opened]
            return statuses, others, (await client.get(path, headers={"Authorization": "a"})).status_code

    statuses, others, later = asyncio.run(go())
    assert statuses == [200, 200, 200, 429, 429, 200, 429, 429]
    assert others == [200, 200, 200] and later == 200


def test_health_answers_when_no_other_request_does() -> None:
    async def go() -> list[int]:
        async with _guarded(_slow, queue=1) as client:
            full = [asyncio.create_task(client.get("/v1/search")) for _ in range(3)]
            await asyncio.sleep(0.05)
            found = [(await client.get(path)).status_code for path in ("/healthz", "/v1/search")]
            await asyncio.gather(*full)
            return found

    assert asyncio.run(go())[0] == 200


@pytest.mark.parametrize(("app", "inside"), [(_failing, "hunter2"), (_broken_store, "/home/ada")])
def test_a_failure_shows_only_a_request_id(app: object, inside: str, caplog: pytest.LogCaptureFixture) -> None:
    async def go() -> httpx.Response:
        async with _guarded(app) as client:
            return await client.get("/v1/search", headers={"X-Request-Id": "r1"})

    with caplog.at_level(logging.ERROR):
        answer = asyncio.run(go())
    assert answer.status_code == 500 and inside not in answer.text and "Traceback" not in answer.text
    assert answer.json()["request_id"] == "r1" and "r1" in caplog.text, "the log says why"


class _Held:
    """An application whose requests last until they are let go, and which knows those that have begun."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.bodies: list[bytes] = []
        self.go_on = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: object) -> None:
        request = Request(scope, receive)
        self.begun.append(f"{_name(request)} {request.url.path}")
        self.bodies.append(await request.body())
        if request.url.path == "/v1/ask":
            give_back_soon(request)
        await self.go_on.wait()
        await _done(send)


async def _until(true: Any) -> None:
    async with asyncio.timeout(20):
        while not true():
            await asyncio.sleep(0.005)


def _send(client: httpx.AsyncClient, who: str, path: str, body: bytes = b"") -> asyncio.Task[httpx.Response]:
    headers = {"Authorization": who}
    return asyncio.create_task(client.request("POST" if body else "GET", path, content=body, headers=headers))


def test_nobody_has_all_places_in_the_event_loop() -> None:
    """Requests beyond a caller's share wait; other callers, searches and health checks begin meanwhile."""

    async def go() -> tuple[list[str], list[int]]:
        app = _Held()
        async with _guarded(app, concurrency=4) as client:
            sent = [_send(client, "mallory", "/documents") for _ in range(30)]
            await _until(lambda: len(app.begun) >= 2)
            sent += [_send(client, "mallory", "/v1/search"), _send(client, "mallory", "/healthz")]
            sent += [_send(client, "ada", "/documents"), _send(client, "ada", "/v1/search")]
            await _until(lambda: len(app.begun) >= 6)
            await asyncio.sleep(0.05)
            begun = sorted(app.begun)
            app.go_on.set()
            return begun, [(await one).status_code for one in sent]

    begun, statuses = asyncio.run(go())
    pages = ["ada /documents", "ada /v1/search", "mallory /documents", "mallory /documents"]
    assert begun == [*pages, "mallory /healthz", "mallory /v1/search"]
    assert statuses == [200] * 34


def test_closed_request_never_begins() -> None:
    """It leaves the queue when its client leaves, and not when its turn comes."""

    async def go() -> tuple[list[str], int]:
        app, sent = _Held(), []
        guard = _guard(app, concurrency=2)

        def ask(path: str, gone: asyncio.Event) -> asyncio.Task[None]:
            messages = iter([{"type": "http.request", "body": b"", "more_body": False}])

            async def receive() -> Any:
                if message := next(messages, None):
                    return message
                await gone.wait()
                return {"type": "http.disconnect"}

            async def send(message: Any) -> None:
                sent.append(message)

            scope: Any = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": []}
            scope["headers"] = [(b"host", b"localhost"), (b"accept", b"text/html")]
            return asyncio.create_task(guard(scope, receive, send))

        stays, leaves = asyncio.Event(), asyncio.Event()
        first = ask("/documents", stays)
        await _until(lambda: len(app.begun) == 1)
        closed = [ask("/graph", leaves) for _ in range(10)]
        last = ask("/reports", stays)
        await asyncio.sleep(0.02)
        leaves.set()
        await asyncio.wait_for(asyncio.gather(*closed), 20)  # while the first one still has the place
        assert not sent, "nobody reads an answer"
        app.go_on.set()
        await asyncio.gather(first, last)
        return app.begun, guard._running

    assert asyncio.run(go()) == (["anyone /documents", "anyone /reports"], 0)


def test_body_that_came_while_its_request_waited_is_whole() -> None:
    async def go() -> list[bytes]:
        app = _Held()
        async with _guarded(app, concurrency=2, max_body_kb=1024) as client:
            sent = [_send(client, "ada", "/v1/jobs", bytes([65 + n]) * 300_000) for n in range(3)]
            await _until(lambda: len(app.begun) == 1)
            await asyncio.sleep(0.02)
            app.go_on.set()
            assert [(await one).status_code for one in sent] == [200] * 3
            return app.bodies

    assert asyncio.run(go()) == [bytes([65 + n]) * 300_000 for n in range(3)]


def test_request_that_waits_elsewhere_lets_the_next_one_begin() -> None:
    async def go() -> list[str]:
        app = _Held()
        async with _guarded(app, concurrency=2) as client:
            sent = [_send(client, "ada", "/v1/ask") for _ in range(3)]
            await _until(lambda: len(app.begun) == 3)
            app.go_on.set()
            await asyncio.gather(*sent)
            return app.begun

    assert asyncio.run(go()) == ["ada /v1/ask"] * 3


def test_nobody_fills_the_queue() -> None:
    async def go() -> tuple[list[int], int]:
        app = _Held()
        async with _guarded(app, queue=10, concurrency=2) as client:
            sent = [_send(client, "mallory", "/documents") for _ in range(9)]
            await _until(lambda: sum(one.done() for one in sent) == 3)
            other = _send(client, "ada", "/documents")
            await asyncio.sleep(0.02)
            app.go_on.set()
            return sorted([(await one).status_code for one in sent]), (await other).status_code

    assert asyncio.run(go()) == ([200] * 6 + [429] * 3, 200)
