"""Drift in words: the summary, and the questions that changed."""

from __future__ import annotations

from collections.abc import Sequence

from surefind.lab.bench.drift import Drift, ScoreChange

_MAX_LISTED_QUESTIONS = 10
"""The most questions that are listed of those that got worse, and of those that got better."""
_ALL = ": add --json to list them all"
_QUESTION = 70
"""Characters of a question that are shown."""


def drift_text(drift: Drift) -> str:
    """Returns everything that `surefind drift` prints about one exam."""
    changed = drift.documents
    lines = [
        f"Generation {changed.before} to {changed.after}: {len(changed.added)} documents added, {len(changed.changed)} "
        f"changed, {len(changed.removed)} removed.",
        f"Exam: {drift.exam}, {drift.questions} questions. {drift.affected} could be affected.",
    ]
    if drift.left_out:
        lines.append(f"{drift.left_out} questions were left out: neither generation has their passages.")
    if drift.rewritten:
        ask = "1 question asks" if len(drift.rewritten) == 1 else f"{len(drift.rewritten)} questions ask"
        lines.append(f"{ask} for a text that changed. Check that the new text is the right answer:")
        lines += [f"  {_short(text)}" for text in drift.rewritten[:_MAX_LISTED_QUESTIONS]]
    lines += [summary(drift), verdict(drift)]
    lines += [f"Problem: {problem}" for problem in drift.problems]
    lines += listed("got worse", drift.worse, _ALL) + listed("got better", drift.better, _ALL)
    return "\n".join(lines)


def summary(drift: Drift) -> str:
    return f"{drift.measure} {drift.summary}"


def verdict(drift: Drift) -> str:
    if drift.failed:
        return "WORSE: the loss is significant."
    if not drift.worse and not drift.better:
        return "ok: no question has another score."
    return "ok: no significant loss."


def listed(what: str, changes: Sequence[ScoreChange], total: str = "") -> list[str]:
    """Returns the first questions that changed, two lines each. `total` says how to see all of them."""
    if not changes:
        return []
    lines = [f"{len(changes)} {'question' if len(changes) == 1 else 'questions'} {what}:"]
    for change in changes[:_MAX_LISTED_QUESTIONS]:
        lines.append(f"  {change.before:.2f} -> {change.after:.2f}  {_short(change.query)}  ({_ranks(change)})")
        lines.append(f"      {change.why}")
    if len(changes) > _MAX_LISTED_QUESTIONS:
        lines.append(f"  … and {len(changes) - _MAX_LISTED_QUESTIONS} more{total}")
    return lines


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _QUESTION else flat[: _QUESTION - 1] + "…"


def _ranks(change: ScoreChange) -> str:
    ranks = (change.rank_before, change.rank_after)
    return " -> ".join("not found" if rank is None else f"rank {rank}" for rank in ranks)
