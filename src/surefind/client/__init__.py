"""Clients of `surefind serve`, for programs without the knowledge base on their disk.

    with Client("http://127.0.0.1:8080", key="sf_…") as surefind:
        for hit in surefind.search("When is the wire cutoff?").hits:
            print(hit.document, hit.lines, hit.text)

`AsyncClient` has the same methods, to be awaited. Errors of the server are `RefusedError`, with its sentence.
"""

from __future__ import annotations

from surefind.client.asynchronous import AsyncClient
from surefind.client.synchronous import Client

__all__ = ["AsyncClient", "Client"]
