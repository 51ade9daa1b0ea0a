"""Every format keeps its structure as Markdown, and every part of it can name its place in the source."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import real_files
from cases import each
from helpers import WORDS, Home, ask
from surefind import Access
from surefind.base import spec
from surefind.base.errors import SourceError
from surefind.base.text.blocks import location
from surefind.base.text.words import count_tokens
from surefind.base.types import Document, Place
from surefind.engine.files.inside import reading
from surefind.engine.files.opening import FileLimits
from surefind.engine.files.readers import Readers
from surefind.engine.ingest._tables import TOKENS, joined, numbered, parts, repeat_headers
from surefind.engine.write.prepare import Prepared


def take(path: Path, content: str | bytes, *readers: str) -> Prepared:
    """As the child of a sync reads it."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    known = Readers(readers)
    with reading(FileLimits(), known) as scope:
        return Prepared(list(known.find(path.name).read(path, path.name)), [], scope.complaints)


def read(path: Path, content: str | bytes, reader: str = "") -> Document:
    """By the reader alone."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    found = spec.make("read", reader) if reader else Readers().find(path.name)
    (document,) = found.read(path, path.name)
    return document


def place_of(document: Document, words: str) -> str:
    at = document.text.index(words)
    return location(document.places, at, at + len(words))


# ---------------------------------------------------------------- places


@each(
    ("start", "end", "name"),
    [(0, 5, "page 1"), (9, 10, "page 1"), (10, 11, "page 2"), (5, 25, "pages 1-3"), (25, 30, "page 3")],
)
def test_location_names_the_pages_that_a_span_touches(start: int, end: int, name: str) -> None:
    places = [Place(0, "page 1"), Place(10, "page 2"), Place(20, "page 3")]
    assert location(places, start, end) == name


@each(
    ("first", "last", "name"),
    [
        ("rows 2-9", "rows 10-14", "rows 2-14"),
        ("row 2", "rows 3-4", "rows 2-4"),
        ("sheet Q1, rows 2-9", "sheet Q1, row 10", "sheet Q1, rows 2-10"),
        ("sheet Q1, rows 2-9", "sheet Q2, rows 2-4", "sheet Q1, rows 2-9 to sheet Q2, rows 2-4"),
        ("sheet A", "sheet B", "sheet A to sheet B"),
    ],
)
def test_location_over_several_places(first: str, last: str, name: str) -> None:
    assert location([Place(0, first), Place(5, last)], 0, 9) == name


def test_source_without_places_has_no_location() -> None:
    assert location((), 0, 5) == ""
    assert location((Place(10, "page 1"),), 0, 5) == ""


@given(st.lists(st.tuples(st.sampled_from(["page 1", "page 2", "page 3"]), st.text("ab \n", max_size=5)), max_size=6))
def test_joined_parts_stand_where_their_place_says(named: list[tuple[str, str]]) -> None:
    text, places = joined(named)
    kept = [(name, part) for name, part in named if part.strip()]
    assert text == "\n".join(part for _, part in kept)
    at = 0
    for name, part in kept:
        assert location(places, at, at + 1) == name
        at += len(part) + 1


def test_numbered() -> None:
    assert (numbered("row", 7, 7), numbered("row", 7, 9)) == ("row 7", "rows 7-9")


# ---------------------------------------------------------------- tables

cells = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=12)


@given(st.lists(cells, min_size=1, max_size=4), st.lists(st.lists(cells, min_size=4, max_size=4), max_size=60))
def test_every_part_of_a_table_has_the_header_and_every_row_stands_once(
    header: list[str], rows: list[list[str]]
) -> None:
    rows = [row[: len(header)] for row in rows]
    made = list(parts(header, rows))
    tops = {text.split("\n")[0] for _, _, text in made}
    assert len(tops) == 1
    assert [i for first, last, _ in made for i in range(first, last + 1)] == list(range(max(len(rows), 1)))
    for first, last, text in made:
        assert len(text.split("\n")) == (3 + last - first + 1 if rows else 3)
        assert count_tokens(text) <= TOKENS or first == last


def test_table_too_wide_for_a_header_names_every_value() -> None:
    header = [f"long column name {i}" for i in range(40)]
    ((first, last, text),) = parts(header, [[str(i) if i != 7 else "" for i in range(40)]])
    assert (first, last) == (0, 0)
    assert text.startswith("- long column name 0: 0\n- long column name 1: 1\n")
    assert "column name 7" not in text


def test_long_table_in_markdown_gets_its_header_again_and_short_ones_stay() -> None:
    short = "| a | b |\n|---|---|\n| 1 | 2 |\n"
    long = "| name | fee |\n|---|---|\n" + "".join(f"| service {i} \\| x | {i} |\n" for i in range(60))
    text = repeat_headers(f"before\n\n{short}\nbetween\n\n{long}\nafter\n")
    assert text.startswith(f"before\n\n{short}\nbetween\n\n") and text.endswith("\nafter\n")
    assert text.count("| name | fee |") == 4
    assert text.count("\\| x |") == 60


def test_csv_is_a_table_whose_parts_name_their_rows(tmp_path: Path) -> None:
    lines = "\n".join(f'"wire {i}";{i},50' for i in range(60))
    document = read(tmp_path / "fees.csv", f"service;fee\n{lines}\n")
    assert document.title == "fees"
    assert "| wire 59 | 59,50 |" in document.text
    # 5 + 9 tokens of header, 8 a row: (180 - 14) // 8 = 20 rows a part
    assert document.text.count("| service | fee |") == 3
    assert place_of(document, "wire 0 ") == "rows 2-21"


def test_csv_in_another_encoding_is_read_when_that_is_said(tmp_path: Path) -> None:
    data = "name,fee\nZoë,1\n".encode("cp1252")
    with pytest.raises(SourceError, match=r"is not UTF-8 .* or write readers = \['csv\(encoding=cp1252\)'\]"):
        read(tmp_path / "a.csv", data)
    for same in (
        data,
        "name,fee\nZoë,1\n",
        "name,fee\nZoë,1\n".encode("utf-8-sig"),
        "name,fee\nZoë,1\n".encode("utf-16"),
    ):
        text = read(tmp_path / "a.csv", same, "csv(encoding=cp1252)").text
        assert text == "| name | fee |\n| --- | --- |\n| Zoë | 1 |\n"
    bare = "name,fee\nZoë,1\n".encode("utf-16-le")
    assert "| Zoë | 1 |" in read(tmp_path / "a.csv", bare, "csv(encoding=utf-16-le)").text
    with pytest.raises(SourceError, match="no encoding called 'klingon'"):
        read(tmp_path / "a.csv", data, "csv(encoding=klingon)")


def test_xlsx_sheets_captions_tables_and_values(tmp_path: Path) -> None:
    book = real_files.xlsx(
        {
            "Fees": [
                ("All fees",),
                ("service", "fee", "since"),
                ("wire", 25.0, dt.datetime(2025, 6, 2)),
                ("stop", 0.5),
            ],
            "Q2": [("id", "note"), *((i, f"note {i}") for i in range(60))],
            "Empty": [],
        }
    )
    document = read(tmp_path / "fees.xlsx", book)
    assert "# Fees\n\nAll fees\n" in document.text
    assert "| wire | 25 | 2025-06-02 |\n| stop | 0.5 |  |\n" in document.text
    assert "# Empty" not in document.text
    assert document.text.count("| id | note |") == 3
    assert place_of(document, "| wire") == "sheet Fees, rows 3-4"
    assert place_of(document, "All fees\n\n| service") == "sheet Fees, rows 1-4"
    assert place_of(document, "note 0") == "sheet Q2, rows 2-28"


def test_xlsx_row_with_gaps_stays_in_its_table_and_a_caption_behind_an_empty_row_begins_another(tmp_path: Path) -> None:
    staff = [
        ("name", "phone"),
        ("Ann", "1"),
        ("Bob",),
        (None, "3"),
        ("Di", "4", "extra"),
        (),
        ("Sites",),
        ("city", "code"),
    ]
    document = read(tmp_path / "a.xlsx", real_files.xlsx({"Staff": [*staff, ("Oslo", "O")]}))
    assert document.text == (
        "# Staff\n\n| name | phone | column 3 |\n| --- | --- | --- |\n| Ann | 1 |  |\n| Bob |  |  |\n|  | 3 |  |\n"
        "| Di | 4 | extra |\n\nSites\n\n| city | code |\n| --- | --- |\n| Oslo | O |\n"
    )
    assert place_of(document, "| Oslo") == "sheet Staff, row 9"


def test_xlsx_values_beyond_a_wide_header_are_kept(tmp_path: Path) -> None:
    rows = [tuple(f"long column name {i}" for i in range(40)), tuple(range(42))]
    assert "- column 42: 41\n" in read(tmp_path / "a.xlsx", real_files.xlsx({"Wide": rows})).text


def test_xlsx_cells_merged_over_rows_stand_in_each(tmp_path: Path) -> None:
    from openpyxl import Workbook

    made = Workbook()
    for row in [("region", "quarter", "sum"), ("North", "Q1", 1), (None, "Q2", 2), (None, "Q3"), ("South", "Q1", 4)]:
        made.active.append(row)
    made.active.merge_cells("A2:A4")
    made.active.merge_cells("C3:C4")
    made.active.merge_cells("F2:H90")
    made.save(tmp_path / "a.xlsx")
    text = read(tmp_path / "a.xlsx", (tmp_path / "a.xlsx").read_bytes()).text
    assert text.endswith("| North | Q1 | 1 |\n| North | Q2 | 2 |\n| North | Q3 | 2 |\n| South | Q1 | 4 |\n")


def test_csv_cells_of_several_lines_and_empty_rows(tmp_path: Path) -> None:
    document = read(tmp_path / "a.csv", 'id,note\r\n1,"first\r\nsecond"\r\n\r\n\r\n2,"say ""hi"""\r\n')
    assert document.text == '| id | note |\n| --- | --- |\n| 1 | first second |\n| 2 | say "hi" |\n'
    assert place_of(document, "| 2") == "rows 2-5"


