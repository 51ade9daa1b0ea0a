"""The retrievers for other frameworks, each in the installed framework."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cases import each

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"

from helpers import Home
from surefind.base.access import Access
from surefind.base.errors import QueryError
from surefind.base.types import Hit
from surefind.engine.search.hits import Extent
from surefind.kb import KnowledgeBase

PACKAGES = {"langchain": "langchain_core", "llama_index": "llama_index.core", "haystack": "haystack"}
Found = list[tuple[str, str, float | None, dict[str, Any]]]
"""(id, text, score, metadata) of each document."""


def in_langchain(retriever: Any, query: str) -> Found:
    return [(one.id, one.page_content, one.metadata["score"], one.metadata) for one in retriever.invoke(query)]


def in_langchain_async(retriever: Any, query: str) -> Found:
    found = asyncio.run(retriever.ainvoke(query))
    return [(one.id, one.page_content, one.metadata["score"], one.metadata) for one in found]


def in_llama_index(retriever: Any, query: str) -> Found:
    return [(one.node_id, one.text, one.score, one.metadata) for one in retriever.retrieve(query)]


def in_llama_index_async(retriever: Any, query: str) -> Found:
    found = asyncio.run(retriever.aretrieve(query))
    return [(one.node_id, one.text, one.score, one.metadata) for one in found]


def in_haystack(retriever: Any, query: str) -> Found:
    from haystack import Pipeline

    pipeline = Pipeline()
    pipeline.add_component("retriever", retriever)
    found = pipeline.run({"retriever": {"query": query}})["retriever"]["documents"]
    return [(one.id, one.content, one.score, one.meta) for one in found]


def in_haystack_async(retriever: Any, query: str) -> Found:
    found = asyncio.run(retriever.run_async(query))["documents"]
    return [(one.id, one.content, one.score, one.meta) for one in found]


WAYS = {
    ("langchain", "sync"): in_langchain,
    ("langchain", "async"): in_langchain_async,
    ("llama_index", "sync"): in_llama_index,
    ("llama_index", "async"): in_llama_index_async,
    ("haystack", "sync"): in_haystack,
    ("haystack", "async"): in_haystack_async,
}


def retriever_of(framework: str) -> Callable[..., Any]:
    pytest.importorskip(PACKAGES[framework])
    made: Callable[..., Any] = importlib.import_module(f"surefind.adapters.{framework}").SurefindRetriever
    return made


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    home = Home(tmp_path_factory.mktemp("adapters"))
    home.write("docs/wires.md", "---\nowner: ada\n---\n# Wires\n\nDomestic wires leave until 3:00 p.m.\n")
    home.write("docs/pay.md", "---\nacl: [hr]\n---\n# Pay\n\nWires of the okapi salary.\n")
    for n in range(9):
        home.write(f"docs/note{n}.md", f"# Note {n}\n\nWires and thing{n}.\n\n" + "More words follow here. " * 40)
    home.sync("docs")
    with home.open() as opened:
        yield opened


def wanted(hits: tuple[Hit, ...]) -> list[tuple[str, str, float]]:
    return [(hit.id, hit.text, hit.score) for hit in hits]


@each("way", WAYS, ids="-".join)
def test_documents_are_the_hits_of_the_engine(kb: KnowledgeBase, way: tuple[str, str]) -> None:
    retriever = retriever_of(way[0])(kb=kb, access=Access.public(), k=4)
    found = WAYS[way](retriever, "domestic wires")
    hits = kb.search("domestic wires", Access.public(), 4).hits
    assert [one[:3] for one in found] == wanted(hits)
    about = found[0][3]
    assert (about["document"], about["lines"], about["title"]) == ("wires.md", (4, 6), "Wires")
    assert about["metadata"] == {"owner": "ada", "language": "unknown"}
    assert "text" not in about and "stages" not in about


@each("framework", PACKAGES)
def test_pipeline_and_extent_are_passed_on(kb: KnowledgeBase, framework: str) -> None:
    extent = Extent.parse("passage", 60)
    retriever = retriever_of(framework)(kb=kb, access=Access.public(), k=3, pipeline="bm25(k1=0.1)", extent=extent)
    found = WAYS[framework, "sync"](retriever, "wires")
    hits = kb.search("wires", Access.public(), 3, "bm25(k1=0.1)", extent=extent).hits
    assert [one[:3] for one in found] == wanted(hits)
    assert all(len(text) <= 60 for _, text, *_ in found)
    assert [score for *_, score, _ in found] != [hit.score for hit in kb.search("wires", Access.public(), 3).hits]


@each("framework", PACKAGES)
def test_only_readers_get_restricted_documents(kb: KnowledgeBase, framework: str) -> None:
    make = retriever_of(framework)
    for access, sees in ((Access.public(), False), (Access.of("sales"), False), (Access.of("hr"), True)):
        found = WAYS[framework, "sync"](make(kb=kb, access=access, k=50), "okapi salary wires")
        assert any("okapi" in text for _, text, *_ in found) == sees


@each("framework", PACKAGES)
def test_access_has_no_default(kb: KnowledgeBase, framework: str) -> None:
    with pytest.raises(Exception, match="access"):
        retriever_of(framework)(kb=kb)


def test_langchain_takes_no_access_made_up_from_a_dict(kb: KnowledgeBase) -> None:
    with pytest.raises(ValueError, match="Access"):
        retriever_of("langchain")(kb=kb, access={"groups": ["*"]})


@each("framework", PACKAGES)
@each("kind", [str, Path])
def test_a_folder_will_do(kb: KnowledgeBase, framework: str, kind: Callable[[Path], Any]) -> None:
    retriever = retriever_of(framework)(kb=kind(kb.folder), access=Access.public())
    assert WAYS[framework, "sync"](retriever, "domestic wires")[0][3]["document"] == "wires.md"
    retriever.kb.close()


@each("framework", ["langchain", "llama_index"])
def test_errors_are_those_of_the_engine(kb: KnowledgeBase, framework: str) -> None:
    with pytest.raises(QueryError, match="empty"):
        WAYS[framework, "sync"](retriever_of(framework)(kb=kb, access=Access.public()), " ")


def test_llama_index_shows_a_model_title_and_name_only(kb: KnowledgeBase) -> None:
    make = retriever_of("llama_index")
    from llama_index.core.schema import MetadataMode

    node = make(kb, Access.public(), k=1).retrieve("domestic wires")[0].node
    shown = node.get_content(MetadataMode.LLM)
    assert "title: Wires" in shown and "document: wires.md" in shown and "score" not in shown
    assert node.get_content(MetadataMode.EMBED) == node.get_content(MetadataMode.NONE)


UNHEARD = """
import socket

