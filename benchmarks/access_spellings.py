"""Counts what becomes of files with an access list, by how the list is written: restricted, left to the owner, refused
or public.

    python benchmarks/access_spellings.py            one line
    python benchmarks/access_spellings.py --each     also each way
    python benchmarks/access_spellings.py FOLDER …   counts the files that are closed by mistake, and names them

The ways are those of tests/acl_spellings.py.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from acl_spellings import WAYS
from surefind import Access, KnowledgeBase
from surefind.files.inside import LOOKS_RESTRICTED, read_checked, reading
from surefind.files.limits import FileLimits
from surefind.files.readers import Readers

_TYPES = (".md", ".txt", ".rst", ".html", ".py", ".json")
_MOST = 3000
"""Files of a folder that are read, at most."""
_KINDS = ("restricted", "left to the owner", "refused", "public")


def outcomes(folder: Path) -> dict[str, str]:
    """Syncs every way, each in a folder of its own. Returns the outcome of each."""
    (folder / "surefind.toml").write_text('[search]\npipeline = "words"\n[pipelines.words]\nretrieve = ["bm25"]\n')
    for number, (name, content) in enumerate(WAYS.values()):
        path = folder / "docs" / str(number) / name
        path.parent.mkdir(parents=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    with KnowledgeBase.open(folder) as kb:
        problems = kb.sync(folder / "docs").problems
        paths = {member.document: member.path for member in kb.catalogue.members(kb.catalogue.snapshot_id())}
        public = {paths[one.id].partition("/")[0] for one in kb.documents(Access.public())}
        indexed = {path.partition("/")[0] for path in paths.values()}
    alike = {problem.path.partition("/")[0] for problem in problems if problem.left_to_owner}
    return {way: _outcome(str(number), public, indexed, alike) for number, way in enumerate(WAYS)}


def _outcome(folder: str, public: set[str], indexed: set[str], alike: set[str]) -> str:
    if folder in public:
        return "public"
    return "left to the owner" if folder in alike else "restricted" if folder in indexed else "refused"


def mistakes(folders: list[str]) -> None:
    """Reads files that have no access list, and prints those that are left to the owner because of one."""
    readers, read, closed = Readers(), 0, 0
    paths = (path for folder in folders for path in islice(_files(Path(folder)), _MOST))
    for path in paths:
        reader = readers.find(path.name)
        if reader is None:
            continue
        read += 1
        with contextlib.suppress(Exception):  # files that cannot be read for another reason
            with reading(FileLimits(), readers) as scope:
                list(read_checked(reader, path, "x"))
            alike = [reason for _, reason in scope.complaints if reason.startswith(LOOKS_RESTRICTED)]
            closed += bool(alike)
            if alike:
                print(f"{path} {alike[0]}")
    print(f"{read} files, {closed} left to the owner because of what looks like an access list")


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.suffix in _TYPES and path.is_file() and _is_small(path))


def _is_small(path: Path) -> bool:
    return path.stat().st_size < 300_000


def main() -> None:
    if folders := [word for word in sys.argv[1:] if not word.startswith("-")]:
        mistakes(folders)
        return
    with tempfile.TemporaryDirectory() as folder:
        found = outcomes(Path(folder))
    if "--each" in sys.argv:
        for way, outcome in found.items():
            print(f"{outcome:<18} {way}")
    counts = Counter(found.values())
    print(f"{len(found)} ways: " + ", ".join(f"{counts[kind]} {kind}" for kind in _KINDS))


if __name__ == "__main__":
    main()
