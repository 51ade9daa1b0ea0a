"""What several test files use: a folder with a knowledge base in it."""

from __future__ import annotations

import os
import time
from pathlib import Path

from surefind import KnowledgeBase
from surefind.intake import SyncReport

EXAMPLE = Path(__file__).parent.parent / "examples" / "quillhaven"

WORDS = """
[search]
pipeline = "words"

[pipelines.words]
retrieve = ["bm25"]
"""


class Home:
    """A folder with a surefind.toml, documents below `docs/`, and a knowledge base."""

    def __init__(self, folder: Path, settings: str = WORDS) -> None:
        self.folder = folder
        self.docs = folder / "docs"
        self.docs.mkdir(parents=True, exist_ok=True)
        self.configure(settings)

    def configure(self, settings: str) -> None:
        (self.folder / "surefind.toml").write_text(settings, encoding="utf-8")

    def write(self, name: str, content: str | bytes, age: float = 60) -> Path:
        """A file below the folder, last written `age` seconds ago."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        then = time.time() - age
        os.utime(path, (then, then))
        return path

    def open(self) -> KnowledgeBase:
        return KnowledgeBase.open(self.folder)

    def sync(self, *names: str, **more: object) -> SyncReport:
        with self.open() as kb:
            return kb.sync(*(self.folder / name for name in names), **more)

    def found(self, query: str, **more: object) -> list[str]:
        """The documents of the hits, best first."""
        with self.open() as kb:
            return [hit.document for hit in kb.search(query, **more).hits]

    def answers(self, *queries: str) -> list[list[tuple[str, str, float]]]:
        """(document, chunk, score) of every hit of every query."""
        with self.open() as kb:
            return [[(h.document, h.chunk, h.score) for h in kb.search(q, k=50).hits] for q in queries]