def test_csv_may_name_its_delimiter_in_its_first_line(tmp_path: Path) -> None:
    text = read(tmp_path / "a.csv", "sep=;\nname;fee\nwire;1,5\n").text
    assert text == "| name | fee |\n| --- | --- |\n| wire | 1,5 |\n"


# ---------------------------------------------------------------- office and PDF


def test_docx_headings_lists_and_tables(tmp_path: Path) -> None:
    document = read(tmp_path / "a.docx", real_files.docx(real_files.handbook))
    assert document.title == "Cash Handbook"
    assert document.text == (
        "# Cash Handbook\n\n# Reports\n\nA currency transaction report is due within 15 days.\n\n- count twice\n"
        "- sign once\n\n## Fees\n\n"
        "| Service | Fee |\n| --- | --- |\n| Wire \\| abroad | $25 |\n| Stop payment | $30 |\n"
    )


def test_docx_title_of_its_properties_comes_first(tmp_path: Path) -> None:
    def build(made: object) -> None:
        made.core_properties.title = "Named"
        made.add_heading("Heading", 1)

    assert read(tmp_path / "a.docx", real_files.docx(build)).title == "Named"


def test_pptx_slides_bullets_tables_and_notes(tmp_path: Path) -> None:
    document = read(tmp_path / "a.pptx", real_files.pptx())
    assert document.text == (
        "# Branch goals\n\n- Open earlier\n  - from March\n\nNotes: Ask the union first.\n\n"
        "# Fees\n\n| Service | Fee |\n| --- | --- |\n| Wire | $25 |\n"
    )
    assert place_of(document, "from March") == "slide 1"
    assert place_of(document, "| Wire") == "slide 2"
    assert "union" not in read(tmp_path / "a.pptx", real_files.pptx(), "pptx(notes=false)").text


