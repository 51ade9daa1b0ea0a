"""Broad questions: `surefind ask` composes an answer from the summaries of communities."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers import Home
from llm_server import LLMServer
from surefind.base.access import Access
from surefind.kb.answer.answering import answer

pytestmark = pytest.mark.usefixtures("toys")

BROAD = "graph_global(communities=2, model=toy, summaries=llm)"
BRANCHES = "People of the branches meet at Oak Street with Dana Whitfield."
SERVERS = "Nightly jobs of the servers are watched."


@pytest.fixture
def home(tmp_path: Path, llm: LLMServer) -> Home:
    made = Home(
        tmp_path,
        f'[pipelines.broad]\nretrieve = ["{BROAD}"]\n[search]\npipeline = "broad"\n[llm]\nmodel = "{llm.model}"\n',
    )
    for i in range(4):
        acl = "---\nacl: [hr]\n---\n" if i == 3 else ""
        made.write(f"docs/branch{i}.md", f"{acl}# Branch {i}\n\nAt Oak Street we met Dana Whitfield and Elm Grove.\n")
        made.write(f"docs/server{i}.md", f"# Server {i}\n\nOn EOD-7 the job BKP-2 calls KubeAPIDown.\n")
    made.sync("docs")
    return made


def _model(*sentences: tuple[str, list[int]]) -> Callable[[str], str]:
    def reply(prompt: str) -> str:
        if "Write a summary" in prompt:
            return json.dumps({"summary": BRANCHES if "Oak Street" in prompt else SERVERS})
        return json.dumps({"sentences": [{"text": text, "passages": numbers} for text, numbers in sentences]})

    return reply


def test_an_answer_is_composed_from_the_summaries_of_communities(home: Home, llm: LLMServer) -> None:
    llm.reply = _model((BRANCHES, [1]), (SERVERS, [2]), ("Napoleon owns the bank since 1804.", [1]))
    with home.open() as kb:
        found = answer(kb, "What is going on in the branches at Oak Street?", Access.public())
    (asked,) = [prompt for prompt in llm.prompts if "from summaries of groups of passages" in prompt]
    assert BRANCHES in asked and SERVERS in asked and "KubeAPIDown" not in asked
    assert [one.text for one in found.sentences] == [BRANCHES, SERVERS]
    assert found.dropped == ("Napoleon owns the bank since 1804.",)
    by_rank = {hit.rank: hit.document for hit in found.result.hits}
    assert {by_rank[rank] for rank in found.sentences[0].citations} == {f"branch{i}.md" for i in range(3)}


def test_summaries_are_made_from_what_the_caller_may_read(home: Home, llm: LLMServer) -> None:
    llm.reply = _model((BRANCHES, [1]))
    with home.open() as kb:
        seen = answer(kb, "What is going on at Oak Street?", Access.of("hr"))
        assert "branch3.md" in {hit.document for hit in seen.cited}
        public = answer(kb, "What is going on at Oak Street?", Access.public())
    assert "branch3.md" not in {hit.document for hit in public.result.hits}


def test_other_pipelines_show_passages(home: Home, llm: LLMServer) -> None:
    llm.reply = _model(("At Oak Street we met Dana Whitfield and Elm Grove.", [1]))
    with home.open() as kb:
        kb.build_for(kb.pipeline("bm25").retrieve)
        found = answer(kb, "Whom did we meet at Oak Street?", Access.public(), pipeline="bm25")
    assert found.written and "Elm Grove" in llm.prompts[-1] and "summaries" not in llm.prompts[-1]
