"""What happens to every request: time, queue and size limits, and failures that must not show their inside."""

from __future__ import annotations

import asyncio
import logging

import httpx
import pytest
from starlette.requests import Request

from surefind.errors import StoreError
from surefind.serve.auth.caller import Caller
from surefind.serve.http.guard import Guard
from surefind.serve.http.metrics import Metrics
from surefind.serve.web.problems import as_page
from surefind.settings.serve import ServeSettings


async def _anyone(request: Request, scope: str) -> Caller:
    return Caller(request.headers.get("authorization", "anyone"), frozenset({"read", "write"}), frozenset())


def _guarded(app: object, **settings: object) -> httpx.AsyncClient:
    guard = Guard(app, ServeSettings(**settings), {"localhost"}, 1000, Metrics(), as_page, 60, _anyone)  # type: ignore[arg-type]
    return httpx.AsyncClient(transport=httpx.ASGITransport(guard), base_url="http://localhost")


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


@pytest.mark.parametrize("path", ["/v1/jobs/1/events", "/v1/ask", "/mcp"])
def test_streams_are_bounded_apart_from_other_requests(path: str) -> None:
    """Neither the streams of a caller nor those of all callers keep others from being answered."""

    async def go() -> tuple[list[int], list[int], int]:
        over = asyncio.Event()

        async def app(scope: dict[str, str], receive: object, send: object) -> None:
            if scope["path"] == path:
                await over.wait()
            await _done(send)

        async with _guarded(app, queue=2, streams_per_caller=3, streams=4) as client:
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
