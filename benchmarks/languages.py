"""Measures BM25 in other languages: known-item nDCG@10 of the old analyzer, the current one, and rejected variants.

    python benchmarks/languages.py LANGUAGE=FOLDER …            # before and now
    python benchmarks/languages.py --ways LANGUAGE=FOLDER …     # also every variant that was tried
    python benchmarks/languages.py --speed LANGUAGE=FOLDER …    # seconds to analyze all texts, before and now
    python benchmarks/languages.py --bare LANGUAGE=FOLDER …     # questions typed without accents and particles

A folder contains HTML or Markdown pages, such as the translations of one manual, or a BEIR corpus. All contestants
search the same passages (the layout `markdown + headings`) for the same questions, so differences are paired.
"""

from __future__ import annotations

import argparse
import re
import time
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np

from _shared import beir, medians
from surefind.base import spec
from surefind.base.protocols import Analyzer
from surefind.base.text import words as folding
from surefind.base.text.words import HAN, HANGUL, UNSPACED_RUN, clusters, pattern
from surefind.base.types import EVERY, Chunk, Document, Query
from surefind.engine.analyze import english
from surefind.engine.analyze.english import English
from surefind.engine.retrieve._counting import Terms
from surefind.engine.retrieve._postings import Postings
from surefind.engine.retrieve.bm25 import BM25
from surefind.engine.services import LocalServices
from surefind.engine.write.layout import Layout
from surefind.lab.exam.known_item import generate
from surefind.lab.measure.ranks import ChunkSpans, Judge, ndcg
from surefind.lab.measure.statistics import bootstrap

_ENGLISH = English()
_READERS = {".html": "html", ".md": "markdown"}


class Before:
    """The analyzer before it supported other scripts: a clause of Chinese is one word."""

    _TOKEN = re.compile(
        r"\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\w|,\d)"
        r"|[^\W_]+(?:[-.*/@&+'’_:]+[^\W_]+)*(?:\([^\W_]{1,4}\))*"
        r"|_+[^\W_]+(?:_+[^\W_]+)*"
    )

    def tokens(self, text: str) -> list[str]:
        return self._TOKEN.findall(text)

    def terms(self, token: str) -> tuple[str, ...]:
        return _ENGLISH._of_word(token)


@dataclass(frozen=True)
class Way:
    """A variant of `english` with other terms for other scripts."""

    han: str = "pairs and singles"
    hangul: str = "pairs"
    southeast: str = "cluster pairs"
    accents: str = "folded"

    def tokens(self, text: str) -> list[str]:
        return english.raw_tokens(text)

    def terms(self, token: str) -> tuple[str, ...]:
        if token.isascii():
            return _ENGLISH._of_word(token)
        found: list[str] = []
        for i, run in enumerate(pattern(f"({UNSPACED_RUN}|[{HANGUL}]+)").split(unicodedata.normalize("NFKC", token))):
            found += self._grams(run.replace("\u200b", "")) if i % 2 else self._words(run)
        return tuple(found)

    def _words(self, run: str) -> list[str]:
        forms = {"folded": [folding.fold(run)], "kept": [run], "both": [run, folding.fold(run)]}[self.accents]
        made = [
            term
            for form in forms
            for word in english.pattern(english.WIDE_TOKEN).findall(form)
            for term in _ENGLISH._of_word(word)
        ]
        return list(dict.fromkeys(made))

    def _grams(self, run: str) -> list[str]:
        if re.match(f"[{HANGUL}]", run):
            return {"pairs": _pairs(run), "words": [run], "words and pairs": [*{run, *_pairs(run)}]}[self.hangul]
        if pattern(f"[{HAN}\u3040-\u30ff]").match(run):
            singles = pattern(f"[{HAN}]").findall(run) if len(run) > 1 else []
            return {"pairs": _pairs(run), "singles": list(run), "pairs and singles": [*_pairs(run), *singles]}[self.han]
        pieces = clusters(run)
        return {
            "cluster pairs": _pairs(pieces),
            "clusters": pieces,
            "cluster triples": _grams(pieces, 3),
            "character triples": _grams(run, 3),
            "cluster pairs and triples": _pairs(pieces) + (_grams(pieces, 3) if len(pieces) > 2 else []),
        }[self.southeast]


def _pairs(pieces: Sequence[str]) -> list[str]:
    return [a + b for a, b in pairwise(pieces)] or list(pieces)


def _grams(pieces: Sequence[str], n: int) -> list[str]:
    return ["".join(pieces[i : i + n]) for i in range(max(1, len(pieces) - n + 1))]


