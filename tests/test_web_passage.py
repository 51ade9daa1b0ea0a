"""How a page shows the text of a hit: nothing but marks of Markdown is lost, and the right sentence is marked."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from surefind.serve.web.passage import parts_of
from surefind.serve.words import sought
from surefind.types import Hit


def _hit(text: str, sentence: tuple[int, int] | None, start: int = 100) -> Hit:
    return Hit(1, 1.0, "a.md", "0" * 16, "A", (), start, start + len(text), text, {}, {}, sentence=sentence)


def test_sentence_and_words_are_marked_and_syntax_is_not_shown() -> None:
    text = "## Near the cutoff\n\nWires close **early**. The cutoff is **15:00**, always.\n"
    start = 100 + text.index("The cutoff is")
    parts = parts_of(_hit(text, (start, 100 + text.index("always.") + 7)), sought("when is the cutoff?"))
    assert "".join(part.text for part in parts) == "Near the cutoff\nWires close early. The cutoff is 15:00, always."
    assert "".join(part.text for part in parts if part.sentence) == "The cutoff is 15:00, always."
    assert [part.text for part in parts if part.word] == ["cutoff", "cutoff"]


@given(st.text("ab .#*\n<>&עש", max_size=60), st.integers(0, 60), st.integers(0, 60), st.text("ab #*", max_size=8))
def test_any_text_is_shown_whole_and_in_order(text: str, a: int, b: int, query: str) -> None:
    start, end = sorted((min(a, len(text)), min(b, len(text))))
    parts = parts_of(_hit(text, (100 + start, 100 + end)), sought(query))
    shown = "".join(part.text for part in parts)
    bare = [letter for letter in text if letter not in "#*\n \t"]
    assert [letter for letter in shown if letter not in "#*\n \t"] == bare
    marked = [letter for part in parts if part.sentence for letter in part.text if letter not in "#*\n \t"]
    assert marked == [letter for letter in text[start:end] if letter not in "#*\n \t"]
