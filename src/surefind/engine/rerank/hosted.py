"""`hosted(api=cohere | jina | voyage, model=…)`: a reranking service behind HTTP, blended like `cross_encoder`.

Each query takes one request, with the query and the first `top` passages; the answer is a score for each:

    cohere   POST /v2/rerank  {model, query, documents, top_n}                     {results: [{index, relevance_score}]}
    jina     POST /v1/rerank  {model, query, documents, top_n, return_documents}   {results: [{index, relevance_score}]}
    voyage   POST /v1/rerank  {model, query, documents, top_k}                     {data: [{index, relevance_score}]}

vLLM, llama.cpp, Infinity and others offer the `jina` form at an address of your own: `url=`. Keys come from the
environment only. Anything but a finite score for every passage is an error, and then the previous ranking is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

import numpy as np

from surefind.base.errors import SurefindError
from surefind.base.protocols import Passages, Services
from surefind.base.running import shared, spend
from surefind.base.spec import Stage, require
from surefind.base.types import Chunk, Floats, Query, Rankings
from surefind.engine.inference.cross_encoder import title_of
from surefind.engine.net.batches import BYTES_PER_TOKEN, sendable
from surefind.engine.net.endpoint import Endpoint
from surefind.engine.net.trust import is_local, refuse_secrets
from surefind.engine.rerank._rescore import Blend, cached_scorer

_TYPICAL_PASSAGE = 300
"""Assumed tokens of a passage, used to estimate the price before anything is sent."""


@dataclass(frozen=True)
class _Api:
    url: str
    key_env: str
    model: str
    rows: str
    """The field of the answer that holds the scores."""
    limit: str
    """The field of the request that holds the number of scores to return."""
    price: float
    """Dollars per unit of the API: a thousand requests, or a million tokens."""
    per_request: bool = False


_APIS = {
    "cohere": _Api(
        "https://api.cohere.com/v2/rerank", "COHERE_API_KEY", "rerank-v3.5", "results", "top_n", 2.0, per_request=True
    ),
    "jina": _Api(
        "https://api.jina.ai/v1/rerank", "JINA_API_KEY", "jina-reranker-v2-base-multilingual", "results", "top_n", 0.02
    ),
    "voyage": _Api("https://api.voyageai.com/v1/rerank", "VOYAGE_API_KEY", "rerank-2.5", "data", "top_k", 0.05),
}


@dataclass(frozen=True)
class Hosted(Stage):
    kind: ClassVar[str] = "rerank"
    name: ClassVar[str] = "hosted"

    api: Literal["cohere", "jina", "voyage"] = "cohere"
    model: str = ""
    """Empty means the API's default model when this was written."""
    url: str = ""
    key_env: str | None = None
    """The environment variable that holds the key; None means the API's usual one, "" a server without keys."""
    top: int = 20
    keep: int = 10
    blend: float = 0.5
    price: float | None = None
    """Dollars per thousand requests (cohere) or per million tokens (jina, voyage). None means the list price, or 0 for
    a server on this machine."""
    max_characters: int = 8_000
    """Longer passages are cut."""
    concurrency: int = 8
    """Requests that run at the same time if many queries are reranked, as in a benchmark."""
    timeout: float = 10.0
    retries: int = 3

    def __post_init__(self) -> None:
        refuse_secrets(self.name, self.url, self.key_env or "")
        address = urlsplit(self._url)
        require(address.scheme in ("http", "https") and bool(address.hostname), self, "url must begin with https://")
        require(self.price is None or self.price >= 0, self, "price must be 0 or more")
        require(self.max_characters > 0, self, "max_characters must be above 0")
        require(1 <= self.concurrency <= 64, self, "concurrency must be from 1 to 64")
        require(self.timeout > 0, self, "timeout must be above 0")
        require(0 <= self.retries <= 20, self, "retries must be from 0 to 20")
        self._blend()

    @property
    def cost_per_1k(self) -> float:
        """Dollars per 1,000 queries, for passages of typical length."""
        return 1000 * self._dollars(self.top * _TYPICAL_PASSAGE)

    def rerank(
        self, queries: Sequence[Query], rankings: Rankings, passages: Passages, k: int, services: Services
    ) -> Rankings:
        self._endpoint()  # raises before anything is scored if httpx is missing
        model = _RerankService(self, services)
        scorer = cached_scorer(model, services) if len(queries) > 1 else model.score
        return self._blend().rerank(queries, rankings, passages, k, self.name, scorer, self.concurrency)

    def _blend(self) -> Blend:
        return Blend.of(self, self.top, self.keep, self.blend)

    @property
    def _url(self) -> str:
        return self.url or _APIS[self.api].url

    def _dollars(self, tokens: float) -> float:
        api = _APIS[self.api]
        price = self.price if self.price is not None else 0.0 if is_local(self._url) else api.price
        return price / 1000 if api.per_request else price * tokens / 1e6

    @property
    def server(self) -> tuple[str, str]:
        return self._url, self.key_env if self.key_env is not None else _APIS[self.api].key_env

    def _endpoint(self) -> Endpoint:
        limits = self.timeout, self.retries
        advice = "Check model, or lower top."
        return shared((*self.server, *limits), lambda: Endpoint(*self.server, *limits, advice=advice))


