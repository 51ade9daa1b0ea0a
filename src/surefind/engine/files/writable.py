"""Where a document may be written: inside the tree of documents, and never where a sync, git, a shell or another tool
reads its configuration or an assistant its instructions.

Some disks take different names for the same file: they ignore case, invisible characters, or blanks and dots at the
end, and give short names such as GIT~1. A name is compared in the one form that all of them have in common.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from pathlib import PurePosixPath

from surefind.base.disk.folders import FILE_NAME
from surefind.base.errors import SourceError
from surefind.base.names import document_name
from surefind.engine.files.scan import FileRules, is_ignored

_WINDOWS_SHORT_NAME = re.compile(r"[^.]{1,8}~\d{1,6}(?:\..{0,3})?")
"""A short name that Windows makes of a long one."""
_INSTRUCTIONS = frozenset(
    "agent agents claude clinerules codex conventions copilot copilot-instructions crush cursorrules gemini goosehints "
    "grok jules junie llms llms-full qwen skill soul warp windsurfrules".split()
)
"""The stems of files that coding agents and assistants take for instructions, such as CLAUDE.md and claude.local.md."""
_FOR_AGENTS = re.compile(r".+\.(?:agent|chatmode|instructions|prompt|skill)\.[a-z]+")
"""Names with a second ending by which assistants find their instructions: review.prompt.md."""
_LISTS = re.compile(
    r"(?:(?:[\w.-]{0,80}[-_.])?(?:requirements?|constraints|reqs)(?:[-_.][\w.-]{1,80})?|cmakelists|cmakecache|"
    r"meson_options|runtime|packages|apt|robots|humans|ads|app-ads|sellers|security|[0-9a-f]{32})\.(?:txt|text)"
    r"|google[0-9a-f]{8,40}\.html?"
)
"""Files that package managers, builds, hosting and search engines read."""
_LISTS_BELOW = re.compile(r"(?:[\w-]{0,80}[-_])?(?:requirements|constraints|reqs)")
"""Folders whose .txt files package managers read."""


def is_document_path(path: str) -> bool:
    """Returns whether a file at this path of a tree is a document: inside the tree, where a sync would read it, and not
    the settings of a knowledge base."""
    plain = PurePosixPath(path)
    parts = [_folded(part) for part in plain.parts]
    if not parts or plain.is_absolute() or "\\" in path:
        return False
    if any(part in ("", FILE_NAME) or _WINDOWS_SHORT_NAME.fullmatch(part) for part in parts):
        return False
    return not is_ignored("/".join(parts), FileRules())


def check_writable(document: str, name: str, formats: Sequence[str]) -> None:
    """Raises `SourceError` unless the text of a document may be written to a file of its name: a document in one of
    these formats, which is that of the file `name` that was reviewed, and not one that programs read."""
    document_name(document)
    suffix = _suffix(document)
    if not is_document_path(document) or _is_read_by_programs(document):
        why = "programs or assistants read a file of this name"
    elif suffix not in formats:
        why = f"only {' '.join(formats)} are written (formats below [desk] in surefind.toml)"
    elif _suffix(name) != suffix:
        why = f"its text was reviewed as {name}, which is another format"
    else:
        return
    raise SourceError(f"{document!r} is not written to a git repository: {why}. Publish it under another name.")


def _suffix(path: str) -> str:
    return PurePosixPath(path).suffix.lower()


def _is_read_by_programs(path: str) -> bool:
    *folders, name = (_folded(part) for part in PurePosixPath(path).parts)
    if name.split(".")[0] in _INSTRUCTIONS or _FOR_AGENTS.fullmatch(name) or _LISTS.fullmatch(name):
        return True
    return name.endswith((".txt", ".text")) and any(map(_LISTS_BELOW.fullmatch, folders))


def _folded(part: str) -> str:
    """Returns a name as the most lenient disk compares it. What follows a colon names a part of a file on Windows."""
    plain = unicodedata.normalize("NFKC", part).casefold()
    shown = "".join(letter for letter in plain if unicodedata.category(letter) not in ("Cf", "Cc"))
    return shown.partition(":")[0].strip().rstrip(". ")
