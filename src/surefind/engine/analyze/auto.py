"""`auto(languages=[])`: stems each passage in its language, and a question in the languages of the passages.

An index asks it for the terms of a passage by `marked(language, text)`. Terms of English passages, and of those in a
language without a stemmer, are exactly those of `english`. A passage in another language has one more term, which marks
its language, so an index knows how many passages are in which language (`counted`).

A question is short, so its language is not always sure: `retrieve.bm25` searches it once for each language that holds a
twentieth of the passages, and for its own language; the best score of a passage counts. For each of them it asks
`auto(languages=[de])`. With several languages a word has the stems of all.

Question words are left out of a question in the languages of which we have a list (docs/languages.md). A list of stop
words in the index gained nothing in German and is not used. Accents are folded before a word is stemmed, so that people
may leave them off.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from surefind.base.spec import Stage, format_spec
from surefind.base.text.languages import STEMMERS, question_words, stemmer
from surefind.base.text.words import fold
from surefind.engine.analyze.english import English, raw_tokens, split_identifier, terms_of

_MARK = "\x1f"
"""A character that no token has."""
_MARKED = re.compile(f"({_MARK}(?:{'|'.join(STEMMERS)}){_MARK})\n")
_ENGLISH = English()


@dataclass(frozen=True)
class Auto(Stage):
    kind: ClassVar[str] = "analyze"
    name: ClassVar[str] = "auto"

    languages: tuple[str, ...] = ()
    """The languages to stem words in, such as de; none means English, or what a text is marked with."""

    @property
    def index_form(self) -> str:
        """The spec without `languages`, which change queries only."""
        return format_spec(self.name, [])

    def tokens(self, text: str) -> list[str]:
        mark = _MARKED.match(text)
        if mark is None:
            return raw_tokens(text)
        return [mark[1], *(f"{mark[1]}{token}" for token in raw_tokens(text[mark.end() :]))]

    def terms(self, token: str) -> tuple[str, ...]:
        if token.startswith(_MARK):
            _, language, word = token.split(_MARK, 2)
            return _terms(language, word) if word else (token,)
        terms = (_terms(language, token) for language in self.languages or ("en",))
        return tuple(dict.fromkeys(term for some in terms for term in some)) if self.languages[1:] else next(terms)

    def query_tokens(self, text: str) -> list[str]:
        return self.content_tokens(text) or raw_tokens(text)

    def content_tokens(self, text: str) -> list[str]:
        """Returns the tokens of a query without the question words of its languages; empty if no token is left."""
        kept = _ENGLISH.content_tokens(text) if "en" in (self.languages or ("en",)) else raw_tokens(text)
        for language in self.languages:
            left_out = question_words(language)
            kept = [token for token in kept if fold(token.lower()) not in left_out]
        return kept if any(map(self.terms, kept)) else []


def marked(language: str, text: str) -> str:
    """A text with its language, if it is one with a stemmer of its own."""
    return f"{mark_of(language)}\n{text}" if language in STEMMERS else text


def mark_of(language: str) -> str:
    """The term that each passage in this language has."""
    return f"{_MARK}{language}{_MARK}"


def counted(term: str) -> str:
    """The language whose passages have this term; empty for a word."""
    return term[1:-1] if term.startswith(_MARK) else ""


def _terms(language: str, token: str) -> tuple[str, ...]:
    if language not in STEMMERS:
        return _ENGLISH.terms(token)
    stem = stemmer(language).stemWord

    def of_word(word: str) -> tuple[str, ...]:
        whole, parts = split_identifier(word)
        return (whole, *(stem(part) for part in parts if len(part) > 1)) if parts else (stem(whole),)

    return terms_of(token, of_word)
