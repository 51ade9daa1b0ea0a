"""Search and ask are two doors to one judgment: the same ranking, the same confidence, the same words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers import Home
from surefind.base.access import Access
from surefind.base.types import SURE
from surefind.doors.cli.demo import sample_folder, sample_questions, sample_vectors
from surefind.kb import KnowledgeBase
from surefind.kb.answer.answering import answer

PUBLIC = Access.public()
STATES = {SURE[0][1]: "answered", SURE[1][1]: "not_sure", SURE[2][1]: "not_here"}
ELSEWHERE = Path(__file__).parents[2] / "benchmarks" / "questions"


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    home = Home(tmp_path_factory.mktemp("doors"))
    with KnowledgeBase.open(home.folder) as kb:
        kb.services.keep_vectors(sample_vectors())
        kb.sync(sample_folder())
        yield kb


def questions() -> list[str]:
    """300 of them: what staff ask of the sample, what they ask of other documents, and other subjects."""
    files = [sample_questions(), *(ELSEWHERE / f"{name}.jsonl" for name in ("other-subjects", "gnucash"))]
    return [json.loads(line)["query"] for file in files for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("step", [30, pytest.param(1, marks=pytest.mark.long)])
def test_both_doors_say_the_same(sample: KnowledgeBase, step: int) -> None:
    seen = set()
    for text in questions()[::step]:
        result, said = sample.search(text, PUBLIC, 5, confidence="read"), answer(sample, text, PUBLIC)
        assert [hit.id for hit in result.hits] == [hit.id for hit in said.result.hits], text
        assert (result.confidence, result.sure) == (said.confidence, said.sure), text
        assert said.state == STATES[result.sure], text
        assert bool(said.sentences) == (said.state != "not_here") and len(said.sentences) <= 3
        assert {n for sentence in said.sentences for n in sentence.citations} == set(range(1, len(said.cited) + 1))
        for sentence in said.sentences:
            (number,) = sentence.citations
            assert said.cited[number - 1].id in [hit.id for hit in result.hits[:3]]
            assert sentence.mark and sentence.text[slice(*sentence.mark)].strip()
        seen.add(said.state)
    assert seen == set(STATES.values())