def test_docx_merged_and_nested_tables(tmp_path: Path) -> None:
    def build(made: object) -> None:
        table = made.add_table(rows=3, cols=3)
        rows = (("City", "Season", "Fee"), ("Paris", "summer", "2"), ("", "winter", "1"))
        for i, row in enumerate(rows):
            for j, value in enumerate(row):
                table.cell(i, j).text = value
        table.cell(1, 0).merge(table.cell(2, 0))
        inner = table.cell(2, 2).add_table(rows=1, cols=2)
        inner.cell(0, 0).text, inner.cell(0, 1).text = "Jan", "a | b"
        made.add_table(rows=1, cols=1).cell(0, 0).text = "A box."

    text = read(tmp_path / "a.docx", real_files.docx(build)).text
    assert text == (
        "| City | Season | Fee |\n| --- | --- | --- |\n| Paris | summer | 2 |\n| Paris | winter | 1 Jan, a \\| b |\n\n"
        "A box.\n"
    )


def test_pptx_slide_without_a_title_is_no_part_of_the_one_before(tmp_path: Path) -> None:
    from pptx import Presentation
    from pptx.util import Inches

    made = Presentation()
    made.core_properties.title = "PowerPoint Presentation"
    for layout, words in ((6, "First."), (5, "Goals"), (6, "Third.")):
        slide = made.slides.add_slide(made.slide_layouts[layout])
        box = slide.shapes.title or slide.shapes.add_textbox(0, 0, Inches(2), Inches(1))
        box.text_frame.text = words
    made.save(tmp_path / "a.pptx")
    document = read(tmp_path / "a.pptx", (tmp_path / "a.pptx").read_bytes())
    assert document.title == "Goals"
    assert document.text == "# Slide 1\n\nFirst.\n\n# Goals\n\n# Slide 3\n\nThird.\n"


