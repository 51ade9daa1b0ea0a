"""Ranks the questions of an exam on a node of a Ray cluster: the task that `bench.spread` sends there.

A node gets a copy of the knowledge base, once, and keeps it in a temporary folder until the benchmark has ended
(`forget_here`). What a ranking costs ends in the copy's cache of runs; the task returns these files, and their names
are hashes of everything that they depend on.
"""

from __future__ import annotations

import io
import shutil
import tarfile
import tempfile
from pathlib import Path

from surefind.base.access import Access
from surefind.engine.search.pipeline import Pipeline
from surefind.engine.write.layout import Layout
from surefind.kb import KnowledgeBase
from surefind.lab.bench.engine import Bench
from surefind.lab.bench.plan import Contender, Plan
from surefind.lab.exam.model import Exam
from surefind.lab.measure.names import Measure

_KNOWN: dict[str, KnowledgeBase] = {}


def rank_here(
    packed: bytes,
    stamp: str,
    contenders: list[tuple[str, str, str]],
    exam: Exam,
    measures: tuple[Measure, ...],
    access: Access,
) -> dict[str, bytes]:
    """Ranks with contenders, given as (name, pipeline, layout). Returns the new files of the cache, by name."""
    bench = Bench(_opened(stamp, packed))
    runs = bench.cache.folder
    before = _files(runs).keys()
    made = tuple(
        Contender(name, Pipeline.parse(pipeline, name), Layout.read(layout) if layout else None)
        for name, pipeline, layout in contenders
    )
    bench.rank(Plan(made, exam, measures, access))
    return {name: path.read_bytes() for name, path in _files(runs).items() if name not in before}


def _files(folder: Path) -> dict[str, Path]:
    return {path.name: path for path in folder.glob("*") if not path.name.startswith(".")} if folder.exists() else {}


def _opened(stamp: str, packed: bytes) -> KnowledgeBase:
    """Unpacks a knowledge base, once for all tasks of this process. `stamp` is a hash of it."""
    if stamp not in _KNOWN:
        folder = _folder(stamp)
        if not folder.exists():
            _unpack(packed, folder)
        _KNOWN[stamp] = KnowledgeBase.open(folder)
    return _KNOWN[stamp]


def forget_here(stamp: str) -> None:
    """Deletes this node's copy of a knowledge base."""
    shutil.rmtree(_folder(stamp), ignore_errors=True)


def _folder(stamp: str) -> Path:
    """The folder that the processes of a node share. Nobody who does not know the documents can guess its name."""
    return Path(tempfile.gettempdir()) / f"surefind-bench-{stamp}"


def _unpack(packed: bytes, folder: Path) -> None:
    """Unpacks beside the folder and renames: another process of the node may do the same."""
    aside = Path(tempfile.mkdtemp(prefix="surefind-bench-"))
    try:
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(aside, filter="data")
        aside.rename(folder)
    except OSError:
        shutil.rmtree(aside, ignore_errors=True)
        if not folder.exists():
            raise
