"""Filters and access groups: decided before ranking, through every pipeline."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest

from helpers import Home, ask
from surefind.access import Access, Filter
from surefind.errors import UsageError
from surefind.store.columns import Columns
from surefind.types import Query

SETTINGS = """
[search]
pipeline = "words"
[pipelines.words]
retrieve = ["bm25"]
[pipelines.meaning]
retrieve = ["dense(model=toy)"]
[pipelines.rrf]
retrieve = ["bm25", "dense(model=toy)"]
[pipelines.convex]
retrieve = ["bm25", "dense(model=toy)"]
fuse = "convex(alpha=0.5)"
[pipelines.shallow]
retrieve = ["bm25", "dense(model=toy)"]
depth = 1
[pipelines.reranked]
retrieve = ["bm25"]
rerank = ["shared_words"]
"""
PIPELINES = ["words", "meaning", "rrf", "convex", "shallow", "reranked"]

pytestmark = pytest.mark.usefixtures("toys")


@pytest.fixture
def bank(tmp_path: Path) -> Home:
    """Restricted documents that match best, public ones that match less, of two statuses."""
    home = Home(tmp_path, SETTINGS)
    for i in range(6):
        group = ["compliance", "board"][i % 2]
        home.write(f"docs/secret{i}.md", f"---\nacl: [{group}]\nstatus: approved\n---\nsalary salary salary raise")
    for i in range(4):
        status = ["approved", "draft"][i % 2]
        home.write(f"docs/public{i}.md", f"---\nstatus: {status}\nyear: {2020 + i}\n---\nsalary and many other words")
    home.write("docs/both.md", "---\nacl: [compliance, board]\nstatus: draft\n---\nsalary raise of the board")
    home.sync("docs")
    return home


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_restricted_documents_never_appear_without_a_group(bank: Home, pipeline: str) -> None:
    found = bank.found("salary raise", pipeline=pipeline, k=20)
    assert sorted(set(found)) == ["public0.md", "public1.md", "public2.md", "public3.md"]


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_member_sees_the_documents_of_the_group_and_no_other(bank: Home, pipeline: str) -> None:
    found = {*bank.found("salary raise", pipeline=pipeline, k=20, groups=["board"])}
    assert {name for name in found if name.startswith("secret")} == {"secret1.md", "secret3.md", "secret5.md"}
    assert "both.md" in found


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_filter_and_group_both_hold(bank: Home, pipeline: str) -> None:
    found = bank.found("salary raise", pipeline=pipeline, k=20, where=["status=draft"])
    assert sorted(found) == ["public1.md", "public3.md"]
    found = bank.found("salary raise", pipeline=pipeline, k=20, where=["status=draft"], groups=["compliance"])
    assert sorted(found) == ["both.md", "public1.md", "public3.md"]


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_top_1_of_those_without_a_group_is_a_public_document(bank: Home, pipeline: str) -> None:
    """The best eleven are out of reach: a mask after top-k would leave nothing."""
    (only,) = bank.found("salary raise", pipeline=pipeline, k=1)
    assert only.startswith("public")


def test_owner_sees_everything(bank: Home) -> None:
    assert len(bank.found("salary", k=20, groups=["*"])) == 11


def test_group_of_another_name_sees_only_what_is_public(bank: Home) -> None:
    assert len(bank.found("salary", k=20, groups=["comp", "Board", ""])) == 4


def test_result_says_how_many_documents_were_withheld(bank: Home) -> None:
    with bank.open() as kb:
        assert ask(kb, "salary").withheld == 7
        assert ask(kb, "salary", groups=["*"]).withheld == 0
        assert ask(kb, "salary", groups=["*"], where=["status=draft"]).withheld == 8


def test_document_that_becomes_restricted_is_hidden_after_the_next_sync(bank: Home) -> None:
    bank.write("docs/public0.md", "---\nacl: board\n---\nsalary")
    bank.sync()
    assert "public0.md" not in bank.found("salary", k=20)


def test_document_whose_front_matter_breaks_stays_as_restricted_as_it_was(bank: Home) -> None:
    bank.write("docs/secret0.md", "---\nacl: [compliance\n---\nsalary salary salary")
    bank.sync()
    assert "secret0.md" not in bank.found("salary", k=20)
    assert "secret0.md" in bank.found("salary", k=20, groups=["compliance"])


def test_new_document_with_broken_front_matter_is_not_taken_in(bank: Home) -> None:
    bank.write("docs/new.md", "---\nacl: [compliance\n---\nsalary salary salary")
    report = bank.sync()
    assert [problem.path for problem in report.problems] == ["new.md"]
    assert "new.md" not in bank.found("salary", k=20, groups=["*"])


# ---------------------------------------------------------------- filters


@pytest.mark.parametrize(
    ("text", "key", "operator", "values"),
    [
        ("status=approved", "status", "=", ("approved",)),
        (" status = Approved ", "status", "=", ("approved",)),
        ("doc_type=sop, policy", "doc_type", "=", ("sop", "policy")),
        ("tags!=draft", "tags", "!=", ("draft",)),
        ("effective>=2025-01-01", "effective", ">=", ("2025-01-01",)),
        ("year<=2024", "year", "<=", ("2024",)),
    ],
)
def test_filter_is_read(text: str, key: str, operator: str, values: tuple[str, ...]) -> None:
    assert Filter.parse(text) == Filter(key, operator, values)


def test_operator_inside_a_value_is_part_of_the_value() -> None:
    assert Filter.parse("rule=a!=b") == Filter("rule", "=", ("a!=b",))


@pytest.mark.parametrize("text", ["", "status", "=approved", pytest.param("!=x")])
def test_unreadable_filter_shows_how_to_write_one(text: str) -> None:
    with pytest.raises(UsageError, match="Write it like status=approved"):
        Filter.parse(text)


@pytest.mark.parametrize(
    ("text", "metadata", "accepted"),
    [
        ("status=approved", {"status": "Approved"}, True),
        ("status=approved", {"status": "draft"}, False),
        ("status=approved", {}, False),
        ("tags=a,b", {"tags": ["x", "B"]}, True),
        ("tags!=draft", {"tags": ["x", "draft"]}, False),
        ("tags!=draft", {}, True),
        ("year>=2024", {"year": 2024}, True),
        ("year>=900", {"year": 2024}, True),
        ("year<=2024", {"year": 2025}, False),
        ("effective>=2025-01-01", {"effective": "2025-06-02"}, True),
        ("effective<=2025-01-01", {"effective": "2025-06-02"}, False),
        ("effective>=2025-01-01", {}, False),
        ("final=true", {"final": True}, True),
    ],
)
def test_filter_accepts(text: str, metadata: dict[str, object], accepted: bool) -> None:
    one = Filter.parse(text)
    columns = Columns.build([json.dumps({one.key: []}), json.dumps(metadata)])
    assert bool(columns[one.key].having(one, 2)[1]) is accepted


def test_filter_that_nothing_passes_gives_no_hits(bank: Home) -> None:
    for pipeline in PIPELINES:
        assert bank.found("salary", pipeline=pipeline, where=["status=nonesuch"]) == []


# ---------------------------------------------------------------- searches behind a search


def test_searches_of_a_reranker_score_graphs_without_documents_that_the_caller_may_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agentic step searches again: its candidates were once scored through every document."""
    from surefind.retrieve._graph import GraphIndex
    from surefind.search.reach import Reach

    home = Home(tmp_path, '[search]\npipeline = "words"\n[pipelines.words]\nretrieve = ["bm25"]\n')
    for i in range(4):
        home.write(f"docs/open{i}.md", f"# Oak Street {i}\n\nDana Whitfield runs Oak Street with {i} tellers.")
        home.write(f"docs/closed{i}.md", f"---\nacl: [board]\n---\n# Dana Whitfield {i}\n\nOak Street closes in May.")
    home.sync("docs")
    masks: list[bytes] = []
    real = GraphIndex._scores
    with home.open() as kb:
        pipeline = kb.pipeline("bm25 + ppr(seed=[bm25]) @3 >> weighted(weights=[1, 1], missing=score)")
        kb.build(pipeline)
        view = kb.reader().view
        view.ready(pipeline.retrieve)
        expected = view.mask(Access.public()).key
        monkeypatch.setattr(
            GraphIndex, "_scores", lambda self, r, q, allow: masks.append(allow.key) or real(self, r, q, allow)
        )
        reach = Reach(pipeline, view, kb.services, Access.public())
        found = reach.search([Query("Dana Whitfield Oak Street")], 20)
        documents = {chunk.document for chunk in reach[found.row(0)[0].tolist()]}
        view.score(pipeline.retrieve[1], [Query("Dana")], found.ids, Access.public())
    assert documents and documents <= {f"open{i}.md" for i in range(4)}
    assert expected
    assert len(masks) >= 2 and set(masks) == {expected}


