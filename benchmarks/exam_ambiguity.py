"""Lists the known-item questions for which BM25 and vectors rank the same other document first.

    surefind sync data/kb-govuk-devdocs/source --kb kb && python benchmarks/exam_ambiguity.py kb

The idea: if two retrievers that have little in common agree on a document that is not gold, the question has a second
answer and could be dropped. Read the list to see whether that is so: the question, where both rank gold, the gold
document, the other document and what BM25 found in it. `--below K` keeps those with gold below the first K of both.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from surefind import Access, KnowledgeBase
from surefind.exam.known_item import generate
from surefind.exam.model import ExamQuery
from surefind.protocols import Retriever
from surefind.store.backend import View
from surefind.types import PAD, Chunk, Query

DEPTH = 50
OWNER = Access.owner()


def found(view: View, retriever: Retriever, queries: Sequence[ExamQuery]) -> list[dict[str, Chunk]]:
    """For each query the documents in order, each with the first passage that was found in it."""
    rankings = view.search(retriever, [Query(query.text, query.id) for query in queries], DEPTH, OWNER)
    ids = sorted({int(chunk_id) for row in rankings.ids for chunk_id in row if chunk_id != PAD})
    chunks = dict(zip(ids, view.chunks(ids, OWNER), strict=True))
    rows: list[dict[str, Chunk]] = []
    for row in rankings.ids:
        documents: dict[str, Chunk] = {}
        for chunk_id in row[row != PAD]:
            documents.setdefault(chunks[int(chunk_id)].document, chunks[int(chunk_id)])
        rows.append(documents)
    return rows


def rank(documents: Sequence[str], gold: set[str]) -> int:
    return next((rank for rank, document in enumerate(documents, 1) if document in gold), DEPTH + 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kb", type=Path)
    parser.add_argument("--below", type=int, default=3, metavar="K")
    parser.add_argument("--per-family", type=int, default=200)
    args = parser.parse_args()
    dropped: Counter[str] = Counter()
    with KnowledgeBase.open(args.kb) as kb:
        bm25, dense = kb.pipeline("bm25 + dense >> rrf").retrieve
        queries = generate(kb.documents(OWNER), per_family=args.per_family).queries
        view = kb.reader().view
        both = zip(queries, found(view, bm25, queries), found(view, dense, queries), strict=True)
        for query, lexical, semantic in both:
            gold = {judgment.document for judgment in query.judgments}
            ranks = [rank(list(documents), gold) for documents in (lexical, semantic)]
            first = {next(iter(documents), "") for documents in (lexical, semantic)}
            if len(first) == 1 and min(ranks) > args.below:
                (other,) = first
                dropped[query.family] += 1
                print(f"{query.family}: {query.text}\n  gold at {ranks}: {', '.join(sorted(gold))}")
                print(f"  other: {other}: {' '.join(lexical[other].text.split())[:200]}\n")
    print(f"{dropped.total()} of {len(queries)} questions: {dict(dropped)}")


if __name__ == "__main__":
    main()
