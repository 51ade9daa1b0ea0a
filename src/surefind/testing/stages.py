"""Checks that apply to stages of every kind.

Raises an error if a rule of a contract is broken.

Checks rankings of any origin, and makes rankings for tests.

Checks analyzers and encoders.

Checks readers, chunkers and enrichers.

Checks fusers.

Checks rerankers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from surefind.base import spec
from surefind.base.abilities import declared
from surefind.base.errors import SourceError
from surefind.base.protocols import (
    Analyzer,
    Chunker,
    Embedder,
    Enricher,
    Fuser,
    Passages,
    Reader,
    Reranker,
    Retriever,
    Services,
)
from surefind.base.types import EVERY, PAD, Chunk, Document, Mask, Query, Rankings, Signal
from surefind.engine.services import LocalServices


def rule(holds: object, sentence: str) -> None:
    if not holds:
        raise AssertionError(sentence)


def check_stage(stage: spec.Stage) -> None:
    """Checks that a stage is a value whose spec reads back as the same value."""
    text = str(stage)
    rule(spec.make(stage.kind, text) == stage, f"A spec must read back as the same stage; {text} does not.")
    rule(str(spec.make(stage.kind, text)) == text, f"A spec must be in canonical form; {text} changes when read.")
    rule(hash(stage) == hash(stage.replace()), f"Equal stages must have equal hashes; two {text} do not.")


def check_declared(stage: object, services: Services) -> None:
    """Checks the types and stability of what a stage declares besides its method (`stamp`, `uses` …)."""
    made = declared(stage)
    stamps = {made.stamp(services) for _ in range(2)}
    rule(len(stamps) == 1 and all(type(stamp) is str for stamp in stamps), f"stamp() must be a stable str: {stage}.")
    questions = made.training_questions(services)
    rule(isinstance(questions, frozenset), f"training_questions() must return a frozenset: {stage}.")
    rule(all(isinstance(question, str) for question in questions), f"training_questions() must return str: {stage}.")
    for name in ("runs_here", "reaches", "text_only", "checks_access"):
        rule(type(getattr(made, name)) is bool, f"{name} must be true or false: {stage}.")
    rule(type(made.work) is str and bool(made.work), f"work must be a str that is not empty: {stage}.")
    if not isinstance(stage, Retriever):
        return
    rule(all(isinstance(one, Retriever) for one in made.uses), f"uses must be retrievers: {stage}.")
    own = {one.index_spec(services) for one in made.uses}
    rule(
        stage.index_spec(services) not in own, f"index_spec must differ from those of the retrievers in uses: {stage}."
    )
    rule(bool(own) == (type(made).over is not spec.Stage.over), f"over() is for a retriever with uses: {stage}.")
    if made.inner is not None:
        rule(
            stage.index_spec(services) == made.inner.index_spec(services),
            f"A wrapper must share the index that it wraps: {stage}.",
        )


TOLERANCE = 1e-5
"""Allowed difference between two computations of the same score, since the order of additions may differ."""

Row = tuple[Sequence[int], Sequence[float]]


def rankings_of(rows: Sequence[Row], source: str = "bm25", signal: Signal = "sparse", floor: float = 0.0) -> Rankings:
    """Makes padded Rankings from rows: `[([3, 1], [9.0, 4.0]), ([], [])]` -> Rankings of two queries."""
    width = max((len(ids) for ids, _ in rows), default=0)
    made = np.full((len(rows), width), PAD, np.int64), np.full((len(rows), width), -np.inf)
    for i, row in enumerate(rows):
        for array, values in zip(made, row, strict=True):
            array[i, : len(values)] = values
    return Rankings(*made, source, signal, floor)


def check_rankings(rankings: Rankings, queries: int, k: int, chunks: int | None = None, allow: Mask = EVERY) -> None:
    """Checks the rankings of any retriever, fuser or reranker. Pass the number of chunks as `chunks` if ids are places
    in an index."""
    ids, scores = rankings.ids, rankings.scores
    rule(ids.shape == scores.shape, f"Ids {ids.shape} and scores {scores.shape} must have the same shape.")
    rule(ids.ndim == 2 and len(ids) == queries, f"Ids must have {queries} rows, one per query: {ids.shape}.")
    rule(ids.shape[1] <= k, f"A row must have at most k = {k} chunks, not {ids.shape[1]}.")
    rule(ids.dtype == np.int64, f"Ids must be int64, not {ids.dtype}.")
    rule(scores.dtype in (np.float32, np.float64), f"Scores must be float32 or float64, not {scores.dtype}.")
    for i in range(queries):
        _check_row(ids[i].tolist(), scores[i].tolist(), f"row {i} of {rankings.source}", chunks, allow)


def _check_row(ids: list[int], scores: list[float], where: str, chunks: int | None, allow: Mask) -> None:
    filled = sum(chunk_id != PAD for chunk_id in ids)
    filled_ids = ids[:filled]
    rule(PAD not in filled_ids, f"Padding must be at the end: {where}.")
    rule(all(score == -np.inf for score in scores[filled:]), f"Padding must have score -inf: {where}.")
    rule(all(np.isfinite(score) for score in scores[:filled]), f"Scores must be finite numbers: {where}.")
    rule(
        all(chunk_id >= 0 and (chunks is None or chunk_id < chunks) for chunk_id in filled_ids),
        f"Ids must name chunks: {where}.",
    )
    rule(len(set(filled_ids)) == len(filled_ids), f"No chunk may be found twice: {where}.")
    order = sorted(range(filled), key=lambda j: (-scores[j], filled_ids[j]))
    rule(order == list(range(filled)), f"Rows must be sorted by score, then by id: {where}.")
    rule(
        allow.bits is None or all(allow.bits[o] for o in filled_ids), f"A chunk that is not allowed was found: {where}."
    )


def scores_of(rankings: Rankings, i: int) -> dict[int, float]:
    ids, scores = rankings.row(i)
    return dict(zip(ids.tolist(), scores.tolist(), strict=True))


def same_row(a: Rankings, i: int, b: Rankings, j: int, sentence: str) -> None:
    left, right = scores_of(a, i), scores_of(b, j)
    same = left.keys() == right.keys() and all(abs(left[o] - right[o]) <= TOLERANCE for o in left)
    rule(same, f"{sentence}: query {j} differs.")


DOCUMENTS = (
    Document("empty.md", ""),
    Document("blank.md", " \n\t\n\u00a0\u2003 "),
    Document("word.md", "word"),
    Document("prose.txt", "One sentence. Another one! A third?\n\n" * 40, "Prose", "text"),
    Document("long-line.md", "token " * 1500, "Long"),
    Document("unicode.md", "# Überschrift\n\n" + "東京の🍮 naïve\u200bcafé e\u0301. " * 60, "Unicode"),
    Document(
        "manual.md",
        "Preamble.\n\n# Manual\n\nIntro.\n\n## Steps\n\n1. First do this.\n2. Then *that*.\n   - and more\n\n"
        "| code | meaning |\n|---|---|\n| EOD-7 | end of day |\n\n```\nrun --now\n\n# not a heading\n```\n\n"
        "Setext\n------\n\n> quoted text\n\n<div>\nhtml\n</div>\n\n## Empty\n\n### Deep\n\nLast words",
        "Manual",
    ),
)


def check_reader(reader: Reader, good: Path, bad: Path | None = None) -> None:
    """Checks a reader. `good` is a file that it can read; `bad`, if given, is one that it must refuse with a
    `SourceError`."""
    rule(reader.suffixes, "A reader must name the suffixes (or whole names) of the files it reads.")
    for suffix in reader.suffixes:
        rule("." in suffix and suffix == suffix.lower(), f"A suffix must have a dot and be lower case: {suffix!r}.")
    documents = list(reader.read(good, "folder/name"))
    rule(documents, f"A reader must return a document for a readable file; it returned none for {good}.")
    ids = [document.id for document in documents]
    rule(len(set(ids)) == len(ids), f"Documents of one file must have different ids: {ids}.")
    for document in documents:
        rule(document.id, f"A document must have an id: one of {good} has none.")
        rule("\r" not in document.text, f"Line ends must be \\n: {document.id}.")
        rule(not document.text.startswith("\ufeff"), f"A text must not begin with a byte order mark: {document.id}.")
    rule(list(reader.read(good, "folder/name")) == documents, f"Reading twice must give the same documents: {good}.")
    if bad is not None:
        _check_refuses(reader, bad)


def _check_refuses(reader: Reader, bad: Path) -> None:
    try:
        list(reader.read(bad, "folder/name"))
    except SourceError:
        return
    except Exception as error:
        raise AssertionError(f"A reader must refuse with SourceError, not {type(error).__name__}: {bad}.") from error
    raise AssertionError(f"A reader must refuse a bad file with SourceError: {bad}.")


def check_chunker(
    chunker: Chunker, documents: Sequence[Document] = DOCUMENTS, services: Services | None = None
) -> None:
    """Checks that a chunker is deterministic and returns exact spans that cover all text of each document."""
    services = services or LocalServices()
    for document in documents:
        chunks = chunker.chunk(document, services)
        _check_chunks(document, chunks)
        rule(chunker.chunk(document, services) == chunks, f"Chunking {document.id} twice must give the same chunks.")
    for text in ("", " \n\t"):
        nothing = chunker.chunk(Document("nothing", text), services)
        rule(nothing == [], f"A text without words must have no chunks: {text!r}.")


def _check_chunks(document: Document, chunks: list[Chunk]) -> None:
    covered = bytearray(len(document.text))
    for chunk in chunks:
        where = f"{document.id}[{chunk.start}:{chunk.end}]"
        rule(chunk.document == document.id, f"A chunk must name its document: {where} says {chunk.document!r}.")
        rule(0 <= chunk.start < chunk.end <= len(document.text), f"Offsets must be inside the text: {where}.")
        rule(document.text[chunk.start : chunk.end] == chunk.text, f"Offsets must match the chunk's text: {where}.")
        rule(chunk.text.strip(), f"A chunk must contain more than white space: {where}.")
        if chunk.parent is not None:
            inside = 0 <= chunk.parent[0] <= chunk.start and chunk.end <= chunk.parent[1] <= len(document.text)
            rule(inside, f"A chunk must be inside its parent, the parent inside the text: {where} in {chunk.parent}.")
        covered[chunk.start : chunk.end] = b"\1" * (chunk.end - chunk.start)
    spans = [(chunk.start, chunk.end) for chunk in chunks]
    rule(spans == sorted(spans), f"Chunks must be in the order of the text: {document.id}.")
    rule(len(set(spans)) == len(spans), f"No chunk may occur twice: {document.id}.")
    lost = [i for i, char in enumerate(document.text) if not covered[i] and not char.isspace()]
    rule(not lost, f"No character may be lost: {document.id} loses {document.text[lost[0] :][:40]!r}." if lost else "")


def check_enricher(
    enricher: Enricher, document: Document, chunks: Sequence[Chunk], services: Services | None = None
) -> None:
    """Checks that an enricher is deterministic and only adds to the context of each chunk."""
    services = services or LocalServices()
    given = list(chunks)
    enriched = enricher.enrich(document, given, services)
    rule(given == list(chunks), "An enricher must not change the list that it is given.")
    rule(len(enriched) == len(chunks), f"An enricher must return every chunk: {len(chunks)} in, {len(enriched)} out.")
    for before, after in zip(chunks, enriched, strict=True):
        same = dataclasses.replace(after, context=before.context)
        rule(same == before, f"An enricher must change nothing but the context: {document.id}[{before.start}].")
        rule(after.context.startswith(before.context), f"An enricher must keep earlier context: {before.context!r}.")
    rule(enricher.enrich(document, given, services) == enriched, "Enriching twice must give the same chunks.")
    rule(enricher.enrich(document, [], services) == [], "An enricher must return an empty list for an empty list.")


TEXTS = (
    "A currency transaction report is due within 15 calendar days.",
    "Restart kube-apiserver v1.2.3 when KubeAPIErrorBudgetBurn fires.",
    "Holds follow 31 CFR 1020.320(d); see CU*BASE job EOD-7.",
    "Crème brûlée für 東京 — naïve café 🍮",
    "cash",
    "The teller counts cash twice and the cash report once.",
)


def check_analyzer(analyzer: Analyzer, texts: Sequence[str] = TEXTS) -> None:
    """Checks that an analyzer is deterministic and finds terms in texts with words."""
    for text in texts:
        tokens = analyzer.tokens(text)
        rule(tokens, f"A text with words must have tokens: {text!r}.")
        rule(analyzer.tokens(text) == tokens, f"The same text must give the same tokens each time: {text!r}.")
        for token in tokens:
            terms = analyzer.terms(token)
            rule(isinstance(terms, tuple), f"Terms must be a tuple: {token!r}.")
            rule(all(isinstance(t, str) and t.strip() for t in terms), f"A term must be a non-blank str: {token!r}.")
            rule(analyzer.terms(token) == terms, f"The same token must give the same terms each time: {token!r}.")
    for text in ("", " \n", "…—!?"):
        rule(analyzer.tokens(text) == [], f"A text without words must have no tokens: {text!r}.")


def check_embedder(embedder: Embedder, texts: Sequence[str] = TEXTS) -> None:
    """Checks that an encoder returns unit vectors that do not depend on the batch."""
    vectors = embedder.embed(texts)
    shape = (len(texts), embedder.dimension)
    rule(vectors.shape == shape, f"There must be a row for each text: expected {shape}, got {vectors.shape}.")
    rule(vectors.dtype == np.float32, f"Vectors must be float32, not {vectors.dtype}.")
    lengths = np.linalg.norm(vectors, axis=1)
    rule(np.allclose(lengths, 1, atol=1e-4), f"Vectors must have unit length; these have {lengths}.")
    backwards = embedder.embed(list(reversed(texts)))[::-1]
    rule(np.allclose(vectors, backwards, atol=TOLERANCE), "A vector must not depend on the order of the batch.")
    alone = np.vstack([embedder.embed([text]) for text in texts])
    rule(np.allclose(vectors, alone, atol=TOLERANCE), "A vector must not depend on the rest of the batch.")
    nothing = embedder.embed([])
    rule(nothing.shape == (0, embedder.dimension), f"No texts must give a matrix without rows, not {nothing.shape}.")
    blank = embedder.embed([""])
    rule(bool(np.isfinite(blank).all()), "An empty text must have a vector of finite numbers.")
    rule(embedder.fingerprint and embedder.fingerprint == embedder.fingerprint, "The fingerprint must be stable.")


FUSER_ROWS: tuple[tuple[Row, Row], ...] = (
    (([3, 1, 2], [9.0, 4.0, 1.5]), ([2, 5, 3], [0.9, 0.8, 0.1])),
    (([0], [2.0]), ([0], [0.5])),
    (([0], [2.0]), ([7], [0.5])),
    (([], []), ([4, 2], [0.7, 0.6])),
    (([6, 8], [3.0, 1.0]), ([], [])),
    (([], []), ([], [])),
    (([1, 2, 3], [5.0, 5.0, 5.0]), ([2, 3, 4], [0.3, 0.3, 0.3])),
    (([4, 9], [-1.0, -7.0]), ([9, 4, 1], [-0.1, -0.2, -0.9])),
    (([1, 2], [1e30, 1e-30]), ([2, 1], [1e-30, 0.0])),
    (([1, 2], [0.0, 0.0]), ([2, 1], [0.0, 0.0])),
)
"""For each query, a row of a lexical and a row of a dense ranking: ties, negative scores, empty rows, extremes."""


def check_fuser(fuser: Fuser, rows: Sequence[tuple[Row, Row]] = FUSER_ROWS, k: int = 10) -> None:
    """Checks a fuser. Each item of `rows` is one query: its row of a lexical ranking and its row of a dense ranking."""
    whole = fuser.fuse(_pair(rows), k)
    check_rankings(whole, len(rows), k, _highest(rows) + 1)
    head = fuser.fuse(_pair(rows), 2)
    check_rankings(head, len(rows), 2, _highest(rows) + 1)
    for i, row in enumerate(rows):
        union = {*row[0][0], *row[1][0]}
        row_scores = scores_of(whole, i)
        rule(
            row_scores.keys() <= union,
            f"A fuser must not invent candidates: row {i} found {row_scores.keys() - union}.",
        )
        rule(bool(row_scores) == bool(union), f"A fuser must not lose every candidate: row {i}.")
        same_row(fuser.fuse(_pair([row]), k), 0, whole, i, "A batch of n must equal n batches of one")
        first = whole.row(i)[0][:2].tolist()
        rule(head.row(i)[0].tolist() == first, f"A smaller k must return the top of a larger k: row {i}.")
    rule(len(fuser.fuse(_pair([]), k)) == 0, "Fusing rankings without queries must return no rows.")
    other = declared(fuser).same_as([ranking.signal for ranking in _pair(rows)])
    if other is not None:
        twin = spec.make("fuse", other).fuse(_pair(rows), k)
        for i in range(len(rows)):
            same_row(whole, i, twin, i, f"{fuser} must rank like {other}, which it declares in same_as")


def _pair(rows: Sequence[tuple[Row, Row]]) -> list[Rankings]:
    lexical, dense = [row[0] for row in rows], [row[1] for row in rows]
    return [rankings_of(lexical), rankings_of(dense, "dense", "dense", -1.0)]


def _highest(rows: Sequence[tuple[Row, Row]]) -> int:
    return max((ordinal for row in rows for part in row for ordinal in part[0]), default=0)


def check_reranker(
    reranker: Reranker,
    queries: Sequence[Query],
    rankings: Rankings,
    passages: Passages,
    k: int = 3,
    services: Services | None = None,
) -> None:
    """Checks that a reranker returns the best k of its candidates, whatever batch a query is in."""
    services = services or LocalServices()
    before = rankings.ids.copy(), rankings.scores.copy()
    highest = int(rankings.ids.max(initial=0)) + 1
    reranked = reranker.rerank(queries, rankings, passages, k, services)
    check_rankings(reranked, len(queries), k, highest)
    unchanged = np.array_equal(before[0], rankings.ids) and np.array_equal(before[1], rankings.scores)
    rule(unchanged, "A reranker must not change the ranking that it is given.")
    for i, query in enumerate(queries):
        given, returned = set(rankings.row(i)[0].tolist()), set(reranked.row(i)[0].tolist())
        rule(returned <= given, f"A reranker must not invent candidates: query {i} found {returned - given}.")
        rule(len(returned) == min(k, len(given)), f"A reranker must return k candidates, if it has as many: query {i}.")
        ordinals, scores = rankings.row(i)
        single = rankings_of([(ordinals.tolist(), scores.tolist())], rankings.source, rankings.signal, rankings.floor)
        alone = reranker.rerank([query], single, passages, k, services)
        same_row(alone, 0, reranked, i, "A query's answer must not depend on the batch")
    nothing = reranker.rerank(queries[:1], rankings_of([([], [])]), passages, k, services)
    check_rankings(nothing, 1, k, highest)
    rule((nothing.ids == PAD).all(), "A reranker must return an empty row for an empty row.")