def test_pdf_headings_tables_columns_and_pages(tmp_path: Path) -> None:
    document = read(tmp_path / "a.pdf", real_files.pdf(real_files.policy))
    assert document.title == "Cash Policy"
    assert "# Cash Policy\n\n## 1. Reports\n" in document.text
    assert "| Service | Fee | Limit |\n|---|---|---|\n| Wire transfer | $25 | daily |\n" in document.text
    order = [document.text.index(f"{side}{i} word") for side in ("left", "right") for i in range(0, 330, 10)]
    assert order == sorted(order)
    assert place_of(document, "Wire transfer") == "page 1"
    assert place_of(document, "left0 word") == "page 2"


def test_pdf_lines_that_count_the_pages_are_left_out_and_others_that_count_are_not(tmp_path: Path) -> None:
    def build(made: object) -> None:
        made.set_auto_page_break(False)
        for i in range(1, 7):
            made.add_page()
            made.set_font("helvetica", "", 11)
            made.text(20, 15, f"Fees of the branches {i + 2}")
            made.set_xy(20, 40)
            made.multi_cell(0, 6, f"Invoice {7000 + i}")
            made.set_xy(20, 60)
            made.multi_cell(0, 6, f"Member {'abcdef'[i - 1] * 4} pays for the wire in {i} days. " * 5)
            made.text(90, 290, f"page {i} of 6")

    document = read(tmp_path / "a.pdf", real_files.pdf(build))
    assert "Fees of the branches" not in document.text and " of 6" not in document.text
    assert document.text.count("Invoice 700") == 6 and document.text.count("pays for the wire") == 30
    assert place_of(document, "Member cccc") == "page 3"


def test_pdf_with_a_scanned_page_is_read_in_part_and_says_which(tmp_path: Path) -> None:
    taken = take(tmp_path / "a.pdf", real_files.pdf(real_files.scan))
    assert "can be read" in taken.documents[0].text
    ((inside, reason),) = taken.complaints
    assert inside == "" and "has scanned pages without text: 2; " in reason and "surefind[ocr]" in reason


def test_pdf_of_scans_only_is_refused(tmp_path: Path) -> None:
    from PIL import Image

    def build(made: object) -> None:
        for _ in range(2):
            made.add_page()
            made.image(Image.new("L", (62, 87), 200), x=0, y=0, w=210, h=297)

    with pytest.raises(SourceError, match=r"has no text, only scanned pages: 1-2; to read them, write"):
        take(tmp_path / "a.pdf", real_files.pdf(build))


def test_scanned_page_is_recognised_with_the_extra(tmp_path: Path) -> None:
    pytest.importorskip("rapidocr")
    taken = take(tmp_path / "a.pdf", real_files.pdf(real_files.scan), "pdf(ocr=true)")
    assert taken.complaints == []
    assert place_of(taken.documents[0], "PICTURE OF A CONTRACT") == "page 2"


def test_page_that_lies_on_its_head_is_turned_and_a_blank_one_is_told(tmp_path: Path) -> None:
    pytest.importorskip("rapidocr")
    from PIL import Image, ImageDraw

    page = Image.new("L", (620, 877), 255)
    ImageDraw.Draw(page).text((60, 100), "TWO OFFICERS OPEN THE VAULT", fill=0, font_size=28)

    def build(made: object) -> None:
        for picture in (page.rotate(180), Image.new("L", (62, 87), 200)):
            made.add_page()
            made.image(picture, x=0, y=0, w=210, h=297)

    taken = take(tmp_path / "a.pdf", real_files.pdf(build), "pdf(ocr=true)")
    assert place_of(taken.documents[0], "TWO OFFICERS OPEN THE VAULT") == "page 1"
    ((_, reason),) = taken.complaints
    assert reason == "has scanned pages without text: 2; OCR found no text on them"


