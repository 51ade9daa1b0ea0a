"""Measures how Surefind grows: 10,000, 100,000 and 1,000,000 passages on one machine.

    python benchmarks/scale.py sentences DATA WORK     sentences of the texts in DATA, each embedded once
    python benchmarks/scale.py corpus WORK 100000      files with so many passages, from sentences of one source each
    python benchmarks/scale.py build WORK 100000       the first sync: time and peak memory of each part
    python benchmarks/scale.py update WORK 100000      nothing changed, one changed file, 1,000 new passages, status
    python benchmarks/scale.py search WORK 100000      opening, latency, filters, access groups, recall
    python benchmarks/scale.py doctor WORK 100000      the check of everything, and the size of the vector cache

WORK is a scratch folder. DATA holds collections in BEIR layout. The passages are recombined sentences: every file has
ten sections (another number with --sections) of four sentences from one collection, metadata of which a filter keeps a
tenth, and an access list in one file of five. The encoder is `scale_stage.Recombined`, which is declared to Surefind as
a plugin.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from _shared import machine

SEED = 21
SOURCES = ("cranfield", "hotpotqa-sub", "policyqa", "scifact", "squad2-dev-half", "covidqa-partial", "zoomcamp-faq")
PER_SOURCE, QUERIES = 3_000, 40
SENTENCES = 4
SETTINGS = """[sync]
keep_generations = 2
[search]
pipeline = "hybrid"
[pipelines.hybrid]
retrieve = ["bm25", "dense(model=recombined)"]
fuse = "convex(alpha=0.5, missing=score)"
"""


def sentences(data: Path, work: Path) -> None:
    """Writes the distinct sentences of each source and the queries, and embeds them with the bundled encoder."""
    import numpy as np

    from surefind.base.text.words import sentence_spans
    from surefind.engine.services import LocalServices

    chance = random.Random(SEED)
    found: dict[str, list[str]] = {}
    queries: list[str] = []
    for name in SOURCES:
        rows = [json.loads(line) for line in (data / name / "corpus.jsonl").read_text(encoding="utf-8").splitlines()]
        texts = (" ".join(row["text"].split()) for row in rows)
        spans = ((text, span) for text in texts for span in sentence_spans(text, 0, len(text)))
        distinct = sorted({s for text, (a, b) in spans if 60 <= len(s := text[a:b].strip()) <= 250 and _plain(s)})
        found[name] = chance.sample(distinct, min(PER_SOURCE, len(distinct)))
        asked = [json.loads(line)["text"] for line in (data / name / "queries.jsonl").read_text().splitlines()]
        queries += chance.sample(asked, min(QUERIES, len(asked)))
    every = [text for group in found.values() for text in group] + queries
    print({name: len(group) for name, group in found.items()}, len(queries), flush=True)
    embedder = LocalServices(work / "cache").embedder("minilm")
    np.save(work / "sentences.npy", embedder.embed(every, lambda done, total: None))
    (work / "sentences.json").write_text(json.dumps({"sources": found, "queries": queries}), encoding="utf-8")


def _plain(text: str) -> bool:
    """Whether a line of this text is a paragraph in Markdown, and nothing else."""
    return re.match(r"[A-Za-z0-9(\"]", text) is not None and not re.match(r"\d+[.)]\s", text)


@dataclass(frozen=True)
class Size:
    """A corpus, and where it and its knowledge base are."""

    work: Path
    passages: int
    sections: int

    @property
    def name(self) -> str:
        return f"{self.passages}" + (f"-by-{self.sections}" if self.sections != 10 else "")

    @property
    def docs(self) -> Path:
        return self.work / f"docs-{self.name}"

    def texts(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = json.loads((self.work / "sentences.json").read_text(encoding="utf-8"))["sources"]
        return found

    def home(self) -> Path:
        folder = self.work / f"kb-{self.name}"
        folder.mkdir(exist_ok=True)
        (folder / "surefind.toml").write_text(SETTINGS, encoding="utf-8")
        return folder


def corpus(size: Size) -> None:
    """Writes the files. The first files of a larger corpus are those of a smaller one."""
    texts, chance = size.texts(), random.Random(SEED)
    for i in range(size.passages // size.sections):
        path = size.docs / f"{i // 1000:03}" / f"{i:06}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_file(i, size.sections, texts, chance), encoding="utf-8")


def _file(i: int, sections: int, texts: dict[str, list[str]], chance: random.Random) -> str:
    source = chance.choice(SOURCES)
    acl = f"acl: [team{i % 3}]\n" if i % 5 == 0 else ""
    parts = [f"---\nshelf: {chance.randrange(10)}\nsource: {source}\n{acl}---\n# File {i} of {source}\n"]
    for section in range(sections):
        lines = chance.sample(texts[source], SENTENCES)
        parts.append(f"## Part {section}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


class Phases:
    """Times the parts of a sync: by the clock, and of the processor, children included."""

    def __init__(self) -> None:
        self._last = ("start", time.perf_counter(), _processor())

    def report(self, what: str, done: int = 0, total: int = 0) -> None:
        name, clock, used = self._last
        if what != name:
            print(
                f"  {name}: {time.perf_counter() - clock:.1f} s, processor {_processor() - used:.1f} s, "
                f"peak {_peak():.2f} GB",
                flush=True,
            )
            self._last = (what, time.perf_counter(), _processor())


def _processor() -> float:
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in both)


def _peak() -> float:
    """The peak memory of this process in GB; mapped files count while they are in memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def declare(work: Path) -> None:
    """Makes this process, and its children, find the encoder as the stage of an installed plugin."""
    info = work / "plugin" / "scale-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: scale\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[surefind.embed]\nrecombined = scale_stage:Recombined\n")
    here = [str(work / "plugin"), str(Path(__file__).parent)]
    sys.path[:0] = here
    os.environ["PYTHONPATH"] = os.pathsep.join([*here, os.environ.get("PYTHONPATH", "")])
    os.environ["SUREFIND_SCALE"] = str(work)


