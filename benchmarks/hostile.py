"""Measures what hostile documents, repositories and queries cost: time and memory of a sync and of the next sync.

    python benchmarks/hostile.py [CASE …]

Each case is synced by the command line into a new knowledge base, beside a harmless document, under the default limits.
Printed are the seconds of the sync and of the next one, the most memory that the syncing process and any process below
it used, and what the sync said about the file. In the case of another chunker, the document was read before for the
chunker `whole`. `PYTHONPATH` chooses the version of Surefind that is measured.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from _shared import machine

SETTINGS = '[search]\npipeline = "words"\n\n[pipelines.words]\nretrieve = ["bm25"]\n'
WHOLE = '\n[index]\nchunk = "whole"\n'
TOO_LONG = 400
"""Seconds after which a case is stopped."""


def front(block: str) -> str:
    return f"---\n{block}\n---\n\n# A page\n\nText.\n"


def aliases() -> str:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 8)]
    return front("\n".join(rows))


def merges() -> str:
    rows = ["a0: &a0 {k: v}"]
    rows += [f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 6)}], k{i}: v}}" for i in range(1, 9)]
    return front("\n".join(rows))


def rows(count: int, same: bool) -> str:
    return "\n".join(json.dumps({"_id": "1" if same else str(i), "title": "", "text": "a"}) for i in range(count))


def headings() -> str:
    above = "".join(f"{'#' * level} {'x' * 500}\n" for level in range(1, 6))
    return above + f"###### {'y' * 500}\n\n{'a ' * 60}\n\n" * 15_000


ANOTHER = "list of 1 MB, another chunker"
FILES: dict[str, tuple[str, Callable[[], str]]] = {
    "front matter, 40,000 brackets": ("a.md", lambda: front("a: " + "[" * 40_000)),
    "front matter, aliases": ("a.md", aliases),
    "front matter, merge keys": ("a.md", merges),
    "list of 3 MB": ("a.md", lambda: "- a\n" * 750_000),
    "list of 10 MB": ("a.md", lambda: "- a\n" * 2_500_000),
    ANOTHER: ("a.md", lambda: "- a\n" * 250_000),
    "quotation of 2 MB": ("a.md", lambda: ">" * 20 + "a\n" + "a\n" * 1_000_000),
    "table with a header of 1 MB": ("a.md", lambda: f"|{'x ' * 500_000}|\n|-|\n" + "|1|\n" * 250_000),
    "headings of 500 characters": ("a.md", headings),
    "code, one line": ("a.c", lambda: "a " * 1_000),
    "code, 1,000 lines": ("a.c", lambda: ("a " * 1_000 + "\n") * 1_000),
    "a million underscores": ("a.txt", lambda: "_" * 1_000_000),
    "a million brackets": ("a.md", lambda: "[" * 1_000_000),
    "BEIR, 20,000 rows with one id": ("corpus.jsonl", lambda: rows(20_000, same=True)),
    "BEIR, metadata 900 levels deep": (
        "corpus.jsonl",
        lambda: '{"_id": "1", "text": "a", "metadata": {"a": ' + "[" * 900 + "]" * 900 + "}}",
    ),
}  # fmt: skip


REPOSITORIES = {
    "ten million files": (b"alpha", 10, 6),
    "27 files of 100 MB": (bytes(100_000_000), 27, 0),
}
"""The file, its names in a folder, and the levels of folders."""


def peaks(root: int, known: dict[int, int]) -> None:
    """Adds the peak memory (bytes) of a process and of all processes below it to `known`."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
    below = {root}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    for pid in below:
        try:
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        except OSError:
            continue
        peak = next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)
        known[pid] = max(known.get(pid, 0), peak)


