"""Runs the same work with Surefind and its peers, each in a virtual environment of its own, and compares them.

    python benchmarks/peers.py DATA WORK                            everything; what WORK has already is not run again
    python benchmarks/peers.py DATA WORK --peers hand,txtai --works scifact
    python benchmarks/peers.py DATA WORK --table                    the tables alone, from what is stored

DATA holds the collections in BEIR layout, WORK environments, indexes and results. A peer is one short file in
benchmarks/peers/, which says in its first lines which page of the peer's documentation it follows; `_run.py` there
describes the protocol. All peers get the same encoder (the bundled all-MiniLM-L6-v2), so differences in quality to
Surefind's `hybrid` come from retrieval and fusion; its default, `pair`, has a second encoder. No hub and no service is
asked. A peer that fails gets a row with its error. Every job runs in a process of its own with one thread for matrix
libraries; delete WORK/results to run all again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import scale
from _peer_tables import default, documented, tables
from _shared import beir
from surefind.doors.cli.demo import sample_folder, sample_questions

HERE = Path(__file__).resolve().parent
ENCODER = ["onnxruntime", "tokenizers"]
INSTALL: dict[str, list[list[str]]] = {
    "surefind": [[str(HERE.parent / "models"), f"{HERE.parent}[formats,serve]"]],
    "txtai": [["txtai", *ENCODER]],
    "haystack": [["haystack-ai", *ENCODER]],
    "llamaindex": [
        ["llama-index-core", "bm25s", "PyStemmer", *ENCODER],
        ["--no-deps", "llama-index-retrievers-bm25"],  # asks for PyStemmer<3, which has no wheel for aarch64
    ],
    "langchain": [["langchain", "langchain-classic", "langchain-community", "rank_bm25", "faiss-cpu", *ENCODER]],
    "hand": [["bm25s", "PyStemmer", "faiss-cpu", *ENCODER]],
}
"""What is installed to run a peer. The encoder's two packages are there for our hook."""
PEERS = ("surefind", "hand", "txtai", "haystack", "llamaindex", "langchain")
COLLECTIONS = ("scifact", "zoomcamp-faq", "sample")
WORKS = (*COLLECTIONS, "100000")
LIMIT = 1500
"""Seconds that one job may take."""


def install(peer: str, work: Path) -> dict[str, Any]:
    """Makes the environment of a peer, once; returns its size on disk and its packages."""
    venv, note = work / "venv" / peer, work / "venv" / f"{peer}.json"
    if note.exists():
        return json.loads(note.read_text())
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    pip = [venv / "bin" / "python", "-m", "pip", "--disable-pip-version-check"]
    for packages in INSTALL[peer]:
        done = subprocess.run([*pip, "install", "-q", *packages], capture_output=True, text=True)
        if done.returncode:
            made = {"error": _last(done.stderr)}
            note.write_text(json.dumps(made))
            return made
    listed = json.loads(subprocess.run([*pip, "list", "--format=json"], capture_output=True, check=True).stdout)
    packages = {row["name"]: row["version"] for row in listed if row["name"] not in ("pip", "setuptools")}
    size = int(subprocess.run(["du", "-sm", venv], capture_output=True, check=True).stdout.split()[0])
    made = {"mb": size, "packages": packages}
    note.write_text(json.dumps(made))
    return made


def run(peer: str, job: dict[str, Any], work: Path) -> dict[str, Any]:
    """Runs a job in the peer's environment, or returns what an earlier run stored."""
    name = "-".join((peer, job["mode"], job["work"], job["task"], *job.get("variant", [])))
    stored = work / "results" / f"{name}.json"
    if stored.exists():
        return json.loads(stored.read_text())
    process, started, before = _start(peer, name, job, work), time.perf_counter(), os.times()
    result = _finish(process)
    after = os.times()
    result["process_s"] = time.perf_counter() - started
    result["process_cpu"] = after[2] + after[3] - before[2] - before[3]
    result |= {"peer": peer, "load": os.getloadavg()[0], "date": time.strftime("%Y-%m-%d")}
    result |= {key: job[key] for key in ("mode", "work", "task")}
    stored.parent.mkdir(exist_ok=True)
    stored.write_text(json.dumps(result))
    shown = {key: value for key, value in result.items() if not isinstance(value, list | dict)}
    print(json.dumps(shown), flush=True)
    return result


