"""Pseudo-labels for training an encoder without judgments: the bundled cross-encoder says how much better a passage
answers a question than each negative does.

    margin(q, p, n) = z(q, p) - z(q, n)        z: logits

Questions that a language model wrote, mined negatives and these labels together are GPL (Wang, Thakur, Reimers and
Gurevych, Generative pseudo labeling, NAACL 2022), as the support-chatbot study uses it (appendix D).
"""

from __future__ import annotations

from collections.abc import Sequence

from surefind.base.protocols import OnProgress
from surefind.base.types import Chunk
from surefind.engine.rerank.cross_encoder import bundled_reader
from surefind.lab.train.pairs import Pair

_TOKENS = 256
"""Tokens of a question and a passage that are read."""


def margins_of(
    pairs: Sequence[Pair], negatives: Sequence[Sequence[int]], chunks: Sequence[Chunk], report: OnProgress
) -> list[tuple[float, ...]]:
    """The margins of each pair over its negatives, which are places in `chunks`."""
    reader = bundled_reader(_TOKENS)
    margins = []
    for at, (pair, others) in enumerate(zip(pairs, negatives, strict=True)):
        report("Labelling", at, len(pairs))
        passage = Chunk(pair.document, 0, len(pair.text), pair.text, context=pair.title)
        written = [Chunk("", 0, len(pair.negative), pair.negative)] if pair.negative else []
        rivals = [*written, *(chunks[place] for place in others[len(written) :])]
        own, *rest = reader.score(pair.query, [passage, *rivals]).tolist()
        margins.append(tuple(own - other for other in rest))
    report("Labelling", len(pairs), len(pairs))
    return margins
