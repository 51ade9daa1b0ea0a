"""A sync on a real Ray cluster of two nodes gives what one process gives, whatever happens to the nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="surefind[ray] is not installed: make ray")

import ray_helpers
from helpers import WORDS, Home
from ray_helpers import Cluster, kill
from surefind.base.access import Access
from surefind.base.errors import MissingPartError, StoreError
from surefind.engine.write import cluster as clusters

COUNT = 60


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("ray"))
    yield made
    made.end()


@pytest.fixture(autouse=True)
def logged(monkeypatch: pytest.MonkeyPatch, cluster: Cluster) -> None:
    monkeypatch.setattr(clusters, "prepared_here", ray_helpers.logged)
    monkeypatch.setenv(ray_helpers.LOG, str(cluster.log))
    cluster.log.write_text("")


def written(home: Home, count: int = COUNT) -> None:
    for i in range(count):
        home.write(f"docs/{i:03}.md", f"# Note {i}\n\nThe cash report {i} of the teller.\n\n## Part\n\nMore of {i}.")
    home.write("docs/broken.json", "{")
    home.write("docs/zero.md", b"\xff\xfe\x00broken \xff")


def state(home: Home) -> list[object]:
    """Everything that a sync produced, without times."""
    with home.open() as kb:
        documents = [(d.id, d.title, d.text, dict(d.metadata)) for d in kb.documents(Access.owner())]
        hits = [(h.id, h.score, h.text) for h in kb.search("cash report 7", Access.owner(), 200).hits]
        problems = [(p.path, p.reason) for p in kb.status().problems]
    return [documents, hits, problems]


def expected(tmp_path: Path) -> list[object]:
    alone = Home(tmp_path / "alone")
    written(alone)
    alone.sync("docs")
    return state(alone)


def test_cluster_gives_what_one_process_gives(home: Home, cluster: Cluster, tmp_path: Path) -> None:
    written(home)
    report = home.sync("docs", ray=cluster.address)
    assert report.added == len(home.open().documents(Access.owner())) >= COUNT
    assert state(home) == expected(tmp_path)
    assert Counter(Path(path).name for _, path in cluster.tasks()) == Counter(p.name for p in home.docs.iterdir())
    assert not (home.folder / ".surefind/cache/prepared.db").exists()


def test_interrupted_sync_continues_where_it_stopped(home: Home, cluster: Cluster, tmp_path: Path) -> None:
    written(home)

    def stop(what: str, done: int, total: int) -> None:
        if what == "Reading" and done >= 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        home.sync("docs", ray=cluster.address, report=stop)
    first = Counter(path for _, path in cluster.tasks())
    assert 20 <= len(first) < COUNT
    cluster.log.write_text("")
    home.sync("docs", ray=cluster.address)
    again = first.keys() & {path for _, path in cluster.tasks()}
    assert len(again) <= 8  # those whose answers were on their way
    assert state(home) == expected(tmp_path)


def test_hostile_documents_cost_a_node_what_they_cost_here(home: Home, cluster: Cluster, tmp_path: Path) -> None:
    """Each is stopped by its own limits in a process of the node, and the others are read."""
    hostile = {
        "slow.md": ">" * 20 + "a\n" + "a\n" * 1_000_000,
        "front.md": "---\na: " + "[" * 40_000 + "\n---\n# Front\n\nText.\n",
        "aliases.md": "---\na: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n---\n# Aliases\n\nText.\n",
        "rows.jsonl": '{"_id": "1", "text": "a", "metadata": {"a": ' + "[" * 900 + "]" * 900 + "}}",
        "x\u202e.md": "# Odd name\n\nText.\n",
    }
    for one in (alone := Home(tmp_path / "alone")), home:
        one.configure(WORDS + "[sync]\nmax_seconds = 4\n")
        written(one, 10)
        for name, text in hostile.items():
            one.write(f"docs/{name}", text)
    home.sync("docs", ray=cluster.address)
    alone.sync("docs")
    there, here = state(home), state(alone)
    assert there == here
    assert any("max_seconds" in reason for _, reason in here[2])  # type: ignore[attr-defined]


def test_killed_node_loses_and_duplicates_nothing(home: Home, cluster: Cluster, tmp_path: Path) -> None:
    written(home)
    killed: list[int] = []

    def kill_in_the_middle(what: str, done: int, total: int) -> None:
        working = str(cluster.second.pid) in {node for node, _ in cluster.tasks()}
        if what == "Reading" and done >= 10 and working and not killed:
            kill(cluster.second)
            killed.append(done)

    try:
        home.sync("docs", ray=cluster.address, report=kill_in_the_middle)
        assert killed and killed[0] < COUNT - 5
        assert state(home) == expected(tmp_path)
        with home.open() as kb:
            ids = [document.id for document in kb.documents(Access.owner())]
        assert len(ids) == len(set(ids))
    finally:
        cluster.second = cluster.add_node()


def test_node_with_another_version_is_named(home: Home, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    written(home, 3)
    monkeypatch.setattr(clusters, "__version__", "99.0")
    with pytest.raises(StoreError, match=r"has Surefind .*, and this machine has 99\.0\. Install the same version"):
        home.sync("docs", ray=cluster.address)


def test_cluster_that_is_not_there_is_named(home: Home) -> None:
    written(home, 3)
    with pytest.raises(StoreError, match=r"The Ray cluster 127\.0\.0\.1:1 cannot be reached"):
        home.sync("docs", ray="127.0.0.1:1")


def test_missing_package_is_named(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    written(home, 3)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingPartError, match=r"pip install 'surefind\[ray\]'"):
        home.sync("docs", ray="auto")
