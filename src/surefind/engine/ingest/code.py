"""`code`: reads source code. Each function, class or type becomes a section; hits name lines.

One regular expression finds the declarations of many languages, instead of one parser per language: it takes
microseconds, never fails, and a declaration that it misses only makes a section longer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

from surefind.base.spec import Stage
from surefind.base.types import Document, Place
from surefind.engine.files.inside import code_head, owner_if_alike
from surefind.engine.files.readers import CODE_LANGUAGES, FORMATS
from surefind.engine.ingest._decode import read_text
from surefind.engine.ingest._tables import numbered

_MODIFIERS = (
    r"(?:(?:export|default|public|private|protected|internal|static|final|abstract|async|sealed|override|virtual|"
    r"inline|open|data|case|unsafe|extern|const|partial|declare|suspend|pub(?:\([^)]*\))?)\s+)*"
)
_KEYWORDS = (
    r"(?:def|class|function\*?|func|fn|interface|struct|enum|trait|impl|module|object|namespace|package|protocol|"
    r"extension|record|message|service|resource|sub|defmodule|defp?|type|macro_rules!|mod)"
)
_DECLARED = re.compile(
    rf"""^(?P<indent>[ \t]*)(?:
        {_MODIFIERS}{_KEYWORDS}\s+(?:\([^)]*\)\s*)?(?:<[^>\n]*>\s*)?["']?(?P<named>[A-Za-z_$][\w.$:]*[?!]?)
      | {_MODIFIERS}(?:const|let|var)\s+(?P<bound>[A-Za-z_$][\w$]*)\s*=\s*(?:async\s*)?
        (?:function|\([^)\n]*\)\s*=>|\w+\s*=>)
      | (?P<shell>[A-Za-z_][\w-]*)\s*\(\)\s*\{{
      | (?i:create)\s+(?:(?i:or\s+replace|temporary|unique|materialized)\s+)*
        (?i:table|view|function|procedure|index|trigger|type)\s+(?:(?i:if\s+not\s+exists)\s+)?(?P<created>[\w."`\[\]]+)
      | (?:(?:public|private|protected|internal|static|final|virtual|override|async|abstract|synchronized)\s+)++
        [\w<>\[\],.?\s]*?\b(?P<method>[A-Za-z_]\w*)\s*\((?:[^;=\n]*+$|[^;={{\n]*+\{{|[^;=\n]*?(?:throws|where)\b)
    )
    | ^(?!(?:if|for|while|switch|return|else|do|case|typedef|using)\b)[A-Za-z_][\w\s*&:<>,~]*?[\s*&]
        (?P<function>~?[A-Za-z_][\w:~]*)\s*\((?:[^;{{}})\n]*+\)[^;\n]*+|[^;{{}}\n]*+\{{?\s*)$""",
    re.VERBOSE | re.MULTILINE,
)
_LEADS = re.compile(r"\s*(?:#|//|/\*|\*|--|@|\[|\"\"\"|'''|template\b)")
_DEEP = 8
"""Columns of indentation from which a declaration counts as a detail of another one."""
_MAX_LINE_CHARS = 2000
"""Lines with more characters than this are not searched for declarations."""


@dataclass(frozen=True)
class Code(Stage):
    kind: ClassVar[str] = "read"
    name: ClassVar[str] = "code"
    suffixes: ClassVar[tuple[str, ...]] = FORMATS["code"].suffixes
    checks_access: ClassVar[bool] = True

    def read(self, path: Path, document_id: str) -> Iterable[Document]:
        source = read_text(path)
        groups = owner_if_alike(document_id, code_head(source))
        language = CODE_LANGUAGES[path.suffix.lower()]
        text, places = _joined(_sections(source, language))
        yield Document(document_id, text, path.name, "markdown", acl=groups, places=places)


def _joined(sections: Iterable[tuple[str, int, str, str]]) -> tuple[str, tuple[Place, ...]]:
    """Joins sections to a Markdown text, with the places of their heads and of their bodies."""
    pieces: list[str] = []
    places: list[Place] = []
    at = 0
    for name, line, head, body in sections:
        places += [Place(at, name, line), Place(at + len(head), name, line)]
        pieces.append(head + body)
        at += len(pieces[-1]) + 1
    return "\n".join(pieces), tuple(places)


def _sections(source: str, language: str) -> Iterator[tuple[str, int, str, str]]:
    """Yields (place, first line, heading, code) of each declaration with the comments and decorators above it."""
    lines = source.split("\n")
    heads = {_start(lines, number): (level, name) for number, level, name in _declarations(lines)}
    cuts = sorted({0, *heads, len(lines)})
    for first, end in pairwise(cuts):
        section = "\n".join(lines[first:end])
        body = section.strip("\n")
        if not body.strip():
            continue
        blank = len(section) - len(section.lstrip("\n"))
        level, name = heads.get(first, (0, ""))
        heading = f"{'#' * level} {name}\n\n" if name else ""
        mark = "```" if "```" not in body else "~~~~"
        place = numbered("line", first + 1, end)
        yield place, first + blank + 1, f"{heading}{mark}{language}\n", f"{body}\n{mark}\n"


def _declarations(lines: list[str]) -> Iterator[tuple[int, int, str]]:
    """Yields (line, heading level, name) of each declaration."""
    for number, line in enumerate(lines):
        if not line.strip() or len(line) > _MAX_LINE_CHARS:
            continue
        match = _DECLARED.match(line)
        if match and match.lastgroup:
            indent = len((match.group("indent") or "").expandtabs(4))
            names = [match.group(g) for g in ("named", "bound", "shell", "created", "method", "function")]
            name = next(name for name in names if name).rstrip(":")
            if indent < _DEEP:
                yield number, 2 if indent == 0 else 3, name


def _start(lines: list[str], number: int) -> int:
    """The line at which a declaration begins, with the comments and decorators above it."""
    while number and _LEADS.match(lines[number - 1]):
        number -= 1
    return number
