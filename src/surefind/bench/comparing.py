"""What `surefind bench` compares, from its options: configurations, measures, and what is left out because embedding
takes long."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from surefind import spec
from surefind.access import Access
from surefind.bench import plan
from surefind.bench.names import elsewhere
from surefind.bench.plan import Contender, Plan
from surefind.bench.run import unseen
from surefind.errors import StoreError
from surefind.exam.model import Exam
from surefind.fuse.learned import MANIFEST, Learned, read_manifest
from surefind.inference.manifest import FusionManifest
from surefind.inference.provenance import differences
from surefind.kb import KnowledgeBase
from surefind.measure.names import Measure
from surefind.protocols import Retriever
from surefind.retrieve.dense import Dense
from surefind.search.pipeline import Pipeline
from surefind.settings.template import BUILT_IN

Compared = tuple[tuple[Contender, ...], tuple[Measure, ...], tuple[str, ...]]
"""What is compared, by which measures, and the pipelines that are left out because embedding takes long."""
_EMBEDDED = 300
"""The most passages that the default comparison embeds with another encoder: about 15 seconds on two cores."""


def compared(
    kb: KnowledgeBase, preset: str | None, texts: list[str], layouts: list[str], measures: list[str]
) -> Compared:
    """Reads the options, which refuses bad ones before an exam is written."""
    named = kb.settings.known
    left_out: list[Contender] = []
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
            left_out = [
                contender for contender in contenders if contender.name in BUILT_IN and _takes_long(kb, contender)
            ]
    kept = tuple(contender for contender in contenders if contender not in left_out)
    return kept, plan.parse_measures(measures or wanted), tuple(contender.name for contender in left_out)


def _takes_long(kb: KnowledgeBase, contender: Contender) -> bool:
    """Whether an encoder that the hybrid has not would have to embed many passages, judged by some of them."""
    usual = Pipeline.parse(BUILT_IN["hybrid"]).retrieve
    new = [
        retriever
        for retriever in contender.pipeline.retrieve
        if isinstance(retriever, Dense) and retriever not in usual
    ]
    if not new or not kb.has_cut(None) or not kb.missing(new):
        return False
    view = kb.reader().view
    ids = view.spans().ids
    some = view.chunks(ids[:: len(ids) // _EMBEDDED + 1].tolist(), Access.owner())
    texts = [chunk.searchable for chunk in some]
    lacking = sum(kb.services.embedder(retriever.model).lacking(texts) for retriever in new)
    return lacking / max(1, len(texts)) * len(ids) > _EMBEDDED


def plan_for(kb: KnowledgeBase, exam: Exam, what: Compared, access: Access) -> Plan:
    # Without the questions that a contender learned from: the quote then covers exactly those that will be asked.
    return unseen(Plan(what[0], exam, what[1], access, what[2]), kb.services)


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
