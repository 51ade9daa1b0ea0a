"""Decodes the bytes of a text file, or raises an error that says why it cannot."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from pathlib import Path

from surefind.base.errors import SourceError
from surefind.engine.files.inside import scope
from surefind.engine.files.opening import read_file

_SAVE = "save it as UTF-8"
SAVE_OR_SET_ENCODING = "save it as UTF-8, or write readers = ['{}(encoding=cp1252)'] in surefind.toml"
"""Advice for readers with an `encoding`; `{}` is the reader's name."""
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_text(path: Path, otherwise: Callable[[bytes], str] = lambda data: "", advice: str = _SAVE) -> str:
    """Reads a text file, converts line ends to `\\n` and removes the byte order mark.

    The text is UTF-16 if the file has its byte order mark, else UTF-8 if the bytes are valid UTF-8, which other text
    hardly ever is by chance. For all other files, `otherwise` names the encoding. `advice` ends the error message of a
    file that cannot be decoded.
    """
    try:
        data = read_file(path, scope().limits.file_mb)
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
            raise SourceError("looks binary (it contains NUL bytes)") from None
        wrong = data[error.start : error.start + 1].hex()
        name = {"utf-16": "UTF-16", "utf-8-sig": "UTF-8"}.get(chosen, chosen)
        raise SourceError(f"is not {name} text (byte 0x{wrong} at {error.start}); {advice}") from None
    if "\0" in text:
        raise SourceError("looks binary (it contains NUL bytes)")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _fits(data: bytes, encoding: str) -> bool:
    try:
        return "\0" not in data.decode(encoding)  # UTF-16 without a mark is valid UTF-8 with NULs
    except UnicodeDecodeError:
        return False
