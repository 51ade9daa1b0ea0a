"""docs/first-pages.md: the walk through the pages works, its pictures are taken from it, and its labels are on them."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

from cases import each
from web_helpers import needs_browser

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "first-pages.md").read_text(encoding="utf-8")
PICTURES = re.findall(r"\]\(img/([\w-]+)\.png\)", PAGE)
LARGEST = 120_000
"""Bytes of a picture."""


def pictures() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "scripts" / "pictures.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@each("name", PICTURES)
def test_a_picture_is_there_and_small(name: str) -> None:
    data = (ROOT / "docs" / "img" / f"{name}.png").read_bytes()
    assert data.startswith(b"\x89PNG") and len(data) <= LARGEST


@needs_browser
def test_the_walk_takes_every_picture_and_meets_every_label(tmp_path: Path) -> None:
    walk = pictures().main(tmp_path)
    assert sorted(path.stem for path in tmp_path.iterdir()) == sorted(PICTURES)
    assert all(path.stat().st_size <= LARGEST for path in tmp_path.iterdir())
    seen = " ".join(" ".join(text.split()) for text in walk.seen)
    labels = [" ".join(one.split()) for one in re.findall(r"\*\*(.+?)\*\*", re.sub(r"`[^`]*`", "", PAGE), re.DOTALL)]
    assert len(labels) > 25
    assert [label for label in labels if label.lower() not in seen.lower()] == []
