"""Finds the pairs of passages that a two-hop question may combine: passages that share an entity.

sf2h: two passages of one file. mf2h: passages of two files that share a tag, so that unrelated fields are not combined;
if no file has tags, two shared entities are required instead. An entity in very many passages is ignored.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from surefind.base.errors import MissingPartError
from surefind.base.protocols import Services
from surefind.engine.extract.spacy import Spacy
from surefind.lab.exam._names import named
from surefind.lab.exam.by_llm.passages import SourcePassage

ENTITIES = 5
"""Most entities used of each passage."""
_TYPES = frozenset({"PERSON", "ORG", "PRODUCT", "WORK_OF_ART"})
"""The types of spaCy that the study uses."""
_COMMON = 20
"""An entity in more passages than this is too common to relate two of them."""
_EACH = 3
"""Most pairs that one passage may be in."""


@dataclass(frozen=True)
class PassagePair:
    passages: tuple[SourcePassage, SourcePassage]
    shared: tuple[str, ...]


def entities_of(passages: Sequence[SourcePassage], services: Services) -> dict[SourcePassage, tuple[str, ...]]:
    """The entities of each passage, by spaCy if it and its model are installed, as in the study; otherwise by rules."""
    try:
        read = Spacy().extract([passage.text for passage in passages], services)
    except MissingPartError:
        return {passage: entities_by_rule(passage) for passage in passages}
    return {
        passage: _most_frequent(mention.name for mention in extraction.mentions if mention.type in _TYPES)
        for passage, extraction in zip(passages, read, strict=True)
    }


def entities_by_rule(passage: SourcePassage) -> tuple[str, ...]:
    return _most_frequent(name for name, _ in named(passage.text))


def _most_frequent(names: Iterable[str]) -> tuple[str, ...]:
    """At most `ENTITIES` names, the most frequent first."""
    ordered = sorted(Counter(names).items(), key=lambda item: (-item[1], item[0]))
    return tuple(name for name, _ in ordered[:ENTITIES])


def pairs(entities: Mapping[SourcePassage, Sequence[str]], cross: bool) -> list[PassagePair]:
    """All pairs that fit, with each passage in at most `_EACH` of them."""
    holders: dict[str, list[SourcePassage]] = defaultdict(list)
    shown: dict[str, str] = {}
    for passage, names in entities.items():
        for name in dict.fromkeys(names):
            holders[name.lower()].append(passage)
            shown.setdefault(name.lower(), name)
    shared: dict[tuple[SourcePassage, SourcePassage], list[str]] = defaultdict(list)
    for key, members in holders.items():
        if 2 <= len(members) <= _COMMON:
            for a, b in combinations(members, 2):
                if (a.document != b.document) == cross:
                    shared[a, b].append(shown[key])
    tagged = any(passage.tags for passage in entities)
    used: Counter[SourcePassage] = Counter()
    made = []
    for (a, b), names in sorted(shared.items(), key=lambda item: (-len(item[1]), item[0][0].start, item[0][1].start)):
        related = not cross or bool(a.tags & b.tags) or (not tagged and len(names) >= 2)
        if related and used[a] < _EACH and used[b] < _EACH:
            used.update((a, b))
            made.append(PassagePair((a, b), tuple(names)))
    return made
