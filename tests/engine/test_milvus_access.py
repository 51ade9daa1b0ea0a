"""Expressions of the milvus backend admit the same documents as the local backend, whatever the names look like."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("milvus_lite", reason="surefind[milvus] is not installed: make milvus")

from milvus_kit import Shelf
from surefind.base import spec
from surefind.base.access import Access, Filter, PathRule
from surefind.base.errors import UsageError
from surefind.base.types import Document, Query
from surefind.engine.store.backends.local import LocalBackend
from surefind.engine.store.backends.milvus.backend import MilvusBackend
from surefind.engine.store.backends.milvus.server import Server

ODD = [
    "hr", "HR", 'say "hi"', "it's", "a\\b", "x] or version > 0 or array_contains_any(acl, [1", "größe", "日本",
    "public", "%", "_", "{0}", "a,b", "\u202e", " ", "\x00", "1", "-1", "1.0", "true", "null", "1e400", "nan", "*",
    "**",
]  # fmt: skip
FOLDERS = ["hr", "hr/pay", "it", "größe 100%", "a'b\"c", "日本", "hr2", "hr/pay/2024", "_"]
RULES = [
    "hr/**",
    "hr/pay",
    "*/pay/**",
    "**/*.txt",
    "hr/?.md",
    "größe*",
    "a'b\"c/**",
    "hr*/1*",
    "**/7.md",
    "日本/*",
    "it/3.md/x",
]


def documents(chance: random.Random, count: int) -> dict[str, Document]:
    found = {}
    for i in range(count):
        key = f"{chance.choice(FOLDERS)}/{i}.{chance.choice(('md', 'txt'))}"
        acl = tuple(chance.sample(ODD, chance.choice((0, 0, 1, 2))))
        keys = chance.sample(["status", "tags", "größe", 'k"ey', "year"], 3)
        values = [*ODD, 2023, 2024, 2025.5, None, True, ["draft", "it's"], []]
        found[key] = Document(
            key, f"cash report {i} of the teller", metadata={k: chance.choice(values) for k in keys}, acl=acl
        )
    return found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Server:
    return Server(str(tmp_path_factory.mktemp("milvus") / "kb.db"))


@pytest.fixture(params=range(3))
def both(request: Any, server: Server, tmp_path: Path) -> Iterator[tuple[random.Random, Any, Any, list[PathRule]]]:
    """The same documents in Milvus and on this machine, with the same rules."""
    chance = random.Random(request.param)
    rules = [PathRule(path, tuple(chance.sample(ODD, 2))) for path in chance.sample(RULES, 4)]
    if request.param:
        rules.append(PathRule("**", tuple(chance.sample(ODD, 1)), default=True))
    shelf = Shelf(tmp_path, lambda catalogue: MilvusBackend(catalogue, server), [spec.make("retrieve", "bm25")])
    number = shelf.commit(documents(chance, 60))
    local = LocalBackend(shelf.catalogue)
    local.build(shelf.contents(number), shelf.layout, shelf.retrievers, shelf.services, lambda *_: None)
    views = [one.open(shelf.contents(number), shelf.layout, shelf.services, rules) for one in (shelf.backend, local)]
    yield chance, *views, rules
    shelf.close()


def some_access(chance: random.Random) -> Access:
    groups = frozenset(chance.sample([name for name in ODD if name != "*"], chance.randrange(4)))
    filters = [
        Filter(chance.choice(["status", "tags", "größe", 'k"ey', "year", "nonesuch", "1) or (1 == 1"]), operator,
               tuple(str(value).lower() for value in chance.sample([*ODD, 2023, 2024], 2)))
        for operator in chance.sample(["=", "!=", ">=", "<="], chance.randrange(3))
    ]  # fmt: skip
    return Access(groups if chance.random() < 0.9 else frozenset("*"), tuple(filters))


@pytest.mark.usefixtures("toys")
def test_milvus_finds_what_the_local_backend_finds_for_every_caller(both: Any) -> None:
    chance, remote, local, _ = both
    bm25 = spec.make("retrieve", "bm25")
    refused = restricted = 0
    for _ in range(80):
        access = some_access(chance)
        try:
            expected = local.search(bm25, [Query("cash report")], 100, access)
        except UsageError as error:
            with pytest.raises(UsageError, match="No document has the metadata key") as found:
                remote.search(bm25, [Query("cash report")], 100, access)
            assert str(found.value) == str(error)
            refused += 1
            continue
        found = remote.search(bm25, [Query("cash report")], 100, access)
        assert sorted(found.row(0)[0].tolist()) == sorted(expected.row(0)[0].tolist()), access
        assert np.allclose(found.row(0)[1], expected.row(0)[1], atol=1e-5)
        restricted += 0 < len(found.row(0)[0]) < 60
        wording = [view.wording(bm25, [Query("cash teller 7 unheard")], access)[0] for view in (remote, local)]
        assert wording[0].known == wording[1].known
        assert wording[0].best == pytest.approx(wording[1].best, rel=1e-5)
    assert refused > 5
    assert restricted > 20


@pytest.mark.usefixtures("toys")
def test_expression_alone_admits_exactly_the_readable_documents(both: Any) -> None:
    """Without the check of results on this machine, which would hide a mistake in the expression."""
    chance, remote, local, _ = both
    index = remote.index(spec.make("retrieve", "bm25"))
    checked = 0
    while checked < 40:
        access = some_access(chance)
        try:
            mask = remote.mask(access)
        except UsageError:
            continue
        expression = index._expression(mask)
        assert remote._server.count(index._record.collection, expression) == len(local.admitted(access)), access
        assert not any(name in expression for name in ODD if len(name) > 3)
        checked += 1