class _RerankService:
    """Scores passages with the service, and counts the cost."""

    def __init__(self, stage: Hosted, services: Services) -> None:
        self._stage = stage
        self._api = _APIS[stage.api]
        self._model = stage.model or self._api.model
        self._meter = services.meter

    @property
    def identity(self) -> str:
        return f"hosted:{self._stage._url}:{self._model}:{self._stage.max_characters}"

    def score(self, query: str, passages: Sequence[Chunk]) -> Floats:
        longest = self._stage.max_characters
        documents = [sendable(f"{title_of(chunk)}\n{chunk.text}".strip(), longest) for chunk in passages]
        sent_query = sendable(query, longest)
        tokens = sum(len(text.encode()) for text in (sent_query, *documents)) / BYTES_PER_TOKEN
        dollars = self._stage._dollars(tokens)
        self._meter.reserve(dollars)
        try:
            answer = self._stage._endpoint().post(self._body(sent_query, documents))
            used = _tokens(answer) or round(tokens)
            # before the reserved money is released
            self._meter.count(used, 0, self._stage._dollars(used), cached=False)
        finally:
            self._meter.release(dollars)
        spend(1, used, 0, self._stage._dollars(used))
        return self._scores(answer, len(documents))

    def _body(self, query: str, documents: list[str]) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self._model, "query": query, "documents": documents}
        body[self._api.limit] = len(documents)
        return {**body, "return_documents": False} if self._stage.api == "jina" else body

    def _scores(self, answer: Any, count: int) -> Floats:
        rows = answer.get(self._api.rows) if isinstance(answer, Mapping) else None
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise self._bad(f"gave JSON without {self._api.rows}", "Check that the server at url offers this api.")
        places = [row.get("index") for row in rows]
        if any(type(place) is not int for place in places) or sorted(places) != list(range(count)):
            raise self._bad(f"gave {len(rows)} scores for {count} passages, or numbered them wrongly", "Lower top.")
        try:
            scores = np.array([float(rows[i]["relevance_score"]) for i in np.argsort(places)])
        except (KeyError, TypeError, ValueError):
            scores = np.array([np.nan])
        if not np.isfinite(scores).all():
            raise self._bad("gave scores that are not finite numbers", "Check model, or try another server.")
        return scores

    def _bad(self, what: str, advice: str) -> SurefindError:
        return SurefindError(f"{self._stage._url} (model {self._model}) {what}. {advice}")


def _tokens(answer: Any) -> int:
    """The tokens that the service reports; 0 if it reports none."""
    usage = answer.get("usage") if isinstance(answer, Mapping) else None
    total = usage.get("total_tokens") if isinstance(usage, Mapping) else None
    return total if isinstance(total, int) and total > 0 else 0
