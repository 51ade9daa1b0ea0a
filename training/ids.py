"""Turns texts into token ids. Needs neither torch nor, until it is called, tokenizers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np


def flat_ids(texts: Sequence[str], tokenizer_file: Path, most: int) -> tuple[np.ndarray, np.ndarray]:
    """The token ids of all texts in one array, and the length of each text."""
    from tokenizers import Tokenizer  # not needed where texts arrive as token ids

    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    tokenizer.no_padding()
    tokenizer.enable_truncation(most)
    parts, lengths = [np.empty(0, np.int32)], []
    for at in range(0, len(texts), 20_000):
        rows = [one.ids for one in tokenizer.encode_batch(list(texts[at : at + 20_000]), add_special_tokens=False)]
        lengths += [len(row) for row in rows]
        parts.append(np.fromiter((token_id for row in rows for token_id in row), np.int32))
    return np.concatenate(parts), np.array(lengths, np.int64)
