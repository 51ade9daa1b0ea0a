"""Chunkers on any text, and the rules of each."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import ceil
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cases import each
from helpers import times_slower
from surefind.base.protocols import Embedder, Services
from surefind.base.text import blocks
from surefind.base.text.blocks import sections
from surefind.base.text.words import count_tokens, sentence_spans, token_spans
from surefind.base.types import Chunk, Document
from surefind.engine.chunk._pieces import Piece
from surefind.engine.chunk.fixed import Fixed
from surefind.engine.chunk.hierarchical import Hierarchical
from surefind.engine.chunk.markdown import MarkdownChunker
from surefind.engine.chunk.semantic import Semantic
from surefind.engine.chunk.sentence_window import SentenceWindow
from surefind.engine.chunk.whole import Whole
from surefind.engine.enrich.headings import Headings
from surefind.engine.enrich.neighbors import Neighbors
from surefind.engine.services import LocalServices
from surefind.engine.write.layout import Layout
from surefind.testing import check_chunker

LINES = [
    "# Title", "## Section", "### Deep ###", "Setext", "======", "---", "", "", "A sentence. Another one.",
    "Rule 31 CFR 1020.320(d) applies.", "- item", "  - nested item", "1. first", "2) second", "> quote", "```", "~~~sh",
    "    code", "\tindented", "| a | b |", "|---|---|", "| 1 | 2 |", "<div>", "</div>", "<!-- note -->", "*emphasis*",
    "word " * 30, "\u00a0", "\x0c", "naïve 東京 🍮", "\\", "* * *", "![image](x.png)", "&amp;", "\x00",
]  # fmt: skip
markdown_texts = st.lists(st.sampled_from(LINES) | st.text(max_size=20), max_size=25).map("\n".join)
no_definitions = markdown_texts.filter(lambda text: "]:" not in text)
SERVICES = LocalServices()


def document(text: str, markup: str = "markdown") -> Document:
    return Document("d.md", text, "D", markup)


@given(st.text(max_size=200), st.integers(1, 20), st.data())
def test_fixed_keeps_the_contract_on_any_text(text: str, tokens: int, data: st.DataObject) -> None:
    check_chunker(Fixed(tokens, data.draw(st.integers(0, tokens - 1))), [document(text)])


@given(no_definitions, st.integers(1, 40), st.data())
def test_markdown_keeps_the_contract_on_any_markdown(text: str, tokens: int, data: st.DataObject) -> None:
    check_chunker(MarkdownChunker(tokens, data.draw(st.integers(0, tokens))), [document(text)])


@given(st.text(max_size=200) | markdown_texts, st.integers(1, 40))
def test_markdown_keeps_the_contract_on_plain_text(text: str, tokens: int) -> None:
    check_chunker(MarkdownChunker(tokens, min_tokens=0), [document(text, "text")])


@given(st.text(max_size=200))
def test_whole_keeps_the_contract_on_any_text(text: str) -> None:
    check_chunker(Whole(), [document(text)])


@given(no_definitions, st.integers(1, 40))
def test_markdown_chunks_never_overlap_and_never_exceed_the_limit(text: str, tokens: int) -> None:
    chunks = MarkdownChunker(tokens, min_tokens=0).chunk(document(text), SERVICES)
    assert all(a.end <= b.start for a, b in pairwise(chunks))
    assert all(count_tokens(chunk.text) <= tokens for chunk in chunks)


@each("text", ["[a]: https://example.org/a\n", "# T\n\nSee [a].\n\n[a]: https://example.org/a 'The A'\n"])
def test_markdown_keeps_link_definitions(text: str) -> None:
    check_chunker(MarkdownChunker(), [document(text)])


@given(st.integers(0, 60), st.integers(1, 12), st.data())
def test_fixed_follows_equation_1(length: int, w: int, data: st.DataObject) -> None:
    """C_i = D[i(w-o) : i(w-o)+w] for i = 0, 1, …, ceil((|D|-w) / (w-o))."""
    o = data.draw(st.integers(0, w - 1))
    d = [f"t{i}" for i in range(length)]
    last = max(0, ceil((length - w) / (w - o)))
    expected = [d[i * (w - o) : i * (w - o) + w] for i in range(last + 1)] if d else []
    assert [chunk.text.split() for chunk in Fixed(w, o).chunk(document(" ".join(d)), SERVICES)] == expected


def test_fixed_written_out() -> None:
    chunks = Fixed(tokens=4, overlap=1).chunk(document("a b c d e f g h"), SERVICES)
    assert [chunk.text for chunk in chunks] == ["a b c d", "d e f g", "g h"]


def test_token_is_a_word_or_one_punctuation_mark() -> None:
    text = "EOD-7 (see)."
    assert [text[a:b] for a, b in token_spans(text)] == ["EOD", "-", "7", "(", "see", ")", "."]


def test_characters_of_scripts_without_spaces_and_encoded_data_count_as_many_tokens() -> None:
    assert [count_tokens(text) for text in ("三十天 days", "カタカナ", "한국어 말", "A" * 1000)] == [4, 4, 2, 10]
    for text in ("银行必须在三十天内提交可疑活动报告。" * 100, "A1b2" * 20_000):
        assert max(len(chunk.text) for chunk in MarkdownChunker(tokens=250).chunk(document(text), SERVICES)) <= 25_000


def texts(chunker: MarkdownChunker, text: str) -> list[str]:
    return [chunk.text for chunk in chunker.chunk(document(text), SERVICES)]


def test_markdown_starts_a_chunk_at_each_section_that_is_long_enough() -> None:
    found = texts(MarkdownChunker(50, min_tokens=3), "# A\n\none two three\n\n# B\n\nfour five six\n")
    assert found == ["# A\n\none two three", "# B\n\nfour five six"]


def test_markdown_joins_a_short_section_to_the_next() -> None:
    assert len(texts(MarkdownChunker(50, min_tokens=20), "# A\n\none two three\n\n# B\n\nfour five six\n")) == 1


def test_markdown_keeps_a_table_that_fits_whole() -> None:
    table = "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |"
    found = texts(MarkdownChunker(30, min_tokens=0), "Some words before it " * 4 + f"\n\n{table}\n\n" + "after it " * 9)
    assert any(table in chunk for chunk in found)


def test_markdown_cuts_a_long_table_between_rows() -> None:
    rows = [f"| row{i} | value{i} |" for i in range(20)]
    found = texts(MarkdownChunker(20, min_tokens=0), "\n".join(["| a | b |", "|---|---|", *rows]))
    assert len(found) > 1
    assert all(line.startswith("|") and line.endswith("|") for chunk in found for line in chunk.splitlines())


def test_markdown_cuts_a_long_list_between_items() -> None:
    found = texts(MarkdownChunker(12, min_tokens=0), "\n".join(f"- item number {i} of many" for i in range(9)))
    assert len(found) > 1
    assert all(chunk.startswith("- item") for chunk in found)


def test_heading_sign_inside_code_is_no_heading() -> None:
    chunks = MarkdownChunker(50, min_tokens=0).chunk(document("# A\n\n```\n# comment\n```\n"), SERVICES)
    assert [chunk.headings for chunk in chunks] == [("A",)]


def test_headings_are_the_path_down_to_the_chunk() -> None:
    text = "# A\n\nintro text\n\n## B *bold*\n\nmore text\n\n### C\n\ndeep text\n\n## D\n\nlast text\n"
    chunks = MarkdownChunker(50, min_tokens=1).chunk(document(text), SERVICES)
    assert [chunk.headings for chunk in chunks] == [("A",), ("A", "B bold"), ("A", "B bold", "C"), ("A", "D")]


def test_chunk_over_two_sections_has_the_headings_that_both_share() -> None:
    chunks = MarkdownChunker(50, min_tokens=50).chunk(document("# A\n\n## B\n\nx\n\n## C\n\ny\n"), SERVICES)
    assert [chunk.headings for chunk in chunks] == [("A",)]


def test_headings_enricher_writes_the_breadcrumb_beside_the_text() -> None:
    layout = Layout((MarkdownChunker(50, 0)), (Headings(),))
    (chunk,) = layout.cut(Document("d.md", "# A\n\n## B\n\ntext", "Title"), SERVICES)
    assert chunk.context == "Title > A > B"
    assert chunk.text == "# A\n\n## B\n\ntext"
    assert chunk.searchable == "Title > A > B\n# A\n\n## B\n\ntext"


def test_heading_that_repeats_the_title_stands_once_in_the_breadcrumb() -> None:
    (chunk,) = Layout.parse("markdown", ["headings"]).cut(Document("d.md", "# A\n\ntext", "A"), SERVICES)
    assert chunk.context == "A"


def test_layout_has_a_text_form() -> None:
    assert (
        str(Layout.parse("fixed(tokens=5, overlap=0)", ["headings"]))
        == "fixed(tokens=5, overlap=0, unit=tokens) + headings"
    )


def test_chunk_id_depends_on_document_position_and_text() -> None:
    a, b = Fixed(1, 0).chunk(document("same same"), SERVICES)
    (elsewhere,) = Whole().chunk(Document("other.md", "same"), SERVICES)
    assert len({a.id, b.id, elsewhere.id}) == 3


def test_fixed_counts_words_if_asked_to() -> None:
    chunks = Fixed(tokens=3, overlap=1, unit="words").chunk(document("EOD-7 (see page 4) now. And then"), SERVICES)
    assert [chunk.text for chunk in chunks] == ["EOD-7 (see page", "page 4) now.", "now. And then"]


# ---------------------------------------------------------------- tables


@each(
    "chunker",
    [
        MarkdownChunker(20, 0),
        Hierarchical(200, 20, 0),
        Semantic(80.0, 0, 20, 0, "toy"),
        Semantic(80.0, 1, 30, 0, "toy"),
    ],
)
@pytest.mark.usefixtures("toys")
def test_later_parts_of_a_long_table_carry_its_header_row(chunker: MarkdownChunker) -> None:
    table = "\n".join(["| code | meaning |", "|---|---|", *(f"| row{i} | value{i} |" for i in range(20))])
    text = f"# Codes\n\n{table}\n\nSome words that follow the table.\n"
    chunks = chunker.chunk(document(text), SERVICES)
    later = [chunk for chunk in chunks if chunk.text.startswith("| row")]
    assert later
    assert {chunk.context for chunk in later} == {"| code | meaning |\n|---|---|"}
    assert all(not chunk.context for chunk in chunks if chunk not in later)


# ---------------------------------------------------------------- children and parents


@given(no_definitions, st.integers(2, 60), st.data())
def test_hierarchical_keeps_the_contract_on_any_markdown(text: str, parent: int, data: st.DataObject) -> None:
    child = data.draw(st.integers(1, parent - 1))
    overlap = data.draw(st.integers(0, child - 1))
    chunker = Hierarchical(parent, child, overlap)
    check_chunker(chunker, [document(text)])
    chunks = chunker.chunk(document(text), SERVICES)
    assert all(count_tokens(chunk.text) <= child for chunk in chunks)
    assert all(count_tokens(text[slice(*chunk.parent)]) <= parent for chunk in chunks)
    parents = sorted({chunk.parent for chunk in chunks})
    assert all(a[1] <= b[0] for a, b in pairwise(parents))


@given(no_definitions, st.integers(5, 60))
def test_children_without_overlap_are_the_chunks_of_markdown(text: str, child: int) -> None:
    children = Hierarchical(1000, child, 0).chunk(document(text), SERVICES)
    chunks = MarkdownChunker(child, child // 5).chunk(document(text), SERVICES)
    assert [(c.start, c.end, c.headings, c.context) for c in children] == [
        (c.start, c.end, c.headings, c.context) for c in chunks
    ]


def test_hierarchical_written_out() -> None:
    text = "# A\n\na b c d e f\n\n# B\n\ng h i\n"
    chunks = Hierarchical(parent=8, child=5, overlap=1).chunk(document(text), SERVICES)
    first, second = (0, 16), (18, 28)
    assert [(chunk.text, chunk.parent) for chunk in chunks] == [
        ("# A\n\na b", first), ("b c d e f", first), ("# B\n\ng h", second), ("h i", second),
    ]  # fmt: skip


@each(("parent", "sections"), [(9, [1, 1, 1]), (14, [2, 1]), (15, [3])])
def test_parent_holds_as_many_whole_sections_as_fit(parent: int, sections: list[int]) -> None:
    text = "# A\n\none two three\n\n# B\n\nfour five six\n\n# C\n\nseven eight nine\n"
    chunks = Hierarchical(parent, child=7, overlap=0).chunk(document(text), SERVICES)
    assert [text[slice(*span)].count("#") for span in sorted({chunk.parent for chunk in chunks})] == sections


@given(markdown_texts.filter(lambda text: "]:" not in text), st.integers(0, 4))
def test_sentence_window_keeps_the_contract_on_any_markdown(text: str, window: int) -> None:
    check_chunker(SentenceWindow(window), [document(text)])


def test_sentence_window_returns_the_sentences_around_inside_the_section() -> None:
    text = "# One\n\n" + "First of one. Second of one. Third of one. " * 8 + "\n\n# Two\n\nFirst of two. Second of two."
    chunks = SentenceWindow(1).chunk(document(text), SERVICES)
    windows = {chunk.text: text[slice(*chunk.parent)] for chunk in chunks}
    assert windows["Second of one."] == "First of one. Second of one. Third of one."
    assert windows["Second of two."] == "# Two\n\nFirst of two. Second of two."


# ---------------------------------------------------------------- semantic


WINDOWS = st.sampled_from(["joined", "averaged"])
TOPICS = ["cash deposit teller vault branch", "server restart kernel patch cluster", "oven bread flour yeast salt"]
STORY = " ".join(f"{topic.capitalize()} {i}." for topic in TOPICS for i in range(6))
"""Eighteen sentences that change their subject twice."""


@pytest.mark.usefixtures("toys")
@given(no_definitions | st.just(STORY), st.integers(1, 60), st.floats(0, 100), st.integers(0, 3), WINDOWS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_semantic_keeps_the_contract_on_any_markdown(
    text: str, most: int, threshold: float, buffer: int, windows: Any
) -> None:
    chunker = Semantic(threshold, buffer, most, min_tokens=0, model="toy", windows=windows)
    check_chunker(chunker, [document(text), document(text, "text")])
    assert all(count_tokens(chunk.text) <= most for chunk in chunker.chunk(document(text), SERVICES))


@pytest.mark.usefixtures("toys")
@each("windows", ["joined", "averaged"])
@each("buffer", [0, 1])
def test_semantic_cuts_where_the_subject_changes(buffer: int, windows: Any) -> None:
    # Two of seventeen distances stand out: those above the 88th percentile.
    chunker = Semantic(88.0, buffer, max_tokens=60, min_tokens=0, model="toy", windows=windows)
    # With a buffer, the joined texts change in two steps: from the sentence before the new subject on.
    firsts = [chunk.text.split()[0] for chunk in chunker.chunk(document(STORY), SERVICES)]
    assert firsts[0] == "Cash" and {"Server", "Oven"} <= set(firsts)
    assert len(firsts) == 3 or (buffer, windows) == (1, "joined")


class Recording(LocalServices):
    """Remembers the texts that were embedded."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def embedder(self, model: str) -> Embedder:
        inner = super().embedder(model)
        made = SimpleNamespace(embed=lambda texts: self.texts.extend(texts) or inner.embed(texts))
        return cast(Embedder, made)


