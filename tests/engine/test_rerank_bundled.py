"""The bundled rerankers: what ships with surefind-models, read as a user's search reads it."""

from __future__ import annotations

from pathlib import Path

import surefind_models

from cases import each
from helpers import ask
from rerank_helpers import Shelf
from surefind.base.types import Chunk, Query
from surefind.engine.inference.cross_encoder import OnnxCrossEncoder
from surefind.engine.rerank.cross_encoder import CrossEncoder, bundled
from surefind.engine.services import LocalServices
from surefind.kb import KnowledgeBase
from surefind.testing import check_reranker, rankings_of

MODELS = ("small", "large")
PASSAGES = (
    "Currency transaction reports must be filed with FinCEN within 15 calendar days of the transaction.",
    "The vault opens at nine and closes at five on business days.",
    "Outgoing wires are cut off at 15:30 Eastern on business days.",
    "A member whose card was lost abroad calls the 24-hour line; the card is blocked at once.",
    "Cash counts above the drawer limit go to the vault.",
)


@each("model", MODELS)
def test_contract(model: str) -> None:
    rows = [([4, 0, 3, 2], [9.0, 3.0, 2.0, 1.0]), ([4], [1.0]), ([], []), ([1, 2, 0], [3.0, 3.0, 3.0])]
    queries = [Query("cash report"), Query("vault"), Query("nothing"), Query("the deadline of a report")]
    check_reranker(CrossEncoder(model), queries, rankings_of(rows), Shelf(*PASSAGES))


@each(
    ("model", "query", "wanted"),
    [
        ("small", "How long do we have to report a large cash deposit?", 0),  # large does not see that this is it
        *((model, "When must a cash report be filed?", 0) for model in MODELS),
        *((model, "When can I no longer send a wire?", 2) for model in MODELS),
        *((model, "customer lost debit card on holiday", 3) for model in MODELS),
    ],
)
def test_it_finds_the_answer_that_shares_few_words(model: str, query: str, wanted: int) -> None:
    given = rankings_of([([*range(5)], [1.0] * 5)])
    found = CrossEncoder(model, blend=1.0).rerank([Query(query)], given, Shelf(*PASSAGES), 5, LocalServices())
    assert found.row(0)[0][0] == wanted


@each("model", MODELS)
def test_a_passage_has_the_same_score_in_any_company(model: str) -> None:
    reader = OnnxCrossEncoder(bundled(model))
    chunks = [Chunk("", 0, len(text), text) for text in PASSAGES]
    together = reader.score("wire deadline", chunks)
    assert [float(reader.score("wire deadline", [chunk])[0]) for chunk in chunks] == together.tolist()


def test_careful_says_yes_to_an_answer_and_no_to_the_rest() -> None:
    reader = OnnxCrossEncoder(bundled("large"))
    chunks = [Chunk("", 0, len(text), text) for text in PASSAGES]
    scores = reader.score("How many days are there to file a currency transaction report?", chunks)
    assert scores[0] > 0 and max(scores[1:]) < 0


@each(("name", "most"), [("reranker", 24_000_000), ("careful", 35_000_000)])
def test_every_file_is_small_enough_to_ship(name: str, most: int) -> None:
    folder = surefind_models.path(name)
    assert {path.name for path in folder.iterdir()} == {
        "LICENSE", "MODEL_CARD.md", "config.json", "model.onnx", "tokenizer.json",
    }  # fmt: skip
    assert max(path.stat().st_size for path in folder.iterdir()) <= most


def test_search_uses_it_without_being_told_where_it_is(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    for number, text in enumerate(PASSAGES):
        (docs / f"{number}.md").write_text(text, encoding="utf-8")
    with KnowledgeBase.open(tmp_path) as kb:
        kb.sync(docs, index=False)
        words = "bm25(analyzer=plain) >> cross_encoder(blend=1.0)"
        result = ask(kb, "members losing a card on holiday: who stops the card?", pipeline=words)
    assert result.hits[0].document == "3.md"
    assert "fell back" not in "".join(entry.note for entry in result.trace)
