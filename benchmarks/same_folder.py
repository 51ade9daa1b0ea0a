"""Does the same folder give the same ids, exam, rankings and verdict on another processor or another Python?

    python benchmarks/same_folder.py write HERE.json          on each machine, with each Python
    python benchmarks/same_folder.py compare HERE.json THERE.json

`write` syncs the bundled sample from nothing, every vector computed there, writes its known-item exam, asks the 175
staff questions of three pipelines, and runs the default benchmark on both exams. `compare` names what differs.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

from _shared import machine
from surefind import Access
from surefind.kb import KnowledgeBase
from surefind.kb.sample import sample_folder, sample_questions
from surefind.serve.cli import main as command

PIPELINES = ("words", "dense", "hybrid")
EXAMS = ("known-item", "questions")
DEPTH = 10
OWNER = Access.owner()


def write(path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        kb_folder = Path(folder) / "kb"
        kb_folder.mkdir()
        _run("init", kb_folder)
        with KnowledgeBase.open(kb_folder) as kb:
            kb.sync(sample_folder())
            reader = kb.reader()
            ids = [hit_id for _, hit_id in sorted(_ids(reader))]
            rankings = {name: _rankings(kb, name) for name in PIPELINES}
        _run("exam", "generate", "--as", "*", kb_folder)
        _run("exam", "import", str(sample_questions()), kb_folder)
        exams = {
            name: json.loads(_run("exam", "show", name, "--json", kb_folder)) for name in ("known-item", "questions")
        }
        verdicts = {name: _verdict(name, kb_folder) for name in exams}
    found = {
        "machine": machine("surefind", "numpy", "onnxruntime", "tokenizers"),
        "ids": _digest(ids),
        "passages": len(ids),
        "exams": {name: exam["fingerprint"] for name, exam in exams.items()},
        "rankings": rankings,
        "verdicts": verdicts,
    }
    path.write_text(json.dumps(found, ensure_ascii=False), encoding="utf-8")
    print(found["machine"], f"{len(ids)} passages", *verdicts.values(), sep="\n")


def _ids(reader: Any) -> list[tuple[str, str]]:
    view = reader.view
    return [(chunk.document, chunk.id) for chunk in view.chunks(view.spans().ids.tolist(), OWNER)]


def _rankings(kb: KnowledgeBase, name: str) -> list[list[tuple[str, float]]]:
    reader, pipeline = kb.reader(), kb.pipeline(name)
    rows = [json.loads(line) for line in sample_questions().read_text(encoding="utf-8").splitlines()]
    answers = (reader.search(row["query"], OWNER, pipeline, DEPTH, confidence="off") for row in rows)
    return [[(hit.id, hit.score) for hit in answer.hits] for answer in answers]


def _verdict(exam: str, folder: Path) -> str:
    report = json.loads(_run("bench", "--exam", exam, "--as", "*", "--yes", "--json", folder))
    return str(report["verdict"] if isinstance(report["verdict"], str) else report["verdict"]["text"])


def _run(*words: Any) -> str:
    *said, folder = words
    out = io.StringIO()
    argv = ["surefind", *said, "--kb", str(folder)]
    with mock.patch.object(sys, "argv", argv), contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        command()
    return out.getvalue()


def _digest(values: list[str]) -> str:
    return hashlib.blake2b("\n".join(values).encode(), digest_size=8).hexdigest()


def compare(one: Path, other: Path) -> None:
    a, b = (json.loads(path.read_text(encoding="utf-8")) for path in (one, other))
    print(a["machine"], b["machine"], sep="\n")
    print(f"ids of {a['passages']} passages: {'the same' if a['ids'] == b['ids'] else 'OTHERS'}")
    for name, fingerprint in a["exams"].items():
        print(f"exam {name}: {'the same' if fingerprint == b['exams'][name] else 'ANOTHER'}")
    for name in PIPELINES:
        print(f"{name}: {_apart(a['rankings'][name], b['rankings'][name])}")
    for name, verdict in a["verdicts"].items():
        same = verdict == b["verdicts"][name]
        print(
            f"verdict on {name}: "
            + ("the same words" if same else f"OTHER WORDS\n  {verdict}\n  {b['verdicts'][name]}")
        )


def _apart(one: list[Any], other: list[Any]) -> str:
    """How two lists of rankings differ: the questions with other ids, other first ids, and the scores."""
    pairs = list(zip(one, other, strict=True))
    ids = sum([i for i, _ in a] != [i for i, _ in b] for a, b in pairs)
    first = sum(a[:1] and b[:1] and a[0][0] != b[0][0] for a, b in pairs)
    scores = [abs(s - t) for a, b in pairs for (i, s), (j, t) in zip(a, b, strict=False) if i == j]
    exact = all(a == b for a, b in pairs)
    if exact:
        return f"the same to the last bit, {len(pairs)} questions"
    return f"{ids} of {len(pairs)} rankings differ, {first} in the first hit; scores by at most {max(scores):.2g}"


if __name__ == "__main__":
    {"write": write, "compare": compare}[sys.argv[1]](*map(Path, sys.argv[2:]))
