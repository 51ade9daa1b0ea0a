"""A scan of a part of a source finds what a scan of the whole source finds there."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from helpers import Home
from surefind.base.types import Document
from surefind.engine.files.scan import FileRules, Missed, scan
from surefind.engine.store.catalogue import Catalogue


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "docs"
    for name in (
        "a.md", "sub/b.md", "sub/deep/c.md", "sub/.hidden/d.md", "sub/node_modules/e.md", "skipped/f.md", "sub2/g.md",
        "beir/corpus.jsonl", "beir/queries.jsonl", "beir/qrels/test.tsv", "plain/qrels/h.md", "sub/app.min.js",
        ".git/i.md",
    ):  # fmt: skip
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name, encoding="utf-8")
    (root / "linked").mkdir()
    (root / "linked" / "j.md").symlink_to(root / "a.md")
    (root / "linked" / "k.md").write_text("own", encoding="utf-8")
    (root / "way").symlink_to(root / "sub")
    return root


@pytest.mark.parametrize("follow", ["never", "inside", "anywhere"])
def test_a_part_has_the_files_that_the_whole_has_there(tree: Path, follow: str) -> None:
    rules = FileRules(exclude=("skipped/*",), follow_links=follow)  # type: ignore[arg-type]
    steps = {str(path.relative_to(tree)) for path in tree.rglob("*")} | {"way/b.md", "gone.md", "sub/gone"}
    assert {"sub/deep", "beir/qrels/test.tsv", "linked/j.md", ".git", "skipped/f.md"} <= steps
    for below in sorted(steps):
        parts = []
        for given in ("", below):
            missed = Missed()
            found = {entry for entry in scan(tree, rules, missed=missed, below=given) if within(entry.relative, below)}
            parts.append((found, {one for one in missed.skipped if within(one[0], below)}))
        assert parts[0] == parts[1], below


def within(path: str, below: str) -> bool:
    return path == below or path.startswith(f"{below}/")


def test_a_sync_of_one_file_does_not_look_at_the_others(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.md", "sub/b.md", "sub/c.md", "sub2/d.md"):
        home.write(f"docs/{name}", f"# {name}\n\nalpha {name}\n")
    home.sync("docs")
    for name in ("a.md", "sub/b.md", "sub2/d.md"):
        home.write(f"docs/{name}", f"# {name}\n\nbeta {name}\n", age=20)
    (home.docs / "sub/c.md").unlink()
    listed: list[str] = []
    real = os.scandir
    monkeypatch.setattr("os.scandir", lambda folder: listed.append(str(folder)) or real(folder))
    assert home.sync("docs/a.md").changed == 1
    assert not [folder for folder in listed if Path(folder).is_relative_to(home.docs)]
    report = home.sync("docs/sub")
    assert (report.changed, report.removed, report.unchanged) == (1, 1, 0)
    assert home.sync("docs").changed == 1


@pytest.mark.growth
def test_time_grows_with_the_documents_of_one_file_and_not_with_their_square(tmp_path: Path) -> None:
    times = []
    for count in (5_000, 20_000):
        catalogue = Catalogue(tmp_path / str(count))
        with catalogue.transaction():
            source = catalogue.add_source(tmp_path)
            for i in range(count):
                about = (source.id, "corpus.jsonl", 1, 1, 1, "", "beir")
                catalogue.versions.add(Document(f"corpus.jsonl/{i}", "text"), "", about, 1)
        took = []
        for _ in range(3):
            started = time.process_time()
            (row,) = catalogue.files(source, 1).values()
            took.append(time.process_time() - started)
        assert len(row.rows) == count
        times.append(min(took))
        catalogue.close()
    assert times[1] < 9 * times[0]
