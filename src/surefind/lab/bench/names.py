"""Finds a configuration by its name, for every command that takes a pipeline.

A name is looked up in these places, and the first one that has it decides:

1. the pipelines of surefind.toml, and the built-in ones (`hybrid`, `pair`, `careful`, `thorough`)
2. retrievers and specs: `dense`, `bm25 + dense >> rrf(k=60)`
3. the rows of the reports of this knowledge base, newest report first
4. the configurations of the presets of `surefind bench`

If no place has the name as it is written, names that differ from it only in case, or in `alpha` for `α`, count too. If
these belong to different configurations, the name is ambiguous, which is an error.

Makes a configuration that was measured the default of a knowledge base: builds what it needs, then writes it.

What `surefind bench` compares, from its options: configurations, measures, and what is left out because it takes
long.
"""

from __future__ import annotations

import shlex
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

from surefind.base import spec
from surefind.base.abilities import declared
from surefind.base.access import Access
from surefind.base.errors import SpecError, StoreError, UsageError, choices, closest
from surefind.base.prompts.values import Calls
from surefind.base.protocols import OnProgress, Retriever
from surefind.engine.fuse.learned import MANIFEST, Learned, read_manifest
from surefind.engine.inference.provenance import FusionManifest, differences
from surefind.engine.retrieve.dense import Dense
from surefind.engine.search.pipeline import SPEC_MARKS, Pipeline
from surefind.kb import KnowledgeBase
from surefind.kb.adoption import SettingsChange, build, build_calls, missing, prepare, write
from surefind.kb.settings.config import FILE_NAME, Settings
from surefind.kb.settings.template import BUILT_IN, LEAST
from surefind.lab.bench import plan
from surefind.lab.bench.plan import (
    Contender,
    Elsewhere,
    LeftOut,
    Plan,
    distinct,
    from_texts,
    on_layout,
    preset_names,
    short,
)
from surefind.lab.bench.presets import PRESETS
from surefind.lab.bench.run import unseen
from surefind.lab.bench.saved import NamedConfig, SavedReport, reports_in
from surefind.lab.exam.model import Exam
from surefind.lab.measure.ranks import Measure


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
        own, layouts, where = PRESETS[preset].contenders, PRESETS[preset].layouts, f"the preset {preset}"
        for name, text in own.items():
            yield NamedConfig((name,), where, name, text)
            for cut, layout in layouts.items():
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


def change_for(base: KnowledgeBase, contender: Contender) -> SettingsChange:
    """Prepares the change of surefind.toml that makes this configuration the default."""
    name = contender.pipeline.name or short(contender.pipeline)
    return prepare(base.folder, name, contender.pipeline, contender.layout)


@dataclass(frozen=True)
class ConfigInUse:
    pipeline: str
    """Its name."""
    spec: str
    layout: str


@dataclass(frozen=True, kw_only=True)
class Adoption:
    """What changed when a configuration became the default."""

    name: str
    undone: bool
    """Whether the change undoes an earlier one."""
    before: ConfigInUse
    after: ConfigInUse
    later: tuple[str, ...]
    """What later syncs build besides."""
    file: str
    dry_run: bool
    changed: bool = False
    built: tuple[str, ...] = ()


def adopt(
    base: KnowledgeBase,
    change: SettingsChange,
    agree: Callable[[Sequence[Calls]], None],
    report: OnProgress | None,
    say: Callable[[str], None],
    dry_run: bool = False,
) -> Adoption:
    """Builds what the change needs, then writes it. `agree` raises an error if the calls of language models may not be
    made."""
    old = {str(retriever) for pipeline in change.old.pipelines.values() for retriever in pipeline.retrieve}
    made = Adoption(
        name=change.name,
        undone=change.undoes,
        before=_in_use(change.old),
        after=_in_use(change.new),
        later=tuple(
            str(retriever) for retriever in change.new.named(change.new.pipeline).retrieve if str(retriever) not in old
        ),
        file=str(base.folder / FILE_NAME),
        dry_run=dry_run,
    )
    if change.empty:
        return made
    if dry_run:
        return replace(made, changed=True, built=tuple(missing(base, change)))
    try:
        agree(build_calls(base, change))
        built = build(base, change, report)
    except BaseException:
        say(f"{FILE_NAME} was not changed.")
        raise
    write(base.folder, change)
    return replace(made, changed=True, built=tuple(built))


def _in_use(settings: Settings) -> ConfigInUse:
    name = settings.pipeline
    return ConfigInUse(name, str(settings.named(name)), str(settings.layout))


_EMBEDDED = 300
"""The most passages that the default comparison embeds with another encoder."""
_READ = 100
"""The most questions for which a reranker reads on this machine in the default comparison. A count, and not a time: the
same exam is then compared in the same way on every machine."""