@pytest.mark.usefixtures("toys")
def test_joined_windows_are_embedded_as_one_text() -> None:
    services = Recording()
    long = "Words " + " ".join(f"word{i}" for i in range(50)) + "."
    text = f"First one. {long} Third one. {long} Fifth one."
    Semantic(80.0, 1, max_tokens=60, min_tokens=0, model="toy", windows="joined").chunk(document(text), services)
    first, last = services.texts[0], services.texts[-1]
    assert first == f"First one. {long}"  # a sentence is not cut
    assert last == f"{long} Fifth one."
    assert services.texts[2] == f"{long} Third one. {long}"


@pytest.mark.usefixtures("toys")
def test_percentile_of_joined_windows_is_over_the_document() -> None:
    calm = " ".join(f"Cash deposit teller {i % 2}." for i in range(12))
    text = f"# A\n\n{calm}\n\n# B\n\n{STORY}"
    made = {
        windows: Semantic(90.0, 0, max_tokens=40, min_tokens=0, model="toy", windows=windows).chunk(
            document(text), SERVICES
        )
        for windows in ("joined", "averaged")
    }
    sizes = {
        windows: [count_tokens(chunk.text) for chunk in chunks if "deposit" in chunk.text and "vault" not in chunk.text]
        for windows, chunks in made.items()
    }
    # The calm section has no change that stands out in the document, so only `max_tokens` cuts it.
    assert len(sizes["joined"]) < len(sizes["averaged"])


