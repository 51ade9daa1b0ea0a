"""Measures what `surefind ask` quotes without a language model, and makes the map that says how sure a quote is.

    python benchmarks/answers.py collect --data DATA --work WORK [--only NAME …]     asks every question
    python benchmarks/answers.py report --work WORK          the tables of docs/results/answers.md
    python benchmarks/answers.py fit --work WORK             writes the map into
    src/surefind/engine/confidence/builtin.json

`surefind.lab.measure.spans` says when a quote is right. *By words* is the sentence of the first hit that shares most
with the question, which is what `ask` quoted before. Questions with no answer: those that a collection has (SQuAD
2.0, the handbooks), and 40 of other collections.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path
from typing import Any

import numpy as np

from _collecting import fewer
from confidence import HANDBOOKS, QUESTIONS, figure, texts
from surefind import Access
from surefind.base.disk.sealed import to_json
from surefind.base.types import Floats, Hit
from surefind.doors.cli.demo import sample_folder, sample_questions
from surefind.engine.confidence.answering import FILE
from surefind.engine.confidence.predictor import LogisticModel, fit
from surefind.engine.search.hits import Extent
from surefind.kb import KnowledgeBase
from surefind.kb.answer.answering import MIN_PROBABILITY, PASSAGES
from surefind.kb.answer.quoting import quote
from surefind.lab.bench.answers import spans_of
from surefind.lab.exam.formats.collections import read_beir
from surefind.lab.exam.formats.library import Library
from surefind.lab.exam.formats.table import read_table
from surefind.lab.exam.model import Exam, ExamQuery
from surefind.lab.measure.spans import aurc, by_confidence, is_right, precision_at_half, token_f1
from surefind.lab.measure.thresholds import auc, calibration_error

NAMES = ("sample", "squad2-dev-half", "covidqa-partial", "policyqa", "chunking-eval", *HANDBOOKS)
MOST, NONE = 100, 40
SEED = 7


def collect(data: Path, work: Path, only: list[str]) -> None:
    work.mkdir(parents=True, exist_ok=True)
    for name in only or NAMES:
        target = work / f"answers-{name}.jsonl"
        if target.exists():
            continue
        folder = work / name
        folder.mkdir(exist_ok=True)
        with KnowledgeBase.open(folder) as kb:
            exam = fewer(exam_of(kb, name, data, work), MOST)
            documents = {document.id: document.text for document in kb.documents(Access.owner())}
            rows = [asked(kb, documents, query.text, query) for query in exam.queries]
            rows += [asked(kb, documents, text, None, origin) for origin, text in unanswerable(data, name)]
        target.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        print(f"{name}: {len(rows)} questions", flush=True)


def exam_of(kb: KnowledgeBase, name: str, data: Path, work: Path) -> Exam:
    if name in HANDBOOKS or name == "sample":
        kb.sync(sample_folder() if name == "sample" else data / HANDBOOKS[name])
        questions = sample_questions() if name == "sample" else QUESTIONS / f"{name}.jsonl"
        return read_table(questions, Library(kb.documents(Access.owner())))
    corpus = work / "corpora" / name
    corpus.mkdir(parents=True, exist_ok=True)
    (corpus / "corpus.jsonl").write_bytes((data / name / "corpus.jsonl").read_bytes())
    kb.sync(corpus)
    return read_beir(data / name, Library(kb.documents(Access.owner())))


def unanswerable(data: Path, name: str) -> list[tuple[str, str]]:
    chance = random.Random(SEED)
    others = [text for path in sorted(data.glob("*/queries.jsonl")) if path.parent.name != name for text in texts(path)]
    rows = [("foreign", text) for text in chance.sample(others, NONE)]
    own = (data / name / "unanswerable.jsonl", QUESTIONS / f"{name}.unanswerable.jsonl")
    tricks = [text for path in own if path.exists() for text in texts(path)]
    return rows + [("trick", text) for text in chance.sample(tricks, min(len(tricks), MOST))]


def asked(
    kb: KnowledgeBase, documents: dict[str, str], text: str, query: ExamQuery | None, origin: str = "there"
) -> dict[str, Any]:
    """Does what `ask` does, and keeps what it would quote however sure it is."""
    began = time.perf_counter()
    result = kb.search(text, Access.owner(), PASSAGES, extent=Extent(None, 2_000), min_confidence=0, confidence="read")
    searched = time.perf_counter()
    found = quote(text, result.hits, result.confidence or 0.0)
    row: dict[str, Any] = {"origin": origin, "signals": found.signals.tolist(), "search": result.confidence}
    row |= {"seconds": [searched - began, time.perf_counter() - searched]}
    if query is None:
        return row
    gold = [(one, documents[one.document][one.start : one.end]) for one in spans_of(query)]
    quotes = [(hit, one.text) for one in found.sentences for hit in result.hits if hit.rank in one.citations]
    first = result.hits[0] if result.hits else None
    words = [(first, within(first, first.sentence))] if first and first.sentence else []
    for name, said in (("read", quotes), ("words", words)):
        right = [any(is_right(text, hit, one, wanted) for one, wanted in gold) for hit, text in said]
        row |= {name: bool(right and right[0]), f"{name} any": any(right)}
        row |= {f"{name} f1": token_f1(said[0][1], [wanted for _, wanted in gold]) if said else 0.0}
    return row


def within(hit: Hit, span: tuple[int, int]) -> str:
    return hit.text[span[0] - hit.start : span[1] - hit.start]


# ---------------------------------------------------------------- how sure


def loaded(work: Path) -> dict[str, list[dict[str, Any]]]:
    paths = sorted(work.glob("answers-*.jsonl"))
    return {path.stem.removeprefix("answers-"): [json.loads(line) for line in path.open(encoding="utf-8")]
            for path in paths}  # fmt: skip


def fitted(parts: list[list[dict[str, Any]]]) -> LogisticModel:
    """Every collection counts the same, and questions without an answer a fifth of it."""
    rows = [row for part in parts for row in part]
    counts = [
        (1.0 if row["origin"] == "there" else 0.2) * 100 / sum(other["origin"] == row["origin"] for other in part)
        for part in parts
        for row in part
    ]
    success = np.array([row.get("read", False) for row in rows])
    return fit(np.array([row["signals"] for row in rows]), success, counts=np.array(counts))


def write(work: Path) -> None:
    place = Path(__file__).parents[1] / "src" / "surefind" / "confidence" / FILE
    data = json.loads(place.read_text(encoding="utf-8"))
    parts = loaded(work)
    data["quote"] = to_json(fitted([part for name, part in parts.items() if name != "policyqa"]).saved)
    place.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    print(f"Wrote the map of quotes from {len(parts)} collections.")


def report(work: Path) -> None:
    parts = loaded(work)
    print("| collection | questions | by words | read | gain [95%] | any quote: by words, read | F1: by words, read |")
    print("|---|---|---|---|---|---|---|")
    for name, rows in parts.items():
        own = [row for row in rows if row["origin"] == "there"]
        gain = np.array([row["read"] for row in own], float) - np.array([row["words"] for row in own], float)
        low, high = interval(gain)
        cells = [f"{np.mean([row[key] for row in own]):.3f}" for key in ("words", "read")]
        both = [", ".join(f"{np.mean([row[f'{key} {what}'] for row in own]):.3f}" for key in ("words", "read"))
                for what in ("any", "f1")]  # fmt: skip
        print(f"| {name} | {len(own)} | {' | '.join(cells)} | {gain.mean():+.3f} [{low:+.3f}, {high:+.3f}] | "
              f"{' | '.join(both)} |")  # fmt: skip
    print(
        "\n| collection | answered | right of those | at half coverage | AURC | AUROC | ECE | refused: foreign, trick |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name, rows in parts.items():
        sure = fitted([part for other, part in parts.items() if other not in (name, "policyqa")])
        p = sure(np.array([row["signals"] for row in rows]))
        own = np.array([row["origin"] == "there" for row in rows])
        right = np.array([row.get("read", False) for row in rows])[own]
        _, wrong = by_confidence(p[own], right)
        risk, half = aurc(wrong), precision_at_half(wrong)
        said = p[own] >= MIN_PROBABILITY
        refused = [np.mean([p[i] < MIN_PROBABILITY for i, row in enumerate(rows) if row["origin"] == one])
                   if any(row["origin"] == one for row in rows) else None for one in ("foreign", "trick")]  # fmt: skip
        print(f"| {name} | {said.mean():.0%} | {right[said].mean():.0%} | {half:.3f} | {risk:.3f} | "
              f"{figure(auc(p[own], right))} | {calibration_error(p[own], right):.3f} | "
              f"{', '.join(figure(one) for one in refused)} |")  # fmt: skip
    print("\n| threshold | answered | right of those | right ones refused | foreign answered | trick answered |")
    print("|---|---|---|---|---|---|")
    for least in (0.1, 0.15, 0.2, 0.25, 0.3):
        print(f"| {least:g} | {' | '.join(f'{value:.0%}' for value in threshold(parts, least))} |")
    seconds = np.array([row["seconds"] for rows in parts.values() for row in rows])
    median, high = np.median(seconds, axis=0), np.quantile(seconds, 0.95, axis=0)
    print(f"\nSeconds, median (95%): search and its confidence {median[0]:.3f} ({high[0]:.3f}), "
          f"quote {median[1]:.3f} ({high[1]:.3f})")  # fmt: skip


def threshold(parts: dict[str, list[dict[str, Any]]], least: float) -> list[float]:
    """What a threshold does, as a mean over the collections, each judged by a map of the others."""
    table = []
    for name, rows in parts.items():
        p = fitted([part for other, part in parts.items() if other not in (name, "policyqa")])(
            np.array([row["signals"] for row in rows])
        )
        origin = np.array([row["origin"] for row in rows])
        right = np.array([row.get("read", False) for row in rows])
        own, said = origin == "there", p >= least
        others = [said[origin == one].mean() if (origin == one).any() else np.nan for one in ("foreign", "trick")]
        table.append([said[own].mean(), right[own & said].mean(), (right & ~said).sum() / max(1, right.sum()), *others])
    return np.nanmean(table, axis=0).tolist()


def interval(values: Floats) -> tuple[float, float]:
    rng = np.random.default_rng(SEED)
    means = rng.choice(values, (2000, len(values))).mean(axis=1)
    return float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["collect", "report", "fit"])
    parser.add_argument("--data", type=Path, help="a folder of collections in BEIR layout, and the two handbooks")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--only", action="append", default=[], help="a collection; may be repeated")
    args = parser.parse_args()
    if args.step == "collect":
        if args.data is None:
            parser.error("collect needs --data")
        collect(args.data, args.work, args.only)
    else:
        {"fit": write, "report": report}[args.step](args.work)


if __name__ == "__main__":
    main()
