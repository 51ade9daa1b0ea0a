"""Large indexes: chunks are read in blocks, arrays are checked where they are used, and opening reads none of them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from exam_helpers import surefind
from helpers import Home, ask
from surefind.base import spec
from surefind.base.disk import arrays
from surefind.base.errors import REPAIR, CorruptIndexError
from surefind.base.types import EVERY, Chunk, Query
from surefind.engine.search import reader
from surefind.engine.services import LocalServices
from surefind.engine.store import chunks
from surefind.engine.store.indexes import IndexStore

WORDS = "cash card wire hold branch ledger audit policy escrow claim".split()

HYBRID = """
[search]
pipeline = "hybrid"
[pipelines.hybrid]
retrieve = ["bm25", "dense(model=toy)"]
fuse = "rrf"
"""
MANY = [*WORDS, *(f"word{i}" for i in range(200))]
"""So many that none is in a quarter of the chunks: the postings of such words are read when an index is opened."""


def chunks_of(count: int) -> list[Chunk]:
    chance = np.random.default_rng(1)
    texts = [" ".join(chance.choice(MANY, 12)) + f" number{i}" for i in range(count)]
    return [Chunk(f"{i:05}.md", 0, len(text), text) for i, text in enumerate(texts)]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every array of more than 4 kB is large, and 64 of its numbers are checked together."""
    monkeypatch.setattr(arrays, "LARGE", 4096)
    monkeypatch.setattr(arrays, "_BLOCK", 64)


