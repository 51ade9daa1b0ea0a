"""Encodes a query and a passage as one row of tokens: `[CLS] query [SEP] title text [SEP]`, at most `max_tokens`.

Of a passage that does not fit, only the window that fits the query best is read. Windows overlap by half. A window's
score is the sum of the query's tokens in it, each weighted by how few windows contain it (so that a word on every line
decides nothing). The title is kept, cut to a third of the room if necessary.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from surefind.base.types import Chunk

_MAX_CHARACTERS = 50_000
"""Longer passages are cut before tokenizing, so that a huge text costs no more; this is many times what fits."""
_QUERY_SHARE, _TITLE_SHARE = 2, 3
"""A query may fill a half of the row, a title a third of what the query leaves."""


class PairTokenizer:
    def __init__(self, file: Path, max_tokens: int) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(file))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._room = max_tokens - self._tokenizer.num_special_tokens_to_add(True)

    def query(self, text: str) -> Any:
        """Encodes a query, once for all passages."""
        encoding = self._encode(text)
        encoding.truncate(max(1, self._room // _QUERY_SHARE))
        return encoding

    def pair(self, query: Any, title: str, text: str) -> Any:
        """Returns an `Encoding` with ids, attention mask and types."""
        room = self._room - len(query.ids)
        parts = []
        if title:
            heading = self._encode(title)
            heading.truncate(max(1, room // _TITLE_SHARE))
            room -= len(heading.ids)
            parts.append(heading)
        parts.append(best_window(self._encode(text), set(query.ids), max(1, room)))
        merged = type(query).merge(parts, growing_offsets=False)
        return self._tokenizer.post_process(query, merged)

    def _encode(self, text: str) -> Any:
        """Encodes a text; replaces lone surrogates, which the tokenizer refuses."""
        readable = text[:_MAX_CHARACTERS].encode("utf-8", "replace").decode()
        return self._tokenizer.encode(readable, add_special_tokens=False)


def best_window(encoding: Any, wanted: set[int], size: int) -> Any:
    """The window of at most `size` tokens with the highest weight of wanted tokens; the first among equals."""
    if len(encoding.ids) <= size:
        return encoding
    encoding.truncate(size, stride=size // 2)
    windows = [encoding, *encoding.overflowing]
    held = [wanted.intersection(window.ids) for window in windows]
    weights = {
        token: math.log((len(windows) + 1) / sum(token in window for window in held)) for token in set().union(*held)
    }
    return windows[max(range(len(windows)), key=lambda i: (sum(weights[t] for t in sorted(held[i])), -i))]


def title_of(chunk: Chunk) -> str:
    """The text that the model reads before a passage: its context from enrichers, or its headings."""
    return chunk.context or " > ".join(chunk.headings)
