"""Rank measures over gains, for a whole exam at once. The names are those of ir_measures: `nDCG@10`.

    nDCG@k     Σ_{r<=k} g_r / log2(r+1), divided by the same sum for the ideal order (Järvelin and Kekäläinen 2002)
    RR@k       1 / rank of the first relevant item within k, else 0
    AP@k       Σ_{r<=k, relevant} precision at r, divided by the number of relevant items
    R@k        relevant items within k / relevant items
    P@k        relevant items within k / k
    Success@k  1 if any relevant item is within k
    All@k      1 if every relevant item is within k, for questions that need several passages

Gains are the grades themselves, as in trec_eval. A query without relevant items scores 0.

Measures by name: `nDCG@10`, `R@5:chunk`, `T1EM`. The text form of a measure identifies it and can be parsed back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import cast

import numpy as np

from surefind.base.errors import SpecError, choices, closest
from surefind.base.types import Floats
from surefind.lab.measure.gains import Gains, Level


def _cut(table: Floats, k: int) -> Floats:
    """Cuts or pads a table to exactly k columns."""
    return np.pad(table[:, :k], ((0, 0), (0, max(0, k - table.shape[1]))))


def _ratio(above: Floats, below: Floats) -> Floats:
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


def ndcg(judged: Gains, k: int) -> Floats:
    discount = 1 / np.log2(np.arange(2, k + 2))
    # One chunk may cover two gold spans, so the gain can exceed that of the ideal order of single items; 1 is the most.
    return np.minimum(_ratio(_cut(judged.gains, k) @ discount, _cut(judged.ideal, k) @ discount), 1.0)


def reciprocal_rank(judged: Gains, k: int) -> Floats:
    hits = _cut(judged.gains, k) > 0
    return np.asarray(np.where(hits.any(axis=1), 1 / (hits.argmax(axis=1) + 1), 0.0))


def average_precision(judged: Gains, k: int) -> Floats:
    hits = (_cut(judged.gains, k) > 0).astype(np.float64)
    precision = np.cumsum(hits, axis=1) / np.arange(1, k + 1)
    return _ratio(np.asarray((precision * hits).sum(axis=1)), judged.relevant)


def recall(judged: Gains, k: int) -> Floats:
    return _ratio(np.asarray(_cut(judged.found, k).sum(axis=1)), judged.relevant)


def precision(judged: Gains, k: int) -> Floats:
    return np.asarray((_cut(judged.gains, k) > 0).sum(axis=1) / k)


def success(judged: Gains, k: int) -> Floats:
    return np.asarray((_cut(judged.gains, k) > 0).any(axis=1), dtype=np.float64)


def all_relevant(judged: Gains, k: int) -> Floats:
    return np.asarray(recall(judged, k) >= 1, dtype=np.float64)


MEASURES = {
    "nDCG": ndcg,
    "RR": reciprocal_rank,
    "AP": average_precision,
    "R": recall,
    "P": precision,
    "Success": success,
    "All": all_relevant,
}


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
    names = [*(f"{name}@k" for name in MEASURES), *SPAN_MEASURES, *(f"{name}@k" for name in OVERLAP_MEASURES)]
    raise SpecError(f"There is no measure {text!r}. {choices(text, names, _meant(text.strip()))}")


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
