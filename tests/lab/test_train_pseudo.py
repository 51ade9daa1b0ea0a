"""Pseudo-labels of a cross-encoder, with the bundled reranker."""

from __future__ import annotations

import pytest

from surefind.base.types import Chunk
from surefind.engine.rerank.cross_encoder import bundled_reader
from surefind.lab.train.pairs import Pair, margins_of

CHUNKS = [
    Chunk(f"{i}.md", 0, len(text), text) for i, text in enumerate(("The vault opens at nine.", "Cats like milk."))
]


def test_a_margin_is_the_difference_of_two_logits() -> None:
    pair = Pair("when does the vault open", "", CHUNKS[0].text, "0.md", "llm")
    said: list[tuple[str, int, int]] = []
    ((margin,),) = margins_of([pair], [[1]], CHUNKS, lambda *step: said.append(step))
    own, other = bundled_reader(256).score(pair.query, CHUNKS).tolist()
    assert margin == pytest.approx(own - other, abs=1e-4) and margin > 0
    assert said[-1] == ("Labelling", 1, 1)


def test_a_written_negative_takes_the_place_of_the_first_mined_one() -> None:
    pair = Pair("when does the vault open", "", CHUNKS[0].text, "0.md", "llm", CHUNKS[0].text)
    ((same, other),) = margins_of([pair], [[1, 1]], CHUNKS, lambda *step: None)
    assert same == pytest.approx(0.0, abs=1e-4) and other > 1
