"""Damages files of a knowledge base at random, and compares what is read with what was there before.

    python benchmarks/faults/damage.py --each 1000 --seed 1
    python benchmarks/faults/damage.py --each 1000 --kind catalogue.db
    python benchmarks/faults/damage.py --each 1500 --kind drafts.db --read drafts

A fault changes one byte, 1 to 16 bytes, a page of 4096 bytes (to zeros), or cuts the end off, in one file of a copy. A
child process then runs `surefind doctor`, and the same reads as on the intact copy. Each fault gets the worst verdict
of its reads: the same answers; an error in one sentence; other answers in silence; a traceback; a crash; no end. Ctrl-C
prints the table of the faults so far.

Read is what has a checksum: texts, titles, access lists and metadata of documents, rankings, revisions of drafts,
exams, reports, models and caches. Names of sources, states of drafts, comments and kept questions have none.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import multiprocessing
import os
import pickle
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from _damage import READS, build, without_log

from surefind import KnowledgeBase
from surefind.base.errors import SurefindError
from surefind.doors.cli import doctor

VERDICTS = ("same", "error", "silent", "traceback", "crash", "hang")
SECONDS, PROCESSOR_SECONDS = 900, 60
"""After how long a child counts as hanging: by the clock (on a busy machine it waits long), and of processor time."""
KINDS = {
    "catalogue.db": "catalogue.db", "drafts.db": "drafts.db", "drafts.db-wal": "drafts.db-wal",
    "embeddings.db": "cache/embeddings.db", "scores.db": "cache/scores.db", "answers.db": "cache/answers.db",
    "queries.db": "queries.db", "exams": "exams/*/v*.jsonl", "questions.db": "exams/questions.db",
    "reports": "reports/*/report.json", "pages of reports": "reports/*/*.[hmc]*", "runs": "runs/*",
    "tables": "indexes/table-*/*", "indexes": "indexes/[!t]*/*", "models": "models/*/*", "adopted.json": "adopted.json",
    "git": "git/*/left_out.json", "repository": "git/*/repository.git/**/*", "locks": "*.lock",
}  # fmt: skip
"""Each kind of file, with a pattern of its paths below `.surefind`."""


def files_of(home: Path, kind: str) -> list[Path]:
    data = home / ".surefind"
    found = (
        path.relative_to(home) for path in sorted(data.glob(KINDS[kind])) if path.is_file() and path.stat().st_size
    )
    return list(found)


def damaged(whole: bytes, chance: random.Random) -> tuple[bytes, str]:
    """Returns the damaged content, and what was done to it."""
    at, how = chance.randrange(len(whole)), chance.random()
    if how < 0.05:
        return whole[:at], f"cut at {at}"
    if how < 0.10:
        start = at // 4096 * 4096
        return whole[:start] + bytes(min(4096, len(whole) - start)) + whole[start + 4096 :], f"zeros from {start}"
    if how < 0.55:
        return whole[:at] + bytes([whole[at] ^ (1 << chance.randrange(8))]) + whole[at + 1 :], f"bit at {at}"
    count = 1 if how < 0.8 else chance.randint(2, 16)
    return (whole[:at] + chance.randbytes(count) + whole[at + count :])[: len(whole)], f"{count} bytes at {at}"


def in_child(home: Path, reads: Sequence[str]) -> dict[str, tuple[str, Any]]:
    """Runs the reads in a child process, which may crash or hang. Returns a verdict and a result for each."""
    out = Path(f"{home}.result")
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS, PROCESSOR_SECONDS + 10))
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            found = {"doctor": ("same", _doctor(home))}  # first, because the reads repair some damage
            found |= {name: _read(home, name) for name in reads}
        out.write_bytes(pickle.dumps(found))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) or not out.exists():
        stopped = os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGALRM, signal.SIGXCPU)
        return {"process": ("hang" if stopped else "crash", str(status)), "doctor": ("same", [])}
    found = pickle.loads(out.read_bytes())
    out.unlink()
    return dict(found)


def _read(home: Path, name: str) -> tuple[str, Any]:
    if name == "synced":  # in a knowledge base of its own, for it writes
        with contextlib.suppress(FileNotFoundError):
            (home / "docs" / "new.md").unlink()
    try:
        with KnowledgeBase.open(home) as kb:
            return "same", READS[name](kb)
    except SurefindError as error:
        return "error", str(error)
    except BaseException:
        return "traceback", traceback.format_exc()


def _doctor(home: Path) -> list[tuple[str, str]]:
    checks = (doctor._run(name, check) for name, check in doctor._damage(home))
    return [(one["name"], one["says"]) for one in checks if one["status"] != "ok"]


def judged(found: dict[str, tuple[str, Any]], right: dict[str, tuple[str, Any]]) -> tuple[str, str]:
    """Returns the worst verdict of the reads, and the read that has it."""
    verdicts = {
        name: "silent" if verdict == "same" and repr(result) != repr(right[name][1]) else verdict
        for name, (verdict, result) in found.items()
        if name != "doctor"
    }
    worst = max(verdicts, key=lambda name: VERDICTS.index(verdicts[name]))
    return verdicts[worst], worst


@dataclass(frozen=True)
class Outcome:
    """What one fault did."""

    kind: str
    verdict: str
    named: bool
    """Whether `surefind doctor` named the damage."""
    report: str
    """What to print, if the outcome is a finding."""


def faults(numbers: Sequence[int], seed: int, kinds: Sequence[str], reads: Sequence[str]) -> Iterator[Outcome]:
    """Makes the faults with these numbers, one after the other, in a knowledge base of their own."""
    with tempfile.TemporaryDirectory() as name:
        base, copy = Path(name, "base"), Path(name, "kb")
        build(base)
        base.rename(copy)  # all reads see the same path
        shutil.copytree(copy, base, symlinks=True)
        right = in_child(copy, reads)
        wrong = [(name, result) for name, (verdict, result) in right.items() if verdict != "same"]
        assert not wrong and not right["doctor"][1], (wrong, right["doctor"])
        assert all(files_of(base, kind) for kind in kinds), [kind for kind in kinds if not files_of(base, kind)]
        for number in numbers:
            chance = random.Random(f"{seed} {number}")
            kind = kinds[number % len(kinds)]
            path = chance.choice(files_of(base, kind))
            started = time.time()
            shutil.rmtree(copy)
            shutil.copytree(base, copy, symlinks=True)
            if kind == "drafts.db":
                without_log(copy)
            content, how = damaged((copy / path).read_bytes(), chance)
            (copy / path).chmod(0o644)
            (copy / path).write_bytes(content)
            found = in_child(copy, reads)
            verdict, where = judged(found, right)
            text = str(found.get(where, ("", ""))[1])
            report = f"{number} {verdict} in {where}: {how} of {path} ({time.time() - started:.1f} s)\n{text[-600:]}\n"
            yield Outcome(kind, verdict, bool(found["doctor"][1]), report)


def _work(numbers: Sequence[int], seed: int, kinds: Sequence[str], reads: Sequence[str], results: Connection) -> None:
    for outcome in faults(numbers, seed, kinds, reads):
        results.send(outcome)
    results.close()


def outcomes(total: int, seed: int, kinds: Sequence[str], reads: Sequence[str], workers: int) -> Iterator[Outcome]:
    """All outcomes, from several processes. A fault depends on the seed and its number, not on the process."""
    fork, readers = multiprocessing.get_context("fork"), []
    for worker in range(workers):
        reader, writer = fork.Pipe(duplex=False)
        work = range(worker, total, workers), seed, kinds, reads, writer
        fork.Process(target=_work, args=work, daemon=True).start()
        writer.close()
        readers.append(reader)
    while readers:
        for reader in wait(readers):
            assert isinstance(reader, Connection)
            try:
                yield reader.recv()
            except EOFError:
                readers.remove(reader)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--each", type=int, default=20, help="faults for each kind of file")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=KINDS, help="damage only this kind of file")
    parser.add_argument("--read", choices=READS, help="make only this read, and run `surefind doctor`")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes")
    given = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for one in (signal.SIGINT, signal.SIGTERM):  # a shell starts jobs in the background with SIGINT ignored
        signal.signal(one, signal.default_int_handler)
    kinds = [given.kind] if given.kind else list(KINDS)
    reads = [given.read] if given.read else list(READS)
    total, started = given.each * len(kinds), time.time()
    print(f"seed {given.seed}, {total} faults in {len(kinds)} kinds of files", flush=True)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    with contextlib.suppress(KeyboardInterrupt):
        for done, outcome in enumerate(outcomes(total, given.seed, kinds, reads, given.workers), 1):
            counts[outcome.kind].update([outcome.verdict, *(["doctor"] if outcome.named else [])])
            if outcome.verdict not in ("same", "error") or os.environ.get("VERBOSE"):
                print(outcome.report, flush=True)
            if done % 200 == 0:
                print(f"{done} of {total}, {time.time() - started:.0f} s", file=sys.stderr, flush=True)
    print(f"{'kind':18}{'faults':>8}" + "".join(f"{verdict:>11}" for verdict in (*VERDICTS, "doctor")))
    for kind, row in {**counts, "all": sum(counts.values(), Counter())}.items():
        made = sum(row[verdict] for verdict in VERDICTS)
        print(f"{kind:18}{made:8}" + "".join(f"{row[verdict]:11}" for verdict in (*VERDICTS, "doctor")))
    if any(row[verdict] for row in counts.values() for verdict in VERDICTS[2:]):
        sys.exit(1)


if __name__ == "__main__":
    main()
