"""Checks that a two-hop question needs both of its passages: neither of them, nor any other single passage, answers it.

The model must give the answer when it sees both passages, and must not when it sees only one. A passage that BM25 finds
for the question and that contains the answer might be enough by itself, so the model is shown such passages alone, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from surefind.base.text.scripts import words
from surefind.engine.llm.reply import read_object
from surefind.lab.exam.by_llm.questions import Question, find_answer

ANSWER: dict[str, Any] = {
    "type": "object",
    "properties": {"answerable": {"type": "boolean"}, "answer": {"type": "string"}},
}
_F1 = 0.6
"""Smallest word overlap (F1) at which the model's answer counts as the gold answer."""

Ask = Callable[[Sequence[tuple[str, Sequence[str]]]], list[str | None]]
"""(question, passages) -> the model's reply to each; None if the call failed."""
Find = Callable[[Sequence[Question]], list[list[str]]]
"""Questions -> for each, other passages that retrieval finds and that contain the answer."""


def necessary(questions: Sequence[Question], ask: Ask, find: Find) -> list[str]:
    """For each question, "" if both passages are needed, or the reason to drop it."""
    verdicts = [""] * len(questions)
    together = ask([(q.text, [p.text for p in q.passages]) for q in questions])
    for i, (question, reply) in enumerate(zip(questions, together, strict=True)):
        if reply is None:
            verdicts[i] = "could not be checked"
        elif not answers(reply, question.answer):
            verdicts[i] = "both passages together do not answer it"
    left = [i for i, verdict in enumerate(verdicts) if not verdict]
    singles: list[tuple[int, str, str]] = []
    for i, others in zip(left, find([questions[i] for i in left]), strict=True):
        singles += [(i, p.text, "one of its passages is enough") for p in questions[i].passages]
        singles += [(i, text, "another passage is enough") for text in others]
    alone = ask([(questions[i].text, [text]) for i, text, _ in singles])
    for (i, _, verdict), reply in zip(singles, alone, strict=True):
        if reply is None:
            verdicts[i] = verdicts[i] or "could not be checked"
        elif answers(reply, questions[i].answer):
            verdicts[i] = verdict
    return verdicts


def answers(reply: str, gold: str) -> bool:
    """Whether the model found the answer: one contains the other, or they share most of their words."""
    answer = read_object(reply)
    if not answer or answer.get("answerable") is not True or not isinstance(answer.get("answer"), str):
        return False
    given, wanted = words(answer["answer"]), words(gold)
    if not given or not wanted:
        return False
    if find_answer(" ".join(wanted), " ".join(given)) or find_answer(" ".join(given), " ".join(wanted)):
        return True
    shared = len(set(given) & set(wanted))
    return 2 * shared / (len(set(given)) + len(set(wanted))) >= _F1
