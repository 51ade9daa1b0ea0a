"""Finds the indexes that a retriever needs: its own, and those of the retrievers that it wraps or uses."""

from __future__ import annotations

from collections.abc import Iterable

from surefind.abilities import declared
from surefind.protocols import Retriever


def innermost(retriever: Retriever) -> Retriever:
    """Unwraps a retriever to the one that has an index: `dense` of `hyde(retriever=dense)`."""
    inner = declared(retriever).inner
    return retriever if inner is None else innermost(inner)


def needed(retrievers: Iterable[Retriever]) -> list[Retriever]:
    """Returns every retriever whose index is needed, once per index. A used retriever comes before its user."""
    found: dict[str, Retriever] = {}
    for retriever in retrievers:
        one = innermost(retriever)
        for used in needed(declared(one).uses):
            found.setdefault(used.index_spec, used)
        found.setdefault(one.index_spec, one)
    return list(found.values())


def identity(retriever: Retriever) -> str:
    """Returns the specs of all indexes that a retriever's results depend on."""
    return " + ".join(one.index_spec for one in needed([retriever]))


def each_needed(retrievers: Iterable[Retriever]) -> list[Retriever]:
    """Returns every retriever whose index is needed, also those that share one: a backend may need an index for each
    choice of their parameters."""
    found: dict[Retriever, None] = {}
    for retriever in retrievers:
        one = innermost(retriever)
        found |= dict.fromkeys((*each_needed(declared(one).uses), one))
    return list(found)
