"""Finds the indexes that a retriever needs: its own, and those of the retrievers that it wraps or uses."""

from __future__ import annotations

from collections.abc import Iterable

from surefind.base.abilities import declared
from surefind.base.protocols import Retriever, Services


def innermost(retriever: Retriever) -> Retriever:
    """Unwraps a retriever to the one that has an index: `dense` of `hyde(retriever=dense)`."""
    inner = declared(retriever).inner
    return retriever if inner is None else innermost(inner)


def needed(retrievers: Iterable[Retriever], services: Services) -> list[Retriever]:
    """Returns every retriever whose index is needed, once per index. A used retriever comes before its user."""
    by_index: dict[str, Retriever] = {}
    for retriever in retrievers:
        inner = innermost(retriever)
        for used in needed(declared(inner).uses, services):
            by_index.setdefault(used.index_spec(services), used)
        by_index.setdefault(inner.index_spec(services), inner)
    return list(by_index.values())


def identity(retriever: Retriever, services: Services) -> str:
    """Returns the specs of all indexes that a retriever's results depend on."""
    return " + ".join(used.index_spec(services) for used in needed([retriever], services))


def each_needed(retrievers: Iterable[Retriever]) -> list[Retriever]:
    """Returns every retriever whose index is needed, also those that share one: a backend may need an index for each
    choice of their parameters."""
    each: dict[Retriever, None] = {}
    for retriever in retrievers:
        inner = innermost(retriever)
        each |= dict.fromkeys((*each_needed(declared(inner).uses), inner))
    return list(each)
