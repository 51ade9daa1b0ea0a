"""The kinds of work that steps give to a language model: which steps, and from when on a model is fit. The task of each
is in `surefind.lab.fitness.tasks`, which imports all steps.

The texts of the tasks: invented rules of a company, as data in cases.json.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from surefind.base.abilities import declared
from surefind.base.disk.sealed import digest
from surefind.base.prompts.values import Calls, Workload
from surefind.base.types import Chunk
from surefind.engine.llm import prices

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


_ONE = Workload(1, 1, 1, 1, 1)
_PASSAGE = 60
"""Model tokens of a passage of the tasks, with its title and its fence."""


@dataclass(frozen=True)
class StepKind:
    name: str
    does: str
    """What the model has to do, after "it"."""
    steps: tuple[str, ...]
    """The names of the stages, or of the commands, that need it."""
    chance: float
    useful: float
    tasks: int
    """Tasks that are counted, if every answer can be used."""
    calls: int
    tokens_in: int
    """Tokens of the texts in one call, besides its instructions."""
    tokens_out: int

    def cost(self, model: str | None) -> Calls:
        return prices.calls(model, self.calls, self.tokens_in, self.tokens_out)


_N = len(facts())
KINDS = {
    kind.name: kind
    for kind in (
        StepKind("order", "puts the right passage first", ("llm_listwise", "slidegar"),
                 1 / 6, 0.5, 2 * _N, 2 * _N, 6 * _PASSAGE, 40),
        StepKind("gather", "finds the evidence", ("agentic",), 1 / 36, 0.5, _N, 2 * _N, 6 * _PASSAGE, 60),
        StepKind("weigh", "favours the method that suits the query", ("llm_weights",),
                 0.5, 0.6, 12, 24, 300, 30),
        StepKind("draft", "drafts a passage in the words of the answer", ("hyde",),
                 0.1, 0.5, _N, _N, 0, 150),
        StepKind("rewrite", "rewords the question", ("multi_query",), 0.1, 0.5, _N, _N, 0, 90),
        StepKind("split", "finds where topics change", ("llm_segments",), 0.25, 0.5, 12, 6, 200, 15),
        StepKind("place", "names the subject of the document", ("llm_context",), 0.1, 0.5, 8, 8, 100, 60),
        StepKind("extract", "extracts the names", ("extract=llm", "graph_local"),
                 0.2, 0.5, 23, 8, 40, 150),
        StepKind("question", "writes a question that the passage answers",
                 ("exam write", "train encoder"), 0.1, 0.5, _N, _N, _PASSAGE, 120),
        StepKind("answer", "answers where the passages do, and only there", ("ask",),
                 0.5, 0.6, _N, _N, 2 * _PASSAGE, 80),
    )
}  # fmt: skip
"""Every kind, by its name. `chance` and `useful`: see `surefind.lab.fitness.check`. A search without a model has the
right passage first for about half of the questions, so `order` must do so more often; weighing and answering have two
outcomes, so half is chance."""
_KIND_OF = {step: kind for kind in KINDS.values() for step in kind.steps}
_STEPS = {"llm": "extract=llm"}
"""Steps whose stage has another name."""


@dataclass(frozen=True)
class Need:
    """A step that needs a model for a kind of work."""

    step: str
    kind: str
    model: str | None
    """None: the model of the settings."""


def needs_of(stages: Iterable[object]) -> list[Need]:
    """What stages, and the stages inside them, need a language model for. Stages of plugins have no task."""
    needs: dict[Need, None] = {}
    for stage in stages:
        stage_abilities = declared(stage)
        name = str(getattr(stage, "name", ""))
        step = _STEPS.get(name, name)
        kind = _KIND_OF.get(step)
        calls = stage_abilities.llm_calls(_ONE)
        if kind and calls and calls.calls:
            model = getattr(stage, "llm", None) if hasattr(stage, "llm") else getattr(stage, "model", None)
            needs[Need(step, kind.name, model)] = None
        needs |= dict.fromkeys(
            needs_of(part for part in (stage_abilities.inner, *stage_abilities.uses) if part is not None)
        )
    return list(needs)
