"""`pdf(ocr=false)`: reads PDF as Markdown with headings (by size), columns in reading order, tables. Hits name pages.

The parser is liteparse, which uses PDFium. Scanned pages are reported. With `ocr=true` and the extra `ocr`,
RapidOCR reads them; its models come with its package.

Recognises the text of scanned pages with RapidOCR. Its models are part of its package; nothing is downloaded.

RapidOCR's own check for upside-down lines is switched off, because it turns upright lines over, even on clean
pages. In practice whole pages are upside down, not single lines: a page that is recognised badly is
rotated, and the rotation with the highest confidence is used.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from surefind.base.errors import SourceError
from surefind.base.spec import Stage
from surefind.base.types import Document
from surefind.engine.files.inside import complain, still_working
from surefind.engine.files.readers import FORMATS, need
from surefind.engine.ingest._tables import joined, repeat_headers
from surefind.engine.ingest.markdown import first_heading

_MARK = b"%PDF-"
_WITHIN = 1024
"""Bytes at the start of a file among which the mark must be."""
_ESCAPED = re.compile(r"\\([\\`*_{}\[\]<>()#+\-.!~|])")
_NUMBER = re.compile(r"\d{1,5}")
_EDGES = (0, -1)
"""The first and the last block of a page."""
_SAME_HEAD, _MAX_HEAD_CHARS, _MAX_AHEAD = 3, 120, 50
"""A line with the page number (a folio) is on at least 3 pages, has at most 120 characters, and its number differs from
the page's by the same amount everywhere, by at most 50. Invoice numbers count up too, but differ by more."""
_SCANNED_TEXT, _SCANNED_AREA = 20, 0.3
"""A page is a scan if it has fewer than 20 characters, and pictures cover more than 30% of it."""


@dataclass(frozen=True)
class Pdf(Stage):
    kind: ClassVar[str] = "read"
    name: ClassVar[str] = "pdf"
    suffixes: ClassVar[tuple[str, ...]] = FORMATS["pdf"].suffixes
    needs: ClassVar[tuple[str, ...]] = FORMATS["pdf"].needs
    extra: ClassVar[str] = FORMATS["pdf"].extra

    ocr: bool = False

    def read(self, path: Path, document_id: str) -> Iterable[Document]:
        need(self.needs, self.extra)
        with path.open("rb") as file:
            if _MARK not in file.read(_WITHIN):
                raise SourceError("is not a PDF (it does not begin with %PDF-)")
        pages = _parsed(path)
        scanned = [page.page_num for page in pages if _is_scan(page)]
        seen = self._recognised(path, scanned)
        texts = _without_folios({page.page_num: seen.get(page.page_num) or _text(page) for page in pages})
        text, places = joined((f"page {number}", text) for number, text in texts.items())
        if not text and scanned:
            raise SourceError(f"has no text, only scanned pages: {_ranges(scanned)}{self._advice}")
        if missed := [number for number in scanned if number not in seen]:
            complain(f"has scanned pages without text: {_ranges(missed)}{self._advice}")
        yield Document(document_id, text, first_heading(text) or path.stem, "markdown", places=places)

    @property
    def _advice(self) -> str:
        return "; OCR found no text on them" if self.ocr else _USE_OCR

    def _recognised(self, path: Path, numbers: Sequence[int]) -> dict[int, str]:
        if not (self.ocr and numbers):
            return {}
        return recognise(path, numbers)


_USE_OCR = "; to read them, write readers = ['pdf(ocr=true)'] in surefind.toml and run: pip install 'surefind[ocr]'"


def _parsed(path: Path) -> Sequence[Any]:
    from liteparse import LiteParse, ParseError

    parser = LiteParse(
        ocr_enabled=False,
        output_format="markdown",
        image_mode="off",
        include_complexity=True,
        num_workers=1,
        quiet=True,
    )
    try:
        return list(parser.parse(str(path)).pages)
    except ParseError as error:
        reason = str(error)
        if "password" in reason.lower():
            raise SourceError("is encrypted; save it without a password") from None
        raise SourceError(f"is a broken PDF ({reason})") from None


