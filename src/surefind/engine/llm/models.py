"""Makes the `ChatModel` for a model string, once, with the cache and the meter that all models share.

Estimates the LLM calls, tokens, dollars and minutes of a run before it starts.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from surefind.base.errors import UsageError
from surefind.base.prompts.values import Calls, Meter
from surefind.engine.llm.address import Address, LLMSettings, parse_model
from surefind.engine.llm.chat import Adapter, Chat, CompletionCache
from surefind.engine.llm.prices import price_of

_replays: ContextVar[bool] = ContextVar("replays", default=False)


class Models:
    def __init__(
        self,
        settings: LLMSettings | None = None,
        cache_folder: Path | None = None,
    ) -> None:
        self.settings = settings or LLMSettings()
        self.meter = Meter(self.settings.budget)
        self.cache = CompletionCache(cache_folder / "answers.db") if cache_folder else None
        self._chats: dict[str, Chat] = {}
        self._lock = threading.RLock()

    def chat(self, model: str = "") -> Chat:
        """Returns the model of this name; "" means the one chosen in the settings."""
        name = model or self.settings.model
        if not name:
            raise UsageError(
                "No language model is chosen. Write one into surefind.toml, such as "
                '[llm] model = "ollama:llama3.2", or name it in the stage: model="openai:gpt-4.1-mini" '
                '(llm="…" in a retriever whose model= names its encoder).'
            )
        with self._lock:
            if name not in self._chats:
                self._chats[name] = self._make(name)
            return self._chats[name]

    @property
    def replays(self) -> bool:
        """Whether unusable answers of an earlier run are taken from the cache instead of asked for again."""
        return _replays.get()

    @contextlib.contextmanager
    def replaying(self) -> Iterator[None]:
        """Makes repeated work identical and free: every cached answer is used, even an unusable one. Searches in other
        threads are not affected."""
        token = _replays.set(True)
        try:
            yield
        finally:
            _replays.reset(token)

    def close(self) -> None:
        with self._lock:  # another thread may be making a chat
            chats = list(self._chats.values())
            self._chats.clear()
        for chat in chats:
            chat.close()
        if self.cache:
            self.cache.close()

    def _make(self, name: str) -> Chat:
        settings = self.settings
        address = parse_model(name, settings.key_env)
        second = settings.fallback
        fallback = self.chat(second) if second and second != name else None
        adapter = _adapter(address, settings)
        return Chat(
            address, adapter, price_of(address, settings.prices), self.meter, self.cache, fallback,
            settings.total_timeout, settings.concurrency,
        )  # fmt: skip


def _adapter(address: Address, settings: LLMSettings) -> Adapter:
    """Makes the adapter; each is imported only when needed, because they depend on different packages."""
    if address.wire == "anthropic":
        from surefind.engine.llm.vendors import AnthropicChat

        return AnthropicChat(address, settings)
    if address.wire == "bedrock":
        from surefind.engine.llm.vendors import BedrockChat

        return BedrockChat(address, settings)
    from surefind.engine.llm.vendors import OpenAIChat

    return OpenAIChat(address, settings)


SECONDS = 2.0
"""Assumed seconds per call until the model has been timed."""


@dataclass(frozen=True)
class CallQuote:
    calls: int = 0
    tokens: int = 0
    dollars: float = 0.0
    minutes: float = 0.0
    unpriced: tuple[str, ...] = ()
    """Models whose price is unknown."""

    def __str__(self) -> str:
        price = f"about ${self.dollars:,.2f}"
        if self.unpriced:
            price += f" plus the cost of {', '.join(self.unpriced)}, which is unknown"
        return f"{self.calls:,} calls, {_round(self.tokens)} tokens, {price}, about {_duration(self.minutes)}"

    @property
    def costs(self) -> bool:
        return self.dollars > 0 or bool(self.unpriced)


def quote(models: Models, planned: Iterable[Calls]) -> CallQuote:
    total = CallQuote()
    for calls in planned:
        chat = models.chat(calls.model)
        seconds = (models.cache.seconds(chat.name) if models.cache else None) or SECONDS
        price = chat.price.of(calls.tokens_in, calls.tokens_out) if chat.price else 0.0
        unpriced = () if chat.price or chat.name in total.unpriced else (chat.name,)
        total = CallQuote(
            total.calls + calls.calls,
            total.tokens + calls.tokens_in + calls.tokens_out,
            total.dollars + price,
            total.minutes + calls.calls * seconds / chat.concurrency / 60,
            total.unpriced + unpriced,
        )
    return total


def _round(count: int) -> str:
    return f"{count / 1e6:.1f}M" if count >= 1_000_000 else f"{count:,}"


def _duration(minutes: float) -> str:
    return f"{minutes * 60:.0f} s" if minutes < 2 else f"{minutes:.0f} minutes"
