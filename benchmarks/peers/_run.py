"""Runs one job of one peer in the peer's own environment, and prints the result as one line of JSON.

    PYTHON benchmarks/peers/_run.py NAME JOB.json

NAME.py beside this file defines `Peer(encode, mode, folder)`: `mode` is `hybrid` or `bm25`, `folder` is where the peer
may store its index. It has

    packages               the distributions whose versions are reported
    index(documents)       documents are {"id", "title", "text"}; where the job says `split`, the peer cuts them as well
    search(text, k)        the ids of the documents of the k best passages, best first; an id may repeat
    change(document)       makes a new text of one document searchable
    save(), load()         writes the index to the folder, reads it in another process; missing if it cannot be stored

`encode(texts)` is the encoder of all peers: all-MiniLM-L6-v2 in int8 on onnxruntime, as Surefind bundles it. Vectors
are kept in a file, so that a text is encoded once for all peers. The time of the encoder is measured apart, and so is
that of a second one (`encode.also`), which Surefind's default has.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import resource
import sqlite3
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path[:] = [path for path in sys.path if Path(path or ".").resolve() != HERE]  # txtai.py here must not hide txtai


def used() -> float:
    """CPU-seconds of this process, its ended children and its living ones, to any depth."""
    ticks, waiting = 0, [os.getpid()]
    while waiting:
        pid = waiting.pop()
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            for task in Path(f"/proc/{pid}/task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
        except OSError:  # it has ended meanwhile
            continue
        ticks += sum(map(int, fields[11:15]))  # utime, stime, cutime, cstime
    return ticks / os.sysconf("SC_CLK_TCK")


class Encoder:
    """Texts to unit vectors. With `sentences`, a text has the mean of its lines' vectors (see `scale_stage.py`)."""

    def __init__(self, model: str, cache: str | None, sentences: str | None) -> None:
        self.clock = self.cpu = 0.0
        self._model, self._session, self._ready = Path(model), None, {}
        self._name, self._prefix, self._others, self._counted = "", "", [], self
        self._arguments = cache, sentences
        self._cache = sqlite3.connect(cache, timeout=60, check_same_thread=False) if cache else None
        if self._cache:
            self._cache.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB)")
        if sentences:
            texts = json.loads(Path(sentences, "sentences.json").read_text(encoding="utf-8"))
            listed = [text for group in texts["sources"].values() for text in group] + texts["queries"]
            self._rows = np.load(Path(sentences, "sentences.npy"))
            self._lines = {text: i for i, text in enumerate(listed)}
        self._recombine = bool(sentences)

    def __call__(self, texts: list[str]) -> np.ndarray:
        clock, cpu = time.perf_counter(), time.process_time()
        if not texts:
            return np.zeros((0, 384), np.float32)
        made = self._recombined(texts) if self._recombine else self._cached(texts)
        self._counted.clock += time.perf_counter() - clock
        self._counted.cpu += time.process_time() - cpu
        return made

    def also(self, name: str) -> Encoder:
        """Another bundled encoder. Its time is counted as this one's."""
        other = Encoder(str(self._model.parent / name), *self._arguments)
        other._name, other._counted = name, self._counted
        other._prefix = json.loads((other._model / "config.json").read_text()).get("query_prefix", "")
        self._others.append(other)
        return other

    def of_questions(self, texts: list[str]) -> np.ndarray:
        return self([self._prefix + text for text in texts])

    def remember(self, texts: list[str]) -> None:
        """Keeps the vectors of questions in memory, so that timed searches do not encode."""
        asked = [self._prefix + text for text in texts]
        self._ready.update(zip(asked, self(asked), strict=True))
        for other in self._others:
            other.remember(texts)

    def _recombined(self, texts: list[str]) -> np.ndarray:
        rows = [[self._lines[line] for line in text.split("\n") if line in self._lines] or [0] for text in texts]
        made = np.stack([self._rows[at].mean(0) for at in rows])
        return np.asarray(made / np.linalg.norm(made, axis=1, keepdims=True), np.float32)

    def _cached(self, texts: list[str]) -> np.ndarray:
        known: dict[str, np.ndarray] = {text: self._ready[text] for text in texts if text in self._ready}
        keys = {text: hashlib.sha1((self._name + text).encode()).digest() for text in texts if text not in known}
        if self._cache:
            for text, key in keys.items():
                row = self._cache.execute("SELECT vector FROM vectors WHERE key = ?", (key,)).fetchone()
                if row:
                    known[text] = np.frombuffer(row[0], np.float32)
        new = [text for text in keys if text not in known]
        for at in range(0, len(new), 256):
            part = new[at : at + 256]
            known.update(zip(part, self._encoded(part), strict=True))
            if self._cache:
                with self._cache:
                    rows = [(keys[text], known[text].tobytes()) for text in part]
                    self._cache.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", rows)
        return np.stack([known[text] for text in texts])

    def _encoded(self, texts: list[str]) -> list[np.ndarray]:
        import onnxruntime
        from tokenizers import Tokenizer

        if self._session is None:
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = 1
            self._session = onnxruntime.InferenceSession(self._model / "model.onnx", options)
            self._tokenizer = Tokenizer.from_file(str(self._model / "tokenizer.json"))
            self._tokenizer.enable_truncation(256)
            self._tokenizer.no_padding()

        def one(text: str) -> np.ndarray:
            ids = np.array([self._tokenizer.encode(text[:20_000]).ids], np.int64)
            feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
            return np.asarray(self._session.run(["embedding"], feed)[0][0], np.float32)

        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as workers:
            return list(workers.map(one, texts))


