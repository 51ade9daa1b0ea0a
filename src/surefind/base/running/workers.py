"""Runs work in parallel, in threads that end with the program.

    with Workers(8) as workers:
        for result in workers.map(ask, prompts):
            ...

When the block ends early, work that has not begun is dropped and running work is waited for: its answer may have been
paid for. Ctrl-C is the exception: a server that hangs would hold up the user for minutes, so running work gets half a
second to finish and is then abandoned. (`concurrent.futures` would wait for its threads when the program ends.)

    future = started(work, stop)      # stop.set() ends it

A thread cannot be ended from outside, so work that may take long calls `check_stopped` often, as do those who wait for
a child process.

The one cache in memory with a limit: it keeps the values that were used last. (Pure functions use `lru_cache`.) Stages
are values that anyone may make again, so the whole process shares their connections (`shared`) and closes them together
(`close_shared`); the next call opens them again.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import Future
from contextvars import ContextVar, copy_context
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import ClassVar, Generic, Protocol, TypeVar, cast
from weakref import WeakSet

Item = TypeVar("Item")
Result = TypeVar("Result")

_MOMENT = 0.5
"""Seconds to wait for running work after Ctrl-C."""
_IDLE_SECONDS = 10.0
"""Seconds that a thread waits for more work before it ends."""
_abandoned: WeakSet[threading.Thread] = WeakSet()
_stop: ContextVar[threading.Event | None] = ContextVar("stop", default=None)


class StoppedError(BaseException):
    """Nobody waits for this work any more. It is no `Exception`, so that no fallback goes on with the work."""


def check_stopped() -> None:
    """Raises `StoppedError` if the work of this thread was stopped."""
    stop = _stop.get()
    if stop is not None and stop.is_set():
        raise StoppedError


def pause(seconds: float) -> None:
    """Waits. Raises `StoppedError` as soon as the work of this thread is stopped."""
    stop = _stop.get()
    if stop is None:
        time.sleep(seconds)
    elif stop.wait(seconds):
        raise StoppedError


def awaited(future: Future[Result], seconds: float = math.inf) -> Result:
    """Returns the result of work of another thread. Raises `StoppedError` as soon as the work of this one is stopped,
    and `TimeoutError` after so many seconds; the other thread is left to itself then."""
    end = time.monotonic() + seconds
    while not future.done():
        with contextlib.suppress(TimeoutError):
            return future.result(max(0.0, min(_MOMENT, end - time.monotonic())))
        check_stopped()
        if time.monotonic() >= end:
            raise TimeoutError
    return future.result()


class Workers:
    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._waiting: deque[Callable[[], None]] = deque()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._waiting.clear()
        stopped = kind is not None and issubclass(kind, KeyboardInterrupt)
        end = time.monotonic() + _MOMENT
        try:
            for thread in self._threads:
                thread.join(max(0.0, end - time.monotonic()) if stopped else None)
        finally:  # also if a second Ctrl-C ends the waiting
            _abandoned.update(thread for thread in self._threads if thread.is_alive())

    def map(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yields the results in the order of the items, as they arrive; an error is raised in place of its result.

        Each item runs in a copy of the context, so that its notes are collected.
        """
        futures = [self._put(work, item) for item in items]
        for _ in range(min(self._workers, len(futures))):
            thread = threading.Thread(target=self._work, daemon=True)
            self._threads.append(thread)
            thread.start()
        return (future.result() for future in futures)

    def _put(self, work: Callable[[Item], Result], item: Item) -> Future[Result]:
        future: Future[Result] = Future()
        run = copy_context().run

        def task() -> None:
            try:
                run(check_stopped)
                future.set_result(run(work, item))
            except BaseException as error:
                future.set_exception(error)

        self._waiting.append(task)
        return future

    def _work(self) -> None:
        while True:
            try:
                task = self._waiting.popleft()
            except IndexError:
                return
            task()


def still_working() -> bool:
    """Whether work that was abandoned after Ctrl-C is still running."""
    return any(thread.is_alive() for thread in _abandoned)


def started(work: Callable[[], Result], stop: threading.Event | None = None) -> Future[Result]:
    """Starts work in a thread that does nothing else meanwhile, and returns its future result. When `stop` is set, the
    work ends with `StoppedError` where it next calls `check_stopped`."""
    future: Future[Result] = Future()

    def run() -> None:
        if stop is not None:
            _stop.set(stop)
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    context = copy_context()
    _Idle.give(lambda: context.run(run))
    return future


class _Idle(threading.Thread):
    """A thread that waits for the next work. To start a thread takes until the system has run it, and on a busy machine
    the event loop of a server would wait for that at each request."""

    waiting: ClassVar[deque[_Idle]] = deque()
    process: ClassVar[int] = os.getpid()

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._work: SimpleQueue[Callable[[], None]] = SimpleQueue()

    @classmethod
    def give(cls, work: Callable[[], None]) -> None:
        """Lets the thread that waits for the shortest time do some work, or a new one."""
        if cls.process != os.getpid():  # a fork has none of the threads
            cls.process, cls.waiting = os.getpid(), deque()
        try:
            thread = cls.waiting.pop()
        except IndexError:
            thread = cls()
            thread.start()
        thread._work.put(work)

    def run(self) -> None:
        with contextlib.suppress(Empty):
            self._work.get()()
            while True:
                self.waiting.append(self)
                self._next()()

    def _next(self) -> Callable[[], None]:
        """Returns the next work. Raises `Empty` if none came for a while."""
        try:
            return self._work.get(timeout=_IDLE_SECONDS)
        except Empty:
            try:
                self.waiting.remove(self)
            except ValueError:  # it was given work just now
                return self._work.get()
            raise


Key = TypeVar("Key")
Value = TypeVar("Value")


class BoundedCache(Generic[Key, Value]):
    """Keeps values up to a limit: their number, or the sum of what `weigh` says of each. Threads may share it."""

    def __init__(self, limit: int, weigh: Callable[[Value], int] = lambda _: 1) -> None:
        self._limit = limit
        self._weigh = weigh
        self._weight = 0
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self._lock = threading.Lock()
        self._making = threading.RLock()  # to make one value may need another one

    def __iter__(self) -> Iterator[Key]:
        with self._lock:
            return iter(list(self._values))

    def get(self, key: Key) -> Value | None:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: Key, value: Value) -> Value:
        """Stores a value and returns it. Those that were used longest ago make room."""
        with self._lock:
            if key in self._values:
                self._weight -= self._weigh(self._values.pop(key))
            self._values[key] = value
            self._weight += self._weigh(value)
            while self._weight > self._limit:
                self._weight -= self._weigh(self._values.popitem(last=False)[1])
        return value

    def get_or_make(self, key: Key, make: Callable[[], Value]) -> Value:
        """Returns the value, made now if it is missing: once, by one thread, while others that need one made wait."""
        value = self.get(key)
        if value is None:
            with self._making:
                value = self.get(key)
                if value is None:
                    value = self.put(key, make())
        return value


class _Closable(Protocol):
    def close(self) -> None: ...


Closable = TypeVar("Closable", bound=_Closable)
_shared: BoundedCache[Hashable, _Closable] = BoundedCache(64)


def shared(key: Hashable, make: Callable[[], Closable]) -> Closable:
    """Returns what holds the connections of `key`, made once, even if many threads ask for it at the same time."""
    return cast(Closable, _shared.get_or_make(key, make))


def close_shared() -> None:
    """Closes the connections that encoders and rerankers of this process keep open, but no running call."""
    for key in _shared:
        thing = _shared.get(key)
        if thing is not None:
            thing.close()
