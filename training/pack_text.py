"""Packs the unlabelled text that a student learns from, as token ids: questions, colloquial questions, passages.

    python training/pack_text.py DATA TOKENIZER.json WORK/text PAIRS.jsonl.xz … [--preset 0]

`--preset` is that of xz: 6, or 0 where the files need not be small. Sources that judge or choose are left out, and so
are passages that begin like one of theirs or like a document of a collection in DATA. Training then needs neither the
tokenizer nor the pairs. `student_text.py` reads the files.
"""

from __future__ import annotations

import argparse
import lzma
import random
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from alike import Judges, beginning
from colloquial import said, told
from ids import flat_ids
from pairs import HELD, Pairs, read_pairs

PASSAGE_TOKENS, QUESTION_TOKENS = 510, 62
SEED = 7

_SENTENCE = re.compile(r"(?<=[.!?])\s+")


def kept_passages(pairs: Pairs, judges: Judges) -> list[int]:
    held = [number for number, name in enumerate(pairs.sources) if name in HELD]
    away = {p for number in held for p in range(pairs.first[number], pairs.first[number + 1])}
    known = judges.passages | {beginning(pairs.passages[p]) for p in away}
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
        np.save(out, flat.astype(np.uint16))
        for array in (lengths, sources):
            np.save(out, array.astype(np.uint32))
    print(f"{file.name}: {len(texts):,} texts, {len(flat):,} tokens, {file.stat().st_size:,} bytes", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("pairs", type=Path, nargs="+")
    parser.add_argument("--preset", type=int, default=6)
    arguments = parser.parse_args()
    arguments.target.mkdir(parents=True, exist_ok=True)
    pairs, judges = read_pairs(*arguments.pairs), Judges.of(arguments.data)
    numbers = kept_passages(pairs, judges)
    passages = [pairs.passages[p] for p in numbers]
    held = {number for number, name in enumerate(pairs.sources) if name in HELD}
    kept = [
        q for q, number in enumerate(pairs.query_source) if number not in held and not judges.asks(pairs.queries[q])
    ]
    questions = [pairs.queries[q] for q in kept]
    spoken = list(dict.fromkeys(colloquial(questions, passages)))

    def pack(name: str, texts: list[str], most: int, sources: np.ndarray) -> None:
        write(texts, sources, arguments.tokenizer, most, arguments.preset, arguments.target / f"{name}.xz")

    pack("colloquial", spoken, QUESTION_TOKENS, np.zeros(len(spoken)))
    pack("questions", questions, QUESTION_TOKENS, np.array([pairs.query_source[q] for q in kept]))
    pack("passages", passages, PASSAGE_TOKENS, source_of(pairs)[numbers])


if __name__ == "__main__":
    main()
