"""What the routes share: the knowledge base, who calls, limits, and the answers that can be given again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Annotated, TypeVar

import anyio
from anyio import to_thread
from fastapi import Depends, Request

from surefind.errors import NotFoundError, StoreError, UsageError
from surefind.kb import KnowledgeBase
from surefind.search.pipeline import Pipeline
from surefind.search.reader import Reader
from surefind.serve.auth.caller import Caller, ForbiddenError, Scope
from surefind.serve.auth.gatekeeper import Gatekeeper
from surefind.serve.auth.keys import Keys
from surefind.serve.auth.sessions import COOKIE, Sessions
from surefind.serve.http.cache import AnswerCache
from surefind.serve.http.jobs import Jobs
from surefind.serve.http.metrics import Metrics
from surefind.serve.http.rate import Rate
from surefind.serve.http.settings import ServeSettings

_EARLIER = 2
"""Generations before the current one that stay open, so that a list of hits can be continued after a change."""
T = TypeVar("T")


class Service:
    """One knowledge base, served."""

    def __init__(self, kb: KnowledgeBase, settings: ServeSettings, groups: Iterable[str] = ()) -> None:
        self.kb = kb
        self.settings = settings
        self.gatekeeper = Gatekeeper(Keys(kb.data), settings.oidc, settings.host, groups)
        self.sessions = Sessions()
        self.metrics = Metrics()
        self.cache = AnswerCache(settings.cache_mb << 20)
        self.jobs = Jobs(kb.folder, self.metrics)
        self.rate = Rate(settings.requests_per_minute)
        self._working = anyio.CapacityLimiter(settings.workers)
        self._writing = anyio.CapacityLimiter(1)
        self._readers: OrderedDict[int, Reader] = OrderedDict()
        self._lock = threading.Lock()
        self._opening = threading.Lock()

    async def work(self, do: Callable[[], T]) -> T:
        """Runs blocking work in a thread. Others wait for their turn."""
        return await to_thread.run_sync(do, limiter=self._working, abandon_on_cancel=True)

    async def write(self, do: Callable[[], T]) -> T:
        """Runs work that changes the knowledge base: one at a time, so that uploads do not refuse each other."""
        return await to_thread.run_sync(do, limiter=self._writing)

    async def caller(self, request: Request, scope: Scope) -> Caller:
        """Returns who calls. Raises an error if the caller is unknown, lacks the scope or calls too often."""
        header = request.headers.get("authorization")
        given = header if header is not None else self.sessions.authorization(request.cookies.get(COOKIE))
        found = await self.identify(request, given)
        self.rate.check(found.name)
        found.require(scope)
        return found

    async def identify(self, request: Request, authorization: str | None) -> Caller:
        """Returns whose key or token this is. Raises `NotAuthenticatedError`."""
        address = request.client.host if request.client else ""
        if self.settings.oidc is None:
            return self.gatekeeper.caller(authorization, address)
        # A token may need the keys of its provider, from the network.
        return await self.work(lambda: self.gatekeeper.caller(authorization, address))

    def reader(self, generation: int | None = None) -> Reader:
        """Returns the reader of the current generation, or of an earlier one that is still open or kept."""
        current = self.kb.reader()
        self.metrics.generation.set(current.generation)
        self._remember(current)
        if generation is None or generation == current.generation:
            return current
        with self._opening:  # opening takes long, so that callers must not open the same one side by side
            found = self._readers.get(generation)
            if found is None:
                try:
                    found = self.kb.reader_of(generation)
                except (StoreError, UsageError):
                    raise NotFoundError(
                        f"Generation {generation} is gone: the documents have changed since. Search again from the "
                        "first hit."
                    ) from None
            self._remember(found)
        return found

    def _remember(self, reader: Reader) -> None:
        with self._lock:
            self._readers[reader.generation] = reader
            self._readers.move_to_end(reader.generation)
            while len(self._readers) > _EARLIER + 1:
                self._readers.popitem(last=False)

    def pipeline(self, name: str | None, caller: Caller) -> Pipeline:
        """Returns a pipeline by its name. A spec can name files and servers, so only admins may send one."""
        known = self.kb.settings.pipelines
        if name is None or name in known:
            return self.kb.pipeline(name)
        if not caller.may("admin"):
            raise ForbiddenError(f"There is no pipeline of this name. Choices: {', '.join(known)}.")
        return self.kb.pipeline(name)


def _service_of(request: Request) -> Service:
    found: Service = request.app.state.service
    return found


Served = Annotated[Service, Depends(_service_of)]
"""The service, as a parameter of a route."""
