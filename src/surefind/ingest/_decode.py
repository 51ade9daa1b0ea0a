"""Bytes -> text, or a sentence that says why not."""

from __future__ import annotations

import codecs
from pathlib import Path

from surefind.errors import SourceError

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_text(path: Path) -> str:
    """The file's text, line ends as `\\n`, byte order mark removed."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SourceError(f"cannot be read: {error.strerror or error}") from error
    encoding = "utf-16" if data.startswith(_UTF16) else "utf-8-sig"
    if encoding != "utf-16" and b"\0" in data[:65536]:
        raise SourceError("looks binary (it holds NUL bytes)")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        wrong = data[error.start : error.start + 1].hex()
        raise SourceError(
            f"is not {encoding[:5].upper()} text (byte 0x{wrong} at {error.start}); save it as UTF-8"
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")
