"""`english(stem=true, stopwords=true, parts=true, question_words=false)`: stems English words, keeps identifiers whole
and in parts, and searches without the question words of a query.

Terms of `Filing under 31 CFR 1020.320(d)`: file · under · 31 · cfr · 1020.320(d), 1020.320, 1020, 320.
So an exact identifier in a query matches its whole form (rare, so decisive) as well as its parts. Parts of one
character are left out: indexing them cost 0.4 to 0.6 points of nDCG@10 on SciFact and on source code.

Stemmer: Snowball English (Porter2). Stop words: only the 33 of Lucene's StandardAnalyzer, because a longer list would
drop words that matter in policies ("before", "without", "over").

Question words (how, do, I, my, what, can …) are indexed, but a query is searched without them,
because they match passages that happen to be written in the first person or as questions. On nine collections this
raised nDCG@10 of BM25 significantly on five, and lowered it significantly on none. They are kept in capitals (`WHO`),
and if nothing else is left (`to be or not to be`, `The Who`).

Left out of them on purpose, because they are also nouns, months or names: may, mine, will, might, us, it.

Other scripts (`text.fold`): pairs of characters for scripts without spaces between words; accents are folded. ASCII
text skips this part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from surefind.base.spec import Stage, format_spec
from surefind.engine.analyze.auto import content_tokens, english_terms, raw_tokens, terms_of


@dataclass(frozen=True)
class English(Stage):
    kind: ClassVar[str] = "analyze"
    name: ClassVar[str] = "english"

    stem: bool = True
    stopwords: bool = True
    parts: bool = True
    """Also index the parts of `kube-apiserver` and `KubeAPIDown`."""
    question_words: bool = False
    """Also search for the question words of a query."""

    @property
    def index_form(self) -> str:
        """The spec without `question_words`, which changes queries only."""
        return format_spec(self.name, [("stem", self.stem), ("stopwords", self.stopwords), ("parts", self.parts)])

    def tokens(self, text: str) -> list[str]:
        return raw_tokens(text)

    def query_tokens(self, text: str) -> list[str]:
        kept = self.content_tokens(text)
        return kept if kept and not self.question_words else raw_tokens(text)

    def content_tokens(self, text: str) -> list[str]:
        """Returns the tokens of a query without its question words; empty if no token with terms is left."""
        kept = content_tokens(text)
        return kept if any(map(self.terms, kept)) else []

    def terms(self, token: str) -> tuple[str, ...]:
        return terms_of(token, self._of_word)

    def _of_word(self, token: str) -> tuple[str, ...]:
        return english_terms(token, self.stem, self.stopwords, self.parts)
