"""Kills commands with SIGKILL at random moments: nothing may be lost, and nothing half-written may be seen.

    python benchmarks/faults/kill.py [--kills 200] [--seed 1] [--only NAME …]

The commands are `sync` (a first one, with changed files, with removed files, with another chunker, with indexes in
parts that are merged at the end), `draft publish`, `draft retire`, `bench` and `train fusion`, on a part of
examples/quillhaven, with BM25 and TF-IDF. Half of the kills come at a moment chosen evenly over the usual time of the
command, half of them right after a file of `.surefind` has appeared or changed. A command that ended before its kill
does not count. After each kill,

  1. a search answers exactly as before the command or as after it;
  2. `surefind doctor` finds nothing wrong that it did not find before the command;
  3. the same command, run again, ends with the answers, the index files and the figures of an undisturbed run.

The exit code is 1 if a kill did harm.

The parent imports everything once, so that a command starts at once. A forked process does what `python -m surefind …`
does after its imports. The parent itself only imports: it starts no thread and opens no knowledge base, so that nothing
of it is shared with the processes that are killed.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import json
import os
import platform
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import surefind.doors.cli
import surefind.kb
import surefind.lab.bench.run
import surefind.lab.bench.terminal
import surefind.lab.exam.known_item
import surefind.lab.train.fusion
from surefind import Access, KnowledgeBase
from surefind.base.errors import SurefindError
from surefind.base.types import Chunk, Mask, Query
from surefind.engine.retrieve.bm25 import BM25
from surefind.engine.retrieve.tfidf import TfIdf
from surefind.engine.services import LocalServices
from surefind.engine.store import indexes

EXAMPLE = Path(__file__).parents[2] / "examples" / "quillhaven" / "sops"
_LOOK = 0.002
"""Seconds between two looks at the files."""
PAGES = 14
"""Documents of the knowledge base."""
SETTINGS = '[search]\npipeline = "p"\n[pipelines.p]\nretrieve = ["bm25", "tfidf"]\nfuse = "rrf(k=60)"\n'
OTHER_CHUNKER = SETTINGS + '[index]\nchunk = "fixed(tokens=120)"\n'
QUESTIONS = ("CTR filing deadline", "wire recall", "who may open the vault", "Amended limit", "teller limits")
PIPELINES = ("p", "bm25", "tfidf")
TIMES = {
    "created",
    "command",
    "environment",
    "seconds",
    "training_seconds",
    "latency",
    "folder",
    "report",
    "page",
    "pages",
}
"""Fields of a result that differ between two runs."""


def warm() -> None:
    """Loads the compiled parts of BM25 and TF-IDF, and what training needs: every command would load them again."""
    importlib.import_module("sklearn.linear_model")
    chunks = [Chunk("a.md", 0, 9, "one wire"), Chunk("b.md", 0, 9, "two vaults")]
    for retriever in (BM25(), TfIdf()):
        retriever.build(chunks, LocalServices()).search(retriever, [Query("wire")], 2, Mask(None))


class Running:
    """A command that runs in a forked process."""

    def __init__(self, words: list[str], folder: Path, output: Path) -> None:
        self._output = output
        self._code: int | None = None
        self.pid = os.fork()
        if not self.pid:
            _become(lambda: _command(words, folder), output)

    def ended(self) -> bool:
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code is not None

    def wait(self) -> tuple[int, str]:
        """Returns the exit code (negative: the signal) and what was printed."""
        while not self.ended():
            time.sleep(0.001)
        assert self._code is not None
        return self._code, self._output.read_text(encoding="utf-8", errors="replace")

    def kill(self) -> bool:
        """Sends SIGKILL. Returns whether the command was still running."""
        if self.ended():
            return False
        os.kill(self.pid, signal.SIGKILL)
        return self.wait()[0] == -signal.SIGKILL


def computed(work: Callable[[], Any], folder: Path, output: Path) -> Any:
    """Returns the value of a function, computed in a forked process, as JSON."""
    pid = os.fork()
    if not pid:

        def tell() -> None:
            os.chdir(folder)
            output.with_suffix(".value").write_text(json.dumps(work()))

        _become(tell, output)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code:
        raise RuntimeError(f"a check ended with {code}:\n{output.read_text(errors='replace')[-2000:]}")
    return json.loads(output.with_suffix(".value").read_text())


def _command(words: list[str], folder: Path) -> None:
    os.chdir(folder)
    sys.argv = ["surefind", *words]
    surefind.doors.cli.main()


def _become(work: Callable[[], None], output: Path) -> None:
    """Turns a forked process into one that does the work and ends."""
    code = 1
    try:
        file = os.open(output, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(file, 1)
        os.dup2(file, 2)
        work()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


@dataclass(frozen=True)
class Scenario:
    """A command, and what is done to a synced knowledge base before it runs."""

    name: str
    words: tuple[str, ...]
    prepare: Callable[[Workshop], None] = lambda shop: None
    synced: bool = True
    """Whether the knowledge base is synced before `prepare`."""
    divided: bool = False
    """Whether indexes as small as these consist of parts, which every sync merges after it has published."""
    final: bool = False
    """Whether the command can only be done once: if the kill came after the commit, doing it again is refused."""


@dataclass
class Undisturbed:
    """What a command that nobody kills does."""

    before: Any
    """The answers before the command."""
    after: Any
    """The answers after it."""
    doctor: int
    """The exit code of `doctor` before the command. It is 1 if the settings ask for what is not there yet."""
    files: dict[str, str]
    result: Any
    seconds: float = 0.0
    changes: int = 0
    """How many times files of `.surefind` appeared or changed."""


@dataclass
class Workshop:
    """A folder in which commands run. Its path stays the same: a knowledge base knows the paths of its sources."""

    root: Path
    home: Path = field(init=False)
    output: Path = field(init=False)

    def __post_init__(self) -> None:
        self.home, self.output = self.root / "home", self.root / "output.txt"

    @property
    def docs(self) -> Path:
        return self.home / "docs"

    def fill(self) -> None:
        self.docs.mkdir(parents=True)
        for path in sorted(EXAMPLE.glob("*.md"))[:PAGES]:
            shutil.copy(path, self.docs)
        self.configure(SETTINGS)

    def configure(self, settings: str) -> None:
        (self.home / "surefind.toml").write_text(settings, encoding="utf-8")

    def run(self, *words: str) -> tuple[int, str]:
        return Running(list(words), self.home, self.output).wait()

    def must(self, *words: str) -> str:
        code, printed = self.run(*words)
        if code:
            raise RuntimeError(f"surefind {' '.join(words)} ended with {code}:\n{printed}")
        return printed

    def keep(self, name: str) -> None:
        shutil.rmtree(self.root / name, ignore_errors=True)
        shutil.copytree(self.home, self.root / name)

    def restore(self, name: str) -> None:
        shutil.rmtree(self.home)
        shutil.copytree(self.root / name, self.home)

    def answers(self) -> Any:
        return computed(lambda: _answers(self.home), self.home, self.output)

    def files(self) -> dict[str, str]:
        """The hash of each array and vocabulary of indexes and trained models, by its path. Tables are left out: they
        are named by the set of documents, which a killed command may have counted on."""
        data = self.home / ".surefind"
        found = [*sorted((data / "indexes").rglob("*")), *sorted((data / "models").rglob("*.np*"))]
        kept = [path for path in found if path.is_file() and not path.parent.name.startswith("table-")]
        return {
            str(path.relative_to(self.home)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in kept
            if path.name != "manifest.json"
        }

    def sizes(self) -> dict[str, tuple[int, int]]:
        """The size and time of each file of the knowledge base, now."""
        made = {}
        for folder, _, names in os.walk(self.home / ".surefind"):
            for path in (Path(folder), *(Path(folder, name) for name in names)):
                with contextlib.suppress(OSError):  # it was removed meanwhile
                    about = path.lstat()
                    made[str(path)] = about.st_size, about.st_mtime_ns
        return made


def _answers(home: Path) -> Any:
    """The hits of every question in every pipeline and the documents; or the name of the error."""
    try:
        with KnowledgeBase.open(home) as kb:
            found = [kb.search(question, Access.owner(), 20, name).hits for name in PIPELINES for question in QUESTIONS]
            documents = [
                [one.id, hashlib.sha256(one.text.encode()).hexdigest()] for one in kb.documents(Access.owner())
            ]
    except SurefindError as error:
        return type(error).__name__
    return [[[hit.document, hit.id, hit.start, hit.end, hit.score] for hit in hits] for hits in found] + documents


# ---------------------------------------------------------------- the commands


def _change(shop: Workshop) -> None:
    for path in sorted(shop.docs.glob("*.md"))[:4]:
        path.write_text(
            path.read_text(encoding="utf-8") + "\n\n## Amended\n\nThe wire limit is discussed here now.\n",
            encoding="utf-8",
        )
    (shop.docs / "note.md").write_text("# Note\n\nThe vault opens at nine.\n", encoding="utf-8")


def _change_again(shop: Workshop) -> None:
    """Leaves indexes that consist of a merged part, and changes files, so that the next sync adds parts to it."""
    page = sorted(shop.docs.glob("*.md"))[-1]
    page.write_text(page.read_text(encoding="utf-8") + "\n\n## Later\n\nTellers count twice.\n", encoding="utf-8")
    shop.must("sync")
    _change(shop)


def _remove(shop: Workshop) -> None:
    for path in sorted(shop.docs.glob("*.md"))[:4]:
        path.unlink()


def _draft(shop: Workshop) -> None:
    page = sorted(shop.docs.glob("*.md"))[2]
    aside = shop.home / page.name
    aside.write_text("# Amended\n\nThe wire limit is ten dollars. The vault stays shut.\n", encoding="utf-8")
    shop.must("draft", "new", str(aside), "--document", page.name)


def _exam(shop: Workshop) -> None:
    pages = sorted(shop.docs.glob("*.md"))
    texts = {
        page.name: [line[2:].strip() for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("##")]
        for page in pages
    }
    rows = [
        {"query": f"{heading} {name.split('-', 2)[-1][:12]}", "document": name}
        for name, found in texts.items()
        for heading in found
    ]
    unique = {row["query"]: row for row in rows}
    path = shop.home / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in unique.values()), encoding="utf-8")
    shop.must("exam", "import", str(path), "--name", "mine")


SCENARIOS = (
    Scenario("first sync", ("sync", "docs"), synced=False),
    Scenario("sync, changed files", ("sync",), _change),
    Scenario("sync, removed files", ("sync",), _remove),
    Scenario("sync, another chunker", ("sync",), lambda shop: shop.configure(OTHER_CHUNKER)),
    Scenario("sync, parts merged", ("sync",), _change_again, divided=True),
    Scenario("draft publish", ("draft", "publish", "DRAFT"), _draft, final=True),
    Scenario("draft retire", ("draft", "retire", "DOCUMENT"), final=True),
    Scenario("bench", ("bench", "-p", "bm25", "-p", "tfidf", "-p", "p", "--exam", "mine", "--json"), _exam),
    Scenario(
        "train fusion",
        (
            "train",
            "fusion",
            "--exam",
            "mine",
            "--model",
            "ridge",
            "--retrieve",
            "bm25",
            "--retrieve",
            "tfidf",
            "--json",
        ),
        _exam,
    ),
)


def _words(scenario: Scenario, shop: Workshop) -> list[str]:
    """The command, with the number of the draft and the name of a document filled in."""
    page = sorted(path.name for path in shop.docs.glob("*.md"))[3]
    draft = str(json.loads(shop.must("draft", "list", "--json"))[0]["number"]) if "DRAFT" in scenario.words else ""
    return [{"DRAFT": draft, "DOCUMENT": page}.get(word, word) for word in scenario.words]


def _result(printed: str) -> Any:
    """The figures of a result, without those of time."""
    start = printed.find("{\n")
    return _timeless(json.loads(printed[start : printed.rindex("}") + 1])) if start >= 0 else None


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(item) for key, item in value.items() if not _is_time(key)}
    return [_timeless(item) for item in value] if isinstance(value, list) else value


def _is_time(key: str) -> bool:
    return key in TIMES or key.endswith(("_ms", "_seconds", "_mb", "_bytes")) or key in ("p50", "p95", "ms")


# ---------------------------------------------------------------- kills


def undisturbed(scenario: Scenario, shop: Workshop) -> tuple[list[str], Undisturbed]:
    """Prepares the knowledge base, keeps a copy of it, and runs the command to its end."""
    shutil.rmtree(shop.home, ignore_errors=True)
    shop.fill()
    if scenario.synced:
        shop.must("sync", "docs")
    scenario.prepare(shop)
    words = _words(scenario, shop)
    shop.keep("before")
    before, doctor = shop.answers(), shop.run("doctor")[0]
    shop.restore("before")
    started = time.perf_counter()
    running = Running(words, shop.home, shop.output)
    changes = _watched(running, shop, None)
    code, printed = running.wait()
    seconds = time.perf_counter() - started
    if code:
        raise RuntimeError(f"surefind {' '.join(words)} ended with {code}:\n{printed}")
    after = shop.answers()
    if isinstance(after, str):
        raise RuntimeError(f"after surefind {' '.join(words)}, a search raises {after}")
    return words, Undisturbed(before, after, doctor, shop.files(), _result(printed), seconds, changes)


def _watched(running: Running, shop: Workshop, after: int | None) -> int:
    """Waits until the command has ended, or files have changed `after` times. Returns how many times they did."""
    known, count = shop.sizes(), 0
    while not running.ended() and (after is None or count < after):
        time.sleep(_LOOK)
        now = shop.sizes()
        count += now != known
        known = now
    return count


def killed(words: list[str], shop: Workshop, usual: Undisturbed, chance: random.Random) -> str:
    """Kills the command; returns when, or an empty string if it ended before."""
    shop.restore("before")
    running = Running(words, shop.home, shop.output)
    if chance.random() < 0.5 and usual.changes:
        after = chance.randint(1, usual.changes)
        _watched(running, shop, after)
        when = f"after change {after} of {usual.changes}"
    else:
        seconds = chance.uniform(0, usual.seconds)
        time.sleep(seconds)
        when = f"at {seconds * 1000:.0f} of {usual.seconds * 1000:.0f} ms"
    return when if running.kill() else ""


def harm(
    scenario: Scenario, words: list[str], shop: Workshop, usual: Undisturbed, doctor: bool
) -> tuple[str, list[str]]:
    """Returns whether the kill came before or after the commit, and everything that is wrong after it."""
    wrong = []
    now = shop.answers()
    if now not in (usual.before, usual.after):
        wrong.append(f"searches answer neither as before nor as after: {_short(now)}")
    committed = now == usual.after and usual.before != usual.after
    code, printed = shop.run("doctor") if doctor else (0, "")
    if code and (committed or code != usual.doctor):
        wrong.append(f"doctor ends with {code}: {_failed(printed)}")
    code, printed = shop.run(*words)
    if code and not (scenario.final and committed and code == 2):
        wrong.append(f"the command, run again, ends with {code}: {printed.strip()[-300:]}")
    elif not code and scenario.name in ("bench", "train fusion") and (found := _result(printed)) != usual.result:
        wrong.append(f"its figures differ: {_difference(found, usual.result)}")
    if shop.answers() != usual.after:
        wrong.append("after it, searches do not answer as after an undisturbed run")
    files = shop.files()
    if files != usual.files:
        other = sorted(files.items() ^ usual.files.items())
        wrong.append(f"{len(other)} index files differ from those of an undisturbed run: {other[0][0]}")
    return "after the commit" if committed else "before the commit", wrong


def _short(answers: Any) -> str:
    return answers if isinstance(answers, str) else f"{len(answers)} lists"


def _failed(printed: str) -> str:
    return "; ".join(line for line in printed.splitlines() if line.startswith("failed")) or printed[-300:]


def _difference(found: Any, wanted: Any, where: str = "") -> str:
    """The first place at which two results differ."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        for key in sorted({*found, *wanted}):
            if found.get(key) != wanted.get(key):
                return _difference(found.get(key), wanted.get(key), f"{where}.{key}")
    if isinstance(found, list) and isinstance(wanted, list) and len(found) == len(wanted):
        for i, (one, other) in enumerate(zip(found, wanted, strict=True)):
            if one != other:
                return _difference(one, other, f"{where}[{i}]")
    return f"{where}: {str(found)[:100]} instead of {str(wanted)[:100]}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-doctor", action="store_true", help="save the second that each doctor takes")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="the scenarios to run")
    given = parser.parse_args(arguments)
    chosen = [one for one in SCENARIOS if not given.only or one.name in given.only]
    if not chosen:
        sys.exit(f"There is no scenario {given.only[0]!r}. Scenarios: {', '.join(one.name for one in SCENARIOS)}.")
    print(
        f"seed {given.seed}, {given.kills} kills, Python {platform.python_version()}, {platform.machine()}", flush=True
    )
    warm()
    usual = indexes.MIN_PARTED_CHUNKS, indexes.MERGE_SHARE  # the commands are forks of this process
    harmed, started = 0, time.perf_counter()
    for i, scenario in enumerate(chosen):
        count = given.kills // len(chosen) + (i < given.kills % len(chosen))
        chance = random.Random(f"{given.seed}/{scenario.name}")
        indexes.MIN_PARTED_CHUNKS, indexes.MERGE_SHARE = (2, 10**6) if scenario.divided else usual
        harmed += _rounds(scenario, count, chance, not given.no_doctor) if count else 0
    minutes = (time.perf_counter() - started) / 60
    print(f"{given.kills - harmed} of {given.kills} kills did no harm, in {minutes:.1f} min")
    return int(harmed > 0)


def _rounds(scenario: Scenario, kills: int, chance: random.Random, doctor: bool) -> int:
    """Kills a command some times and returns how many kills did harm."""
    harmed, moments = 0, Counter[str]()
    with tempfile.TemporaryDirectory(prefix="surefind-kill-") as folder:
        shop = Workshop(Path(folder))
        words, usual = undisturbed(scenario, shop)
        while sum(moments.values()) < kills:
            when = killed(words, shop, usual, chance)
            if not when:
                continue
            moment, wrong = harm(scenario, words, shop, usual, doctor)
            moments[moment] += 1
            harmed += bool(wrong)
            for line in wrong:
                print(f"  {scenario.name}, killed {when}, {moment}: {line}", flush=True)
    shown = ", ".join(f"{moments[moment]} {moment}" for moment in ("before the commit", "after the commit"))
    print(
        f"{scenario.name:<22} {kills:>4} kills ({shown}), {usual.seconds * 1000:.0f} ms and {usual.changes} changes of "
        f"files undisturbed: {harmed} did harm",
        flush=True,
    )
    return harmed


if __name__ == "__main__":
    sys.exit(main())
