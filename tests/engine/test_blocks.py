"""What an answer quotes: blocks that a person would copy, and those beside them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from surefind.base.text.markup import plain
from surefind.base.types import Chunk, Quote
from surefind.engine.search.blocks import MOST, blocks_of
from surefind.engine.search.quoting import QUOTED, answering, quotes
from surefind.engine.store.backend import Passage

PAGE = """# Wires

[The desk](desk.md) · [the fees](fees.md) · [the forms](forms.md)

Wires are sent **daily**. <b>The cutoff</b> is `15:00` {% page foo %}.

To renew a wire:

1. Open *WireDesk*.
2. Choose __Renew__.

```sh
wire renew 17
```

| Day | Cutoff |
| --- | --- |
| Monday | 15:00 |
| Friday | 14:00 |

### How long is it kept?

Seven years.
"""


def passage(text: str, start: int = 0, title: str = "Wires") -> Passage:
    return Passage(Chunk("a.md", start, start + len(text), text, ()), title, {}, "", None)


def quoted(query: str, text: str, start: int = 0) -> Quote:
    (made,) = quotes(query, [passage(text, start)], None)
    return made


def test_a_page_is_cut_into_what_a_person_would_copy() -> None:
    blocks = blocks_of(PAGE)
    assert [(block.kind, block.lead, block.text) for block in blocks] == [
        ("paragraph", "", "Wires are sent daily. The cutoff is 15:00 ."),
        ("item", "To renew a wire:", "Open WireDesk."),
        ("item", "To renew a wire:", "Choose Renew."),
        ("code", "", "wire renew 17"),
        ("row", "Day | Cutoff", "Monday | 15:00"),
        ("row", "Day | Cutoff", "Friday | 14:00"),
        ("paragraph", "How long is it kept?", "Seven years."),
    ][: len(blocks)]
    assert blocks[-1].headings == ("Wires", "How long is it kept?") and blocks[0].headings == ("Wires",)


@each("text", ["# Only a heading\n", "[a](b) | [c](d)", "", "\n\n", "See below:\n\n- one two three"])
def test_headings_links_and_pointers_are_no_paragraphs(text: str) -> None:
    assert all(block.kind != "paragraph" for block in blocks_of(text))


@each("start", [0, 900])
def test_the_rest_of_a_sentence_is_left_out(start: int) -> None:
    text = "renewal of a wire by phone.\n\nWires are renewed at the desk in the hall."
    assert len(blocks_of(text, start > 0)) == (2 if start == 0 else 1)


def test_long_paragraphs_and_items_are_cut_between_sentences() -> None:
    text = " ".join(f"Sentence number {n} says that wires are sent." for n in range(60))
    for whole in (text, f"- {text}"):
        blocks = blocks_of(whole)
        assert len(blocks) > 3 and all(len(block.text) <= MOST for block in blocks)
        assert all(block.text.startswith("Sentence number") and block.text.endswith("sent.") for block in blocks)


def test_a_quote_has_its_list_its_header_and_its_command() -> None:
    steps = quoted("how do I renew a wire", PAGE)
    assert "To renew a wire:\n1. Open WireDesk.\n2. Choose Renew." in steps.text and "wire renew 17" in steps.text
    row = quoted("cutoff on Friday", "| Day | Cutoff |\n| --- | --- |\n" + "| Monday | 15:00 |\n| Friday | 14:00 |\n")
    assert row.text == "Day | Cutoff\nMonday | 15:00\nFriday | 14:00" and row.text[slice(*row.mark)] == "Friday | 14:00"


def test_a_quote_begins_with_what_its_block_speaks_of() -> None:
    before = "The badge opens the vault in the morning. " * 4
    made = quoted("lamp desk", f"{before}\n\nIt has a lamp at the desk. {'It is never switched off. ' * 14}")
    assert made.text.startswith("The badge") and "It has a lamp" in made.text[slice(*made.mark)]


def test_a_quote_knows_its_place() -> None:
    made = quoted("how long is it kept, how many years", PAGE, 1_000)
    assert PAGE[made.span[0] - 1_000 : made.span[1] - 1_000].strip() == "Seven years."
    assert made.text == "How long is it kept?\nSeven years."


def test_an_answer_has_another_quote_only_if_it_is_nearly_as_good() -> None:
    one, near, far = (
        Quote(rank, text, (0, len(text)), (0, 9), 1.0, score)
        for rank, text, score in ((1, "a b c", 2.0), (2, "d e f", 1.8), (3, "g h i", 0.5))
    )
    assert answering([one, near, far]) == [one, near] and answering([far]) == [far] and answering([]) == []
    same = Quote(2, "a b c", (0, 5), (0, 5), 1.0, 1.9)
    assert answering([one, same, far]) == [one]


def test_only_the_first_passages_are_quoted() -> None:
    made = quotes("wires daily", [passage(PAGE)] * (QUOTED + 2), None)
    assert [quote.rank for quote in made] == list(range(1, QUOTED + 1))


MARKUP = st.sampled_from(
    ["# A\n", "- item\n", "1. two\n", "| a | b |\n|---|---|\n", "```\ncode\n```\n", "<b>x</b>", "{% if %}", "*em*",
     "> q\n", "\n\n", "Text ends here. ", "[l](u)", "`c`", "|", "&amp;", "ß 中文。", "   pre\n", "<!--c-->", "a" * 700]
)  # fmt: skip


@given(st.lists(MARKUP, max_size=30).map("".join), st.text(max_size=30))
def test_any_text_gives_short_quotes_without_markup(text: str, query: str) -> None:
    for block in blocks_of(text):
        assert block.text.strip() and block.start < block.end <= len(text)
        # What a page shows as code is quoted as it stands.
        assert len(block.text) <= MOST and (block.kind == "code" or "{%" not in block.text)
    for quote in quotes(query or "x", [passage(text)], None):
        start, end = quote.mark
        assert 0 <= start < end <= len(quote.text) <= 2 * MOST and quote.span[0] < quote.span[1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("See [the __docs__](http://x.y/z_(a)) now", "See the docs now"),
        ("run `rm *_x*` or **bold** _it_ snake_case_x", "run rm *_x* or bold it snake_case_x"),
        ("[![alt](p.png)](u) &amp; a\\*b <https://a.b>", "alt & a*b https://a.b"),
        ("<b>x</b> <namespace> {{ .Values }} {: .note}", "x <namespace> {{ .Values }}"),
        ("a [ref][x], a note[^1] and ~~gone~~", "a ref, a note and gone"),
    ],
)
def test_plain_leaves_the_words_alone(text: str, words: str) -> None:
    assert plain(text) == words


def test_marks_without_an_end_take_no_time() -> None:
    for mark in ("[", "*", "_", "`", "<", "![", "\\"):
        assert len(plain(mark * 20_000)) <= 20_000 * len(mark)
    assert re.search("x", plain("[" * 5_000 + "x"))
