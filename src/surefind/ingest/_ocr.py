"""Reading pages that are pictures, with RapidOCR; its models are part of its package, nothing is downloaded."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from surefind.ingest._inside import still_working
from surefind.ingest._readers import need

_DPI = 150


def recognise(path: Path, numbers: Sequence[int]) -> dict[int, str]:
    """The text of these pages of a PDF, line by line; pages without any are left out."""
    need(("rapidocr", "onnxruntime"), "ocr")
    from liteparse import LiteParse

    camera = LiteParse(ocr_enabled=False, quiet=True, dpi=_DPI, num_workers=1)
    found: dict[int, str] = {}
    for number in numbers:
        (picture,) = camera.screenshot(str(path), page_numbers=[number])
        seen = _engine()(picture.image_bytes)
        if seen.txts:
            found[number] = f"{seen.to_markdown().strip()}\n"
        still_working()
    return found


@cache
def _engine() -> Any:
    from rapidocr import RapidOCR

    return RapidOCR(params={"EngineConfig.onnxruntime.intra_op_num_threads": 2})
