"""Checksums that are stored beside what they are of, and compared when it is read.

    versions.digest      what decides who may read a document and what is shown of it; the hash of its content is part
    texts.checksum       a block of its text
    chunks.checksum      where a chunk is, its headings and its context
    chunked.digest       where all chunks of a version are, so that a lost one is noticed
    generations.digest   which versions a set of documents has
    revisions.digest     a revision of a draft

`surefind doctor` compares all of them, each text with the hash of its content, and lets SQLite check its pages. Other
files have checksums of their own (`base.disk`).
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable

_SEPARATOR = "\x1f"
_FORMATS = [_SEPARATOR.join(["%s"] * count) for count in range(40)]
_encode = json.JSONEncoder(ensure_ascii=False, default=lambda blob: [len(blob), zlib.crc32(blob)]).encode


def checksum(*values: object) -> int:
    """Returns the checksum of some values. A separator keeps neighbouring values apart; values that contain it are
    written as JSON, which takes three times as long."""
    text = "" if bytes in map(type, values) else _FORMATS[len(values)] % values
    if not text or text.count(_SEPARATOR) >= len(values):
        text = _encode(values)
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


def text_checksum(place: int, text: str | bytes) -> int:
    """Returns the checksum of a row of `texts`: of its key and a block of text. Reading text takes most of a search's
    checks, and `checksum` would take three times as long."""
    data = text if isinstance(text, bytes) else str(text).encode()
    return zlib.crc32(data, zlib.crc32(place.to_bytes(8, "little", signed=True)))


def set_digest(versions: Iterable[int]) -> int:
    """Returns the digest of a set of documents, given the numbers of its versions in any order; -1 if they are not
    numbers, as in a damaged catalogue."""
    try:
        listed = sorted(versions)
        return zlib.crc32(struct.pack(f"<{len(listed)}q", *listed))
    except (TypeError, struct.error):
        return -1


def chunk_digest(layout: int, version: int, numbers: bytes) -> int:
    """Returns the digest of the chunks of a version. `numbers` has (seq, id, start, end, start and end of the passage
    that a search returns) of each chunk, as 64-bit integers."""
    return zlib.crc32(numbers, zlib.crc32(struct.pack("<2q", layout, version)))
