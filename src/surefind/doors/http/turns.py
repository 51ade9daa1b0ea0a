"""Places for the work of requests, which callers take in turns. Each kind of work has places of its own, so that a
search never waits behind an upload, a model or a network. A request has a place in the event loop first (`take`), which
it gives back when it takes one for work that costs more.

One caller cannot have all places of a kind. Who has the fewest comes first, then who had one the longest time ago. Work
that costs more than a plain search ends with its request: when the client has gone, when the time limit is over, or
when the caller's key is revoked. A place is free when the work has really ended, so that work that nobody waits for
cannot pile up.

Limits how often a caller may ask, and how many requests that last long it may have at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future
from typing import TypeVar, cast

from starlette.requests import Request
from starlette.types import Message

from surefind.base.errors import SurefindError
from surefind.base.running import BoundedCache, awaited, check_stopped, started

_MAX_CALLERS = 10_000
"""Callers that are remembered, at most."""


class TooOftenError(SurefindError):
    """The caller asked too often."""


class Rate:
    """A bucket of tokens for each caller, which fills again evenly."""

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._lock = threading.Lock()
        self._left: BoundedCache[str, tuple[float, float]] = BoundedCache(_MAX_CALLERS)

    def check(self, caller: str) -> None:
        """Counts a request. Raises `TooOftenError` if the caller has none left; a minute's worth may come at once."""
        if not self._per_minute:
            return
        now = time.monotonic()
        with self._lock:
            left, then = self._left.get(caller) or (float(self._per_minute), now)
            left = min(self._per_minute, left + (now - then) * self._per_minute / 60)
            self._left.put(caller, (max(0.0, left - 1), now))
        if left < 1:
            raise TooOftenError(f"A caller may send {self._per_minute} requests a minute. Wait a moment.")


class LongRequests:
    """Requests of a kind that last long, such as streams. They are bounded apart from other requests, which would wait
    behind them."""

    def __init__(self, what: str, setting: str, per_caller: int, in_all: int) -> None:
        """`what` names the requests in messages, and `setting` the limit of one caller."""
        self._what = what
        self._setting = setting
        self._per_caller = per_caller
        self._in_all = in_all
        self._open: Counter[str] = Counter()

    @contextlib.contextmanager
    def held_by(self, caller: str) -> Iterator[None]:
        """Counts a request of a caller until the end of the block. Raises `TooOftenError` if there are too many."""
        if self._open[caller] >= self._per_caller:
            raise TooOftenError(
                f"A caller may have {self._per_caller} {self._what} at once ({self._setting}). Wait until one ends."
            )
        if self._open.total() >= self._in_all:
            raise TooOftenError(f"The server has {self._in_all} {self._what}, which is its limit. Try again soon.")
        self._open[caller] += 1
        try:
            yield
        finally:
            self._open[caller] -= 1
            if not self._open[caller]:
                del self._open[caller]


LOOK_SECONDS = 1.0
"""Seconds after which a request looks whether its caller is still let in."""
HANDOVER_SECONDS = 0.25
"""Seconds for which a request that waits elsewhere keeps its place in the event loop."""
MAX_WAITING = 400
"""Requests of one kind that run or wait, of all callers."""
MAX_STEPS = 100
"""Steps of a stream that wait until its client has read those before."""
_GONE = "The client closed the connection, so the work was stopped."
T = TypeVar("T")
Check = Callable[[], Awaitable[object]]
"""Raises an error if the caller is no longer let in."""


class ClosedRequestError(SurefindError):
    """The client closed the connection before the answer was ready."""


class HeldPlace:
    """A place that a caller has taken."""

    def __init__(self, leave: Callable[[], None]) -> None:
        self._leave: Callable[[], None] | None = leave

    def give_back(self) -> None:
        """Lets the next request begin; does nothing the second time."""
        leave, self._leave = self._leave, None
        if leave:
            leave()