@pytest.mark.usefixtures("toys")
def test_section_that_fits_is_not_looked_into() -> None:
    class Deaf(Services):
        def embedder(self, model: str) -> Embedder:
            raise AssertionError("nothing to embed")

    chunks = Semantic(80.0, 1, max_tokens=200, model="toy").chunk(document(f"# A\n\n{STORY}"), Deaf())
    assert [chunk.text for chunk in chunks] == [f"# A\n\n{STORY}"]


@pytest.mark.usefixtures("toys")
def test_semantic_respects_sections_and_the_least_size() -> None:
    text = f"# A\n\n{STORY}\n\n# B\n\n{STORY}"
    chunks = Semantic(0.0, 0, max_tokens=60, min_tokens=20, model="toy").chunk(document(text), SERVICES)
    assert sum(chunk.text.startswith("# ") for chunk in chunks) == 2
    ends = [chunk for chunk, after in zip(chunks, [*chunks[1:], None], strict=True) if after and after.text[0] != "#"]
    assert all(count_tokens(chunk.text) >= 20 for chunk in ends)


# ---------------------------------------------------------------- neighbors


def enriched(text: str, chunker: MarkdownChunker) -> list[Chunk]:
    return Layout(chunker, (Neighbors(),)).cut(Document("d.md", text, "Manual"), SERVICES)


