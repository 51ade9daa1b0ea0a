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
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        if b"\0" in data:
            raise SourceError("looks binary (it holds NUL bytes)") from None
        wrong = data[error.start : error.start + 1].hex()
        name = "UTF-16" if encoding == "utf-16" else "UTF-8"
        raise SourceError(f"is not {name} text (byte 0x{wrong} at {error.start}); save it as UTF-8") from None
    if "\0" in text:
        raise SourceError("looks binary (it holds NUL bytes)")
    return text.replace("\r\n", "\n").replace("\r", "\n")
