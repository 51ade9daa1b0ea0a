"""Reads the lexicon (`lexicon.txt`): which expressions may replace which others, and in which place of a heading."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Literal

Place = Literal["verbs", "nouns", "adjectives", "terms", "phrases"]
Replacements = Mapping[str, tuple[str, ...]]
_DOUBLED = frozenset(
    "begin chop commit cut drop forget get let log map plan put refer reset rid run set shop shut ship "
    "stop submit swap transfer trim unplug".split()
)
_OTHER_VERBS = (
    "add allow apply ask audit authenticate block book build call cancel check clean clear close compare confirm "
    "connect count decide define disconnect document draft end enforce ensure enter escalate export extend follow "
    "give import inject isolate join keep list look make mark measure merge mute open order pay perform post "
    "prepare print process produce protect provide publish query raise read rebuild receive record recover refer "
    "register release report reset restart restrict reuse save search send serve share sign start stop switch tell "
    "track turn unblock understand undo unlock update upload write"
)
"""Verbs without a replacement: they open an instruction, too."""


@cache
def lexicon(place: Place) -> Replacements:
    """Expression -> what may replace it in this place."""
    replacements: dict[str, list[str]] = defaultdict(list)
    current = ""
    text = resources.files("surefind.lab.exam").joinpath("lexicon.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("["):
            current = line.strip("[]")
        elif current == place and "->" in line:
            before, after = ([part.strip() for part in side.split(",")] for side in line.split("->"))
            for expression in before:
                replacements[expression] += after
    return {expression: tuple(others) for expression, others in replacements.items()}


@cache
def gerunds() -> Mapping[str, str]:
    """`deleting` -> delete, `setting up` -> set up: for the verbs of the lexicon and others like them."""
    return {gerund(verb): verb for verb in (*_OTHER_VERBS.split(), *lexicon("verbs"))}


@cache
def imperatives() -> frozenset[str]:
    return frozenset(gerunds().values())


def gerund(verb: str) -> str:
    """`delete` -> deleting, `set up` -> setting up."""
    first, space, rest = verb.partition(" ")
    if first in _DOUBLED:
        first += first[-1]
    elif re.search(r"[^eo]e$", first):
        first = first[:-1]
    return f"{first}ing{space}{rest}"
