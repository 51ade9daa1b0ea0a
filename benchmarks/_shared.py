"""Code shared by the benchmark scripts: reading the data sets, nDCG, and a line about the machine."""

from __future__ import annotations

import json
import lzma
import math
import platform
import random
import statistics
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

from surefind.base.running import usable_cores


def machine(*packages: str) -> str:
    """Describes the machine, for readers of the figures: `2 cores, aarch64, Python 3.12.3; numpy 2.0.0`."""
    parts = ", ".join(f"{name} {version(name)}" for name in packages)
    return f"{usable_cores()} cores, {platform.machine()}, Python {platform.python_version()}; {parts}"


def passages_and_questions(path: Path, passages: int, questions: int, seed: int = 1) -> tuple[list[str], list[str]]:
    """Samples passages of train-pairs.jsonl.xz (in file order) and queries from its sources of kind qa."""
    texts: list[str] = []
    queries: list[str] = []
    kind = ""
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            tag, *rest = json.loads(line)
            if tag == "s":
                kind = rest[1]
            elif tag == "p":
                texts.append(f"{rest[0]}\n{rest[1]}")
            elif kind == "qa":
                queries.append(rest[0])
    chance = random.Random(seed)
    kept = sorted(chance.sample(range(len(texts)), passages))
    return [texts[i] for i in kept], chance.sample(queries, questions)


def beir(folder: Path, split: str = "test") -> tuple[list[dict[str, str]], dict[str, str], dict[str, dict[str, int]]]:
    """Reads the corpus rows, query texts and judgments of a data set in BEIR format."""
    corpus = [json.loads(line) for line in (folder / "corpus.jsonl").read_text(encoding="utf-8").splitlines()]
    judged: dict[str, dict[str, int]] = {}
    for line in (folder / "qrels" / f"{split}.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query, document, grade = line.split("\t")
        judged.setdefault(query, {})[document] = int(grade)
    rows = [json.loads(line) for line in (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
    return corpus, {row["_id"]: row["text"] for row in rows if row["_id"] in judged}, judged


def ndcg(ranked: Sequence[str], grades: dict[str, int], k: int = 10) -> float:
    """nDCG@k with linear gain, as in trec_eval (Järvelin and Kekäläinen, 2002)."""
    gain = sum(grades.get(document_id, 0) / math.log2(rank + 1) for rank, document_id in enumerate(ranked[:k], 1))
    best = sum(g / math.log2(rank + 1) for rank, g in enumerate(sorted(grades.values(), reverse=True)[:k], 1))
    return gain / best if best else 0.0


def medians(work: dict[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """The median of each contestant. Every round runs all contestants, so that a noisy minute affects them equally."""
    taken: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(rounds):
        for name, run in work.items():
            taken[name].append(run())
    return {name: statistics.median(values) for name, values in taken.items()}
