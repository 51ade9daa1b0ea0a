"""The texts of the tasks: invented rules of a company, as data in cases.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from surefind.base.disk.sealed import digest
from surefind.base.types import Chunk

_LIST_LENGTH = 6
"""Passages of a list: the right one, one that shares its words and does not answer, and others."""


@dataclass(frozen=True)
class Fact:
    """A question, the passage that answers it, and one that only shares its words."""

    title: str
    subject: str
    question: str
    passage: str
    answer: str
    near: str

    @property
    def chunk(self) -> Chunk:
        return _chunk(self.title, self.passage)

    @property
    def near_chunk(self) -> Chunk:
        return _chunk(self.title, self.near)


@cache
def cases() -> Mapping[str, Any]:
    """The content of cases.json."""
    data: dict[str, Any] = json.loads((files("surefind.lab.fitness") / "cases.json").read_text(encoding="utf-8"))
    return data


@cache
def facts() -> tuple[Fact, ...]:
    return tuple(Fact(**row) for row in cases()["facts"])


@cache
def tasks_version() -> str:
    """Changes with every word of the tasks: results of other tasks do not count."""
    return digest(dict(cases()))


def lists() -> list[tuple[Fact, list[Chunk], int]]:
    """For each fact a list of passages and the place of the right one, which is at every place equally often."""
    made = []
    known = facts()
    for number, fact in enumerate(known):
        others = [known[(number + step) % len(known)].chunk for step in range(1, _LIST_LENGTH - 1)]
        chunks = [fact.near_chunk, *others]
        place = number % _LIST_LENGTH
        chunks.insert(place, fact.chunk)
        made.append((fact, chunks, place))
    return made


def _chunk(title: str, text: str) -> Chunk:
    return Chunk(f"{title}.md", 0, len(text), text, (title,))
