"""`pptx(notes=true)`: reads PowerPoint: a heading per slide, bullets, tables, speaker's notes. Hits name slides."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from surefind.base.errors import SourceError
from surefind.base.spec import Stage
from surefind.base.types import Document
from surefind.engine.files.readers import FORMATS, need
from surefind.engine.ingest._tables import joined, table
from surefind.engine.ingest.docx import check_package, package_title

_DEEPEST_GROUP = 20
"""Levels of groups of shapes; files with more are refused."""
_DEFAULT_TITLE = re.compile(r"|PowerPoint\W?\w+|\w+ (?:de )?PowerPoint", re.IGNORECASE)
"""An empty title, or the default title that PowerPoint gives a presentation."""


@dataclass(frozen=True)
class Pptx(Stage):
    kind: ClassVar[str] = "read"
    name: ClassVar[str] = "pptx"
    suffixes: ClassVar[tuple[str, ...]] = FORMATS["pptx"].suffixes
    needs: ClassVar[tuple[str, ...]] = FORMATS["pptx"].needs
    extra: ClassVar[str] = FORMATS["pptx"].extra

    notes: bool = True

    def read(self, path: Path, document_id: str) -> Iterable[Document]:
        need(self.needs, self.extra)
        check_package(path, "ppt/presentation.xml", "a PowerPoint file (.pptx)")
        from pptx import Presentation

        slides = list(Presentation(str(path)).slides)
        text, places = joined((f"slide {i}", self._slide(slide, i)) for i, slide in enumerate(slides, 1))
        name = package_title(path)
        title = name if not _DEFAULT_TITLE.fullmatch(name) else next(filter(None, map(_title, slides)), path.stem)
        yield Document(document_id, text, title, "markdown", places=places)

    def _slide(self, slide: Any, number: int) -> str:
        """Writes a slide as Markdown. A slide without a title gets its number as a heading, so that its text does not
        belong to the slide before."""
        title = slide.shapes.title
        others = [s for s in _flat(slide.shapes) if title is None or s.shape_id != title.shape_id]
        body = [part for shape in others if (part := _shape(shape))]
        if self.notes and slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            noted = slide.notes_slide.notes_text_frame.text.strip()
            body += [f"Notes: {noted}\n"] if noted else []
        named = _title(slide)
        return "\n".join([f"# {named or f'Slide {number}'}\n", *body]) if named or body else ""


def _title(slide: Any) -> str:
    title = slide.shapes.title
    return " ".join(title.text_frame.text.split()) if title is not None else ""


def _flat(shapes: Any, depth: int = 0) -> Iterator[Any]:
    """Yields the shapes in reading order, from top to bottom, with those inside groups."""
    if depth > _DEEPEST_GROUP:
        raise SourceError("nests groups of shapes too deeply")
    for shape in sorted(shapes, key=lambda shape: (shape.top or 0, shape.left or 0)):
        if hasattr(shape, "shapes"):
            yield from _flat(shape.shapes, depth + 1)
        else:
            yield shape


def _shape(shape: Any) -> str:
    if getattr(shape, "has_table", False):
        rows = [[cell.text for cell in row.cells] for row in shape.table.rows]
        return table(rows[0], rows[1:]) if rows else ""
    if not getattr(shape, "has_text_frame", False):
        return ""
    lines = [(p.level, " ".join(p.text.split())) for p in shape.text_frame.paragraphs]
    lines = [(level, text) for level, text in lines if text]
    if len(lines) == 1 and not lines[0][0]:
        return f"{lines[0][1]}\n"
    return "".join(f"{'  ' * level}- {text}\n" for level, text in lines)