def test_neighbors_are_the_lead_sentences_of_document_and_section() -> None:
    text = "Cash needs care. More.\n\n# Vault\n\nTwo people open it.\n\nKeys are kept apart.\n"
    contexts = {chunk.text: chunk.context for chunk in enriched(text, MarkdownChunker(7, 0))}
    assert contexts["Keys are kept apart."] == "Manual\nCash needs care.\nVault\nTwo people open it."
    # What the chunk says itself is not repeated.
    assert contexts["Cash needs care. More."] == "Manual"


def test_neighbors_cut_a_long_sentence_and_keep_earlier_context() -> None:
    text = "one two three four five six seven eight.\n\nLast words."
    chunks = Neighbors(tokens=3).enrich(
        Document("d.md", text, ""), [Chunk("d.md", 42, 53, "Last words.", (), "before")], SERVICES
    )
    assert [chunk.context for chunk in chunks] == ["before\none two three"]


# ---------------------------------------------------------------- sentences


@given(st.text(max_size=100), st.data())
@example("A. B. C. D", None)
def test_sentences_tile_the_span(text: str, data: st.DataObject | None) -> None:
    start = data.draw(st.integers(0, len(text))) if data else 0
    end = data.draw(st.integers(start, len(text))) if data else len(text)
    spans = sentence_spans(text, start, end)
    assert "".join(text[a:b] for a, b in spans) == text[start:end]
    assert all(a < b for a, b in spans)


