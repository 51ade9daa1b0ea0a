"""Large indexes: chunks are read in blocks, files are checked block by block, and opening reads none of them."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import Home, ask
from surefind.base import spec
from surefind.base.disk import blocks
from surefind.base.errors import CorruptIndexError, NotBuiltError
from surefind.base.types import EVERY, Chunk, Query
from surefind.engine.search import current
from surefind.engine.services import LocalServices
from surefind.engine.store import chunks
from surefind.engine.store.indexes import IndexStore

WORDS = "cash card wire hold branch ledger audit policy escrow claim".split()

MANY = [*WORDS, *(f"word{i}" for i in range(200))]
"""So many that none is in a quarter of the chunks: the postings of such words are read when an index is opened."""


def chunks_of(count: int) -> list[Chunk]:
    chance = np.random.default_rng(1)
    texts = [" ".join(chance.choice(MANY, 12)) + f" number{i}" for i in range(count)]
    return [Chunk(f"{i:05}.md", 0, len(text), text) for i, text in enumerate(texts)]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file of more than 4 kB has blocks, of 256 bytes."""
    monkeypatch.setattr(blocks, "LARGE", 4096)
    monkeypatch.setattr(blocks, "BLOCK", 256)


def flip(path: Path, at: int) -> None:
    """Changes one byte, and leaves the time of the file as it was, as a failing disk does."""
    import os

    stat = path.stat()
    with path.open("r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 0x55]))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


@pytest.mark.usefixtures("toys", "small_blocks")
@pytest.mark.parametrize(("stage", "file"), [("bm25", "docs.npy"), ("bm25", "shapes.npy")])
def test_damaged_block_is_found_by_the_search_that_uses_it(tmp_path: Path, stage: str, file: str) -> None:
    services, retriever = LocalServices(), spec.make("retrieve", stage)
    store = IndexStore(tmp_path)
    store.save("made", retriever.build(chunks_of(2000), services), stage)
    whole = store.load("made", retriever, services).search(retriever, [Query("number17"), Query("cash")], 5, EVERY)
    flip(tmp_path / "made" / file, (tmp_path / "made" / file).stat().st_size // 2)
    index = store.load("made", retriever, services)  # opening does not read the file
    assert not store.sound("made")
    harmless, damaged = 0, 0
    for query in MANY:
        try:
            index.search(retriever, [Query(query)], 5, EVERY)
            harmless += 1
        except CorruptIndexError as error:
            assert "Rebuild it with: surefind sync" in str(error)
            damaged += 1
    assert damaged and harmless
    flip(tmp_path / "made" / file, (tmp_path / "made" / file).stat().st_size // 2)
    again = store.load("made", retriever, services).search(retriever, [Query("number17"), Query("cash")], 5, EVERY)
    assert np.array_equal(again.ids, whole.ids) and store.sound("made")


@pytest.mark.usefixtures("toys", "small_blocks")
@pytest.mark.parametrize("file", ["vectors.npy", "codes.npy"])
def test_damaged_block_of_vectors_is_found_by_the_search_that_uses_it(
    tmp_path: Path, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from surefind.engine.retrieve import _vectors

    monkeypatch.setattr(_vectors, "EXACT_LIMIT", 1000)
    services, retriever = LocalServices(), spec.make("retrieve", "dense(model=toy)")
    store = IndexStore(tmp_path)
    store.save("made", retriever.build(chunks_of(3000), services), "dense")
    flip(tmp_path / "made" / file, 5000)
    index = store.load("made", retriever, services)
    with pytest.raises(CorruptIndexError, match="Rebuild it with: surefind sync"):
        index.search(retriever, [Query(word) for word in WORDS], 3000, EVERY)
    assert not store.sound("made")


@given(st.binary(max_size=3 * blocks.BLOCK), st.integers(0, 2 * blocks.BLOCK))
def test_checksum_of_many_blocks_is_that_of_their_bytes(data: bytes, more: int) -> None:
    data = data + bytes(more % 251 for _ in range(more))
    sums = [zlib.crc32(data[at : at + blocks.BLOCK]) for at in range(0, len(data), blocks.BLOCK)]
    assert blocks.joined_sum(sums, len(data)) == zlib.crc32(data)


@pytest.mark.usefixtures("toys", "small_blocks")
@pytest.mark.parametrize("at", [200, 256 * 512 + 3, -1])
def test_checking_ahead_finds_what_checking_finds(tmp_path: Path, at: int) -> None:
    services, retriever = LocalServices(), spec.make("retrieve", "bm25")
    store = IndexStore(tmp_path)
    for key in ("whole", "damaged", "replaced"):
        store.save(key, retriever.build(chunks_of(4000), services), "bm25")
    path = tmp_path / "damaged" / "docs.npy"
    size = path.stat().st_size
    assert size > 256 * 512 + 3, "blocks are summed in groups, and this file must have two of them"
    flip(path, at % size)
    fresh = IndexStore(tmp_path)
    fresh.check_ahead(["whole", "damaged", "missing", "replaced"])
    fresh.save("replaced", retriever.build(chunks_of(10), services), "bm25")
    flip(tmp_path / "replaced" / "starts.npy", 200)
    assert fresh.sound("whole") and not fresh.sound("damaged") and not fresh.sound("missing")
    assert not fresh.sound("replaced"), "what was found out about the index before it counts no more"


@pytest.mark.usefixtures("toys", "small_blocks")
def test_numbers_that_do_not_fit_are_found_in_a_large_file_too(tmp_path: Path) -> None:
    services, retriever = LocalServices(), spec.make("retrieve", "bm25")
    made = retriever.build(chunks_of(2000), services)
    made.docs = made.docs.copy()
    made.docs[:] = 1 << 30
    store = IndexStore(tmp_path)
    store.save("made", made, "bm25")
    with pytest.raises(CorruptIndexError, match="outside 0 to 1999"):
        store.load("made", retriever, services).search(retriever, [Query("cash")], 5, EVERY)


def test_search_and_doctor_find_a_damaged_block_and_sync_repairs_it(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "LARGE", 1024)
    monkeypatch.setattr(blocks, "BLOCK", 256)
    for i in range(60):
        home.write(f"docs/{i}.md", f"# Page {i}\n\ncash {' '.join(WORDS)} number{i}\n")
    home.sync("docs")
    path = next(home.folder.rglob("docs.npy"))
    flip(path, path.stat().st_size // 2)
    with home.open() as kb, pytest.raises((CorruptIndexError, NotBuiltError), match="surefind sync"):
        for word in WORDS:
            ask(kb, word, pipeline="bm25")
    home.sync()
    with home.open() as kb:
        assert all(ask(kb, word, pipeline="bm25").hits for word in WORDS)


def test_reader_that_found_damage_searches_again_after_the_repair(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a server does: its process goes on, and another one syncs. The generation stays the same."""
    monkeypatch.setattr(blocks, "LARGE", 200)
    monkeypatch.setattr(blocks, "BLOCK", 64)
    monkeypatch.setattr(current, "_RETRY_SECONDS", 0.0)
    for i in range(60):
        home.write(f"docs/{i}.md", f"# Page {i}\n\ncash {' '.join(WORDS)} number{i}\n")
    home.sync("docs")
    path = next(home.folder.rglob("docs.npy"))
    rare = json.loads((path.parent / "vocabulary.json").read_text()).index("number30")
    with home.open() as kb:
        assert ask(kb, "cash", pipeline="bm25").hits
        flip(path, 128 + 4 * int(np.load(path.parent / "starts.npy")[rare]))
        with pytest.raises(CorruptIndexError, match="surefind sync"):
            for i in range(60):
                ask(kb, f"number{i}", pipeline="bm25")
        home.sync()
        assert all(ask(kb, f"number{i}", pipeline="bm25").hits for i in range(60))


@pytest.mark.usefixtures("toys", "small_blocks")
def test_rows_that_are_longer_than_a_block_are_checked_whole(tmp_path: Path) -> None:
    array = np.arange(4 * 300, dtype=np.int64).reshape(4, 300)  # 2,400 bytes a row, in blocks of 256
    np.save(tmp_path / "rows.npy", array)
    (tmp_path / blocks.MANIFEST).write_text(json.dumps({"blocks": blocks.list_blocks(tmp_path)}), encoding="utf-8")
    flip(tmp_path / "rows.npy", 128 + 2400 + 1200)
    watch = blocks.watched(tmp_path / "rows.npy", np.load(tmp_path / "rows.npy", mmap_mode="r"))
    assert watch is not None
    watch.use_rows(np.array([0, 3]))
    with pytest.raises(CorruptIndexError):
        watch.use_rows(np.array([1]))


@pytest.mark.usefixtures("toys")
def test_whoever_waits_for_a_check_that_fails_gets_the_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    services, retriever = LocalServices(), spec.make("retrieve", "bm25")
    store = IndexStore(tmp_path)
    for key in ("one", "other"):
        store.save(key, retriever.build(chunks_of(10), services), "bm25")
    monkeypatch.setattr(IndexStore, "_verify", lambda self, key, **given: (_ for _ in ()).throw(MemoryError(key)))
    store.check_ahead(["one", "other"])
    with pytest.raises(MemoryError):
        store.sound("other")


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
