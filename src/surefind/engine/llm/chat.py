"""The `ChatModel` that stages get: it adds the cache, the budget, prices and a fallback to one model.

chat.complete(messages)                    one answer
complete_many(chat, [messages, …])         answers in the order of the prompts, several at a time

Runs many calls in parallel, a bounded number at a time, and returns results in the order of the items.

Caches answers by model, prompt and parameters: a repeated benchmark is free and identical.

A row holds the answer and its cost. Prompts are stored only as hashes, API keys not at all.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from heapq import heapreplace
from pathlib import Path
from typing import Any, Protocol

from surefind.base import running
from surefind.base.errors import AnswerError, BudgetError, RefusedError, StoreError, SurefindError, UsageError
from surefind.base.prompts.values import Completion, Message, Meter, Request
from surefind.base.protocols import ChatModel, Progress
from surefind.base.running import CollectedNotes, StoppedError, Workers, awaited, check_stopped
from surefind.engine.llm.address import Address
from surefind.engine.llm.prices import Price, most_tokens, tokens
from surefind.engine.store.cache import Cache


def map_calls(
    work: Callable[[Any], Any], items: Sequence[Any], concurrency: int, progress: Progress | None = None
) -> list[Any]:
    """Runs `work` on each item, `concurrency` at a time. A SurefindError takes the place of a failed result.

    A `BudgetError` and Ctrl-C are raised. Calls that have not begun are then dropped, and running calls are waited for
    (after Ctrl-C only for a moment).
    """
    if not items:
        return []

    def one(item: Any) -> tuple[Any, CollectedNotes]:
        with running.collecting() as collected:
            try:
                return work(item), collected
            except BudgetError:
                raise
            except SurefindError as error:
                return error, collected

    results: list[Any] = []
    waits: list[float] = []
    with Workers(concurrency) as workers:
        for done, (result, collected) in enumerate(workers.map(one, items), 1):
            results.append(result)
            waits.append(collected.waited)
            running.pass_on(collected, 0.0)
            if progress:
                progress(done, len(items))
    running.wait(makespan(waits, concurrency))
    return results


def makespan(seconds: Iterable[float], workers: int) -> float:
    """Seconds until jobs of these lengths are done, if each is started by the first free worker."""
    free = [0.0] * workers
    for length in seconds:
        heapreplace(free, free[0] + length)
    return max(free)


_COLUMNS = (
    "text TEXT", "tokens_in INT", "tokens_out INT", "dollars REAL", "cut INT", "model TEXT",
    "seconds REAL",
)  # fmt: skip


class CompletionCache:
    """Writes each answer to disk before anyone gets it, so a killed job keeps every answer it received."""

    def __init__(self, path: Path) -> None:
        self._cache = Cache(path, "completions", _COLUMNS)

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Completion]:
        """Returns the answers that are in the cache."""
        with self._explained():
            return {key: _completion(*values) for key, values in self._cache.get(keys).items()}

    def put(self, key: bytes, completion: Completion) -> None:
        c = completion
        cost = float(c.dollars), int(c.cut), c.model, float(c.seconds)
        with self._explained():
            self._cache.put([(key, c.text, c.tokens_in, c.tokens_out, *cost)])

    def seconds(self, model: str) -> float | None:
        """Average seconds per answer of this model; None if there are no answers. For estimates."""
        with self._explained():
            rows = self._cache.ask("SELECT avg(seconds) FROM completions WHERE model = ?", (model,))
        return float(rows[0][0]) if rows and rows[0][0] is not None else None

    def check(self) -> tuple[int, int]:
        """Returns how many answers are intact, and how many are damaged."""
        return self._cache.check()

    def close(self) -> None:
        self._cache.close()

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Re-raises disk and SQLite errors with advice: an answer that cannot be stored must stop a paid job."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise StoreError(
                f"The cache of answers {self._cache.path} cannot be used ({error}). Free some space, or move the file "
                "away."
            ) from error


def _completion(
    text: str, tokens_in: int, tokens_out: int, dollars: float, cut: int, model: str, seconds: float
) -> Completion:
    return Completion(text, tokens_in, tokens_out, dollars, True, bool(cut), model, seconds)


Usable = Callable[[int, Completion], bool]
"""Whether the step can use the answer to the prompt at this place."""

_FALLBACK = 1 / 3
"""Share of a call's time limit that is reserved for the fallback."""
_SLOW, _SILENT, _REST = 5.0, 4, 60.0
"""After `_SILENT` failures in a row of at least `_SLOW` seconds each, a model counts as hanging and is not called for
`_REST` seconds. Otherwise a sync of a thousand documents would wait for each of them."""
_EMPTY_SECONDS = 600.0
"""A call with an empty answer is paid for. The steps of a search that make it again do not pay again."""
_MAX_BYTES_PER_TOKEN = 6.5
"""Most bytes per token over a whole prompt. A server that counts fewer tokens has cut the prompt, as Ollama does
without saying so."""


