"""What a search still waits for: retrievers whose indexes are being built, and how far that is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from surefind.base.abilities import declared
from surefind.base.protocols import Retriever
from surefind.base.running.time_left import about
from surefind.base.types import Waiting
from surefind.engine.store.lock import vectors_progress


def work_of(retriever: Retriever) -> str:
    """Returns how reports of progress name the work on the index of a retriever."""
    return f"Indexing {retriever}"


def waiting_for(
    missing: Sequence[Retriever], others: Sequence[Retriever], data: Path, counts: bool
) -> tuple[Waiting, ...]:
    """Returns how far the indexes of these retrievers are, which a search with the `others` waits for, given the data
    folder of the knowledge base. Without `counts` it does not tell how many passages there are, since the caller may
    not read all of them."""
    progress = vectors_progress(data)
    by_words = all(declared(retriever).at_once for retriever in others)
    waiting = []
    for retriever in missing:
        known = progress if progress is not None and progress.what == work_of(retriever) else None
        done, total = (known.done, known.total) if known and counts else (0, 0)
        share = round(known.done / max(1, known.total), 2) if known else 0.0
        left = known.seconds_left if known else None
        waiting.append(Waiting(str(retriever), done, total, share, left, progress is not None, by_words))
    return tuple(waiting)


def waiting_text(waiting: Sequence[Waiting]) -> str:
    """Says in a sentence what a search waits for; empty if it waits for nothing."""
    if not waiting:
        return ""
    names = " and ".join(item.retriever for item in waiting)
    lead, what = ("By words so far", "vectors") if waiting[0].by_words else (f"Without {names} so far", "its index")
    if not any(item.running for item in waiting):
        return f"{lead}; {what} not complete. surefind sync and surefind serve go on."
    now = next((item for item in waiting if item.total or item.share), None)
    if now is None:
        return f"{lead}; {what} in progress."
    share = f"{now.done:,} of {now.total:,}" if now.total else f"{now.share:.0%}"
    left = f", {about(now.seconds_left)} left" if now.seconds_left is not None else ""
    return f"{lead}; {what} {share}{left}."
