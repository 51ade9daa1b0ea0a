"""`jupyter(outputs=true)`: reads a notebook: Markdown unchanged, code and its output in fences. Hits name cells."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from surefind.base.errors import SourceError
from surefind.base.spec import Stage
from surefind.base.types import Document
from surefind.engine.files.inside import access_line, owner_only
from surefind.engine.files.readers import FORMATS
from surefind.engine.ingest._access_list import record_groups
from surefind.engine.ingest._decode import read_text, unique_keys
from surefind.engine.ingest._tables import joined
from surefind.engine.ingest.markdown import first_heading

_ADVICE = 'remove it, and write "acl": ["group"] in the metadata of the notebook'
_MAX_OUTPUT = 2000
"""Characters that are kept of one output. The rest is data, which nobody searches for."""


@dataclass(frozen=True)
class Jupyter(Stage):
    kind: ClassVar[str] = "read"
    name: ClassVar[str] = "jupyter"
    suffixes: ClassVar[tuple[str, ...]] = FORMATS["jupyter"].suffixes

    outputs: bool = True

    def read(self, path: Path, document_id: str) -> Iterable[Document]:
        try:
            notebook = json.loads(read_text(path), object_pairs_hook=unique_keys)
            language = _language(notebook.get("metadata"))
            cells = notebook["cells"]
            groups = _groups(notebook, document_id)
            text, places = joined((f"cell {i}", self._cell(cell, language)) for i, cell in enumerate(cells, 1))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SourceError(f"is not a Jupyter notebook ({type(error).__name__}: {error})") from None
        yield Document(document_id, text, first_heading(text) or path.stem, "markdown", acl=groups, places=places)

    def _cell(self, cell: dict[str, Any], language: str) -> str:
        source = _text(cell.get("source", "")).strip("\n")
        if cell["cell_type"] == "markdown":
            return f"{source}\n"
        if cell["cell_type"] != "code" or not source:
            return ""
        results = "".join(_fence("", result) for result in _results(cell)) if self.outputs else ""
        return _fence(language, source) + results


def _language(metadata: Any) -> str:
    kernel = metadata.get("kernelspec") if isinstance(metadata, dict) else None
    return str(kernel.get("language", "python")) if isinstance(kernel, dict) else "python"


def _groups(notebook: dict[str, Any], document: str) -> tuple[str, ...]:
    """The groups in the metadata of a notebook. If only a cell has an access list, it is left to the owner."""
    groups = record_groups({key: value for key, value in notebook.items() if key != "cells"}, document, "metadata")
    for number, cell in enumerate(notebook["cells"], 1) if not groups else ():
        where = f"cell {number}"
        if groups := record_groups({"cell": cell.get("metadata", {})}, document, where):
            return groups
        if number == 1 and (line := access_line(_text(cell.get("source", "")))):
            return owner_only(document, f"line {line[0]} of the cell is {line[1]!r}", where, _ADVICE)
    return groups


def _results(cell: dict[str, Any]) -> Iterator[str]:
    for output in cell.get("outputs", ()):
        text = _text(output.get("text") or output.get("data", {}).get("text/plain", "")).strip("\n")
        if text.strip():
            yield text[:_MAX_OUTPUT]


def _fence(language: str, code: str) -> str:
    mark = "```" if "```" not in code else "~~~~"
    return f"{mark}{language}\n{code}\n{mark}\n"


def _text(value: Any) -> str:
    """Joins text, which notebooks store as a string or as a list of lines."""
    whole = "".join(value) if isinstance(value, list) else str(value)
    return whole.replace("\r\n", "\n").replace("\r", "\n")
