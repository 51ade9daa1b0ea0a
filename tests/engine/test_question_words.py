"""Queries are searched without question words; documents are indexed with them."""

from __future__ import annotations

from cases import each
from surefind.base import spec
from surefind.base.abilities import index_form, query_tokens
from surefind.base.types import EVERY, Chunk, Query
from surefind.engine.analyze.english import English
from surefind.engine.retrieve.bm25 import BM25
from surefind.engine.services import LocalServices


@each(
    ("query", "kept"),
    [
        ("How do I reset my PIN?", ["reset", "PIN"]),
        ("what can you tell me about wires", ["tell", "about", "wires"]),
        ("WHO guidelines and who signs them", ["WHO", "guidelines", "and", "signs"]),
        ("US wire rules, not for us", ["US", "wire", "rules", "not", "for", "us"]),
        ("HOW DO I RESET MY PIN", ["RESET", "PIN"]),
        ("May 2024 statements", ["May", "2024", "statements"]),
        ("member's", ["member's"]),
    ],
)
def test_question_words_of_a_query_are_dropped(query: str, kept: list[str]) -> None:
    assert English().query_tokens(query) == kept


@each("query", ["The Who", "to be or not to be", "who are you", "I", "how?", ""])
def test_a_query_of_question_words_alone_keeps_them(query: str) -> None:
    assert English().query_tokens(query) == English().tokens(query)


def test_documents_keep_their_question_words() -> None:
    assert "who" in {term for token in English().tokens("The Who") for term in English().terms(token)}


def test_both_settings_share_one_index_and_search_it_in_their_own_way() -> None:
    texts = ["how do I do it, how do I, do I", "reset the PIN in the vault"]
    chunks = [Chunk(f"d{i}", 0, len(text), text) for i, text in enumerate(texts)]
    plain, full = (BM25(analyzer=text) for text in ("english", "english(question_words=true)"))
    assert plain.index_spec(LocalServices()) == full.index_spec(LocalServices())
    index = plain.build(chunks, LocalServices())
    query = [Query("how do I reset it", "q")]
    assert index.search(plain, query, 2, EVERY).ids[0].tolist()[0] == 1
    assert index.search(full, query, 2, EVERY).ids[0].tolist()[0] == 0


def test_an_analyzer_without_such_a_setting_is_used_as_it_is() -> None:
    plain = spec.make("analyze", "plain")
    assert query_tokens(plain, "How do I?") == plain.tokens("How do I?")
    assert index_form(plain) == str(plain)


def test_the_index_form_of_english_is_its_earlier_spec() -> None:
    assert index_form(English(question_words=True)) == "english(stem=true, stopwords=true, parts=true)"
