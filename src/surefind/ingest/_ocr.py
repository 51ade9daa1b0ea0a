"""Reading pages that are pictures, with RapidOCR; its models are part of its package, nothing is downloaded.

RapidOCR's own guess whether a line stands on its head is left out: it turns upright lines over, even on clean pages
(docs/results/ingest.md). It is pages that lie upside down, not lines: one that reads badly is turned, and the turn that
reads best is taken.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from surefind.files.inside import still_working
from surefind.files.readers import need

_DPI = 150
_SURE = 0.9
"""A page whose letters are recognised with this confidence, on average, lies as it should."""


def recognise(path: Path, numbers: Sequence[int]) -> dict[int, str]:
    """The text of these pages of a PDF, line by line; pages without any are left out."""
    need(("rapidocr", "onnxruntime"), "ocr")
    from liteparse import LiteParse

    camera = LiteParse(ocr_enabled=False, quiet=True, dpi=_DPI, num_workers=1)
    found: dict[int, str] = {}
    for number in numbers:
        (picture,) = camera.screenshot(str(path), page_numbers=[number])
        seen = _best_turn(picture.image_bytes)
        if seen.txts:
            found[number] = f"{seen.to_markdown().strip()}\n"
    return found


def _best_turn(page: bytes) -> Any:
    seen = []
    for degrees in (0, 180, 90, 270):
        seen.append(_engine()(_turned(page, degrees)))
        still_working()
        if _confidence(seen[-1]) >= _SURE:
            return seen[-1]
    return max(seen, key=_confidence)  # the first of equals


def _turned(page: bytes, degrees: int) -> bytes:
    from PIL import Image

    if degrees == 0:
        return page
    turned = io.BytesIO()
    Image.open(io.BytesIO(page)).rotate(degrees, expand=True).save(turned, "PNG")
    return turned.getvalue()


def _confidence(seen: Any) -> float:
    """Of a letter, on average: a long line counts for more than a speck that was taken for one."""
    letters = [len(text) for text in seen.txts or ()]
    known = sum(n * float(score) for n, score in zip(letters, seen.scores or (), strict=True))
    return known / sum(letters) if sum(letters) else 0.0


@cache
def _engine() -> Any:
    from rapidocr import RapidOCR

    return RapidOCR(params={"Global.use_cls": False, "EngineConfig.onnxruntime.intra_op_num_threads": 2})
