"""What a sync would ask of language models, before it asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from surefind import spec
from surefind.abilities import Extracting
from surefind.config import Settings
from surefind.ingest._scan import scan
from surefind.llm.prices import tokens
from surefind.llm.quote import Calls, Workload
from surefind.protocols import Priced, Retriever
from surefind.store.catalogue import Catalogue
from surefind.store.needs import innermost

_CHUNK_TOKENS = 250
"""Of a passage, where a sync is quoted before anything is cut."""


def workload(sizes: Sequence[int]) -> Workload:
    """Of files that nobody has read yet, by their bytes."""
    text = tokens(sum(sizes))
    chunks = max(len(sizes), text // _CHUNK_TOKENS)
    return Workload(0, len(sizes), chunks, text // max(1, len(sizes)), _CHUNK_TOKENS)


def sync_calls(
    settings: Settings,
    roots: Sequence[Path],
    known: Mapping[Path, tuple[int, int]],
    cut: bool,
    retrievers: Sequence[Retriever],
    missing: Callable[[Retriever], bool],
) -> list[Calls]:
    """What a sync of these folders would ask at most. `cut` says whether the layout was made before, `missing` which
    indexes were not. A repository that is not here yet is not counted."""
    layout = settings.layout
    stages = [stage for stage in (layout.chunk, *layout.enrich) if isinstance(stage, Priced)]
    reading = {str(reader): (r, reader) for r in retrievers if (reader := paid_reader(r))}.values()
    if not stages and not reading:
        return []
    there = [root.resolve() for root in roots if root.exists()]
    entries = [e for root in there for e in scan(root, settings.files) if settings.readers.find(e.relative)]
    every = workload([entry.size for entry in entries])
    new = workload([e.size for e in entries if not cut or known.get(e.path) != (e.size, e.mtime_ns)])
    asked = [stage.llm_calls(new) for stage in stages]
    for retriever, reader in reading:
        asked.append(reader.llm_calls(new if cut and not missing(retriever) else every))
    return [calls for calls in asked if calls.calls]


def known_files(catalogue: Catalogue) -> dict[Path, tuple[int, int]]:
    """Size and time of every file as it was taken in."""
    contents = catalogue.contents()
    return {
        source.root / path: (row.size, row.mtime_ns)
        for source in catalogue.sources()
        for path, row in catalogue.files(source, contents).items()
    }


def paid_reader(retriever: Retriever) -> Priced | None:
    """What asks a language model about every passage while the retriever's index is built, if anything does."""
    one = innermost(retriever)
    reader = spec.make("extract", one.extract) if isinstance(one, Extracting) else None
    return reader if isinstance(reader, Priced) else None


def offline(retriever: Retriever) -> Retriever:
    """The innermost one with passages read by rules: what is timed before anybody has agreed to pay."""
    found: Any = innermost(retriever)
    return cast(Retriever, replace(found, extract="phrases") if paid_reader(found) else found)
