"""An index made by hand, with checksums that match, is refused when it is opened: no kernel reads beyond its arrays."""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers import Home, ask
from surefind.base import spec
from surefind.base.disk.sealed import sealed, unsealed
from surefind.base.errors import CorruptIndexError
from surefind.base.types import EVERY, Chunk, Query
from surefind.engine.services import LocalServices
from surefind.engine.store.indexes import IndexStore
from surefind.engine.store.table import ChunkTable

TEXTS = [
    "The Wire Fee is 25 dollars, says the Bank Secrecy Act.",
    "Anna Smith signs the Wire Fee at Quillhaven Bank.",
    "The Bank Secrecy Act (BSA) binds Quillhaven Bank.",
]
CHUNKS = [Chunk(f"{i}.md", 0, len(text), text, title=f"Page {i}") for i, text in enumerate(TEXTS)]

Change = Callable[[Any], Any]
HUGE = 1 << 30


def put(value: int, at: Any = 0) -> Change:
    def change(array: Any) -> Any:
        made = array.copy()
        made[at] = value
        return made

    return change


TAMPERED: list[tuple[str, str, Change]] = [
    ("bm25", "docs", put(HUGE)),
    ("bm25", "docs", put(-HUGE)),
    ("bm25", "docs", lambda array: array.astype(np.int64)),
    ("bm25", "docs", lambda array: array.astype(">i4")),
    ("bm25", "docs", lambda array: array[:-1]),
    ("bm25", "docs", lambda array: array.reshape(1, -1)),
    ("bm25", "shapes", lambda array: array[:1]),
    ("bm25", "shapes", put(60_000)),
    ("bm25", "shape_tfs", lambda array: array[:1]),
    ("bm25", "shape_lengths", lambda array: array[:1]),
    ("bm25", "lengths", lambda array: array[:1]),
    ("bm25", "lengths", put(-5)),
    ("bm25", "starts", put(HUGE, 1)),
    ("bm25", "starts", put(5)),
    ("bm25", "starts", lambda array: array[:-1]),
    ("tfidf", "tfidf_docs", put(HUGE)),
    ("tfidf", "tfidf_weights", lambda array: array[:1]),
    ("tfidf", "tfidf_starts", put(-HUGE, 2)),
    ("tfidf", "words_terms", put(HUGE)),
    ("tfidf", "words_sizes", put(HUGE)),
    ("sparse", "lengths", lambda array: np.append(array, 7).astype(np.int32)),
    ("dense(model=toy)", "vectors", lambda array: array.astype(np.float64)),
    ("dense(model=toy)", "vectors", lambda array: array[0]),
    ("entity_overlap", "entities", put(HUGE)),
    ("entity_overlap", "starts", put(HUGE, -1)),
    ("ppr(seed=[bm25])", "facts-starts", put(HUGE, 1)),
    ("ppr(seed=[bm25])", "facts-rows", put(HUGE, (0, 1))),
    ("ppr(seed=[bm25])", "facts-rows", put(99, (0, 0))),
    ("ppr(seed=[bm25])", "facts-rows", lambda array: array[:, :3].copy()),
    ("ppr(seed=[bm25])", "facts-documents", put(-7)),
    ("ppr(seed=[bm25])", "facts-key_numbers", put(HUGE)),
    ("ppr(seed=[bm25])", "facts-lower", lambda array: array[:1]),
]


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize(("stage", "name", "change"), TAMPERED)
def test_an_array_that_does_not_fit_is_refused(tmp_path: Path, stage: str, name: str, change: Change) -> None:
    services = LocalServices()
    retriever = spec.make("retrieve", stage)
    store = IndexStore(tmp_path)
    store.save("made", retriever.build(CHUNKS, services), stage)
    assert len(store.load("made", retriever, services)) == len(CHUNKS)
    tamper(tmp_path / "made", f"{name}.npy", change)
    assert store.sound("made")
    with pytest.raises(CorruptIndexError, match="cannot be read"):
        store.load("made", retriever, services)


def tamper(folder: Path, name: str, change: Change) -> None:
    """Changes an array of an index, and its checksum."""
    path = folder / name
    np.save(path, change(np.load(path)))
    manifest = unsealed(json.loads((folder / "manifest.json").read_text()))
    manifest["files"][name] = [path.stat().st_size, zlib.crc32(path.read_bytes())]
    (folder / "manifest.json").write_text(json.dumps(sealed(manifest)))


def filled(home: Home) -> Home:
    for i, text in enumerate(TEXTS):
        home.write(f"docs/{i}.md", f"---\nstatus: approved\n---\n# Page {i}\n\n{text}\n")
    home.sync("docs")
    return home


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("rows", put(77)),
        ("rows", lambda array: array[:5]),
        ("versions", lambda array: array[:1]),
        ("columns_documents", put(HUGE)),
        ("columns_codes", put(HUGE)),
        ("columns_sizes", put(-1)),
    ],
)
def test_a_table_that_does_not_fit_is_refused(home: Home, name: str, change: Change) -> None:
    folder = next(filled(home).folder.rglob("table.json")).parent
    assert len(ChunkTable.load(folder)) == len(TEXTS)
    tamper(folder, f"{name}.npy", change)
    with pytest.raises(ValueError, match=r"instead of|outside|must rise|versions that"):
        ChunkTable.load(folder)


def test_a_search_of_a_handmade_index_ends_with_a_message(home: Home) -> None:
    """In a process of its own, because a kernel that reads beyond its arrays ends the process."""
    folder = next(filled(home).folder.rglob("vocabulary.json")).parent
    tamper(folder, "docs.npy", lambda array: np.full_like(array, HUGE))
    command = [sys.executable, "-m", "surefind", "search", "wire fee", "--kb", str(home.folder)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode in (0, 3) and "Traceback" not in ran.stderr


@pytest.mark.usefixtures("toys")
def test_vectors_of_another_length_are_refused(tmp_path: Path) -> None:
    services = LocalServices()
    retriever = spec.make("retrieve", "dense(model=toy)")
    store = IndexStore(tmp_path)
    store.save("made", retriever.build(CHUNKS, services), "dense")
    tamper(tmp_path / "made", "vectors.npy", lambda array: np.ascontiguousarray(array[:, :3]))
    with pytest.raises(CorruptIndexError, match="the index has 3"):
        store.load("made", retriever, services).search(retriever, [Query("wire fee")], 2, EVERY)


def test_the_indexes_of_a_sync_pass_all_checks(home: Home) -> None:
    with filled(home).open() as kb:
        for pipeline in ("bm25", "tfidf", "sparse", "entity_overlap", "ppr(seed=[bm25])"):
            assert ask(kb, "Wire Fee", pipeline=pipeline).hits
