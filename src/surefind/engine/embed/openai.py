"""`openai(model=…, url=…)`: any server that speaks OpenAI's `/embeddings`.

OpenAI, Azure OpenAI, Voyage, Gemini's compatible address, Ollama, vLLM, the llama.cpp server. The request is
`{"model", "input"}`, plus `dimensions` if given, and nothing that one of these servers refuses (OpenAI's own client
asks for base64, which vLLM and several gateways refused). docs/embedding-models.md has a recipe for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import urlsplit

import numpy as np

from surefind.base.errors import SurefindError
from surefind.base.protocols import Progress
from surefind.base.running import shared
from surefind.base.spec import Stage, require
from surefind.base.types import FloatArray
from surefind.engine.net.batches import batches, quote, sendable, unit_rows
from surefind.engine.net.endpoint import Endpoint
from surefind.engine.net.trust import refuse_secrets

_REQUEST_CHARACTERS = 200_000
"""Most characters in a request. OpenAI takes 300,000 tokens in a request, Voyage 120,000."""
_ADVICE = "Check model; lower batch or max_characters; leave dimensions at 0 if the model has one size only."


@dataclass(frozen=True)
class OpenAI(Stage):
    kind: ClassVar[str] = "embed"
    name: ClassVar[str] = "openai"

    model: str = "text-embedding-3-small"
    url: str = "https://api.openai.com/v1"
    key_env: str = "OPENAI_API_KEY"
    """The environment variable that holds the key; "" for none. If it is unset, a local server gets no key."""
    dimensions: int = 0
    """Length of vector to ask for, from models that can shorten their vectors; 0 means the model's own length."""
    batch: int = 128
    max_characters: int = 20_000
    """Longer texts are cut."""
    price_per_million: float = 0.02
    """Dollars per million tokens. The default is the price of the default model; set it for another model."""
    requests_per_minute: int = 0
    timeout: float = 60.0
    retries: int = 5

    def __post_init__(self) -> None:
        refuse_secrets(self.name, self.url, self.key_env)
        address = urlsplit(self.url)
        require(address.scheme in ("http", "https") and bool(address.hostname), self, "url must begin with https://")
        require(bool(self.model), self, "model must be named")
        require(self.dimensions >= 0, self, "dimensions must be 0 or more")
        require(1 <= self.batch <= 2048, self, "batch must be from 1 to 2048")
        require(self.max_characters > 0, self, "max_characters must be above 0")
        require(self.price_per_million >= 0, self, "price_per_million must be 0 or more")
        require(self.requests_per_minute >= 0, self, "requests_per_minute must be 0 (no limit) or more")
        require(self.timeout > 0, self, "timeout must be above 0")
        require(0 <= self.retries <= 20, self, "retries must be from 0 to 20")

    @property
    def server(self) -> tuple[str, str]:
        return self.url, self.key_env

    @property
    def dimension(self) -> int:
        """The given dimensions, or the length of the vectors received; one word is sent if there are none yet."""
        return self.dimensions or _state(self).dimension()

    @property
    def fingerprint(self) -> str:
        return f"openai:{self.url.partition('?')[0].rstrip('/')}:{self.model}:{self.dimensions}:{self.max_characters}"

    def embed(self, texts: Sequence[str], progress: Progress | None = None) -> FloatArray:
        if not texts:
            return np.zeros((0, self.dimension), np.float32)
        parts: list[FloatArray] = []
        done = 0
        for batch in batches(self._sent(texts), self.batch, _REQUEST_CHARACTERS):
            parts.append(_state(self).request(batch))
            done += len(batch)
            if progress:
                progress(done, len(texts))
        return np.concatenate(parts)

    def cost(self, texts: Sequence[str]) -> float:
        """Estimates the dollars for embedding these texts; sends nothing."""
        return quote(self._sent(texts), self.price_per_million)

    def _sent(self, texts: Sequence[str]) -> list[str]:
        return [sendable(text, self.max_characters) for text in texts]


class _EndpointState:
    """The connection of a stage, and the length of its vectors once it is known."""

    def __init__(self, stage: OpenAI) -> None:
        self._stage = stage
        self._width = stage.dimensions
        self._endpoint = Endpoint(
            _address(stage.url), stage.key_env, stage.timeout, stage.retries, stage.requests_per_minute, advice=_ADVICE
        )

    def dimension(self) -> int:
        if not self._width:
            self.request(["dimension"])
        return self._width

    def request(self, texts: list[str]) -> FloatArray:
        body: dict[str, Any] = {"model": self._stage.model, "input": texts}
        if self._stage.dimensions:
            body["dimensions"] = self._stage.dimensions
        vectors = self._vectors(self._endpoint.post(body, max_bytes=_bytes_of(len(texts))), len(texts))
        width = vectors.shape[1]
        if self._width and width != self._width:
            advice = "Leave dimensions at 0." if self._stage.dimensions else "Has the server's model changed?"
            raise self._bad(f"gave vectors of {width} numbers instead of {self._width}", advice)
        self._width = width
        return vectors

    def close(self) -> None:
        self._endpoint.close()

    def _vectors(self, answer: Any, count: int) -> FloatArray:
        rows = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(rows, list) or not all(isinstance(row, dict) and "embedding" in row for row in rows):
            raise self._bad("gave JSON without embeddings", "Check that url is an OpenAI-compatible address.")
        if len(rows) != count:
            raise self._bad(f"gave {len(rows)} vectors for {count} texts", "Lower batch.")
        places = [row.get("index", i) for i, row in enumerate(rows)]
        if any(type(place) is not int for place in places) or sorted(places) != list(range(count)):
            raise self._bad("numbered its vectors wrongly", "Lower batch to 1.")
        vectors = unit_rows([rows[i]["embedding"] for i in np.argsort(places)])
        if vectors is None:
            raise self._bad("gave vectors that are not lists of finite numbers", "Check model, or try another server.")
        return vectors

    def _bad(self, what: str, advice: str) -> SurefindError:
        return SurefindError(f"{self._endpoint.url} (model {self._stage.model}) {what}. {advice}")


def _state(stage: OpenAI) -> _EndpointState:
    return shared(stage, lambda: _EndpointState(stage))


def _bytes_of(texts: int) -> int:
    """The most bytes of the vectors of so many texts: 8,192 numbers of 25 digits each."""
    return 1_000_000 + texts * 8_192 * 25


def _address(url: str) -> str:
    """The URL with `/embeddings` before Azure's `?api-version=…`."""
    base, mark, version = url.partition("?")
    return base.rstrip("/").removesuffix("/embeddings") + "/embeddings" + mark + version
