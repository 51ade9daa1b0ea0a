"""The knowledge base as a caller sees it: answers, their explanation, and complaints."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers import EXAMPLE, WORDS, Home, ask
from surefind import KnowledgeBase
from surefind.base.errors import ConfigError, NothingIndexedError, QueryError, SpecError, StoreError

RERANKED = WORDS + '[pipelines.failing]\nretrieve = ["bm25"]\nrerank = ["failing"]\n'


@pytest.fixture
def small(home: Home) -> Home:
    home.write("docs/a.md", "---\nstatus: final\n---\n# Cash\n\nThe teller counts cash twice.")
    home.write("docs/b.md", "# Cards\n\nCards are issued at the branch. Cash is not.")
    home.write("docs/c.md", "# Wires\n\nWires need two approvals.")
    home.sync("docs")
    return home


@pytest.mark.parametrize("query", ["", "  \n\t"])
def test_empty_query_is_refused(small: Home, query: str) -> None:
    with pytest.raises(QueryError, match="The query is empty"):
        small.found(query)


def test_oversized_query_is_refused_with_both_numbers(small: Home) -> None:
    with pytest.raises(QueryError, match="has 100,000 characters; the limit is 10,000"):
        small.found("x" * 100_000)


def test_longest_query_is_answered(small: Home) -> None:
    assert small.found(("cash " * 2000)[:10_000])


@pytest.mark.parametrize("k", [0, -1, 1001])
def test_k_out_of_range_is_refused(small: Home, k: int) -> None:
    with pytest.raises(QueryError, match=f"k must be from 1 to 1,000, not {k}"):
        small.found("cash", k=k)


def test_k_above_the_number_of_passages_gives_all_that_match(small: Home) -> None:
    assert sorted(small.found("cash", k=1000)) == ["a.md", "b.md"]


@pytest.mark.parametrize("query", ["qzxv", "?!…", "the", "\x00", "🍮", "' OR 1=1 --"])
def test_query_that_matches_nothing_gives_no_hits(small: Home, query: str) -> None:
    assert small.found(query) == []


def test_unknown_pipeline_lists_the_known(small: Home) -> None:
    with pytest.raises(ConfigError, match=r"Did you mean words\? Choices: careful, hybrid, pair, thorough, words\."):
        small.found("cash", pipeline="word")


def test_pipeline_may_be_given_as_a_spec(small: Home) -> None:
    assert small.found("cash", pipeline="bm25(k1=0)") == small.found("cash")


def test_bad_spec_of_a_pipeline_is_refused(small: Home) -> None:
    with pytest.raises(SpecError, match="no parameter 'k3'"):
        small.found("cash", pipeline="bm25(k3=0)")


def test_searching_where_nothing_was_synced_says_how_to_begin(home: Home) -> None:
    with pytest.raises(NothingIndexedError, match=r"There is no knowledge base in .* surefind sync FOLDER"):
        home.found("cash")


def test_searching_leaves_an_unsynced_folder_untouched(home: Home) -> None:
    with pytest.raises(NothingIndexedError):
        home.found("cash")
    assert not (home.folder / ".surefind").exists()


def test_syncing_nothing_in_a_new_knowledge_base_asks_for_a_folder(home: Home) -> None:
    with pytest.raises(NothingIndexedError, match="Name a folder: surefind sync docs/"):
        home.sync()


def test_opening_a_file_is_refused(home: Home) -> None:
    path = home.write("docs/a.md", "x")
    with pytest.raises(StoreError, match="is a file"):
        KnowledgeBase.open(path)


def test_knowledge_base_of_blank_documents_is_empty_not_broken(home: Home) -> None:
    home.write("docs/a.md", "---\ntitle: Nothing\n---\n\n")
    home.sync("docs")
    with pytest.raises(NothingIndexedError, match="is empty"):
        home.found("nothing")


def test_hit_carries_everything_about_its_passage(small: Home) -> None:
    with small.open() as kb:
        hit = ask(kb, "teller").hits[0]
    assert (hit.rank, hit.document, hit.title, hit.headings) == (1, "a.md", "Cash", ("Cash",))
    assert hit.text == "# Cash\n\nThe teller counts cash twice."
    assert hit.metadata == {"status": "final", "language": "en"}
    assert hit.stages["bm25"] == (1, hit.score)


def test_offsets_of_a_hit_lead_back_to_the_file(home: Home) -> None:
    for path in sorted(EXAMPLE.glob("runbooks/*.md"))[:8]:
        home.write(f"docs/{path.name}", path.read_text(encoding="utf-8"))
    home.sync("docs")
    with home.open() as kb:
        hits = ask(kb, "restart the job and check the queue", k=50).hits
    assert len(hits) >= 5
    for hit in hits:
        body = (home.docs / hit.document).read_text(encoding="utf-8").split("\n---\n", 1)[1]
        assert body[hit.start : hit.end] == hit.text
        assert hit.start <= hit.matched[0] < hit.matched[1] <= hit.end


def test_hits_are_ranked_from_1_with_falling_scores(small: Home) -> None:
    with small.open() as kb:
        hits = ask(kb, "cash cards teller", k=10).hits
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_trace_names_every_stage_with_its_spec(tmp_path: Path, toys: None) -> None:
    home = Home(tmp_path, WORDS + '[pipelines.both]\nretrieve = ["bm25", "dense(model=toy)"]\n')
    home.write("docs/a.md", "cash")
    home.sync("docs")
    with home.open() as kb:
        result = ask(kb, "cash", pipeline="both")
    assert [(entry.stage, entry.spec) for entry in result.trace] == [
        ("retrieve", "bm25(k1=1.5, b=0.75, analyzer=auto)"),
        ("retrieve", "dense(model=toy)"),
        ("fuse", "rrf(k=60.0)"),
    ]
    assert set(result.hits[0].stages) == {"bm25", "dense", "rrf"}


def test_two_retrievers_of_one_name_are_told_apart(small: Home) -> None:
    with small.open() as kb:
        hit = ask(kb, "cash", pipeline="bm25 + bm25(k1=0)").hits[0]
    assert set(hit.stages) == {"bm25", "bm25:2", "rrf"}


def test_failing_reranker_leaves_the_ranking_before_it_and_says_so(tmp_path: Path, toys: None) -> None:
    home = Home(tmp_path, RERANKED)
    home.write("docs/a.md", "cash cash")
    home.write("docs/b.md", "cash and more")
    home.sync("docs")
    with home.open() as kb:
        result = ask(kb, "cash", pipeline="failing")
        plain = ask(kb, "cash")
    assert [hit.id for hit in result.hits] == [hit.id for hit in plain.hits]
    assert result.trace[-1].note == "fell back: The model did not answer."


def test_reranker_decides_the_order(tmp_path: Path, toys: None) -> None:
    home = Home(tmp_path, WORDS + '[pipelines.reranked]\nretrieve = ["bm25"]\nrerank = ["shared_words"]\n')
    home.write("docs/a.md", "cash cash cash cash")
    home.write("docs/b.md", "some words about cash and also a report that is long and long and longer")
    home.sync("docs")
    assert home.found("cash report report", pipeline="reranked") == ["b.md", "a.md"]


def test_hybrid_search_with_the_bundled_encoder(tmp_path: Path) -> None:
    home = Home(tmp_path, "")
    home.write("docs/leave.md", "Staff get twenty days of paid vacation each year.")
    home.write("docs/cash.md", "The vault is opened by two officers.")
    home.write("docs/form.md", "Form CUB-2210 is archived.")
    home.sync("docs")
    assert home.found("How much holiday do employees have?", k=1) == ["leave.md"]
    assert home.found("CUB-2210", k=1) == ["form.md"]


def test_status_tells_what_there_is(small: Home) -> None:
    small.write("docs/bad.md", b"\xff\xfa")
    small.sync()
    with small.open() as kb:
        status = kb.status()
    assert (status.documents, status.chunks, status.generation, status.restricted) == (3, 3, 1, 0)
    assert status.sources == [str(small.docs)]
    assert list(status.indexes) == ["bm25(analyzer=auto)"]
    assert [problem.path for problem in status.problems] == ["bad.md"]
