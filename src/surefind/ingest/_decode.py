"""Bytes -> text, or a sentence that says why not."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from pathlib import Path

from surefind.errors import SourceError

_SAVE = "save it as UTF-8"
SAVE_OR_SAY = "save it as UTF-8, or write readers = ['{}(encoding=cp1252)'] in surefind.toml"
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_text(path: Path, otherwise: Callable[[bytes], str] = lambda data: "", way_out: str = _SAVE) -> str:
    """The file's text, line ends as `\\n`, byte order mark removed. UTF-8, UTF-16 by its mark, or `otherwise` the
    encoding that is known or found for what is neither: other text is hardly ever valid UTF-8 by chance."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SourceError(f"cannot be read: {error.strerror or error}") from error
    chosen = "utf-16" if data.startswith(_UTF16) else "utf-8-sig"
    if not _fits(data, chosen):
        chosen = otherwise(data) or chosen
    try:
        text = data.decode(chosen)
    except LookupError:
        raise SourceError(f"cannot be read: there is no encoding called {chosen!r}") from None
    except UnicodeDecodeError as error:
        if b"\0" in data:
            raise SourceError("looks binary (it holds NUL bytes)") from None
        wrong = data[error.start : error.start + 1].hex()
        name = {"utf-16": "UTF-16", "utf-8-sig": "UTF-8"}.get(chosen, chosen)
        raise SourceError(f"is not {name} text (byte 0x{wrong} at {error.start}); {way_out}") from None
    if "\0" in text:
        raise SourceError("looks binary (it holds NUL bytes)")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _fits(data: bytes, encoding: str) -> bool:
    try:
        return "\0" not in data.decode(encoding)  # UTF-16 without its mark is UTF-8 with a NUL for every other byte
    except UnicodeDecodeError:
        return False
