"""Finds a configuration by its name, for every command that takes a pipeline.

A name is looked up in these places, and the first one that has it decides:

1. the pipelines of surefind.toml, and the built-in ones (`hybrid`, `careful`, `pair`)
2. retrievers and specs: `dense`, `bm25 + dense >> rrf(k=60)`
3. the rows of the reports of this knowledge base, newest report first
4. the configurations of the presets of `surefind bench`

If no place has the name as it is written, names that differ from it only in case, or in `alpha` for `α`, count too. If
these belong to different configurations, the name is ambiguous, which is an error.
"""

from __future__ import annotations

import shlex
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from surefind.base import spec
from surefind.base.errors import SpecError, UsageError, choices, closest
from surefind.engine.search.pipeline import SPEC_MARKS, Pipeline
from surefind.kb import KnowledgeBase
from surefind.lab.bench.plan import (
    Contender,
    Elsewhere,
    distinct,
    from_texts,
    on_layout,
    preset_module,
    preset_names,
)
from surefind.lab.bench.saved import NamedConfig, SavedReport, reports_in


def find(kb: KnowledgeBase, name: str) -> Contender:
    """Finds the configuration that a name or a spec stands for. Its layout is None unless it differs from that of the
    settings."""
    contenders = from_texts([name], kb.settings.known, elsewhere(kb))
    if len(contenders) > 1:
        listed = ", ".join(contender.name for contender in contenders)
        raise UsageError(f"{name!r} stands for {len(contenders)} pipelines: {listed}. Choose one of them.")
    return contenders[0]


def find_pipeline(kb: KnowledgeBase, name: str | None) -> Pipeline:
    """Finds a pipeline for a command that works on the layout of the settings; without a name, the default one."""
    if name is None:
        return kb.pipeline()
    contender = find(kb, name)
    if contender.layout is not None:
        raise UsageError(
            f"{name!r} cuts documents in another way than surefind.toml: {contender.layout}. Adopt it first with: "
            f"surefind use {shlex.quote(name)}."
        )
    return contender.pipeline


def find_in(report: SavedReport, name: str) -> Contender:
    """Finds a row of one report."""
    same = {known: row for row in report.rows for known in row.names if known == name} or _alike(name, report.rows)
    if not same:
        raise UsageError(
            f"There is no row {name!r} in {report.path}. {choices(name, [r.names[0] for r in report.rows])}"
        )
    return _only(name, same)


def elsewhere(kb: KnowledgeBase) -> Elsewhere:
    """Returns a function that finds names which are neither in surefind.toml nor specs."""
    return partial(_elsewhere, kb)


def _elsewhere(kb: KnowledgeBase, name: str, error: SpecError) -> Contender:
    reports = list(reports_in(kb.data))
    entries = [*(row for report in reports for row in report.rows), *_presets()]
    contender = next((entry.contender() for entry in entries if name in entry.names), None)
    if contender is None:
        entries = [*_own(kb), *_retrievers(), *entries]
        alike = _alike(name, entries)
        if not alike:
            raise _unknown(name, error, kb, entries, reports)
        contender = _only(name, alike)
    return _in_layout_of(kb, contender)


def _in_layout_of(kb: KnowledgeBase, contender: Contender) -> Contender:
    same = contender.layout is None or str(contender.layout) == str(kb.settings.layout)
    return Contender(contender.name, contender.pipeline, None if same else contender.layout)


def _own(kb: KnowledgeBase) -> list[NamedConfig]:
    return [NamedConfig((name,), "surefind.toml", name, str(pipeline)) for name, pipeline in kb.settings.known.items()]


def _retrievers() -> list[NamedConfig]:
    return [NamedConfig((name,), "the retrievers", name, name) for name in spec.names("retrieve")]


def _presets() -> Iterator[NamedConfig]:
    """The contenders of all presets, without and with the layouts that they are compared on."""
    for preset in preset_names():
        module, where = preset_module(preset), f"the preset {preset}"
        own = dict(module.CONTENDERS)
        for name, text in own.items():
            yield NamedConfig((name,), where, name, text)
            for cut, layout in getattr(module, "LAYOUTS", {}).items():
                yield NamedConfig((cut if len(own) == 1 else on_layout(cut, name),), where, name, text, layout)


def _alike(name: str, entries: Iterable[NamedConfig]) -> dict[str, NamedConfig]:
    """The names that differ from the given one only in spelling, each with the first entry that has it."""
    wanted, matches = _fold(name), dict[str, NamedConfig]()
    for entry in entries:
        for known in entry.names:
            if _fold(known) == wanted:
                matches.setdefault(known, entry)
    return matches


def _fold(name: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", name).casefold().replace("α", "alpha").split())


def _only(name: str, matches: dict[str, NamedConfig]) -> Contender:
    """The configuration of all these entries; an error if they are different ones."""
    made = [entry.contender() for entry in matches.values()]
    if len(distinct(made)) > 1:
        listed = " or ".join(f"{known!r} of {entry.where} ({entry.spec})" for known, entry in matches.items())
        raise UsageError(f"{name!r} is ambiguous: it may be {listed}. Write the name exactly as it is there.")
    return made[0]


def _unknown(
    name: str, error: SpecError, kb: KnowledgeBase, entries: Sequence[NamedConfig], reports: Sequence[SavedReport]
) -> SpecError:
    """The error for an unknown name. It lists the names that are in use here; the names of presets are suggested only,
    because they are many."""
    rows = [row.names[0] for report in reports[:1] for row in report.rows]
    known = {*kb.settings.known, *spec.names("retrieve"), *rows}
    meant = closest(name, known) or closest(name, {alias for entry in entries for alias in entry.names})
    if any(mark in name for mark in SPEC_MARKS):
        return SpecError(f"{error} Or did you mean {meant}?" if meant else str(error))
    return SpecError(f"There is no pipeline called {name!r}. {choices(name, known, meant)}")
