"""Real files of every format, made by real libraries, for tests of reading."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from email.message import EmailMessage

Bytes = bytes | str


def docx(build: Callable[[object], None]) -> bytes:
    from docx import Document

    made = Document()
    build(made)
    return _saved(made.save)


def handbook(made: object) -> None:
    """A title, headings, a list and a table."""
    made.add_heading("Cash Handbook", 0)
    made.add_heading("Reports", 1)
    made.add_paragraph("A currency transaction report is due within 15 days.")
    made.add_paragraph("count twice", style="List Bullet")
    made.add_paragraph("sign once", style="List Bullet")
    made.add_heading("Fees", 2)
    table = made.add_table(rows=0, cols=2)
    for row in (("Service", "Fee"), ("Wire | abroad", "$25"), ("Stop payment", "$30")):
        cells = table.add_row().cells
        cells[0].text, cells[1].text = row


def pptx() -> bytes:
    from pptx import Presentation
    from pptx.util import Inches

    made = Presentation()
    slide = made.slides.add_slide(made.slide_layouts[1])
    slide.shapes.title.text = "Branch goals"
    frame = slide.placeholders[1].text_frame
    frame.text = "Open earlier"
    frame.add_paragraph().text = "from March"
    frame.paragraphs[1].level = 1
    slide.notes_slide.notes_text_frame.text = "Ask the union first."
    second = made.slides.add_slide(made.slide_layouts[5])
    second.shapes.title.text = "Fees"
    grid = second.shapes.add_table(2, 2, Inches(1), Inches(2), Inches(4), Inches(1)).table
    for i, row in enumerate((("Service", "Fee"), ("Wire", "$25"))):
        for j, value in enumerate(row):
            grid.cell(i, j).text = value
    return _saved(made.save)


def xlsx(sheets: Mapping[str, Iterable[Sequence[object]]]) -> bytes:
    from openpyxl import Workbook

    made = Workbook()
    made.remove(made.active)
    for name, rows in sheets.items():
        sheet = made.create_sheet(name)
        for row in rows:
            sheet.append(row)
    return _saved(made.save)


def pdf(build: Callable[[object], None], **options: object) -> bytes:
    from fpdf import FPDF

    made = FPDF(**options)
    build(made)
    return bytes(made.output())


def policy(made: object) -> None:
    """Page 1: headings and a table. Page 2: two columns."""
    made.add_page()
    _line(made, "Cash Policy", 22, "B")
    _line(made, "1. Reports", 15, "B")
    _text(made, "A currency transaction report is due within 15 calendar days of the transaction. " * 3)
    _line(made, "2. Fees", 15, "B")
    made.set_font("helvetica", "", 11)
    with made.table() as table:
        for row in (("Service", "Fee", "Limit"), ("Wire transfer", "$25", "daily"), ("Stop payment", "$30", "yearly")):
            cells = table.row()
            for value in row:
                cells.cell(value)
    made.add_page()
    _line(made, "3. Columns", 15, "B")
    made.set_font("helvetica", "", 10)
    with made.text_columns(ncols=2, gutter=8) as columns:
        columns.write("\n\n".join(" ".join(f"{side}{i} word" for i in range(330)) for side in ("left", "right")))


def scan(made: object) -> None:
    """A page of text, then a page that is a picture of text."""
    from PIL import Image, ImageDraw

    made.add_page()
    _text(made, "This page is text that can be read. " * 5)
    picture = Image.new("L", (620, 877), 255)
    ImageDraw.Draw(picture).text((60, 100), "PICTURE OF A CONTRACT", fill=0, font_size=36)
    made.add_page()
    made.image(picture, x=0, y=0, w=210, h=297)


def endless_pdf() -> bytes:
    """Four kilobytes: a page that draws a form, which draws thirty times a form, and so on, ten deep: 30^9 times."""

    def form(content: bytes, resources: str) -> bytes:
        head = (
            f"<< /Type /XObject /Subtype /Form /BBox [0 0 9 9] /Length {len(content)} /Resources << {resources} >> >>"
        )
        return head.encode() + b"\nstream\n" + content + b"\nendstream"

    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R /Resources "
        b"<< /XObject << /A 5 0 R >> >> >>",
        b"<< /Length 5 >>\nstream\n/A Do\nendstream",
        *(form(b"/A Do " * 30, f"/XObject << /A {6 + i} 0 R >>") for i in range(9)),
        form(b"BT /F 9 Tf (x) Tj ET", "/Font << /F << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >>"),
    ]
    made, places = b"%PDF-1.7\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(made))
        made += f"{number} 0 obj\n".encode() + content + b"\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    end = (
        f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\n"
    )
    return made + end.encode() + f"startxref\n{len(made)}\n%%EOF\n".encode()


def zipped(members: Mapping[str, Bytes], level: int = zipfile.ZIP_DEFLATED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", level) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return made.getvalue()


def mail(body: str = "The vault code changed.", attachments: Mapping[str, bytes] | None = None) -> bytes:
    made = EmailMessage()
    made["Subject"] = "Vault – new code"
    made["From"] = "Zoë <zoe@example.org>"
    made["To"] = "branch@example.org"
    made["Date"] = "Mon, 02 Jun 2025 10:00:00 +0000"
    made.set_content(body)
    for name, content in (attachments or {}).items():
        made.add_attachment(content, maintype="application", subtype="octet-stream", filename=name)
    return bytes(made)


def notebook() -> str:
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# Churn\n", "\n", "Members who leave."]},
        {
            "cell_type": "code",
            "metadata": {},
            "execution_count": 1,
            "source": "print(rate())",
            "outputs": [{"output_type": "stream", "name": "stdout", "text": ["0.031\n"]}],
        },
        {"cell_type": "raw", "metadata": {}, "source": "ignored"},
    ]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def swapped(package: bytes, name: str, content: bytes) -> bytes:
    """An office file with one part replaced."""
    with zipfile.ZipFile(io.BytesIO(package)) as archive:
        return zipped({n: content if n == name else archive.read(n) for n in archive.namelist()})


def _saved(save: Callable[[io.BytesIO], object]) -> bytes:
    made = io.BytesIO()
    save(made)
    return made.getvalue()


def _line(made: object, text: str, size: int, style: str = "") -> None:
    made.set_font("helvetica", style, size)
    made.cell(0, size * 0.6, text, new_x="LMARGIN", new_y="NEXT")


def _text(made: object, text: str) -> None:
    made.set_font("helvetica", "", 11)
    made.multi_cell(0, 6, text, new_x="LMARGIN", new_y="NEXT")


RST = """\
Guide
=====

Install
-------

Run :command:`make` and see :ref:`the manual <manual>`.

.. note:: Mind the gap.

.. versionadded:: 2.0
   Faster now.

.. toctree::

   hidden-page

.. include:: /etc/passwd

.. csv-table:: Fees
   :header: Service, Fee

   Wire, $25
"""
