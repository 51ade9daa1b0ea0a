"""What a reader says of the first passages of a search. Its scores mean the same in every collection, which those of
BM25 and of vectors do not.

    first    l_1, the logit of the first passage: does it answer the query?
    others   max l_i of the others
    share    log (exp l_1 / Σ exp l_i): do others answer it as well?

The reader is a cross-encoder. It reads the `READ` first passages, of each the `TOKENS` tokens that fit the query best:
about 0.1 s on two cores.
"""

from __future__ import annotations

import numpy as np

from surefind.base.types import Floats

READ = 6
TOKENS = 128
READ_SIGNALS = ("read: first", "read: others", "read: share")
_NOTHING = -10.0
"""The logit of a passage that is not there."""


def reading_signals(logits: Floats) -> Floats:
    """Returns the signals of one query from the logits of its first passages."""
    first = float(logits[0]) if len(logits) else _NOTHING
    others = float(logits[1:].max()) if len(logits) > 1 else _NOTHING
    share = first - float(np.logaddexp.reduce(logits)) if len(logits) else 0.0
    return np.array([first, others, share])