class Turns:
    """The places of one kind of work."""

    def __init__(
        self, what: str, places: int, share: int, setting: str, per_caller: int, in_all: int = MAX_WAITING
    ) -> None:
        """`what` names the requests in messages: `uploads`. One caller has at most `share` places, and at most
        `per_caller` requests that run or wait: the value of `setting`. All callers have at most `in_all`."""
        self._number = places
        self._share = share
        self._requests = LongRequests(what, setting, per_caller, max(in_all, per_caller))
        self._running: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._turns = 0
        self._latest: dict[str, int] = {}
        """The last turn of each caller who has work or waits."""

    @contextlib.asynccontextmanager
    async def take(self, caller: str, gone: Callable[[], Awaitable[None]]) -> AsyncIterator[HeldPlace]:
        """Holds a place in the block, or until it is given back. Raises `ClosedRequestError` if `gone` ends before it
        is the caller's turn, and `TooOftenError` if too many of its requests wait."""
        with self._requests.held_by(caller):
            await self._turn(caller, gone)
        place = HeldPlace(lambda: self._leave(caller))
        try:
            yield place
        finally:
            place.give_back()

    async def run(self, request: Request, caller: str, check: Check, do: Callable[[], T]) -> T:
        """Runs work in a thread when it is its turn; ends it with its request. Raises `TooOftenError` if too many
        wait."""
        with self._requests.held_by(caller):
            work = asyncio.create_task(self.run_plain(caller, do))
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

    async def stream(self, caller: str, make: Callable[[], Iterator[T]]) -> AsyncIterator[T]:
        """Yields what `make` yields in a thread. The work ends when nobody reads on: that is how Starlette ends a
        response whose client has gone."""
        loop = asyncio.get_running_loop()
        steps: asyncio.Queue[T | None] = asyncio.Queue()
        room = threading.Semaphore(MAX_STEPS)

        def do() -> None:
            for step in make():
                while not room.acquire(timeout=LOOK_SECONDS):
                    check_stopped()
                check_stopped()
                loop.call_soon_threadsafe(steps.put_nowait, step)

        with self._requests.held_by(caller):
            work = asyncio.create_task(self.run_plain(caller, do))
            work.add_done_callback(lambda _: steps.put_nowait(None))
            try:
                while (step := await steps.get()) is not None:
                    room.release()
                    yield step
                await work  # raises its error
            finally:
                work.cancel()

    @contextlib.contextmanager
    def hold(self, caller: str, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
        """Holds a place in the block, in a thread that works in a place of another kind."""
        ready: Future[None] = Future()
        turn: list[asyncio.Task[None]] = []

        def begin() -> None:
            turn.append(loop.create_task(self._turn(caller)))
            turn[0].add_done_callback(lambda _: ready.set_result(None))

        def end() -> None:
            if turn[0].done() and not turn[0].cancelled():
                self._leave(caller)
            else:
                turn[0].cancel()

        try:
            loop.call_soon_threadsafe(begin)
            awaited(ready)
            yield
        finally:
            with contextlib.suppress(RuntimeError):  # the server has stopped
                loop.call_soon_threadsafe(end)

    async def run_plain(self, caller: str, do: Callable[[], T], request: Request | None = None) -> T:
        """Runs work in a thread when it is its turn. It is told to stop when nobody waits for it any more. With a
        request whose body has been read, it does not begin if the client has gone."""
        await self._turn(caller)
        if request is not None and _has_gone(request):
            self._leave(caller)
            raise ClosedRequestError(_GONE)
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

    async def _turn(self, caller: str, gone: Callable[[], Awaitable[None]] | None = None) -> None:
        """Waits for a place, and takes it. Raises `ClosedRequestError` if `gone` ends first."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(caller, deque()).append(turn)
        self._next()
        if turn.done():
            return
        waits: set[asyncio.Future[None]] = {turn}
        if gone is not None:
            waits.add(asyncio.ensure_future(gone()))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if not turn.done():
                raise ClosedRequestError(_GONE)
        except BaseException:
            if turn.done():  # it had its turn just now
                self._leave(caller)
            else:
                self._waiting[caller].remove(turn)
                self._forget(caller)
            raise
        finally:
            for other in waits - {turn}:  # has ended before the request goes on: both read what the client sends
                other.cancel()
                await asyncio.wait({other})

    def _next(self) -> None:
        """Gives free places to those who wait."""
        while self._running.total() < self._number:
            fitting = [caller for caller in self._waiting if self._running[caller] < self._share]
            if not fitting:
                return
            caller = min(fitting, key=lambda name: (self._running[name], self._latest.get(name, 0)))
            turn = self._waiting[caller].popleft()
            self._turns += 1
            if not turn.done():
                self._running[caller] += 1
                self._latest[caller] = self._turns
                turn.set_result(None)
            self._forget(caller)

    def _leave(self, caller: str) -> None:
        self._running[caller] -= 1
        self._forget(caller)
        self._next()

    def _forget(self, caller: str) -> None:
        """Forgets a caller who neither has a place nor waits for one."""
        if not self._waiting.get(caller):
            self._waiting.pop(caller, None)
            if not self._running[caller]:
                del self._running[caller]
                self._latest.pop(caller, None)


async def _over(request: Request, check: Check) -> None:
    """Waits until the client has gone or is no longer let in, and raises an error that says so."""
    while True:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                while (await request.receive())["type"] != "http.disconnect":
                    pass
            raise ClosedRequestError(_GONE)
        await check()


def give_back_soon(request: Request) -> None:
    """Gives back the request's place in the event loop after `HANDOVER_SECONDS`: it has another one, or waits. Not at
    once, so that who sends requests and closes their connections again and again cannot begin them all."""
    place: HeldPlace | None = request.scope["state"].get("place")
    if place:
        asyncio.get_running_loop().call_later(HANDOVER_SECONDS, place.give_back)


def _has_gone(request: Request) -> bool:
    """Returns whether the client has closed the connection, by the messages that are there already: the first one may
    be the end of an empty body. Starlette's `is_disconnected` does so by a task that is cancelled, and describes that
    task in words: twice for a search, that was an eighth of what the server does for it."""
    for _ in range(2):
        receiving = cast(Coroutine[None, None, Message], request.receive())
        try:
            receiving.send(None)
        except StopIteration as ended:
            if ended.value["type"] == "http.disconnect":
                return True
        else:  # it waits for the client
            receiving.close()
            return False
    return False
