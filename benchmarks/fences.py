"""Counts the look-alikes of fence marks that reach a prompt, and times the fencing of ordinary text.

    python benchmarks/fences.py

The look-alikes and the reader that recognises them are in `tests/look_alikes.py`; they do not use the code that is
measured.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from _shared import machine
from surefind.prompts.fence import harmless

HOME = Path(__file__).parent.parent
sys.path.insert(0, str(HOME / "tests"))
from look_alikes import LOOK_ALIKES, reads_as_mark  # noqa: E402


def main() -> None:
    left = [name for name, text in LOOK_ALIKES.items() if reads_as_mark(harmless(text))]
    print(f"look-alikes defused: {len(LOOK_ALIKES) - len(left)} of {len(LOOK_ALIKES)}")
    print(f"left: {', '.join(left) or 'none'}")
    pages = [path.read_text(encoding="utf-8") for path in sorted((HOME / "examples").rglob("*.md"))]
    size = sum(map(len, pages))
    changed = sum(harmless(page) != page for page in pages)
    started = time.perf_counter()
    for page in pages:
        harmless(page)
    seconds = time.perf_counter() - started
    print(f"{len(pages)} pages of the examples: {changed} changed, {1e6 * seconds / size:.2f} ms per 1,000 characters")
    print(machine())


if __name__ == "__main__":
    main()
