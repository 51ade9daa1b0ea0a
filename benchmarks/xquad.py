"""Measures search and confidence in other languages, on XQuAD: the same 240 passages and 1,190 questions in each.

    python benchmarks/xquad.py DATA WORK --languages de es zh en              # with surefind[languages] or without it
    python benchmarks/xquad.py DATA WORK --languages de es zh --across        # questions and passages in two
    python benchmarks/xquad.py DATA WORK --languages de es zh en --confidence
    python benchmarks/xquad.py DATA WORK --languages de es zh en --detect     # is the language of a text named right?

DATA has the folders xquad-de … in BEIR layout, WORK gets knowledge bases. The default pipeline of a new knowledge base
is compared with `bm25` as it was (English stems), `bm25` and `hybrid`. Confidence is that of a program (`quick`): does
it tell first hits that are right from others, and questions about passages that were removed from those that are there?
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from surefind import Access, KnowledgeBase
from surefind.base.text.languages import language_of
from surefind.lab.bench.plan import Plan, from_texts, parse_measures
from surefind.lab.bench.run import beir_base, run_bench
from surefind.lab.exam.model import Exam

ROWS = ("bm25(analyzer=english)", "bm25", "hybrid")
ASKED = 400
SEED = 1


def collection(data: Path, work: Path, asked: str, passages: str) -> Path:
    """A BEIR folder of questions in one language over passages in another."""
    folder = work / f"{asked}-{passages}"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(data / f"xquad-{passages}" / "corpus.jsonl", folder)
    shutil.copy(data / f"xquad-{asked}" / "queries.jsonl", folder)
    shutil.copytree(data / f"xquad-{passages}" / "qrels", folder / "qrels", dirs_exist_ok=True)
    return folder


def halved(folder: Path, work: Path) -> KnowledgeBase:
    """A knowledge base of every second passage."""
    home = work / f"{folder.name}-half"
    home.mkdir(exist_ok=True)
    lines = (folder / "corpus.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (home / "corpus.jsonl").write_text("".join(lines[::2]), encoding="utf-8")
    (home / "surefind.toml").write_text('[index]\nchunk = "whole"\nenrich = ["headings"]\n', encoding="utf-8")
    kb = KnowledgeBase.open(home)
    kb.sync(home / "corpus.jsonl")
    return kb


def auroc(scores: Sequence[float], right: Sequence[bool]) -> float:
    """How often a right one has a higher score than a wrong one; half a point for equal scores."""
    values, labels = np.array(scores), np.array(right)
    difference = values[labels][:, None] - values[~labels][None]
    return float((difference > 0).mean() + 0.5 * (difference == 0).mean())


def quality(kb: KnowledgeBase, exam: Exam) -> None:
    texts = [*ROWS, kb.settings.pipeline] if kb.settings.pipeline not in ("words", "hybrid") else list(ROWS)
    plan = Plan(tuple(from_texts(texts, kb.settings.known)), exam, parse_measures(["nDCG@10", "R@5"]))
    report = run_bench(kb, plan, "").report
    for row in report.rows:
        mean = row.measures["nDCG@10"]
        print(f"  {row.name:24} {mean.mean:.3f} [{mean.low:.3f}, {mean.high:.3f}]  R@5 {row.measures['R@5'].mean:.3f}")


def confidence(kb: KnowledgeBase, exam: Exam) -> None:
    here = {document.id for document in kb.documents(Access.owner())}
    queries = random.Random(SEED).sample(list(exam.queries), ASKED)
    sure, right, there = [], [], []
    for query in queries:
        result = kb.search(query.text, Access.owner(), 1, confidence="quick")
        gold = {judgment.document for judgment in query.judgments}
        sure.append(result.confidence or 0.0)
        right.append(bool(result.hits) and result.hits[0].document in gold)
        there.append(bool(gold & here))
    shown = [s for s, t in zip(sure, there, strict=True) if t]
    ok = [r for r, t in zip(right, there, strict=True) if t]
    line = f"  first right {np.mean(ok):.3f}, stated {np.mean(shown):.3f}, AUROC right {auroc(shown, ok):.3f}"
    print(line + (f", AUROC there {auroc(sure, there):.3f}" if not all(there) else ""))


def detection(data: Path, language: str) -> None:
    language_of("Das Modell wird geladen.")
    for name in ("corpus", "queries"):
        lines = (data / f"xquad-{language}" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        texts = [json.loads(line)["text"] for line in lines]
        began = time.perf_counter()
        named = [language_of(text) for text in texts]
        each = (time.perf_counter() - began) / len(texts)
        right, unsure = (sum(code == wanted for code in named) / len(named) for wanted in (language, ""))
        print(f"{language} {name:8} named right {right:.3f}, unsure {unsure:.3f}, {1e6 * each:.0f} µs a text")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--languages", nargs="+", default=["de", "es", "zh", "en"])
    parser.add_argument("--across", action="store_true")
    parser.add_argument("--confidence", action="store_true")
    parser.add_argument("--detect", action="store_true")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    for language in arguments.languages:
        if arguments.detect:
            detection(arguments.data, language)
            continue
        pairs = [(language, "en"), ("en", language)] if arguments.across else [(language, language)]
        for asked, passages in pairs:
            folder = collection(arguments.data, arguments.work, asked, passages)
            kb, exam = beir_base(arguments.work, folder, "test")
            print(f"{asked} -> {passages}: the default is {kb.settings.pipeline}", flush=True)
            if not arguments.confidence:
                quality(kb, exam)
                continue
            kb.build(kb.settings.pipeline)
            confidence(kb, exam)
            confidence(halved(folder, arguments.work), exam)


if __name__ == "__main__":
    main()
