"""Checks the whole catalogue, for `surefind doctor`: every page, row, text, chunk and set."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

from surefind.base.errors import DamagedError
from surefind.engine.store._database import BLOCK, BLOCK_BITS, CHUNK
from surefind.engine.store.catalogue import Catalogue
from surefind.engine.store.checked import damaged_pages
from surefind.engine.store.checksums import checksum, chunk_digest, text_checksum
from surefind.engine.store.rows import document_of
from surefind.engine.store.versions import content_hash

_NO_TEXT = (1 << 62, None)
"""Comes after the last text."""


def problems(catalogue: Catalogue) -> Iterator[str]:
    """Yields what is damaged in the catalogue; nothing if all of it is intact."""
    for check in (_pages, _rows, _documents, _chunks):
        yield from _found(check, catalogue)


def _found(check: Callable[[Catalogue], Iterator[str]], catalogue: Catalogue) -> Iterator[str]:
    try:
        yield from check(catalogue)
    except DamagedError as error:
        yield error.what
    except sqlite3.DatabaseError as error:
        yield str(error)


def _pages(catalogue: Catalogue) -> Iterator[str]:
    return damaged_pages(catalogue.db)


def _rows(catalogue: Catalogue) -> Iterator[str]:
    catalogue.check()
    for table in ("problems", "indexes"):
        catalogue.database.rows(table)
    yield from ()


def _documents(catalogue: Catalogue) -> Iterator[str]:
    """Checks the text of every version. Versions and texts are read side by side, each with one statement: one for each
    version takes most of the time."""
    with catalogue.database.at_once() as rows:
        texts = _texts(rows.db)
        last, text = next(texts, _NO_TEXT)
        for row in rows.every("versions"):
            version, name, content = row[0], row[1], row[9]
            while last < version:
                last, text = next(texts, _NO_TEXT)
            if last != version or text is None:
                yield f"the text of {name!r} is not intact"
            elif content_hash(document_of(row, text)) != content:
                yield f"version {version} of {name!r} does not match the hash of its content"


def _texts(db: sqlite3.Connection) -> Iterator[tuple[int, str | None]]:
    """Yields every version that has text, in order, with the whole of it; None if a block is damaged or missing."""
    lengths = dict(db.execute("SELECT row, length FROM versions"))
    rows = db.execute("SELECT place, text, checksum FROM texts ORDER BY place")
    for version, blocks in groupby(rows, key=lambda row: row[0] >> BLOCK_BITS):
        intact = [text for place, text, seal in blocks if seal == text_checksum(place, text)]
        whole = len(intact) == max(1, -(-lengths.get(version, 0) // BLOCK))
        yield version, "".join(map(str, intact)) if whole else None


def _chunks(catalogue: Catalogue) -> Iterator[str]:
    """Checks the chunks of every version, each and as a whole."""
    with catalogue.database.at_once() as now:
        digests = {(layout, version): digest for layout, version, digest in now.db.execute("SELECT * FROM chunked")}
        digests_now = {key: chunk_digest(*key, b"") for key in digests}
        rows = now.db.execute(f"SELECT {', '.join(CHUNK)}, checksum FROM chunks ORDER BY layout, version, seq")
        for key, group in groupby(rows, key=lambda row: (row[0], row[1])):
            chunks = list(group)
            intact = all(checksum("chunks", *chunk[:-1]) == chunk[-1] for chunk in chunks)
            digests_now[key] = chunk_digest(*key, _numbers(chunks)) if intact else -1
    yield from (
        f"the chunks of version {key[1]} are damaged" for key in digests_now if digests_now[key] != digests.get(key)
    )


def _numbers(chunks: list[tuple[Any, ...]]) -> bytes:
    numbers = []
    for _, _, seq, chunk_id, start, end, _, _, parent_start, parent_end, _ in chunks:
        parent = (start, end) if parent_start is None else (parent_start, parent_end)
        numbers += [seq, chunk_id, start, end, *parent]
    return struct.pack(f"<{len(numbers)}q", *numbers)
