"""Filters and access groups: decided before ranking, through every pipeline."""

from __future__ import annotations

import inspect
import io
import json
import random
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from cases import each
from helpers import WORDS, Home, ask
from surefind import KnowledgeBase
from surefind.base.access import Access, Filter, PathRule
from surefind.base.errors import ConfigError, UsageError
from surefind.base.types import Query
from surefind.engine.search.pipeline import Reading
from surefind.engine.store.table import Columns

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
    assert len(bank.found("salary", k=20, groups=["comp", "Board"])) == 4


def test_result_says_how_many_documents_were_withheld(bank: Home) -> None:
    with bank.open() as kb:
        assert ask(kb, "salary").withheld == 7
        assert ask(kb, "salary", groups=["*"]).withheld == 0
        assert ask(kb, "salary", groups=["*"], where=["status=draft"]).withheld == 8


def test_document_that_becomes_restricted_is_hidden_after_the_next_sync(bank: Home) -> None:
    bank.write("docs/public0.md", "---\nacl: board\n---\nsalary")
    bank.sync()
    assert "public0.md" not in bank.found("salary", k=20)


@pytest.mark.parametrize(
    "content",
    [
        b"---\nacl: [board]\n---\nsalary \xff",
        "---\nacl: [board]\n---\nsalary".encode("utf-16-le"),
        b"# Pay\n\nacl: board\n\nsalary \xff",
    ],
)
def test_earlier_version_is_withdrawn_if_the_new_one_cannot_be_read_and_may_restrict_it(
    bank: Home, content: bytes
) -> None:
    bank.write("docs/public0.md", content, age=30)
    report = bank.sync()
    assert report.removed == 1
    assert "withdrawn, because the new one may restrict who reads it" in report.problems[0].reason
    assert "public0.md" not in bank.found("salary", k=20, groups=["*"])
    assert [problem.path for problem in bank.sync().problems] == ["public0.md"]
    bank.write("docs/public0.md", "---\nacl: [board]\n---\nsalary", age=20)
    assert bank.sync().problems == []
    assert "public0.md" not in bank.found("salary", k=20)
    assert "public0.md" in bank.found("salary", k=20, groups=["board"])


@pytest.mark.parametrize(
    "content",
    [
        "---\nacl: [board\n---\nsalary",
        "---\ntitle: a: b\n---\nsalary",
        "\n---\nacl: [board]\n---\nsalary",
        "+++\nacl = ['board']\n+++\nsalary",
    ],
)
def test_document_that_begins_to_look_restricted_is_left_to_the_owner(bank: Home, content: str) -> None:
    bank.write("docs/public0.md", content, age=30)
    for _ in range(2):
        report = bank.sync()
        assert [problem.path for problem in report.problems] == ["public0.md"]
        assert "public0.md" not in bank.found("salary", k=20, groups=["board"])
        assert "public0.md" in bank.found("salary", k=20, groups=["*"])
    bank.write("docs/public0.md", "---\nacl: [board]\n---\nsalary", age=20)
    assert bank.sync().problems == []
    assert "public0.md" in bank.found("salary", k=20, groups=["board"])


def test_earlier_version_stays_if_the_new_one_cannot_be_read_and_has_no_access_list(bank: Home) -> None:
    bank.write("docs/public0.md", b"salary \xff", age=30)
    assert "the version indexed before is kept" in bank.sync().problems[0].reason
    assert "public0.md" in bank.found("salary", k=20)


def test_new_document_with_broken_front_matter_is_left_to_the_owner(bank: Home) -> None:
    bank.write("docs/new.md", "---\nacl: [compliance\n---\nsalary salary salary")
    report = bank.sync()
    assert [problem.path for problem in report.problems] == ["new.md"]
    assert "new.md" in bank.found("salary", k=20, groups=["*"])
    assert "new.md" not in bank.found("salary", k=20, groups=["compliance", "board"])


# ---------------------------------------------------------------- filters