WAYS: dict[str, Analyzer] = {
    "before": Before(),
    "now": English(),
    "Chinese characters singly only": Way(han="singles"),
    "Chinese characters in pairs only": Way(han="pairs"),
    "Korean words whole": Way(hangul="words"),
    "Korean words whole, and pairs": Way(hangul="words and pairs"),
    "clusters singly": Way(southeast="clusters"),
    "cluster triples": Way(southeast="cluster triples"),
    "cluster pairs and triples": Way(southeast="cluster pairs and triples"),
    "character triples": Way(southeast="character triples"),
    "accents kept": Way(accents="kept"),
    "accents kept, and folded": Way(accents="both"),
}


def documents(folder: Path) -> list[Document]:
    if (folder / "corpus.jsonl").exists():
        return [Document(row["_id"], row["text"], row["title"], "text") for row in beir(folder)[0]]
    files = sorted(path for path in folder.rglob("*") if path.suffix in _READERS)
    made = (spec.make("read", _READERS[p.suffix]).read(p, p.relative_to(folder).as_posix()) for p in files)
    return [document for found in made for document in found]


def bare(text: str) -> str:
    """The text as people type it: without accents, and Korean nouns without the particle."""
    text = re.sub(r"(?<=[가-힣]{2})(?:에서|으로|은|는|이|가|을|를|의|에|로|와|과|도)(?![가-힣])", "", text)
    spread = unicodedata.normalize("NFD", text)
    return unicodedata.normalize("NFC", re.sub(r"(?<=[A-Za-z\u0370-\u03ff])[\u0300-\u036f]+", "", spread))


def speed(language: str, found: Sequence[Document]) -> None:
    texts = [document.text for document in found]

    def taken(analyzer: Analyzer) -> float:
        started = time.process_time()
        Terms(analyzer, ()).of(texts, len(texts), None)
        return time.process_time() - started

    taken(_ENGLISH)  # compiles the kernels
    took = medians({name: partial(taken, WAYS[name]) for name in ("before", "now")}, 15)
    ascii_only = sum(text.isascii() for text in texts) / len(texts)
    ratio = took["now"] / took["before"]
    print(f"{language}: {sum(map(len, texts)) / 1e6:.1f}M characters, {ascii_only:.0%} of the texts ASCII: ", end="")
    print(f"before {took['before']:.2f} s, now {took['now']:.2f} s, ratio {ratio:.3f}")


def places(chunks: Sequence[Chunk], found: Sequence[Document]) -> ChunkSpans:
    numbers = {document.id: i for i, document in enumerate(found)}
    rows = np.array([(numbers[c.document], c.start, c.end) for c in chunks], np.int64)
    return ChunkSpans(rows[:, 0], rows[:, 1], rows[:, 2], numbers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="LANGUAGE=FOLDER")
    parser.add_argument("--ways", action="store_true")
    parser.add_argument("--bare", action="store_true")
    parser.add_argument("--speed", action="store_true")
    given = parser.parse_args()
    contestants = WAYS if given.ways or given.bare else {name: WAYS[name] for name in ("before", "now")}
    if given.speed:
        for language, folder in (pair.split("=", 1) for pair in given.folders):
            speed(language, documents(Path(folder)))
        return
    layout, services, bm25 = Layout.parse("markdown", ["headings"]), LocalServices(), BM25()
    for language, folder in (pair.split("=", 1) for pair in given.folders):
        found = documents(Path(folder))
        chunks = [chunk for document in found for chunk in layout.cut(document, services)]
        exam = generate(found)
        judge = Judge(exam.queries, places(chunks, found))
        queries = [Query(bare(q.text) if given.bare else q.text) for q in exam.queries]
        scores: dict[str, np.ndarray] = {}
        for name, analyzer in contestants.items():
            index = Postings.build([chunk.searchable for chunk in chunks], analyzer)
            scores[name] = ndcg(judge.gains(index.search(bm25, queries, 100, EVERY), "document"), 10)
        families = {f: sum(q.family == f for q in exam.queries) for f in {q.family: 0 for q in exam.queries}}
        print(f"\n{language}: {len(found)} documents, {len(chunks)} passages, {len(queries)} questions {families}")
        now = scores["now"]
        for name, values in scores.items():
            if name not in ("before", "now") and np.array_equal(values, now):
                continue  # a variant for scripts that these documents do not contain
            mean = bootstrap(values[:, None])[0]
            change = bootstrap((now - values)[:, None])[0]
            against = "" if name == "now" else f"   now {change.mean:+.3f} [{change.low:+.3f}, {change.high:+.3f}]"
            print(f"  {name:<38} {mean.mean:.3f} [{mean.low:.3f}, {mean.high:.3f}]{against}", flush=True)
        by_family = {f: np.array([q.family == f for q in exam.queries]) for f in families}
        for name in ("before", "now"):
            print(f"  {name:<38} " + ", ".join(f"{f} {scores[name][rows].mean():.3f}" for f, rows in by_family.items()))


if __name__ == "__main__":
    main()
