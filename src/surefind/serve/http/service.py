"""What the routes share: the knowledge base, who calls, limits, and the answers that can be given again."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Hashable, Iterable
from typing import Annotated, Literal, TypeVar

import anyio
from anyio import to_thread
from fastapi import Depends, Request

from surefind.abilities import declared
from surefind.access import Access, Scope
from surefind.bench.preview import Preview
from surefind.errors import ForbiddenError, NotFoundError, NothingIndexedError, StoreError, SurefindError, UsageError
from surefind.kb import KnowledgeBase
from surefind.running.cache import BoundedCache
from surefind.search.pipeline import Pipeline
from surefind.search.reader import RequestedSearch, Searcher
from surefind.serve.auth.caller import Caller
from surefind.serve.auth.first_key import FirstKey
from surefind.serve.auth.gatekeeper import Gatekeeper
from surefind.serve.auth.keys import Keys
from surefind.serve.auth.sessions import COOKIE, Sessions
from surefind.serve.http.answers import KnownAnswer
from surefind.serve.http.heavy import HeavyWork
from surefind.serve.http.jobs import Jobs
from surefind.serve.http.metrics import Metrics
from surefind.serve.http.rate import Rate
from surefind.serve.http.search_workers import SearchWorkers
from surefind.settings.config import Settings
from surefind.settings.serve import ServeSettings

LOG = logging.getLogger("surefind.serve")
_MAX_READERS = 3
"""Generations that stay open: earlier ones too, so that a list of hits can be continued after a change."""
_MAX_PREVIEWS = 50
"""Results of exams about drafts that are kept."""
Heavy = Literal["upload", "difference", "preview"]
"""Kinds of requests that take long: a file is read, texts are compared, exam questions are asked about a draft."""
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
        self._working = anyio.CapacityLimiter(settings.threads)
        self._writing = anyio.CapacityLimiter(1)
        heavy, share = settings.heavy_workers, settings.heavy_per_caller
        self._heavy: dict[Heavy, HeavyWork] = {
            "upload": HeavyWork("uploads", heavy, share),
            "difference": HeavyWork("differences", heavy, share),
            "preview": HeavyWork("previews", 1, share),  # each holds the writer's lock
        }
        self.previews: BoundedCache[tuple[object, ...], Preview] = BoundedCache(_MAX_PREVIEWS)
        """What publishing a draft would do to the exam, by all that it depends on."""
        self._readers: BoundedCache[int, Searcher] = BoundedCache(_MAX_READERS)
        self._lock = threading.Lock()
        self._opening = threading.Lock()

    def _empty_cache(self) -> BoundedCache[Hashable, KnownAnswer]:
        """Returns a cache of answers. A key has the reader, which knows the rules of access, and all arguments (access,
        query, pipeline, sizes): a caller never gets what another group found, and no result outlives its reader."""
        return BoundedCache(self.settings.cache_mb << 20, len)

    async def work(self, do: Callable[[], T]) -> T:
        """Runs blocking work in a thread. Others wait for their turn."""
        return await to_thread.run_sync(do, limiter=self._working, abandon_on_cancel=True)

    async def write(self, do: Callable[[], T]) -> T:
        """Runs work that changes the knowledge base: one at a time, so that writers do not refuse each other."""
        return await to_thread.run_sync(do, limiter=self._writing)

    async def work_apart(self, kind: Heavy, request: Request, caller: Caller, do: Callable[[], T]) -> T:
        """Runs work that takes long in a thread, apart from other requests. It ends with its request."""
        return await self._heavy[kind].run(request, caller.name, lambda: self.caller(request, "read"), do)

    async def caller(self, request: Request, scope: Scope) -> Caller:
        """Returns who calls. Raises an error if the caller is unknown, lacks the scope or calls too often. The guard
        asks before a body is read, and the route after that, since a key may be revoked meanwhile; the request counts
        once."""
        header = request.headers.get("authorization")
        given = header if header is not None else self.sessions.authorization(request.cookies.get(COOKIE))
        known = await self.identify(request, given)
        counted = hasattr(request.state, "caller")
        request.state.caller = known
        if not counted:
            self.rate.check(known.name)
        known.require(scope)
        return known

    async def identify(self, request: Request, authorization: str | None) -> Caller:
        """Returns whose key or token this is. Raises `NotAuthenticatedError`."""
        address = request.client.host if request.client else ""
        if self.settings.oidc is None:
            return self.gatekeeper.caller(authorization, address)
        # A token may need the keys of its provider, from the network.
        return await self.work(lambda: self.gatekeeper.caller(authorization, address))

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
        result = self.workers.search(reader, self.kb.settings, asked) if self.workers else reader.search(*asked)
        self.metrics.search.labels(asked.pipeline.name or "spec").observe(time.perf_counter() - began)
        answer = KnownAnswer(result)
        if len(answer) <= self.settings.cache_mb << 17:  # an eighth of the cache
            self.cache.put(key, answer)
        return answer

    def warm(self) -> None:
        """Searches once with the bundled parts, so that the first visitor does not wait for them to load. Stages that
        may ask a service are not tried: that could cost money."""
        with contextlib.suppress(SurefindError):
            here = [retriever for retriever in self.kb.pipeline().retrieve if declared(retriever).runs_here]
            if here:
                effort = self.kb.settings.confidence
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
                self.cache = self._empty_cache()
                with self._lock:
                    self._readers = BoundedCache(_MAX_READERS)

    async def _job_ended(self, kind: str, state: str) -> None:
        """Uses the settings that a job wrote, or that were waiting for the indexes that it built, and opens the
        generation that it made: who reads that a job is done sees what it did."""
        if state == "finished" and kind in ("sync", "adopt", "publish", "retire"):
            try:
                await self.work(self.reload)
                await self.work(self.kb.refresh)
            except SurefindError as error:
                LOG.warning("The new settings are not used yet: %s", error)

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
        return [name for name, pipeline in self.kb.settings.known.items() if not view.missing(pipeline.retrieve)]

    def pipeline(self, name: str | None, caller: Caller) -> Pipeline:
        """Returns a pipeline by its name. A spec can name files and servers, so only admins may send one."""
        known = self.kb.settings.known
        if name is None or name in known:
            return self.kb.pipeline(name)
        if not caller.may("admin"):
            raise ForbiddenError(f"There is no pipeline of this name. Choices: {', '.join(known)}.")
        return self.kb.pipeline(name)


def _readable(reader: Searcher, caller: Caller) -> set[str]:
    return {document_id for document_id, _ in reader.view.readable(caller.access())}


async def _service_of(request: Request) -> Service:
    """Returns the service. FastAPI calls a plain function in a thread, which costs more than all that this does."""
    service: Service = request.app.state.service
    return service


Served = Annotated[Service, Depends(_service_of)]
"""The service, as a parameter of a route."""