def _start(peer: str, name: str, job: dict[str, Any], work: Path, keep: bool = False) -> subprocess.Popen[str]:
    folder = work / "indexes" / name.replace("read_meanwhile", "write_again")
    if not keep:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    path = work / "jobs" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    model = HERE.parent / "models" / "src" / "surefind_models" / "minilm"
    path.write_text(json.dumps({"model": str(model), "folder": str(folder), **job}))
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    env |= {
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "HAYSTACK_TELEMETRY_ENABLED": "",
    }
    env |= {"TQDM_DISABLE": "1", "TOKENIZERS_PARALLELISM": "false", "OPENBLAS_NUM_THREADS": "1"}
    venv = work / "venv" / peer
    call = [venv / "bin" / "python", HERE / "peers" / "_run.py", peer, path]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(call, **pipes, text=True, env=env, cwd=folder, start_new_session=True)


def _finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    try:
        out, err = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return {"error": f"stopped after {LIMIT} s"}
    lines = [line for line in out.splitlines() if line.startswith("{")]
    if process.returncode or not lines:
        return {"error": _last(err)}
    return dict(json.loads(lines[-1]))


def _last(text: str) -> str:
    """The line of an error that says what is wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and "WARNING" not in line]
    told = [line for line in lines if "Error" in line or "ERROR" in line]
    return (told or lines or ["no message"])[-1][:300]


def second(peer: str, job: dict[str, Any], work: Path) -> None:
    """One process stores an index and changes it; another one opens and searches it meanwhile."""
    name = f"{peer}-{job['mode']}-sample-second"
    stored = work / "results" / f"{name}.json"
    if stored.exists():
        return
    writer = _start(peer, f"{name}-write_again", {**job, "task": "write_again"}, work)
    assert writer.stdout
    ready = writer.stdout.readline()
    while ready and not ready.startswith("{"):
        ready = writer.stdout.readline()
    result: dict[str, Any] = {"peer": peer, "task": "second", "mode": job["mode"], "work": "sample"}
    if "ready" in ready:
        reading = {**job, "task": "read_meanwhile", "seconds": job["seconds"] - 2}
        reader = _start(peer, f"{name}-read_meanwhile", reading, work, keep=True)
        result |= {"reader": _finish(reader), "writer": _finish(writer)}
    else:
        _, err = writer.communicate()
        result |= json.loads(ready) if ready else {"error": _last(err)}
    stored.write_text(json.dumps(result))
    print(json.dumps(result)[:400], flush=True)


def jobs(peer: str, name: str, data: Path, work: Path) -> None:
    """Every job of a peer on one collection."""
    folder = prepare(name, data, work)
    common = {
        "work": name,
        "documents": str(folder / "documents.jsonl"),
        "questions": str(folder / "questions.json"),
        "split": name == "sample",
        "k": 30 if name == "sample" else 10,
        "mode": "hybrid" if name.isdigit() else default(peer),
    }
    if name.isdigit():
        common["sentences"] = str(work / "passages")
    shared = {**common, "vectors": str(work / "vectors.db")}
    if name == "sample":  # each cuts it in its own way; the first answer encodes, what follows uses these vectors
        shared["vectors"] = str(work / f"vectors-{peer}.db")
        question = json.loads((folder / "questions.json").read_text())[0]
        run(peer, {**shared, "task": "first", "question": question, "confidence": "read"}, work)
    run(peer, {**shared, "task": "measure"}, work)
    if peer == "surefind" and not name.isdigit():
        run(peer, {**shared, "task": "measure", "mode": "hybrid"}, work)
    if peer in ("surefind", "hand") and name != "sample":
        run(peer, {**shared, "task": "measure", "mode": "bm25"}, work)
    if name == "sample":
        asked = {"question": ASKED, "sentence": SENTENCE, "changed": 17}
        for repeat in "123":
            sentence = SENTENCE.replace("walnut oil", f"walnut oil number {repeat}")  # encoded anew each time
            run(peer, {**shared, "task": "change", **asked, "sentence": sentence, "variant": [repeat]}, work)
        second(peer, {**shared, **asked, "seconds": 15}, work)
    if peer == "surefind" and name == "sample":
        run(peer, {**shared, "task": "measure", "confidence": "read", "variant": ["confidence"]}, work)


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--works", default=",".join(WORKS), help="collections, or a number of passages")
    parser.add_argument("--table", action="store_true", help="print the tables alone")
    given = parser.parse_args()
    work = given.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    for name in () if given.table else given.works.split(","):
        for peer in given.peers.split(","):
            installed = install(peer, work)
            if "error" in installed:
                print(json.dumps({"peer": peer, "install": installed["error"]}), flush=True)
            else:
                jobs(peer, name, given.data.resolve(), work)
    for peer in () if given.table else given.peers.split(","):
        documented(peer, work, plan=True)
    print(tables(work, PEERS))


if __name__ == "__main__":
    main()
