"""The training pairs: passages and queries of many sources, from `train-pairs.jsonl.xz`.

One JSON array a line: `["s", source, kind]`, `["p", title, text, group]`, `["q", query, [passage numbers]]`. Passages
of one group belong together and are never negatives of each other.
"""

from __future__ import annotations

import json
import lzma
from dataclasses import dataclass, field
from pathlib import Path

CHOOSING = ("zoomcamp-faq", "anthropic-codebase", "kb-govuk-devdocs", "kb-openshift-runbooks")
"""Sources never trained on: settings are chosen on them. (The test sets are not in the file at all.)"""

MOST = {"acl-abstracts": 12_000, "debian-desc": 8_000}
"""At most so many queries of a source in one pass: titles of papers and packages would drown the questions."""


@dataclass
class Pairs:
    sources: list[str] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    """The first passage of each source, and the end."""
    passages: list[str] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)
    query_source: list[int] = field(default_factory=list)
    positives: list[list[int]] = field(default_factory=list)


def read_pairs(file: Path) -> Pairs:
    """Passage numbers and groups made unique over all sources; a passage's text is its title, then its text."""
    pairs = Pairs()
    groups: dict[tuple[int, str], int] = {}
    with lzma.open(file, "rt", encoding="utf-8") as lines:
        for line in lines:
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
