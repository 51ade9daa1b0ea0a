"""Contract suites: what every stage of a kind must hold, for our own tests and for plugin authors.

    from surefind.testing import check_chunker

    def test_my_chunker_keeps_the_contract():
        check_chunker(MyChunker(tokens=100))

Each check raises `AssertionError` with a sentence that names the broken rule and shows where. The samples at the
top are what the checks use when nothing else is given; give your own where a stage wants a special kind of input.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from surefind import spec
from surefind.errors import SourceError
from surefind.protocols import (
    Analyzer,
    Chunker,
    Embedder,
    Enricher,
    Fuser,
    Index,
    Passages,
    Reader,
    Reranker,
    Retriever,
    Reuse,
)
from surefind.services import Services
from surefind.types import PAD, BoolArray, Chunk, Document, Query, Rankings, Signal

TOLERANCE = 1e-5
"""How far two computations of the same score may differ: the order of additions is not part of a contract."""

TEXTS = (
    "A currency transaction report is due within 15 calendar days.",
    "Restart kube-apiserver v1.2.3 when KubeAPIErrorBudgetBurn fires.",
    "Holds follow 31 CFR 1020.320(d); see CU*BASE job EOD-7.",
    "Crème brûlée für 東京 — naïve café 🍮",
    "cash",
    "The teller counts cash twice and the cash report once.",
)

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

Row = tuple[Sequence[int], Sequence[float]]
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
"""For each query a row of a lexical ranking and one of a dense ranking: ties, negatives, nothing, extremes."""


def _rule(holds: object, sentence: str) -> None:
    if not holds:
        raise AssertionError(sentence)


def check_stage(stage: spec.Stage) -> None:
    """A stage is a value whose text form reads back as the same value."""
    text = str(stage)
    _rule(spec.make(stage.kind, text) == stage, f"A spec must read back as the same stage; {text} does not.")
    _rule(str(spec.make(stage.kind, text)) == text, f"A spec must be in canonical form; {text} changes when read.")
    _rule(hash(stage) == hash(stage.replace()), f"Equal stages must have equal hashes; two {text} have not.")


# ---------------------------------------------------------------- documents and chunks


def check_reader(reader: Reader, good: Path, bad: Path | None = None) -> None:
    """`good` is a file that it reads; `bad`, if given, one that it must refuse with a `SourceError`."""
    _rule(reader.suffixes, "A reader must name the suffixes (or whole names) of the files it takes.")
    for suffix in reader.suffixes:
        _rule("." in suffix and suffix == suffix.lower(), f"A suffix has a dot and is lower case: {suffix!r}.")
    documents = list(reader.read(good, "folder/name"))
    _rule(documents, f"A readable file must give a document; {good} gave none.")
    ids = [document.id for document in documents]
    _rule(len(set(ids)) == len(ids), f"Documents of one file must have different ids: {ids}.")
    for document in documents:
        _rule(document.id, f"A document must have an id: one of {good} has none.")
        _rule("\r" not in document.text, f"Line ends must be \\n in {document.id}.")
        _rule(not document.text.startswith("\ufeff"), f"A byte order mark is no text: {document.id}.")
    _rule(list(reader.read(good, "folder/name")) == documents, f"Reading twice must give the same: {good}.")
    if bad is not None:
        _check_refuses(reader, bad)


def _check_refuses(reader: Reader, bad: Path) -> None:
    try:
        list(reader.read(bad, "folder/name"))
    except SourceError:
        return
    except Exception as error:
        raise AssertionError(f"A reader must refuse with SourceError, not {type(error).__name__}: {bad}.") from error
    raise AssertionError(f"A reader must refuse a file that it cannot read: {bad}.")


def check_chunker(
    chunker: Chunker, documents: Sequence[Document] = DOCUMENTS, services: Services | None = None
) -> None:
    services = services or Services()
    for document in documents:
        chunks = chunker.chunk(document, services)
        _check_chunks(document, chunks)
        _rule(chunker.chunk(document, services) == chunks, f"Chunking {document.id} twice must give the same.")
    for text in ("", " \n\t"):
        nothing = chunker.chunk(Document("nothing", text), services)
        _rule(nothing == [], f"A text without words has no chunks: {text!r}.")


def _check_chunks(document: Document, chunks: list[Chunk]) -> None:
    covered = bytearray(len(document.text))
    for chunk in chunks:
        where = f"{document.id}[{chunk.start}:{chunk.end}]"
        _rule(chunk.document == document.id, f"A chunk must name its document: {where} says {chunk.document!r}.")
        _rule(0 <= chunk.start < chunk.end <= len(document.text), f"Offsets must lie inside the text: {where}.")
        _rule(document.text[chunk.start : chunk.end] == chunk.text, f"Offsets must give the chunk's text: {where}.")
        _rule(chunk.text.strip(), f"A chunk must hold more than white space: {where}.")
        if chunk.parent is not None:
            inside = 0 <= chunk.parent[0] <= chunk.start and chunk.end <= chunk.parent[1] <= len(document.text)
            _rule(inside, f"A chunk must lie inside its parent, and that in the text: {where} in {chunk.parent}.")
        covered[chunk.start : chunk.end] = b"\1" * (chunk.end - chunk.start)
    spans = [(chunk.start, chunk.end) for chunk in chunks]
    _rule(spans == sorted(spans), f"Chunks must stand in the order of the text: {document.id}.")
    _rule(len(set(spans)) == len(spans), f"No chunk may stand twice: {document.id}.")
    lost = [i for i, char in enumerate(document.text) if not covered[i] and not char.isspace()]
    _rule(not lost, f"No character may be lost: {document.id} loses {document.text[lost[0] :][:40]!r}." if lost else "")


def check_enricher(
    enricher: Enricher, document: Document, chunks: Sequence[Chunk], services: Services | None = None
) -> None:
    services = services or Services()
    given = list(chunks)
    enriched = enricher.enrich(document, given, services)
    _rule(given == list(chunks), "An enricher must leave the list it got alone.")
    _rule(len(enriched) == len(chunks), f"An enricher must return every chunk: {len(chunks)} in, {len(enriched)} out.")
    for before, after in zip(chunks, enriched, strict=True):
        same = dataclasses.replace(after, context=before.context)
        _rule(same == before, f"An enricher must change nothing but the context: {document.id}[{before.start}].")
        _rule(after.context.startswith(before.context), f"An enricher must keep earlier context: {before.context!r}.")
    _rule(enricher.enrich(document, given, services) == enriched, "Enriching twice must give the same.")
    _rule(enricher.enrich(document, [], services) == [], "No chunks must stay no chunks.")


# ---------------------------------------------------------------- services


def check_analyzer(analyzer: Analyzer, texts: Sequence[str] = TEXTS) -> None:
    for text in texts:
        tokens = analyzer.tokens(text)
        _rule(tokens, f"A text with words must give tokens: {text!r}.")
        _rule(analyzer.tokens(text) == tokens, f"Tokens must be a function of the text: {text!r}.")
        for token in tokens:
            terms = analyzer.terms(token)
            _rule(isinstance(terms, tuple), f"Terms must be a tuple: {token!r}.")
            _rule(all(isinstance(t, str) and t.strip() for t in terms), f"A term must hold something: {token!r}.")
            _rule(analyzer.terms(token) == terms, f"Terms must be a function of the token: {token!r}.")
    for text in ("", " \n", "…—!?"):
        _rule(analyzer.tokens(text) == [], f"A text without words has no tokens: {text!r}.")


def check_embedder(embedder: Embedder, texts: Sequence[str] = TEXTS) -> None:
    vectors = embedder.embed(texts)
    shape = (len(texts), embedder.dimension)
    _rule(vectors.shape == shape, f"There must be a row for each text: expected {shape}, got {vectors.shape}.")
    _rule(vectors.dtype == np.float32, f"Vectors must be float32, not {vectors.dtype}.")
    lengths = np.linalg.norm(vectors, axis=1)
    _rule(np.allclose(lengths, 1, atol=1e-4), f"Vectors must have unit length; these have {lengths}.")
    backwards = embedder.embed(list(reversed(texts)))[::-1]
    _rule(np.allclose(vectors, backwards, atol=TOLERANCE), "A vector must not depend on the order of the batch.")
    alone = np.vstack([embedder.embed([text]) for text in texts])
    _rule(np.allclose(vectors, alone, atol=TOLERANCE), "A vector must not depend on the rest of the batch.")
    nothing = embedder.embed([])
    _rule(nothing.shape == (0, embedder.dimension), f"No texts must give no rows, not shape {nothing.shape}.")
    blank = embedder.embed([""])
    _rule(bool(np.isfinite(blank).all()), "An empty text must have a vector of finite numbers.")
    _rule(embedder.fingerprint and embedder.fingerprint == embedder.fingerprint, "The fingerprint must be stable.")


# ---------------------------------------------------------------- rankings


def check_rankings(rankings: Rankings, queries: int, k: int, chunks: int, allow: BoolArray | None = None) -> None:
    """What holds for the answers of any retriever, fuser or reranker."""
    ordinals, scores = rankings.ordinals, rankings.scores
    _rule(ordinals.shape == scores.shape, f"Ordinals {ordinals.shape} and scores {scores.shape} must have one shape.")
    _rule(ordinals.ndim == 2 and len(ordinals) == queries, f"{queries} queries must have as many rows.")
    _rule(ordinals.shape[1] <= k, f"A row must hold at most k = {k} chunks, not {ordinals.shape[1]}.")
    _rule(ordinals.dtype == np.int32, f"Ordinals must be int32, not {ordinals.dtype}.")
    _rule(scores.dtype in (np.float32, np.float64), f"Scores must be float32 or float64, not {scores.dtype}.")
    for i in range(queries):
        _check_row(ordinals[i].tolist(), scores[i].tolist(), f"row {i} of {rankings.source}", chunks, allow)


def _check_row(ordinals: list[int], scores: list[float], where: str, chunks: int, allow: BoolArray | None) -> None:
    filled = sum(ordinal != PAD for ordinal in ordinals)
    found = ordinals[:filled]
    _rule(PAD not in found, f"Padding must stand at the end: {where}.")
    _rule(all(score == -np.inf for score in scores[filled:]), f"Padding must have score -inf: {where}.")
    _rule(all(np.isfinite(score) for score in scores[:filled]), f"Scores must be finite numbers: {where}.")
    _rule(all(0 <= ordinal < chunks for ordinal in found), f"Ordinals must name chunks: {where}.")
    _rule(len(set(found)) == len(found), f"No chunk may be found twice: {where}.")
    order = sorted(range(filled), key=lambda j: (-scores[j], found[j]))
    _rule(order == list(range(filled)), f"Rows must be sorted by score, then by ordinal: {where}.")
    _rule(allow is None or all(allow[o] for o in found), f"A chunk that is not allowed was found: {where}.")


def check_retriever(
    retriever: Retriever, chunks: Sequence[Chunk], queries: Sequence[Query], services: Services, folder: Path
) -> None:
    """`queries` should find something among `chunks`; `folder` is an empty one that the check may write to."""
    index = retriever.build(chunks, services)
    every = _search(retriever, index, queries, len(chunks), len(chunks))
    _rule(len(every.row(0)[0]) > 0, f"The first query must find something: {queries[0].text!r}.")
    _check_queries(retriever, index, queries, every, len(chunks))
    _check_depth(retriever, index, queries, every, len(chunks))
    if retriever.signal == "graph":
        _check_unseen(retriever, index, chunks, queries, services)
    else:
        _check_masks(retriever, index, queries, every, len(chunks))
    _check_saved(retriever, index, queries, every, services, folder)
    _check_reuse(retriever, chunks, queries, every, services)
    nothing = _search(retriever, retriever.build([], services), queries, 10, 0)
    _rule(nothing.ordinals.size == 0 or (nothing.ordinals == PAD).all(), "An index of nothing must find nothing.")


def _search(
    retriever: Retriever, index: Index, queries: Sequence[Query], k: int, n: int, allow: BoolArray | None = None
) -> Rankings:
    rankings = index.search(retriever, queries, k, allow)
    check_rankings(rankings, len(queries), k, n, allow)
    _rule(rankings.signal == retriever.signal, f"Rankings must carry the retriever's signal, {retriever.signal}.")
    return rankings


def _check_queries(retriever: Retriever, index: Index, queries: Sequence[Query], every: Rankings, n: int) -> None:
    _rule(len(_search(retriever, index, [], n, n)) == 0, "No queries must give no rows.")
    _search(retriever, index, [Query("qzxv wvxzq"), Query("?!")], n, n)
    for i, query in enumerate(queries):
        alone = _search(retriever, index, [query], n, n)
        _same_row(alone, 0, every, i, "A query's answer must not depend on the batch")


def _check_depth(retriever: Retriever, index: Index, queries: Sequence[Query], every: Rankings, n: int) -> None:
    deeper = _search(retriever, index, queries, n + 100, n)
    for i in range(len(queries)):
        _same_row(deeper, i, every, i, "A k above the number of chunks must give all that match")
    few = _search(retriever, index, queries, 2, n)
    for i in range(len(queries)):
        best = every.row(i)[1][:2]
        close = np.allclose(few.row(i)[1], best, atol=TOLERANCE) if len(best) == len(few.row(i)[1]) else False
        _rule(close, f"A smaller k must give the head of a larger one: query {i}.")


def _check_masks(retriever: Retriever, index: Index, queries: Sequence[Query], every: Rankings, n: int) -> None:
    """A mask must give what filtering the full ranking gives: it decides before top-k, not after."""
    last = np.zeros(n, np.bool_)
    last[[int(every.row(i)[0][-1]) for i in range(len(queries)) if len(every.row(i)[0])]] = True
    odd = np.arange(n) % 2 == 1
    for allow in (last, odd, np.ones(n, np.bool_), np.zeros(n, np.bool_)):
        masked = _search(retriever, index, queries, n, n, allow)
        narrow = _search(retriever, index, queries, 1, n, allow)
        for i in range(len(queries)):
            expected = {o: s for o, s in _scores(every, i).items() if allow[o]}
            found = _scores(masked, i)
            _rule(found.keys() == expected.keys(), f"A mask must leave exactly the allowed matches: query {i}.")
            close = all(abs(found[o] - expected[o]) <= TOLERANCE for o in found)
            _rule(close, f"A mask must not change scores: query {i}.")
            _rule(len(narrow.row(i)[0]) == min(1, len(expected)), f"A mask must be applied before top-k: query {i}.")


def _check_unseen(
    retriever: Retriever, index: Index, chunks: Sequence[Chunk], queries: Sequence[Query], services: Services
) -> None:
    """A graph joins chunks, so leaving some out of the answer is not enough: a mask must give what an index of the
    allowed chunks alone gives, in everything."""
    n = len(chunks)
    for allow in (np.arange(n) % 2 == 1, np.arange(n) % 3 > 0, np.ones(n, np.bool_), np.zeros(n, np.bool_)):
        seen = np.flatnonzero(allow)
        alone = retriever.build([chunks[i] for i in seen.tolist()], services)
        expected = _search(retriever, alone, queries, len(seen), len(seen))
        masked = _search(retriever, index, queries, n, n, allow)
        for i in range(len(queries)):
            wanted = {int(seen[o]): s for o, s in _scores(expected, i).items()}
            found = _scores(masked, i)
            same = found.keys() == wanted.keys() and all(abs(found[o] - wanted[o]) <= TOLERANCE for o in found)
            _rule(same, f"A mask must answer as if the other chunks did not exist: query {i}.")


def _check_saved(
    retriever: Retriever, index: Index, queries: Sequence[Query], every: Rankings, services: Services, folder: Path
) -> None:
    index.save(folder)
    loaded = retriever.load(folder, services).search(retriever, queries, every.ordinals.shape[1])
    same = np.array_equal(loaded.ordinals, every.ordinals) and np.array_equal(loaded.scores, every.scores)
    _rule(same, "A saved and loaded index must answer exactly as before.")


def _check_reuse(
    retriever: Retriever, chunks: Sequence[Chunk], queries: Sequence[Query], every: Rankings, services: Services
) -> None:
    """From an index that has too little and from one that has too much."""
    n = len(chunks)
    half = retriever.build(chunks[::2], services)
    grown = retriever.build(chunks, services, Reuse(half, _places(range(n), range(0, n, 2))))
    for i in range(len(queries)):
        found = _search(retriever, grown, queries, n, n)
        _same_row(found, i, every, i, "An index grown from an earlier one must equal one built from nothing")
    odd = range(1, n, 2)
    whole = retriever.build(chunks, services)
    shrunk = retriever.build(chunks[1::2], services, Reuse(whole, _places(odd, range(n))))
    fresh = retriever.build(chunks[1::2], services)
    a, b = (_search(retriever, index, queries, len(odd), len(odd)) for index in (shrunk, fresh))
    for i in range(len(queries)):
        _same_row(a, i, b, i, "An index shrunk from an earlier one must equal one built from nothing")


def _places(wanted: range, earlier: range) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array([earlier.index(i) if i in earlier else -1 for i in wanted], dtype=np.int32)


def _scores(rankings: Rankings, i: int) -> dict[int, float]:
    ordinals, scores = rankings.row(i)
    return dict(zip(ordinals.tolist(), scores.tolist(), strict=True))


def _same_row(a: Rankings, i: int, b: Rankings, j: int, rule: str) -> None:
    left, right = _scores(a, i), _scores(b, j)
    same = left.keys() == right.keys() and all(abs(left[o] - right[o]) <= TOLERANCE for o in left)
    _rule(same, f"{rule}: query {j} differs.")


# ---------------------------------------------------------------- fusing and reranking


def rankings_of(rows: Sequence[Row], source: str = "bm25", signal: Signal = "sparse", floor: float = 0.0) -> Rankings:
    """`[([3, 1], [9.0, 4.0]), ([], [])]` -> Rankings of two queries, padded."""
    width = max((len(ordinals) for ordinals, _ in rows), default=0)
    made = np.full((len(rows), width), PAD, np.int32), np.full((len(rows), width), -np.inf)
    for i, row in enumerate(rows):
        for array, values in zip(made, row, strict=True):
            array[i, : len(values)] = values
    return Rankings(*made, source, signal, floor)


def check_fuser(fuser: Fuser, rows: Sequence[tuple[Row, Row]] = FUSER_ROWS, k: int = 10) -> None:
    """Each of `rows` is one query: its row of a lexical ranking and its row of a dense ranking."""
    whole = fuser.fuse(_pair(rows), k)
    check_rankings(whole, len(rows), k, _highest(rows) + 1)
    head = fuser.fuse(_pair(rows), 2)
    check_rankings(head, len(rows), 2, _highest(rows) + 1)
    for i, row in enumerate(rows):
        union = {*row[0][0], *row[1][0]}
        found = _scores(whole, i)
        _rule(found.keys() <= union, f"A fuser must not invent candidates: row {i} found {found.keys() - union}.")
        _rule(bool(found) == bool(union), f"A fuser must not lose every candidate: row {i}.")
        _same_row(fuser.fuse(_pair([row]), k), 0, whole, i, "A batch of n must equal n batches of one")
        first = whole.row(i)[0][:2].tolist()
        _rule(head.row(i)[0].tolist() == first, f"A smaller k must give the head of a larger one: row {i}.")
    _rule(len(fuser.fuse(_pair([]), k)) == 0, "No queries must give no rows.")


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
    services = services or Services()
    before = rankings.ordinals.copy(), rankings.scores.copy()
    highest = int(rankings.ordinals.max(initial=0)) + 1
    reranked = reranker.rerank(queries, rankings, passages, k, services)
    check_rankings(reranked, len(queries), k, highest)
    unchanged = np.array_equal(before[0], rankings.ordinals) and np.array_equal(before[1], rankings.scores)
    _rule(unchanged, "A reranker must leave the ranking it got alone.")
    for i, query in enumerate(queries):
        given, found = set(rankings.row(i)[0].tolist()), set(reranked.row(i)[0].tolist())
        _rule(found <= given, f"A reranker must not invent candidates: query {i} found {found - given}.")
        _rule(len(found) == min(k, len(given)), f"A reranker must return min(k, candidates): query {i}.")
        ordinals, scores = rankings.row(i)
        one = rankings_of([(ordinals.tolist(), scores.tolist())], rankings.source, rankings.signal, rankings.floor)
        alone = reranker.rerank([query], one, passages, k, services)
        _same_row(alone, 0, reranked, i, "A query's answer must not depend on the batch")
    nothing = reranker.rerank(queries[:1], rankings_of([([], [])]), passages, k, services)
    check_rankings(nothing, 1, k, highest)
    _rule((nothing.ordinals == PAD).all(), "Nothing to rerank must stay nothing.")
