"""Packs the unlabelled text that a student learns from, as token ids: passages, questions and colloquial questions.

    python training/pack_text.py train-pairs.jsonl.xz TOKENIZER.json WORK/text [PRESET]

PRESET is that of xz: 6, or 0 where the files need not be small. Sources that judge or choose are left out, and so are
passages of other sources that begin like one of theirs. Training then needs neither the tokenizer nor the pairs.
`student_text.py` reads the files.
"""

from __future__ import annotations

import lzma
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from colloquial import said, told
from ids import flat_ids
from pairs import CHOOSING, Pairs, read_pairs

HELD = (*CHOOSING, "covidqa-partial", "hotpotqa-sub", "squad2-dev-half", "policyqa")
"""Sources that judge encoders, or on which settings are chosen."""
PASSAGE_TOKENS, QUESTION_TOKENS = 510, 62
ALIKE = 60
"""Two passages whose first letters and digits agree for this many characters count as the same passage."""
SEED = 7

_SENTENCE = re.compile(r"(?<=[.!?])\s+")


def beginning(passage: str) -> str:
    return re.sub(r"[\W_]+", "", passage.rpartition("\n")[2][: 3 * ALIKE].lower())[:ALIKE]


def kept_passages(pairs: Pairs) -> list[int]:
    held = [number for number, name in enumerate(pairs.sources) if name in HELD]
    away = {p for number in held for p in range(pairs.first[number], pairs.first[number + 1])}
    known = {beginning(pairs.passages[p]) for p in away}
    return [p for p, text in enumerate(pairs.passages) if p not in away and beginning(text) not in known]


def source_of(pairs: Pairs) -> np.ndarray:
    """The source of each passage."""
    return np.repeat(np.arange(len(pairs.sources)), np.diff(pairs.first))


def colloquial(questions: list[str], passages: list[str]) -> Iterator[str]:
    dice = random.Random(SEED)
    for question in questions:
        if len(question.split()) <= 24:
            yield said(question, dice)
    for passage in passages:
        title, _, text = passage.rpartition("\n")
        if 1 < len(title.split()) <= 12 and dice.random() < 0.5:
            yield said(title, dice)
        if dice.random() < 0.4:
            yield told(dice.choice(_SENTENCE.split(text[:1500])), dice)


def write(texts: list[str], sources: np.ndarray, tokenizer: Path, most: int, preset: int, file: Path) -> None:
    flat, lengths = flat_ids(texts, tokenizer, most)
    filters = [{"id": lzma.FILTER_LZMA2, "preset": preset, "lc": 0, "lp": 1, "pb": 1}]  # for numbers of two bytes each
    with lzma.open(file, "wb", format=lzma.FORMAT_XZ, filters=filters) as out:
        for array in (flat, lengths, sources):
            np.save(out, array.astype(np.uint16))
    print(f"{file.name}: {len(texts):,} texts, {len(flat):,} tokens, {file.stat().st_size:,} bytes", flush=True)


def main(source: Path, tokenizer: Path, target: Path, preset: int = 6) -> None:
    target.mkdir(parents=True, exist_ok=True)
    pairs = read_pairs(source)
    numbers = kept_passages(pairs)
    passages = [pairs.passages[p] for p in numbers]
    held = {number for number, name in enumerate(pairs.sources) if name in HELD}
    asked = [q for q, number in enumerate(pairs.query_source) if number not in held]
    questions = [pairs.queries[q] for q in asked]
    spoken = list(dict.fromkeys(colloquial(questions, passages)))
    write(spoken, np.zeros(len(spoken)), tokenizer, QUESTION_TOKENS, preset, target / "colloquial.xz")
    sources = np.array([pairs.query_source[q] for q in asked])
    write(questions, sources, tokenizer, QUESTION_TOKENS, preset, target / "questions.xz")
    write(passages, source_of(pairs)[numbers], tokenizer, PASSAGE_TOKENS, preset, target / "passages.xz")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), *map(int, sys.argv[4:]))
