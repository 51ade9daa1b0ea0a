"""Documents are found by their words as soon as they are read; what takes long is built after that."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from exam_helpers import surefind
from helpers import Home
from http_helpers import serving
from surefind import Access
from surefind.base.errors import GateError, NotBuiltError
from surefind.base.protocols import Progress
from surefind.base.types import FloatArray, Waiting
from surefind.doors.auth.keys import Keys
from surefind.engine.search.pipeline import waiting_text
from surefind.engine.store.lock import vectors_lock, writer_lock
from surefind.engine.store.vectors import VectorCache
from surefind.engine.write import writer
from surefind.kb.completing import incomplete
from toy_stages import ToyEmbedder

SETTINGS = """
[index]
chunk = "markdown(tokens=60)"
enrich = []

[search]
pipeline = "both"

[pipelines.both]
retrieve = ["bm25", "dense(model=toy)"]
fuse = "convex(alpha=0.5, missing=score)"

[pipelines.meaning]
retrieve = ["dense(model=toy)"]
"""
WORDS_ONLY = (
    SETTINGS[: SETTINGS.index("[pipelines")].replace("both", "words") + '[pipelines.words]\nretrieve = ["bm25"]\n'
)
DOCUMENTS = 8


class SlowEmbedder:
    """Embeds only when a test lets it, and says what it was given."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.begun, self.go_on, self.texts = threading.Event(), threading.Event(), list[str]()
        real = ToyEmbedder.embed

        def embed(stage: ToyEmbedder, texts: Sequence[str], progress: Progress | None = None) -> FloatArray:
            if len(texts) > 1:  # one text is a question
                self.begun.set()
                assert self.go_on.wait(30)
                self.texts += texts
            return real(stage, texts, progress)

        patch.setattr(ToyEmbedder, "embed", embed)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toys: None) -> Home:
    monkeypatch.setattr(writer, "MANY", 2)
    home = Home(tmp_path, SETTINGS)
    for n in range(DOCUMENTS):
        home.write(f"docs/{n}.md", f"# Wire {n}\n\nThe cutoff of wire{n} is {n} pm.\n")
    home.write("docs/hr.md", "---\nacl: [hr]\n---\n# Pay\n\nThe cutoff of salaries is noon.\n")
    return home


def syncing(home: Home, **more: Any) -> threading.Thread:
    thread = threading.Thread(target=lambda: home.sync(**more), daemon=True)
    thread.start()
    return thread


