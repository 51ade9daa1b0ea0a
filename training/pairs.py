"""Reads the training pairs, passages and queries of many sources, from `train-pairs.jsonl.xz`.

Each line is a JSON array: `["s", source, kind]`, `["p", title, text, group]` or `["q", query, [passage numbers]]`.
Passages of one group belong together and are never negatives of each other.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

CHOOSING = ("zoomcamp-faq", "anthropic-codebase", "kb-govuk-devdocs", "kb-openshift-runbooks")
"""Sources never used for training: they serve to choose settings. (The test sets are not in the file at all.)"""

HELD = (*CHOOSING, "covidqa-partial", "hotpotqa-sub", "squad2-dev-half", "policyqa")
"""Sources that judge, or on which settings are chosen: nothing is learnt from them."""
FILES = ("train-pairs.jsonl.xz", "more-pairs.jsonl.xz")
"""The files of pairs in a folder for training; `question_sets.py` writes the second."""

MOST = {"acl-abstracts": 12_000, "debian-desc": 8_000}
"""The most queries of a source in one pass, so that titles of papers and packages do not outnumber the questions."""


@dataclass
class Pairs:
    sources: list[str] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    """The number of each source's first passage and, last, the number of passages."""
    passages: list[str] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)
    query_source: list[int] = field(default_factory=list)
    positives: list[list[int]] = field(default_factory=list)


def read_pairs(*files: Path) -> Pairs:
    """Reads files. Passage numbers and groups become unique over all sources; titles are put before texts."""
    pairs = Pairs()
    groups: dict[tuple[int, str], int] = {}
    for line in (line for file in files for line in _lines(file)):
        kind, *values = json.loads(line)
        if kind == "s":
            pairs.sources.append(values[0])
            pairs.first.append(len(pairs.passages))
        elif kind == "p":
            title, text, group = values
            key = (len(pairs.sources), str(group))
            pairs.passages.append(f"{title}\n{text}" if title else text)
            pairs.groups.append(groups.setdefault(key, len(groups)))
        else:
            pairs.queries.append(values[0])
            pairs.query_source.append(len(pairs.sources) - 1)
            pairs.positives.append([pairs.first[-1] + number for number in values[1]])
    pairs.first.append(len(pairs.passages))
    return pairs


def pairs_of(work: Path) -> Pairs:
    """Reads the files of pairs that a folder has."""
    return read_pairs(*(work / name for name in FILES if (work / name).exists()))


def _lines(file: Path) -> Iterator[str]:
    with lzma.open(file, "rt", encoding="utf-8") as lines:
        yield from lines
