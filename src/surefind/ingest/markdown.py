"""`markdown`: Markdown with YAML front matter. The document's text is what follows the front matter."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from surefind.ingest._decode import read_text
from surefind.ingest._front_matter import access_groups, split_front_matter
from surefind.spec import Stage
from surefind.types import Document

_FIRST_HEADING = re.compile(r"^#[ \t]+(.+?)[ \t]*#*$", re.MULTILINE)


@dataclass(frozen=True)
class Markdown(Stage):
    kind: ClassVar[str] = "read"
    name: ClassVar[str] = "markdown"
    suffixes: ClassVar[tuple[str, ...]] = (".md", ".markdown", ".mdown", ".mkd", ".mdx", ".md.erb")

    def read(self, path: Path, id: str) -> Iterable[Document]:
        metadata, body = split_front_matter(read_text(path))
        title = metadata.get("title") or first_heading(body) or path.name.split(".")[0]
        yield Document(id, body, str(title), "markdown", metadata, access_groups(metadata))


def first_heading(text: str) -> str:
    heading = _FIRST_HEADING.search(text)
    return heading.group(1) if heading else ""
