"""Searches that read their first hits, and quotes: the signals written out, the three efforts, every door."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cases import each
from exam_helpers import surefind
from helpers import Home
from http_helpers import SETTINGS, serving
from surefind import Access, KnowledgeBase
from surefind.base.errors import MissingPartError, QueryError
from surefind.base.types import SURE, Hit, Quote, SearchResult, in_words
from surefind.doors.mcp.search import AskArguments, SearchArguments, ask, search
from surefind.engine.confidence.signals import READ, reading_signals
from surefind.engine.rerank import cross_encoder
from surefind.engine.search.hits import Extent, best_sentences, shares
from surefind.engine.search.quoting import QUOTED, answering
from surefind.kb.answer.answering import answer
from surefind.kb.answer.values import NOT_HERE

pytestmark = pytest.mark.usefixtures("remembered_models")

OWNER = Access.owner()
WIRES = "How late can I send a domestic wire?"
CAKE = "Which nuts, spices and how much sugar do I need to bake a carrot cake at any hour?"


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = Home(tmp_path_factory.mktemp("read"), SETTINGS)
    home.write(
        "docs/wires.md",
        "# Domestic wires\n\nWires are sent by the wire desk. The latest time for a domestic wire is 3 pm. "
        "It is 1 pm on the day before a holiday. Fees are 22 dollars.\n",
    )
    home.write("docs/cards.md", "# Cards\n\nA lost card is blocked by calling extension 4270 at any hour.\n")
    home.write("docs/keys.md", "# Keys\n\nTo open the vault in the morning:\n\n    two officers turn both keys\n")
    home.write("docs/pay.md", "---\nacl: [hr]\n---\n# Pay\n\nThe latest time for a salary wire is 5 pm.\n")
    home.sync("docs")
    return home


@pytest.fixture
def kb(bank: Home) -> Iterator[KnowledgeBase]:
    with bank.open() as opened:
        yield opened


# ---------------------------------------------------------------- signals and words


def test_signals_of_a_reading_written_out() -> None:
    quotes = [Quote(rank, "a", (0, 1), (0, 1), logit, 0.0) for rank, logit in ((1, 2.0), (2, -1.0), (3, 0.5))]
    first, others, share, own, other = reading_signals(np.array([1.0, -2.0, 0.5]), quotes)
    assert (first, others, own, other) == (1.0, 0.5, 2.0, 0.5)
    assert share == pytest.approx(1.0 - math.log(math.e + math.exp(-2) + math.exp(0.5)))
    assert reading_signals(np.array([3.0]), quotes[:1]).tolist() == [3.0, -10.0, 0.0, 2.0, -10.0]
    assert reading_signals(np.array([]), ()).tolist() == [-10.0, -10.0, 0.0, -10.0, -10.0]


@each(("p", "words"), [(1.0, 0), (SURE[0][0], 0), (SURE[0][0] - 1e-9, 1), (SURE[1][0], 1), (0.0, 2)])
def test_words_for_a_confidence(p: float, words: int) -> None:
    assert in_words(p) == SURE[words][1] and SearchResult("q", (), (), confidence=p).sure == SURE[words][1]
    assert in_words(None) == "" == SearchResult("q", (), ()).sure


# ---------------------------------------------------------------- searching


def test_reading_knows_what_scores_do_not(kb: KnowledgeBase) -> None:
    """The first passage has the word of the question in another sense; the scores cannot tell."""
    right, wrong = (kb.search(text, OWNER) for text in (WIRES, "vault of the cathedral in Vienna"))
    assert right.confidence is not None and wrong.confidence is not None
    assert right.confidence > wrong.confidence + 0.2 and not right.confidence_own


def test_three_efforts(kb: KnowledgeBase) -> None:
    read, quick, off = (kb.search(WIRES, OWNER, confidence=one) for one in ("read", "quick", "off"))
    assert kb.search(WIRES, OWNER).confidence == quick.confidence != read.confidence, "programs get the quick one"
    assert (kb.settings.effort(), kb.settings.effort(person=True)) == ("quick", "read")
    assert off.confidence is None and off.sure == "" and off.known_words is None
    assert read.hits == quick.hits == off.hits


def test_effort_is_a_setting(tmp_path: Path) -> None:
    home = Home(tmp_path, SETTINGS.replace("[search]\n", '[search]\nconfidence = "off"\n'))
    home.write("docs/a.md", "# A\n\nCash.\n")
    home.sync("docs")
    with home.open() as kb:
        assert kb.search("cash", OWNER).confidence is None
        assert kb.search("cash", OWNER, confidence="quick").confidence is not None
    home.configure('[search]\nconfidence = "sometimes"\n')
    done = surefind("search", "cash", kb=home.folder)
    assert done.code == 2 and "line 2: confidence must be one of auto, read, quick, off, not 'sometimes'." in done.err


def test_minimum_needs_a_confidence(kb: KnowledgeBase) -> None:
    with pytest.raises(QueryError, match="min_confidence needs a confidence: set confidence to read or quick"):
        kb.search(WIRES, OWNER, confidence="off", min_confidence=0.5)
    with pytest.raises(QueryError, match="confidence must be one of read, quick, off, not 'slow'"):
        kb.search(WIRES, OWNER, confidence="slow")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ModuleNotFoundError(), "The reranker small is not installed."),
        (PermissionError(13, "Permission denied", "/models"), "small cannot be read (Permission denied: /models)."),
    ],
)
def test_search_without_the_reader_is_quick_and_says_so(
    kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    def gone(name: str) -> Path:
        raise error

    quick = kb.search(WIRES, OWNER, confidence="quick")
    monkeypatch.setattr("surefind_models.path", gone)
    read = kb.search(WIRES, OWNER, confidence="read")
    assert read.confidence == quick.confidence and read.hits == quick.hits
    assert "no model read the hits: " in read.confidence_from and said in read.confidence_from


def test_reader_sees_nothing_that_the_caller_may_not(kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    reader = cross_encoder.bundled_reader(128)

    class Watched:
        def score(self, query: str, chunks: list[object]) -> object:
            seen.extend(chunk.text for chunk in chunks)  # type: ignore[attr-defined]
            return reader.score(query, chunks)  # type: ignore[arg-type]

    monkeypatch.setattr("surefind.engine.search.confidence.bundled_reader", lambda tokens: Watched())
    kb.search("latest time for a salary wire", Access.public(), confidence="read")
    assert seen and len(seen) <= READ and not any("salary" in text for text in seen)
    kb.search("latest time for a salary wire", Access.of("hr"), confidence="read")
    assert any("salary" in text for text in seen)


def test_command_takes_the_effort(bank: Home) -> None:
    done = surefind("search", WIRES, "--confidence", "off", "--json", kb=bank.folder)
    assert done.code == 0 and json.loads(done.out)["confidence"] is None
    done = surefind("search", WIRES, "--confidence", "slow", kb=bank.folder)
    assert done.code == 2 and "confidence must be one of" in done.err


def test_server_takes_the_effort_and_the_page_reads_later(bank: Home) -> None:
    with serving(bank.folder) as server, server.client() as http:
        found = {
            one: http.post("/v1/search", json={"query": WIRES, "confidence": one}).json() for one in ("read", "off")
        }
        assert found["off"]["confidence"] is None and found["read"]["sure"] in [words for _, words in SURE]
        assert http.post("/v1/search", json={"query": WIRES, "confidence": "slow"}).status_code == 422
        page = http.get("/", params={"query": WIRES}, headers={"Accept": "text/html"}).text
        assert "Reading the first hits" in page and 'hx-get="/sure?query=How+late' in page
        sure = http.get("/sure", params={"query": WIRES}, headers={"Accept": "text/html"}).text
        assert "here:</strong>" in sure and "Reading" not in sure and "%" not in sure


# ---------------------------------------------------------------- sentences


def test_a_text_shares_what_its_best_sentence_shares() -> None:
    text = "The wire desk is upstairs. Ask for Mrs Adams there. The moon is far away. Rain falls in spring."
    first, none = shares("where is the wire desk", [text, "# Only a heading about wires\n"])
    assert first > 0 and none == 0 and shares("wire", []) == []
    assert best_sentences("wire desk", [text, "Nothing."]) == [(0, 26), None]


@each("most", range(50, 120, 7))
def test_text_that_is_cut_is_where_it_says(most: int) -> None:
    text = "Seventeen different words stand in this sentence about wires. " * 2 + "The very last word is cutoff"
    whole = Hit(1, 1.0, "a.md", "0" * 16, "A", (), 0, len(text), text, {}, {}, sentence=(len(text) - 6, len(text)))
    cut = Extent(None, most).cut(whole)
    assert text[cut.start : cut.end] == cut.text and cut.end <= len(text) and "cutoff" in cut.text


# ---------------------------------------------------------------- asking


def test_answer_quotes_the_sentence_that_answers(kb: KnowledgeBase) -> None:
    found = answer(kb, WIRES, OWNER, quote=True)
    quote = found.sentences[0]
    assert quote.mark and quote.text[slice(*quote.mark)] == "The latest time for a domestic wire is 3 pm."
    assert found.state in ("answered", "not_sure") and not found.model and quote.citations == (1,)
    assert found.to_dict()["sure"] == found.sure == found.result.sure


def test_sentence_that_points_back_brings_the_one_before(kb: KnowledgeBase) -> None:
    found = answer(kb, "cutoff of wires on the day before a holiday", OWNER, quote=True)
    assert "The latest time for a domestic wire is 3 pm. It is 1 pm on the day before a holiday." in (
        found.sentences[0].text
    )


def test_what_follows_a_colon_is_quoted(kb: KnowledgeBase) -> None:
    found = kb.search("how to open the vault in the morning", OWNER, 3, confidence="read")
    (first, *_) = answering(found.quotes)
    assert first.text.startswith("To open the vault in the morning:") and "two officers turn both keys" in first.text


def test_each_quote_is_from_another_hit(kb: KnowledgeBase) -> None:
    made = kb.search(WIRES, OWNER, 5, confidence="read").quotes
    ranks = [quote.rank for quote in made]
    assert ranks == sorted(set(ranks)) and 2 <= len(ranks) <= QUOTED
    assert max(made, key=lambda quote: quote.score) == answering(made)[0]


@each("text", [CAKE])
def test_nothing_here_is_an_answer(bank: Home, text: str) -> None:
    done = surefind("ask", text, "--quote", "--json", kb=bank.folder)
    found = json.loads(done.out)
    assert done.code == 1 and found["answered"] is False and found["sentences"] == [] and found["answer"] == NOT_HERE
    assert found["sure"] == SURE[-1][1] and found["state"] == "not_here"
    assert set(found["closest"]) == {"document", "title"}


def test_command_says_how_sure_it_is_and_that_no_model_wrote_it(bank: Home) -> None:
    done = surefind("ask", WIRES, "--quote", kb=bank.folder)
    assert done.code == 0 and "no language model was used." in done.out
    nothing = surefind("ask", CAKE, "--quote", kb=bank.folder)
    assert nothing.code == 1 and nothing.out.startswith(f"{NOT_HERE} Closest: ")


def test_minimum_holds_for_quotes(kb: KnowledgeBase) -> None:
    assert not answer(kb, WIRES, OWNER, quote=True, min_confidence=1.0).answered


def test_answer_without_the_reader_is_the_sentence_that_shares_most(
    kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(tokens: int) -> None:
        raise MissingPartError("The bundled reranker is not installed.")

    monkeypatch.setattr("surefind.engine.search.confidence.bundled_reader", gone)
    found = answer(kb, "latest time for a domestic wire", OWNER, quote=True)
    assert "The latest time for a domestic wire is 3 pm." in found.text and found.text.endswith(" [1]")


def test_agents_read_how_sure_it_is(kb: KnowledgeBase) -> None:
    said = ask(kb, OWNER, AskArguments(query=WIRES))
    assert said.data["sure"] in said.text and "3 pm" in said.text
    assert ask(kb, OWNER, AskArguments(query=CAKE)).text == NOT_HERE
    head = search(kb, OWNER, SearchArguments(query=WIRES)).data["trust"]
    assert head.startswith("The answer is ") and "probability" not in head


def test_page_answers_or_says_that_nothing_does(bank: Home) -> None:
    with serving(bank.folder) as server, server.client() as http:
        get = lambda q: http.get("/ask", params={"query": q}, headers={"Accept": "text/html"}).text  # noqa: E731
        page = get(WIRES)
        assert "The latest time for a domestic wire is 3 pm." in page and "no language model was used" in page
        assert 'href="/documents/wires.md?passage=' in page and "#passage" in page
        assert "Nothing here answers this" in get(CAKE) and "The closest passage is in" in get(CAKE)
        assert "read the passage that answers" in get("")
        assert "5 pm" not in get("latest time for a salary wire")


def test_same_sentence_in_two_hits_is_quoted_once(tmp_path: Path) -> None:
    home = Home(tmp_path, SETTINGS)
    for name in ("a", "b"):
        home.write(f"docs/{name}.md", f"# {name}\n\nThe latest time for a domestic wire is 3 pm. Page {name} ends.\n")
    home.sync("docs")
    with home.open() as kb:
        made = kb.search(WIRES, OWNER, 5, confidence="read").quotes
    assert len(made) == 2 and len(answering(made)) == 1
    assert answering(made)[0].text.startswith("The latest time for a domestic wire is 3 pm. Page ")
