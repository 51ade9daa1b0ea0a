"""Where a document may be written: inside the tree of documents, and never where a sync, git or a shell reads its
configuration.

Some disks take different names for the same file: they ignore case, invisible characters, or blanks and dots at the
end, and give short names such as GIT~1. A name is compared in the one form that all of them have in common.
"""

from __future__ import annotations

import re
import unicodedata
from pathlib import PurePosixPath

from surefind.files.scan import is_ignored
from surefind.folders import FILE_NAME

_SHORT = re.compile(r"[^.]{1,8}~\d{1,6}(?:\..{0,3})?")
"""A short name that Windows makes of a long one."""


def is_document_path(path: str) -> bool:
    """Returns whether a file at this path of a tree is a document: inside the tree, where a sync would read it, and not
    the settings of a knowledge base."""
    plain = PurePosixPath(path)
    parts = [_folded(part) for part in plain.parts]
    if not parts or plain.is_absolute() or "\\" in path:
        return False
    if any(part in ("", FILE_NAME) or _SHORT.fullmatch(part) for part in parts):
        return False
    return not is_ignored("/".join(parts), ())


def _folded(part: str) -> str:
    """Returns a name as the most lenient disk compares it. What follows a colon names a part of a file on Windows."""
    plain = unicodedata.normalize("NFKC", part).casefold()
    shown = "".join(letter for letter in plain if unicodedata.category(letter) not in ("Cf", "Cc"))
    return shown.partition(":")[0].strip().rstrip(". ")
