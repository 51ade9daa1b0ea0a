"""`markdown`: reads Markdown with YAML front matter. The document's text begins after the front matter, and has none of
the marks that only a static-site generator understands."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import ClassVar

from surefind.base.spec import Stage
from surefind.base.text.blocks import title_of
from surefind.base.types import Document
from surefind.engine.files.readers import FORMATS
from surefind.engine.ingest._access_list import with_front_matter
from surefind.engine.ingest._decode import read_text
from surefind.engine.ingest._static_sites import plain_markdown
from surefind.engine.ingest._tables import source_lines

_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`\n]*$)|~{3,})")
_CLOSING = re.compile(r"(?<=\s)#+$")


@dataclass(frozen=True)
class Markdown(Stage):
    kind: ClassVar[str] = "read"
    name: ClassVar[str] = "markdown"
    suffixes: ClassVar[tuple[str, ...]] = FORMATS["markdown"].suffixes
    checks_access: ClassVar[bool] = True

    def read(self, path: Path, document_id: str) -> Iterable[Document]:
        source = read_text(path)
        metadata, body, groups = with_front_matter(source, document_id)
        text = plain_markdown(body, metadata)
        title = unescape(str(metadata.get("title") or first_heading(text) or path.name.split(".")[0]))
        yield Document(document_id, text, title, "markdown", metadata, groups, source_lines(source, body, text))


def first_heading(text: str) -> str:
    """Returns the text of the first heading of level 1, written as `# Title` or underlined with `=`. Comments in fenced
    code do not count."""
    fence = above = ""
    for line in io.StringIO(text):
        mark = _FENCE.match(line)
        if fence:
            fence = "" if mark and mark[1].startswith(fence) and not line[mark.end() :].strip() else fence
        elif mark:
            fence = mark[1]
        elif line.startswith(("# ", "#\t")):
            if title := title_of(_CLOSING.sub("", line[1:].strip())):
                return title
        elif above and set(line.rstrip()) == {"="}:
            return title_of(above)
        above = "" if fence or line.startswith(("#", ">", "|", "    ")) else line.strip()
    return ""
