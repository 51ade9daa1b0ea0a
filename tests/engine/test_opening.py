"""Every hit can be opened: lines of the source file, ids that stay, texts of the size that was asked for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from exam_helpers import surefind
from helpers import Home
from surefind.base.access import Access
from surefind.base.errors import NotFoundError, UsageError
from surefind.base.types import Hit
from surefind.engine.search import hits
from surefind.engine.search.hits import Extent, best_sentences

CHUNKS = """
[index]
chunk = "hierarchical(parent=60, child=15, overlap=0)"
enrich = []

[search]
pipeline = "words"

[pipelines.words]
retrieve = ["bm25"]
"""
OWNER = Access.owner()


def _paragraphs(n: int) -> str:
    return "\n\n".join(f"Paragraph {i} is about the item{i}.\nIt has a second line." for i in range(n))


def _first(home: Home, query: str) -> Hit:
    with home.open() as kb:
        return kb.search(query, OWNER, 1).hits[0]


def _lines_hold(file: Path, hit_lines: tuple[int, int] | None, text: str) -> None:
    """The lines of a hit must be those in which the file has its text."""
    assert hit_lines is not None
    first, last = hit_lines
    source = file.read_text().replace("\r\n", "\n").splitlines()
    shown = "\n".join(source[first - 1 : last])
    assert text.strip() in shown
    assert text.splitlines()[0] in source[first - 1] and text.splitlines()[-1] in source[last - 1]


@each("head", ["", "---\ntitle: T\nstatus: approved\n---\n", "\n\n# Heading\n\n"])
@each("name", ["a.md", "a.txt"])
def test_the_lines_of_a_hit_are_those_of_the_file(home: Home, head: str, name: str) -> None:
    home.configure(CHUNKS)
    file = home.write(f"docs/{name}", head + _paragraphs(40))
    home.sync("docs")
    for n in (0, 7, 39):
        for extent in (Extent(), Extent(0), Extent(2), Extent(None, 80)):
            with home.open() as kb:
                hit = kb.search(f"item{n}", OWNER, 1, extent=extent).hits[0]
                assert f"item{n}." in hit.text
                _lines_hold(file, hit.lines, hit.text)
                assert (hit.source, hit.path) == ("docs", name)


def test_lines_count_with_windows_line_ends(home: Home) -> None:
    home.configure(CHUNKS)
    file = home.write("docs/a.md", "x")
    file.write_bytes(("---\r\na: b\r\n---\r\n" + _paragraphs(30).replace("\n", "\r\n")).encode())
    home.sync("docs")
    _lines_hold(file, (hit := _first(home, "item20")).lines, hit.text)


def test_lines_far_inside_a_long_document(home: Home) -> None:
    home.configure(CHUNKS)
    file = home.write("docs/a.md", "---\na: b\n---\n" + _paragraphs(5000))
    home.sync("docs")
    for n in (1, 2500, 4999):
        hit = _first(home, f"item{n}")
        _lines_hold(file, hit.lines, hit.text)


def test_lines_of_code_are_those_of_the_file(home: Home) -> None:
    home.configure(CHUNKS)
    body = "\n\n\n".join(f'def work{i}(a: int) -> int:\n    """Does thing{i}."""\n    return a + {i}' for i in range(9))
    file = home.write("docs/a.py", f"\n\nimport os\n\n\n{body}\n")
    home.sync("docs")
    for n in range(9):
        hit = _first(home, f"thing{n}")
        assert hit.lines is not None
        source = file.read_text().splitlines()
        wanted = next(at for at, line in enumerate(source, 1) if f"thing{n}" in line)
        assert hit.lines[0] <= wanted <= hit.lines[1]
        assert source[hit.lines[0] - 1].strip() in hit.text


def test_texts_have_the_size_that_was_asked_for(home: Home) -> None:
    home.configure(CHUNKS)
    home.write("docs/a.md", _paragraphs(60))
    home.sync("docs")
    with home.open() as kb:
        (document,) = kb.documents(OWNER)
        found = {}
        for text in ("passage", "window=1", "window=3", "parent"):
            hit = found[text] = kb.search("item30", OWNER, 1, extent=Extent.parse(text)).hits[0]
            assert document.text[hit.start : hit.end] == hit.text and "item30." in hit.text
        sizes = [len(found[text].text) for text in ("passage", "window=1", "window=3")]
        assert sizes == sorted(set(sizes))
        assert found["passage"].matched is None and found["parent"].matched is not None
        assert len({hit.id for hit in found.values()}) == 1
        short = kb.search("item30", OWNER, 1, extent=Extent.parse("window=3", 100)).hits[0]
        assert len(short.text) <= 100 and "item30." in short.text
        assert document.text[short.start : short.end] == short.text


def test_a_window_stays_within_its_document(home: Home) -> None:
    home.configure(CHUNKS)
    for name in "abc":
        home.write(f"docs/{name}.md", f"only{name} word")
    home.sync("docs")
    with home.open() as kb:
        assert kb.search("onlyb", OWNER, 1, extent=Extent(50)).hits[0].text == "onlyb word"


def test_an_id_reads_its_passage_after_other_documents_changed(home: Home) -> None:
    home.configure(CHUNKS)
    home.write("docs/a.md", _paragraphs(20))
    home.sync("docs")
    hit = _first(home, "item12")
    home.write("docs/b.md", "something else")
    home.sync("docs")
    with home.open() as kb:
        again = kb.reader().passage(hit.id, OWNER, query="item12")
    assert (again.text, again.lines, again.sentence) == (hit.text, hit.lines, hit.sentence)


@each("key", ["", "x", "0" * 16, "f" * 16, "../../etc/passwd", "０" * 16])
def test_an_unknown_id_is_not_found(home: Home, key: str) -> None:
    home.configure(CHUNKS)
    home.write("docs/a.md", "text")
    home.sync("docs")
    with home.open() as kb, pytest.raises(NotFoundError):
        kb.reader().passage(key, OWNER)


def test_a_restricted_passage_reads_like_an_unknown_one(home: Home) -> None:
    home.configure(CHUNKS)
    home.write("docs/a.md", "---\nacl: [hr]\n---\nsalaries")
    home.write("docs/b.md", "menus")
    home.sync("docs")
    with home.open() as kb:
        secret = kb.search("salaries", OWNER, 1).hits[0].id
        reader = kb.reader()
        messages = []
        for key in (secret, "0" * 16):
            with pytest.raises(NotFoundError) as error:
                reader.passage(key, Access.public())
            messages.append(str(error.value).replace(key, "ID"))
        for key in ("a.md", "none.md"):
            with pytest.raises(NotFoundError) as error:
                reader.document(key, Access.public())
            messages.append(str(error.value).replace(key, "ID"))
        assert messages[0] == messages[1] and messages[2] == messages[3]
        assert [about.document for about in reader.listed(Access.public())] == ["b.md"]


@each("text", ["windows=1", "window=", "window=-1", "window=51", "window=99999999999999", "", "all"])
def test_a_wrong_size_is_named(text: str) -> None:
    with pytest.raises(UsageError, match=re.escape(repr(text))):
        Extent.parse(text)


def test_a_wrong_limit_is_named() -> None:
    with pytest.raises(UsageError, match="from 50"):
        Extent.parse("parent", 0)


def test_the_best_sentence_shares_the_rare_words() -> None:
    text = "A wire is a wire. Wires are sent by 4 pm. The cutoff of an outgoing wire is 5 pm.\n\n- fees of a wire"
    (span,) = best_sentences("When is the wire cutoff?", [text])
    assert span is not None and text[slice(*span)] == "The cutoff of an outgoing wire is 5 pm."
    assert best_sentences("zzz", [text, ""]) == [None, None]
    assert best_sentences("the", [text]) != [] and best_sentences("", [text]) == [None]


@given(st.text(max_size=200), st.text(max_size=20))
def test_the_best_sentence_lies_in_the_text(text: str, query: str) -> None:
    (span,) = best_sentences(query, [text])
    assert span is None or (0 <= span[0] < span[1] <= len(text) and text[slice(*span)].strip() == text[slice(*span)])


def test_show_and_open(home: Home) -> None:
    home.configure(CHUNKS)
    file = home.write("docs/a.md", "---\ntitle: Menus\n---\n" + _paragraphs(20))
    home.sync("docs")
    (hit,) = surefind("search", "item12", "-k", "1", "--json", kb=home.folder).json["hits"]
    shown = surefind("search", "item12", "-k", "1", kb=home.folder).out
    assert f"a.md:{hit['lines'][0]}-{hit['lines'][1]}" in shown and hit["id"] in shown
    assert "item12." in surefind("show", hit["id"], kb=home.folder).out
    assert surefind("show", hit["id"], "--json", kb=home.folder).json["text"] == hit["text"]
    assert "item0." in surefind("show", "a.md", kb=home.folder).out
    place = surefind("open", hit["id"], kb=home.folder).out.strip()
    name, _, line = place.rpartition(":")
    assert Path(name) == file and "item12" in "".join(file.read_text().splitlines()[int(line) - 1 : int(line) + 1])
    assert surefind("show", "nothing", kb=home.folder).code == 2
    file.unlink()
    assert "surefind show" in surefind("open", hit["id"], kb=home.folder).err


def test_the_sentences_of_a_whole_document_are_not_remembered() -> None:
    hits._remembered_spans.cache_clear()
    passage, document = "The wire cutoff is at noon. " * 10, "The wire cutoff is at noon. " * 10_000
    for text in (passage, document, passage):
        assert best_sentences("wire cutoff", [text])[0] == (0, 27)
    known = hits._remembered_spans.cache_info()
    assert (known.currsize, known.hits) == (1, 1)
