"""Picks the reader for a file.

The formats of files: which built-in reader reads which names, and which modules of an extra it needs.

A table, not attributes of the readers alone: to pick a reader, or to see whether a file that failed may be read now, a
sync asks for all formats. Importing all readers for that takes 70 ms, and it needs one or two of them.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from surefind.base import spec
from surefind.base.abilities import declared
from surefind.base.errors import MissingPartError
from surefind.base.protocols import Reader

CODE_LANGUAGES = {
    ".py": "python", ".js": "javascript", ".mjs": "javascript", ".jsx": "jsx", ".ts": "typescript", ".tsx": "tsx",
    ".java": "java", ".kt": "kotlin", ".scala": "scala", ".groovy": "groovy", ".go": "go", ".rs": "rust", ".c": "c",
    ".h": "c", ".cc": "cpp", ".cpp": "cpp", ".hpp": "cpp", ".cs": "csharp", ".swift": "swift", ".rb": "ruby",
    ".php": "php", ".pl": "perl", ".lua": "lua", ".r": "r", ".jl": "julia", ".sh": "bash", ".bash": "bash",
    ".ps1": "powershell", ".sql": "sql", ".proto": "protobuf", ".tf": "hcl", ".ex": "elixir", ".hs": "haskell",
}  # fmt: skip
"""The languages of source code, by the suffix of a file."""


@dataclass(frozen=True)
class FileFormat:
    suffixes: tuple[str, ...]
    """The endings of file names, such as `.md`, or whole names; in lower case."""
    needs: tuple[str, ...] = ()
    """The modules that the reader imports and that an extra installs."""
    extra: str = ""
    """The name of the extra: `pip install 'surefind[EXTRA]'`."""


FORMATS = {
    "beir": FileFormat(("corpus.jsonl",)),
    "code": FileFormat(tuple(sorted(CODE_LANGUAGES))),
    "csv": FileFormat((".csv", ".tsv")),
    "docx": FileFormat((".docx",), ("mammoth",), "office"),
    "eml": FileFormat((".eml",)),
    "html": FileFormat((".html", ".htm", ".xhtml")),
    "json": FileFormat((".json", ".jsonl", ".ndjson")),
    "jupyter": FileFormat((".ipynb",)),
    "markdown": FileFormat((".md", ".markdown", ".mdown", ".mkd", ".mdx", ".md.erb")),
    "pdf": FileFormat((".pdf",), ("liteparse",), "pdf"),
    "pptx": FileFormat((".pptx",), ("pptx",), "office"),
    "rst": FileFormat((".rst", ".rest"), ("docutils",), "rst"),
    "text": FileFormat((".txt", ".text", ".log")),
    "xlsx": FileFormat((".xlsx", ".xlsm"), ("openpyxl",), "office"),
    "zip": FileFormat((".zip",)),
}
"""The format of each built-in reader, by its name."""


@dataclass(frozen=True)
class Readers:
    """All readers, built in or from plugins. Each of `specs`, such as `json(text=[question, answer])`, replaces the
    reader of the same name."""

    specs: tuple[str, ...] = ()

    @cached_property
    def by_name(self) -> Mapping[str, Reader]:
        """The readers. One that is not among `specs` is made when it is first asked for."""
        return _ReadersByName({spec.parse_spec(text)[0]: spec.make("read", text) for text in self.specs})

    @cached_property
    def _by_suffix(self) -> dict[str, str]:
        return {suffix: name for name in spec.names("read") for suffix in _format(name).suffixes}

    @cached_property
    def _by_ending(self) -> dict[str, str]:
        """The readers of suffixes with which no other known name or suffix ends: for them, the last dot decides."""
        known = self._by_suffix
        longer = {name[at:] for name in known for at in range(1, len(name)) if name[at] == "."}
        return {end: known[end] for end in known if end not in longer}

    @cached_property
    def needs(self) -> list[str]:
        """The modules that any reader imports and that an extra installs."""
        return sorted({module for name in spec.names("read") for module in _format(name).needs})

    def find(self, name: str) -> Reader | None:
        """Returns the reader for the file's whole name, or else for the longest known suffix of the name, or None."""
        if (sure := self._by_ending.get(name[name.rfind(".") :])) is not None:
            return self.by_name[sure]
        base = name.lower().rpartition("/")[2]
        reader, dot = self._by_suffix.get(base), base.find(".")
        while reader is None and dot >= 0:
            reader, dot = self._by_suffix.get(base[dot:]), base.find(".", dot + 1)
        return None if reader is None else self.by_name[reader]

    def suffixes(self) -> list[str]:
        return sorted(self._by_suffix)


class _ReadersByName(dict[str, Reader]):
    def __missing__(self, name: str) -> Reader:
        reader = self[name] = cast(Reader, spec.make("read", name))
        return reader


def _format(name: str) -> FileFormat:
    """The format of a reader; a plugin declares it in its class."""
    if name in FORMATS:
        return FORMATS[name]
    reader = cast(Reader, spec.make("read", name))
    return FileFormat(reader.suffixes, declared(reader).needs, declared(reader).extra)


def need(modules: Sequence[str], extra: str) -> None:
    """Raises `MissingPartError` if a module that an extra installs is missing. Readers call it before the import."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingPartError(f"needs {', '.join(missing)}; run: pip install 'surefind[{extra}]'")