@dataclass(frozen=True)
class Compared:
    """What is compared, and by which measures."""

    contenders: tuple[Contender, ...]
    measures: tuple[Measure, ...]
    left_out: tuple[LeftOut, ...] = ()
    """Built-in pipelines without vectors, which would take long to make."""
    offered: tuple[str, ...] = ()
    """The names of contenders that nobody asked for: built-in pipelines of the default comparison."""


def compared(
    kb: KnowledgeBase, preset: str | None, texts: list[str], layouts: list[str], measures: list[str]
) -> Compared:
    """Reads the options, which refuses bad ones before an exam is written."""
    named = kb.settings.known
    left_out: list[LeftOut] = []
    offered: list[str] = []
    cuts = plan.layouts_from_texts(layouts)
    given = plan.from_texts(texts, named, elsewhere(kb))
    if preset:
        if preset == "fusion":
            given += _trained(kb, plan.preset(preset)[0][0].pipeline)
        if not plan.compares_layouts(preset):
            given += plan.current(kb.settings)
        contenders, wanted = plan.preset(preset, given, cuts)
    elif texts or layouts:
        mine = given or plan.from_texts([kb.settings.pipeline], named)
        contenders, wanted = plan.distinct(plan.across(mine, cuts)), plan.DEFAULT_MEASURES
    else:
        contenders, wanted = plan.from_settings(kb.settings.bench, named, elsewhere(kb))
        if "pipelines" not in kb.settings.bench:
            own = kb.settings.pipelines  # those that somebody wrote, or chose with `surefind use`
            offered = [one.name for one in contenders if one.name in BUILT_IN and one.name not in own]
            for contender in contenders:
                if contender.name in offered and (passages := _to_embed(kb, contender)) > _EMBEDDED:
                    left_out.append(LeftOut(contender.name, passages))
    kept = _without(contenders, left_out)
    return Compared(kept, plan.parse_measures(measures or wanted), tuple(left_out), tuple(offered))


def _without(contenders: Sequence[Contender], left_out: Sequence[LeftOut]) -> tuple[Contender, ...]:
    names = [one.name for one in left_out]
    return tuple(contender for contender in contenders if contender.name not in names)


def _to_embed(kb: KnowledgeBase, contender: Contender) -> int:
    """How many passages an encoder that the hybrid has not would have to embed, judged by some of them."""
    usual = kb.settings.known[LEAST].retrieve
    new = [
        retriever
        for retriever in contender.pipeline.retrieve
        if isinstance(retriever, Dense) and retriever not in usual
    ]
    if not new or not kb.has_cut(None) or not kb.missing(new):
        return 0
    view = kb.reader().view
    ids = view.spans().ids
    some = view.chunks(ids[:: len(ids) // _EMBEDDED + 1].tolist(), Access.owner())
    texts = [chunk.searchable for chunk in some]
    lacking = sum(kb.services.embedder(retriever.model).lacking(texts) for retriever in new)
    return round(lacking / max(1, len(texts)) * len(ids))


def plan_for(kb: KnowledgeBase, exam: Exam, what: Compared, access: Access) -> Plan:
    """Returns the plan without built-in pipelines whose reranker would read for many questions."""
    slow = [
        LeftOut(contender.name)
        for contender in what.contenders
        if contender.name in what.offered and len(exam.queries) > _READ and _reads_passages(contender.pipeline)
    ]
    left_out = (*slow, *what.left_out)
    # Without the questions that a contender learned from: the quote then covers exactly those that will be asked.
    return unseen(Plan(_without(what.contenders, slow), exam, what.measures, access, left_out), kb.services)


def _reads_passages(pipeline: Pipeline) -> bool:
    """Whether a reranker reads passages on this machine for every question."""
    return any(declared(reranker).runs_here for reranker in pipeline.rerank)


def _trained(kb: KnowledgeBase, like: Pipeline) -> list[Contender]:
    """The trained fusions of the same retrievers that are valid for the current documents."""
    fitting = [valid_fusion for valid_fusion in _valid_fusions(kb) if valid_fusion.depth == like.depth]
    specs = [str(retriever) for retriever in like.retrieve]
    return [
        Contender(f"learned {manifest.name}", replace(like, fuse=Learned(manifest.name, manifest.missing), name=""))
        for manifest in fitting
        if [retriever.spec for retriever in manifest.retrievers] == specs
    ]


def _valid_fusions(kb: KnowledgeBase) -> list[FusionManifest]:
    view, valid = kb.reader().view, []
    for path in sorted((kb.data / "models").glob(f"[!.]*/{MANIFEST}")):
        try:
            manifest, training = read_manifest(path, FusionManifest)
        except StoreError:
            continue  # `surefind train list` names it
        retrievers = [cast(Retriever, spec.make("retrieve", retriever.spec)) for retriever in manifest.retrievers]
        if not differences(manifest, training.documents, retrievers, manifest.depth, view, kb.services):
            valid.append(manifest)
    return valid
