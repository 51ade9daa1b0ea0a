"""Spreads the rankings of a benchmark over a Ray cluster: `surefind bench --ray ADDRESS`.

Each node ranks with some of the contenders and returns the files of its cache of runs. They are put into the cache of
this machine, and then the benchmark runs here as always and finds them. So the report is that of one process, and what
a lost node did not return is computed here. Times are measured here, and contenders that ask a language model run
here, where the budget is.

Ranks the questions of an exam on a node of a Ray cluster: the task that `bench.spread` sends there.

A node gets a copy of the knowledge base, once, and keeps it in a temporary folder until the benchmark has ended
(`forget_task`). What a ranking costs ends in the copy's cache of runs; the task returns these files, and their names
are hashes of everything that they depend on.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import shutil
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from surefind.base.access import Access
from surefind.base.disk.sealed import write_file
from surefind.engine.search.pipeline import Pipeline
from surefind.engine.store.catalogue import NAME
from surefind.engine.store.database import copy_file
from surefind.engine.write.cluster import check_versions, connect, nodes
from surefind.engine.write.layout import Layout
from surefind.kb import KnowledgeBase
from surefind.kb.settings.config import FILE_NAME
from surefind.lab.bench.engine import Bench
from surefind.lab.bench.plan import Contender, Plan
from surefind.lab.exam.model import Exam
from surefind.lab.measure.ranks import Measure

_KNOWN: dict[str, KnowledgeBase] = {}


def rank_task(
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


def forget_task(stamp: str) -> None:
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


_RETRIES = 3
_DELETE_SECONDS = 30.0
"""Seconds that a node may take to delete its copy of the knowledge base."""


def spread(address: str) -> Callable[[Bench, Plan], None]:
    """Returns a function that ranks the contenders of a plan on a cluster, before they are needed here."""

    def ahead(bench: Bench, plan: Plan) -> None:
        groups = _groups(bench, plan)
        if groups:
            ray = connect(address)
            try:
                check_versions(ray, address)
                _ranked(ray, bench, plan, groups)
            finally:
                ray.shutdown()

    return ahead


def _ranked(ray: Any, bench: Bench, plan: Plan, groups: list[list[Contender]]) -> None:
    packed = _packed(bench.kb)
    stamp, shipped = hashlib.blake2b(packed, digest_size=16).hexdigest(), ray.put(packed)
    try:
        _wait(ray, bench, plan, groups, stamp, shipped)
    finally:
        _forget(ray, stamp)


def _forget(ray: Any, stamp: str) -> None:
    """Deletes the copies on the nodes."""
    task = ray.remote(num_cpus=0)(forget_task)
    asked = [task.options(scheduling_strategy=node).remote(stamp) for node in nodes(ray)]
    with contextlib.suppress(ray.exceptions.RayError):  # a node that is lost has lost its copy, or cannot be reached
        ray.get(asked, timeout=_DELETE_SECONDS)


def _wait(ray: Any, bench: Bench, plan: Plan, groups: list[list[Contender]], stamp: str, shipped: Any) -> None:
    """Sends a task for each group, and takes the results as they come."""
    task = ray.remote(max_retries=_RETRIES, num_cpus=1)(rank_task)
    waiting = [
        task.remote(
            shipped, stamp, [_described(contender) for contender in group], plan.exam, plan.measures, plan.access
        )
        for group in groups
    ]
    total = len(waiting)
    while waiting:
        bench.report("Ranking on the cluster", total - len(waiting), total)
        done, waiting = ray.wait(waiting)
        _keep(ray, bench, done[0])
    bench.report("Ranking on the cluster", total, total)


def _keep(ray: Any, bench: Bench, done: Any) -> None:
    """Puts the files of a task into the cache. What a task could not rank is ranked here, which explains the reason."""
    try:
        files: dict[str, bytes] = ray.get(done)
    except ray.exceptions.RayError:
        return
    folder = bench.cache.folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        write_file(folder / name, data, durable=False)


def _described(contender: Contender) -> tuple[str, str, str]:
    return contender.name, str(contender.pipeline), str(contender.layout or "")


def _groups(bench: Bench, plan: Plan) -> list[list[Contender]]:
    """Groups contenders that share all retrievers, so that each is searched once. Those with rerankers are groups of
    their own, because reranking takes longest."""
    groups: dict[tuple[str, ...], list[Contender]] = {}
    for contender in plan.contenders:
        pipeline = contender.pipeline
        if pipeline.asks_llm:
            continue
        if not pipeline.rerank and all(
            bench.cache.rankings(bench.run_key(plan, contender, retriever)) for retriever in pipeline.retrieve
        ):
            continue  # everything that takes time is known already
        own = (str(pipeline),) if pipeline.rerank else ()
        key = (str(contender.layout or ""), str(pipeline.depth), *map(str, pipeline.retrieve), *own)
        groups.setdefault(key, []).append(contender)
    return list(groups.values())


def _packed(kb: KnowledgeBase) -> bytes:
    """Packs everything that a ranking needs. The reader keeps a sync from deleting the folders of its set
    meanwhile."""
    made, reader = io.BytesIO(), kb.reader()
    shipped = [*kb.folders(reader.generation), kb.data / "models"]
    with tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=made, mode="w:gz", compresslevel=1) as archive:
        copy = Path(folder) / NAME
        copy_file(kb.catalogue.path, copy)
        archive.add(copy, f"{kb.data.name}/{NAME}")
        for path in shipped:
            if path.exists():
                archive.add(path, f"{kb.data.name}/{path.relative_to(kb.data)}")
        for name in (FILE_NAME, "prompts"):
            if (kb.folder / name).exists():
                archive.add(kb.folder / name, name)
    return made.getvalue()