def load_peer(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"peer_{name}", HERE / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def documents_of(job: dict[str, Any]) -> list[dict[str, str]]:
    return [json.loads(line) for line in Path(job["documents"]).read_text(encoding="utf-8").splitlines()]


def versions(names: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "?"
    return found


def measure(peer: Any, encode: Encoder, job: dict[str, Any]) -> dict[str, Any]:
    """Index, then every question one at a time. The vectors of the questions are ready; encoding is counted apart."""
    documents = documents_of(job)
    questions = json.loads(Path(job["questions"]).read_text(encoding="utf-8"))
    clock, cpu = time.perf_counter(), used()
    peer.index(documents)
    clock, cpu = time.perf_counter() - clock, used() - cpu
    result = {"index_s": clock - encode.clock, "index_cpu": cpu - encode.cpu, "encoder_cpu": encode.cpu}
    result["index_peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    before = encode.cpu
    encode.remember(questions)
    result["encoder_cpu_questions"] = encode.cpu - before
    peer.search(questions[0], job["k"])
    ranked, times, cpus = [], [], []
    for question in questions:
        before, started, cpu = encode.clock, time.perf_counter(), time.process_time()
        ranked.append(peer.search(question, job["k"]))
        times.append(1000 * (time.perf_counter() - started - (encode.clock - before)))
        cpus.append(1000 * (time.process_time() - cpu))
    result |= {"ranked": ranked, "query_ms": times, "query_cpu_ms": cpus}
    result["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return result


def first(peer: Any, encode: Encoder, job: dict[str, Any]) -> dict[str, Any]:
    """From nothing to the first hits; the caller times the whole process."""
    peer.index(documents_of(job))
    return {"hits": peer.search(job["question"], 5), "encoder_s": encode.clock, "encoder_cpu": encode.cpu}


def change(peer: Any, encode: Encoder, job: dict[str, Any]) -> dict[str, Any]:
    """One document gets a new sentence; the time until a search finds it first."""
    documents = documents_of(job)
    peer.index(documents)
    encode([job["question"], documents[0]["text"]])  # the model is loaded
    chosen = documents[job["changed"]]
    chosen = {**chosen, "text": chosen["text"] + "\n\n" + job["sentence"]}
    clock, cpu, before = time.perf_counter(), used(), encode.cpu
    peer.change(chosen)
    hits = peer.search(job["question"], 10)
    return {
        "change_s": time.perf_counter() - clock,
        "change_cpu": used() - cpu,
        "change_encoder_cpu": encode.cpu - before,
        "found": bool(hits) and hits[0] == chosen["id"],
    }


def write_again(peer: Any, encode: Encoder, job: dict[str, Any]) -> dict[str, Any]:
    """Stores an index, says so, then changes one document after the other and stores again each time, for a while."""
    documents = documents_of(job)
    peer.index(documents)
    peer.save()
    print(json.dumps({"ready": True}), flush=True)
    until, rounds = time.time() + job["seconds"], 0
    while time.time() < until:
        chosen = documents[(10 * rounds) % len(documents)]
        peer.change({**chosen, "text": f"{chosen['text']}\n\nround {rounds} {job['sentence']}"})
        peer.save()
        rounds += 1
    return {"rounds": rounds}


def read_meanwhile(peer: Any, encode: Encoder, job: dict[str, Any]) -> dict[str, Any]:
    """Opens what another process has stored and searches, again and again, while that process writes."""
    until, answers, errors = time.time() + job["seconds"], 0, {}
    encode.remember([job["question"]])
    while time.time() < until:
        try:
            peer.load()
            answers += bool(peer.search(job["question"], 10))
        except BaseException as error:  # native code panics with its own kinds
            text = f"{type(error).__name__}: {' '.join(str(error).split())[:150]}"
            errors[text] = errors.get(text, 0) + 1
            time.sleep(0.02)
    return {"answers": answers, "errors": errors}


def main(name: str, path: str) -> None:
    job = json.loads(Path(path).read_text(encoding="utf-8"))
    encode = Encoder(job["model"], job.get("vectors"), job.get("sentences"))
    module = load_peer(name)
    peer = module.Peer(encode, job["mode"], Path(job["folder"]))
    peer.split, peer.job = job["split"], job
    tasks = {one.__name__: one for one in (measure, first, change, write_again, read_meanwhile)}
    if job["task"] in ("write_again", "read_meanwhile") and not hasattr(peer, "save"):
        result: dict[str, Any] = {"storage": "none"}
    else:
        result = tasks[job["task"]](peer, encode, job)
    print(json.dumps({**result, "versions": versions(module.Peer.packages)}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
    sys.stdout.flush()
    os._exit(0)  # some peers leave threads behind that keep a process alive
