"""Nobody sees a document without a right to it: every retriever × fuser × reranker × role, through Python and HTTP.

Restricted documents match best, so that a mask that is forgotten anywhere shows. What goes to a language model is
checked as well: the server of the test keeps every prompt.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from exam_helpers import surefind
from helpers import Home
from llm_server import LLMServer
from surefind.base import spec
from surefind.base.access import Access
from surefind.base.errors import SurefindError
from surefind.doors.auth.keys import Keys
from surefind.doors.server import create_app
from surefind.kb import KnowledgeBase
from surefind.kb.settings.serve import ServeSettings

pytestmark = pytest.mark.usefixtures("remembered_models")

QUERY = "What does the Zebra Vault of Quillon Bank hold about the salary?"
SECRET = re.compile(r"hushword\d", re.IGNORECASE)
RETRIEVERS = {
    "bm25": "bm25",
    "dense": "dense(model=toy)",
    "tfidf": "tfidf",
    "sparse": "sparse",
    "entity_overlap": "entity_overlap(least=1)",
    "ppr": "ppr(seed=[bm25])",
    "graph_local": "graph_local(model=toy)",
    "graph_global": "graph_global(model=toy)",
    "hyde": "hyde(retriever=bm25)",
    "multi_query": "multi_query(retriever=bm25)",
}
FUSERS = {
    **{name: name for name in ("combmnz", "combsum", "convex", "dbsf", "dbsn", "llm_weights", "rrf", "rsf", "tm2c2")},
    "weighted": "weighted(weights=[1, 2])",
}
RERANKERS = {
    "": "",
    "cross_encoder": "cross_encoder(top=2, keep=2)",
    "conditional": "conditional(stage=shared_words, below=2)",
    "llm_listwise": "llm_listwise(top=4, keep=4)",
    "slidegar": "slidegar(top=6, window=3, step=1, neighbours=2)",
    "agentic": "agentic(steps=1, look=3, branch=1)",
}
NOT_HERE = {"learned", "hosted"}
"""`learned` needs a trained model and fuses as `convex` does; `hosted` is tested with its own server."""
ROLES = {"everybody": (), "hr": ("hr",), "board": ("board",)}
SEEN = {"everybody": set[str](), "hr": {"hushword1"}, "board": {"hushword2"}}


def _pipelines() -> dict[str, str]:
    """Every combination, as a table of surefind.toml."""
    made = {}
    for (r, retriever), (f, fuser), (n, reranker) in itertools.product(
        RETRIEVERS.items(), FUSERS.items(), RERANKERS.items()
    ):
        other = "dense(model=toy)" if r != "dense" else "bm25"
        lines = [f"retrieve = {json.dumps([retriever, other])}", f'fuse = "{fuser}"']
        made[f"{r}-{f}-{n or 'none'}"] = "\n".join([*lines, *([f'rerank = ["{reranker}"]'] if reranker else [])])
    return made


@pytest.fixture
def bank(tmp_path: Path, llm: LLMServer, toys: None) -> Iterator[Home]:
    llm.reply = lambda prompt: "[1] > [2] > [3]"
    pipelines = "\n".join(f"[pipelines.{name}]\n{lines}" for name, lines in _pipelines().items())
    home = Home(tmp_path, f'[search]\npipeline = "bm25-rrf-none"\n[llm]\nmodel = "{llm.model}"\n{pipelines}\n')
    text = "The Zebra Vault of Quillon Bank holds the salary list. Zebra Vault, Quillon Bank, salary."
    home.write("docs/a1.md", f"---\nacl: [hr]\n---\n# Zebra Vault\n\n{text} Salary: hushword1.")
    home.write("docs/a2.md", f"---\nacl: [board]\n---\n# Zebra Vault\n\n{text} Bonus: hushword2.")
    home.write("docs/a3.md", f"---\nacl: [nobody]\n---\n# Zebra Vault\n\n{text} Key: hushword3.")
    for n in range(5):
        home.write(f"docs/p{n}.md", f"# Menu {n}\n\nThe Quillon Bank has a lunch menu {n}. A salary is not on it.")
    home.sync("docs")
    yield home


def test_every_stage_is_here() -> None:
    known = {name for kind in ("retrieve", "fuse", "rerank") for name in spec.names(kind)}
    assert known - NOT_HERE == {*RETRIEVERS, *FUSERS, *RERANKERS} - {""}


def _secrets(text: str) -> set[str]:
    return {found.lower() for found in SECRET.findall(text)}


def test_no_combination_shows_or_sends_what_a_caller_may_not_read(bank: Home, llm: LLMServer) -> None:
    with bank.open() as kb:
        keys = Keys(kb.data)
        made = {role: keys.create(role, ["read"], groups)[1] for role, groups in ROLES.items()}
        asyncio.run(_ask_all(kb, made, llm))


async def _ask_all(kb: KnowledgeBase, keys: dict[str, str], llm: LLMServer) -> None:
    """Asks through the application itself, so that 800 requests take seconds; tests/test_http.py has real sockets."""
    transport = httpx.ASGITransport(create_app(kb, ServeSettings(cache_mb=0)))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        for turn, (role, key) in enumerate(keys.items()):
            llm.bodies.clear()
            answered = 0
            # Everybody asks all of them. The other two ask a sixth each, not the same: their masks differ in bits only.
            for name in list(_pipelines())[turn :: 6 if turn else 1]:
                headers = {"Authorization": f"Bearer {key}"}
                answer = await client.get("/v1/search", params={"query": QUERY, "pipeline": name}, headers=headers)
                assert answer.status_code == 200 or "needs one dense" in answer.text, (name, answer.text)
                answered += answer.status_code == 200
                assert _secrets(answer.text) <= SEEN[role], (role, name)
            assert answered > (90 if turn else 500)
            assert llm.prompts, "the stages that ask a model did ask it"
            assert _secrets("".join(llm.prompts)) <= SEEN[role], role


def test_python_and_the_command_line_show_no_more(bank: Home) -> None:
    """A sample of the combinations, since both call what HTTP calls."""
    names = [name for name in list(_pipelines())[::23] if "convex" not in name and "tm2c2" not in name]
    with bank.open() as kb:
        for role, groups in ROLES.items():
            for name in names:
                found = kb.search(QUERY, Access.of(*groups), 10, name).to_dict()
                assert _secrets(json.dumps(found)) <= SEEN[role], (role, name)
        assert _secrets(json.dumps(kb.search(QUERY, Access.owner(), 10).to_dict())) == {
            f"hushword{n}" for n in (1, 2, 3)
        }
    for role, groups in ROLES.items():
        words = [word for group in groups for word in ("--as", group)]
        shown = surefind("search", QUERY, "--explain", "--full", "-p", "bm25-rrf-none", *words, kb=bank.folder)
        assert _secrets(shown.out + shown.err) == SEEN[role]


def test_agents_are_shown_and_answered_no_more(bank: Home, llm: LLMServer) -> None:
    """Every tool, with the default pipeline and with one that reranks by a model; also by ids of restricted hits."""
    from surefind.doors.mcp.search import (
        AskArguments,
        BrowseArguments,
        ReadArguments,
        SearchArguments,
        ask,
        browse,
        read,
        search,
    )

    for pipeline in ("bm25-rrf-none", "dense-dbsn-slidegar", "ppr-convex-llm_listwise"):
        lines = (bank.folder / "surefind.toml").read_text().splitlines()
        bank.configure(
            "\n".join(f'pipeline = "{pipeline}"' if line.startswith("pipeline =") else line for line in lines)
        )
        with bank.open() as kb:
            closed = {hit.id: hit.document for hit in kb.search(QUERY, Access.owner(), 3).hits}
            for role, groups in ROLES.items():
                llm.bodies.clear()
                access = Access.of(*groups)
                shown = [search(kb, access, SearchArguments.read({"query": QUERY, "k": 20}))]
                shown.append(ask(kb, access, AskArguments.read({"query": QUERY})))
                shown.append(browse(kb, access, BrowseArguments.read({})))
                refused = []
                for given in [*({"id": key} for key in closed), *({"document": name} for name in closed.values())]:
                    try:
                        shown.append(read(kb, access, ReadArguments.read(given)))
                    except SurefindError as error:
                        refused.append(str(error))
                told = " ".join([*(f"{one.text} {json.dumps(one.data)}" for one in shown), *refused])
                assert _secrets(told) <= SEEN[role], (role, pipeline)
                assert _secrets("".join(llm.prompts)) <= SEEN[role], (role, pipeline)
                assert refused, "restricted passages cannot be read by id or name"
