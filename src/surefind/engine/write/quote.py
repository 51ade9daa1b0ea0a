"""Estimates the LLM calls of a sync before it starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from surefind.base.abilities import paid_calls
from surefind.base.prompts.values import Calls, Workload
from surefind.base.protocols import Retriever
from surefind.engine.files.readers import Readers
from surefind.engine.files.scan import FileRules, scan
from surefind.engine.llm.prices import tokens
from surefind.engine.store.catalogue import Catalogue
from surefind.engine.store.indexes import paid_extractor
from surefind.engine.write.layout import Layout

_CHUNK_TOKENS = 250
"""The assumed tokens of a passage, for estimates before anything is cut."""


def workload(sizes: Sequence[int]) -> Workload:
    """Estimates the documents, chunks and tokens of files from their sizes in bytes, before they are read."""
    text = tokens(sum(sizes))
    chunks = max(len(sizes), text // _CHUNK_TOKENS)
    return Workload(0, len(sizes), chunks, text // max(1, len(sizes)), _CHUNK_TOKENS)


def sync_calls(
    layout: Layout,
    files: tuple[FileRules, Readers],
    roots: Sequence[Path],
    known: Callable[[], Mapping[Path, tuple[int, int]]],
    cut: bool,
    retrievers: Sequence[Retriever],
    missing: Callable[[Retriever], bool],
) -> list[Calls]:
    """Estimates the most LLM calls that a sync of these folders would make. `files` says which of them are read, `cut`
    whether documents are cut in this layout already, `missing` whether a retriever has no index. `known` returns the
    size and time of each file when it was last read. Repositories not fetched yet are not counted."""
    extracting = {str(reader): (r, reader) for r in retrievers if (reader := paid_extractor(r))}.values()
    if not layout.asks_llm and not extracting:
        return []
    there = [root.resolve() for root in roots if root.exists()]
    rules, readers = files
    entries = [e for root in there for e in scan(root, rules) if readers.find(e.relative)]
    every = workload([entry.size for entry in entries])
    before = known() if cut else {}
    new = workload([e.size for e in entries if before.get(e.path) != (e.size, e.mtime_ns)])
    estimates = [calls for stage in (layout.chunk, *layout.enrich) for calls in paid_calls(stage, new)]
    for retriever, reader in extracting:
        estimates += paid_calls(reader, new if cut and not missing(retriever) else every)
    return estimates


def known_files(catalogue: Catalogue) -> dict[Path, tuple[int, int]]:
    """Returns the size and modification time of every file when it was last read."""
    contents = catalogue.snapshot_id()
    return {
        source.root / path: (row.size, row.mtime_ns)
        for source in catalogue.sources()
        for path, row in catalogue.files(source, contents).items()
    }
