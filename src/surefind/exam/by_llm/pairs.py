"""Which two passages a two-hop question may join: those that share an entity.

sf2h: two passages of one file. mf2h: passages of two files that share a tag, so that fields with nothing in common are
not joined; where no file has tags, two shared entities stand in for one. An entity that stands in very
many passages joins nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from surefind.exam._names import named
from surefind.exam.by_llm.passages import Passage

ENTITIES = 5
"""Of each passage."""
_COMMON = 20
"""An entity in more passages than this is nobody's mark."""
_EACH = 3
"""The most pairs that one passage is in."""


@dataclass(frozen=True)
class Pair:
    passages: tuple[Passage, Passage]
    shared: tuple[str, ...]


def entities_by_rule(passage: Passage) -> tuple[str, ...]:
    """The names of a passage, the most frequent first."""
    counts = Counter(name for name, _ in named(passage.text))
    return tuple(name for name, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:ENTITIES])


def pairs(entities: Mapping[Passage, Sequence[str]], cross: bool) -> list[Pair]:
    """All fitting pairs, each passage in a few of them."""
    holders: dict[str, list[Passage]] = defaultdict(list)
    shown: dict[str, str] = {}
    for passage, names in entities.items():
        for name in dict.fromkeys(names):
            holders[name.lower()].append(passage)
            shown.setdefault(name.lower(), name)
    shared: dict[tuple[Passage, Passage], list[str]] = defaultdict(list)
    for key, members in holders.items():
        if 2 <= len(members) <= _COMMON:
            for a, b in combinations(members, 2):
                if (a.document != b.document) == cross:
                    shared[a, b].append(shown[key])
    tagged = any(passage.tags for passage in entities)
    used: Counter[Passage] = Counter()
    made = []
    for (a, b), names in sorted(shared.items(), key=lambda item: (-len(item[1]), item[0][0].start, item[0][1].start)):
        related = not cross or bool(a.tags & b.tags) or (not tagged and len(names) >= 2)
        if related and used[a] < _EACH and used[b] < _EACH:
            used.update((a, b))
            made.append(Pair((a, b), tuple(names)))
    return made
