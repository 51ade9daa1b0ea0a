"""Checks the files of a knowledge base for damage. Each function checks one kind; `bench.integrity` lists them all.

A check returns what it checked, in words. It raises `DamageError` with the names of damaged files and a way out, or
`RepairedError` if the damage costs only time.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable
from functools import partial

from surefind.base.disk.sealed import read_sealed
from surefind.base.errors import StoreError, SurefindError
from surefind.engine.inference.folder import RECORD, check_record
from surefind.engine.llm.chat import CompletionCache
from surefind.engine.store import session
from surefind.engine.store.backends.local import LocalBackend
from surefind.engine.store.connection import damaged, explaining, file_version
from surefind.kb import KnowledgeBase

_MAX_LISTED = 5
"""The most damaged things that a message lists."""


class DamageError(StoreError):
    """Something is damaged that cannot be made again without help."""


class RepairedError(StoreError):
    """Something is damaged that Surefind makes again by itself."""


def _catalogue(kb: KnowledgeBase) -> str:
    from surefind.engine.store.integrity import problems

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


def _drafts(kb: KnowledgeBase) -> str:
    from surefind.kb.drafts.store import Desk

    desk = Desk(kb.data)
    try:
        damage = listed(desk.problems())
        if damage:
            raise desk.database.damaged(damage)
        return f"{desk.count()} drafts wait to be published, all rows and files match their checksums"
    finally:
        desk.close()


def _indexes(kb: KnowledgeBase) -> str:

    with explaining(kb.data):
        backend = LocalBackend(kb.catalogue)
        keys = sorted({key for key, *_ in backend.rows.indexes()})
        broken = listed(key for key in keys if backend.indexes.has(key) and not backend.indexes.sound(key))
        if broken:
            raise DamageError(f"damaged in {backend.indexes.folder}: {broken}. Rebuild them with: surefind sync.")
        kb.reader().view.ready(kb.settings.retrievers)
    return f"{len(keys)} tables and indexes match their checksums"


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
    from surefind.kb.adoption import kept_changes

    check_all([partial(kept_changes, kb.folder)])
    small = [kb.data / session.NAME, kb.desk.database.mark, *sorted(kb.data.glob("git/*/left_out.json"))]
    broken = []
    for path in (path for path in small if path.exists() and path.stat().st_size):  # a killed writer has left it empty
        try:
            read_sealed(path)
        except (OSError, ValueError):
            broken.append(str(path.relative_to(kb.data)))
    if broken:
        raise RepairedError(f"damaged in {kb.data}: {listed(broken)}. The next sync or save writes them again.")
    return "adopted configurations and marks of sessions match their checksums"


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
