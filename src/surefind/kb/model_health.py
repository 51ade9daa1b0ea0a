"""Whether the models that the pipelines use can be used: encoders, rerankers and language models.

Nothing is sent to a server and no token is spent: a server is reachable if it accepts a connection, and its key is
there if the environment variable is set. Models on this machine are opened, and an encoder reads a few words.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal
from urllib.parse import urlsplit
from urllib.request import getproxies

from surefind.base import spec
from surefind.base.abilities import declared
from surefind.base.errors import SurefindError
from surefind.base.redact import redacted
from surefind.engine.llm.address import parse_model
from surefind.engine.net import trust
from surefind.kb import KnowledgeBase
from surefind.kb.status import models_of

_SECONDS = 2.0
"""How long to wait for a server."""
State = Literal["ok", "failed", "unknown"]


@dataclass(frozen=True)
class ModelHealth:
    """One model, and whether it can be used."""

    kind: str
    """`encoder`, `reranker` or `language model`."""
    name: str
    state: State
    says: str


def model_health(kb: KnowledgeBase) -> list[ModelHealth]:
    """Checks each model that the pipelines of the settings use, one after the other."""
    return [_checked(kind, name, check) for kind, name, check in _checks(kb)]


Check = Callable[[], tuple[State, str]]


def _checks(kb: KnowledgeBase) -> Iterator[tuple[str, str, Check]]:
    models = models_of(kb.settings)
    for name in models.get("encoder", []):
        yield "encoder", name, partial(_encoder, name, kb)
    rerankers = {str(stage): stage for pipeline in kb.settings.pipelines.values() for stage in pipeline.rerank}
    for name, stage in rerankers.items():
        yield "reranker", name, partial(_reranker, stage, kb)
    for name in models.get("language model", []):
        yield "language model", name, partial(_language_model, name, kb)


def _checked(kind: str, name: str, check: Check) -> ModelHealth:
    try:
        state, says = check()
    except SurefindError as error:
        state, says = "failed", str(error)
    except Exception as error:  # a package that is missing or broken, as the doctor reports it
        state, says = "failed", f"It cannot be used: {error}"
    return ModelHealth(kind, redacted(name), state, redacted(says))


def _encoder(name: str, kb: KnowledgeBase) -> tuple[State, str]:
    stage = spec.make("embed", name)
    inner = getattr(stage, "models", ()) or ([stage.model] if stage.name == "prefixed" else [])
    if inner:
        states = [_encoder(part, kb) for part in inner]
        return next((state for state in states if state[0] != "ok"), states[0])
    if server := declared(stage).server:
        return reachable(*server)
    if hasattr(stage, "price_per_million"):
        return "unknown", "It was not asked, because that would cost money."
    began = time.perf_counter()
    vector = kb.services.embedder(name).embed(["does it work?"])
    return "ok", f"It made a vector of {vector.shape[1]} dimensions in {_ms(began)}."


def _reranker(stage: object, kb: KnowledgeBase) -> tuple[State, str]:
    stage_abilities = declared(stage)
    if stage_abilities.inner:
        return _reranker(stage_abilities.inner, kb)
    if stage_abilities.server:
        return reachable(*stage_abilities.server)
    if stage_abilities.runs_here and stage_abilities.stamp(kb.services):
        return "ok", "Its files are there."
    return "unknown", "It is checked when it is used."


def _language_model(name: str, kb: KnowledgeBase) -> tuple[State, str]:
    address = parse_model(name, kb.settings.llm.key_env)
    if address.wire == "bedrock":
        return "unknown", "It was not asked, because that would cost money."
    return reachable(address.url, address.key_env)


def reachable(url: str, key_env: str) -> tuple[State, str]:
    """Says whether a server may be asked, has its key, and accepts a connection. Sends nothing."""
    trust.check(url, key_env)
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    local = trust.is_local(url)
    if key_env and not os.environ.get(key_env) and not local:
        return "failed", f"The environment variable {key_env} with its key is not set."
    if not local and parts.scheme in getproxies():
        return "unknown", "It was not asked, because requests go through a proxy."
    began = time.perf_counter()
    try:
        socket.create_connection((host, port), _SECONDS).close()
    except OSError as error:
        return "failed", f"{host}:{port} cannot be reached ({error.strerror or error})."
    return "ok", f"{host}:{port} answers in {_ms(began)}. Nothing was sent."


def _ms(began: float) -> str:
    return f"{1000 * (time.perf_counter() - began):.0f} ms"
