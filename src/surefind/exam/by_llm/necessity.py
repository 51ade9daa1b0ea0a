"""Whether a two-hop question needs both of its passages: neither alone, nor any other single passage, answers it.

By the model: shown both it must give the answer, shown one it must not. By retrieval: a passage that BM25 finds for the
question and that holds the answer might be enough by itself, so the model is shown that one alone, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from surefind.exam.by_llm.questions import Question, find_answer
from surefind.llm.reply import read_object
from surefind.text.scripts import words

ANSWER: dict[str, Any] = {
    "type": "object",
    "properties": {"answerable": {"type": "boolean"}, "answer": {"type": "string"}},
}
_F1 = 0.6

Ask = Callable[[Sequence[tuple[str, Sequence[str]]]], list[str | None]]
"""(question, passages) -> the model's words for each, None where it failed."""
Find = Callable[[Sequence[Question]], list[list[str]]]
"""For each question the single passages, besides its own, that retrieval finds and that hold the answer."""


def necessary(questions: Sequence[Question], ask: Ask, find: Find) -> list[str]:
    """For each question "" if both passages are needed, or why it is dropped."""
    verdicts = [""] * len(questions)
    together = ask([(q.text, [p.text for p in q.passages]) for q in questions])
    for i, (question, said) in enumerate(zip(questions, together, strict=True)):
        if said is None:
            verdicts[i] = "could not be checked"
        elif not answers(said, question.answer):
            verdicts[i] = "both passages together do not answer it"
    left = [i for i, verdict in enumerate(verdicts) if not verdict]
    singles: list[tuple[int, str, str]] = []
    for i, others in zip(left, find([questions[i] for i in left]), strict=True):
        singles += [(i, p.text, "one of its passages is enough") for p in questions[i].passages]
        singles += [(i, text, "another passage is enough") for text in others]
    alone = ask([(questions[i].text, [text]) for i, text, _ in singles])
    for (i, _, verdict), said in zip(singles, alone, strict=True):
        if said is None:
            verdicts[i] = verdicts[i] or "could not be checked"
        elif answers(said, questions[i].answer):
            verdicts[i] = verdict
    return verdicts


def answers(said: str, gold: str) -> bool:
    """Whether the model found the answer: one stands in the other, or they share most of their words."""
    found = read_object(said)
    if not found or found.get("answerable") is not True or not isinstance(found.get("answer"), str):
        return False
    mine, wanted = words(found["answer"]), words(gold)
    if not mine or not wanted:
        return False
    if find_answer(" ".join(wanted), " ".join(mine)) or find_answer(" ".join(mine), " ".join(wanted)):
        return True
    shared = len(set(mine) & set(wanted))
    return 2 * shared / (len(set(mine)) + len(set(wanted))) >= _F1
