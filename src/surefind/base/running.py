"""How work runs: in threads that end with the program, on the cores that this process may use; what it reports.

    with Workers(8) as workers:
        for result in workers.map(ask, prompts):
            ...

When the block ends early, work that has not begun is dropped and running work is waited for: its answer may have been
paid for. Ctrl-C is the exception: a server that hangs would hold up the user for minutes, so running work gets half a
second to finish and is then abandoned. (`concurrent.futures` would wait for its threads when the program ends.)

    future = started(work, stop)      # stop.set() ends it

A thread cannot be ended from outside, so work that may take long calls `check_stopped` often, as do those who wait for
a child process.

    cores = min(affinity, ⌈quota / period⌉), at least 1

`os.cpu_count()` counts the machine's cores. A process may be bound to some of them (`taskset`), and a container may
have a quota of CPU time: threads beyond that only wait for each other.

Python looks for unreachable objects after every 700 new ones, which takes half a second with a row for each of 100,000
files in memory; a writer lets it look less often.

`BoundedCache` is the one cache in memory with a limit: it keeps the values that were used last. (Pure functions use
`lru_cache`.) Stages are values that anyone may make again, so the whole process shares their connections (`shared`) and
closes them together (`close_shared`); the next call opens them again.

`collecting` has what a stage reports and spends while it runs, for its entry in the trace.

    with collecting() as collected:          # the pipeline, around a stage
        note("reranked 12 of 20 …")          # anywhere below it
    collected.text, collected.calls

Outside `collecting`, notes and costs are dropped. The collector is in a `ContextVar`: work that a stage hands to
threads is collected if it runs in a copy of the context (`contextvars.copy_context().run`).
`TimeLeft` says how long work will still take, from how long its parts took so far.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import math
import os
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePosixPath
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import ClassVar, Generic, Protocol, TypeVar, cast
from weakref import WeakSet

_GROUPS = Path("/sys/fs/cgroup")
_MINE = Path("/proc/self/cgroup")
_GARBAGE = 50_000
"""New objects after which Python looks for unused ones. A command on 100,000 files makes millions that stay, and its
default of 700 takes a tenth of the time."""

Hold = Callable[[], AbstractContextManager[object]]
_hold: ContextVar[Hold] = ContextVar("hold", default=nullcontext)


@cache
def usable_cores() -> int:
    """The cores that this process may use; looked up once, on the first call."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    allowed = quota()
    return max(1, bound if allowed is None else min(bound, allowed))


@contextmanager
def all_cores() -> Iterator[None]:
    """Holds, in the block, what this thread has to while it keeps all cores busy: nothing, unless `take_turns` was
    called. A block inside it holds nothing more."""
    with _hold.get()():
        before = _hold.set(nullcontext)
        try:
            yield
        finally:
            _hold.reset(before)


def take_turns(hold: Hold) -> None:
    """Lets this thread hold something whenever it keeps all cores busy: a place for which callers take turns."""
    _hold.set(hold)


def collect_less() -> None:
    """Makes Python look for unused objects less often, and not at its end, when the system frees all of them."""
    gc.set_threshold(_GARBAGE)
    atexit.register(gc.freeze)


def quota(groups: Path = _GROUPS, mine: Path = _MINE) -> int | None:
    """The cores that the control groups of this process allow, rounded up; None if there is no limit.

    `groups` is where control groups are mounted; `mine` is the file that lists those of this process.
    """
    limits = [limit for folder in _folders(groups, mine) if (limit := _limit(folder)) is not None]
    return min(limits, default=None)


def _folders(groups: Path, mine: Path) -> Iterator[Path]:
    """Yields the folders of this process's group and of its parent groups, each of which may have its own limit.

    A container may see the path that its group has on the host, although only the part below it is mounted. Paths that
    do not exist have no limit, and the root is then the container's own group.
    """
    yield groups
    for line in _text(mine).splitlines():  # 0::/PATH in version 2, NUMBER:cpu,cpuacct:/PATH in version 1
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number != "0" and "cpu" not in controllers.split(","):
            continue
        around = PurePosixPath(path.lstrip("/"))
        for root in (groups / controllers, groups / "cpu") if controllers else (groups,):
            yield from (root / place for place in (around, *around.parents))


