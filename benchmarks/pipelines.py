"""Compares the pipelines that a knowledge base has by name, and what could be the default instead, on all collections.

    python benchmarks/exam_validity.py collect --data DATA --work WORK     scores of every question, once
    python benchmarks/pipelines.py --work WORK                             the tables of docs/results/models.md

Intervals are 95%: questions are drawn again within each collection, and the means of the collections are averaged.
English collections are apart, because all encoders and rerankers here are English.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from _collecting import ENCODERS, LEFT_OUT, OTHER_LANGUAGES, REREAD, SCORER
from surefind.engine.retrieve.ppr import has_two_names

NAMED = ("hybrid", "pair", "careful", "thorough")
DRAWS = 2_000
Scores = Mapping[str, np.ndarray]


def gain(collections: list[np.ndarray]) -> str:
    """The mean over collections of what their questions gained, in points, with its interval."""
    rng = np.random.default_rng(7)
    drawn = [np.mean([rng.choice(one, len(one)).mean() for one in collections]) for _ in range(DRAWS)]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return f"{100 * np.mean([one.mean() for one in collections]):+.2f} [{100 * low:+.2f}, {100 * high:+.2f}]"


def named(collections: Mapping[str, Scores]) -> None:
    """The named pipelines, collection by collection, and how many of the first ten documents are judged."""
    print(f"| collection | questions | {' | '.join(NAMED)} | pair − hybrid | thorough − pair | judged in ten |")
    print(f"|---|---|{'---|' * (len(NAMED) + 3)}")
    columns = [list(REREAD).index(name) for name in NAMED]
    for name, scores in collections.items():
        rows = scores["reread"][:, columns]
        shares = scores["judged"].mean(axis=0)[columns]
        cells = [f"{100 * mean:.1f}" for mean in rows.mean(axis=0)]
        cells += [gain([rows[:, 1] - rows[:, 0]]), gain([rows[:, 3] - rows[:, 1]])]
        print(f"| {name} | {len(rows)} | {' | '.join(cells)} | {shares.min():.3f} to {shares.max():.3f} |")


def together(collections: list[Scores], key: str, rows: Mapping[str, int], base: str) -> None:
    """Means over collections, and the gain of each row over two others."""
    print(f"| | mean of {len(collections)} | over hybrid | over {base} |\n|---|---|---|---|")
    for name, column in rows.items():
        mean = np.mean([100 * scores[key][:, column].mean() for scores in collections])
        over = [gain([scores[key][:, column] - scores[key][:, rows[than]] for scores in collections])
                for than in ("hybrid", base)]  # fmt: skip
        print(f"| {name} | {mean:.2f} | {' | '.join(over)} |")


def walks(collections: Mapping[str, Scores], column: Callable[[str], int]) -> None:
    """What random walks add to `pair`: for all questions, and for those with two names alone."""
    rows = ("pair + walks", "pair + few walks")
    print(f"| collection | two names | {' | '.join(f'{row}, always | {row}, two names' for row in rows)} |")
    print(f"|---|---|{'---|' * 2 * len(rows)}")
    for name, scores in collections.items():
        sign = np.array([has_two_names(text) for text in scores["texts"].tolist()])
        gains = [scores["real"][:, column(row)] - scores["real"][:, column("pair")] for row in rows]
        cells = [cell for own in gains for cell in (gain([own]), gain([own * sign]))]
        print(f"| {name} | {sign.mean():.0%} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    work: Path = parser.parse_args().work
    every = {path.stem: dict(np.load(path)) for path in sorted(work.glob("*.npz"))}
    judged = {name: scores for name, scores in every.items() if name not in LEFT_OUT}
    english = {name: scores for name, scores in judged.items() if name not in OTHER_LANGUAGES}
    names = next(iter(every.values()))["names"].tolist()
    at: Callable[[str], int] = names.index
    named(every)
    print()
    walks(every, at)
    for group in (english, judged):
        print()
        together(list(group.values()), "reread", {name: column for column, name in enumerate(REREAD)}, "pair")
        print()
        rows = ["hybrid", *(name for name in ENCODERS if "walks" not in name), SCORER]
        together(list(group.values()), "real", {name: at(name) for name in rows}, "pair")


if __name__ == "__main__":
    main()
