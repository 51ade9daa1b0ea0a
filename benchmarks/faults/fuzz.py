"""Tries parsers, specs, settings, importers, queries and answers of models on odd inputs.

    python benchmarks/faults/fuzz.py [--cases 1000000] [--seed 1] [--only NAME …] [--case NUMBER]

A case is made from the seed, the target's name and the case's number alone, so `--only NAME --case NUMBER` repeats one.
The cases run in a forked process with limits: 2 s of processor time for a case
(30 s where a library reads the file), and 2 GB of memory. An error that is
not a `SurefindError`, a broken promise, a crash and an exceeded limit are findings. Each is printed with its case
number; findings of one target with the same place in the source count once. The exit code is 1 if there is a finding.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import mmap
import os
import platform
import random
import resource
import signal
import struct
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

from _target import Target

MEMORY = 2 << 30
_MEMORY_DISK = Path("/dev/shm")
_SOURCE = str(Path(__file__).parents[2] / "src") + os.sep


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="the targets to run")
    parser.add_argument("--case", type=int, help="repeat one case, outside the limits")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(
        prefix="surefind-fuzz-", dir=_MEMORY_DISK if _MEMORY_DISK.exists() else None
    ) as folder:
        os.chdir(folder)
        targets = _chosen(given.only, Path(folder))
        if given.case is not None:
            return _repeat(targets[0], given.seed, given.case)
        return _run(targets, given.cases, given.seed)


def _chosen(names: list[str], folder: Path) -> list[Target]:
    import _answers
    import _importing
    import _reading
    import _searching
    import _settings

    parts = (_settings, _answers, _importing, _reading, _searching)
    known = {target.name: target for part in parts for target in part.targets(folder)}
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.exit(f"There is no target {unknown[0]!r}. Targets: {', '.join(known)}.")
    return [known[name] for name in names] if names else list(known.values())


def _run(targets: list[Target], cases: int, seed: int) -> int:
    print(f"seed {seed}, {cases:,} cases, Python {platform.python_version()}, {platform.machine()}", flush=True)
    whole = sum(target.share for target in targets)
    started, done, found = time.perf_counter(), 0, 0
    for target in targets:
        count = max(1, round(cases * target.share / whole))
        seconds = time.perf_counter()
        findings = _Worker(target, seed, count).run()
        seconds = time.perf_counter() - seconds
        done, found = done + count, found + len(findings)
        print(
            f"{target.name:<24} {count:>9,} cases {count / seconds:>8,.0f} /s {len(findings):>3} findings", flush=True
        )
    seconds = time.perf_counter() - started
    print(f"{'all':<24} {done:>9,} cases {done / seconds:>8,.0f} /s {found:>3} findings in {seconds / 60:.1f} min")
    return int(found > 0)


def _case(target: Target, seed: int, number: int) -> Any:
    return target.make(random.Random(f"{seed}/{target.name}/{number}"))


def _repeat(target: Target, seed: int, number: int) -> int:
    case = _case(target, seed, number)
    print(repr(case))
    try:
        print("value:", repr(target.run(case))[:2000])
    except target.allowed as error:
        print(f"{type(error).__name__}: {error}")
    return 0


class _Worker:
    """Runs the cases of a target in a forked process, and starts another one where that ended."""

    def __init__(self, target: Target, seed: int, count: int) -> None:
        self.target, self.seed, self.count = target, seed, count
        self.shared = mmap.mmap(-1, 8)
        """The number of the case that runs now, which survives the process."""
        self.seen: Counter[str] = Counter()

    def run(self) -> Counter[str]:
        first = 0
        while first < self.count:
            read, write = os.pipe()
            child = os.fork()
            if not child:
                os.close(read)
                self._work(first, write)
            os.close(write)
            with os.fdopen(read, encoding="utf-8", errors="replace") as lines:
                for line in lines:
                    self._note(*line.rstrip("\n").split("\t", 2))
            _, status = os.waitpid(child, 0)
            at = struct.unpack("q", self.shared[:8])[0]
            if os.WIFSIGNALED(status):
                name = signal.Signals(os.WTERMSIG(status)).name
                says = f"more than {self.target.seconds:g} s" if name == "SIGPROF" else f"crashed ({name})"
                self._note(str(at), says, "")
            elif os.WEXITSTATUS(status):
                self._note(str(at), f"ended with {os.WEXITSTATUS(status)}", "")
            first = at + 1
        return self.seen

    def _note(self, number: str, key: str, says: str) -> None:
        self.seen[key] += 1
        if self.seen[key] == 1:
            print(f"  {self.target.name} --case {number}: {key} {says}", flush=True)

    def _work(self, first: int, write: int) -> None:
        """Runs cases from `first` on, in the forked process, and never returns."""
        code = 1
        with contextlib.suppress(BaseException):
            faulthandler.disable()
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            signal.signal(signal.SIGPROF, signal.SIG_DFL)  # ends the process, even inside compiled code
            with os.fdopen(write, "w", encoding="utf-8", errors="replace") as findings:
                for number in range(first, self.count):
                    self.shared[:8] = struct.pack("q", number)
                    self._try(number, findings)
            code = 0
        os._exit(code)

    def _try(self, number: int, findings: Any) -> None:
        case = _case(self.target, self.seed, number)
        signal.setitimer(signal.ITIMER_PROF, self.target.seconds)
        try:
            self.target.run(case)
        except self.target.allowed:
            pass
        except Exception as error:
            findings.write(f"{number}\t{type(error).__name__} {_place(error)}\t{_shown(str(error))}\n")
            findings.flush()
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)


def _place(error: Exception) -> str:
    """The line of our source that raised an error, or called what raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if frame.filename.startswith(_SOURCE)] or frames[-1:]
    return f"at {ours[-1].filename.removeprefix(_SOURCE)}:{ours[-1].lineno}" if ours else ""


def _shown(text: str) -> str:
    return "".join(char if char.isprintable() else "·" for char in text)[:300]


if __name__ == "__main__":
    sys.exit(main())
