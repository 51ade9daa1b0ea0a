"""What `surefind bench` compares, from its options: configurations, measures, and what is left out because it takes
long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from surefind.base import spec
from surefind.base.abilities import declared
from surefind.base.access import Access
from surefind.base.errors import StoreError
from surefind.base.protocols import Retriever
from surefind.engine.fuse.learned import MANIFEST, Learned, read_manifest
from surefind.engine.inference.manifest import FusionManifest
from surefind.engine.inference.provenance import differences
from surefind.engine.retrieve.dense import Dense
from surefind.engine.search.pipeline import Pipeline
from surefind.kb import KnowledgeBase
from surefind.kb.settings.template import BUILT_IN
from surefind.lab.bench import plan
from surefind.lab.bench.left_out import LeftOut
from surefind.lab.bench.names import elsewhere
from surefind.lab.bench.plan import Contender, Plan
from surefind.lab.bench.run import unseen
from surefind.lab.exam.model import Exam
from surefind.lab.measure.names import Measure

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
    usual = Pipeline.parse(BUILT_IN["hybrid"]).retrieve
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
        if contender.name in what.offered and len(exam.queries) > _READ and _reads_here(contender.pipeline)
    ]
    left_out = (*slow, *what.left_out)
    # Without the questions that a contender learned from: the quote then covers exactly those that will be asked.
    return unseen(Plan(_without(what.contenders, slow), exam, what.measures, access, left_out), kb.services)


def _reads_here(pipeline: Pipeline) -> bool:
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