def flip(path: Path, at: int) -> None:
    """Changes one byte, and leaves the time of the file as it was, as a failing disk does."""
    stat = path.stat()
    with path.open("r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 0x55]))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


@pytest.mark.usefixtures("toys", "small_blocks")
@pytest.mark.parametrize("file", ["docs.npy", "shapes.npy"])
def test_number_out_of_range_is_found_by_the_search_that_uses_it(tmp_path: Path, file: str) -> None:
    services, retriever = LocalServices(), spec.make("retrieve", "bm25")
    store = IndexStore(tmp_path)
    store.save("made", retriever.build(chunks_of(2000), services), "bm25")
    array = np.load(tmp_path / "made" / file, mmap_mode="r+")
    array[len(array) // 2] = 60_000
    array.flush()
    index = store.load("made", retriever, services)  # opening does not read the file
    harmless, damaged = 0, 0
    for query in MANY:
        try:
            index.search(retriever, [Query(query)], 5, EVERY)
            harmless += 1
        except CorruptIndexError as error:
            assert "outside 0 to" in str(error) and REPAIR in str(error)
            damaged += 1
    assert damaged and harmless


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("file", ["docs.npy", "lengths.npy", "vocabulary.json"])
def test_checksums_find_a_changed_byte_and_sizes_a_lost_one(tmp_path: Path, file: str) -> None:
    services, retriever = LocalServices(), spec.make("retrieve", "bm25")
    made, store = retriever.build(chunks_of(200), services), IndexStore(tmp_path)
    store.save("made", made, "bm25")
    assert store.sound("made") and store.intact("made")
    flip(tmp_path / "made" / file, -1 % (tmp_path / "made" / file).stat().st_size)
    assert store.sound("made") and not IndexStore(tmp_path).intact("made")
    with (tmp_path / "made" / file).open("r+b") as damaged:
        damaged.truncate(100)
    assert not store.sound("made")
    with pytest.raises(CorruptIndexError, match="the size of"):
        store.load("made", retriever, services)
    store.save("made", made, "bm25")
    assert store.sound("made") and store.intact("made"), "what was found out about the index before it counts no more"


def test_doctor_removes_a_damaged_index_and_sync_makes_it_again(home: Home) -> None:
    for i in range(60):
        home.write(f"docs/{i}.md", f"# Page {i}\n\ncash {' '.join(WORDS)} number{i}\n")
    home.sync("docs")
    path = next(home.folder.rglob("docs.npy"))
    flip(path, path.stat().st_size // 2)
    ran = surefind("doctor", kb=home.folder)
    assert ran.code == 1 and path.parent.name in ran.out and "Make them again with: surefind sync." in ran.out
    home.sync()
    assert surefind("doctor", kb=home.folder).code == 0
    with home.open() as kb:
        assert all(ask(kb, f"number{i}", pipeline="bm25").hits[0].document == f"{i}.md" for i in range(60))


def test_sync_reads_the_text_again_where_the_index_that_it_merges_is_damaged(home: Home) -> None:
    for i in range(60):
        home.write(f"docs/{i}.md", f"# Page {i}\n\ncash {' '.join(WORDS)} number{i}\n")
    home.sync("docs")
    path = next(home.folder.rglob("docs.npy"))
    flip(path, path.stat().st_size // 2)
    home.write("docs/new.md", "# New\n\nnumber60 cash\n")
    home.sync()
    with home.open() as kb:
        assert ask(kb, "number60", pipeline="bm25").hits[0].document == "new.md"
        assert all(ask(kb, f"number{i}", pipeline="bm25").hits[0].document == f"{i}.md" for i in range(60))


def test_reader_that_found_damage_searches_again_after_the_repair(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a server does: its process goes on, and other ones repair. The generation stays the same."""
    monkeypatch.setattr(arrays, "LARGE", 200)
    monkeypatch.setattr(arrays, "_BLOCK", 16)
    monkeypatch.setattr(reader, "_RETRY_SECONDS", 0.0)
    for i in range(60):
        home.write(f"docs/{i}.md", f"# Page {i}\n\ncash {' '.join(WORDS)} number{i}\n")
    home.sync("docs")
    path = next(home.folder.rglob("docs.npy"))
    rare = json.loads((path.parent / "vocabulary.json").read_text()).index("number30")
    with home.open() as kb:
        assert ask(kb, "cash", pipeline="bm25").hits
        flip(path, 128 + 4 * int(np.load(path.parent / "starts.npy")[rare]) + 2)
        with pytest.raises(CorruptIndexError, match="surefind sync"):
            for i in range(60):
                ask(kb, f"number{i}", pipeline="bm25")
        assert surefind("doctor", kb=home.folder).code == 1
        home.sync()
        assert all(ask(kb, f"number{i}", pipeline="bm25").hits for i in range(60))


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_chunks_are_read_in_blocks_and_no_document_twice(
    home: Home, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "_BLOCK", size)
    for i in range(4):
        home.write(f"docs/{i}.md", "\n\n".join(f"## Part {j}\n\n{'word ' * 60} {i}{j}" for j in range(i + 1)))
    home.sync("docs")
    with home.open() as kb:
        view = kb.reader().view
        stored = chunks.StoredChunks(view._rows, view._layout, view.table, np.arange(len(view)))
        read: list[list[int]] = []
        real = view._rows.every
        monkeypatch.setattr(view._rows, "every", lambda layout, some: read.append(list(some)) or real(layout, some))
        texts = [chunk.text for chunk in stored]
        assert sorted(version for some in read for version in some) == sorted(view.table.versions.tolist())
        assert [stored[i].text for i in range(len(stored))] == texts == [chunk.text for chunk in stored[:]]
        assert stored[-1].text == texts[-1] and [chunk.text for chunk in stored[1:3]] == texts[1:3]
        with pytest.raises(IndexError):
            stored[len(stored)]


@pytest.mark.usefixtures("toys")
def test_server_removes_a_damaged_index_after_its_start_and_makes_it_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from surefind.doors.http.service import Service
    from surefind.kb.completing import incomplete
    from surefind.kb.settings.serve import ServeSettings

    home = Home(tmp_path, HYBRID)
    home.write("docs/a.md", "# Page\n\ncash ledger\n")
    home.sync("docs")
    path = next(home.folder.rglob("vectors.npy"))
    flip(path, -2 % path.stat().st_size)
    with home.open() as kb:
        service = Service(kb, ServeSettings())
        service.remove_damaged()
        assert path.parent.name in caplog.text and "Run: surefind sync" in caplog.text
        assert [retriever.name for retriever in incomplete(kb)] == ["dense"]
        assert kb.complete() == ["dense"] and not incomplete(kb)
        caplog.clear()
        service.remove_damaged()
        assert not caplog.text