class Adapter(Protocol):
    """One model behind one wire protocol."""

    fingerprint: str
    """Identifies the model in cache keys."""

    def ask(self, request: Request, total: float) -> Completion: ...

    def close(self) -> None: ...


class Chat:
    def __init__(
        self,
        address: Address,
        adapter: Adapter,
        price: Price | None,
        meter: Meter,
        cache: CompletionCache | None = None,
        fallback: Chat | None = None,
        total: float = 180.0,
        concurrency: int = 8,
    ) -> None:
        self.name = address.text
        self.price = price
        self.concurrency = concurrency
        self._adapter = adapter
        self._meter = meter
        self._cache = cache
        self._fallback = fallback
        self._total = total
        self._in_flight: dict[bytes, Future[Completion]] = {}
        self._silent, self._rested = 0, 0.0
        self._new: set[bytes] = set()
        """Keys answered in this run. They are not asked for again, even if the answer is unusable."""
        self._empty: dict[bytes, tuple[float, str]] = {}
        """Keys with an empty answer, until when they are not asked for again, and the error."""
        self._lock = threading.Lock()

    def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, Any] | None = None,
        max_tokens: int = 512,
        temperature: float = 0.0,
    ) -> Completion:
        return self.answer(Request(tuple(messages), schema, max_tokens, temperature))

    def answer(self, request: Request, looked: bool = False) -> Completion:
        """Answers one request. `looked` means that the caller has found no usable answer in the cache."""
        return self._answer(request, time.monotonic() + self._total, looked)

    def key(self, request: Request) -> bytes:
        return request.key(self._adapter.fingerprint)

    def known(
        self, keys: Sequence[bytes], usable: Callable[[bytes, Completion], bool] | None = None
    ) -> dict[bytes, Completion]:
        """Returns the cached answers, read in one go, and counts them as calls. Answers of an earlier run that are not
        `usable` are left out, so that they are asked for again."""
        cached = self._cache.get(keys) if self._cache else {}
        return {
            key: self._counted(completion)
            for key, completion in cached.items()
            if usable is None or key in self._new or usable(key, completion)
        }

    def close(self) -> None:
        self._adapter.close()

    def _answer(self, request: Request, deadline: float, looked: bool = False) -> Completion:
        if self._fallback is None:
            return self._once(request, deadline, looked)
        try:
            # The fallback needs time of its own: a model that hangs would use up all of it with its retries.
            return self._once(request, deadline - _FALLBACK * self._total, looked)
        except BudgetError:
            raise
        except SurefindError as error:
            first = error
        try:
            answer = self._fallback._answer(request, deadline)
        except SurefindError as second:
            raise AnswerError(f"{first} The fallback failed as well: {second}") from None
        running.note(f"{self._fallback.name} answered for {self.name}: {first}")
        running.stood_in(1)
        return answer

    def _once(self, request: Request, deadline: float, looked: bool) -> Completion:
        """Makes equal calls only once: while one is running, others with the same request wait for its answer."""
        key = self.key(request)
        mine: Future[Completion] = Future()
        while True:
            with self._lock:
                running = self._in_flight.setdefault(key, mine)
            if running is mine:
                break
            try:
                return self._counted(replace(awaited(running), cached=True))
            except StoppedError:  # nobody waits for the other call any more
                check_stopped()
        try:
            look = not looked or key in self._new  # another thread may have been answered in the meantime
            cached = self._cache.get([key]) if self._cache and look else {}
            known = cached.get(key)
            completion = self._counted(known) if known else self._paid_call(key, request, deadline)
            mine.set_result(completion)
        except BaseException as error:
            mine.set_exception(error)
            raise
        finally:
            with self._lock:
                del self._in_flight[key]
        return completion

    def _paid_call(self, key: bytes, request: Request, deadline: float) -> Completion:
        until, why = self._empty.get(key, (0.0, ""))
        if time.monotonic() < until:
            raise AnswerError(why)
        price = self._known_price()
        worst = price.of(most_tokens(request.size), request.max_tokens)
        self._meter.reserve(worst)
        try:
            started = time.monotonic()
            if started >= deadline:
                raise AnswerError(f"There was no time left to ask {self.name}. Raise total_timeout.")
            answer = self._ask(request, started, deadline)
            text = _writable(answer.text)
            used = answer.tokens_in or tokens(request.size), answer.tokens_out or tokens(len(text.encode()))
            completion = replace(
                answer, text=text, tokens_in=used[0], tokens_out=used[1], dollars=price.of(*used),
                model=self.name, seconds=time.monotonic() - started,
            )  # fmt: skip
            if 0 < answer.tokens_in * _MAX_BYTES_PER_TOKEN < request.size:
                running.note(
                    f"{self.name} read {answer.tokens_in:,} tokens of a prompt of about {tokens(request.size):,}: "
                    "raise its context length, or send less"
                )
            empty = not text.strip()
            if self._cache and not empty:
                self._cache.put(key, completion)
                self._new.add(key)
            self._counted(completion)  # before the reserved money is released
        finally:
            self._meter.release(worst)
        if empty:  # raised only now, because it is paid for
            why = f"{self.name} gave an empty answer. {_why_empty(completion.cut, request.max_tokens)}"
            self._empty[key] = time.monotonic() + _EMPTY_SECONDS, why
            raise AnswerError(why)
        return completion

    def _ask(self, request: Request, started: float, deadline: float) -> Completion:
        """Calls the model. If the model is hanging, fails at once instead of waiting for it."""
        if self._silent >= _SILENT and started < self._rested:
            raise SurefindError(
                f"{self.name} answered none of its last {self._silent} calls in time and is not called for the "
                f"next {self._rested - started:.0f} s. Check that it is running."
            )
        try:
            answer = self._adapter.ask(request, deadline - started)
        except SurefindError as error:
            silent = not isinstance(error, RefusedError)  # a server that refuses does not hang
            if silent and time.monotonic() - started >= _SLOW:
                with self._lock:
                    self._silent, self._rested = self._silent + 1, time.monotonic() + _REST
            raise
        self._silent = 0
        return answer

    def _known_price(self) -> Price:
        if self.price is None and self._meter.limit is not None:
            raise UsageError(
                f"The price of {self.name} is unknown, so the budget cannot be enforced. Add it to surefind.toml: "
                f'[llm.prices] "{self.name}" = [dollars per million tokens in, out].'
            )
        return self.price or Price(0.0, 0.0)

    def _counted(self, completion: Completion) -> Completion:
        """Counts a call: for the meter what is paid now, for the trace what the call costs and takes, cached or not."""
        running.spend(1, completion.tokens_in, completion.tokens_out, completion.dollars)
        if completion.cached:
            running.wait(completion.seconds)
        self._meter.count(completion.tokens_in, completion.tokens_out, completion.dollars, completion.cached)
        return completion