# ---------------------------------------------------------------- text formats


def test_rst_keeps_what_sphinx_adds_and_includes_nothing(tmp_path: Path) -> None:
    document = read(tmp_path / "a.rst", real_files.RST)
    assert document.title == "Guide"
    for there in (
        "# Guide\n",
        "## Install\n",
        "Run `make` and see the manual.",
        "Mind the gap.",
        "**New in version 2.0**\n\nFaster now.",
        "Faster now.",
        "| Wire | $25 |",
    ):
        assert there in document.text
    for absent in ("hidden-page", "root:", "manual <"):
        assert absent not in document.text


def test_rst_headings_do_not_link_to_a_list_of_contents(tmp_path: Path) -> None:
    document = read(tmp_path / "a.rst", "Guide\n=====\n\n.. contents::\n\nText.\n\nMore\n----\n\nEnd.\n")
    assert (document.title, document.text) == ("Guide", "# Guide\n\nText.\n\n## More\n\nEnd.\n")


def test_rst_raw_and_included_files_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret words")
    source = (
        "Text.\n\n.. raw:: html\n   :file: secret.txt\n\n.. literalinclude:: secret.txt\n\n.. include:: secret.txt\n"
    )
    assert "secret words" not in read(tmp_path / "a.rst", source).text


def test_heading_keeps_the_underscores_of_a_name(home: Home) -> None:
    home.write("docs/a.py", "def open_the_vault():\n    pass\n")
    home.sync("docs")
    with home.open() as kb:
        assert ask(kb, "vault").hits[0].headings == ("open_the_vault",)


def test_notebook_cells_code_and_results(tmp_path: Path) -> None:
    document = read(tmp_path / "a.ipynb", real_files.notebook())
    assert document.title == "Churn"
    assert document.text == "# Churn\n\nMembers who leave.\n\n```python\nprint(rate())\n```\n```\n0.031\n```\n"
    assert place_of(document, "print(rate())") == "cell 2"
    assert "0.031" not in read(tmp_path / "a.ipynb", real_files.notebook(), "jupyter(outputs=false)").text


def test_mail_and_its_attachments(tmp_path: Path) -> None:
    attached = {"fees.docx": real_files.docx(real_files.handbook), "../notes.txt": b"noted", "photo.jpg": b"\xff\xd8"}
    taken = take(tmp_path / "a.eml", real_files.mail(attachments=attached))
    message, *others = taken.documents
    assert message.title == "Vault – new code"
    assert "- From: Zoë <zoe@example.org>\n" in message.text and "The vault code changed." in message.text
    assert "- Attachments: fees.docx, notes.txt, photo.jpg\n" in message.text
    assert message.metadata["to"] == "branch@example.org"
    assert [d.id for d in others] == ["a.eml/fees.docx", "a.eml/notes.txt"]
    assert taken.complaints == []


def test_mail_in_html_is_markdown(tmp_path: Path) -> None:
    from email.message import EmailMessage

    made = EmailMessage()
    made["Subject"], made["From"] = "Hi", "a@b.c"
    made.set_content("<p>One</p><ul><li>two</li></ul>", subtype="html")
    assert "One\n\n- two" in read(tmp_path / "a.eml", bytes(made)).text


def test_mail_laid_out_with_tables_keeps_its_structure(tmp_path: Path) -> None:
    from email.message import EmailMessage

    made = EmailMessage()
    made["Subject"], made["From"] = "News", "a@b.c"
    page = (
        "<table><tr><td><table><tr><td>&nbsp;</td><td><h2>Fees</h2><p>One.</p><ul><li>two</li></ul></td></tr></table>"
        "</td></tr><tr><td><table><tr><td>Wire</td><td>$25</td></tr></table></td></tr></table>"
    )
    made.set_content(page, subtype="html")
    text = read(tmp_path / "a.eml", bytes(made)).text
    assert text.endswith("\n\n## Fees\n\nOne.\n\n- two\n\n| Wire | $25 |\n| --- | --- |\n")


def test_mail_attachment_has_the_charset_that_the_mail_names(tmp_path: Path) -> None:
    from email.message import EmailMessage

    made = EmailMessage()
    made["Subject"], made["From"] = "Hi", "a@b.c"
    made.set_content("body")
    said = {"charset": "koi8-r"}
    made.add_attachment("отчёт;1".encode("koi8-r"), maintype="text", subtype="csv", filename="a.csv", params=said)
    made.add_attachment(b"second text", maintype="text", subtype="plain", disposition="inline")
    taken = take(tmp_path / "a.eml", bytes(made))
    assert taken.complaints == []
    assert [d.id for d in taken.documents] == ["a.eml", "a.eml/a.csv", "a.eml/attachment 2.txt"]
    assert "отчёт" in taken.documents[1].text and taken.documents[2].text == "second text"


