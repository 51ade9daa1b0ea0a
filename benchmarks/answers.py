"""Measures what `surefind ask` quotes for what staff ask of four sets of documents, and follow-up questions.

    python benchmarks/answers.py quotes --data DATA --work WORK        the tables of docs/results/answers.md
    python benchmarks/answers.py choose --data DATA --work WORK        other ways to choose the block
    python benchmarks/answers.py follow --data DATA --work WORK        the second turns of conversations
    python benchmarks/answers.py doors --data DATA --work WORK         asks search and ask, and compares what they say

DATA has the documents of `confidence.HANDBOOKS`; the questions are in `questions/` beside this file. `quotes` does what
`surefind bench --answers` does. WORK keeps the knowledge bases.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from confidence import HANDBOOKS, QUESTIONS, texts
from surefind import Access
from surefind.base.types import SURE, Floats, Hit, Turn
from surefind.engine.rerank.cross_encoder import bundled_reader
from surefind.engine.search import quoting
from surefind.engine.search.history import leans
from surefind.kb import KnowledgeBase
from surefind.kb.answer.answering import answer
from surefind.lab.bench.answers import AnswersReport, Unanswerable, figures, measure_answers, spans_of
from surefind.lab.bench.names import compared, plan_for
from surefind.lab.exam.formats.library import Library
from surefind.lab.exam.formats.table import read_table
from surefind.lab.exam.model import Exam, ExamQuery
from surefind.lab.measure.spans import holds, is_right

OWNER = Access.owner()
FOUND = 5
"""Passages among which the answer of a second turn is looked for."""
READERS = ("small", "large")


@contextmanager
def handbook(name: str, data: Path, work: Path) -> Iterator[tuple[KnowledgeBase, Library]]:
    folder = work / name
    folder.mkdir(parents=True, exist_ok=True)
    with KnowledgeBase.open(folder) as kb:
        kb.sync(data / HANDBOOKS[name])
        yield kb, Library(kb.documents(OWNER))


def asked(name: str, library: Library) -> Exam:
    return read_table(QUESTIONS / f"{name}.jsonl", library)


def unanswerable(name: str) -> Unanswerable:
    return {"same subject": texts(QUESTIONS / f"{name}.unanswerable.jsonl"),
            "other subjects": texts(QUESTIONS / "other-subjects.jsonl")}  # fmt: skip


def quotes(data: Path, work: Path) -> None:
    reports: dict[str, AnswersReport] = {}
    for name in HANDBOOKS:
        with handbook(name, data, work) as (kb, library):
            plan = plan_for(kb, asked(name, library), compared(kb, None, [kb.settings.pipeline], [], []), OWNER)
            reports[name] = measure_answers(kb, plan, unanswerable(name), "benchmarks/answers.py quotes")
    columns = {name: figures(report, report.rows[0]) for name, report in reports.items()}
    print(f"| | {' | '.join(columns)} | mean |\n|---|{'---|' * (len(columns) + 1)}")
    for figure in next(iter(columns.values())):
        cells = [column[figure] for column in columns.values()]
        means = [float(cell.split()[0]) for cell in cells] if figure != "tied" and "–" not in cells else []
        print(f"| {figure} | {' | '.join(cells)} | {f'{np.mean(means):.3f}' if means else ''} |")


# ---------------------------------------------------------------- ways to choose


@dataclass(frozen=True)
class Way:
    """A way to choose the block that is quoted."""

    reader: str
    words: float
    rank: float
    blocks: int


WAYS = [
    *(Way(reader, 1.0, 0.5, 16) for reader in READERS),
    *(Way("small", words, 0.5, 16) for words in (0.0, 2.0)),
    Way("small", 1.0, 0.0, 16),
    Way("small", 1.0, 0.5, 24),
]


def choose(data: Path, work: Path) -> None:
    right: dict[Way, dict[str, Floats]] = {way: {} for way in WAYS}
    for name in HANDBOOKS:
        with handbook(name, data, work) as (kb, library):
            reading = kb.reader().reading(OWNER)
            exam = asked(name, library)
            found = [kb.search(query.text, OWNER, quoting.QUOTED).hits for query in exam.queries]
            for way in WAYS:
                quoting.BLOCKS, quoting._WORDS, quoting._RANK = way.blocks, way.words, way.rank
                reader = bundled_reader(160, way.reader)
                rows = []
                for query, hits in zip(exam.queries, found, strict=True):
                    made = quoting.answering(
                        quoting.quotes(query.text, reading.passages([int(hit.id, 16) for hit in hits]), reader)
                    )
                    rows.append(bool(made) and says(made[0], hits, query, library))
                right[way][name] = np.array(rows, float)
    print(f"| reader | words | rank | blocks | {' | '.join(HANDBOOKS)} | right | gain over the reranker [95%] |")
    print(f"|---|---|---|---|{'---|' * (len(HANDBOOKS) + 2)}")
    base = np.concatenate(list(right[WAYS[0]].values()))
    for way, sets in right.items():
        every = np.concatenate(list(sets.values()))
        low, high = interval(every - base)
        print(f"| {way.reader} | {way.words:g} | {way.rank:g} | {way.blocks} | "
              f"{' | '.join(f'{rows.mean():.3f}' for rows in sets.values())} | {every.mean():.3f} | "
              f"{(every - base).mean():+.3f} [{low:+.3f}, {high:+.3f}] |")  # fmt: skip


def says(quote: quoting.Quote, hits: tuple[Hit, ...], query: ExamQuery, library: Library) -> bool:
    document = hits[quote.rank - 1].document
    return any(
        is_right(quote.text, quote.span, document, gold, library.find(gold.document).text[gold.start : gold.end])
        for gold in spans_of(query)
    )


def interval(values: Floats) -> tuple[float, float]:
    rng = np.random.default_rng(7)
    means = rng.choice(values, (2_000, len(values))).mean(axis=1)
    return float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))


# ---------------------------------------------------------------- second turns, and two doors


def follow(data: Path, work: Path) -> None:
    rows: list[dict[str, Any]] = []
    for name in HANDBOOKS:
        with handbook(name, data, work) as (kb, _):
            for line in (QUESTIONS / f"{name}.conversations.jsonl").read_text(encoding="utf-8").splitlines():
                turn = json.loads(line)
                said = answer(kb, turn["first"], OWNER)
                before = Turn(turn["first"], tuple(dict.fromkeys(hit.document for hit in said.cited)))
                hits = [kb.search(turn["query"], OWNER, FOUND, history=past).hits for past in ((), (before,))]
                reached = [any(holds(hit.text, hit.document, None, gold["text"]) and hit.document == gold["document"]
                               for hit in own for gold in turn["gold"]) for own in hits]  # fmt: skip
                rows.append({"set": name, "alone": turn["alone"], "leans": leans(turn["query"]), "found": reached})
    print("| second turns | questions | judged as leaning | R@5 without | with history | gain [95%] |")
    print("|---|---|---|---|---|---|")
    groups = {
        "that lean": [row for row in rows if not row["alone"]],
        "that stand alone": [row for row in rows if row["alone"]],
    }
    groups |= {f"lean, {name}": [r for r in rows if r["set"] == name and not r["alone"]] for name in HANDBOOKS}
    for title, own in groups.items():
        found = np.array([row["found"] for row in own], float)
        low, high = interval(found[:, 1] - found[:, 0])
        without, history = found.mean(axis=0)
        judged = np.mean([row["leans"] for row in own])
        print(f"| {title} | {len(own)} | {judged:.2f} | {without:.3f} | {history:.3f} | "
              f"{history - without:+.3f} [{low:+.3f}, {high:+.3f}] |")  # fmt: skip


def doors(data: Path, work: Path) -> None:
    """Asks every question of search and of ask, and counts what they say differently."""
    questions, contradictions = 0, []
    for name in HANDBOOKS:
        with handbook(name, data, work) as (kb, library):
            own = [query.text for query in asked(name, library).queries]
            for text in [*own, *(text for part in unanswerable(name).values() for text in part)]:
                result, said = kb.search(text, OWNER, FOUND, confidence="read"), answer(kb, text, OWNER)
                questions += 1
                states = {SURE[0][1]: "answered", SURE[1][1]: "not_sure", SURE[2][1]: "not_here"}
                same = [hit.id for hit in result.hits] == [hit.id for hit in said.result.hits]
                if states[result.sure] != said.state or result.confidence != said.confidence or not same:
                    contradictions.append(text)
    print(f"{questions:,} questions through both doors, {len(contradictions)} contradictions {contradictions[:5]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = {"quotes": quotes, "choose": choose, "follow": follow, "doors": doors}
    parser.add_argument("step", choices=steps)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    args = parser.parse_args()
    steps[args.step](args.data, args.work)


if __name__ == "__main__":
    main()
