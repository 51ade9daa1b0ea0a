"""Recognises the text of scanned pages with RapidOCR. Its models are part of its package; nothing is downloaded.

RapidOCR's own check for upside-down lines is switched off, because it turns upright lines over, even on clean
pages. In practice whole pages are upside down, not single lines: a page that is recognised badly is
rotated, and the rotation with the highest confidence is used.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from surefind.engine.files.inside import still_working
from surefind.engine.files.readers import need

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