def run(*words: str) -> tuple[float, float, float, str]:
    """Runs a command of Surefind. Returns its seconds, the peak MB of its process and of the largest other one, and the
    last line that it printed about a problem."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "surefind", *words],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    known: dict[int, int] = {}
    while process.poll() is None and time.perf_counter() - started < TOO_LONG:
        peaks(process.pid, known)
        time.sleep(0.05)
    seconds = time.perf_counter() - started
    stopped = process.poll() is None
    if stopped:
        os.killpg(process.pid, 9)
    output = process.communicate()[0]
    own = known.pop(process.pid, 0)
    said = "stopped by the benchmark" if stopped else said_of(output, process.returncode)
    return seconds, own / 1e6, max(known.values(), default=0) / 1e6, said


def said_of(output: str, code: int) -> str:
    lines = map(str.strip, output.splitlines())
    about = [line for line in lines if line.startswith(("a.", "corpus.jsonl", "surefind:"))]
    return (about[-1] if about else "read") if code == 0 else f"exit code {code}: {(about or [output[-200:]])[-1]}"


def git(folder: Path, *words: str, given: bytes = b"") -> str:
    who = {f"GIT_{role}_{part}": "a@b.c" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
    setting = os.environ | who
    done = subprocess.run(["git", *words], cwd=folder, env=setting, check=True, capture_output=True, input=given)
    return done.stdout.decode().strip()


def repository(folder: Path, blob: bytes, names: int, levels: int) -> str:
    """A bare repository: `names` names of one file, in folders within folders of as many names. Returns its address."""
    git(folder, "init", "-q", "--bare", "-b", "main")
    blob = git(folder, "hash-object", "-w", "--stdin", given=blob)
    tree = git(folder, "mktree", given="\n".join(f"100644 blob {blob}\t{i}.md" for i in range(names)).encode())
    for _ in range(levels):
        tree = git(folder, "mktree", given="\n".join(f"040000 tree {tree}\t{i}" for i in range(names)).encode())
    git(folder, "update-ref", "refs/heads/main", git(folder, "commit-tree", tree, "-m", "bomb"))
    return f"git+file://{folder}@main"


def measured(name: str, home: Path, size: int, source: str) -> None:
    """Syncs a source and prints a row of the table."""
    first = run("sync", source, "--kb", str(home))
    again = run("sync", "--kb", str(home)) if (home / ".surefind").exists() else (0.0,) * 4
    own, other = max(first[1], float(again[1])), max(first[2], float(again[2]))
    row = f"| {name} | {size:,} B | {first[0]:.1f} | {again[0]:.1f} | {own:.0f} | {other:.0f} | {first[3]} |"
    print(row, flush=True)


def file_case(name: str, home: Path) -> None:
    file, content = FILES[name]
    (home / "surefind.toml").write_text(SETTINGS)
    (home / "docs").mkdir()
    (home / "docs" / "good.md").write_text("# Good\n\nA harmless page.\n")
    path = home / "docs" / file
    path.write_text(content())
    past = time.time() - 60
    os.utime(path, (past, past))
    if name == ANOTHER:
        (home / "surefind.toml").write_text(SETTINGS + WHOLE)
        run("sync", str(home / "docs"), "--kb", str(home))
        (home / "surefind.toml").write_text(SETTINGS)
    measured(name, home, path.stat().st_size, str(home / "docs"))


def repository_case(name: str, home: Path) -> None:
    (home / "surefind.toml").write_text(SETTINGS)
    bomb = home / "bomb"
    bomb.mkdir()
    address = repository(bomb, *REPOSITORIES[name])
    measured(name, home, sum(path.stat().st_size for path in bomb.rglob("*") if path.is_file()), address)


def queries() -> None:
    """Prints the time in which queries are split into terms."""
    from surefind.analyze.english import English

    english = English()
    for unit in ("_", "a_", "1,111,", "[", "a.a-"):
        query = unit * (10_000 // len(unit))
        started = time.perf_counter()
        for token in english.query_tokens(query):
            english.terms(token)
        print(f"query of 10,000 characters, {unit!r} repeated: {1000 * (time.perf_counter() - started):.1f} ms")


def main() -> None:
    print(machine("surefind", "markdown-it-py", "PyYAML"))
    queries()
    print("| file | size | seconds | next sync | MB, syncing process | MB, other process | |")
    print("|" + "---|" * 7)
    for name in sys.argv[1:] or [*FILES, *REPOSITORIES]:
        with tempfile.TemporaryDirectory() as folder:
            (file_case if name in FILES else repository_case)(name, Path(folder))


if __name__ == "__main__":
    main()
