"""Compares the files of a knowledge base with their checksums, for `surefind doctor`: a check for each kind of file.

A check returns what it checked, in words. It raises `DamageError` with the names of damaged files and a way out, or
`RepairedError` if the damage costs only time.
"""

from __future__ import annotations

import sqlite3
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from surefind.base.disk.sealed import read_sealed
from surefind.base.errors import DamagedError, StoreError, SurefindError
from surefind.engine.inference.folder import RECORD, check_record
from surefind.engine.llm.chat import CompletionCache
from surefind.engine.store.backends.local import LocalBackend
from surefind.engine.store.catalogue import Catalogue
from surefind.engine.store.database import (
    BLOCK,
    BLOCK_BITS,
    CHUNK,
    VERSION,
    checksum,
    chunk_digest,
    damaged,
    damaged_pages,
    explaining,
    file_version,
    text_checksum,
)
from surefind.engine.store.versions import content_hash, document_of
from surefind.kb import KnowledgeBase

_MAX_LISTED = 5
"""The most damaged things that a message lists."""


class DamageError(StoreError):
    """Something is damaged that cannot be made again without help."""


class RepairedError(StoreError):
    """Something is damaged that Surefind makes again by itself."""


def _catalogue(kb: KnowledgeBase) -> str:
    started = time.perf_counter()
    with explaining(kb.data):
        catalogue = kb.catalogue
        damage = listed(problems(catalogue))
        if damage:
            raise damaged(kb.data, damage)
        size = catalogue.path.stat().st_size / 1e6
        versions = catalogue.db.execute("SELECT count(*) FROM versions").fetchone()[0]
    rate = size / max(time.perf_counter() - started, 1e-3)
    return f"{versions} versions of documents match their checksums ({size:.1f} MB, {rate:.0f} MB/s)"


def problems(catalogue: Catalogue) -> Iterator[str]:
    """Yields what is damaged in the catalogue; nothing if all of it is intact."""
    for check in (_pages, _sets, _documents, _chunks):
        try:
            yield from check(catalogue)
        except DamagedError as error:
            yield error.what
        except sqlite3.DatabaseError as error:
            yield str(error)


def _pages(catalogue: Catalogue) -> Iterator[str]:
    return damaged_pages(catalogue.db)


def _sets(catalogue: Catalogue) -> Iterator[str]:
    for contents in {generation.contents for generation in catalogue.generations()}:
        catalogue.versions.check_set(contents, catalogue.versions.held(contents))
    yield from ()


def _documents(catalogue: Catalogue) -> Iterator[str]:
    """Checks every version and its text. Versions and texts are read side by side, each with one statement: a statement
    for each version takes most of the time."""
    with catalogue.database.at_once() as db:
        texts = _texts(db)
        last, text = next(texts, _NO_TEXT)
        for stored in db.execute(f"SELECT {', '.join(VERSION)}, digest FROM versions ORDER BY row"):
            row = catalogue.versions.checked(stored)
            version, name, content = row[0], row[1], row[9]
            while last < version:
                last, text = next(texts, _NO_TEXT)
            if last != version or text is None:
                yield f"the text of {name!r} is not intact"
            elif content_hash(document_of(row, text)) != content:
                yield f"version {version} of {name!r} does not match the hash of its content"


_NO_TEXT = (1 << 62, None)
"""Comes after the last text."""


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
    with catalogue.database.at_once() as db:
        digests = {(layout, version): digest for layout, version, digest in db.execute("SELECT * FROM chunked")}
        digests_now = {key: chunk_digest(*key, b"") for key in digests}
        rows = db.execute(f"SELECT {', '.join(CHUNK)}, checksum FROM chunks ORDER BY layout, version, seq")
        for key, group in groupby(rows, key=lambda row: (row[0], row[1])):
            chunks = list(group)
            intact = all(checksum(*chunk[:-1]) == chunk[-1] for chunk in chunks)
            digests_now[key] = chunk_digest(*key, _numbers(chunks)) if intact else -1
    yield from (
        f"the chunks of version {key[1]} are damaged" for key in digests_now if digests_now[key] != digests.get(key)
    )


def _numbers(chunks: Sequence[tuple[Any, ...]]) -> bytes:
    numbers = []
    for _, _, seq, chunk_id, start, end, _, _, parent_start, parent_end, *_ in chunks:
        parent = (start, end) if parent_start is None else (parent_start, parent_end)
        numbers += [seq, chunk_id, start, end, *parent]
    return struct.pack(f"<{len(numbers)}q", *numbers)


