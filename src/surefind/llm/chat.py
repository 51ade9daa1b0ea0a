"""The `ChatModel` that stages are handed: cache, budget, price, fallback, and many calls at once.

chat.complete(messages)                    one answer
complete_many(chat, [messages, …])         answers in the order of the prompts, `concurrency` at a time
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from typing import Any, Protocol

from surefind import notes
from surefind.errors import AnswerError, BudgetError, SurefindError, UsageError
from surefind.llm.address import Address
from surefind.llm.cache import CompletionCache
from surefind.llm.meter import Meter
from surefind.llm.prices import Price, tokens
from surefind.llm.values import Completion, Message, Request
from surefind.protocols import ChatModel, Progress


class Adapter(Protocol):
    """One model behind one wire protocol."""

    fingerprint: str
    """Names the model: the part of a cache key that is not the prompt."""

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
        self._flying: dict[bytes, Future[Completion]] = {}
        self._lock = threading.Lock()

    def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, Any] | None = None,
        max_tokens: int = 512,
        temperature: float = 0.0,
        logprobs: int = 0,
    ) -> Completion:
        request = Request(tuple(messages), schema, max_tokens, temperature, logprobs)
        return self._answer(request, time.monotonic() + self._total)

    def close(self) -> None:
        self._adapter.close()

    def _answer(self, request: Request, deadline: float) -> Completion:
        try:
            return self._once(request, deadline)
        except BudgetError:
            raise
        except SurefindError as error:
            if self._fallback is None:
                raise
            try:
                return self._fallback._answer(request, deadline)
            except SurefindError as second:
                raise AnswerError(f"{error} The fallback failed as well: {second}") from None

    def _once(self, request: Request, deadline: float) -> Completion:
        """The same call made twice at a time is made once, and the second one waits for it."""
        key = request.key(self._adapter.fingerprint)
        mine: Future[Completion] = Future()
        with self._lock:
            theirs = self._flying.setdefault(key, mine)
        if theirs is not mine:
            return self._counted(replace(theirs.result(), cached=True))
        try:
            completion = self._cached(key) or self._paid(key, request, deadline)
            mine.set_result(completion)
        except BaseException as error:
            mine.set_exception(error)
            raise
        finally:
            with self._lock:
                del self._flying[key]
        return self._counted(completion)

    def _cached(self, key: bytes) -> Completion | None:
        return self._cache.get(key) if self._cache else None

    def _paid(self, key: bytes, request: Request, deadline: float) -> Completion:
        price = self._known_price()
        worst = price.of(tokens(request.size), request.max_tokens)
        left = deadline - time.monotonic()
        if left <= 0:
            raise AnswerError(f"There was no time left to ask {self.name}. Raise total_timeout.")
        self._meter.reserve(worst)
        try:
            started = time.monotonic()
            answer = self._adapter.ask(request, left)
            used = answer.tokens_in or tokens(request.size), answer.tokens_out or tokens(len(answer.text.encode()))
            completion = replace(
                answer, tokens_in=used[0], tokens_out=used[1], dollars=price.of(*used), model=self.name
            )
            if self._cache:
                self._cache.put(key, completion, time.monotonic() - started)
        finally:
            self._meter.release(worst)
        return completion

    def _known_price(self) -> Price:
        if self.price is None and self._meter.limit is not None:
            raise UsageError(
                f"What {self.name} costs is not known, so a budget cannot be kept. Put its price into surefind.toml: "
                f'[llm.prices] "{self.name}" = [dollars per million tokens in, out].'
            )
        return self.price or Price(0.0, 0.0)

    def _counted(self, completion: Completion) -> Completion:
        """The meter counts what was paid now, the stage's trace what a call costs, from the cache or not."""
        notes.spend(1, completion.tokens_in, completion.tokens_out, completion.dollars)
        self._meter.count(completion.tokens_in, completion.tokens_out, completion.dollars, completion.cached)
        return completion


def complete_many(
    chat: ChatModel,
    prompts: Sequence[Sequence[Message]],
    *,
    schema: Mapping[str, Any] | None = None,
    max_tokens: int = 512,
    temperature: float = 0.0,
    logprobs: int = 0,
    progress: Progress | None = None,
) -> list[Completion | SurefindError]:
    """The answer to each prompt, in order, or what went wrong with it; a spent budget ends it all."""

    def one(messages: Sequence[Message]) -> Completion:
        return chat.complete(messages, schema=schema, max_tokens=max_tokens, temperature=temperature, logprobs=logprobs)

    return map_calls(one, prompts, getattr(chat, "concurrency", 1), progress)


def map_calls(
    work: Callable[[Any], Any], items: Sequence[Any], concurrency: int, progress: Progress | None = None
) -> list[Any]:
    """`work` on each item, `concurrency` at a time: results in order, a SurefindError in place of a failed one.

    A `BudgetError` is raised, as is Ctrl-C: calls that have not begun are then dropped.
    """
    if not items:
        return []
    pool = ThreadPoolExecutor(min(concurrency, len(items)), thread_name_prefix="llm")
    found: list[Any] = []
    try:
        for done, future in enumerate([pool.submit(copy_context().run, work, item) for item in items], 1):
            try:
                found.append(future.result())
            except BudgetError:
                raise
            except SurefindError as error:
                found.append(error)
            if progress:
                progress(done, len(items))
    finally:
        pool.shutdown(cancel_futures=True)  # waits for calls under way: they are paid for, and must be kept
    return found
