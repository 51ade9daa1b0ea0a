"""`bedrock(model=amazon.titan-embed-text-v2:0, region=…)`: Titan text embeddings on Amazon Bedrock.

The model takes one text per call (`inputText`, `dimensions`, `normalize`), so several calls run at once. The client,
retries and errors come from `surefind.engine.net.bedrock`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from surefind.base.errors import SurefindError
from surefind.base.protocols import Progress
from surefind.base.running import Workers, shared
from surefind.base.spec import Stage, require
from surefind.base.types import FloatArray
from surefind.engine.net.batches import quote, sendable, unit_rows
from surefind.engine.net.bedrock import bedrock_client, explained

_ADVICE = {
    "ThrottlingException": "Lower concurrency. Run it again later: finished batches are in the cache.",
    "ValidationException": "Check model, dimensions (256, 512 or 1024 for Titan v2) and max_characters.",
}

_MAX_ANSWER_BYTES = 4_000_000
"""Bytes of an answer that are read: a vector has less."""


@dataclass(frozen=True)
class Bedrock(Stage):
    kind: ClassVar[str] = "embed"
    name: ClassVar[str] = "bedrock"

    model: str = "amazon.titan-embed-text-v2:0"
    region: str | None = None
    """None means the region of the AWS configuration."""
    dimensions: int = 1024
    normalize: bool = True
    """Whether to ask the model for unit vectors; vectors are scaled to unit length in any case."""
    max_characters: int = 20_000
    """Longer texts are cut."""
    price_per_million: float = 0.02
    """Dollars per million tokens."""
    concurrency: int = 8
    timeout: float = 60.0
    retries: int = 5

    def __post_init__(self) -> None:
        require(bool(self.model), self, "model must be named")
        require(self.dimensions > 0, self, "dimensions must be above 0")
        require(0 < self.max_characters <= 50_000, self, "max_characters must be from 1 to 50000")
        require(self.price_per_million >= 0, self, "price_per_million must be 0 or more")
        require(1 <= self.concurrency <= 64, self, "concurrency must be from 1 to 64")
        require(self.timeout > 0, self, "timeout must be above 0")
        require(0 <= self.retries <= 20, self, "retries must be from 0 to 20")

    @property
    def dimension(self) -> int:
        return self.dimensions

    @property
    def fingerprint(self) -> str:
        return f"bedrock:{self.model}:{self.dimensions}:{self.normalize}:{self.max_characters}"

    def embed(self, texts: Sequence[str], progress: Progress | None = None) -> FloatArray:
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        if not texts:
            return vectors
        client = _client(self)
        with Workers(self.concurrency) as workers:
            for i, vector in enumerate(workers.map(lambda text: self._one(client, text), self._sent(texts))):
                vectors[i] = vector
                if progress:
                    progress(i + 1, len(texts))
        return vectors

    def cost(self, texts: Sequence[str]) -> float:
        """Estimates the dollars for embedding these texts; sends nothing."""
        return quote(self._sent(texts), self.price_per_million)

    def _sent(self, texts: Sequence[str]) -> list[str]:
        return [sendable(text, self.max_characters) for text in texts]

    def _one(self, client: Any, text: str) -> FloatArray:
        body = {"inputText": text, "dimensions": self.dimensions, "normalize": self.normalize}
        content = self._invoke(client, json.dumps(body))
        try:
            vectors = unit_rows([json.loads(content)["embedding"]])
        except (ValueError, KeyError, TypeError):
            vectors = None
        if vectors is None or vectors.shape[1] != self.dimensions:
            raise SurefindError(
                f"Bedrock (model {self.model}) gave no vector of {self.dimensions} finite numbers. "
                f"Check model and dimensions."
            )
        return np.asarray(vectors[0])

    def _invoke(self, client: Any, body: str) -> bytes:
        with explained(self.model, _ADVICE, "Check region and network; finished batches are in the cache."):
            answer = client.invoke_model(
                modelId=self.model, body=body, contentType="application/json", accept="application/json"
            )
            return bytes(answer["body"].read(_MAX_ANSWER_BYTES))


def _client(stage: Bedrock) -> Any:
    set_region = "Write it like 'bedrock(region=us-east-1)'."
    limits = stage.timeout, stage.retries, stage.concurrency
    return shared(stage, lambda: bedrock_client("The encoder bedrock needs", set_region, *limits, stage.region))