def _text(page: Any) -> str:
    """The page as Markdown, without backslash escapes, which would hide words from a search."""
    if not page.complexity.text_length:
        return ""
    markdown = (page.markdown or "").replace("\r\n", "\n").replace("\r", "\n")
    return repeat_headers(_ESCAPED.sub(r"\1", markdown).strip() + "\n")


def _without_folios(pages: Mapping[int, str]) -> dict[int, str]:
    """Removes first and last lines that contain the page number, such as `Chapter 4: Fees 17`. The parser already
    removes running heads that are the same on every page."""
    seen: Counter[tuple[int, str, int]] = Counter()
    for page, text in pages.items():
        seen.update({key for edge in _EDGES for key in _counting(page, text, edge)})
    stripped = {}
    for page, text in pages.items():
        for edge in _EDGES:
            if any(seen[key] >= _SAME_HEAD for key in _counting(page, text, edge)):
                text = "\n\n".join(text.split("\n\n")[slice(1, None) if edge == 0 else slice(-1)]).rstrip() + "\n"
        stripped[page] = text
    return stripped


def _counting(page: int, text: str, edge: int) -> Iterator[tuple[int, str, int]]:
    """Yields (edge, block without its numbers, number minus page) for each number in a page's first or last block."""
    block = text.strip().split("\n\n")[edge]
    if len(block) <= _MAX_HEAD_CHARS and not block.startswith(("#", "|", "-", "`")):
        form = _NUMBER.sub("#", block)
        aheads = {int(number) - page for number in _NUMBER.findall(block)}
        yield from ((edge, form, ahead) for ahead in aheads if abs(ahead) <= _MAX_AHEAD)


def _is_scan(page: Any) -> bool:
    facts = page.complexity
    picture = facts.full_page_image or facts.image_coverage > _SCANNED_AREA
    return bool(picture and facts.text_length < _SCANNED_TEXT)


def _ranges(numbers: Sequence[int]) -> str:
    """Writes page numbers as ranges: 1, 2, 3, 7 -> `1-3, 7`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


_DPI = 150
"""Resolution of the pictures that are taken of the pages."""
_SURE = 0.9
"""Mean confidence per letter from which a page counts as upright, so that no other rotation is tried."""


def recognise(path: Path, numbers: Sequence[int]) -> dict[int, str]:
    """Returns the text of these pages of a PDF, line by line. Pages without text are left out."""
    need(("rapidocr", "onnxruntime"), "ocr")
    from liteparse import LiteParse

    camera = LiteParse(ocr_enabled=False, quiet=True, dpi=_DPI, num_workers=1)
    pages: dict[int, str] = {}
    for number in numbers:
        (picture,) = camera.screenshot(str(path), page_numbers=[number])
        seen = _best_turn(picture.image_bytes)
        if seen.txts:
            pages[number] = f"{seen.to_markdown().strip()}\n"
    return pages


def _best_turn(page: bytes) -> Any:
    """The recognised text of the page in the rotation with the highest confidence."""
    seen = []
    for degrees in (0, 180, 90, 270):
        seen.append(_engine()(_turned(page, degrees)))
        still_working()
        if _confidence(seen[-1]) >= _SURE:
            return seen[-1]
    return max(seen, key=_confidence)  # the first of equal ones


def _turned(page: bytes, degrees: int) -> bytes:
    from PIL import Image

    if degrees == 0:
        return page
    turned = io.BytesIO()
    Image.open(io.BytesIO(page)).rotate(degrees, expand=True).save(turned, "PNG")
    return turned.getvalue()


def _confidence(seen: Any) -> float:
    """The mean confidence per letter. A long line counts for more than a speck that was recognised as a line."""
    letters = [len(text) for text in seen.txts or ()]
    known = sum(n * float(score) for n, score in zip(letters, seen.scores or (), strict=True))
    return known / sum(letters) if sum(letters) else 0.0


@cache
def _engine() -> Any:
    from rapidocr import RapidOCR

    return RapidOCR(params={"Global.use_cls": False, "EngineConfig.onnxruntime.intra_op_num_threads": 2})
