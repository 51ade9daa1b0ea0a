"""Xapian as in its "getting started" guide: TermGenerator and QueryParser with the English stemmer, BM25 by default.

It has no vectors. The words of a question are joined with OR, its default operator; stop words are those of the guide's
QueryParser, none.
"""

from __future__ import annotations

import re

import xapian


class Peer:
    packages = ()

    def __init__(self, encode, mode, folder):
        self.folder = str(folder / "db")

    def index(self, documents):
        database = xapian.WritableDatabase(self.folder, xapian.DB_CREATE_OR_OPEN)
        terms = xapian.TermGenerator()
        terms.set_stemmer(xapian.Stem("en"))
        for one in documents:
            made = xapian.Document()
            terms.set_document(made)
            terms.index_text(f"{one['title']}\n{one['text']}")
            made.set_data(one["id"])
            database.add_document(made)
        database.commit()
        self.database = xapian.Database(self.folder)
        self.parser = xapian.QueryParser()
        self.parser.set_stemmer(xapian.Stem("en"))
        self.parser.set_stemming_strategy(xapian.QueryParser.STEM_SOME)

    def search(self, text, k):
        enquire = xapian.Enquire(self.database)
        enquire.set_query(self.parser.parse_query(" ".join(re.findall(r"\w+", text.lower()))))
        return [match.document.get_data().decode() for match in enquire.get_mset(0, k)]