def _drafts(kb: KnowledgeBase) -> str:
    from surefind.kb.drafts.store import DraftStore

    drafts = DraftStore(kb.data)
    try:
        damage = listed(drafts.problems())
        if damage:
            raise drafts.database.damaged(damage)
        return f"{drafts.count()} drafts wait to be published, all rows and files match their checksums"
    finally:
        drafts.close()


def _indexes(kb: KnowledgeBase) -> str:
    with explaining(kb.data):
        checked, removed = remove_damaged(kb)
        if removed:
            raise DamageError(
                f"damaged in {kb.data / 'indexes'} and removed: {listed(removed)}. Make them again with: surefind sync."
            )
        kb.reader().view.ready(kb.settings.retrievers)
    return f"{checked} tables and indexes match their checksums"


def remove_damaged(kb: KnowledgeBase) -> tuple[int, list[str]]:
    """Removes the indexes that do not match their checksums, so that the next sync makes them again. A reader that has
    one open goes on with it, since its files stay until it is closed. Returns how many indexes there are, and the keys
    of those that were removed."""
    backend = LocalBackend(kb.catalogue)
    keys = sorted({key for key, *_ in backend.rows.indexes()})
    broken = [key for key in keys if backend.indexes.has(key) and not backend.indexes.intact(key)]
    for key in broken:
        backend.indexes.drop(key)
    return len(keys), broken


def _caches(kb: KnowledgeBase) -> str:
    from surefind.engine.store.vectors import VectorCache

    folder = kb.data / "cache"
    names: dict[str, type[VectorCache] | type[CompletionCache]] = {
        "embeddings.db": VectorCache, "scores.db": VectorCache, "answers.db": CompletionCache
    }  # fmt: skip
    damage, total = [f"{path.name} was moved aside" for path in sorted(folder.glob("*.damaged"))], 0
    for name, kind in names.items():
        cache = kind(folder / name)
        try:
            intact, damaged = cache.check()
            total += intact
            damage += [f"{damaged} rows of {name}"] if damaged else []
        except sqlite3.Error as error:
            damage.append(f"{name} ({error})")
        finally:
            cache.close()
    if damage:
        raise RepairedError(f"damaged in {folder}: {listed(damage)}. What is damaged is not used, and made again.")
    return f"{total} cached vectors, scores and answers match their checksums"


def _models(kb: KnowledgeBase) -> str:
    from surefind.engine.confidence import answering, predictor
    from surefind.engine.fuse.learned import MANIFEST, read_manifest
    from surefind.engine.inference.provenance import FusionManifest
    from surefind.engine.llm.trained import FILE, read_prompt

    folder = kb.data / "models"
    work: list[Callable[[], object]] = []
    for path in sorted(folder.glob("[!.]*/*.json")):
        if path.name == MANIFEST:
            work.append(partial(read_manifest, path, FusionManifest))
        elif path.name == RECORD:
            work.append(partial(check_record, path.parent))
        elif path.name == FILE:
            work.append(partial(read_prompt, path, file_version(path)))
        elif path.name == predictor.FILE:
            work.append(partial(predictor.find_calibration, folder, path.parent.name))
        elif path.parent.name == answering.FOLDER:
            work.append(partial(answering.read_answering, path, file_version(path)))
    check_all(work)
    return f"{len(work)} trained models, prompts and calibrations match their checksums"


def _records(kb: KnowledgeBase) -> str:
    """The small files that only some commands read."""
    from surefind.kb.adoption import last_change

    check_all([partial(last_change, kb.folder)])
    small = sorted(kb.data.glob("git/*/left_out.json"))
    broken = []
    for path in (path for path in small if path.exists() and path.stat().st_size):  # a killed writer has left it empty
        try:
            read_sealed(path)
        except (OSError, ValueError):
            broken.append(str(path.relative_to(kb.data)))
    if broken:
        raise RepairedError(f"damaged in {kb.data}: {listed(broken)}. The next sync writes them again.")
    return "adopted configurations match their checksums"


def check_all(work: Iterable[Callable[[], object]]) -> None:
    """Runs all checks. Raises `DamageError` with the messages of those that failed."""
    errors = []
    for check in work:
        try:
            check()
        except SurefindError as error:
            errors.append(str(error))
    if errors:
        raise DamageError(" ".join(errors[:_MAX_LISTED]))


def listed(items: Iterable[str]) -> str:
    """Names the first damaged things, and how many more there are."""
    names = list(items)
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return "; ".join(names[:_MAX_LISTED]) + more


CHECKS: dict[str, Callable[[KnowledgeBase], str]] = {
    "catalogue": _catalogue,
    "drafts": _drafts,
    "indexes": _indexes,
    "caches": _caches,
    "trained models": _models,
    "records": _records,
}
"""The checks, by the kind of file that they check."""
