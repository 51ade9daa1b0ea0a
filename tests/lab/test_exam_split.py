"""The two halves of an exam: the same every time, balanced, and no document in both."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

from cases import each
from exam_helpers import query, sample_exam
from surefind.lab.exam.model import ExamQuery, Judgment, clusters_of, held_out

FAMILIES = "anchor_text entity_lookup exact_phrase faq first_sentence heading_direct heading_paraphrase".split()
"""The families of the sample's exam. Written out, because every process that collects the tests would otherwise
generate the exam."""


def halves(queries: Sequence[ExamQuery]) -> dict[str, bool]:
    return dict(zip([query.id for query in queries], held_out(queries), strict=True))


def about(documents: Sequence[int], families: int = 1) -> list[ExamQuery]:
    """Questions about documents with these numbers, of families in turn."""
    made = [query(str(i), f"What is {i}?", Judgment(f"{number}.md")) for i, number in enumerate(documents)]
    return [replace(one, family=f"family {i % families}") for i, one in enumerate(made)]


def test_halves_are_the_same_every_time() -> None:
    assert held_out(sample_exam().queries) == held_out(sample_exam().queries)


def test_halves_do_not_depend_on_the_order_of_the_questions() -> None:
    queries = sample_exam().queries
    assert halves(queries) == halves(queries[::-1])


def test_no_document_is_in_both_halves() -> None:
    queries = sample_exam().queries
    sides: dict[int, set[bool]] = defaultdict(set)
    for cluster, held in zip(clusters_of(queries).tolist(), held_out(queries), strict=True):
        sides[cluster].add(held)
    assert len(sides) > 100 and {len(both) for both in sides.values()} == {1}


def test_the_families_of_the_sample_are_these() -> None:
    assert set(sample_exam().families()) == set(FAMILIES)


@each("family", FAMILIES)
def test_every_family_is_halved_as_far_as_its_documents_allow(family: str) -> None:
    queries = sample_exam().queries
    numbered = zip(queries, clusters_of(queries).tolist(), held_out(queries), strict=True)
    own = [(cluster, held) for query, cluster, held in numbered if query.family == family]
    (_, largest), *_ = Counter(cluster for cluster, _ in own).most_common(1)
    assert abs(2 * sum(held for _, held in own) - len(own)) <= max(4, largest)


@each("families", [1, 3])
def test_questions_about_a_document_each_are_halved_by_number(families: int) -> None:
    queries = about(range(60), families)
    out = Counter(one.family for one, held in zip(queries, held_out(queries), strict=True) if held)
    assert out == {f"family {i}": 60 // families // 2 for i in range(families)}


def test_halves_are_even_if_documents_have_many_questions_or_few() -> None:
    queries = about([0] * 20 + [1] * 15 + [2] * 9 + [3] * 4 + list(range(4, 40)), families=2)
    assert abs(2 * sum(held_out(queries)) - len(queries)) <= 1


def test_families_of_one_are_split_together() -> None:
    queries = [replace(one, family=f"family {one.id}") for one in about(range(10))]
    assert sum(held_out(queries)) == 5


def test_questions_about_few_documents_are_split_one_by_one() -> None:
    assert sum(held_out(about([0] * 30))) == 15
    assert sum(held_out(about([*([0] * 20), 1, 2]))) == 11


def test_single_question_is_not_held_out() -> None:
    assert held_out(about([0])) == [False]


def test_exam_without_questions_has_empty_halves() -> None:
    assert held_out([]) == []