PYTHON = '''"""Money."""

import os

RATE = 0.5


# Takes it.
@cached
def withdraw(amount):
    return amount


class Account:
    """One."""

    def close(self):
        pass
'''
SOURCES = {
    "a.py": (PYTHON, ["withdraw", "Account", "close"]),
    "a.js": (
        "export async function load(x) {\n}\nconst save = (y) => {\n}\nclass Store {\n}\n",
        ["load", "save", "Store"],
    ),
    "a.go": (
        "package main\n\nfunc (s *Store) Get(k string) string {\n}\n\ntype Store struct {\n}\n",
        ["main", "Get", "Store"],
    ),
    "a.rs": ("pub fn run() {\n}\n\nimpl Store {\n    pub fn get(&self) {}\n}\n", ["run", "Store", "get"]),
    "A.java": (
        "public class Ledger {\n    private static int total(int a) {\n        if (a > 0) {\n        }\n    }\n}\n",
        ["Ledger", "total"],
    ),
    "a.c": ("#include <x.h>\n\nstatic int add(int a, int b)\n{\n    return a + b;\n}\n", ["add"]),
    "a.sh": ("set -e\nbackup() {\n  true\n}\n", ["backup"]),
    "a.sql": (
        "CREATE TABLE IF NOT EXISTS members (id INT);\ncreate or replace view v AS SELECT 1;\n",
        ["members", "v"],
    ),
    "a.rb": ("module Bank\n  class Teller\n    def pay!\n    end\n  end\nend\n", ["Bank", "Teller", "pay!"]),
    "a.cs": ("namespace X\n{\n    public async Task<int> Run(int a)\n    {\n    }\n}\n", ["X", "Run"]),
}


@each("name", SOURCES)
def test_code_has_a_section_for_each_declaration(name: str, tmp_path: Path) -> None:
    source, names = SOURCES[name]
    document = read(tmp_path / name, source)
    headings = [line.lstrip("# ") for line in document.text.split("\n") if line.startswith(("## ", "### "))]
    assert headings == names
    lines = [line for line in source.split("\n") if line.strip()]
    assert [line for line in document.text.split("\n") if line in lines] == lines


def test_code_keeps_comments_and_decorators_with_what_they_stand_above(tmp_path: Path) -> None:
    document = read(tmp_path / "a.py", PYTHON)
    assert "## withdraw\n\n```python\n# Takes it.\n@cached\ndef withdraw" in document.text
    assert place_of(document, "return amount") == "lines 8-13"


# ---------------------------------------------------------------- JSON


def test_json_list_is_a_document_a_record(tmp_path: Path) -> None:
    records = [
        {
            "id": "T-1",
            "title": "Wire stuck",
            "text": "Restart it.",
            "status": "open",
            "tags": ["a", "b"],
            "acl": ["ops"],
        },
        {"id": "T-1", "name": "Same id", "body": "x"},
        {"question": "Why?", "answer": "Because."},
    ]
    documents = take(tmp_path / "t.json", json.dumps(records)).documents
    assert [d.id for d in documents] == ["t.json#T-1", "t.json#T-1-2", "t.json#3"]
    assert [d.title for d in documents] == ["Wire stuck", "Same id", "Why?"]
    assert [d.text for d in documents] == ["Restart it.", "x", "Because."]
    assert documents[0].metadata["tags"] == ["a", "b"] and documents[0].acl == ("ops",)


def test_json_field_mapping_follows_dots(tmp_path: Path) -> None:
    data = {"data": {"items": [{"key": "K", "fields": {"summary": "S", "parts": ["one", "two"], "body": "B"}}]}}
    spec_text = "json(records=data.items, id=key, title=fields.summary, text=[fields.body, fields.parts])"
    (document,) = take(tmp_path / "t.json", json.dumps(data), spec_text).documents
    assert (document.id, document.title, document.text) == ("t.json", "S", "B\n\n- one\n- two\n")


