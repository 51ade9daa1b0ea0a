"""The last stage: what each stage added, on the questions that were reranked, overall and by tag."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from surefind.lab.bench.engine import OWNER
from surefind.lab.bench.plan import Contender
from surefind.lab.exam.model import ExamQuery
from surefind.lab.study.desk import RunContext
from surefind.lab.study.stage import Before
from surefind.lab.study.studies.agentic_kb import _paper as paper
from surefind.lab.study.studies.agentic_kb._groups import groups_of

STEPS = {"Agentic": "chunking", "Graph": "graph", "Fusion": "fusion", "Rerank": "reranking"}
"""The steps of the ladder by the stages that measured them."""
_KEYS = ("tags", "tag", "topics", "categories", "category")
"""The fields of a document that hold its tags; without one, its folder is its tag."""
MAX_TAGS = 15
"""Tags that are shown: those with the most documents."""


def measure(desk: RunContext, before: Before, allowed: Sequence[Contender]) -> dict[str, Any]:
    there = {step: before[stage] for step, stage in STEPS.items() if before.get(stage, {}).get("ladder")}
    ids = before["reranking"]["ids"]
    rows = {step: _scores(result, ids) for step, result in there.items()}
    asked = {query.id: query for query in desk.exam.queries}
    queries = [asked[query_id] for query_id in ids]
    tags, counts = _tags(desk, queries)
    t1em = {step: {"T1EM": scores["T1EM"]} for step, scores in rows.items()}
    missing = {step: "left out: no model was trained" for step in STEPS if step not in rows}
    return {
        "questions": len(ids),
        "groups": groups_of([query.family for query in queries], rows),
        "tags": [
            {
                "tag": tag,
                "documents": counts[tag],
                "questions": len(places),
                **{step: float(scores["T1EM"][places].mean()) for step, scores in t1em.items()},
            }
            for tag, places in tags.items()
        ],
        "left_out": missing,
    }


def _scores(result: Any, ids: Sequence[str]) -> dict[str, Any]:
    place = {query_id: i for i, query_id in enumerate(result["ids"])}
    rows = [place[query_id] for query_id in ids]
    return {key: np.array(values)[rows] for key, values in result["ladder"].items() if key in paper.KEY}


def _tags(desk: RunContext, queries: Sequence[ExamQuery]) -> tuple[dict[str, list[int]], dict[str, int]]:
    """The places of the questions about documents with each tag, and the number of documents of each tag."""
    of_document = {document.id: _of(document.id, document.metadata) for document in desk.kb.documents(OWNER)}
    counts: dict[str, int] = {}
    for tags in of_document.values():
        for tag in tags:
            counts[tag] = counts.get(tag, 0) + 1
    places: dict[str, list[int]] = {}
    for i, query in enumerate(queries):
        gold = {judgment.document for judgment in query.judgments if judgment.is_answer}
        for tag in sorted({tag for query_id in gold for tag in of_document.get(query_id, ())}):
            places.setdefault(tag, []).append(i)
    common = sorted(places, key=lambda tag: (-counts[tag], tag))[:MAX_TAGS]
    return {tag: places[tag] for tag in common}, counts


def _of(query_id: str, metadata: Any) -> list[str]:
    given = next((metadata[key] for key in _KEYS if metadata.get(key)), None)
    if isinstance(given, list | tuple):
        return sorted({str(tag) for tag in given})
    return [str(given)] if given else ["/".join(query_id.split("/")[:-1]) or "(no folder)"]
