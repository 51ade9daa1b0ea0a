"""Markdown on pages: what it looks like, what it cannot do, and that no text takes long."""

from __future__ import annotations

import re
import time
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from cases import each
from surefind.base.types import Document
from surefind.doors.web.markdown import Marks, links_to, rendered, rendered_sheet, sheet

KNOWN = {"fees/wires.md": 1, "fees/other page.md": 1, "start/index.md": 1}
FIND = links_to(KNOWN, "fees/a.md", lambda name: f"/documents/{name}")
ALLOWED = {
    "p", "ul", "ol", "li", "blockquote", "table", "thead", "tbody", "tr", "th", "td", "strong", "em", "s", "h2", "h3",
    "h4", "h5", "h6", "pre", "code", "hr", "br", "a", "span", "div", "mark",
}  # fmt: skip


def html(text: str, marks: Marks | None = None, title: str = "") -> str:
    found = rendered(text, FIND, title, marks)
    assert found is not None
    return str(found)


class Tags(HTMLParser):
    """The tags of a page with their attributes, which must be closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words = ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in ("br", "hr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


def test_headings_lists_tables_and_code_are_rendered() -> None:
    found = html(
        "# Fees\n\n## Wires\n\n- one **bold**\n- two\n\n3. x\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n```sh\nls <x>\n```\n"
    )
    for part in (
        '<h2 data-line="1" id="h-fees">Fees</h2>', '<h3 data-line="3" id="h-wires">',
        "<li>one <strong>bold</strong></li>",
        '<ol data-line="8" start="3">', '<td class="n">2</td>', "<code>ls &lt;x&gt;\n</code>",
    ):  # fmt: skip
        assert part in found, part


def test_the_title_is_not_said_twice() -> None:
    assert "<h2" not in html("# Fees\n\nText.\n", title="Fees")
    assert "Fees" in html("# Fees\n\nText.\n", title="Other")


@each(
    ("target", "address"),
    [
        ("wires.md", "/documents/fees/wires.md"),
        ("wires.html#cut-off", "/documents/fees/wires.md#h-cut-off"),
        ("other%20page.md", "/documents/fees/other page.md"),
        ("/start/", "/documents/start/index.md"),
        ("#below", "#h-below"),
        ("https://example.com/a?b=1", "https://example.com/a?b=1"),
        ("mailto:a@example.com", "mailto:a@example.com"),
        ("secret.md", None),
        ("javascript:alert(1)", None),
        ("JaVaScRiPt:alert(1)", None),
        ("data:text/html,x", None),
        ("//evil.example/x", None),
        ("../../../../etc/passwd", None),
    ],
)
def test_links_lead_to_the_web_or_to_documents_that_one_may_read(target: str, address: str | None) -> None:
    tags = Tags(html(f"[here]({target})"))
    assert [attrs["href"] for tag, attrs in tags.found if tag == "a"] == ([address] if address else [])
    assert "here" in tags.words


def test_an_image_is_its_words() -> None:
    found = html("![a chart](https://evil.example/pixel.png)")
    assert "a chart" in found and "evil" not in found and "<img" not in found


def test_html_is_its_words_and_placeholders_stay() -> None:
    found = html(
        "<div class='x'>\nInside <b>this</b>.\n</div>\n\nRun `get <pod>` in <namespace>.<br>\n\n"
        "<script>\nalert(1)\n</script>\n"
    )
    assert "Inside this." in found and "&lt;namespace&gt;" in found and "&lt;pod&gt;" in found
    assert "alert" not in found and "<div class='x'" not in found


def marked(text: str, words: str) -> str:
    at = text.index(words)
    found = html(text, Marks((at, at + len(words)), (0, 0)))
    Tags(found)
    assert found.count('id="passage"') == 1
    return "".join(re.findall(r"<mark[^>]*>([^<]*)</mark>", found))


@each(
    ("text", "words", "shown"),
    [
        ("One here. Two **there** now. Three.", "Two **there** now.", "Two there now."),
        ("- one\n- two _words_\n- three\n", "- two _words_", "two words"),
        ("> A quote. More.\n", "> A quote.", "A quote."),
        ("| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n", "| 1 | 2 |", "12"),
        ("```\nx = 1\ny = 2\n```\n", "y = 2", "y = 2"),
        (
            "Read **this. Then [that](https://a.example) page** now.",
            "Then [that](https://a.example) page",
            "Then that page",
        ),
        ("_Start_ of it. End.", "_Start_ of it.", "Start of it."),
        ("First line\nof two. Rest.", "First line\nof two.", "First lineof two."),
        ("Two paragraphs\n\nin one. Rest.", "Two paragraphs\n\nin one.", "Two paragraphsin one."),
    ],
)
def test_the_sentence_is_marked_whatever_surrounds_it(text: str, words: str, shown: str) -> None:
    assert marked(text, words) == shown


def test_a_sentence_that_is_not_shown_leads_to_its_passage() -> None:
    text = "Before.\n\n<script>\nhidden words\n</script>\n\nAfter.\n"
    at = text.index("hidden")
    found = html(text, Marks((at, at + 12), (0, 7)))
    assert found.count('id="passage"') == 1 and "<mark" not in found


def test_only_the_lines_of_the_passage_are_marked() -> None:
    found = html("One.\n\nTwo.\n\n- a\n- b\n", Marks(lines=(2, 5)))
    assert re.findall(r'class="found"[^>]*>([^<]*)<', found) == ["Two.", "a"]


def test_a_page_of_a_long_document_is_rendered_from_a_blank_line_on() -> None:
    text = "".join(f"Paragraph {n} **bold**\nwith two lines.\n\n" for n in range(600))
    second = sheet(text, 1500, first=11)
    assert second.whole and second.lines[0][1].startswith("Paragraph") and second.lines[0][0] > 800
    at = text.index("Paragraph 400")
    document = Document("a.md", text, "T")
    page = sheet(text, 11 + text.count("\n", 0, at), first=11)
    found = rendered_sheet(document, page, FIND, (at, at + 13), (at, at + 13))
    assert found is not None and '<mark id="passage">Paragraph 400</mark>' in found
    assert f'data-line="{page.lines[0][0]}"' in found


def test_code_and_tables_are_not_cut_where_another_cut_is_near() -> None:
    text = "Start.\n\n" + "x\n" * 700 + "\n```\n" + "code\n\n" * 100 + "```\n\nEnd.\n"
    assert sheet(text, 1).after == text[: text.index("```")].count("\n") + 1


@given(
    st.text(st.sampled_from("ab[]()!*_`~<>&|#-+>:\\\"' \n\t1.={}%/"), max_size=120),
    st.integers(0, 120),
    st.integers(0, 120),
)
def test_any_text_becomes_allowed_tags_that_are_closed(text: str, a: int, b: int) -> None:
    start, end = sorted((min(a, len(text)), min(b, len(text))))
    tags = Tags(html(text, Marks((start, end) if end else (0, 0), (0, 3))))
    for tag, attrs in tags.found:
        assert tag in ALLOWED
        assert attrs.keys() <= {"href", "rel", "id", "class", "start", "data-line", "tabindex", "role", "aria-label"}


HOSTILE = {
    "brackets": "[", "images": "![[](", "stars": "*a", "mixed": "*_a", "ticks": "`` ` ", "angles": "<a ",
    "comments": "<!--", "quotes": "> ", "bullets": "- ", "pipes": "|a", "references": "[x]: a\n",
    "entities": "&", "strikes": "~~a",
}  # fmt: skip


@each("name", HOSTILE)
def test_no_text_takes_long(name: str) -> None:
    one = HOSTILE[name]
    for text in (one * (100_000 // len(one)), (one * (7_900 // len(one)) + "\n\n") * 10):
        began = time.process_time()
        rendered(text, FIND)
        assert time.process_time() - began < 4


def test_a_very_wide_table_is_shown_line_by_line() -> None:
    assert rendered("|" + "a|" * 2000 + "\n|" + "-|" * 2000 + "\n" + "a|\n" * 2000, FIND) is None
    assert rendered("a" * 200_000, FIND) is None
