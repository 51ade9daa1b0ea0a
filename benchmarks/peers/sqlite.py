"""SQLite FTS5 with the tokenizer `porter unicode61` and its bm25(), as in its documentation.

It has no vectors. FTS5 joins words with AND; a question finds hardly anything then, so its words are joined with OR.
"""

from __future__ import annotations

import re
import sqlite3


class Peer:
    packages = ()

    def __init__(self, encode, mode, folder):
        self.db = sqlite3.connect(folder / "fts.db")

    def index(self, documents):
        self.db.execute("CREATE VIRTUAL TABLE passages USING fts5(id UNINDEXED, text, tokenize = 'porter unicode61')")
        rows = ((one["id"], f"{one['title']}\n{one['text']}") for one in documents)
        with self.db:
            self.db.executemany("INSERT INTO passages VALUES (?, ?)", rows)
            self.db.execute("INSERT INTO passages(passages) VALUES ('optimize')")

    def search(self, text, k):
        words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", text.lower()))
        rows = self.db.execute("SELECT id FROM passages WHERE passages MATCH ? ORDER BY rank LIMIT ?", (words, k))
        return [row[0] for row in rows]
