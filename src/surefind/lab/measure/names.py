"""Measures by name: `nDCG@10`, `R@5:chunk`, `T1EM`. The text form of a measure identifies it and can be parsed back."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import cast

from surefind.base.errors import SpecError, choices, closest
from surefind.lab.measure.gains import Level
from surefind.lab.measure.ranks import MEASURES

SPAN_MEASURES = ("T1EM", "T5EM", "T1C", "BC", "AC", "MC", "MRR", "AT1S", "T1O", "BO", "AO")
"""The eleven gold-span measures; `spans.py` defines them."""

OVERLAP_MEASURES = ("SpanR", "SpanP", "IoU")
"""Measures of how much of the gold text is retrieved, and how much other text; `overlap.py` defines them."""

_TEXTUAL = (*SPAN_MEASURES, *OVERLAP_MEASURES)
_LEVELS = ("document", "span", "chunk")
_RANKED = re.compile(r"([A-Za-z][A-Za-z0-9]*)@(\d+)(?::(\w+))?")
_WRITTEN = re.compile(r"([A-Za-z](?:\w*[^\W\d])?)@?(\d*)(:\w+)?")
"""Anything like a measure: `ndcg10`, `ndgc@10`, `recal@5:span`."""
_MAX_RANK_DIGITS = 9
_ALIASES = {"ndcg": "nDCG", "mrr": "RR", "map": "AP", "recall": "R", "precision": "P"}


@dataclass(frozen=True, slots=True)
class Measure:
    name: str
    k: int = 5
    """The rank at which rankings are cut off; for gold-span measures, how many chunks count as retrieved."""
    level: Level = "document"

    @property
    def of_spans(self) -> bool:
        return self.name in _TEXTUAL

    def __str__(self) -> str:
        if self.of_spans:
            return self.name if self.k == 5 and self.name in SPAN_MEASURES else f"{self.name}@{self.k}"
        return f"{self.name}@{self.k}" + ("" if self.level == "document" else f":{self.level}")


def parse_measure(text: str) -> Measure:
    if text in SPAN_MEASURES:
        return Measure(text)
    match = _RANKED.fullmatch(text.strip())
    if match:
        name, k, level = match.groups()
        name = name if name in _TEXTUAL else _ALIASES.get(name.lower(), name)
        known = next((known for known in (*MEASURES, *_TEXTUAL) if known.lower() == name.lower()), None)
        if known in _TEXTUAL and level:
            raise SpecError(f"{text!r}: {known} compares texts and has no level. Write {known}@{k}.")
        if len(k) > _MAX_RANK_DIGITS:
            raise SpecError(f"{text[:40]!r}…: the rank is too large. Write it like {known or 'nDCG'}@10.")
        if known and int(k) > 0 and level in (None, *_LEVELS):
            return Measure(known, int(k), cast(Level, level or "document"))
        if known and level:
            raise SpecError(f"{text!r}: there is no level {level!r}. {choices(level, _LEVELS)}")
    known_names = [*(f"{name}@k" for name in MEASURES), *SPAN_MEASURES, *(f"{name}@k" for name in OVERLAP_MEASURES)]
    raise SpecError(f"There is no measure {text!r}. {choices(text, known_names, _meant(text.strip()))}")


def _meant(text: str) -> str:
    """The measure that was probably meant, as it is written: `ndgc@5` -> `nDCG@5`."""
    match = _WRITTEN.fullmatch(text)
    if not match:
        return ""
    name, k, level = match.groups()
    near = closest(name, (*MEASURES, *_TEXTUAL, *_ALIASES))
    near = _ALIASES.get(near, near)
    if not near or (near in SPAN_MEASURES and not k):
        return near
    return f"{near}@{k or 10}" + (level if level and level[1:] in _LEVELS and near not in _TEXTUAL else "")