def sentences(text: str) -> list[str]:
    return [text[a:b].strip() for a, b in sentence_spans(text, 0, len(text))]


@each(
    "sentence",
    [
        "File under 31 CFR 1020.320(d) Within 30 days.",
        "Use tools, e.g. SentryLine, first.",
        "The U.S. Treasury decides.",
        "Ask Dr. Smith about it.",
        "Upgrade to v1.2.3 Now.",
        "See J. R. Smith.",
        "It costs $10,000.00 In total.",
        "1. First do this.",
        "Branches close at 5 p.m. Monday to Friday.",
        "Run `systemctl stop x. Y` At once.",
        "Read [the guide](https://example.org/a.b?c. D) First.",
        "See para. 7 and Figs. 2 and 3.",
        "Pub. L. 107-56, 115 Stat. 272 and 63 Fed. Reg. 1234 apply.",
    ],
)
def test_stop_inside_a_sentence_does_not_end_it(sentence: str) -> None:
    assert sentences(f"{sentence} Then go on.") == [sentence, "Then go on."]


@each(
    "text",
    [
        "It ended in 2024.|The next began.",
        "Really?|Yes!|Good.",
        'He said "no way."|She left.',
        "(See above.)|Go on.",
        "the tax was due in 2020.|an asset was made.|it expired.",
        "`Run it.` is a command.|Use the app.|Go on.",
        "यह एक है।|दूसरा है।",
    ],
)
def test_end_of_a_sentence_is_found(text: str) -> None:
    assert sentences(text.replace("|", " ")) == text.split("|")


