"""Exams whose kinds of questions have given shares, and paraphrases that name their document."""

from __future__ import annotations

from collections import Counter

from exam_helpers import BODY, document, query
from surefind.lab.exam.known_item import generate, generate_in_shares, in_shares


def _counted(kinds: dict[str, int], shares: dict[str, int]) -> Counter[str]:
    made = [query(f"{kind}{i}", "?", family=kind) for kind, count in kinds.items() for i in range(count)]
    return Counter(one.family for one in in_shares(made, shares))


def test_the_scarcest_kind_decides() -> None:
    assert _counted({"a": 100, "b": 10}, {"a": 50, "b": 20}) == {"a": 25, "b": 10}
    assert _counted({"a": 100, "b": 100}, {"a": 50, "b": 20}) == {"a": 50, "b": 20}  # never more than in the study
    assert _counted({"a": 30}, {"a": 50, "b": 20}) == {"a": 30}  # a kind without questions is left out
    assert _counted({}, {"a": 50}) == {}


def test_a_paraphrase_that_points_at_many_documents_names_its_own() -> None:
    many = [document(f"{i}.md", f"# Wire desk {i}\n\nThe alert of the teller. {BODY}") for i in range(40)]
    text = f"# Zebra checks\n\n## Verify the alert\n\n{BODY}\n## Verify the quagga\n\n{BODY}"
    one = document("one.md", text, "Zebra checks")
    plain = [q.text for q in generate([*many, one], families=["heading_paraphrase"]).queries]
    titled = [q.text for q in generate([*many, one], families=["heading_paraphrase_titled"]).queries]
    assert len(plain) == 1 and len(titled) == 2
    assert any(text.endswith("the alert, in Zebra checks?") for text in titled)
    assert [text for text in titled if "quagga" in text] == plain  # it needs no title


def test_questions_of_a_model_take_the_place_of_those_by_rule() -> None:
    documents = [document(f"{i}.md", f"# Pay desk {i}\n\n## Delete the zebra{i} badge\n\n{BODY}") for i in range(6)]
    shares = {"heading_direct": 3, "heading_paraphrase": 2}
    by_rule = generate_in_shares(documents, shares, "mine")
    written = [query(f"w{i}", f"how do I drop zebra{i}?", family="heading_paraphrase") for i in range(2)]
    by_model = generate_in_shares(documents, shares, "mine", written)
    assert Counter(q.family for q in by_rule.queries) == Counter(q.family for q in by_model.queries) == shares
    assert [q for q in by_model.queries if q.family == "heading_paraphrase"] == written
