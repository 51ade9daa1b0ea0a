"""`rst`: reads reStructuredText with docutils, as Markdown. Sphinx's own directives and roles keep their text.

Files that a document includes are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from surefind.base.spec import Stage
from surefind.base.types import Document
from surefind.engine.files.readers import FORMATS, need
from surefind.engine.ingest._access_list import with_access_only
from surefind.engine.ingest._decode import read_text
from surefind.engine.ingest._html import parse, to_markdown
from surefind.engine.ingest.markdown import first_heading

_DIRECTIVE = re.compile(r"^[ \t]*\.\. ([\w.:+-]+?)::", re.MULTILINE)
_ROLE = re.compile(r":([\w.+-]{1,80}(?::[\w.+-]{1,80}){0,4}):`")
_WITHOUT_TEXT = {
    "toctree",
    "index",
    "currentmodule",
    "module",
    "highlight",
    "literalinclude",
    "include",
    "raw",
    "tabularcolumns",
}
"""Directives that are left out with their content."""
_LABELS = {
    "versionadded": "New in version",
    "versionchanged": "Changed in version",
    "deprecated": "Deprecated since version",
    "seealso": "See also",
}
"""Words that replace the name of a directive, because the name is part of the text."""
_TARGET = re.compile(r"(.*\S)\s*<[^<>]*>", re.DOTALL)
_SETTINGS = {
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "_disable_config": True,
    "report_level": 5,
    "halt_level": 5,
    "doctitle_xform": False,
    "toc_backlinks": False,
    "initial_header_level": 1,
    "syntax_highlight": "none",
    "line_length_limit": 1_000_000,
    "embed_stylesheet": False,
}


@dataclass(frozen=True)
class Rst(Stage):
    kind: ClassVar[str] = "read"
    name: ClassVar[str] = "rst"
    suffixes: ClassVar[tuple[str, ...]] = FORMATS["rst"].suffixes
    needs: ClassVar[tuple[str, ...]] = FORMATS["rst"].needs
    extra: ClassVar[str] = FORMATS["rst"].extra
    checks_access: ClassVar[bool] = True

    def read(self, path: Path, document_id: str) -> Iterable[Document]:
        need(self.needs, self.extra)
        from docutils.core import publish_parts

        metadata, source, groups = with_access_only(read_text(path), document_id)
        _register_unknown(source)
        html = publish_parts(source, writer="html5", settings_overrides=_SETTINGS)["html_body"]
        text = to_markdown(_plain(parse(html)))
        yield Document(document_id, text, first_heading(text) or path.stem, "markdown", metadata, groups)


def _plain(soup: Any) -> Any:
    """Removes the table of contents, which repeats every heading, and marks literal text as code. Changes the soup."""
    for contents in soup.select("nav.contents"):
        contents.decompose()
    for literal in soup.select("span.literal"):
        literal.name = "code"
    return soup


def _register_unknown(source: str) -> None:
    """Registers the directives and roles of a file that docutils does not know. Otherwise their text would be lost."""
    from docutils.parsers.rst import directives, roles
    from docutils.parsers.rst.languages import en as english
    from docutils.utils import new_document

    en: Any = english
    nobody = new_document("")
    for name in {match.lower() for match in _DIRECTIVE.findall(source)}:
        if directives.directive(name, en, nobody)[0] is None:
            directives.register_directive(name, _directive(silent=name in _WITHOUT_TEXT))
    for name in {match.lower() for match in _ROLE.findall(source)}:
        if roles.role(name, en, 0, nobody.reporter)[0] is None:
            roles.register_local_role(name, _role)


def _directive(silent: bool) -> Any:
    from docutils import nodes
    from docutils.parsers.rst import Directive
    from docutils.statemachine import StringList

    class Anything(Directive):
        """Stands for an unknown directive: its label and argument in bold, then its content."""

        optional_arguments = 1
        final_argument_whitespace = True
        has_content = True
        option_spec = _AnyOption()

        def run(self) -> list[Any]:
            if silent:
                return []
            made = nodes.container()
            first, _, more = (self.arguments or [""])[0].partition("\n")  # docutils adds text right below to it
            if title := f"{_LABELS.get(self.name, '')} {first}".strip():
                made += nodes.paragraph("", "", nodes.strong("", title))
            self.state.nested_parse(StringList(more.split("\n"), source="") + self.content, self.content_offset, made)
            return [made]

    return Anything


class _AnyOption(dict[str, Any]):
    """Accepts every option of a directive, with any value."""

    def __getitem__(self, key: str) -> Any:
        return lambda value: value

    def __contains__(self, key: object) -> bool:
        return True

    def __bool__(self) -> bool:
        return True


def _role(name: str, raw: str, text: str, line: int, inliner: Any, options: Any = None, content: Any = ()) -> Any:
    """Converts an unknown role to its text: :ref:`the guide <guide>` -> the guide."""
    from docutils import nodes

    match = _TARGET.fullmatch(text)
    label = match.group(1) if match else text.lstrip("~!")
    return [nodes.literal("", label) if not match and "ref" not in name else nodes.inline("", label)], []
