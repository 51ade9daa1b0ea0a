"""The report of `surefind status`: what a knowledge base holds."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from surefind.base.access import Access
from surefind.base.redact import redacted
from surefind.engine.search.reader import Searcher
from surefind.engine.store.backend import Backend
from surefind.engine.store.catalogue import Catalogue
from surefind.engine.store.versions import Source
from surefind.engine.write.intake import Problem
from surefind.kb.settings.config import Settings


@dataclass(frozen=True)
class Status:
    """What a knowledge base holds: documents, sources, indexes, generations, problems."""

    folder: str
    documents: int
    chunks: int
    generation: int
    last_sync: str
    sources: list[str]
    layout: str
    pipelines: dict[str, str]
    indexes: dict[str, int]
    """Bytes on disk of each index."""
    restricted: int
    """The number of documents that not everybody may read."""
    problems: list[Problem]
    generations: list[int]
    """The numbers of the kept generations: a rollback can return to any of them."""
    drafts: int
    """The number of drafts that wait to be published."""
    idle_rules: list[str]
    """The paths of access rules that cover no document."""
    models: dict[str, list[str]]
    """The encoders, rerankers and language models that the pipelines use."""
    size: int
    """Bytes on disk of everything below .surefind."""
    backend: str = "local"
    """Where the indexes are: `local`, or `milvus` and its address."""


def problems_of(catalogue: Catalogue) -> list[Problem]:
    """Returns the files that could not be read, or not completely, and the documents that are left to the owner."""
    return [Problem(problem.path, problem.reason) for problem in catalogue.problems()]


def status_of(
    folder: Path, catalogue: Catalogue, backend: Backend, reader: Searcher, settings: Settings, drafts: int
) -> Status:
    """Collects the status of a knowledge base, for the generation that the reader shows."""
    kept = catalogue.generations()
    shown = next(generation for generation in kept if generation.number == reader.generation)
    sizes = backend.sizes(shown.contents, str(settings.layout))
    return Status(
        folder=str(folder),
        documents=shown.documents,
        chunks=len(reader.view),
        generation=shown.number,
        last_sync=shown.created,
        sources=[_described(source) for source in catalogue.sources()],
        layout=str(settings.layout),
        pipelines={name: str(pipeline) for name, pipeline in settings.known.items()},
        indexes={_label(spec, list(sizes)): size for spec, size in sizes.items()},
        restricted=reader.view.withheld(Access.public()),
        problems=problems_of(catalogue),
        generations=[generation.number for generation in kept],
        idle_rules=[rule.path for rule in reader.view.idle_rules()],
        drafts=drafts,
        models=models_of(settings),
        size=_size(catalogue.path.parent),
        backend="local" if settings.store.backend == "local" else f"{settings.store.backend}, {settings.store.uri}",
    )


def models_of(settings: Settings) -> dict[str, list[str]]:
    """Returns the names of the models that the pipelines use, by kind."""
    pipelines = settings.pipelines.values()
    by_kind = {
        "encoder": [getattr(stage, "model", "") for pipeline in pipelines for stage in pipeline.retrieve],
        "reranker": [getattr(stage, "model", "") for pipeline in pipelines for stage in pipeline.rerank],
        "language model": [settings.llm.model, settings.llm.fallback],
    }
    return {kind: sorted({name for name in names if name}) for kind, names in by_kind.items() if any(names)}


def _size(folder: Path) -> int:
    """Returns the bytes of all files in a folder. A writer may delete files and folders meanwhile: they are skipped."""
    total = 0
    for inside, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += Path(inside, name).lstat().st_size
    return total


def _label(index: str, all_of_them: Sequence[str]) -> str:
    """Returns the spec of an index without its model's fingerprint, unless two indexes differ only in that."""
    short = index.partition("@")[0]
    return short if sum(spec.partition("@")[0] == short for spec in all_of_them) == 1 else index


def _described(source: Source) -> str:
    return f"{redacted(source.origin)} ({source.revision[:12] or 'not fetched'})" if source.origin else str(source.root)
