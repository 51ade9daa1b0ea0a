"""Measures what learned fusion gains: every model on every exam, each question tested with a model that never saw it.

    python benchmarks/fusion.py DATA WORK [--exams NAME …] [--models NAME …] [--out TABLE.json]
    python benchmarks/fusion.py DATA WORK --time

DATA contains the sets (scifact, cranfield, hotpotqa-sub, kb-govuk-devdocs, kb-openshift-runbooks); WORK is a folder for
knowledge bases, kept between runs. BEIR splits are merged. An exam is halved (`exam.split`); a model trained on each
half is tested on the other, as `surefind train fusion --cross` does. Printed are nDCG@10 and the gain over the better
of RRF k=60 and the best single retriever, with its 95% interval and p (Holm over the four rows a model is compared
with).

With --time: the time to train on 5,000 questions (govuk's tuning half, repeated), and the time added to a query.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from _shared import machine
from surefind import KnowledgeBase, Query
from surefind.base.disk.sealed import to_json
from surefind.doors.cli.demo import sample_folder, sample_questions
from surefind.engine.fuse.convex import Convex
from surefind.engine.search.pipeline import Pipeline
from surefind.kb.settings.config import FILE_NAME
from surefind.lab.bench.engine import OWNER
from surefind.lab.bench.run import beir_base, known_item_exam
from surefind.lab.exam.formats.collections import read_beir
from surefind.lab.exam.formats.library import Library
from surefind.lab.exam.formats.table import read_table
from surefind.lab.exam.model import Exam
from surefind.lab.train.fusion import MODELS, NDCG, train_fusion
from surefind.lab.train.material import gather

BEIR = {"cranfield": ("test",), "scifact": ("test", "train"), "hotpotqa-sub": ("test", "train")}
FOLDERS = {"govuk": "kb-govuk-devdocs/source", "openshift": "kb-openshift-runbooks/alerts"}
EXAMS = ("sample", "questions", *FOLDERS, *BEIR)
PAIR = ("bm25", "dense")
SETTINGS = '[index]\nchunk = "markdown"\nenrich = ["headings"]\n'
"""Cuts passages as in the first published figures, whatever the default layout is now."""


def exams(data: Path, work: Path, wanted: list[str]) -> Iterator[tuple[str, KnowledgeBase, Exam]]:
    for name in wanted:
        if name in BEIR:
            kb, _ = beir_base(work, data / name, "test")
            parts = [read_beir(data / name, Library(kb.documents(OWNER)), split) for split in BEIR[name]]
            exam = Exam(name, tuple(query for part in parts for query in part.queries))
        else:
            home = work / ("sample" if name == "questions" else name)
            home.mkdir(parents=True, exist_ok=True)
            (home / FILE_NAME).write_text(SETTINGS, encoding="utf-8")
            kb = KnowledgeBase.open(home)
            kb.sync(data / FOLDERS[name] if name in FOLDERS else sample_folder())
            if name == "questions":
                exam = read_table(sample_questions(), Library(kb.documents(OWNER)))
            else:
                exam = known_item_exam(kb, per_family=350 if name in FOLDERS else 200)
        yield name, kb, exam
        kb.close()


def judged(kb: KnowledgeBase, name: str, exam: Exam, model: str) -> dict[str, Any]:
    made = train_fusion(kb, exam, model, PAIR, name=f"{model}-{name}", cross=True)
    trained, static, *others = made.rows
    rival = max((row for row in others if row.p is not None), key=lambda row: row.mean)
    data = to_json(made)
    return {
        "exam": name, "questions": sum(data["questions"].values()), "model": model, "trained": trained.mean,
        "rival": to_json(rival), "static": to_json(static), "rows": data["rows"], "chosen": data["hyperparameters"],
        "seconds": made.training_seconds,
    }  # fmt: skip


def show(row: dict[str, Any]) -> str:
    def gain(of: dict[str, Any]) -> str:
        return f"{of['gain']:+.3f} [{of['gain_low']:+.3f}, {of['gain_high']:+.3f}] p {of['p']:.4f}"

    rival, static = row["rival"], row["static"]
    return (
        f"{row['exam']:<13} {row['questions']:>5} {row['model']:<10} {row['trained']:.3f}  over {rival['name']} "
        f"{rival['mean']:.3f}: {gain(rival)}  over static {static['mean']:.3f}: {gain(static)}"
    )


def timed(kb: KnowledgeBase, exam: Exam, models: list[str]) -> None:
    material = gather(kb, exam, PAIR, NDCG, "score")
    many = material.tuning.taken(np.resize(np.arange(len(material.tuning.queries)), 5000))
    for model in models:
        started = time.perf_counter()
        MODELS[model](replace(material, tuning=many), lambda what, done, total: None)
        seconds = time.perf_counter() - started
        made = train_fusion(kb, exam, model, PAIR, name="timed")
        pipeline = Pipeline.parse(made.rows[0].spec)
        static = replace(pipeline, fuse=Convex(0.5, made.missing))
        p50, p95 = _added(kb, [query.text for query in exam.queries[::3]][:300], pipeline, static)
        print(f"{model:<10} trained on 5,000 in {seconds:5.1f} s; adds p50 {p50:.2f} p95 {p95:.2f} ms", flush=True)


def _added(kb: KnowledgeBase, texts: list[str], pipeline: Pipeline, static: Pipeline) -> tuple[float, float]:
    """Milliseconds that learned fusion adds to a search, compared with a fixed weight: p50 and p95."""
    view = kb.reader().view
    view.ready(pipeline.retrieve)
    times = []
    for text in texts:
        query = [Query(text)]
        found = [view.search(r, query, pipeline.depth, OWNER) for r in pipeline.retrieve]
        spent = []
        for one in (static, pipeline, static, pipeline):
            started = time.perf_counter()
            one.join(query, found, kb.reader().reading(OWNER))
            spent.append((time.perf_counter() - started) * 1000)
        times.append(spent[3] - spent[2])
    return float(np.median(times)), float(np.percentile(times, 95))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--exams", nargs="+", default=list(EXAMS), choices=EXAMS)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--time", action="store_true")
    options = parser.parse_args()
    print(machine("numpy", "xgboost-cpu", "scikit-learn"))
    rows = []
    for name, kb, exam in exams(options.data, options.work, ["govuk"] if options.time else options.exams):
        if options.time:
            timed(kb, exam, options.models)
            continue
        for model in options.models:
            rows.append(judged(kb, name, exam, model))
            print(show(rows[-1]), flush=True)
    if options.out and rows:
        options.out.write_text(json.dumps(rows, ensure_ascii=False, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
