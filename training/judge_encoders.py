"""Compares encoders on collections with real questions, each in the hybrid at the α and depth that suit it best.

    PYTHONPATH=benchmarks python training/judge_encoders.py DATA WORK minilm student='onnx(path=WORK/student-int8)' …

An encoder is NAME=SPEC, or a spec that is its own name; the first is what the others are compared with. The engine
itself cuts, embeds, searches and fuses: `bm25 + dense(model=SPEC) >> convex(alpha=…, missing=score)`, and for two
encoders `bm25 + dense(…) + dense(…) >> weighted(weights=[…], missing=score)`. So the scores are those of `surefind
bench`. Settings are chosen on one half of each collection's questions and judged on the other (`halves.py`).

A large collection is drawn down first: `--questions` of its questions, all documents that are judged for these, and
other documents up to `--characters` of text. WORK/bases has a knowledge base for each collection, which keeps the
vectors, and WORK/scores the nDCG@10 of every question; a second run computes only what is new. WORK/report.txt is what
is printed. `--time` prints the time of one text as well.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import cast

import numpy as np

from _collecting import questions_of
from halves import Scores, report
from surefind.base import spec
from surefind.base.abilities import embed_queries
from surefind.base.protocols import Embedder, Fuser, Retriever
from surefind.base.types import Query, Rankings
from surefind.doors.cli.demo import sample_questions
from surefind.engine.fuse.convex import Convex
from surefind.engine.fuse.weighted import Weighted
from surefind.engine.search.pipeline import fold, score_missing
from surefind.kb import KnowledgeBase
from surefind.lab.bench.engine import OWNER, places_of
from surefind.lab.exam.formats.library import Library
from surefind.lab.exam.formats.table import read_table
from surefind.lab.exam.model import relocate
from surefind.lab.measure.ranks import MEASURES, Judge

WRITTEN = ("sample", "scifact", "cranfield", "boolq", "hotpotqa-sub", "squad2-dev-half", "covidqa-partial", "policyqa")
"""Collections whose questions were written by people. Those of the others were written by language models."""
NAMES = (*WRITTEN, "chunking-eval", "anthropic-codebase", "zoomcamp-faq")
ALPHAS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
DEPTHS = (50, 100, 200)
SHARES = (0.3, 0.5, 0.7)
"""Of the first of two encoders, in their part of a sum."""
ALPHAS_OF_TWO = (0.4, 0.5, 0.6, 2 / 3, 0.75, 0.85)
"""The part of both encoders together in a sum with BM25; 2/3 with a share of 0.5 is 1:1:1."""
SEED = 7
SETTINGS = '[search]\npipeline = "words"\n[pipelines.words]\nretrieve = ["bm25"]\n'
"""A sync embeds nothing; the encoders are given here."""


def drawn(source: Path, target: Path, questions: int, characters: int) -> None:
    """Writes a collection with at most so many questions and so much text, the same each time.

    Questions are drawn one by one, and a question whose documents would be too much text is left out. Then other
    documents are drawn, up to the same limit.
    """
    dice = np.random.default_rng(SEED)
    corpus = (source / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    names = [str(json.loads(line)["_id"]) for line in corpus]
    size = dict(zip(names, map(len, corpus), strict=True))
    head, *lines = (source / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()
    judged: dict[str, list[str]] = {}
    for line in lines:
        judged.setdefault(line.split("\t")[0], []).append(line)
    asked, used, text = [], set[str](), 0
    for query in dice.permutation(sorted(judged)).tolist():
        new = {line.split("\t")[1] for line in judged[query]} - used
        more = sum(size[document] for document in new)
        if len(asked) < questions and (not new or text + more <= characters):
            asked.append(query)
            used |= new
            text += more
    for document in dice.permutation([name for name in names if name not in used]).tolist():
        if text + size[document] <= characters:
            used.add(document)
            text += size[document]
    (target / "qrels").mkdir(parents=True, exist_ok=True)
    _write(target / "corpus.jsonl", [line for name, line in zip(names, corpus, strict=True) if name in used])
    _write(target / "qrels" / "test.tsv", [head, *(line for query in asked for line in judged[query])])
    for file, key in (("queries.jsonl", "_id"), ("spans.jsonl", "query-id")):
        if (source / file).exists():
            rows = (source / file).read_text(encoding="utf-8").splitlines()
            _write(target / file, [row for row in rows if str(json.loads(row)[key]) in set(asked)])


def _write(path: Path, lines: Sequence[str]) -> None:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


class Asked:
    """The questions of a collection, and nDCG@10 of any fusion of retrievers."""

    def __init__(self, kb: KnowledgeBase, name: str, data: Path, work: Path) -> None:
        exam = questions_of(kb, name, data, work)
        documents = {document.id: document.text for document in kb.documents(OWNER)}
        exam, _ = relocate(exam, documents)
        self.view = kb.reader().view
        self.queries = [Query(query.text, query.id) for query in exam.queries]
        self.passages = len(self.view)
        self._judge = Judge(exam.queries, places_of(self.view.spans(), documents))
        self._kb = kb

    def search(self, retrievers: Sequence[Retriever], depth: int) -> list[Rankings]:
        self._kb.build_for(retrievers, None)
        self.view = self._kb.reader().view
        return [self.view.search(one, self.queries, depth, OWNER) for one in retrievers]

    def complete(self, found: Sequence[Rankings], retrievers: Sequence[Retriever], depth: int) -> list[Rankings]:
        """The first `depth` of each ranking, every candidate scored by every retriever."""
        cut = [_first(ranking, depth) for ranking in found]
        return score_missing(cut, self.queries, retrievers, self.view, OWNER)

    def ndcg(self, ranking: Rankings) -> np.ndarray:
        whole = fold(ranking, self.view.parents)
        return MEASURES["nDCG"](self._judge.gains(whole, "document"), 10)

    def fused(self, fuser: Fuser, full: Sequence[Rankings]) -> np.ndarray:
        return self.ndcg(fuser.fuse(full, sum(ranking.ids.shape[1] for ranking in full)))


def _first(ranking: Rankings, depth: int) -> Rankings:
    return replace(ranking, ids=ranking.ids[:, :depth], scores=ranking.scores[:, :depth])


def systems_of(names: Sequence[str]) -> list[str]:
    """The names of everything that is compared, in order."""
    pairs = [f"{a} + {b}" for a, b in combinations(names, 2)]
    return ["bm25", *(f"{one}{kind}" for one in (*names, *pairs) for kind in (" alone", ""))]


def scored(asked: Asked, encoders: dict[str, str], known: set[str]) -> Iterator[tuple[str, str, np.ndarray]]:
    """Every system that is not known, with every setting: its name, the setting, the score of every question."""
    words = cast(Retriever, spec.make("retrieve", "bm25"))
    dense = {name: cast(Retriever, spec.make("retrieve", f"dense(model={one})")) for name, one in encoders.items()}
    lists = dict(zip(["bm25", *dense], asked.search([words, *dense.values()], max(DEPTHS)), strict=True))
    if "bm25" not in known:
        yield "bm25", "", asked.ndcg(lists["bm25"])
    for name, retriever in dense.items():
        if name in known:
            continue
        yield f"{name} alone", "", asked.ndcg(lists[name])
        for depth in DEPTHS:
            full = asked.complete([lists["bm25"], lists[name]], [words, retriever], depth)
            for alpha in ALPHAS:
                setting = f"α={alpha} @{depth}"
                yield name, setting, asked.fused(Convex(alpha=alpha, missing="score"), full)
    for a, b in combinations(dense, 2):
        if f"{a} + {b}" in known:
            continue
        two = asked.complete([lists[a], lists[b]], [dense[a], dense[b]], 100)
        full = asked.complete([lists["bm25"], lists[a], lists[b]], [words, dense[a], dense[b]], 100)
        for share in SHARES:
            weights = share, 1 - share
            yield f"{a} + {b} alone", _weights(weights), asked.fused(Weighted(weights=weights, missing="score"), two)
            for alpha in ALPHAS_OF_TWO:
                weights = 1 - alpha, alpha * share, alpha * (1 - share)
                yield f"{a} + {b}", _weights(weights), asked.fused(Weighted(weights=weights, missing="score"), full)


def _weights(weights: Sequence[float]) -> str:
    return ":".join(f"{weight:.2f}" for weight in weights)


def collected(name: str, encoders: dict[str, str], arguments: argparse.Namespace) -> dict[str, np.ndarray]:
    """The scores of a collection by `SYSTEM|SETTING`; new ones are computed and kept."""
    work = arguments.work
    file, folder, data = work / "scores" / f"{name}.npz", work / "bases" / name, work / "drawn"
    table = dict(np.load(file)) if file.exists() else {}
    known = {key.split("|")[0] for key in table}
    if not set(systems_of(list(encoders))) <= known:
        begun = time.perf_counter()
        folder.mkdir(parents=True, exist_ok=True)
        file.parent.mkdir(exist_ok=True)
        (folder / "surefind.toml").write_text(SETTINGS, encoding="utf-8")
        if name != "sample" and not (data / name).exists():
            drawn(arguments.data / name, data / name, arguments.questions, arguments.characters)
        with KnowledgeBase.open(folder) as kb:
            asked = Asked(kb, name, data, work / "parted")
            print(f"{name}: {asked.passages:,} passages, {len(asked.queries)} questions", flush=True)
            table |= {f"{system}|{setting}": scores for system, setting, scores in scored(asked, encoders, known)}
        np.savez_compressed(file, **table)
        print(f"{name}: {time.perf_counter() - begun:.0f} s", flush=True)
    return table


def timed(encoders: dict[str, str], kb: KnowledgeBase, rounds: int = 5) -> str:
    """The processor's time for one passage and for one question, all encoders in turns: medians, and how many times
    that of the first encoder."""
    view = kb.reader().view
    chunks = view.chunks(view.spans().ids[::20].tolist(), OWNER)
    questions = [query.text for query in read_table(sample_questions(), Library(kb.documents(OWNER))).queries[::4]]
    made = {name: cast(Embedder, spec.make("embed", one)) for name, one in encoders.items()}
    times: dict[tuple[str, str], list[float]] = {}
    for turn in range(rounds + 1):
        for name, encoder in made.items():
            for kind, texts, run in (
                ("passage", [chunk.searchable for chunk in chunks], encoder.embed),
                ("question", questions, partial(embed_queries, encoder)),
            ):
                begun = time.process_time()
                for text in texts:
                    run([text])
                if turn:  # the first loads the model
                    times.setdefault((kind, name), []).append((time.process_time() - begun) / len(texts))
    middle = {key: float(np.median(found)) for key, found in times.items()}
    first = next(iter(encoders))
    return "\n".join(
        f"one {kind}, {name}: {one * 1000:.1f} ms, {one / middle[kind, first]:.2f}"
        for (kind, name), one in middle.items()
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("encoders", nargs="+", metavar="NAME=SPEC")
    parser.add_argument("--collections", nargs="*", default=NAMES)
    parser.add_argument("--questions", type=int, default=300, help="of a collection, at most")
    parser.add_argument("--characters", type=int, default=10_000_000, help="of a collection, at most")
    parser.add_argument("--time", action="store_true", help="of one text of the sample, which must be there")
    arguments = parser.parse_args()
    encoders = dict(one.split("=", 1) if "=" in one.split("(")[0] else (one, one) for one in arguments.encoders)
    limits = json.dumps({"questions": arguments.questions, "characters": arguments.characters})
    kept = arguments.work / "limits.json"
    if kept.exists() and kept.read_text(encoding="utf-8") != limits:
        parser.error(f"{arguments.work} has collections with other limits. Give another folder.")
    arguments.work.mkdir(parents=True, exist_ok=True)
    kept.write_text(limits, encoding="utf-8")
    wanted = systems_of(list(encoders))
    table: Scores = {}
    for name in arguments.collections:
        for key, scores in collected(name, encoders, arguments).items():
            system, setting = key.split("|")
            if system in wanted:
                table.setdefault(system, {}).setdefault(setting, {})[name] = scores
    text = report({system: table[system] for system in wanted}, next(iter(encoders)), WRITTEN)
    print(text, flush=True)
    if arguments.time:
        with KnowledgeBase.open(arguments.work / "bases" / "sample") as kb:
            text += "\n\n" + (times := timed(encoders, kb))
        print(times, flush=True)
    (arguments.work / "report.txt").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
