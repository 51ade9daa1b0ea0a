"""What a server imports before and while it answers its first request. `forking` loads it once."""

from __future__ import annotations

from importlib import import_module

import numba

for name in (
    "anyio._backends._asyncio",
    "surefind.__main__",
    "surefind.engine.chunk.markdown",
    "surefind.engine.retrieve._kernels",
    "surefind.engine.retrieve._postings",
    "surefind.engine.retrieve.bm25",
    "surefind.engine.retrieve.tfidf",
    "surefind.doors.auth.keys",
    "surefind.doors.cli.serve",
    "surefind.doors.server",
    "uvicorn.lifespan.on",
    "uvicorn.loops.uvloop",
    "uvicorn.protocols.http.httptools_impl",
):
    import_module(name)
numba.njit(lambda number: number)(1)  # numba imports most of itself when it is first used