def _limit(folder: Path) -> int | None:
    pair = _text(folder / "cpu.max").split()  # version 2
    if not pair:
        pair = [_text(folder / "cpu.cfs_quota_us"), _text(folder / "cpu.cfs_period_us")]  # version 1
    try:
        allowed, period = map(int, pair)
    except ValueError:  # "max", or no such file
        return None
    return math.ceil(allowed / period) if allowed > 0 and period > 0 else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""


_OBJECTS = 100_000
"""How many objects may be new before Python looks."""
_lock = threading.Lock()
_inside = 0
_usual = gc.get_threshold()


@contextlib.contextmanager
def collecting_seldom() -> Iterator[None]:
    """Raises the threshold of new objects within the block. Threads may be inside at the same time."""
    global _inside, _usual
    with _lock:
        if not _inside:
            _usual = gc.get_threshold()
            gc.set_threshold(max(_OBJECTS, _usual[0]) if _usual[0] else 0, *_usual[1:])
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                gc.set_threshold(*_usual)


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


@dataclass
class CollectedNotes:
    """The notes and costs collected so far."""

    notes: list[str] = field(default_factory=list)
    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    dollars: float = 0.0
    waited: float = 0.0
    """Seconds that cached answers took when they were first made; benchmarks add them to the times they measure."""
    without: int = 0
    """Queries (or chunks) for which a stage used its fallback."""
    stood_in: int = 0
    """Calls that the fallback model answered instead of the chosen one."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    @property
    def text(self) -> str:
        return "; ".join(self.notes)


FELL_BACK = "fell back: "
"""Begins the note of an optional stage that failed, so that the ranking before it was used."""

_heard: ContextVar[CollectedNotes | None] = ContextVar("collected", default=None)


@contextlib.contextmanager
def collecting() -> Iterator[CollectedNotes]:
    """Collects all notes and costs inside the block, except those that an inner `collecting` takes."""
    token = _heard.set(collected := CollectedNotes())
    try:
        yield collected
    finally:
        _heard.reset(token)


def note(text: str) -> None:
    """Adds a note to the trace entry of the running stage. The same note is added only once."""
    collected = _heard.get()
    if collected is not None:
        with collected._lock:
            if text not in collected.notes:
                collected.notes.append(text)


def count_without_model(count: int) -> None:
    """Counts queries (or chunks) for which the running stage used its fallback; benchmarks report them."""
    collected = _heard.get()
    if collected is not None:
        with collected._lock:
            collected.without += count


def stood_in(count: int) -> None:
    """Counts calls of the running stage that the fallback model answered; benchmarks report them."""
    collected = _heard.get()
    if collected is not None:
        with collected._lock:
            collected.stood_in += count


def spend(calls: int, tokens_in: int, tokens_out: int, dollars: float) -> None:
    """Adds to the cost of the running stage."""
    collected = _heard.get()
    if collected is not None:
        with collected._lock:
            collected.calls += calls
            collected.tokens_in += tokens_in
            collected.tokens_out += tokens_out
            collected.dollars += dollars


def wait(seconds: float) -> None:
    """Adds seconds that the running stage would have taken without a cache."""
    collected = _heard.get()
    if collected is not None:
        with collected._lock:
            collected.waited += seconds


def pass_on(inner: CollectedNotes, waited: float) -> None:
    """Adds what an inner `collecting` collected to the outer one; `waited` is how long the calls took in parallel."""
    for text in inner.notes:
        note(text)
    count_without_model(inner.without)
    stood_in(inner.stood_in)
    spend(inner.calls, inner.tokens_in, inner.tokens_out, inner.dollars)
    wait(waited)


_SOON = 90.0
"""Seconds up to which a time is said in seconds."""
_MINUTES = 90.0
"""Minutes up to which a time is said in minutes."""


class TimeLeft:
    """Estimates the seconds that are left of each kind of work."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began: dict[str, tuple[float, int]] = {}

    def after(self, what: str, done: int, total: int) -> float | None:
        """Returns the seconds that are left, given how far the work is now; None when it has just begun."""
        now = self._clock()
        began, first = self._began.get(what, (now, done))
        if done < first or what not in self._began:  # it has begun, or begun again
            self._began[what] = now, done
            return None
        return (now - began) / (done - first) * (total - done) if done > first else None


def about(seconds: float) -> str:
    """Says a time as people do: `about 8 minutes`."""
    if seconds <= _SOON:
        return f"about {max(5, round(seconds / 5) * 5)} seconds"
    minutes = seconds / 60
    return f"about {round(minutes)} minutes" if minutes < _MINUTES else f"about {minutes / 60:.1f} hours"
