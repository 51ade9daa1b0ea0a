"""Documents are cut under limits on every path: sync, a change of chunker, publishing, layouts that need a service."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from helpers import WORDS, Home
from surefind import Access
from surefind.base.errors import SourceError
from surefind.base.types import Document
from surefind.engine.files.opening import FileLimits
from surefind.engine.files.readers import Readers
from surefind.engine.write.layout import Layout
from surefind.engine.write.preparing import FilePreparer, batches, spares

WHOLE = WORDS + '[index]\nchunk = "whole"\n'
NAUGHTY = WORDS + '[index]\nchunk = "naughty"\n[sync]\nmax_seconds = {}\nmax_memory_mb = 400\n'
pytestmark = pytest.mark.usefixtures("naughty", "toys")
LATE = "takes more than 4 s (max_seconds); reading was stopped"


def contexts(home: Home) -> dict[str, str]:
    with home.open() as kb:
        view = kb.reader().view
        return {p.chunk.document: p.chunk.context for p in view.passages(view.spans().ids.tolist(), Access.owner())}


def test_change_of_chunker_cuts_in_child_processes(home: Home) -> None:
    home.configure(WHOLE)
    for name in "abc":
        home.write(f"docs/{name}.md", f"fine alpha {name}")
    home.sync("docs")
    home.configure(NAUGHTY.format(30))
    assert home.sync().problems == []
    found = contexts(home)
    assert sorted(found) == ["a.md", "b.md", "c.md"]
    assert not any(f"process{os.getpid()}" in context for context in found.values())


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        ("hang", LATE),
        ("crash", "cannot be read: its reader crashed (SIGABRT)"),
        ("eat", "needs more than 400 MB of memory to be read (max_memory_mb)"),
    ],
)
def test_document_that_the_new_chunker_cannot_cut_is_listed_and_costs_its_limit_once(
    home: Home, order: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.configure(WHOLE)
    home.write("docs/bad.md", f"{order} alpha")
    home.write("docs/good.md", "fine alpha")
    home.sync("docs")
    home.configure(NAUGHTY.format(40 if order == "eat" else 4))  # it takes a while to fill 400 MB on a busy machine
    (problem,) = home.sync().problems
    assert (problem.path, problem.reason) == ("bad.md", reason)
    assert home.found("alpha") == ["good.md"]
    with monkeypatch.context() as without:
        without.delattr(FilePreparer, "read")
        without.delattr(FilePreparer, "cut")
        assert home.sync().problems == [problem]
        with home.open() as kb:
            assert [(p.path, p.reason) for p in kb.status().problems] == [("bad.md", reason)]
    home.configure(WHOLE)  # another layout is another chance
    assert home.sync().problems == []
    assert sorted(home.found("alpha")) == ["bad.md", "good.md"]


def test_file_that_failed_while_it_was_cut_is_tried_again_in_another_layout(home: Home) -> None:
    home.configure(NAUGHTY.format(4))
    home.write("docs/bad.md", "hang alpha")
    home.write("docs/good.md", "fine alpha")
    assert [problem.reason for problem in home.sync("docs").problems] == [LATE]
    assert home.found("alpha") == ["good.md"]
    home.configure(WHOLE)
    assert home.sync().problems == []
    assert sorted(home.found("alpha")) == ["bad.md", "good.md"]


def test_draft_that_cannot_be_cut_is_not_published(home: Home) -> None:
    home.configure(NAUGHTY.format(4))
    home.write("docs/a.md", "fine alpha")
    home.sync("docs")
    new = home.write("new.md", "hang alpha")
    with home.open() as kb:
        number = kb.drafts.add(new, "a.md").number
        with pytest.raises(SourceError, match=r"^a\.md takes more than 4 s .*; reading was stopped, while "):
            kb.drafts.publish(number)
    with home.open() as kb:
        assert [version.number for version in kb.drafts.store.waiting()] == [number]
        assert [document.text for document in kb.documents(Access.owner())] == ["fine alpha"]
    assert home.found("alpha") == ["a.md"]
    assert home.sync().unchanged == 1


def test_layout_of_a_benchmark_that_cannot_cut_a_document_says_which(home: Home) -> None:
    home.configure(WHOLE + "[sync]\nmax_seconds = 4\n")
    home.write("docs/a.md", "hang alpha")
    home.sync("docs")
    with home.open() as kb, pytest.raises(SourceError, match=r"a\.md takes more than 4 s .* while naughty cut it"):
        kb.build("words", layout=Layout.read("naughty"))
    assert home.found("alpha") == ["a.md"]


def test_markdown_that_costs_too_much_is_refused_whatever_the_layout_needs(home: Home) -> None:
    """`semantic` parses it in the process that has the encoder, and so does an exam; `whole` does not parse it."""
    for chunk in ("semantic(model=toy)", "whole"):
        home.configure(WORDS + f'[index]\nchunk = "{chunk}"\n[sync]\nmax_memory_mb = 60\nmax_seconds = 300\n')
        home.write("docs/bad.md", "- a\n" * 60_000 + chunk)
        home.write("docs/good.md", "alpha")
        (problem,) = home.sync("docs").problems
        assert problem.reason == "needs more than 60 MB of memory to be read (max_memory_mb)"
        assert home.found("alpha") == ["good.md"]


def test_what_chunks_repeat_counts_as_text(home: Home) -> None:
    """Small chunks below long headings: each repeats all of them."""
    home.configure(WORDS + "[sync]\nmax_unpacked_mb = 1\n")
    headings = "".join(f"{'#' * level} {str(level) * 490}\n\n" for level in range(1, 6))
    home.write("docs/bad.md", headings + f"###### {'6' * 490}\n\n{'word ' * 60}\n\n" * 300)
    home.write("docs/good.md", "alpha")
    (problem,) = home.sync("docs").problems
    assert problem.reason == "gives more than 1 MB of text (max_unpacked_mb)"


def test_long_titles_and_table_headers_are_not_repeated_in_every_chunk(home: Home) -> None:
    home.write("docs/title.md", f"---\ntitle: {'long ' * 2_000}\n---\n" + "A paragraph of some words.\n\n" * 2_000)
    home.write("docs/table.md", f"|{'name ' * 2_000}|x|\n|-|-|\n" + "|1|2|\n" * 2_000)
    home.sync("docs")
    found = contexts(home)
    assert max(map(len, found.values())) < 5_000


def test_large_documents_travel_to_the_child_and_back() -> None:
    text = "\n\n".join(f"paragraph {i} é 中 \U0001f600" for i in range(20_000))
    document = Document("a", text)
    with FilePreparer(Readers(), FileLimits()) as reading:
        apart = reading.cut(document, "markdown(tokens=250, min_tokens=50)")
    assert apart == Layout.read("markdown(tokens=250, min_tokens=50)").chunk.chunk(document, None)


def test_results_that_wait_are_limited_in_size() -> None:
    """Without a limit, hundreds of large files would be in memory before the first is committed."""
    made: list[int] = []

    def work(item: int) -> int:
        made.append(item)
        return item

    with FilePreparer(Readers(), FileLimits()) as reading:
        results = reading.each(work, range(100), 100, lambda item: 10_000_000)
        for expected in range(100):
            assert next(results) == expected
            time.sleep(0.002)
            assert len(made) <= expected + 6


def test_batches_end_at_a_number_and_at_a_size() -> None:
    assert [len(batch) for batch in batches(range(450), lambda item: 1)] == [200, 200, 50]
    assert [len(batch) for batch in batches(range(5), lambda item: 12_000_000)] == [2, 2, 1]


@pytest.fixture(autouse=True)
def fresh_processes() -> None:
    spares.end()


def test_broken_pipe_of_a_spare_process_costs_nothing(home: Home) -> None:
    home.write("docs/a.md", "alpha")
    home.sync("docs")
    for _, child in spares._waiting:
        child.process.kill()
    home.write("docs/b.md", "alpha")
    assert home.sync().problems == []
    assert sorted(home.found("alpha")) == ["a.md", "b.md"]


def test_documents_with_paths_of_this_machine_do_not_matter(tmp_path: Path) -> None:
    """A document is sent as text: cutting it needs no file."""
    with FilePreparer(Readers(), FileLimits()) as reading:
        assert [c.text for c in reading.cut(Document("no/such/file.md", "alpha"), "whole")] == ["alpha"]