def test_json_without_the_mapped_field_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"has no field 'body' in any record; check readers in surefind.toml"):
        take(tmp_path / "t.json", '[{"body": ""}, {"text": "y"}]', "json(text=[body])")
    taken = take(tmp_path / "t.json", '[{"id": 0, "body": "x"}, {"body": null}]', "json(text=[body])")
    assert [d.id for d in taken.documents] == ["t.json#0"]
    assert taken.complaints == [
        ("", "has no field 'body' in 1 of 2 records, which are left out; the first is record 2")
    ]
    with pytest.raises(SourceError, match=r"has no records at 'data\.rows'"):
        take(tmp_path / "t.json", "{}", "json(records=data.rows)")


def test_json_without_text_is_written_out(tmp_path: Path) -> None:
    (document,) = take(tmp_path / "t.json", '{"host": "db1", "limits": {"cpu": 2, "disks": [{"gb": 5}]}}').documents
    assert document.title == "t"
    assert document.text == "- host: db1\n\n## limits\n\n- cpu: 2\n\n### disks\n\n- gb: 5\n"


def test_jsonl_names_the_broken_line(tmp_path: Path) -> None:
    documents = take(tmp_path / "t.jsonl", '{"text": "a"}\n\n{"text": "b"}\n').documents
    assert [d.id for d in documents] == ["t.jsonl#1", "t.jsonl#3"]
    with pytest.raises(SourceError, match="is not JSON at line 2"):
        take(tmp_path / "t.jsonl", '{"text": "a"}\n{"text"\n')


# ---------------------------------------------------------------- HTML

PAGE = """<html><head><title>Fees</title></head><body class="with-sidebar">
<div id="cookie-banner">We use cookies</div><a class="skip-link" href="#m">Skip to content</a>
<header><div class="logo">Bank</div><div role="search">Search here</div></header>
<div class="sidebar">Other pages</div>
<form id="aspnetForm"><main class="page-toc-visible"><ol class="breadcrumb"><li>Home</li></ol>
<article><header><h1>Fees<a class="headerlink">¶</a></h1></header><p>Wires cost $25. {words}</p>
<aside><p>Note the limit.</p></aside><pre><code>pay --now</code></pre><p hidden>unseen</p>
<div style="display: none">unseen too</div><div class="social-share">Share on X</div></article>
</main></form><footer>Copyright</footer></body></html>""".replace("{words}", "More words on wires follow here. " * 20)


def test_links_to_the_pages_beside_it_are_dropped(tmp_path: Path) -> None:
    """As DocBook, Publican, Doxygen and Texinfo write them."""
    for name in ("navheader", "navfooter", "docnav top", "navpath", "nav-panel"):
        page = (
            f"<html><body><div class='{name}'><p>&lt;&lt;&lt; Prev</p></div><h2>Fees</h2><p>Wires cost $25.</p></body>"
        )
        assert read(tmp_path / "a.html", page).text == "## Fees\n\nWires cost $25.\n"


def test_html_keeps_what_the_page_says_and_drops_its_furniture(tmp_path: Path) -> None:
    text = read(tmp_path / "a.html", PAGE).text
    for there in ("# Fees\n", "Wires cost $25.", "Note the limit.", "pay --now"):
        assert there in text
    for absent in "cookies,Skip to,Bank,Search,Other pages,Home,¶,unseen,Share,Copyright".split(","):
        assert absent not in text


def test_html_long_table_repeats_its_header(tmp_path: Path) -> None:
    rows = "".join(f"<tr><td>service {i}</td><td>{i}</td></tr>" for i in range(80))
    text = read(tmp_path / "a.html", f"<table><tr><th>name</th><th>fee</th></tr>{rows}</table>").text
    assert text.count("| name | fee |") > 2


def test_html_cells_that_span_rows_stand_in_each(tmp_path: Path) -> None:
    page = """<table>
      <caption>Fees</caption><colgroup><col></colgroup>
      <thead><tr><th rowspan="2">Region</th><th colspan="2">2024</th></tr><tr><th>Q1</th><th>Q2</th></tr></thead>
      <tbody><tr><td rowspan=2>North</td><td>1</td><td rowspan="3">x</td></tr><tr><td>2</td></tr>
      <tr><td>South</td><td>3</td></tr></tbody></table>
      <table><tr><td>a</td><td rowspan=2>b</td></tr><tr><td>c</td></tr></table>"""
    assert read(tmp_path / "a.html", page).text == (
        "Fees\n\n| Region | 2024 | |\n| --- | --- | --- |\n| Region | Q1 | Q2 |\n| North | 1 | x |\n| North | 2 | x |\n"
        "| South | 3 | x |\n\n| a | b |\n| --- | --- |\n| c | b |\n"
    )


