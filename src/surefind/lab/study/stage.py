"""A study and its stages, and the list of all studies.

The questions of a stage with the rankings of their retrievers, to blend them with other weights and to train on.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from surefind.base.errors import UsageError, choices
from surefind.base.prompts.values import Calls
from surefind.base.types import Query
from surefind.engine.search.pipeline import score_missing
from surefind.lab.bench.engine import OWNER, Scored
from surefind.lab.bench.plan import Contender
from surefind.lab.measure.lss import Labeller
from surefind.lab.study import studies
from surefind.lab.study.context import RunContext, WritesExam
from surefind.lab.study.tables import TableSpec
from surefind.lab.study.values import Result
from surefind.lab.train.material import Half, Missing

Before = Mapping[str, Result]
"""The results of the stages before, by name."""


def _none(context: RunContext, before: Before) -> Sequence[Contender]:
    return ()


def _no_calls(context: RunContext, before: Before) -> Sequence[Calls]:
    return ()


@dataclass(frozen=True)
class StudyPart:
    """A part of a study that is measured and stored as a whole."""

    name: str
    measure: Callable[[RunContext, Before, Sequence[Contender]], dict[str, Any]]
    tables: tuple[TableSpec, ...]
    """The tables and figures of the paper that it makes."""
    contenders: Callable[[RunContext, Before], Sequence[Contender]] = _none
    """The configurations that it compares. Those that ask a language model are quoted, or left out by name."""
    after: tuple[str, ...] = ()
    """The stages whose results it uses."""
    calls: Callable[[RunContext, Before], Sequence[Calls]] = _no_calls
    """Further calls to language models, besides those of the contenders."""
    own_layouts: bool = False
    """Whether it cuts the documents in layouts of its own, so that `--layout` does not concern it."""
    version: int = 1
    """Raise it when the stage measures something else than before: stored results are then measured again."""


@dataclass(frozen=True)
class Study:
    title: str
    source: str
    """The full title of the paper, with its year where known."""
    stages: tuple[StudyPart, ...]
    questions: int | None = None
    """How many questions of each collection are asked, unless the user says otherwise; None means all."""
    compares_encoders: bool = False
    """Whether it compares several encoders (`--encoder`); other studies take one."""
    compares_models: bool = False
    """Whether it has a row for a cheaper language model (`--cheaper-llm`)."""
    limits: bool = False
    """Whether its paper sets limits of its own for what models read and write (`--limits`)."""
    repeats: bool = False
    """Whether it repeats the calls of some rows, to see how much they vary (`--repeats`)."""
    layout: str = ""
    """The layout of the paper, which `--layout paper` chooses; "" if it names none."""
    exam: WritesExam | None = None
    """Writes the questions that are asked if none are chosen; None for known-item questions."""
    layouts: Mapping[str, str] = field(default_factory=dict)
    """The layouts that it compares, of which later stages use one (`--winner`), by name."""

    @property
    def numbers(self) -> list[str]:
        """The tables and figures of the paper that the study makes."""
        return [table.name for stage in self.stages for table in stage.tables]

    def chosen(self, only: Sequence[str]) -> tuple[StudyPart, ...]:
        """The stages that make these tables, and the stages that they use; all if none is named."""
        wanted = {stage.name for stage in self.stages if _makes(stage, only)} if only else set()
        for name in only:
            if not any(_makes(stage, [name]) for stage in self.stages):
                raise UsageError(f"This study has no {name!r}. {choices(name, self.numbers)}")
        for stage in reversed(self.stages):
            wanted |= set(stage.after) if stage.name in wanted else set()
        return tuple(stage for stage in self.stages if not only or stage.name in wanted)


def _makes(stage: StudyPart, only: Sequence[str]) -> bool:
    names = {_plain(table.name) for table in stage.tables}
    return any(_plain(given) in names for given in only)


def _plain(number: str) -> str:
    return number.strip().lower()


def study_names() -> list[str]:
    return sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(studies.__path__))


def find_study(name: str) -> Study:
    if name not in study_names():
        raise UsageError(f"There is no study {name!r}. {choices(name, study_names())}")
    study: Study = importlib.import_module(f"surefind.lab.study.studies.{name.replace('-', '_')}").STUDY
    return study


def half_of(context: RunContext, scored: Scored, missing: Missing = None) -> Half:
    """The questions with the rankings of the first contender's retrievers. With `missing=score`, every retriever scores
    every candidate."""
    (contender, *_), exam = scored.plan.contenders, scored.plan.exam
    pipeline, layout = contender.pipeline, str(contender.layout or "")
    rankings = tuple(scored.retrieved[layout, str(retriever), pipeline.depth] for retriever in pipeline.retrieve)
    lists = list(rankings)
    if missing == "score":
        queries = [Query(query.text, query.id) for query in exam.queries]
        lists = score_missing(rankings, queries, pipeline.retrieve, scored.view, context.access)
    documents = {document.id: document.text for document in context.bench.reader(contender).documents(OWNER)}
    labeller = Labeller(exam.queries, scored.view.spans(), documents)
    places = scored.judges[0].places
    return Half(exam.queries, rankings, tuple(lists), scored.plan.primary, places, labeller, scored.view.parents)
