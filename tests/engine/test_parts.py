"""Indexes of several parts answer as indexes that were built from nothing, through any history of changes."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from cases import each
from exam_helpers import surefind
from helpers import Home, ask
from surefind import Access
from surefind.base import spec
from surefind.base.abilities import Part
from surefind.base.errors import SurefindError
from surefind.base.protocols import OnProgress
from surefind.base.types import EVERY, PAD, Chunk, Mask, Query
from surefind.doors.cli import build
from surefind.engine.retrieve import _vectors
from surefind.engine.services import LocalServices
from surefind.engine.store import indexes
from surefind.engine.store.backends.local import LocalBackend
from surefind.engine.store.catalogue import Catalogue
from surefind.engine.store.indexes import PART, IndexStore, Parts, StoredPart, staying

WORDS = "cash card wire hold branch ledger audit policy escrow claim the of".split()
SETTINGS = """[search]
pipeline = "both"
[pipelines.both]
retrieve = ["bm25", "dense(model=toy)"]
fuse = "convex(alpha=0.5, missing=score)"
"""
services = LocalServices()


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two chunks are enough for an index of parts, and parts are merged late."""
    monkeypatch.setattr(indexes, "MIN_PARTED_CHUNKS", 2)
    monkeypatch.setattr(indexes, "MERGE_SHARE", 1)
    monkeypatch.setattr(indexes, "BUILD_SHARE", 1)
    monkeypatch.setattr(indexes, "_MERGE_RATIO", 1)
    yield


def chunks_of(texts: list[str]) -> list[Chunk]:
    return [Chunk(f"{i:05}.md", 0, len(text), text) for i, text in enumerate(texts)]


