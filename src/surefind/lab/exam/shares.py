"""Writes a known-item exam whose kinds of questions have given shares, such as those of a published study.

    n(kind) = ⌊s · share(kind)⌋        s = min over kinds of written(kind) / share(kind), at most 1

A kind of which there are too few makes the others fewer. A kind of which there is none is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from surefind.base.types import Document
from surefind.lab.exam.known_item import GENERATOR, generate
from surefind.lab.exam.model import Exam, ExamQuery

_PARAPHRASE, _TITLED = "heading_paraphrase", "heading_paraphrase_titled"


def in_shares(queries: Sequence[ExamQuery], shares: Mapping[str, int]) -> tuple[ExamQuery, ...]:
    """The first questions of each kind, as many as its share allows."""
    kinds = {kind: [query for query in queries if query.family == kind] for kind in shares}
    there = {kind: found for kind, found in kinds.items() if found}
    scale = min((len(found) / shares[kind] for kind, found in there.items()), default=0.0)
    counts = {kind: max(1, int(min(1.0, scale) * shares[kind] + 1e-9)) for kind in there}
    return tuple(query for kind, found in there.items() for query in found[: counts[kind]])


def generate_in_shares(
    documents: Sequence[Document],
    shares: Mapping[str, int],
    name: str,
    written: Sequence[ExamQuery] = (),
    seed: int = 42,
) -> Exam:
    """Writes the exam. Kinds of which there are `written` questions, by a language model, are not written by rule.
    Paraphrases by rule name their document where their words alone point at several."""
    by_model = {query.family for query in written}
    families = [_TITLED if kind == _PARAPHRASE else kind for kind in shares if kind not in by_model]
    made = generate(documents, name, max(shares.values()), families, seed)
    ours = [replace(query, family=_PARAPHRASE) if query.family == _TITLED else query for query in made.queries]
    return Exam(name, in_shares([*ours, *written], shares), origin=made.origin, generator=GENERATOR)