def _writable(text: str) -> str:
    """Replaces lone surrogates, which no file accepts: a model that is cut inside an emoji leaves one."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _why_empty(cut: bool, max_tokens: int) -> str:
    if not cut:
        return "Try another model."
    return (
        f"It used all {max_tokens} tokens before it wrote an answer, as reasoning models do: switch reasoning off, "
        "use another model, or raise max_tokens if the stage has it."
    )


def complete_many(
    chat: ChatModel,
    prompts: Sequence[Sequence[Message]],
    *,
    schema: Mapping[str, Any] | None = None,
    max_tokens: int = 512,
    temperature: float = 0.0,
    progress: Progress | None = None,
    usable: Usable | None = None,
    repeat: int = 0,
) -> list[Completion | SurefindError]:
    """Returns the answer to each prompt, in order, or the error it failed with; raises if the budget is spent.

    Equal prompts are sent once. Cached answers are fetched in one go, except those that are not `usable`; with another
    `repeat` they are those of another run.
    """
    if not isinstance(chat, Chat):
        one = partial(chat.complete, schema=schema, max_tokens=max_tokens, temperature=temperature)
        return map_calls(one, prompts, 1, progress)
    requests = [Request(tuple(messages), schema, max_tokens, temperature, repeat) for messages in prompts]
    keys = [chat.key(request) for request in requests]
    by_key = dict(zip(keys, requests, strict=True))
    place = {key: i for i, key in enumerate(keys)}
    usable_key = (lambda key, completion: usable(place[key], completion)) if usable else None
    with running.collecting() as collected:
        known: dict[bytes, Any] = dict(chat.known(list(by_key), usable_key))
    running.pass_on(collected, makespan((c.seconds for c in known.values()), chat.concurrency))
    new = [key for key in by_key if key not in known]
    report = _after(len(known), len(by_key), progress)
    answers = map_calls(lambda key: chat.answer(by_key[key], looked=True), new, chat.concurrency, report)
    known |= zip(new, answers, strict=True)
    return [known[key] for key in keys]


def _after(done: int, total: int, progress: Progress | None) -> Progress | None:
    """Reports progress of the remaining work as progress of the whole."""
    return (lambda more, _: progress(done + more, total)) if progress else None