texts_of_few_words = st.lists(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(" ".join), min_size=1, max_size=40
)


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("stage", ["bm25", "bm25(k1=0.9, b=0.2, analyzer=plain)", "dense(model=toy)"])
@settings(max_examples=settings.default.max_examples // 2)
@given(texts=texts_of_few_words, random=st.randoms(use_true_random=False), count=st.integers(1, 4))
def test_joined_parts_give_the_bits_of_one_index(
    stage: str, texts: list[str], random: object, count: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Chunks are dealt to parts at random, and each part also has chunks that are gone."""
    retriever = spec.make("retrieve", stage)
    whole = retriever.build(chunks_of(texts), services)
    dealt: list[list[tuple[int, str]]] = [[] for _ in range(count)]
    for place, text in enumerate(texts):
        own = random.choice(dealt)
        if random.random() < 0.3:
            own.append((-1, " ".join(random.choices(WORDS, k=5))))
        own.append((place, text))
    dealt = [own for own in dealt if own]
    made = [
        Part(retriever.build(chunks_of([t for _, t in own]), services), np.array([p for p, _ in own], np.int32))
        for own in dealt
    ]
    joined = retriever.join(made, services)
    folder = tmp_path_factory.mktemp("joined")
    joined.save(folder)
    queries = [Query(text) for text in ("cash", "the wire of the branch", "cash cash card zebra", "zebra", texts[0])]
    bits = np.array([random.random() < 0.6 for _ in texts])
    ids = np.array([[0, len(texts) - 1, PAD]] * len(queries))
    for index in (joined, retriever.join(made, services, folder)):
        assert len(index) == len(texts)
        for allow in (EVERY, Mask(bits), Mask(np.zeros(len(texts), np.bool_))):
            for k in (1, 3, 100):
                a, b = (one.search(retriever, queries, k, allow) for one in (whole, index))
                assert [a.row(i)[0].tolist() for i in range(5)] == [b.row(i)[0].tolist() for i in range(5)]
                assert [a.row(i)[1].tolist() for i in range(5)] == [b.row(i)[1].tolist() for i in range(5)]
            a, b = (one.score(retriever, queries, ids, allow) for one in (whole, index))
            assert a == pytest.approx(b, abs=1e-6) if "dense" in stage else np.array_equal(a, b)
            if "bm25" in stage:
                assert whole.wording(retriever, queries, allow) == index.wording(retriever, queries, allow)
        if "bm25" in stage and bits.any():
            for name in ("starts", "docs", "tfs", "lengths", "vocabulary"):
                a, b = (getattr(one.only(bits, retriever), name) for one in (whole, index))
                assert np.array_equal(a, b), name
        if "dense" in stage:
            assert np.array_equal(index.rows(np.arange(len(texts))), whole.vectors)


edits = st.lists(
    st.tuples(
        st.sampled_from(["a.md", "b.md", "sub/c.md", "sub/d.txt", "sub/e.txt"]),
        st.none() | st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join),
    ),
    min_size=1,
    max_size=3,
)


@pytest.mark.usefixtures("toys", "small_parts")
@settings(max_examples=settings.default.max_examples // 5)
@given(rounds=st.lists(st.tuples(edits, st.booleans()), min_size=1, max_size=5))
def test_syncs_that_add_parts_give_what_a_fresh_sync_gives(
    rounds: list[tuple[list[tuple[str, str | None]], bool]],
) -> None:
    """After some of the syncs, the parts are merged."""
    queries = ("cash", "card wire", "hold branch anchor")
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder), SETTINGS)
        for i in range(8):
            home.write(f"docs/anchor{i}.md", f"anchor cash {WORDS[i]}")
        home.sync("docs")
        for number, (changes, merged) in enumerate(rounds):
            for name, text in changes:
                if text is None:
                    (home.docs / name).unlink(missing_ok=True)
                else:
                    home.write(f"docs/{name}", f"# Heading\n\n{text}\n", age=50 - number)
            home.sync()
            fresh = Home(Path(folder) / f"fresh{number}", SETTINGS)
            with fresh.open() as kb:
                kb.sync(home.docs)
            assert home.answers(*queries) == fresh.answers(*queries)
            if merged:
                compact(home)
                assert home.answers(*queries) == fresh.answers(*queries)


def compact(home: Home, report: OnProgress | None = None) -> list[str]:
    """Merges the parts of every index that has several."""
    with pytest.MonkeyPatch.context() as patch, home.open() as kb:
        patch.setattr(indexes, "MERGE_SHARE", 10**6)
        return kb.compact(report)


def filled(home: Home) -> Home:
    for i in range(12):
        home.write(f"docs/{i:02}.md", f"# Page {i}\n\ncash {WORDS[i % 10]} number{i}\n")
    home.sync("docs")
    home.write("docs/03.md", "# Page 3\n\ncash changed number3\n", age=50)
    (home.docs / "05.md").unlink()
    home.sync()
    return home


def joined_folders(home: Home) -> list[Path]:
    return [path.parent for path in home.folder.rglob(indexes.PARTS)]


@pytest.fixture
def grown(tmp_path: Path, toys: None, small_parts: None) -> Home:
    """A knowledge base whose current indexes have two parts each."""
    home = filled(Home(tmp_path, SETTINGS))
    assert len(joined_folders(home)) == 2
    return home


def test_sync_leaves_the_large_part_as_it_is(grown: Home) -> None:
    """Of two indexes of 12 chunks, a change of one file keeps the folder and writes a part of one chunk."""
    for folder in joined_folders(grown):
        keys = keys_of(folder)
        assert len(keys) == 2
        sizes = [len(np.load(folder / f"places-{i}.npy")) for i in range(2)]
        assert sorted(sizes) == [1, 12]
        assert sorted((np.load(folder / "places-0.npy") < 0).nonzero()[0].tolist()) == [3, 5]


def keys_of(folder: Path) -> list[str]:
    return [str(key) for key in json.loads((folder / indexes.PARTS).read_text())]


def test_parts_are_kept_as_long_as_a_generation_needs_them(grown: Home) -> None:
    before = grown.answers("cash", "number3")
    for i in range(4):
        grown.write("docs/09.md", f"# Page 9\n\ncash again{i} number9\n", age=40 - i)
        grown.sync()
        used = {key for folder in joined_folders(grown) for key in keys_of(folder)}
        there = {path.parent.name for path in grown.folder.rglob("manifest.json")}
        assert used <= there
    grown.write("docs/09.md", "# Page 9\n\ncash branch number9\n", age=30)
    grown.sync()
    with grown.open() as kb:
        assert kb.generations()
        for generation in kb.generations():
            reader = kb.reader_of(generation.number)
            assert reader.search("cash", Access.public(), kb.pipeline()).hits
        kb.rollback(kb.generations()[0].number)
        assert ask(kb, "cash").hits
    grown.sync()
    grown.write("docs/09.md", f"# Page 9\n\ncash {WORDS[9]} number9\n", age=20)
    grown.sync()
    assert grown.answers("cash", "number3") == before


@pytest.mark.parametrize("which", ["part", "whole"])
def test_damaged_part_is_noticed_and_rebuilt_by_sync(grown: Home, which: str) -> None:
    before = grown.answers("cash", "number3")
    for folder in joined_folders(grown):
        key = keys_of(folder)[0] if which == "part" else folder.name
        for path in (folder.parent / key).glob("*.npy"):
            path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    with grown.open() as kb, pytest.raises(SurefindError, match="surefind sync"):
        ask(kb, "cash")
    surefind("doctor", kb=grown.folder)
    grown.sync()
    assert grown.answers("cash", "number3") == before


def test_sync_repairs_the_large_part_of_an_index(tmp_path: Path, toys: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the parts that users have: when the large one is gone, what is left is so little that all is built again."""
    monkeypatch.setattr(indexes, "MIN_PARTED_CHUNKS", 2)
    home = filled(Home(tmp_path, SETTINGS))
    before = home.answers("cash", "number3")
    for folder in joined_folders(home):
        shutil.rmtree(folder.parent / keys_of(folder)[0])
    assert home.sync().rebuilt == ["bm25", "dense"]
    assert home.answers("cash", "number3") == before


def test_interrupted_set_leaves_no_record_of_its_indexes(grown: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its number is used again, and then its indexes would count as those of the next set."""
    for i in range(6):
        grown.write(f"docs/x{i}.md", f"# New {i}\n\ncash brandnew {i}\n")
    with monkeypatch.context() as patch, grown.open() as kb, pytest.raises(KeyboardInterrupt):
        patch.setattr(Catalogue, "commit", lambda self, *given: (_ for _ in ()).throw(KeyboardInterrupt))
        kb.sync()
    for i in range(6):
        (grown.docs / f"x{i}.md").unlink()
    grown.write("docs/07.md", "# Page 7\n\ncash finished number7\n", age=20)
    grown.sync()
    with grown.open() as kb:
        backend = LocalBackend(kb.catalogue)
        recorded = [(number, spec) for _, number, _, spec in backend.rows.indexes() if spec != PART]
    assert len(recorded) == len({*recorded}), "one index of each kind for each set"


def test_failed_write_leaves_nothing_on_a_full_disk(grown: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(folder: Path) -> None:
        raise OSError(28, "No space left on device")

    indexes = grown.folder / ".surefind" / "indexes"
    with monkeypatch.context() as patch:
        patch.setattr("surefind.engine.store.indexes.list_files", full)
        for i in range(2):
            grown.write("docs/07.md", f"# Page 7\n\ncash full{i} number7\n", age=30 - i)
            with pytest.raises(SurefindError, match="full"):
                grown.sync()
    assert not list(indexes.glob(".writing-*"))
    (indexes / ".writing-left-by-a-kill").mkdir()
    (indexes / ".DS_Store").write_bytes(b"not ours")
    grown.sync()
    assert not list(indexes.glob(".writing-*")) and grown.answers("full1")


def test_chunks_of_a_deleted_version_go_with_the_next_sync(grown: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that is stopped while it deletes has deleted versions, and not their chunks."""
    for i in range(3):
        grown.write("docs/07.md", f"# Page 7\n\ncash version{i} number7\n", age=30 - i)
        grown.sync()
    grown.write("docs/07.md", "# Page 7\n\ncash last number7\n", age=20)
    with monkeypatch.context() as patch, grown.open() as kb, pytest.raises(KeyboardInterrupt):
        patch.setattr(LocalBackend, "sweep", lambda self, *given: (_ for _ in ()).throw(KeyboardInterrupt))
        kb.sync()
    orphans = "SELECT count(*) FROM chunks WHERE version NOT IN (SELECT row FROM versions)"
    with grown.open() as kb:
        assert kb.catalogue.db.execute(orphans).fetchone()[0]
    grown.sync()
    with grown.open() as kb:
        assert not kb.catalogue.db.execute(orphans).fetchone()[0]


def test_damaged_list_of_parts_is_told_by_status_as_well(grown: Home) -> None:
    for folder in joined_folders(grown):
        (folder / indexes.PARTS).write_bytes(b"\xff[]")
    with grown.open() as kb:
        assert kb.status().indexes
    grown.sync()
    assert grown.answers("cash")


def test_missing_part_is_noticed_and_rebuilt_by_sync(grown: Home) -> None:
    before = grown.answers("cash")
    for folder in joined_folders(grown):
        shutil.rmtree(folder.parent / keys_of(folder)[-1])
    with grown.open() as kb, pytest.raises(SurefindError, match="surefind sync"):
        ask(kb, "cash")
    grown.sync()
    assert grown.answers("cash") == before


def test_merged_parts_are_used_by_the_next_sync_and_old_generations_keep_theirs(grown: Home) -> None:
    with grown.open() as kb:
        assert kb.compact() == [], "too little is gone or outside the largest part"
    before, files = grown.answers("cash", "number3"), {folder: keys_of(folder) for folder in joined_folders(grown)}
    with grown.open() as kb:
        needed = kb.folders(kb.reader().generation)
    assert compact(grown) == ["bm25", "dense"]
    assert compact(grown) == [], "it is done"
    with grown.open() as kb:
        assert kb.folders(kb.reader().generation) == needed and len(needed) == 7, "a table, two indexes, four parts"
    assert {folder: keys_of(folder) for folder in joined_folders(grown)} == files, "a reader may be using them"
    assert grown.answers("cash", "number3") == before
    grown.write("docs/07.md", "# Page 7\n\ncash wire number7\n", age=30)
    grown.sync()
    new = [folder for folder in joined_folders(grown) if folder not in files]
    sizes = [[len(np.load(folder / f"places-{i}.npy")) for i in range(2)] for folder in new]
    assert sizes == [[11, 1]] * 2, "the merged part, and one with the changed file"
    with grown.open() as kb:
        earlier = kb.reader_of(kb.generations()[-2].number)
        assert earlier.search("number7", Access.public(), kb.pipeline()).hits
    fresh = Home(grown.folder / "fresh", SETTINGS)
    with fresh.open() as kb:
        kb.sync(grown.docs)
    assert grown.answers("cash", "number7") == fresh.answers("cash", "number7")


def test_nothing_is_lost_if_merging_is_interrupted_or_its_result_damaged(grown: Home) -> None:
    before = grown.answers("cash", "number3")

    def stop(what: str, done: int, total: int) -> None:
        if what == "Merging dense" and done == 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compact(grown, stop)
    assert grown.answers("cash", "number3") == before
    assert compact(grown) == ["dense"], "the other one is done"
    for path in grown.folder.glob(".surefind/indexes/*/*.npy"):
        if path.name in ("docs.npy", "vectors.npy") and len(np.load(path)) > 1:
            path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    grown.write("docs/07.md", "# Page 7\n\ncash wire number7\n", age=30)
    grown.sync()  # it loads the parts that stay, and makes those again whose numbers are out of range
    surefind("doctor", kb=grown.folder)  # which compares all
    grown.sync()
    fresh = Home(grown.folder / "fresh", SETTINGS)
    with fresh.open() as kb:
        kb.sync(grown.docs)
    assert grown.answers("cash", "number7") == fresh.answers("cash", "number7")


def test_sync_command_publishes_before_it_merges(grown: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The document is found while the parts are still being merged, by a reader that was opened meanwhile."""
    monkeypatch.setattr(indexes, "MERGE_SHARE", 10**6)
    grown.write("docs/07.md", "# Page 7\n\nzebra number7\n", age=30)
    real, found = Parts.merge, []

    def merging(self: Parts, *given: Any) -> str:
        found.append(grown.found("zebra", pipeline="bm25"))
        return real(self, *given)

    monkeypatch.setattr(Parts, "merge", merging)
    monkeypatch.chdir(grown.folder)
    run = CliRunner().invoke(build(["sync"]), ["sync"])
    assert run.exit_code == 0 and "1 changed" in run.output and len(found) == 2
    assert all(hits == found[0] and hits for hits in found)
    assert "Merging bm25" in run.output and run.output.index("1 changed") < run.output.index("Merging bm25")


def test_sync_command_succeeds_if_merging_fails(grown: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(self: Parts, *given: Any) -> str:
        raise OSError("No space left on device")

    monkeypatch.setattr(indexes, "MERGE_SHARE", 10**6)
    monkeypatch.setattr(Parts, "merge", failing)
    monkeypatch.chdir(grown.folder)
    run = CliRunner().invoke(build(["sync"]), ["sync"])
    assert run.exit_code == 0 and "not merged (No space left on device). The next sync tries again." in run.output


def test_status_counts_the_bytes_of_all_parts(grown: Home) -> None:
    with grown.open() as kb:
        sizes = kb.status().indexes
    assert {name.partition("(")[0] for name in sizes} == {"bm25", "dense"} and len(sizes) == 2
    assert sum(sizes.values()) > sum(
        path.stat().st_size for folder in joined_folders(grown) for path in folder.iterdir()
    )


def test_updated_approximate_index_has_exact_scores_and_finds_nearly_all(
    toys: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is promised of cells after an update: recall, and scores that do not depend on how a chunk was found."""
    monkeypatch.setattr(_vectors, "EXACT_LIMIT", 1000)
    chance = np.random.default_rng(4)
    texts = [" ".join(chance.choice(WORDS, 9)) + f" n{i} m{i % 97}" for i in range(4000)]
    retriever = spec.make("retrieve", "dense(model=toy)")
    places = np.arange(3600, dtype=np.int32)
    places[::9] = -1
    places[places >= 0] = np.arange((places >= 0).sum())
    alive = [texts[i] for i in range(3600) if i % 9]
    parts_of_it = [
        Part(retriever.build(chunks_of(texts[:3600]), services), places),
        Part(
            retriever.build(chunks_of(texts[3600:]), services),
            np.arange(len(alive), len(alive) + 400, dtype=np.int32),
        ),
    ]
    joined = retriever.join(parts_of_it, services)
    monkeypatch.setattr(_vectors, "EXACT_LIMIT", 10**6)
    exact = retriever.build(chunks_of([*alive, *texts[3600:]]), services)
    queries = [Query(texts[i]) for i in range(0, 4000, 50)]
    a = exact.nearest(exact.points(queries)[:16], 10, EVERY)
    b = joined.nearest(joined.points(queries)[:16], 10, EVERY)
    assert np.mean([len({*x} & {*y}) / 10 for x, y in zip(a.ids.tolist(), b.ids.tolist(), strict=True)]) > 0.8
    known = [dict(zip(*one, strict=True)) for one in zip(a.ids.tolist(), a.scores.tolist(), strict=True)]
    for row, (ids, scores) in enumerate(zip(b.ids.tolist(), b.scores.tolist(), strict=True)):
        assert all(known[row].get(key, score) == score for key, score in zip(ids, scores, strict=True))


@each(
    ("sizes", "gone", "added", "stays"),
    [
        ([100_000], 0, 10, [100_000]),
        ([100_000], 60_000, 10, []),
        ([100_000], 30_000, 10, [100_000]),
        ([100_000], 0, 110_000, []),
        ([100_000], 0, 40_000, [100_000]),
        ([100_000, 10], 0, 10, [100_000]),
        ([100_000, 10_000], 0, 10, [100_000, 10_000]),
        ([100_000, 10_000, 15], 0, 10, [100_000, 10_000]),
        ([100_000, 50, 15], 0, 10, [100_000]),
        ([10_000], 0, 10, []),
    ],
)
def test_which_parts_stay(sizes: list[int], gone: int, added: int, stays: list[int]) -> None:
    pieces, at = [], 0
    for size in sizes:
        places = np.arange(at, at + size, dtype=np.int32)
        pieces.append(StoredPart(f"of {size}", places))
        at += size
    pieces[0].places[:gone] = -1
    kept = staying(pieces, sum(sizes) - gone + added)
    assert [len(piece.places) for piece in kept] == stays


@pytest.mark.parametrize("saves", range(5))
def test_writer_that_dies_between_two_folders_leaves_nothing_that_counts(
    grown: Home, saves: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync saves a table, and a part and a whole for each index. It stops after some of these folders."""
    before = grown.answers("cash", "number7")
    grown.write("docs/07.md", "# Page 7\n\ncash interrupted number7\n", age=30)
    done: list[str] = []
    real = IndexStore.save

    def dying(self: IndexStore, key: str, made: Any, spec: str) -> None:
        if len(done) == saves:
            raise KeyboardInterrupt
        done.append(key)
        real(self, key, made, spec)

    with monkeypatch.context() as patch:
        patch.setattr(IndexStore, "save", dying)
        with grown.open() as kb, pytest.raises(KeyboardInterrupt):
            kb.sync()
    assert grown.answers("cash", "number7") == before
    grown.write("docs/07.md", "# Page 7\n\ncash finished number7\n", age=20)
    grown.write("docs/08.md", "# Page 8\n\ncash finished too number8\n", age=20)
    grown.sync()
    fresh = Home(grown.folder / "fresh", SETTINGS)
    with fresh.open() as kb:
        kb.sync(grown.docs)
    assert grown.answers("cash", "number7", "finished") == fresh.answers("cash", "number7", "finished")
    used = {key for folder in joined_folders(grown) for key in keys_of(folder)}
    there = {path.name for path in (grown.folder / ".surefind/indexes").iterdir()}
    assert used <= there and not any(name.startswith(".writing") for name in there)
