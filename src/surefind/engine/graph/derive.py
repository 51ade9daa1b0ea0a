"""Derives the graph of some chunks from their facts.

Names with the same key are one entity. A short name and its long form are joined as well, if a text defines the one by
the other and all definitions agree. Chunks and entities form a bipartite graph. A role says how a chunk is connected to
an entity, and a pair may have several roles:

    MENTIONS  the text contains the name                 HEADED   the chunk is under a heading of this name
    LINKS     the text names or links to the document    TITLED   the chunk is from the document of this title
              of this title

The graph depends only on the rows given: counts, joins and weights of a caller's graph reveal nothing about chunks that
the caller may not read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from surefind.base.types import BoolArray, IntArray, Mask
from surefind.engine.graph.facts import ALIAS, HEADING, LINK, MENTION, NAMED, TITLE, Facts, Lexicon

MENTIONS, LINKS, HEADED, TITLED = 1, 2, 4, 8
_CAPITAL = 16
"""Set beside MENTIONS while pairs are made, if the name is not all lower case."""
Roles = NDArray[np.uint8]
Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class Graph:
    """Chunk i has the entities `entities[starts[i]:starts[i + 1]]`, with `roles` in the same places."""

    facts: Facts
    allow: Mask
    keys: list[str]
    """The keys of the entities, in alphabetical order."""
    canon: IntArray
    """The entity of each key of the facts, or -1."""
    starts: IntArray
    entities: IntArray
    roles: Roles
    _made: dict[Callable[[Graph], Any], Any] = field(default_factory=dict, repr=False)

    @property
    def chunks(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def chunks_there(self) -> int:
        """Number of allowed chunks, from which the graph is derived."""
        return self.chunks if self.allow.count is None else self.allow.count

    def once(self, make: Callable[[Graph], Made]) -> Made:
        """The result of `make(self)`, computed at the first call and cached with the graph."""
        if make not in self._made:
            self._made[make] = make(self)
        return cast(Made, self._made[make])

    @cached_property
    def degrees(self) -> IntArray:
        """Number of chunks of each entity."""
        return np.bincount(self.entities, minlength=len(self.keys)).astype(np.int32)

    @cached_property
    def heads(self) -> BoolArray:
        """Whether each entity is the title of a document or the heading of a section."""
        headed = np.zeros(len(self.keys), np.bool_)
        headed[self.entities[self.roles & (TITLED | HEADED) > 0]] = True
        return headed

    @cached_property
    def by_entity(self) -> tuple[IntArray, IntArray, Roles]:
        """The same pairs by entity: starts, chunks, roles."""
        order = np.argsort(self.entities, kind="stable")
        chunks = np.repeat(np.arange(self.chunks, dtype=np.int32), np.diff(self.starts))
        return _starts(self.degrees), chunks[order], self.roles[order]

    def chunks_of(self, entity: int) -> IntArray:
        starts, chunks, _ = self.by_entity
        return chunks[starts[entity] : starts[entity + 1]]

    @cached_property
    def _names(self) -> tuple[Lexicon, IntArray]:
        """Every name of an entity, including short names from definitions, and the entity of each name."""
        known = np.flatnonzero(self.canon >= 0)
        return Lexicon([self.facts.keys[i] for i in known.tolist()]), self.canon[known]

    def named_in(self, text: str) -> list[int]:
        """The entities that a query names; of overlapping names, the longest."""
        lexicon, entities = self._names
        runs = sorted(lexicon.find(text), key=lambda run: (run[0] - run[1], run[0], run[2]))
        taken: set[int] = set()
        chosen: list[tuple[int, int, int]] = []
        for start, end, name in runs:
            if not taken.intersection(range(start, end)) or (chosen and (start, end) == chosen[-1][:2]):
                taken.update(range(start, end))
                chosen.append((start, end, name))
        return sorted({int(entities[name]) for _, _, name in chosen})


def derive(facts: Facts, allow: Mask) -> Graph:
    rows, chunk = facts.of(allow)
    kinds, subjects = rows[:, 0], rows[:, 1]
    key = facts.key_numbers[subjects]
    titled = np.zeros(len(facts.keys), np.bool_)
    titled[key[kinds == TITLE]] = True
    parts = [(kinds == MENTION, MENTIONS), (kinds == HEADING, HEADED), (kinds == TITLE, TITLED)]
    parts.append(((kinds == NAMED) & titled[key], LINKS))
    at_chunk = [chunk[mask] for mask, _ in parts]
    at_key = [key[mask] for mask, _ in parts]
    role = [np.full(int(mask.sum()), value, np.uint8) for mask, value in parts]
    role[0] |= np.where(facts.lower[subjects[parts[0][0]]], 0, _CAPITAL).astype(np.uint8)
    linking, linked = _links(facts, rows, chunk)
    at_chunk.append(linking)
    at_key.append(linked)
    role.append(np.full(len(linking), LINKS, np.uint8))
    joined = _joined(facts, rows)
    return _paired(facts, allow, np.concatenate(at_chunk), joined[np.concatenate(at_key)], np.concatenate(role), joined)


def _links(facts: Facts, rows: IntArray, chunk: IntArray) -> tuple[IntArray, IntArray]:
    """Chunks and the keys of the titles of the documents they link to, for documents that the caller may read."""
    title_of = np.full(len(facts.strings), -1, np.int32)
    titles = np.flatnonzero(rows[:, 0] == TITLE)[::-1]
    title_of[facts.documents[chunk[titles]]] = facts.key_numbers[rows[titles, 1]]
    links = np.flatnonzero(rows[:, 0] == LINK)
    links = links[(title_of[rows[links, 1]] >= 0) & (rows[links, 1] != facts.documents[chunk[links]])]
    return chunk[links], title_of[rows[links, 1]]


def _joined(facts: Facts, rows: IntArray) -> IntArray:
    """Maps each key to the key it counts as: an acronym counts as its long form, if all definitions agree."""
    joined = np.arange(len(facts.keys), dtype=np.int32)
    aliases = rows[rows[:, 0] == ALIAS]
    pairs = np.unique(facts.key_numbers[aliases[:, 1:3]], axis=0)
    short, counts = np.unique(pairs[:, 0], return_counts=True)
    sure = pairs[np.isin(pairs[:, 0], short[counts == 1])]
    joined[sure[:, 0]] = sure[:, 1]
    # A long form may itself be a short form; definitions in a circle are ignored.
    return np.where(joined[joined[joined]] == joined[joined], joined[joined], np.arange(len(joined), dtype=np.int32))


def _paired(facts: Facts, allow: Mask, chunk: IntArray, key: IntArray, role: Roles, joined: IntArray) -> Graph:
    """Builds the graph. Equal pairs become one with all of their roles; a lower-case phrase that is in only one chunk
    is dropped."""
    code = chunk.astype(np.int64) * len(facts.keys) + key
    order = np.argsort(code, kind="stable")
    code, first = np.unique(code[order], return_index=True)
    roles = np.bitwise_or.reduceat(role[order], first) if len(first) else role[:0]
    chunk, key = np.divmod(code, max(1, len(facts.keys)))
    degrees = np.bincount(key, minlength=len(facts.keys))
    kept_pairs = (degrees[key] > 1) | (roles != MENTIONS)
    chunk, key, roles = chunk[kept_pairs], key[kept_pairs], roles[kept_pairs] & ~np.uint8(_CAPITAL)
    kept, entities = np.unique(key, return_inverse=True)
    numbers = np.full(len(facts.keys), -1, np.int32)
    numbers[kept] = np.arange(len(kept), dtype=np.int32)
    starts = _starts(np.bincount(chunk, minlength=len(facts)))
    keys = [facts.keys[i] for i in kept.tolist()]
    return Graph(facts, allow, keys, numbers[joined], starts, entities.astype(np.int32), roles)


def _starts(sizes: Any) -> IntArray:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int32)
