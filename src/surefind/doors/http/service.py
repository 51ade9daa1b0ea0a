"""What the routes share: the knowledge base, who calls, limits, and the answers that can be given again."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Iterator
from contextvars import ContextVar
from typing import Annotated, Literal, TypeVar

from fastapi import Depends, Request

from surefind.base.abilities import declared
from surefind.base.access import Access, Caller, Scope
from surefind.base.errors import (
    ForbiddenError,
    NotFoundError,
    NothingIndexedError,
    StoreError,
    SurefindError,
    UsageError,
)
from surefind.base.running import BoundedCache, take_turns
from surefind.base.types import Effort, SearchResult
from surefind.doors.auth.gatekeeper import Gatekeeper
from surefind.doors.auth.keys import FirstKey, Keys
from surefind.doors.auth.sessions import COOKIE, Sessions
from surefind.doors.http.answers import KnownAnswer
from surefind.doors.http.jobs import Jobs
from surefind.doors.http.metrics import Metrics
from surefind.doors.http.search_workers import SearchWorkers, is_local
from surefind.doors.http.turns import Rate, Turns, give_back_soon
from surefind.engine.search.pipeline import Pipeline
from surefind.engine.search.reader import Findings, RequestedSearch, Searcher
from surefind.kb import KnowledgeBase
from surefind.kb.completing import incomplete
from surefind.kb.integrity import remove_damaged
from surefind.kb.settings.config import Settings
from surefind.kb.settings.serve import ServeSettings
from surefind.lab.bench.gate import Preview

LOG = logging.getLogger("surefind.serve")
_MAX_READERS = 3
"""Generations that stay open: earlier ones too, so that a list of hits can be continued after a change."""
_SERVER = Caller("surefind serve", frozenset({"admin"}), frozenset())
"""Who starts jobs that nobody asked for."""
_MAX_FINDINGS = 32
"""Searches whose findings are kept."""
_MAX_PREVIEWS = 50
"""Results of exams about drafts that are kept."""
_MAX_NAMES = 10_000
"""Callers whose turn is known by their key, token or cookie, at most."""
Heavy = Literal["upload", "difference", "preview", "report", "reading", "answer"]
"""Kinds of work that cost more than a plain search: a file is read, texts are compared, exam questions are asked about
a draft, a report or a graph is put together, a model of this machine reads passages, another server is waited for."""
_caller: ContextVar[str] = ContextVar("caller", default="")
"""Who sent the request that is being answered."""
T = TypeVar("T")


class Service:
    """One knowledge base, served."""

    def __init__(
        self,
        kb: KnowledgeBase,
        settings: ServeSettings,
        groups: Iterable[str] = (),
        first_key: FirstKey | None = None,
        workers: SearchWorkers | None = None,
    ) -> None:
        self.kb = kb
        self.workers = workers
        self.settings = settings
        keys = Keys(kb.data)
        self.gatekeeper = Gatekeeper(keys, settings.oidc, settings.host, groups)
        self.first_key = first_key or FirstKey(keys)
        self.sessions = Sessions(kb.data)
        self.metrics = Metrics()
        self.cache = self._empty_cache()
        self.jobs = Jobs(kb.folder, self.metrics, self._job_ended)
        self.rate = Rate(settings.requests_per_minute)
        self._plain = _turns("requests", settings.threads + 1, settings.queue)
        self._signing = _turns("sign-ins", settings.threads + 1, settings.queue)
        self._writing = _turns("writes", 1, settings.queue)
        heavy, share, many = settings.heavy_workers, settings.heavy_per_caller, settings.streams_per_caller
        self._heavy: dict[Heavy, Turns] = {
            "upload": Turns("uploads", heavy, heavy - 1, "heavy_per_caller", share),
            "difference": Turns("differences", heavy, heavy - 1, "heavy_per_caller", share),
            "preview": Turns("previews", 1, 1, "heavy_per_caller", share),  # each holds the writer's lock
            "report": Turns("reports", heavy, heavy - 1, "streams_per_caller", many),
            "reading": Turns("searches that read passages", heavy, heavy - 1, "streams_per_caller", many),
            "answer": Turns("answers", settings.answers, max(1, settings.answers // 2), "streams_per_caller", many),
        }
        self.previews: BoundedCache[tuple[object, ...], Preview] = BoundedCache(_MAX_PREVIEWS)
        """What publishing a draft would do to the exam, by all that it depends on."""
        self._findings: BoundedCache[Hashable, Findings] = BoundedCache(_MAX_FINDINGS)
        self._readers: BoundedCache[int, Searcher] = BoundedCache(_MAX_READERS)
        self._names: BoundedCache[bytes, str] = BoundedCache(_MAX_NAMES)
        """The names of callers who were let in, by a hash of their key, token or cookie."""
        self._lock = threading.Lock()
        self._opening = threading.Lock()

    def _empty_cache(self) -> BoundedCache[Hashable, KnownAnswer]:
        """Returns a cache of answers. A key has the reader, which knows the rules of access, and all arguments (access,
        query, pipeline, sizes): a caller never gets what another group found, and no result outlives its reader."""
        return BoundedCache(self.settings.cache_mb << 20, len)

    async def work(self, do: Callable[[], T]) -> T:
        """Runs work that costs no more than a plain search in a thread. Callers take turns."""
        return await self._plain.run_plain(_caller.get(), do)

    async def write(self, do: Callable[[], T]) -> T:
        """Runs work that changes the knowledge base: one at a time, so that writers do not refuse each other."""
        return await asyncio.shield(self._writing.run_plain(_caller.get(), do))

    async def work_apart(self, kind: Heavy, request: Request, caller: Caller, do: Callable[[], T]) -> T:
        """Runs work that costs more in a thread, apart from other requests. It ends with its request."""
        give_back_soon(request)
        if kind == "answer":
            do = self._reading_in_turns(caller, do)
        return await self._heavy[kind].run(request, caller.name, lambda: self.caller(request, "read"), do)

    async def search_apart(
        self, request: Request, caller: Caller, pipeline: Pipeline, effort: Effort, do: Callable[[], T]
    ) -> T:
        """Runs a search in a thread: with other plain searches, or apart from them if models take part."""
        kind = self._kind(pipeline, effort)
        if kind:
            return await self.work_apart(kind, request, caller, do)
        return await self._plain.run_plain(caller.name, do, request)

    async def answer_apart(
        self, request: Request, caller: Caller, pipeline: Pipeline, quote: bool, do: Callable[[], T]
    ) -> T:
        """Answers a question in a thread, by a language model or by quoting."""
        return await self.work_apart(self._answering(pipeline, quote), request, caller, do)

    def answer_stream(
        self, request: Request, caller: Caller, pipeline: Pipeline, quote: bool, make: Callable[[], Iterator[T]]
    ) -> AsyncIterator[T]:
        """Does what `answer_apart` does, step by step."""
        give_back_soon(request)
        kind = self._answering(pipeline, quote)
        return self._heavy[kind].stream(caller.name, self._reading_in_turns(caller, make) if kind == "answer" else make)

    def _reading_in_turns(self, caller: Caller, do: Callable[[], T]) -> Callable[[], T]:
        """Returns work that takes a place of searches that read whenever a model of this machine reads. There are many
        places for answers, since these wait for another server most of their time."""
        loop, reading = asyncio.get_running_loop(), self._heavy["reading"]

        def held() -> T:
            take_turns(lambda: reading.hold(caller.name, loop))
            return do()

        return held

    def slowness(self, pipeline: Pipeline) -> int:
        """Returns a number that is higher if a pipeline has to wait for more."""
        return (None, "reading", "answer").index(self._kind(pipeline, "quick"))

    def _answering(self, pipeline: Pipeline, quote: bool) -> Heavy:
        return self._kind(pipeline, "read") or "reading" if quote or not self.kb.services.chat_name(None) else "answer"

    def _kind(self, pipeline: Pipeline, effort: Effort) -> Heavy | None:
        """Returns what a search waits for: another server, a model that reads, or nothing but this machine."""
        if pipeline.asks_llm or any(map(_asks_server, (*pipeline.retrieve, *pipeline.rerank))):
            return "answer"
        return "reading" if effort == "read" or pipeline.rerank else None

    async def caller(self, request: Request, scope: Scope) -> Caller:
        """Returns who calls. Raises an error if the caller is unknown, lacks the scope or calls too often. The guard
        asks before a body is read, and the route after that, since a key may be revoked meanwhile; the request counts
        once."""
        header = request.headers.get("authorization")
        given = header if header is not None else self.sessions.authorization(request.cookies.get(COOKIE))
        known = await self.identify(request, given)
        if not self.gatekeeper.lets_everybody_in:
            self._names.put(_credential(request), known.name)
        counted = hasattr(request.state, "caller")
        request.state.caller = known
        _caller.set(known.name)
        if not counted:
            self.rate.check(known.name)
        known.require(scope)
        return known

    def name(self, request: Request) -> str:
        """Returns whose turn a request takes: the name that its key, token or session had when it was last let in, or
        the address if it never was. It reads no file and checks no signature; nobody is let in by it."""
        name = (
            self._names.get(_credential(request)) or f" {_address(request)}"
        )  # no name of a caller begins with a blank
        _caller.set(name)
        return name

    async def identify(self, request: Request, authorization: str | None) -> Caller:
        """Returns whose key or token this is. Raises `NotAuthenticatedError`."""
        address = _address(request)
        if self.gatekeeper.needs_network(authorization):  # no caller who is known waits for it
            return await self._signing.run_plain(address, lambda: self.gatekeeper.caller(authorization, address))
        return self.gatekeeper.caller(authorization, address)

    def reader(self) -> Searcher:
        """Returns the reader of the current generation."""
        settings = self.kb.settings
        current = self.kb.reader()
        self.metrics.generation.set(current.generation)
        self._remember(current, settings)
        return current

    def reader_for(self, caller: Caller, generation: int | None) -> Searcher:
        """Returns the reader of the current generation, or of an earlier one that is still open or kept. An earlier one
        is gone for a caller who could read a document there that was removed or restricted since."""
        settings, current = self.kb.settings, self.reader()
        if generation is None or generation == current.generation:
            return current
        gone = NotFoundError(
            f"Generation {generation} is gone: the documents have changed since. Search again from the first hit."
        )
        with self._opening:  # opening takes long, so that callers must not open the same one side by side
            opened = self._readers.get(generation)
            if opened is None:
                try:
                    opened = self.kb.reader_of(generation)
                except (StoreError, UsageError):
                    raise gone from None
            self._remember(opened, settings)
        if generation < current.generation and not _readable(opened, caller) <= _readable(current, caller):
            raise gone
        return opened

    def search(self, reader: Searcher, asked: RequestedSearch) -> KnownAnswer:
        """Does what `reader.search` does, in another process if there are some, unless the answer is known."""
        key = reader.serial, str(asked.pipeline), *asked[:2], *asked[3:]
        known = self.cache.get(key)
        self.metrics.cache.labels("miss" if known is None else "hit").inc()
        if known is not None:
            return known
        began = time.perf_counter()
        result = self._searched(reader, asked)
        self.metrics.search.labels(asked.pipeline.name or "spec").observe(time.perf_counter() - began)
        answer = KnownAnswer(result)
        small = len(answer) <= self.settings.cache_mb << 17  # an eighth of the cache
        if small and not result.waiting_for:  # it says how far the indexes are
            self.cache.put(key, answer)
        return answer

    def _searched(self, reader: Searcher, asked: RequestedSearch) -> SearchResult:
        """Searches, in another process if there are some and no large model takes part. What was found here is kept for
        a moment: a page asks a second time, how sure that is, and nothing is searched or paid for twice."""
        if self.workers and asked.confidence != "read" and is_local(asked.pipeline, self.kb.settings):
            return self.workers.search(reader, self.kb.settings, asked)
        key = reader.serial, str(asked.pipeline), asked.query, asked.access, *asked[3:6], asked.history
        findings = self._findings.get(key)
        if findings is None:
            findings = self._findings.put(key, reader.find(*asked[:6], asked.history))
        return findings.result(asked.min_confidence, asked.confidence)

    def warm(self) -> None:
        """Searches once with the bundled parts, so that the first visitor does not wait for them to load. Stages that
        may ask a service are not tried: that could cost money."""
        with contextlib.suppress(SurefindError):
            here = [retriever for retriever in self.kb.pipeline().retrieve if declared(retriever).runs_here]
            if here:
                effort = self.kb.settings.effort(person=True)
                self.kb.reader().search("first", Access.public(), Pipeline(tuple(here[-1:])), 1, confidence=effort)

    def readable(self, caller: Caller) -> set[str]:
        """Returns the documents that the caller may read now: none before the first one is published."""
        try:
            return _readable(self.reader(), caller)
        except NothingIndexedError:
            return set()

    def reload(self) -> bool:
        """Reads surefind.toml again, and returns whether the settings have changed. What was computed under the earlier
        ones is forgotten: access rules may have changed."""
        before = self.kb.settings
        try:
            return self.kb.reload()
        finally:
            if self.kb.settings is not before:
                self.cache, self._findings = self._empty_cache(), BoundedCache(_MAX_FINDINGS)
                with self._lock:
                    self._readers = BoundedCache(_MAX_READERS)

    async def _job_ended(self, kind: str, state: str) -> None:
        """Uses the settings that a job wrote, or that were waiting for the indexes that it built, and opens the
        generation that it made: who reads that a job is done sees what it did."""
        if state == "finished" and kind in ("sync", "adopt", "publish", "retire", "complete"):
            try:
                await self.work(self.reload)
                await self.work(self.kb.refresh)
            except SurefindError as error:
                LOG.warning("The new settings are not used yet: %s", error)
            if kind != "complete":  # it may have ended because another process does the same
                await self.complete()

    def remove_damaged(self) -> None:
        """Compares the indexes with their checksums, which opening them does not. A damaged one is removed, and
        `complete` makes it again, if documents are found by their words without it."""
        with contextlib.suppress(NothingIndexedError):
            try:
                _, removed = remove_damaged(self.kb)
            except (SurefindError, OSError) as error:
                LOG.error("The indexes in %s could not be checked: %s", self.kb.data, error)
                return
            if removed:
                self.kb.refresh()
                listed = ", ".join(removed)
                LOG.error("Damaged and removed in %s: %s. Run: surefind sync", self.kb.data / "indexes", listed)

    async def complete(self) -> None:
        """Goes on with the indexes that documents still wait for, in a job with a low priority."""
        with contextlib.suppress(SurefindError):
            if self.kb.settings.store.backend == "local" and await self.work(lambda: bool(incomplete(self.kb))):
                await self.jobs.start(_SERVER, "complete", {})

    def _remember(self, reader: Searcher, settings: Settings) -> None:
        """Keeps a reader open, unless the settings have changed since it was asked for: it knows their access rules."""
        with self._lock:
            if settings is self.kb.settings:
                self._readers.put(reader.generation, reader)

    def pipelines(self) -> list[str]:
        """The names of the pipelines whose indexes are built; all of them before there are documents."""
        try:
            view = self.reader().view
        except NothingIndexedError:
            return list(self.kb.settings.known)
        awaited = self.kb.settings.pipelines  # searches go without what these still lack
        return [
            name
            for name, pipeline in self.kb.settings.known.items()
            if name in awaited or not view.missing(pipeline.retrieve)
        ]

    def pipeline(self, name: str | None, caller: Caller) -> Pipeline:
        """Returns a pipeline by its name. A spec can name files and servers, so only admins may send one."""
        known = self.kb.settings.known
        if name is None or name in known:
            return self.kb.pipeline(name)
        if not caller.may("admin"):
            raise ForbiddenError(f"There is no pipeline of this name. Choices: {', '.join(known)}.")
        return self.kb.pipeline(name)


def _asks_server(stage: object) -> bool:
    """Returns whether a retriever or reranker may wait for another server: for a model, or for a whole reranker."""
    about = declared(stage)
    remote = not about.runs_here and (about.server is not None or hasattr(stage, "model"))
    return remote or (about.inner is not None and _asks_server(about.inner))


def _credential(request: Request) -> bytes:
    """Returns a hash of what a request is let in by: no key stays in memory."""
    given = request.headers.get("authorization")
    text = f"key {given}" if given is not None else f"session {request.cookies.get(COOKIE)}"
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


def _turns(what: str, places: int, per_caller: int) -> Turns:
    """Returns places of which one is kept for other callers, if there are several."""
    return Turns(what, places, max(1, places - 1), "queue", per_caller)


def _readable(reader: Searcher, caller: Caller) -> set[str]:
    return {document_id for document_id, _ in reader.view.readable(caller.access())}


async def _service_of(request: Request) -> Service:
    """Returns the service. FastAPI calls a plain function in a thread, which costs more than all that this does."""
    service: Service = request.app.state.service
    return service


Served = Annotated[Service, Depends(_service_of)]
"""The service, as a parameter of a route."""
