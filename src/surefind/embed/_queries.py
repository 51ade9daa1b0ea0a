"""Questions as vectors, by encoders that treat them otherwise than passages and by those that do not."""

from __future__ import annotations

from collections.abc import Sequence

from surefind.protocols import Embedder, QueryEmbedder
from surefind.types import FloatArray


def embed_queries(encoder: Embedder, texts: Sequence[str]) -> FloatArray:
    return encoder.embed_queries(texts) if isinstance(encoder, QueryEmbedder) else encoder.embed(texts)


def query_fingerprint(encoder: Embedder) -> str:
    return encoder.query_fingerprint if isinstance(encoder, QueryEmbedder) else encoder.fingerprint
