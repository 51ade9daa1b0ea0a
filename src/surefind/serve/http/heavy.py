"""Requests that take long: uploads, differences and previews. Each kind has workers of its own, so that searches, the
sign-in and other requests never wait behind them.

One caller cannot have all workers of a kind. Callers take turns: who has the fewest workers comes first, then who had
one the longest time ago. The work ends with its request: when the client has gone, when the time limit is over, or when
the caller's key is revoked. Its worker is free when the work has really ended, so that work that nobody waits for
cannot pile up.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeVar

from starlette.requests import Request

from surefind.errors import SurefindError
from surefind.running.workers import started
from surefind.serve.http.rate import LongRequests

LOOK_SECONDS = 1.0
"""Seconds after which a request looks whether its caller is still let in."""
MAX_WAITING = 100
"""Requests of one kind that run or wait, of all callers."""
T = TypeVar("T")


class ClosedRequestError(SurefindError):
    """The client closed the connection before the answer was ready."""


class HeavyWork:
    """The workers of one kind of request."""

    def __init__(self, what: str, workers: int, per_caller: int) -> None:
        """`what` names the requests in messages: `uploads`. One caller has at most `per_caller` that run or wait."""
        self._workers = workers
        self._share = max(1, workers - 1)
        self._places = LongRequests(what, "heavy_per_caller", per_caller, MAX_WAITING)
        self._running: Counter[str] = Counter()
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []
        self._turns = 0
        self._latest: dict[str, int] = {}
        """The last turn of each caller who has work or waits."""

    async def run(
        self, request: Request, caller: str, check: Callable[[], Awaitable[object]], do: Callable[[], T]
    ) -> T:
        """Runs work in a thread when it is its turn. `check` raises an error if the caller is no longer let in. Raises
        `TooOftenError` if too many wait."""
        with self._places.held_by(caller):
            work = asyncio.create_task(self._work(caller, do))
            over = asyncio.create_task(_over(request, check))
            try:
                await asyncio.wait({work, over}, return_when=asyncio.FIRST_COMPLETED)
                if not work.done():
                    over.result()  # raises why the request is over
                answer = await work
            finally:
                work.cancel()
                over.cancel()
        await check()
        return answer

    async def _work(self, caller: str, do: Callable[[], T]) -> T:
        await self._turn(caller)
        loop, stop = asyncio.get_running_loop(), threading.Event()
        future = started(do, stop)

        def ended(_: object) -> None:
            with contextlib.suppress(RuntimeError):  # the server has stopped
                loop.call_soon_threadsafe(self._leave, caller)

        future.add_done_callback(ended)
        answer = asyncio.wrap_future(future)
        try:
            await asyncio.wait({answer})  # does not cancel it
            return answer.result()
        finally:
            stop.set()
            answer.add_done_callback(lambda late: late.exception())  # nobody waits for it, and asyncio would complain

    async def _turn(self, caller: str) -> None:
        """Waits for a worker, and takes it."""
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((caller, mine))
        self._next()
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():  # it had its turn just now
                self._leave(caller)
            raise
        finally:
            self._waiting = [waiting for waiting in self._waiting if waiting[1] is not mine]

    def _next(self) -> None:
        """Gives free workers to those who wait."""
        while self._running.total() < self._workers:
            fitting = [
                waiting
                for waiting in self._waiting
                if not waiting[1].done() and self._running[waiting[0]] < self._share
            ]
            if not fitting:
                return
            caller, turn = min(
                fitting, key=lambda waiting: (self._running[waiting[0]], self._latest.get(waiting[0], 0))
            )
            self._running[caller] += 1
            self._turns += 1
            self._latest[caller] = self._turns
            turn.set_result(None)

    def _leave(self, caller: str) -> None:
        self._running[caller] -= 1
        self._running += Counter()  # forgets who has none
        here = {*self._running, *(waiting for waiting, _ in self._waiting)}
        self._latest = {name: turn for name, turn in self._latest.items() if name in here}
        self._next()


async def _over(request: Request, check: Callable[[], Awaitable[object]]) -> None:
    """Waits until the client has gone or is no longer let in, and raises an error that says so."""
    while True:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                while (await request.receive())["type"] != "http.disconnect":
                    pass
            raise ClosedRequestError("The client closed the connection, so the work was stopped.")
        await check()
