"""The bundled reranker: what ships with surefind-models, read as a user's search reads it."""

from __future__ import annotations

from pathlib import Path

import pytest
import surefind_models

from helpers import ask
from rerank_helpers import Shelf
from surefind.inference.cross_encoder import OnnxCrossEncoder
from surefind.kb import KnowledgeBase
from surefind.rerank.cross_encoder import CrossEncoder
from surefind.services import LocalServices
from surefind.testing import check_reranker, rankings_of
from surefind.types import Chunk, Query

FOLDER = surefind_models.path("reranker")
PASSAGES = (
    "Currency transaction reports must be filed with FinCEN within 15 calendar days of the transaction.",
    "The vault opens at nine and closes at five on business days.",
    "Outgoing wires are cut off at 15:30 Eastern on business days.",
    "A member whose card was lost abroad calls the 24-hour line; the card is blocked at once.",
    "Cash counts above the drawer limit go to the vault.",
)


def test_contract() -> None:
    rows = [([4, 0, 3, 2], [9.0, 3.0, 2.0, 1.0]), ([4], [1.0]), ([], []), ([1, 2, 0], [3.0, 3.0, 3.0])]
    queries = [Query("cash report"), Query("vault"), Query("nothing"), Query("the deadline of a report")]
    check_reranker(CrossEncoder(), queries, rankings_of(rows), Shelf(*PASSAGES))


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("How long do we have to report a large cash deposit?", 0),
        ("When can I no longer send a wire?", 2),
        ("customer lost debit card on holiday", 3),
    ],
)
def test_it_finds_the_answer_that_shares_few_words(query: str, wanted: int) -> None:
    given = rankings_of([([*range(5)], [1.0] * 5)])
    found = CrossEncoder(blend=1.0).rerank([Query(query)], given, Shelf(*PASSAGES), 5, LocalServices())
    assert found.row(0)[0][0] == wanted


def test_a_passage_has_the_same_score_in_any_company() -> None:
    model = OnnxCrossEncoder(FOLDER)
    chunks = [Chunk("", 0, len(text), text) for text in PASSAGES]
    together = model.score("wire deadline", chunks)
    assert [float(model.score("wire deadline", [chunk])[0]) for chunk in chunks] == together.tolist()


def test_every_file_is_small_enough_to_ship() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {
        "LICENSE", "MODEL_CARD.md", "config.json", "model.onnx", "tokenizer.json",
    }  # fmt: skip
    assert max(path.stat().st_size for path in FOLDER.iterdir()) <= 24_000_000


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
