"""Is there a sign, without labels, that a collection wants more weight on vectors than the default gives?

    python benchmarks/dense_signs.py collect --data DATA --work WORK [--only NAME]
    python benchmarks/dense_signs.py report --work WORK

`collect` writes WORK/NAME.npz for each collection: nDCG@10 by (question, row) of its real questions, and the signs of
each question. `report` leaves one collection out at a time. The weight α of vectors is chosen from the means of the
others (no sign), or from a line through the others that says the gain of each α from the mean of a sign. The regret is
the nDCG@10 that the choice loses against the best of all rows, in points.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from _collecting import MOST, collections, fewer, questions_of, scores_of
from surefind.access import Access
from surefind.exam.model import Exam
from surefind.kb import KnowledgeBase
from surefind.search.pipeline import Pipeline
from surefind.types import Query

OWNER = Access.owner()
ALPHAS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
ROWS = {
    **{f"α={alpha}": f"bm25 + dense >> convex(alpha={alpha}, missing=score)" for alpha in ALPHAS},
    "BM25": "bm25",
    "vectors": "dense",
    "RRF k=60": "bm25 + dense >> rrf(k=60)",
    "DBSF": "bm25 + dense >> dbsf",
    "DBSN": "bm25 + dense >> dbsn",
    "graph": "graph_local",
    "graph in the fusion": "bm25 + dense + graph_local >> rrf(k=60)",
}
DEFAULT = list(ROWS).index("α=0.5")
SIGNS = ("agreement", "known words", "words", "BM25 strength", "BM25 gap", "cosine", "cosine gap")
LEFT_OUT = ("policyqa",)
"""Its questions name no company, so that most of them fit many documents."""


def collect(data: Path, work: Path, only: str) -> None:
    for name in collections(data):
        target = work / f"{name}.npz"
        if target.exists() or only not in ("", name):
            continue
        folder = work / name
        folder.mkdir(parents=True, exist_ok=True)
        with KnowledgeBase.open(folder) as kb:
            exam = fewer(questions_of(kb, name, data, work), MOST)
            np.savez_compressed(target, scores=scores_of(kb, exam, ROWS), signs=signs_of(kb, exam))
        print(name, len(exam.queries), flush=True)


def signs_of(kb: KnowledgeBase, exam: Exam) -> np.ndarray:
    """The signs of each question, in the order of `SIGNS`. They need no judgments."""
    words, meaning = Pipeline.parse("bm25"), Pipeline.parse("dense")
    view, queries = kb.reader().view, [Query(query.text) for query in exam.queries]
    sparse, dense = (p.run(queries, 10, view, kb.services, OWNER).rankings for p in (words, meaning))
    known = view.wording(words.retrieve[0], queries, OWNER)
    assert known is not None
    rows = []
    for i, word in enumerate(known):
        (ids, scores), (near, cosines) = sparse.row(i), dense.row(i)
        first, tenth = (float(scores[0]), float(scores[-1])) if len(scores) else (0.0, 0.0)
        rows.append(
            (
                len({*ids[:10].tolist()} & {*near[:10].tolist()}) / 10,
                word.known / max(1, word.words),
                float(np.log1p(len(queries[i].text.split()))),
                first / max(1e-9, word.best),
                (first - tenth) / max(1e-9, first),
                float(cosines[0]),
                float(cosines[0] - cosines[-1]),
            )
        )
    return np.array(rows, dtype=np.float32)


def report(work: Path) -> None:
    found = {path.stem: np.load(path) for path in sorted(work.glob("*.npz"))}
    names = list(found)
    means = np.array([found[name]["scores"].mean(axis=0) for name in names], dtype=np.float64)
    signs = np.array([found[name]["signs"].mean(axis=0) for name in names], dtype=np.float64)
    print(f"| collection | questions | {' | '.join(ROWS)} |\n|---|---{'|---' * len(ROWS)}|")
    for name, row in zip(names, means, strict=True):
        shown = (f"**{score:.3f}**" if score == row.max() else f"{score:.3f}" for score in row)
        print(f"| {name} | {len(found[name]['scores'])} | " + " | ".join(shown) + " |")
    print("\n| sign | correlation with α=0.7 over α=0.5 | mean regret | worst | chosen α |\n|---|---|---|---|---|")
    for keep, title in ((names, "all"), ([n for n in names if n not in LEFT_OUT], f"without {', '.join(LEFT_OUT)}")):
        rows = [names.index(name) for name in keep]
        table(means[rows], signs[rows], title)


def table(means: np.ndarray, signs: np.ndarray, title: str) -> None:
    alphas = means[:, : len(ALPHAS)]
    gains = alphas - alphas[:, [DEFAULT]]
    best = means[:, : list(ROWS).index("graph")].max(axis=1)
    regret = {"the default": best - alphas[:, DEFAULT], "the best α each": best - alphas.max(axis=1)}
    chosen = {"the default": [DEFAULT] * len(means), "the best α each": alphas.argmax(axis=1).tolist()}
    others = [np.delete(np.arange(len(means)), i) for i in range(len(means))]
    chosen["mean of the others"] = [int(gains[rest].mean(axis=0).argmax()) for rest in others]
    for sign, values in zip(SIGNS, signs.T, strict=True):
        picks = []
        for i, rest in enumerate(others):
            lines = np.polyfit(values[rest], gains[rest], 1)
            picks.append(int((lines[0] * values[i] + lines[1]).argmax()))
        chosen[sign] = picks
    for name, picks in chosen.items():
        lost = 100 * regret.get(name, best - alphas[np.arange(len(means)), picks])
        column = SIGNS.index(name) if name in SIGNS else None
        step = gains[:, ALPHAS.index(0.7)]
        r = f"{np.corrcoef(signs[:, column], step)[0, 1]:+.2f}" if column is not None else "–"
        print(f"| {name} ({title}) | {r} | {lost.mean():.2f} | {lost.max():.2f} | {[ALPHAS[p] for p in picks]} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["collect", "report"])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--only", default="", help="the name of one collection")
    args = parser.parse_args()
    collect(args.data, args.work, args.only) if args.what == "collect" else report(args.work)