def refuse(self, address):
    print("connects to", address)
    raise OSError("no network")

socket.socket.connect = socket.socket.connect_ex = refuse
"""


def imported_alone(code: str, home: Path) -> str:
    """What a process prints that has no home folder yet, and whose telemetry nobody has switched off."""
    environment = {key: value for key, value in os.environ.items() if key != "HAYSTACK_TELEMETRY_ENABLED"}
    command = [sys.executable, "-c", UNHEARD + code]
    return subprocess.run(
        command, env={**environment, "HOME": str(home)}, capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.parametrize("framework", PACKAGES)
def test_an_import_neither_connects_nor_leaves_files(framework: str, tmp_path: Path) -> None:
    pytest.importorskip(PACKAGES[framework])
    assert imported_alone(f"import surefind.adapters.{framework}", tmp_path) == ""
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_importing_the_haystack_adapter_switches_no_telemetry_on(tmp_path: Path) -> None:
    pytest.importorskip("haystack")
    shown = "from haystack.telemetry._telemetry import telemetry; print(telemetry)"
    assert imported_alone(f"import surefind.adapters.haystack; {shown}", tmp_path) == "None\n"
    assert imported_alone(shown, tmp_path) != "None\n"  # Haystack itself has it on


@pytest.mark.parametrize("framework", PACKAGES)
def test_an_adapter_is_one_short_file(framework: str) -> None:
    pytest.importorskip(PACKAGES[framework])
    module = importlib.import_module(f"surefind.adapters.{framework}")
    assert len(inspect.getsource(module).splitlines()) < 80