def test_words_are_found_while_vectors_are_computed(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = SlowEmbedder(monkeypatch)
    thread = threading.Thread(target=lambda: home.sync("docs"), daemon=True)
    thread.start()
    assert slow.begun.wait(30)
    with home.open() as kb:
        result = kb.search("cutoff of wire3", Access.public(), 2)
        assert result.hits[0].document == "3.md"
        assert [item.retriever for item in result.waiting_for] == ["dense(model=toy)"]
        assert result.pipeline.startswith("bm25") and "dense" not in result.pipeline
        assert result.to_dict()["waiting_for"][0]["retriever"] == "dense(model=toy)"
        assert all(hit.document != "hr.md" for hit in kb.search("salaries", Access.public(), 9).hits)
        assert kb.search("salaries", Access.of("hr"), 1).hits[0].document == "hr.md"
        with pytest.raises(NotBuiltError, match="pipeline words"):
            kb.search("cutoff", Access.public(), 1, "meaning")
        with writer_lock(kb.data):
            pass  # nobody who writes waits for vectors
        slow.go_on.set()
        thread.join(30)
        kb.refresh()
        result = kb.search("cutoff of wire3", Access.public(), 2)
        assert not result.waiting_for and "dense" in result.pipeline and result.generation == 2
        assert kb.search("cutoff", Access.public(), 1, "meaning").hits


def test_changed_documents_are_found_by_words_at_once(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.sync("docs")
    for n in range(4):
        home.write(f"docs/{n}.md", f"# Wire {n}\n\nThe deadline of wire{n} is late.\n", age=1)
    slow = SlowEmbedder(monkeypatch)
    thread = syncing(home)
    assert slow.begun.wait(30)
    with home.open() as kb:
        result = kb.search("deadline of wire2", Access.public(), 1)
        assert result.hits[0].document == "2.md" and result.waiting_for
        slow.go_on.set()
        thread.join(30)
    assert len(slow.texts) == 4, "only what is new is embedded, once"


def test_one_changed_document_is_published_once(home: Home) -> None:
    before = home.sync("docs").generation
    home.write("docs/0.md", "# Wire 0\n\nThe deadline of wire0 is late.\n", age=1)
    after = home.sync()
    assert after.generation == before + 1 and not after.waits


def test_stopped_work_goes_on_with_what_is_there(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(ToyEmbedder, "embed", stopped)
        with pytest.raises(KeyboardInterrupt):
            home.sync("docs")
    with home.open() as kb:
        assert kb.search("cutoff of wire3", Access.public(), 1).hits[0].document == "3.md"
        assert [str(retriever) for retriever in incomplete(kb)] == ["dense(model=toy)"]
        made = kb.sync()
        assert (made.added, made.changed) == (0, 0) and made.rebuilt == ["dense"]
        result = kb.search("cutoff of wire3", Access.public(), 1)
        assert not result.waiting_for and result.generation == kb.catalogue.generation() == 2


def stopped(*_: Any) -> FloatArray:
    raise KeyboardInterrupt


def test_gate_is_asked_before_anything_is_published(home: Home) -> None:
    """The exam needs every index, so nothing is published by words alone."""
    home.sync("docs")
    for n in range(4):
        home.write(f"docs/{n}.md", f"# Wire {n}\n\nNothing.\n", age=1)

    def refuse(before: Any, after: Any) -> None:
        assert not after.missing(after_retrievers(home))
        raise GateError("no")

    with pytest.raises(GateError):
        home.sync(gate=refuse)
    assert home.found("cutoff of wire2")[0] == "2.md"


def after_retrievers(home: Home) -> list[Any]:
    with home.open() as kb:
        return kb.settings.retrievers


def test_rollback_and_kept_generations_count_sets(home: Home) -> None:
    """A generation that only has more indexes takes the place of the one before."""
    home.configure("[sync]\nkeep_generations = 2\n" + SETTINGS)
    home.sync("docs")
    for turn in range(2):
        for n in range(4):
            home.write(f"docs/{n}.md", f"# Wire {n}\n\nThe deadline of wire{n} is {turn}.\n", age=1)
        home.sync()
    with home.open() as kb:
        kept = kb.generations()
        assert len({generation.contents for generation in kept}) == 2
        kb.rollback(kept[0].number)
        assert "deadline" in kb.search("wire2", Access.public(), 1).hits[0].text


def test_work_ends_without_a_cache(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache that keeps nothing, as on a disk that became read-only, costs time and is no endless loop."""
    monkeypatch.setattr(VectorCache, "put", lambda *_: None)
    monkeypatch.setattr(VectorCache, "get", lambda *_: {})
    assert home.sync("docs").waits
    with home.open() as kb:
        assert not incomplete(kb) and not kb.search("cutoff", Access.public(), 1).waiting_for


def test_only_one_process_computes_vectors(home: Home) -> None:
    told: list[str] = []
    with vectors_lock(home.folder / ".surefind"):
        with home.open() as kb:
            made = kb.sync(home.folder / "docs", tell=told.append)
            assert kb.search("cutoff of wire3", Access.public(), 1).waiting_for
        assert made.waits and made.rebuilt == ["bm25"] and "computing the vectors" in told[-1]
    with home.open() as kb:
        assert kb.complete() == ["dense"]


def test_pipeline_of_words_embeds_nothing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ToyEmbedder, "embed", stopped)
    home.configure(WORDS_ONLY)
    assert home.sync("docs").rebuilt == ["bm25"]
    assert home.found("cutoff of wire3")[0] == "3.md"


def test_search_builds_nothing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.configure(WORDS_ONLY)
    home.sync("docs")
    wanted = ("search", "cutoff", "--retrieve", "bm25", "--retrieve", "dense(model=toy)")
    said = surefind(*wanted, kb=home.folder)
    assert said.code != 0 and "There is no index for dense(model=toy)" in said.err and "--build" in said.err
    with home.open() as kb:
        assert kb.missing(kb.pipeline("dense(model=toy)").retrieve)
    assert surefind(*wanted, "--build", kb=home.folder).code == 0


def test_server_goes_on_with_vectors_that_are_missing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.configure(SETTINGS.replace("dense(model=toy)", "dense"))
    home.write("docs/more.md", "# More\n\n" + "".join(f"## Part {n}\n\nWords of part {n}.\n\n" for n in range(80)))
    with home.open() as kb:
        made = kb.sync(home.folder / "docs", wait=False)
        assert made.waits and incomplete(kb)
    with serving(home.folder, forked=False) as served, served.client() as client:
        first = client.get("/v1/search", params={"query": "cutoff of wire3", "k": 1})
        assert first.status_code == 200
        end = time.monotonic() + 120
        while client.get("/v1/search", params={"query": "cutoff of wire3", "k": 1}).json()["waiting_for"]:
            assert time.monotonic() < end
            time.sleep(0.5)
        assert "dense" in client.get("/v1/search", params={"query": "words of part 3"}).json()["pipeline"]


def test_server_leaves_vectors_to_the_process_that_computes_them(home: Home) -> None:
    """Its job ends at once, and is not started again and again."""
    home.configure(SETTINGS.replace("dense(model=toy)", "dense"))
    with home.open() as kb:
        kb.sync(home.folder / "docs", wait=False)
        key = Keys(kb.data).create("boss", ["admin"])[1]
        with vectors_lock(kb.data), serving(home.folder, forked=False) as served, served.client(key) as client:
            end = time.monotonic() + 60
            jobs: list[dict[str, Any]] = []
            while not any(job["ended"] for job in jobs):
                assert time.monotonic() < end
                time.sleep(0.1)
                jobs = client.get("/v1/jobs").json()["jobs"]
            assert [(job["kind"], job["state"]) for job in jobs] == [("complete", "finished")]


def test_counts_are_only_for_who_may_read_everything() -> None:
    known = Waiting("dense", 10, 40, 0.25, 480, True, True)
    hidden = Waiting("dense", 0, 0, 0.25, 480, True, True)
    assert waiting_text([known]) == "By words so far; vectors 10 of 40, about 8 minutes left."
    assert waiting_text([hidden]) == "By words so far; vectors 25%, about 8 minutes left."
    other = Waiting("dense(model=arctic)", 10, 40, 0.25, None, True)
    assert waiting_text([other]) == "Without dense(model=arctic) so far; its index 10 of 40."
    assert "surefind sync" in waiting_text([Waiting("dense", by_words=True)])
    assert waiting_text([]) == ""
