"""Measures how much of a scanned page OCR reads: sample documents are printed, rendered, slightly rotated, made noisy
and recognised.

    python benchmarks/ocr.py [PAGES]

The score of a page is the share of its words (letters and digits) that are recognised, in order.
"""

from __future__ import annotations

import io
import re
import sys
import tempfile
from difflib import SequenceMatcher
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from fpdf import FPDF
from PIL import Image

from surefind.ingest._ocr import recognise
from surefind.ingest.markdown import Markdown

SAMPLE = Path(__file__).parent.parent / "examples" / "quillhaven"
WORDS = 380
"""The most words on a page, so that they fit."""


def printed(text: str) -> bytes:
    made = FPDF()
    made.add_page()
    made.set_font("times", size=12)
    made.multi_cell(0, 6, text)
    return bytes(made.output())


def scanned(page: bytes, turn: float, seed: int) -> bytes:
    """Renders the page as a scanner would: 150 dpi, slightly askew, with noise, and rotated by `turn` degrees."""
    from liteparse import LiteParse

    with tempfile.NamedTemporaryFile(suffix=".pdf") as file:
        file.write(page)
        file.flush()
        (shot,) = LiteParse(ocr_enabled=False, quiet=True, dpi=150).screenshot(file.name, page_numbers=[1])
    picture = Image.open(io.BytesIO(shot.image_bytes)).convert("L")
    rng = np.random.default_rng(seed)
    askew = picture.rotate(rng.uniform(-0.7, 0.7), fillcolor=255).rotate(turn, expand=True)
    soiled = np.clip(np.asarray(askew, float) + rng.normal(0, 12, askew.size[::-1]), 0, 255).astype(np.uint8)
    made = FPDF(unit="pt", format=askew.size)
    made.set_margin(0)
    made.add_page()
    made.image(Image.fromarray(soiled), 0, 0, *askew.size)
    return bytes(made.output())


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


def right(wanted: str, found: str) -> float:
    matcher = SequenceMatcher(None, words(wanted), words(found), autojunk=False)
    return sum(block.size for block in matcher.get_matching_blocks()) / len(words(wanted))


def plain(path: Path) -> str:
    (document,) = Markdown().read(path, path.name)
    lines = [line for line in document.text.splitlines() if line.strip() and not set("|`") & set(line)]
    kept = accumulate((len(words(line)) for line in lines), initial=0)
    fitting = [line for line, before in zip(lines, kept, strict=False) if before + len(words(line)) <= WORDS]
    return "\n".join(fitting).encode("latin-1", "ignore").decode("latin-1")


def as_it_comes(path: Path) -> str:
    from liteparse import LiteParse

    (shot,) = LiteParse(ocr_enabled=False, quiet=True, dpi=150).screenshot(str(path), page_numbers=[1])
    return "\n".join(_plain_engine()(shot.image_bytes).txts or ())


@cache
def _plain_engine() -> Any:
    from rapidocr import RapidOCR

    return RapidOCR()


def ours(path: Path) -> str:
    return recognise(path, [1]).get(1, "")


def main() -> None:
    many = int(sys.argv[1]) if len(sys.argv) > 1 else 6
    paths = sorted(SAMPLE.rglob("*.md"))
    print("page, words, RapidOCR as it comes, Surefind, Surefind with the page upside down")
    for seed, path in enumerate(paths[:: max(1, len(paths) // many)][:many]):
        text = plain(path)
        shares = []
        for read, turn in ((as_it_comes, 0), (ours, 0), (ours, 180)):
            with tempfile.NamedTemporaryFile(suffix=".pdf") as file:
                file.write(scanned(printed(text), turn, seed))
                file.flush()
                shares.append(right(text, read(Path(file.name))))
        print(path.name, len(words(text)), *(f"{share:.3f}" for share in shares), sep=", ", flush=True)


if __name__ == "__main__":
    main()
