"""Where the gold of an exam is in two generations, and which of it was lost from one to the other.

`relocate` leaves out a judgment whose passage it does not find, which is right for comparing configurations on the same
documents. Here the loss is the finding. So a lost judgment stays in the exam, under the name of a document that does
not exist: it counts as an answer that was not found.

An edited passage is not a lost one. If its beginning is no longer in the document word for word, but half of its words
still stand together, the document counts as the gold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from surefind.lab.exam.model import ExamQuery, Judgment
from surefind.lab.exam.overlap import WINDOW, overlap
from surefind.lab.exam.relocate import locate

_LOST = "\0"
"""Begins the names of lost documents; no document has it in its name."""
_SAME = 0.5
"""The share of a passage's words that an edited passage still has."""


@dataclass(frozen=True)
class Gold:
    """The judgments of one question in one generation."""

    query: ExamQuery
    """The question, with judgments that point into the documents of the generation or at lost documents."""
    documents: tuple[str, ...]
    """The gold documents that the generation has, with their passages."""
    lost: tuple[str, ...]
    """The gold documents that the generation lacks, or that lack their passages."""


def locate_gold(
    queries: Sequence[ExamQuery], old: Mapping[str, str], new: Mapping[str, str]
) -> list[tuple[Gold, Gold]]:
    """Returns the gold of each question in the old texts and in the new ones."""
    return [(_gold(query, old, new), _gold(query, new, old)) for query in queries]


def rewritten(queries: Sequence[ExamQuery], old: Mapping[str, str], new: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the questions whose gold is in both texts and says something else in the new ones."""
    return tuple(
        query.text for query in queries if any(_rewritten(j, old, new) for j in query.judgments if j.grade > 0)
    )


def _rewritten(j: Judgment, old: Mapping[str, str], new: Mapping[str, str]) -> bool:
    if j.document not in old or j.document not in new or old[j.document] == new[j.document]:
        return False
    was = locate(j, old)
    if was is None:
        return False
    passage = " ".join(old[j.document][was.start : was.end].split())
    return passage not in " ".join(new[j.document].split())


def _gold(query: ExamQuery, here: Mapping[str, str], there: Mapping[str, str]) -> Gold:
    judgments = [moved for j in query.judgments if (moved := locate(j, here) or _edited(j, here, there))]
    present = dict.fromkeys(j.document for j in judgments if j.grade > 0)
    lost: dict[str, Judgment] = {}
    for j in sorted(query.judgments, key=lambda j: (j.is_answer, j.grade)):  # the best of a document comes last
        if j.grade > 0 and j.document not in present:
            lost[j.document] = j
    missing = [Judgment(f"{_LOST}{document}", grade=j.grade, role=j.role) for document, j in lost.items()]
    return Gold(replace(query, judgments=(*judgments, *missing)), tuple(present), tuple(lost))


def _edited(j: Judgment, here: Mapping[str, str], there: Mapping[str, str]) -> Judgment | None:
    """Returns a judgment of the whole document if an edited form of the passage, as the other generation has it, is
    still in the document."""
    other, text = locate(j, there), here.get(j.document)
    if other is None or text is None or j.grade < 1:
        return None
    passage = " ".join(there[j.document][other.start : other.end].split()[:WINDOW])
    return Judgment(j.document, grade=j.grade, role=j.role) if overlap(passage, text) >= _SAME else None