@each(
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


@each(
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
    from surefind.engine.graph.index import GraphIndex
    from surefind.engine.search.pipeline import PipelinePassages

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
        source = PipelinePassages(pipeline, Reading(view, kb.services, Access.public()))
        found = source.search([Query("Dana Whitfield Oak Street")], 20)
        documents = {chunk.document for chunk in source[found.row(0)[0].tolist()]}
        view.score(pipeline.retrieve[1], [Query("Dana")], found.ids, Access.public())
    assert documents and documents <= {f"open{i}.md" for i in range(4)}
    assert expected
    assert len(masks) >= 2 and set(masks) == {expected}


@each("call", ["search", "score", "near", "chunks", "passages", "admitted", "withheld"])
def test_no_call_has_a_default_access(call: str) -> None:
    from surefind.engine.search.reader import Searcher
    from surefind.engine.store.backend import View
    from surefind.engine.store.backends.view import LocalView

    for owner in (View, LocalView):
        parameter = inspect.signature(getattr(owner, call)).parameters["access"]
        assert parameter.default is inspect.Parameter.empty
    for owner, name in (
        (KnowledgeBase, "search"),
        (KnowledgeBase, "documents"),
        (Searcher, "search"),
        (Searcher, "documents"),
    ):
        assert inspect.signature(getattr(owner, name)).parameters["access"].default is inspect.Parameter.empty


def test_no_index_searches_or_scores_without_a_mask() -> None:
    """Below the seam the mask has no default either."""
    from surefind.engine.graph.index import GraphIndex
    from surefind.engine.retrieve import _communities, _overlap, _postings, _tfidf, _vectors, hyde, multi_query

    kinds = [_communities.CommunityIndex, GraphIndex, _overlap.Overlap, _postings.Postings, _tfidf.SparseIndex]
    kinds += [_postings.JoinedPostings, _vectors.JoinedVectors]
    kinds += [_tfidf.Features, _vectors.Vectors, hyde._Drafted, multi_query._Rewritten]
    for kind in kinds:
        calls = [
            getattr(kind, name) for name in ("search", "score", "near", "nearest") if callable(getattr(kind, name, 0))
        ]
        assert calls
        for call in calls:
            assert inspect.signature(call).parameters["allow"].default is inspect.Parameter.empty, call


# ---------------------------------------------------------------- path rules

HR = ["hr/deep/more.txt", "hr/pay.csv", "hr/pay.html", "hr/pay.json", "hr/pay.md", "hr/pay.txt"]
ZIPPED = ["pack.zip/hr/in.txt", "pack.zip/out.txt"]
ELSEWHERE = ["hrx.txt", "list.csv", "other/list.csv", "other/secret/x.txt", "secret/deep/z.txt", "secret/y.txt"]


def ruled(*rules: tuple[str, list[str]]) -> str:
    """Settings with these rules."""
    written = (f"[[access]]\npath = {json.dumps(path)}\ngroups = {json.dumps(groups)}\n" for path, groups in rules)
    return WORDS + "\n" + "\n".join(written)


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Files of many formats, synced without a rule."""
    home = Home(tmp_path_factory.mktemp("office"))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name in ZIPPED:
            archive.writestr(name.removeprefix("pack.zip/"), "salary in an archive")
    home.write("docs/pack.zip", packed.getvalue())
    for name in (*HR, *ELSEWHERE):
        text = "salary"
        if name.endswith(".csv"):
            text = "name,salary\nada,5"
        elif name.endswith(".json"):
            text = '{"text": "salary"}'
        elif name.endswith(".html"):
            text = "<html><body><p>salary</p></body></html>"
        home.write(f"docs/{name}", text)
    home.sync("docs")
    return home


@each(
    ("path", "covered"),
    [
        ("hr/**", HR),
        ("hr", HR),
        ("hr/", HR),
        ("/hr/", HR),
        ("./hr/**", HR),
        (" hr/** ", HR),
        ("hr/*", HR),
        ("h?", HR),
        ("hr/pay.csv", ["hr/pay.csv"]),
        ("hr/pay.*", [name for name in HR if "pay" in name]),
        ("*.csv", ["list.csv"]),
        ("**/*.csv", ["hr/pay.csv", "list.csv", "other/list.csv"]),
        ("*/*.csv", ["hr/pay.csv", "other/list.csv"]),
        ("**/secret/*", ["other/secret/x.txt", "secret/deep/z.txt", "secret/y.txt"]),
        ("**/deep/**", ["hr/deep/more.txt", "secret/deep/z.txt"]),
        ("pack.zip", ZIPPED),
        ("pack.zip/hr/**", ["pack.zip/hr/in.txt"]),
        ("**/hr/**", [*HR, "pack.zip/hr/in.txt"]),
        ("**", [*HR, *ELSEWHERE, *ZIPPED]),
        ("HR/**", []),
        ("docs/hr/**", []),
        ("r/**", []),
        ("hr/pay", []),
        ("hr.pay.csv", []),
    ],
)
def test_rule_covers_a_path_whatever_the_format(office: Home, path: str, covered: list[str]) -> None:
    office.configure(ruled((path, ["hr"])))
    everything = sorted([*HR, *ELSEWHERE, *ZIPPED])
    assert sorted(office.found("salary", k=50)) == sorted({*everything} - {*covered})
    assert sorted(office.found("salary", k=50, groups=["hr"])) == everything
    assert sorted(office.found("salary", k=50, groups=["*"])) == everything
    with office.open() as kb:
        assert ask(kb, "salary").withheld == len(covered)
        assert kb.status().restricted == len(covered)
        assert {d.id for d in kb.documents(Access.public())} == {*everything} - {*covered}


def test_star_stays_within_a_folder_and_two_stars_do_not() -> None:
    assert PathRule("a/*/c.md", ()).covers("a/b/c.md")
    assert not PathRule("a/*/c.md", ()).covers("a/b/b/c.md")
    assert PathRule("a/**/c.md", ()).covers("a/c.md")
    assert PathRule("a/**/c.md", ()).covers("a/b/b/c.md")
    assert not PathRule("a/?.md", ()).covers("a//.md")
    assert PathRule("a", ()).covers("a/line\nbreak.md")
    assert not PathRule("a.md", ()).covers("axmd")


def test_rule_and_front_matter_both_hold(home: Home) -> None:
    home.configure(ruled(("hr/**", ["hr", "board"])))
    home.write("docs/hr/a.md", "---\nacl: [audit, board]\n---\nsalary")
    home.sync("docs")
    for groups in ([], ["hr"], ["audit"], ["other"]):
        assert home.found("salary", groups=groups) == []
    for groups in (["hr", "audit"], ["board"], ["*"]):
        assert home.found("salary", groups=groups) == ["hr/a.md"]


def test_two_rules_on_one_file_both_hold(home: Home) -> None:
    home.configure(ruled(("hr/**", ["hr"]), ("**/*.txt", ["texts"])))
    home.write("docs/hr/a.txt", "salary")
    home.write("docs/hr/a.md", "salary")
    home.write("docs/a.txt", "salary")
    home.sync("docs")
    assert home.found("salary") == []
    assert home.found("salary", groups=["hr"]) == ["hr/a.md"]
    assert home.found("salary", groups=["texts"]) == ["a.txt"]
    assert sorted(home.found("salary", groups=["hr", "texts"])) == ["a.txt", "hr/a.md", "hr/a.txt"]


def test_rule_without_groups_leaves_a_document_to_the_owner(home: Home) -> None:
    home.configure(ruled(("a.txt", [])))
    home.write("docs/a.txt", "salary")
    home.sync("docs")
    for groups in ([], ["hr"], ["a.txt"]):
        assert home.found("salary", groups=groups) == []
    assert home.found("salary", groups=["*"]) == ["a.txt"]


def test_rule_covers_the_path_and_the_prefixed_id_of_a_second_source(home: Home) -> None:
    home.write("one/hr/x.txt", "salary")
    home.write("two/hr/x.txt", "salary")
    home.write("two/y.txt", "salary")
    home.sync("one", "two")
    assert sorted(home.found("salary")) == ["hr/x.txt", "two/hr/x.txt", "y.txt"]
    home.configure(ruled(("hr/**", ["hr"])))
    assert home.found("salary") == ["y.txt"]
    home.configure(ruled(("two/**", ["hr"])))
    assert sorted(home.found("salary")) == ["hr/x.txt", "y.txt"]


def test_records_of_a_file_are_covered_by_its_path(home: Home) -> None:
    home.write("docs/hr/people.jsonl", '{"id": "1", "text": "salary"}\n{"id": "2", "text": "salary"}\n')
    home.sync("docs")
    assert len(home.found("salary")) == 2
    home.configure(ruled(("hr/people.jsonl", ["hr"])))
    assert home.found("salary") == []


def test_rule_takes_effect_at_the_next_open_without_a_sync(office: Home) -> None:
    office.configure(WORDS)
    with office.open() as before:
        assert "hr/pay.txt" in [hit.document for hit in ask(before, "salary", k=50).hits]
        office.configure(ruled(("hr/**", ["hr"])))
        assert "hr/pay.txt" not in office.found("salary", k=50)
    office.configure(WORDS)
    assert "hr/pay.txt" in office.found("salary", k=50)


RULE_LINE = WORDS.count("\n") + 1


@each(
    ("rule", "line", "told"),
    [
        ('[[access]]\ngroups = ["hr"]', 0, 'a rule needs a path and groups: path = "hr/**", groups = ["hr"]'),
        ('[[access]]\npath = ""\ngroups = ["hr"]', 0, "a rule needs a path and groups"),
        ('[[access]]\npath = " / "\ngroups = ["hr"]', 0, "a rule needs a path and groups"),
        ('[[access]]\npath = "hr/**"', 0, "a rule needs a path and groups"),
        ('[[access]]\npath = "hr/**"\ngroups = [" "]', 2, "1 to 255 printable characters"),
        ('[[access]]\npath = "hr/**"\ngroups = "hr"', 2, "groups must be a list, not 'hr'"),
        ('[[access]]\npath = "hr/**"\ngroups = [1]', 2, "groups must be a list of strings, not [1]"),
        ('[[access]]\npath = ["hr/**"]\ngroups = ["hr"]', 1, "path must be a string"),
        ('[[access]]\npath = "hr/**"\ngroup = ["hr"]', 2, "has no setting 'group'. Did you mean groups?"),
        ('[access]\npath = "hr/**"\ngroups = ["hr"]', 0, "access rules are written as [[access]]"),
    ],
)
def test_bad_rule_is_refused_with_the_file_and_the_line(home: Home, rule: str, line: int, told: str) -> None:
    """It is not passed over: what it was to protect would be open."""
    home.write("docs/a.txt", "salary")
    home.sync("docs")
    home.configure(f"{WORDS}{rule}\n")
    with pytest.raises(ConfigError) as caught:
        home.found("salary")
    assert str(caught.value).startswith(f"{home.folder / 'surefind.toml'}, line {RULE_LINE + line}: ")
    assert told in str(caught.value)


def test_rules_written_as_a_list_of_paths_are_refused_in_a_sentence(home: Home) -> None:
    home.configure(f'access = ["hr/**"]\n{WORDS}')
    with pytest.raises(ConfigError, match=r"line 1: .*\[\[access\]\]"):
        home.open()


@each(
    ("rules", "line"),
    [
        ('[[access]]\npath = "a"\ngroups = ["a"]\n[[access]]\npath = "b"\ngroups = "b"\n', 5),
        ('[[access]]\ngroups = ["a"]\n[[access]]\npath = "b"\ngroups = ["b"]\n', 0),
    ],
)
def test_line_is_that_of_the_rule_that_is_wrong(home: Home, rules: str, line: int) -> None:
    home.configure(WORDS + rules)
    with pytest.raises(ConfigError, match=f"line {RULE_LINE + line}:"):
        home.open()


def test_documents_that_share_an_id_are_admitted_one_by_one(home: Home) -> None:
    rows = [{"_id": "x", "text": "open salary"}, {"_id": "x", "text": "closed salary", "metadata": {"acl": ["hr"]}}]
    home.write("docs/corpus.jsonl", "\n".join(map(json.dumps, rows)))
    home.sync("docs")
    with home.open() as kb:
        assert [hit.text for hit in ask(kb, "salary").hits] == ["open salary"]
        assert [document.text for document in kb.documents(Access.public())] == ["open salary"]


# ---------------------------------------------------------------- keys and masks


@pytest.fixture
def keyed(home: Home) -> KnowledgeBase:
    """`clearance` is a key of restricted documents only."""
    home.configure(ruled(("vault.md", ["vault"])))
    home.write("docs/a.md", "---\nstatus: approved\nowner: ada\n---\nsalary")
    home.write("docs/b.md", "---\nacl: [hr]\nstatus: draft\nclearance: 3\n---\nsalary")
    home.write("docs/vault.md", "---\ncombination: 7\n---\nsalary")
    home.sync("docs")
    return home.open()


def test_unknown_key_is_refused_with_the_nearest_one(keyed: KnowledgeBase) -> None:
    told = r"No document has the metadata key 'statsu'\. Did you mean status\? Choices: language, owner, path, status\."
    with keyed, pytest.raises(UsageError, match=told):
        keyed.search("salary", Access.public(where=["statsu=approved"]))


@pytest.mark.parametrize("key", ["clearance", "clearence", "combination", "combinations", "acl"])
def test_key_of_documents_that_the_caller_may_not_read_is_as_unknown_as_any(keyed: KnowledgeBase, key: str) -> None:
    with keyed, pytest.raises(UsageError) as caught:
        keyed.search("salary", Access.public(where=[f"{key}=3"]))
    assert str(caught.value) == f"No document has the metadata key '{key}'. Choices: language, owner, path, status."


def test_member_may_filter_by_the_keys_of_the_group_and_is_told_of_no_other(keyed: KnowledgeBase) -> None:
    with keyed:
        for where in ("clearance=3", "clearance>=2", "acl=hr"):
            assert [h.document for h in keyed.search("salary", Access.of("hr", where=[where])).hits] == ["b.md"]
        with pytest.raises(
            UsageError, match=r"Did you mean clearance\? Choices: acl, clearance, language, owner, path, status\."
        ):
            keyed.search("salary", Access.of("hr", where=["clearence=3"]))
        assert len(keyed.search("salary", Access.owner(where=["combination!=8"])).hits) == 3


def test_value_of_documents_that_the_caller_may_not_read_finds_nothing(keyed: KnowledgeBase) -> None:
    """`draft` is a status of a restricted document only: the same answer as for a status that nobody has."""
    with keyed:
        for value in ("draft", "nonesuch"):
            result = keyed.search("salary", Access.public(where=[f"status={value}"]))
            assert (result.hits, result.withheld) == ((), 3)


def test_mask_is_made_once_for_an_access(keyed: KnowledgeBase) -> None:
    with keyed:
        view = keyed.reader().view
        mask = view.mask(Access.of("hr", "staff", where=["status=draft"]))
        assert view.mask(Access.of("staff", "hr", where=[" status = Draft "])) is mask
        assert view.mask(Access.of("hr", where=["status=draft"])) is not mask
        assert view.mask(Access.owner()) is view.mask(Access.of("hr", "vault"))  # nothing is hidden from either
        for i in range(200):
            view.mask(Access.of(f"group{i}"))
        assert view.mask(Access.of("hr", "staff", where=["status=draft"])).key == mask.key


# ---------------------------------------------------------------- against a reference

RECORDS = 2_000
CALLERS = [[], ["g0"], ["g1"], ["g0", "g2"], ["none"], ["*"]]
FILTERS = [
    [],
    ["status=approved"],
    ["status=APPROVED,draft"],
    ["status!=draft"],
    ["tags=red"],
    ["tags=red,blue"],
    ["tags!=red,blue"],
    ["year>=2022"],
    ["year<=2019.5"],
    ["score>=9"],
    ["score<=-1"],
    ["since>=2024-06-01"],
    ["since<=2024-06-30"],
    ["final=true"],
    ["status=approved", "tags!=red", "year>=2021"],
    ["since>=2024-02-01", "since<=2024-03-31", "status!=retired"],
    ["status=nonesuch"],
]


def record(number: int, chance: random.Random) -> dict[str, Any]:
    """Every field may be missing."""
    fields: dict[str, Callable[[], Any]] = {
        "acl": lambda: chance.sample(["g0", "g1", "g2"], chance.randint(1, 2)),
        "status": lambda: chance.choice(["Approved", "draft", "retired"]),
        "tags": lambda: chance.sample(["red", "Green", "blue"], chance.randint(0, 3)),
        "year": lambda: chance.randint(2018, 2025),
        "score": lambda: chance.choice([-1, 2.5, 9, 10, 100]),
        "since": lambda: f"2024-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}",
        "final": lambda: chance.random() < 0.5,
    }
    made = {name: value() for name, value in fields.items() if chance.random() < 0.7}
    return {"id": f"{number:04}", "text": f"salary {number}", **made}


def admitted(row: Mapping[str, Any], groups: list[str], where: list[str]) -> bool:
    """The rules in plain words: one group of the list, and every filter."""
    if "*" not in groups and "acl" in row and not {*groups} & {*row["acl"]}:
        return False
    return all(fits(row, text) for text in where)


def fits(row: Mapping[str, Any], text: str) -> bool:
    operator = next(sign for sign in ("!=", ">=", "<=", "=") if sign in text)
    key, _, given = text.partition(operator)
    value = row.get(key, [])
    values = [str(one).lower() for one in (value if isinstance(value, list) else [value])]
    wanted = given.lower().split(",")
    if operator == "=":
        return any(one in wanted for one in values)
    if operator == "!=":
        return all(one not in wanted for one in values)
    if key == "since":
        return any(one >= given if operator == ">=" else one <= given for one in values)
    return any(float(one) >= float(given) if operator == ">=" else float(one) <= float(given) for one in values)


def test_filters_and_groups_over_2000_documents_agree_with_a_reference(home: Home) -> None:
    chance = random.Random(7)
    rows = [record(number, chance) for number in range(RECORDS)]
    home.write("docs/r.jsonl", "\n".join(map(json.dumps, rows)))
    home.sync("docs")
    with home.open() as kb:
        view = kb.reader().view
        for groups in CALLERS:
            for where in FILTERS:
                access = Access.of(*groups, where=where)
                expected = {f"r.jsonl#{row['id']}" for row in rows if admitted(row, groups, where)}
                assert view.admitted(access) == expected, (groups, where)
                assert view.withheld(access) == RECORDS - len(expected)
                found = kb.search("salary", access, k=100).hits
                assert len(found) == min(len(expected), 100)
                assert {hit.document for hit in found} <= expected


@each("name", ["new.md", "new.csv", "new.txt"])
def test_a_draft_without_a_list_keeps_the_list_of_its_document(home: Home, name: str) -> None:
    """Else whoever uploads a new version would open a restricted document."""
    home.write("docs/pay.md", "---\nacl: [hr]\n---\nsalary list")
    home.sync("docs")
    with home.open() as kb:
        draft = kb.drafts.add(home.write(name, "salary,list\nnew,salary\n"), "pay.md")
        kb.drafts.publish(draft.number)
        assert [hit.document for hit in ask(kb, "salary").hits] == []
        assert [hit.document for hit in ask(kb, "salary", groups=["hr"]).hits] == ["pay.md"]
        opened = kb.drafts.add(home.write("open.md", "---\nacl: [public]\n---\nsalary of nobody"), "pay.md")
        kb.drafts.publish(opened.number)
        assert [hit.document for hit in ask(kb, "salary").hits] == ["pay.md"]
