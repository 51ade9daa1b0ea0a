"""Checks the reports and cached runs of a knowledge base for damage, and lists the checks of all files for `surefind
doctor`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from surefind.kb import KnowledgeBase, integrity
from surefind.kb.integrity import RepairedError, check_all, listed
from surefind.lab.bench.answers import ANSWERS_FILE, read_answers
from surefind.lab.bench.reranking import RunCache
from surefind.lab.bench.saved import REPORT_FILE, REPORTS, read_report
from surefind.lab.exam.integrity import check_exams


def _reports(kb: KnowledgeBase) -> str:
    paths = sorted((kb.data / REPORTS).glob(f"*/{REPORT_FILE}"))
    answers = sorted((kb.data / REPORTS).glob(f"*/{ANSWERS_FILE}"))
    check_all(
        [*(partial(read_report, path.parent) for path in paths), *(partial(read_answers, path) for path in answers)]
    )
    runs = 0
    for cache in (RunCache(kb.data / "runs"), RunCache(kb.data / "studies" / "stages")):
        kept = [(path, cache.rankings if path.suffix == ".npz" else cache.data) for path in _files(cache.folder)]
        broken = listed(path.name for path, read in kept if read(path.stem) is None)
        if broken:
            raise RepairedError(f"damaged in {cache.folder}: {broken}. The next run computes them again.")
        runs += len(kept)
    return f"{len(paths) + len(answers)} reports and {runs} cached runs match their checksums"


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.glob("[!.]*")) if path.suffix in (".npz", ".json"))


CHECKS: dict[str, Callable[[KnowledgeBase], str]] = {**integrity.CHECKS, "exams": check_exams, "reports": _reports}
"""The checks, by the kind of file that they check."""
