"""Counts what becomes of files with an access list, by how the list is written: restricted, refused or public.

    python benchmarks/access_spellings.py            one line
    python benchmarks/access_spellings.py --each     also each way

The ways are those of tests/acl_spellings.py.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from acl_spellings import WAYS
from surefind import Access, KnowledgeBase


def outcomes(folder: Path) -> dict[str, str]:
    """Syncs every way, each in a folder of its own. Returns the outcome of each."""
    (folder / "surefind.toml").write_text('[search]\npipeline = "words"\n[pipelines.words]\nretrieve = ["bm25"]\n')
    for number, (name, content) in enumerate(WAYS.values()):
        path = folder / "docs" / str(number) / name
        path.parent.mkdir(parents=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    with KnowledgeBase.open(folder) as kb:
        kb.sync(folder / "docs")
        paths = {member.document: member.path for member in kb.catalogue.members(kb.catalogue.contents())}
        public = {paths[one.id].partition("/")[0] for one in kb.documents(Access.public())}
        indexed = {path.partition("/")[0] for path in paths.values()}
    return {way: _outcome(str(number), public, indexed) for number, way in enumerate(WAYS)}


def _outcome(folder: str, public: set[str], indexed: set[str]) -> str:
    return "public" if folder in public else "restricted" if folder in indexed else "refused"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = outcomes(Path(folder))
    if "--each" in sys.argv:
        for way, outcome in found.items():
            print(f"{outcome:<11} {way}")
    counts = Counter(found.values())
    print(f"{len(found)} ways: " + ", ".join(f"{counts[kind]} {kind}" for kind in ("restricted", "refused", "public")))


if __name__ == "__main__":
    main()
