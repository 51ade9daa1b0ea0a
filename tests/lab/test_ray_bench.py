"""A benchmark that is spread over a real Ray cluster of two nodes gives the figures of one process."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray", reason="surefind[ray] is not installed: make ray")

from helpers import Home
from ray_helpers import Cluster, kill
from surefind.base.access import Access
from surefind.engine.write.layout import Layout
from surefind.lab.bench import spread as spreading
from surefind.lab.bench.engine import Bench
from surefind.lab.bench.plan import Contender, Plan, from_texts
from surefind.lab.bench.report import BenchReport
from surefind.lab.bench.run import known_item_exam, run_bench
from surefind.lab.measure.ranks import Measure

GRID = ["bm25(k1=[0.9, 1.5])", "tfidf", "bm25 + tfidf >> rrf(k=[10, 60])", "bm25 >> cross_encoder"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("ray"))
    yield made
    made.end()


def written(home: Home) -> Home:
    for i in range(12):
        text = f"# Vault number {i}\n\nThe teller counts drawer {i} twice.\n\n## Night {i}\n\nClosed."
        home.write(f"docs/{i}.md", text)
    home.sync("docs")
    return home


def plan_of(home: Home) -> tuple[Any, Plan]:
    kb = home.open()
    pipelines = from_texts(GRID, kb.settings.pipelines)
    cut = Layout.read("fixed(tokens=40, overlap=0)")
    contenders = (*pipelines, *(Contender(f"{one.name} fixed", one.pipeline, cut) for one in pipelines[:2]))
    return kb, Plan(
        contenders, known_item_exam(kb, per_family=4), (Measure("nDCG", 10), Measure("R", 5)), Access.owner()
    )


def figures(report: BenchReport) -> list[Any]:
    return [(row.name, row.layout, row.measures, row.scores) for row in report.rows]


def test_cluster_gives_the_figures_of_one_process(home: Home, cluster: Cluster, tmp_path: Path) -> None:
    kb, plan = plan_of(written(home))
    with kb:
        spread = run_bench(kb, plan, "bench", ray=cluster.address).report
    alone, same = plan_of(written(Home(tmp_path / "alone")))
    with alone:
        assert figures(spread) == figures(run_bench(alone, same, "bench").report)


def test_every_ranking_comes_from_the_cluster(home: Home, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    kb, plan = plan_of(written(home))
    with kb:
        bench = Bench(kb, ahead=spreading.spread(cluster.address))
        bench.build(plan)

        def searched(*_: object) -> None:
            raise AssertionError("a retriever was searched on this machine")

        for contender in plan.contenders:
            monkeypatch.setattr(type(bench.view(contender)), "search", searched)
        assert len(bench.rank(plan).rankings) == len(plan.contenders)


def test_nodes_keep_no_copy_and_need_no_other_generation(home: Home, cluster: Cluster) -> None:
    """A copy has all documents, restricted ones too. Only the indexes of the current set are sent."""
    copies = lambda: list(Path(tempfile.gettempdir()).glob("surefind-bench-*"))  # noqa: E731
    before = copies()
    written(home)
    home.write("docs/3.md", "# Vault number 3\n\nThe teller counts drawer 3 again.", age=20)
    home.sync()
    kb, plan = plan_of(home)
    with kb:
        every = {path.name for path in (kb.data / "indexes").iterdir()}
        sent = {path.name for path in kb.folders(kb.reader().generation)}
        assert sent < every
        run_bench(kb, plan, "bench", ray=cluster.address)
    assert copies() == before


def test_lost_node_changes_nothing(home: Home, cluster: Cluster, tmp_path: Path) -> None:
    kb, plan = plan_of(written(home))
    killed: list[int] = []

    def kill_in_the_middle(what: str, done: int, total: int) -> None:
        if what == "Ranking on the cluster" and not killed and done >= 1:
            kill(cluster.second)
            killed.append(done)

    try:
        with kb:
            spread = run_bench(kb, plan, "bench", report=kill_in_the_middle, ray=cluster.address).report
        assert killed
        alone, same = plan_of(written(Home(tmp_path / "alone")))
        with alone:
            assert figures(spread) == figures(run_bench(alone, same, "bench").report)
    finally:
        cluster.second = cluster.add_node()
