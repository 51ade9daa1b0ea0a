"""What happens to every request: time, queue and size limits, and failures that must not show their inside."""

from __future__ import annotations

import asyncio
import logging

import httpx
import pytest

from surefind.errors import StoreError
from surefind.serve.http.cache import AnswerCache
from surefind.serve.http.guard import Guard
from surefind.serve.http.metrics import Metrics
from surefind.serve.http.settings import ServeSettings
from surefind.serve.web.problems import as_page


def _guarded(app: object, **settings: object) -> httpx.AsyncClient:
    guard = Guard(app, ServeSettings(**settings), {"localhost"}, 1000, Metrics(), as_page, 60)  # type: ignore[arg-type]
    return httpx.AsyncClient(transport=httpx.ASGITransport(guard), base_url="http://localhost")


async def _slow(scope: object, receive: object, send: object) -> None:
    await asyncio.sleep(0.3)
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


@pytest.mark.parametrize(("app", "inside"), [(_failing, "hunter2"), (_broken_store, "/home/ada")])
def test_a_failure_shows_only_a_request_id(app: object, inside: str, caplog: pytest.LogCaptureFixture) -> None:
    async def go() -> httpx.Response:
        async with _guarded(app) as client:
            return await client.get("/v1/search", headers={"X-Request-Id": "r1"})

    with caplog.at_level(logging.ERROR):
        answer = asyncio.run(go())
    assert answer.status_code == 500 and inside not in answer.text and "Traceback" not in answer.text
    assert answer.json()["request_id"] == "r1" and "r1" in caplog.text, "the log says why"


def test_the_cache_keeps_what_was_asked_for_last_within_its_size() -> None:
    cache = AnswerCache(800)
    for n in range(20):
        cache.put(n, bytes(100))
        cache.get(0)
    assert cache.get(0) is not None and cache.get(19) is not None and cache.get(1) is None
    cache.put("large", bytes(200))
    assert cache.get("large") is None
    cache.put(19, b"x")
    assert cache.get(19) == b"x"