def test_long_text_is_parsed_in_windows_with_the_same_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = ["# One", "Text. More.", "| a | b |\n|---|---|\n| 1 | 2 |", "```py\nx = 1\n\n# no heading\n```", "Last."]
    text = "\n\n".join(parts * 20)
    whole = blocks.blocks(text)
    monkeypatch.setattr(blocks, "_WINDOW", 60)
    assert len(list(blocks._windows(text))) > 20
    assert blocks.blocks(text) == whole


@given(markdown_texts)
def test_windows_tile_any_markdown(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "_WINDOW", 10)
        assert "".join(text[a:b] for a, b in blocks._windows(text)) == text
        if "]:" not in text:
            check_chunker(MarkdownChunker(8, 0), [document(text)])


GROWING = {
    "tables": "| a | b |\n|---|---|\n| 1 | 2 |\n\n",
    "fences": "```\nx\ny\n```\n",
    "paragraphs": "Para one. And two.\n\n",
    "dots": ".",
    "links": "](",
    "brackets": "[",
    "underscores": "_",
}


@pytest.mark.parametrize("name", GROWING)
@pytest.mark.growth
def test_time_grows_with_the_text_and_not_with_its_square(name: str) -> None:
    def work(times: int) -> Callable[[], object]:
        text = f"# a{GROWING[name] * times}b" if name in ("brackets", "underscores") else GROWING[name] * times + "x"
        return lambda: sections(document(text))

    assert times_slower(work(16_000), work(1_000), enough=100) <= 100  # the square would be 256


class Looked(list[Piece]):
    """Counts how often one of them is looked at."""

    looks = 0

    def __getitem__(self, i: Any) -> Any:
        self.looks += 1
        return super().__getitem__(i)


def test_parents_look_at_every_section_once_or_twice() -> None:
    children = Looked(Piece(i, i + 1, 100, (), opens=True) for i in range(3_000))
    assert len(list(Hierarchical()._by_parent(children))) == 200
    assert children.looks <= 2 * len(children)