def test_html_embedded_data_is_no_text(tmp_path: Path) -> None:
    data = "data:image/png;base64," + "iVBORw0KGgo" * 1000
    page = f'<p>before</p><img src="{data}" alt="a chart"><p><a href="{data}">after</a></p>'
    assert read(tmp_path / "a.html", page).text == "before\n\na chart\n\nafter\n"


@each(("charset", "words"), [("iso-8859-1", "Größe – 5 €"), ("Shift_JIS", "日本語"), ("koi8-r", "отчёт")])
def test_html_in_the_charset_that_it_names(charset: str, words: str, tmp_path: Path) -> None:
    page = f'<html><head><meta charset="{charset}"></head><body><p>{words}</p></body></html>'
    used = "cp1252" if charset == "iso-8859-1" else charset
    assert read(tmp_path / "a.html", page.encode(used)).text == f"{words}\n"
    assert read(tmp_path / "a.html", page).text == f"{words}\n"  # UTF-8 whatever it says of itself
    with pytest.raises(SourceError, match="no encoding called 'klingon'"):
        read(tmp_path / "a.html", page.replace(charset, "klingon").encode(used))


# ---------------------------------------------------------------- through a sync


def test_hits_say_where_they_stand(home: Home) -> None:
    home.configure(WORDS + '[index]\nchunk = "markdown(tokens=100, min_tokens=0)"\n')
    home.write("docs/a.pdf", real_files.pdf(real_files.policy))
    home.write("docs/b.xlsx", real_files.xlsx({"Q2": [("member", "balance"), ("Quillhaven", 12)]}))
    home.write("docs/c.md", "# Plain\n\nNothing to see.")
    assert home.sync("docs").problems == []
    with home.open() as kb:
        (hit,) = ask(kb, "Quillhaven balance", k=1).hits
        assert (hit.document, hit.location) == ("b.xlsx", "sheet Q2, row 2")
        assert ask(kb, "wire transfer fee", k=1).hits[0].location == "page 1"
        assert ask(kb, "nothing plain", k=1).hits[0].location == ""
        assert all(
            d.text[h.start : h.end] == h.text
            for d in kb.documents(Access.owner())
            for h in (hit,)
            if d.id == h.document
        )


def test_hit_names_the_page_of_what_matched_and_not_of_all_that_is_returned(home: Home) -> None:
    def build(made: object) -> None:
        for word in ("deposit", "transfer", "loan"):
            made.add_page()
            made.set_font("helvetica", "", 11)
            made.multi_cell(0, 6, f"Every {word} is reported by the branch. " * 8)

    home.configure(WORDS + '[index]\nchunk = "hierarchical(parent=1000, child=80, overlap=0)"\n')
    home.write("docs/a.pdf", real_files.pdf(build))
    home.sync("docs")
    with home.open() as kb:
        (hit,) = ask(kb, "transfer", k=1).hits
        assert "deposit" in hit.text and "loan" in hit.text
        assert hit.location == "page 2"


def test_another_mapping_reads_unchanged_files_again(home: Home) -> None:
    home.write("docs/t.json", '{"title": "T", "text": "old words", "note": "new words"}')
    home.write("docs/a.md", "plain")
    home.sync("docs")
    home.configure(WORDS + "[sync]\nreaders = ['json(text=[note])']\n")
    result = home.sync()
    assert (result.changed, result.unchanged) == (1, 1)
    assert home.found("new") == ["t.json"] and home.found("old") == []


def test_wrong_reader_in_the_settings_names_the_line(home: Home) -> None:
    home.configure(WORDS + "[sync]\nreaders = ['json(txt=[note])']\n")
    with pytest.raises(Exception, match=r"surefind.toml, line 8: json has no parameter 'txt'\. Did you mean text"):
        home.open()


def test_questions_beside_a_corpus_are_not_documents(home: Home) -> None:
    home.write("docs/corpus.jsonl", '{"_id": "1", "text": "alpha"}\n')
    home.write("docs/queries.jsonl", '{"_id": "q", "text": "alpha question"}\n')
    home.write("docs/qrels/test.tsv", "query-id\tcorpus-id\tscore\nq\t1\t1\n")
    home.sync("docs")
    assert home.found("alpha") == ["1"]