def build(size: Size) -> None:
    from surefind.kb import KnowledgeBase

    phases = Phases()
    started, used = time.perf_counter(), _processor()
    with KnowledgeBase.open(size.home()) as kb:
        result = kb.sync(size.docs, report=phases.report)
    phases.report("end")
    print(
        f"{result.added} added, {result.changed} changed, {result.chunks} passages: "
        f"{time.perf_counter() - started:.1f} s, processor {_processor() - used:.1f} s, peak {_peak():.2f} GB",
        flush=True,
    )


def update(size: Size) -> None:
    """Each sync and the status run in a process of their own, the start included."""
    texts, chance = size.texts(), random.Random(int(time.time()))
    _timed("nothing changed", size, "sync")
    for _ in range(3):
        (size.docs / "000" / "000500.md").write_text(_file(500, size.sections, texts, chance), encoding="utf-8")
        _timed("one changed file", size, "sync")
    for i in range(1000 // size.sections):
        path = size.docs / f"new-{int(time.time())}" / f"{i}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(_file(i, size.sections, texts, chance), encoding="utf-8")
    _timed("1,000 new passages", size, "sync")
    _timed("nothing changed", size, "sync")
    _timed("status", size, "status")


def doctor(size: Size) -> None:
    _timed("doctor", size, "doctor")
    print(f"vector cache: {(size.home() / '.surefind' / 'cache' / 'embeddings.db').stat().st_size / 1e9:.2f} GB")


def _timed(what: str, size: Size, command: str) -> None:
    started, used = time.perf_counter(), _processor()
    run = [sys.executable, "-m", "surefind", command]
    done = subprocess.run(run, cwd=size.home(), check=True, capture_output=True, text=True)
    clock, processor = time.perf_counter() - started, _processor() - used
    print(f"{what}: {clock:.1f} s, processor {processor:.1f} s ({done.stdout.splitlines()[0]})", flush=True)


def search(size: Size) -> None:
    from surefind import Access
    from surefind.kb import KnowledgeBase

    queries = json.loads((size.work / "sentences.json").read_text(encoding="utf-8"))["queries"]
    random.Random(SEED).shuffle(queries)
    started, used = time.perf_counter(), _processor()
    with KnowledgeBase.open(size.home()) as kb:
        reader, pipeline = kb.reader(), kb.pipeline()
        print(f"open: {time.perf_counter() - started:.2f} s, processor {_processor() - used:.2f} s")
        started, used = time.perf_counter(), _processor()
        reader.view.ready(pipeline.retrieve)
        print(f"its indexes: {time.perf_counter() - started:.2f} s, processor {_processor() - used:.2f} s")
        for what, access in (
            ("everything", Access.owner()),
            ("a filter that keeps a tenth", Access.owner(["shelf=3"])),
            ("access groups, four fifths", Access.public()),
            ("access groups and a filter", Access.of("team1", where=["shelf=3"])),
        ):
            _latency(what, queries, lambda text, access=access: reader.search(text, access, pipeline))
        _recall(reader, queries[:100], pipeline.retrieve[1], Access.owner(), "everything")
        _recall(reader, queries[:100], pipeline.retrieve[1], Access.owner(["shelf=3"]), "a filter that keeps a tenth")
        print(f"peak {_peak():.2f} GB")


def _latency(what: str, queries: list[str], run: Callable[[str], object]) -> None:
    first = time.perf_counter()
    run(queries[0])
    first = (time.perf_counter() - first) * 1000
    clock, processor = [], []
    for text in queries:
        started, used = time.perf_counter(), time.process_time()
        run(text)
        clock.append((time.perf_counter() - started) * 1000)
        processor.append((time.process_time() - used) * 1000)
    cuts = statistics.quantiles(clock, n=20)
    print(
        f"{what}: first {first:.0f} ms, p50 {statistics.median(clock):.1f} ms, p95 {cuts[18]:.1f} ms; "
        f"processor p50 {statistics.median(processor):.1f} ms",
        flush=True,
    )


def _recall(reader, queries: list[str], retriever, access, what: str) -> None:  # type: ignore[no-untyped-def]
    """Compares the first ten of the dense retriever with those of a scan of all float32 vectors."""
    import numpy as np

    from surefind.base.types import Query

    view = reader.view
    index, allow = view.index(retriever), view.mask(access)
    asked = [Query(text) for text in queries]
    points = index.points(asked)
    found = index.nearest(points, 10, allow).ids
    best = np.full((len(asked), 0), -np.inf, np.float32)
    places = np.zeros((len(asked), 0), np.int64)
    for at in range(0, len(view), 50_000):
        some = np.arange(at, min(at + 50_000, len(view)))
        some = some if allow.bits is None else some[allow.bits[some]]
        scores = np.concatenate([best, points @ index.rows(some).T], axis=1)
        known = np.concatenate([places, np.tile(some, (len(asked), 1))], axis=1)
        top = np.argpartition(-scores, 9, axis=1)[:, :10]
        best, places = np.take_along_axis(scores, top, 1), np.take_along_axis(known, top, 1)
    shared = [len({*a} & {*b}) / 10 for a, b in zip(found.tolist(), places.tolist(), strict=True)]
    print(f"dense recall@10 against exact search, {what}: {np.mean(shared):.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["sentences", "corpus", "build", "update", "search", "doctor"])
    parser.add_argument("folders", nargs="+", metavar="DATA WORK or WORK PASSAGES")
    parser.add_argument("--sections", type=int, default=10, help="passages of each file")
    given = parser.parse_args()
    if given.what == "sentences":
        sentences(*map(Path, given.folders))
        return
    size = Size(Path(given.folders[0]).resolve(), int(given.folders[1]), given.sections)
    declare(size.work)
    if given.what != "corpus":
        print(f"{given.what}, {size.name} passages; {machine('surefind', 'numpy')}; load {os.getloadavg()[0]:.1f}")
    {"corpus": corpus, "build": build, "update": update, "search": search, "doctor": doctor}[given.what](size)


if __name__ == "__main__":
    main()