@pytest.mark.parametrize("call", ["search", "score", "near", "chunks", "passages", "admitted", "withheld"])
def test_no_call_has_a_default_access(call: str) -> None:
    from surefind import KnowledgeBase
    from surefind.search.reader import Reader
    from surefind.store.backend import View
    from surefind.store.backends.view import LocalView

    for owner in (View, LocalView):
        parameter = inspect.signature(getattr(owner, call)).parameters["access"]
        assert parameter.default is inspect.Parameter.empty
    for owner, name in (
        (KnowledgeBase, "search"),
        (KnowledgeBase, "documents"),
        (Reader, "search"),
        (Reader, "documents"),
    ):
        assert inspect.signature(getattr(owner, name)).parameters["access"].default is inspect.Parameter.empty


def test_no_index_searches_or_scores_without_a_mask() -> None:
    """Below the seam the mask has no default either."""
    from surefind.retrieve import (
        _communities,
        _graph,
        _overlap,
        _postings,
        _sparse,
        _tfidf,
        _vectors,
        hyde,
        multi_query,
    )

    kinds = [_communities.CommunityIndex, _graph.GraphIndex, _overlap.Overlap, _postings.Postings, _sparse.SparseIndex]
    kinds += [_tfidf.Features, _vectors.Vectors, hyde._Drafted, multi_query._Rewritten]
    for kind in kinds:
        calls = [
            getattr(kind, name) for name in ("search", "score", "near", "nearest") if callable(getattr(kind, name, 0))
        ]
        assert calls
        for call in calls:
            assert inspect.signature(call).parameters["allow"].default is inspect.Parameter.empty, call
