"""Runs a study: each stage once for each collection, stored when it is done; then the tables."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

from surefind import __version__
from surefind.base.abilities import declared
from surefind.base.disk.sealed import digest
from surefind.base.errors import SurefindError
from surefind.base.prompts.values import Calls
from surefind.base.protocols import OnProgress
from surefind.engine.store.indexes import identity
from surefind.lab.bench.cost import llm_calls, quote_for
from surefind.lab.bench.plan import Contender, Plan, parse_measures
from surefind.lab.bench.report import environment
from surefind.lab.bench.reranking import RunCache
from surefind.lab.study.context import Collection, Options, RunContext
from surefind.lab.study.stage import Before, Study, StudyPart
from surefind.lab.study.values import NEEDS_LLM, Column, Result, Table

FOLDER = "studies"
_ANY_MEASURE = parse_measures(["nDCG@10"])


@dataclass(frozen=True)
class StudyRun:
    """A study on some collections: quotes it, then runs it."""

    name: str
    study: Study
    collections: Sequence[Collection]
    options: Options
    only: tuple[str, ...] = ()
    """The tables to make; all if empty."""
    flags: tuple[str, ...] = ()
    """The options of the command line besides those of the collections, to print the command of a table."""
    report: OnProgress | None = None
    fresh: bool = field(default=False, compare=False)

    @property
    def stages(self) -> tuple[StudyPart, ...]:
        return self.study.chosen(self.only)

    def calls(self) -> list[tuple[Collection, list[Calls]]]:
        """The estimated calls to language models of each collection, as an upper bound. Stored stages cost nothing."""
        return [(collection, self._calls(self._context(collection))) for collection in self.collections]

    def minutes(self) -> float:
        """The estimated minutes of the comparisons, by a few questions that are timed. Training is not included."""
        return sum(self._minutes(self._context(collection)) for collection in self.collections)

    def left_out(self) -> list[str]:
        """The names of the steps that do not run because they need a language model."""
        names: dict[str, None] = {}
        if not self.options.llm:
            for stage in self.stages:
                every = stage.contenders(self._context(self.collections[0]), {})
                names |= dict.fromkeys(contender.name for contender in every if contender.asks_llm)
        return list(names)

    def run(self) -> dict[str, Any]:
        """Runs what is not stored yet and returns the report of the study as plain data."""
        columns = []
        for collection in self.collections:
            context = self._context(collection)
            results: dict[str, Result] = {}
            with context.services.llm.replaying():
                for stage in self.stages:
                    results[stage.name] = self._result(context, stage, results)
            columns.append(Column(collection.name, results))
        return self._reported(columns)

    # ------------------------------------------------------------ one stage

    def _context(self, collection: Collection) -> RunContext:
        return RunContext(collection, self.options, self.report, self.fresh)

    def _result(self, context: RunContext, stage: StudyPart, before: Before) -> Result:
        every = list(stage.contenders(context, before))
        allowed = [contender for contender in every if self.options.llm or not contender.asks_llm]
        store, key = _store(context), self._key(context, stage, before, every)
        known: Result | None = None if self.fresh else store.data(key)
        if known is not None:
            return known
        context.report(f"{context.collection.name}: {stage.name}", 0, 1)
        made = stage.measure(context, before, allowed) if allowed or not every else {}
        missing = [contender for contender in every if contender not in allowed]
        left_out = {name: NEEDS_LLM for contender in missing for name in (contender.name, *contender.aliases)}
        result = {**made, "left_out": {**left_out, **made.get("left_out", {})}}
        if not (result.get("problems") or result.get("provisional")):  # the next run tries again
            store.put_data(key, result)
        context.report(f"{context.collection.name}: {stage.name}", 1, 1)
        return result

    def _key(self, context: RunContext, stage: StudyPart, before: Before, contenders: Sequence[Contender]) -> str:
        """A hash of everything that a stage's result depends on."""
        used = {name: before[name] for name in stage.after if name in before}
        stamps = [
            f"{contender.name} {contender}{''.join(f' {stamp}' for stamp in _stamps(context, contender))}"
            for contender in contenders
        ]
        about = __version__, self.name, stage.name, stage.version, context.fingerprint, context.exam.fingerprint
        scope = asdict(self.options), context.exam.label, context.audience, digest(used)
        return _store(context).key(
            *about, *scope, rest.fingerprint if (rest := context.collection.rest) else "", *stamps
        )

    def _calls(self, context: RunContext) -> list[Calls]:
        calls: list[Calls] = []
        paid: list[Contender] = []
        for stage, contenders, before in self._waiting(context) if self.options.llm else ():
            paid += [contender for contender in contenders if contender.asks_llm]
            calls += stage.calls(context, before)
        # Quoted together, because stages that share a layout or a retriever pay for it once.
        together = llm_calls(context.kb, Plan(tuple(paid), context.exam, _ANY_MEASURE, context.access)) if paid else []
        return [*together, *calls]

    def _minutes(self, context: RunContext) -> float:
        plans = [
            Plan(tuple(contenders), context.exam, _ANY_MEASURE, context.access)
            for _, every, _ in self._waiting(context)
            if (contenders := [contender for contender in every if self.options.llm or not contender.asks_llm])
        ]
        return sum(quote_for(context.bench, plan).minutes for plan in plans)

    def _waiting(self, context: RunContext) -> Iterator[tuple[StudyPart, list[Contender], Before]]:
        """The stages that are not stored, with their contenders and the stored results before them."""
        results: dict[str, Result] = {}
        for stage in self.stages:
            contenders = list(stage.contenders(context, results))
            known = None if self.fresh else _store(context).data(self._key(context, stage, results, contenders))
            if known is not None:
                results[stage.name] = known
            else:
                yield stage, contenders, results

    # ------------------------------------------------------------ the report

    def _reported(self, columns: Sequence[Column]) -> dict[str, Any]:
        wanted = {table_name.strip().lower() for table_name in self.only}
        tables = [
            table
            for stage in self.stages
            for table in self._tables(stage, columns)
            if not wanted or table.name.lower() in wanted
        ]
        return {
            "surefind": __version__,
            "created": datetime.now().astimezone().isoformat(timespec="seconds"),
            "study": self.name,
            "title": self.study.title,
            "source": self.study.source,
            "command": self.command(),
            "environment": asdict(environment()),
            "collections": [_about(collection) for collection in self.collections],
            "groups": sorted({group for collection in self.collections for group in collection.access.groups}),
            "tables": [asdict(table) for table in tables],
            "results": {column.name: dict(column.results) for column in columns},
        }

    def _tables(self, stage: StudyPart, columns: Sequence[Column]) -> Iterator[Table]:
        for spec in stage.tables:
            yield replace(spec.filled(columns), stage=stage.name, command=self.command(spec.name))

    def command(self, table: str = "") -> str:
        """The command that makes the study again, or one of its tables."""
        chosen = [flag for collection in self.collections for flag in collection.flags]
        only = ["--only", table] if table else [part for table_name in self.only for part in ("--only", table_name)]
        return shlex.join(["surefind", "study", self.name, *chosen, *self.flags, *only, "--fresh"])


def _store(context: RunContext) -> RunCache:
    return RunCache(context.kb.data / FOLDER / "stages")


def _stamps(context: RunContext, contender: Contender) -> Iterator[str]:
    """Fingerprints of what the specs of a configuration only name: weights of models and texts of prompts."""
    layout, pipeline = contender.layout, contender.pipeline
    stages = (*pipeline.stages, *((layout.chunk, *layout.enrich) if layout else ()))
    asked = [partial(declared(stage).stamp, context.services) for stage in stages]
    for ask in (*asked, *(partial(identity, retriever, context.services) for retriever in pipeline.retrieve)):
        with contextlib.suppress(SurefindError, OSError):  # what is not set up fails when it runs, with its own message
            yield ask()


def _about(collection: Collection) -> dict[str, Any]:
    exam = collection.exam
    return {
        "name": collection.name,
        "exam": exam.label,
        "questions": len(exam.queries),
        "fingerprint": exam.fingerprint,
        "audience": str(collection.access),
    }
