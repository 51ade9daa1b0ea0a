"""Facets: values of metadata with counts, under the caller's groups and the other filters."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import Home, times_slower
from http_helpers import serving
from surefind import KnowledgeBase
from surefind.base.access import Access
from surefind.base.errors import UsageError
from surefind.doors.auth.keys import Keys
from surefind.engine.store.table import MAX_VALUES, Columns, facets_of

Row = dict[str, Any]
rows = st.lists(
    st.fixed_dictionaries(
        {"seen": st.booleans()},
        optional={
            "status": st.sampled_from(["Approved", "draft", "retired, or not", "=", ""]),
            "tags": st.lists(st.sampled_from(["red", "Green", "blue"]), max_size=4),
            "year": st.integers(2018, 2022),
            "vault": st.sampled_from(["gold", "silver"]),
        },
    ),
    max_size=25,
)
filters = st.lists(st.sampled_from(["status=approved", "tags!=red", "tags=red,blue", "year>=2020"]), max_size=3)


def values_of(row: Row, key: str) -> set[str]:
    value = row.get(key, [])
    listed = value if isinstance(value, list) else str(value).split(", ")
    return {str(one).lower() for one in listed}


def passes(row: Row, text: str) -> bool:
    if text == "status=approved":
        return "approved" in values_of(row, "status")
    if text == "tags!=red":
        return "red" not in values_of(row, "tags")
    if text == "tags=red,blue":
        return bool(values_of(row, "tags") & {"red", "blue"})
    return any(int(year) >= 2020 for year in values_of(row, "year"))


def reference(found: list[Row], where: list[str]) -> dict[str, dict[str, int]]:
    """Facets by counting in one document after the other."""
    readable = [row for row in found if row["seen"]]
    facets: dict[str, dict[str, int]] = {}
    for key in ("status", "tags", "vault", "year"):
        choices = {value for row in readable for value in values_of(row, key)}
        having = [row for row in readable if values_of(row, key)]
        if len(choices) >= 2 and len(choices) <= max(5, len(having) / 2):
            others = [text for text in where if not text.startswith(key)]
            passing = [row for row in readable if all(passes(row, text) for text in others)]
            counts = Counter(value for row in passing for value in values_of(row, key) if value in choices)
            facets |= {key: dict(counts)} if counts else {}
    return facets


@given(rows, filters)
def test_facets_agree_with_a_reference(found: list[Row], where: list[str]) -> None:
    columns = Columns.build(json.dumps({k: v for k, v in row.items() if k != "seen"}) for row in found)
    seen = np.array([row["seen"] for row in found], np.bool_)
    kept = [text for text in where if re.split("[!=>]", text)[0] in columns]
    made = facets_of(columns, seen, Access.owner(where=kept).where)
    shown = {one.key: {value.lower(): count for value, count in one.values} for one in made}
    assert shown == reference(found, kept)
    for one in made:
        assert list(one.values) == sorted(one.values, key=lambda value: (-value[1], value[0]))


def test_key_with_too_many_values_is_no_facet() -> None:
    for number, shown in ((MAX_VALUES, True), (MAX_VALUES + 1, False), (1, False)):
        columns = Columns.build(json.dumps({"key": i}) for i in range(number) for _ in range(2))
        assert bool(facets_of(columns, np.ones(2 * number, np.bool_), ())) is shown


def keys(rows: list[Row], keep: tuple[str, ...] = (), where: tuple[str, ...] = ()) -> dict[str, list[str]]:
    """The values of each facet of documents with these metadata; `id` names a document."""
    names = [str(row.get("id", f"{n}.md")) for n, row in enumerate(rows)]
    columns = Columns.build(json.dumps({k: v for k, v in row.items() if k != "id"}) for row in rows).of(names)
    made = facets_of(columns, np.ones(len(rows), np.bool_), Access.owner(where=where).where, keep)
    return {one.key: [value for value, _ in one.values] for one in made}


def test_only_keys_that_help_are_facets() -> None:
    rows = [
        {
            "status": ("Approved", "draft")[n % 2],
            "parent": ("/manual.html", "/apps.html")[n % 2],
            "spellings": [f"word {n % 40}", f"other {n % 45}"],
            **({"rare": ("a", "b")[n % 2]} if n < 2 else {}),
        }
        for n in range(200)
    ]
    assert keys(rows) == {"status": ["Approved", "draft"]}
    assert list(keys(rows, ("rare", "status", "unknown"))) == ["rare", "status"], "the owner decides"


def test_a_comma_list_is_a_list_and_case_is_kept() -> None:
    rows = [{"tags": "Cash, Wire"}, {"tags": ["cash"]}, {"tags": "wire"}, {"amount": "1,000"}, {"amount": "2,000"}]
    assert keys(rows)["tags"] == ["Cash", "Wire"]


def test_the_folder_is_a_facet_from_the_level_on_which_there_is_a_choice() -> None:
    rows = [{"id": f"docs/{name}"} for name in ("HR/pay.md", "HR/leave/a.md", "HR/leave/b.md", "it/x.md")]
    assert keys(rows) == {"path": ["docs/HR", "docs/it"]}
    assert keys(rows, where=("path=docs/hr/",)) == {"path": ["docs/HR", "docs/HR/leave", "docs/it"]}
    assert keys([{"id": "a.md"}, {"id": "b.md"}]) == {}


def test_a_heading_never_stands_alone() -> None:
    rows = [{"status": "a", "kind": "x"}, {"status": "b", "kind": "x"}, {"status": "a"}, {"other": "z", "kind": "y"}]
    assert "status" not in keys(rows, where=("kind=y",))


# ---------------------------------------------------------------- of a knowledge base


@pytest.fixture
def office(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.write("docs/a.md", "---\nstatus: approved\ntags: [cash, wire]\n---\nfees")
    home.write("docs/b.md", "---\nstatus: draft\ntags: [cash]\n---\nfees")
    home.write("docs/pay.md", "---\nacl: [hr]\nstatus: secret\nproject: falcon\n---\nfees")
    home.write("docs/bonus.md", "---\nacl: [hr]\nstatus: secret\nproject: heron\n---\nfees")
    home.sync("docs")
    return home


@pytest.fixture
def opened(office: Home) -> Iterator[KnowledgeBase]:
    with office.open() as kb:
        yield kb


def facets(kb: KnowledgeBase, access: Access) -> dict[str, dict[str, int]]:
    return {one.key: dict(one.values) for one in kb.reader().facets(access)}


def test_facets_show_neither_keys_nor_values_of_documents_that_the_caller_may_not_read(opened: KnowledgeBase) -> None:
    assert facets(opened, Access.public()) == {"status": {"approved": 1, "draft": 1}, "tags": {"cash": 2, "wire": 1}}
    assert facets(opened, Access.of("hr")) == {
        "project": {"falcon": 1, "heron": 1},
        "status": {"approved": 1, "draft": 1, "secret": 2},
        "tags": {"cash": 2, "wire": 1},
    }


def test_a_filter_does_not_hide_the_other_values_of_its_own_key(opened: KnowledgeBase) -> None:
    found = facets(opened, Access.public(where=["status=approved"]))
    assert found == {"status": {"approved": 1, "draft": 1}, "tags": {"cash": 1, "wire": 1}}


def test_a_filter_by_a_key_that_the_caller_may_not_know_is_as_unknown_as_any(opened: KnowledgeBase) -> None:
    with pytest.raises(UsageError, match="No document has the metadata key 'project'"):
        opened.reader().facets(Access.public(where=["project=falcon"]))


def test_a_folder_is_a_filter_of_every_search(office: Home) -> None:
    office.write("docs/HR/rules.md", "fees of people")
    office.sync("docs")
    assert set(office.found("fees", where=["path=hr"])) == {"HR/rules.md"}
    assert "HR/rules.md" not in office.found("fees", where=["path!=HR"])
    assert office.found("fees", where=["path=nowhere"]) == []


def test_facets_follow_the_documents(office: Home, opened: KnowledgeBase) -> None:
    assert facets(opened, Access.public())["status"] == {"approved": 1, "draft": 1}
    office.write("docs/c.md", "---\nstatus: draft\n---\nfees")
    office.sync("docs")
    opened.refresh()
    assert facets(opened, Access.public())["status"] == {"approved": 1, "draft": 2}


def test_facets_take_a_fraction_of_the_time_to_read_the_metadata() -> None:
    """8 ms for 10,000 documents. They are not kept, because each click makes another access."""
    rows = [
        json.dumps({"title": f"t{i}", "status": f"s{i % 5}", "tags": [f"a{i % 40}", f"b{i % 7}"], "year": i % 30})
        for i in range(10_000)
    ]
    columns = Columns.build(rows)
    seen = np.arange(10_000) % 3 > 0
    access = Access.public(where=["status=s1,s2", "year>=10"])
    assert times_slower(lambda: facets_of(columns, seen, access.where), lambda: Columns.build(rows), 0.2) < 0.2  # 0.04


def test_facets_over_http_are_those_of_the_callers_groups(office: Home) -> None:
    keys = Keys(office.folder / ".surefind")
    plain, hr = (keys.create(name, ["read"], groups)[1] for name, groups in (("plain", []), ("hr", ["hr"])))
    with serving(office.folder) as server:
        with server.client(plain) as client:
            answer = client.get("/v1/facets", params={"where": ["status=draft"]}).json()
            assert answer["facets"] == [
                {"key": "status", "values": [{"value": v, "documents": 1} for v in ("approved", "draft")]},
                {"key": "tags", "values": [{"value": "cash", "documents": 1}]},
            ]
            assert client.get("/v1/facets", params={"where": "project=falcon"}).status_code == 400
        with server.client(hr) as client:
            assert "falcon" in client.get("/v1/facets").text
        with server.client() as client:
            assert client.get("/v1/facets").status_code == 401
