"""Finds the pairs of passages that a two-hop question may combine: passages that share an entity.

sf2h: two passages of one file. mf2h: passages of two files that share a tag, so that unrelated fields are not combined;
if no file has tags, two shared entities are required instead. An entity in very many passages is ignored.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from surefind.exam._names import named
from surefind.exam.by_llm.passages import Passage

ENTITIES = 5
"""Most entities used of each passage."""
_COMMON = 20
"""An entity in more passages than this is too common to relate two of them."""
_EACH = 3
"""Most pairs that one passage may be in."""


@dataclass(frozen=True)
class Pair:
    passages: tuple[Passage, Passage]
    shared: tuple[str, ...]


def entities_by_rule(passage: Passage) -> tuple[str, ...]:
    """The names in a passage, the most frequent first."""
    counts = Counter(name for name, _ in named(passage.text))
    return tuple(name for name, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:ENTITIES])


def pairs(entities: Mapping[Passage, Sequence[str]], cross: bool) -> list[Pair]:
    """All pairs that fit, with each passage in at most `_EACH` of them."""
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
