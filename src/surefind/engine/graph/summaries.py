"""Summarises a community with its own words: its main entities, and the beginnings of its most central passages.

A language model may write better summaries (`surefind.engine.graph.summaries`). These cost nothing and contain nothing
that is not in the text.

Chooses how an entity is displayed: by its most frequent spelling in the passages that the caller may read.

Has a language model write the summaries of communities.

The model sees the material of extractive summaries (the main names and the beginnings of central passages), only more
of it. All of it comes from the graph of the chunks that the caller may read, so a caller with restricted access gets
their own summaries. A community without an answer keeps its extractive summary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefind.base.errors import AnswerError, SurefindError
from surefind.base.prompts.fence import Data
from surefind.base.prompts.prompt import Prompt
from surefind.base.prompts.values import Completion
from surefind.base.protocols import Services
from surefind.base.types import IntArray
from surefind.engine.graph.communities import Communities
from surefind.engine.graph.derive import Graph
from surefind.engine.graph.facts import HEADING, LEAD, MENTION, TITLE, TYPE
from surefind.engine.llm.ask import ask, read_object


def labels(graph: Graph) -> list[str]:
    """The label of each entity; of equally frequent spellings, the first in alphabetical order."""
    rows, _ = graph.facts.of(graph.allow)
    named = rows[np.isin(rows[:, 0], (MENTION, HEADING, TITLE)), 1]
    entity = graph.canon[graph.facts.key_numbers[named]]
    counts = np.bincount(named, minlength=len(graph.facts.strings))
    order = np.lexsort((named, -counts[named], entity))
    names = list(graph.keys)
    last = -1
    for i, string in zip(entity[order].tolist(), named[order].tolist(), strict=True):
        if i >= 0 and i != last:
            names[i] = graph.facts.strings[string]
        last = i
    return names


def types(graph: Graph) -> dict[int, str]:
    """Entity -> its most frequent type, for entities that have one."""
    rows, _ = graph.facts.of(graph.allow)
    typed = rows[rows[:, 0] == TYPE]
    pairs, counts = np.unique(
        np.stack([graph.canon[graph.facts.key_numbers[typed[:, 1]]], typed[:, 2]], axis=1), axis=0, return_counts=True
    )
    order = np.argsort(counts, kind="stable").tolist()
    return {int(pairs[i, 0]): graph.facts.strings[pairs[i, 1]] for i in order if pairs[i, 0] >= 0}


ENTITIES = 10
"""Most entities in a summary."""
LEADS = 3
"""Most beginnings of passages in a summary."""


@dataclass(frozen=True, eq=False)
class Summary:
    entities: tuple[int, ...]
    """The main entities, the most central first."""
    chunks: tuple[int, ...]
    """The most central passages."""
    text: str


@dataclass(frozen=True, eq=False)
class Outline:
    """The material for a summary of a community, the most central first."""

    entities: tuple[int, ...]
    chunks: tuple[int, ...]
    names: tuple[str, ...]
    """The names of the entities."""
    leads: tuple[str, ...]
    """The beginnings of the chunks."""


def summarise(graph: Graph, partition: Communities) -> list[Summary]:
    """The summary of every small community, in order."""
    return [
        Summary(outline.entities, outline.chunks, " ".join([", ".join(outline.names) + ".", *outline.leads]))
        for outline in outlines(graph, partition, ENTITIES, LEADS)
    ]


def outlines(graph: Graph, partition: Communities, entities: int, chunks: int) -> list[Outline]:
    """The outline of every small community, in order, with at most this many entities and chunks."""
    named, leads = labels(graph), _leads(graph)
    return [
        Outline(tuple(main), tuple(own), tuple(named[e] for e in main), tuple(leads[c] for c in own if c in leads))
        for main, own in zip(*_central(graph, partition, entities, chunks), strict=True)
    ]


def _central(
    graph: Graph, partition: Communities, entities: int, chunks: int
) -> tuple[list[list[int]], list[list[int]]]:
    """The most central entities and chunks of each community, by the weight of their edges within the community."""
    chunk = np.repeat(np.arange(graph.chunks), np.diff(graph.starts))
    entity = graph.entities
    within = (partition.small[chunk] == partition.small[graph.chunks + entity]) & (partition.small[chunk] >= 0)
    weight = np.log(1 + graph.chunks_there / np.maximum(1, graph.degrees[entity[within]]))
    of_entity = np.bincount(entity[within], weight, minlength=len(graph.keys)).astype(np.float64)
    of_chunk = np.bincount(chunk[within], weight, minlength=graph.chunks).astype(np.float64)
    small = partition.small
    return (
        _first(small[graph.chunks :], of_entity, len(partition), entities),
        _first(small[: graph.chunks], of_chunk, len(partition), chunks),
    )


def _first(community: IntArray, weight: NDArray[np.float64], count: int, most: int) -> list[list[int]]:
    """The heaviest members of each community."""
    firsts: list[list[int]] = [[] for _ in range(count)]
    for node in np.lexsort((np.arange(len(community)), -weight)).tolist():
        home = int(community[node])
        if home >= 0 and len(firsts[home]) < most:
            firsts[home].append(node)
    return firsts


def _leads(graph: Graph) -> dict[int, str]:
    rows, chunk = graph.facts.of(graph.allow)
    lead = rows[:, 0] == LEAD
    strings = graph.facts.strings
    return {int(c): strings[i] for c, i in zip(chunk[lead].tolist(), rows[lead, 1].tolist(), strict=True)}


SLOTS = ("names", "passages")
LISTED = QUOTED = 20
"""Most names and beginnings of passages of a community in the prompt."""
TOKENS = 300
"""Most tokens of an answer."""
_MAX_SUMMARY_CHARS = 2000
"""Most characters of an answer; a longer text is not a summary."""
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"summary": {"type": "string"}},
    "required": ["summary"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class SummaryWriter:
    """The language model that writes summaries, and its prompt."""

    model: str | None
    prompt: Prompt

    def write(
        self, graph: Graph, partition: Communities, plain: Sequence[Summary], services: Services
    ) -> tuple[list[Summary], list[SurefindError]]:
        """The summary of every small community, and the errors of those that keep their `plain` summary."""
        prompts = [self._messages(outline) for outline in outlines(graph, partition, LISTED, QUOTED)]
        replies = ask(
            services, self.model, prompts, schema=_SCHEMA, max_tokens=TOKENS,
            usable=lambda at, answer: isinstance(_read(answer), str),
        )  # fmt: skip
        answers = [_read(reply) for reply in replies]
        failures = [answer for answer in answers if isinstance(answer, SurefindError)]
        pairs = zip(plain, answers, strict=True)
        return [replace(summary, text=text) if isinstance(text, str) else summary for summary, text in pairs], failures

    def _messages(self, outline: Outline) -> Any:
        passages = [Data("passage", lead, number) for number, lead in enumerate(outline.leads, 1)]
        return self.prompt.messages(names=Data("names", "\n".join(outline.names)), passages=passages)


def _read(answer: Completion | SurefindError) -> str | SurefindError:
    if isinstance(answer, SurefindError):
        return answer
    text = (read_object(answer.text) or {}).get("summary")
    if not isinstance(text, str) or not text.strip() or len(text) > _MAX_SUMMARY_CHARS:
        return AnswerError("The model gave no summary.")
    return " ".join(text.split())
