"""A knowledge base on milvus-lite, through the interface that everybody uses."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from cases import each

pytest.importorskip("milvus_lite", reason="surefind[milvus] is not installed: make milvus")

from exam_helpers import surefind
from helpers import Home
from surefind.base.access import Access
from surefind.base.errors import ConfigError, MissingPartError, NotBuiltError, UsageError
from surefind.engine.store.backends.milvus.server import Server
from surefind.lab.bench.engine import Bench
from surefind.lab.bench.plan import Contender, Plan
from surefind.lab.exam.model import Exam, ExamQuery, Judgment
from surefind.lab.measure.ranks import Measure

pytestmark = pytest.mark.usefixtures("toys")
PIPELINES = """
[search]
pipeline = "both"
[pipelines.both]
retrieve = ["bm25", "dense(model=toy)"]
fuse = "convex(alpha=0.5, missing=score)"
[pipelines.grams]
retrieve = ["tfidf"]
"""
MILVUS = f'[store]\nbackend = "milvus"\nuri = "kb.db"\n{PIPELINES}'


def written(home: Home, count: int = 8) -> None:
    for i in range(count):
        acl = "acl: [board]\n" if i == 3 else ""
        head = f"---\nstatus: {'draft' if i % 2 else 'final'}\n{acl}---\n"
        home.write(f"docs/{i}.md", f"{head}# Note {i}\n\ncash report {i} of the teller")


def answers(home: Home, access: Access, pipeline: str = "both") -> list[tuple[str, float]]:
    """The hits, in order of score and id: on some processors the scores of documents that are equally good differ in
    the last bit, and Milvus adds numbers in another order."""
    with home.open() as kb:
        hits = kb.search("cash report 5", access, 20, pipeline).hits
        return sorted(((hit.id, round(hit.score, 4)) for hit in hits), key=lambda hit: (-hit[1], hit[0]))


def test_milvus_answers_as_the_local_backend_does(home: Home) -> None:
    home.configure(MILVUS)
    written(home)
    home.sync("docs")
    drafts, final = Access.of("board", where=["status=draft"]), Access.public(["status!=draft"])
    callers = [Access.owner(), Access.public(), drafts, final]
    found = [answers(home, access) for access in callers] + [answers(home, Access.public(), "grams")]
    home.configure(PIPELINES)
    home.sync("docs")
    assert found == [answers(home, access) for access in callers] + [answers(home, Access.public(), "grams")]
    assert [len(one) for one in found] == [8, 7, 4, 4, 7]


def test_changes_and_rollback(home: Home) -> None:
    home.configure(MILVUS)
    written(home)
    home.sync("docs")
    before = answers(home, Access.owner())
    home.write("docs/new.md", "# New\n\nanother cash report 5")
    (home.folder / "docs/0.md").unlink()
    home.sync("docs")
    after = answers(home, Access.owner())
    assert {key for key, _ in before} - {key for key, _ in after}
    with home.open() as kb:
        kb.rollback(1)
    assert answers(home, Access.owner()) == before
    home.sync("docs")
    assert answers(home, Access.owner()) == after


def test_server_without_our_rows_is_not_searched(home: Home) -> None:
    home.configure(MILVUS)
    written(home)
    home.sync("docs")
    home.configure(MILVUS.replace("kb.db", "other.db"))
    with pytest.raises(NotBuiltError, match=r"does not have this generation. Write it again with: surefind sync"):
        answers(home, Access.owner())
    home.sync("docs")
    assert len(answers(home, Access.owner())) == 8


def test_copy_of_a_knowledge_base_leaves_the_original_alone(home: Home, tmp_path: Path) -> None:
    home.configure(MILVUS.replace("kb.db", str(tmp_path / "shared.db")))
    written(home)
    home.sync("docs")
    before = answers(home, Access.owner())
    shutil.copytree(home.folder, tmp_path / "copy")
    copy = Home(tmp_path / "copy", (home.folder / "surefind.toml").read_text())
    assert answers(copy, Access.owner()) == before
    copy.write("docs/new.md", "# New\n\nanother cash report 5")
    for i in range(4):  # more syncs than there are kept generations, so that the first ones are deleted
        copy.write("docs/0.md", f"# Other\n\ncash report 5, version {i}")
        copy.sync("docs")
    assert answers(home, Access.owner()) == before
    assert len(answers(copy, Access.owner())) == 17  # its own folder, and the one that it was copied with


def test_status_says_where_the_indexes_are(home: Home) -> None:
    home.configure(MILVUS)
    written(home)
    home.sync("docs")
    ran = surefind("status", kb=home.folder)
    assert "Backend         milvus, kb.db" in ran.out
    assert "Index           bm25(" in ran.out


def test_doctor_compares_with_local_indexes(home: Home) -> None:
    home.configure(MILVUS)
    written(home)
    home.sync("docs")
    ran = surefind("doctor", "--parity", kb=home.folder)
    assert "milvus against local: bm25(k1=1.5, b=0.75, analyzer=auto): overlap of the first ten 1.000" in ran.out


@each(
    "line, message",
    [
        ('backend = "milvsu"', "backend must be one of local, milvus, not 'milvsu'"),
        ('backend = "milvus"\nuri = "kb"', "uri must be a path that ends in .db"),
        ('backend = "milvus"\nuri = "ftp://x/kb.db"', "uri must begin with http:// or https://"),
        ('backend = "milvus"\ntoken_env = "root:Milvus"', "token_env must be the name of an environment variable"),
        ("beckend = 1", r"\[store\] has no setting 'beckend'. Did you mean backend\?"),
    ],
)
def test_wrong_settings_are_named_with_their_line(line: str, message: str, home: Home) -> None:
    home.configure(f"[store]\n{line}\n")
    with pytest.raises(ConfigError, match=message):
        home.open()


def test_server_of_somebody_else_gets_nothing_before_it_is_trusted(home: Home) -> None:
    written(home)
    home.configure('[store]\nbackend = "milvus"\nuri = "http://milvus.example.com:19530"\n')
    with pytest.raises(UsageError, match=r"The server milvus\.example\.com is not confirmed yet"):
        home.sync("docs")


def test_token_that_is_not_set_is_named(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUREFIND_MILVUS_TOKEN", raising=False)
    written(home)
    home.configure('[store]\nbackend = "milvus"\nuri = "http://localhost:19530"\ntoken_env = "SUREFIND_MILVUS_TOKEN"\n')
    with pytest.raises(ConfigError, match="The environment variable SUREFIND_MILVUS_TOKEN is not set"):
        home.sync("docs")


def test_isolated_statistics_are_refused(home: Home) -> None:
    written(home)
    home.configure(f'[access]\nisolation = "statistics"\n{MILVUS}')
    with pytest.raises(ConfigError, match="needs the local backend"):
        home.sync("docs")


def test_missing_package_is_named(home: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import sys

    from surefind.engine.store.backends.milvus.server import Server

    monkeypatch.setitem(sys.modules, "pymilvus", None)
    with pytest.raises(MissingPartError, match=r"pip install 'surefind\[milvus\]'"):
        Server(str(tmp_path / "kb.db")).collections("")


def test_benchmark_asks_milvus_and_not_the_results_of_the_local_backend(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    real = Server.search

    def search(self: Server, *given: Any, **named: Any) -> Any:
        asked.append(1)
        return real(self, *given, **named)

    monkeypatch.setattr(Server, "search", search)
    written(home)
    found = []
    for settings in (PIPELINES, MILVUS):
        home.configure(settings)
        home.sync("docs")
        with home.open() as kb:
            judged = tuple(ExamQuery(f"q{i}", f"cash report {i}", (Judgment(f"{i}.md"),)) for i in (0, 5))
            plan = Plan((Contender("both", kb.pipeline("both")),), Exam("x", judged), (Measure("nDCG", 10),))
            asked.clear()
            found.append(Bench(kb).rank(plan).rankings[0])
    assert asked, "the second benchmark is of another backend"
    ids, scores = zip(*((one.ids.tolist(), one.scores.round(4).tolist()) for one in found), strict=True)
    assert scores[0] == scores[1]
    for row in range(len(scores[0])):  # equally good ones in any order
        first, second = (sorted(zip(scores[0][row], one[row], strict=True)) for one in ids)
        assert first == second
