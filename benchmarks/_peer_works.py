"""The work that `peers.py` gives to every peer: documents, questions and judgments, the same files for all."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import scale
from _shared import beir
from surefind.kb.sample import sample_folder, sample_questions

SEED = 7
MOST_QUESTIONS = 500
PASSAGE_QUESTIONS = 100
SENTENCE = "The heliograph of Vantroosk is polished with walnut oil each leap day."
ASKED = "With what is the heliograph of Vantroosk polished?"


def prepare(name: str, data: Path, work: Path) -> Path:
    """Writes the documents, questions and judgments of a collection, once, and returns their folder."""
    folder = work / "works" / name
    if not (folder / "judged.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        if name == "sample":
            documents, questions, judged = _sample()
        elif name.isdigit():
            documents, questions, judged = _passages(int(name), data, work / "passages")
        else:
            documents, questions, judged = _collection(data / name)
        lines = (json.dumps(document, ensure_ascii=False) + "\n" for document in documents)
        (folder / "documents.jsonl").write_text("".join(lines), encoding="utf-8")
        (folder / "questions.json").write_text(json.dumps(questions), encoding="utf-8")
        (folder / "judged.json").write_text(json.dumps(judged), encoding="utf-8")
    return folder


Work = tuple[list[dict[str, str]], list[str], list[dict[str, int]]]


def _collection(folder: Path) -> Work:
    corpus, queries, judged = beir(folder)
    names = sorted(queries)
    if len(names) > MOST_QUESTIONS:
        names = sorted(random.Random(SEED).sample(names, MOST_QUESTIONS))
    documents = [{"id": row["_id"], "title": row.get("title", ""), "text": row["text"]} for row in corpus]
    return documents, [queries[name] for name in names], [judged[name] for name in names]


def _sample() -> Work:
    """Documents are whole files, front matter included, as a peer's reader of text files gives them."""
    root = sample_folder()
    paths = sorted(path for path in root.rglob("*") if path.is_file())
    documents = [
        {"id": path.relative_to(root).as_posix(), "title": "", "text": path.read_text(encoding="utf-8")}
        for path in paths
    ]
    rows = [json.loads(line) for line in sample_questions().read_text(encoding="utf-8").splitlines()]
    return documents, [row["query"] for row in rows], [{g["document"]: 1 for g in row["gold"]} for row in rows]


def _passages(number: int, data: Path, folder: Path) -> Work:
    """Four sentences of one collection, a line each, as `scale.py` makes them, and some of its questions."""
    if not (folder / "sentences.npy").exists():
        folder.mkdir(parents=True, exist_ok=True)
        scale.sentences(data, folder)
    kept: dict[str, Any] = json.loads((folder / "sentences.json").read_text(encoding="utf-8"))
    chance = random.Random(scale.SEED)
    documents = []
    for i in range(number):
        lines = chance.sample(kept["sources"][chance.choice(scale.SOURCES)], scale.SENTENCES)
        documents.append({"id": f"p{i}", "title": "", "text": "\n".join(lines)})
    questions = random.Random(SEED).sample(kept["queries"], PASSAGE_QUESTIONS)
    return documents, questions, [{} for _ in questions]
