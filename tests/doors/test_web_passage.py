"""How a page shows the text of a hit: nothing but marks of Markdown is lost, and the right sentence is marked."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cases import each
from surefind.base.types import Hit
from surefind.doors.web.search import _without_syntax, parts_of
from surefind.doors.words import sought


def plain(text: str) -> str:
    """A text as hits show it."""
    return _without_syntax(text, ())[0]


def _hit(text: str, sentence: tuple[int, int] | None, start: int = 100) -> Hit:
    return Hit(1, 1.0, "a.md", "0" * 16, "A", (), start, start + len(text), text, {}, {}, sentence=sentence)


def test_sentence_and_words_are_marked_and_syntax_is_not_shown() -> None:
    text = "## Near the cutoff\n\nWires close **early**. The cutoff is **15:00**, always.\n"
    start = 100 + text.index("The cutoff is")
    parts = parts_of(_hit(text, (start, 100 + text.index("always.") + 7)), sought("when is the cutoff?"))
    assert "".join(part.text for part in parts) == "Near the cutoff\nWires close early. The cutoff is 15:00, always."
    assert "".join(part.text for part in parts if part.sentence) == "The cutoff is 15:00, always."
    assert [part.text for part in parts if part.word] == ["cutoff", "cutoff"]


@given(st.text("xy .#*\n<>&עש", max_size=60), st.integers(0, 60), st.integers(0, 60), st.text("xy #*", max_size=8))
def test_any_text_is_shown_whole_and_in_order(text: str, a: int, b: int, query: str) -> None:
    start, end = sorted((min(a, len(text)), min(b, len(text))))
    parts = parts_of(_hit(text, (100 + start, 100 + end)), sought(query))
    shown = "".join(part.text for part in parts)
    bare = [letter for letter in text if letter not in "#*\n \t"]
    assert [letter for letter in shown if letter not in "#*\n \t"] == bare
    marked = [letter for part in parts if part.sentence for letter in part.text if letter not in "#*\n \t"]
    assert marked == [letter for letter in text[start:end] if letter not in "#*\n \t"]


def shown(text: str, words: str = "") -> str:
    start = text.find(words)
    return "".join(part.text for part in parts_of(_hit(text, (100 + start, 100 + start + len(words))), frozenset()))


def test_tags_and_templates_are_not_shown() -> None:
    text = "{% tabs %}\n<div class='x'>The <b>cutoff</b> is 3.</div> <!-- <p>old</p> -->\n"
    text += "<%= partial 'x' %>\nRun in <pod>.\n"
    assert shown(text, "cutoff").split() == ["The", "cutoff", "is", "3.", "Run", "in", "<pod>."]


def test_links_and_code_are_their_words() -> None:
    assert (
        shown("See [the `fee` table](https://a.example/x?y=1) and ![a map](m.png).") == "See the fee table and a map."
    )


def test_a_long_passage_is_cut_to_four_lines_around_its_sentence() -> None:
    text = "Before it. " * 60 + "The cutoff is noon." + " After it." * 60
    found = shown(text, "The cutoff is noon.")
    assert "The cutoff is noon." in found and found.startswith("…") and found.endswith("…") and len(found) < 400


def test_rows_of_a_table_begin_with_their_first_word() -> None:
    table = "## Limits\n\n| | Until May | From May |\n|---|---|---|\n| Per day | $2,500 | **$5,000** |\n"
    assert plain(table).split() == "Limits Until May | From May | Per day | $2,500 | $5,000 |".split()


def test_a_quote_is_shown_without_syntax() -> None:
    assert (
        plain("Cutoff is **15:00**, says `WD` in [POL-301](../pol-301.md).") == "Cutoff is 15:00, says WD in POL-301."
    )


@each(
    ("text", "shown"),
    [
        ("Use *Void and copy* in _Settings_.", "Use Void and copy in Settings."),
        ("***Never*** at night, (*by day*).", "Never at night, (by day)."),
        ("5 * 4 * 3, a*b*c, 10%* of it*", "5 * 4 * 3, a*b*c, 10%* of it*"),
        ("snake_case_name, __init__, _ alone _", "snake_case_name, __init__, _ alone _"),
    ],
)
def test_marks_of_italics_are_not_shown(text: str, shown: str) -> None:
    assert plain(text) == shown
