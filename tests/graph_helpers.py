"""Small collections of passages that name each other, and an encoder that costs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from surefind.base import spec
from surefind.base.types import EVERY, Chunk
from surefind.engine.graph.derive import Graph, derive
from surefind.engine.graph.facts import Facts
from surefind.engine.services import LocalServices

SERVICES = LocalServices()
NAMES = ("Oak Street", "Dana Whitfield", "the Treasury", "CTR", "Currency Transaction Report", "EOD-7", "cash report")
TITLES = ("Oak Street", "Dana Whitfield", "Treasury (agency)", "EOD-7", "Cash Reports", "cash report", "")


def passage(i: int, title: str, text: str) -> Chunk:
    return Chunk(f"docs/{i}.md", 0, len(text), text, title=title)


def facts(chunks: Sequence[Chunk], extract: str = "phrases") -> Facts:
    return Facts.build(chunks, spec.make("extract", extract), SERVICES)


def graph(chunks: Sequence[Chunk], extract: str = "phrases") -> Graph:
    return derive(facts(chunks, extract), EVERY)


def edges(found: Graph) -> dict[int, dict[str, int]]:
    """Chunk -> entity -> roles."""
    table: dict[int, dict[str, int]] = {}
    for chunk in range(found.chunks):
        span = slice(found.starts[chunk], found.starts[chunk + 1])
        pairs = zip(found.entities[span].tolist(), found.roles[span].tolist(), strict=True)
        table[chunk] = {found.keys[entity]: role for entity, role in pairs}
    return table


def sentences() -> st.SearchStrategy[str]:
    shapes = st.sampled_from(
        [
            "We met {0} at {1}.",
            "{0} asks {1} for it.",
            "Currency Transaction Report (CTR) and {0}.",
            "Common Test Rule (CTR) for {0}.",
            "See [it](2.md) and {1}.",
            "Later on, {0} filed cash reports.",
        ]
    )
    return st.builds(lambda s, a, b: s.format(a, b), shapes, st.sampled_from(NAMES), st.sampled_from(NAMES))


def collections(least: int = 1, most: int = 7) -> st.SearchStrategy[list[Chunk]]:
    texts = st.lists(sentences(), min_size=1, max_size=3).map(" ".join)
    rows = st.lists(st.tuples(st.sampled_from(TITLES), texts), min_size=least, max_size=most)
    return rows.map(lambda found: [passage(i, title, text) for i, (title, text) in enumerate(found)])


def plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value
