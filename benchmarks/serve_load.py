"""Measures `surefind serve`: many clients at once, malformed requests, overhead, start.

    python benchmarks/serve_load.py load --clients 200 --seconds 60
    python benchmarks/serve_load.py rate --clients 50 --seconds 20 --confidence quick --workers 2
    python benchmarks/serve_load.py same --requests 100
    python benchmarks/serve_load.py malformed --requests 10000
    python benchmarks/serve_load.py overhead
    python benchmarks/serve_load.py start

Each makes the sample's knowledge base in a temporary folder, and starts a server on the loopback. `load` mixes searches
and uploads while another process publishes a new generation every five seconds. Every answer is checked: the text of
the changing document must be that of the generation that the answer names, and no restricted text may be in it. `rate`
only searches, and also says how much time of the processors and how much memory each process takes: clients share the
cores with the server. `same` compares the answers with and without processes that search.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import multiprocessing
import os
import random
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from surefind.base.access import Access
from surefind.doors.cli.demo import sample_folder, sample_questions
from surefind.kb import KnowledgeBase

SECRET = "hushword"
TICK = "ticktock"
EVERY = 5.0
"""Seconds between two generations."""
UPLOADS = 0.05
"""Share of requests that upload a draft."""
WARM_SECONDS, MAX_ROUNDS = 4.0, 10
"""The rounds of searches before those that are measured."""


@contextlib.contextmanager
def knowledge_base(known: Path | None) -> Iterator[Path]:
    """Makes the knowledge base in a temporary folder, or in `known`, where a later run finds it."""
    with tempfile.TemporaryDirectory() if known is None else contextlib.nullcontext(str(known)) as name:
        folder = Path(name)
        if (folder / "more").exists():
            yield folder
            return
        (folder / "more").mkdir(parents=True)
        (folder / "more" / "secret.md").write_text(f"---\nacl: [board]\n---\n# Board\n\nThe {TICK} is {SECRET}.")
        tick(folder, 0)
        with KnowledgeBase.open(folder) as kb:
            kb.sync(sample_folder(), folder / "more")
        yield folder


def tick(folder: Path, number: int) -> None:
    (folder / "more" / "tick.md").write_text(f"# Tick\n\nThe {TICK} shows number{number}.")


@contextlib.contextmanager
def server(folder: Path, cache_mb: int = 0, workers: int | None = None) -> Iterator[int]:
    with server_process(folder, cache_mb, workers) as (port, _):
        yield port


@contextlib.contextmanager
def server_process(folder: Path, cache_mb: int, workers: int | None) -> Iterator[tuple[int, int]]:
    """Runs a server, and yields its port and the id of its process."""
    lines = [f"cache_mb = {cache_mb}", "queue = 2000", *([] if workers is None else [f"workers = {workers}"])]
    (folder / "surefind.toml").write_text("\n".join(["[serve]", *lines, ""]))
    log = folder / "serve.log"
    with log.open("w") as file:
        words = [sys.executable, "-m", "surefind", "serve", "--kb", str(folder), "--port", "0"]
        process = subprocess.Popen(words, stderr=file, stdout=file)
    try:
        yield port_of(log), process.pid
    finally:
        process.terminate()
        process.wait(40)
        errors = [line for line in log.read_text().splitlines()[2:] if line.strip()]
        if errors:
            print(f"the server's log has {len(errors)} lines, such as: {errors[0]}")


def port_of(log: Path) -> int:
    for _ in range(600):
        found = re.search(r"on http://127\.0\.0\.1:(\d+)", log.read_text())
        if found:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", int(found[1]))).close()
                return int(found[1])
        time.sleep(0.02)
    raise SystemExit(f"the server did not start: {log.read_text()}")


# ---------------------------------------------------------------- a light client


class Line:
    """A connection that stays open. A full HTTP client would take more of the two cores than the server does."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._open: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        if self._open is None:
            self._open = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 22)
        reader, writer = self._open
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        start = await reader.readuntil(b"\r\n\r\n")
        status = int(start.split(b" ", 2)[1])
        found = re.search(rb"(?i)content-length: (\d+)", start)
        return status, await reader.readexactly(int(found[1])) if found else b""

    def close(self) -> None:
        if self._open:
            self._open[1].close()


# ---------------------------------------------------------------- load


def publish(folder: Path, seconds: float, number: int, rows: multiprocessing.Queue[tuple[int, int]]) -> None:
    """Publishes a generation every few seconds, and tells which number it shows."""
    ends = time.monotonic() + seconds
    with KnowledgeBase.open(folder) as kb:
        while time.monotonic() < ends:
            began = time.monotonic()
            number += 1
            tick(folder, number)
            while True:
                try:
                    kb.sync()
                    break
                except Exception as error:  # an upload may hold the writer's lock at this moment
                    if "writing" not in str(error):
                        raise
                    time.sleep(0.05)
            rows.put((kb.reader().generation, number))
            time.sleep(max(0.0, EVERY - (time.monotonic() - began)))


async def client(
    port: int,
    ends: float,
    questions: list[str],
    seed: int,
    times: list[float],
    seen: Counter[str],
    ticks: set[tuple[int, int]],
    more: str,
) -> None:
    draw = random.Random(seed)
    line = Line(port)
    await asyncio.sleep(draw.random())
    while time.monotonic() < ends:
        began = time.perf_counter()
        chance = draw.random()
        if chance < UPLOADS:
            status, body = await line.send("POST", f"/v1/documents?name=draft{seed}.md", b"# Draft\n\nsome text")
            seen[f"upload {status}"] += 1
            continue
        query = TICK if chance < 0.3 else draw.choice(questions)
        status, body = await line.send("GET", f"/v1/search?k=5{more}&query={quote(query)}")
        times.append(time.perf_counter() - began)
        seen[f"search {status}"] += 1
        if SECRET.encode() in body:
            seen["LEAKED"] += 1
        if status == 200:
            found = json.loads(body)
            if query == TICK:
                shown = re.search(r"number(\d+)", found["hits"][0]["text"]) if found["hits"] else None
                ticks.add((found["generation"], int(shown[1]) if shown else -1))
            elif len(found["hits"]) != 5:
                seen["SHORT"] += 1
    line.close()


async def all_clients(
    port: int, clients: int, seconds: float, questions: list[str], more: str
) -> tuple[list[float], Counter[str], set[tuple[int, int]]]:
    times: list[float] = []
    seen: Counter[str] = Counter()
    ticks: set[tuple[int, int]] = set()
    ends = time.monotonic() + seconds
    await asyncio.gather(*(client(port, ends, questions, seed, times, seen, ticks, more) for seed in range(clients)))
    return times, seen, ticks


def load(clients: int, seconds: float, cache_mb: int, known: Path | None, confidence: str, workers: int | None) -> None:
    more = f"&confidence={confidence}"
    questions = [query for query, _ in _questions()]
    with knowledge_base(known) as folder:
        with KnowledgeBase.open(folder) as kb:
            own = engine(kb, questions, confidence)
            first = kb.reader().generation
        now = int(re.findall(r"number(\d+)", (folder / "more" / "tick.md").read_text())[0])
        rows: multiprocessing.Queue[tuple[int, int]] = multiprocessing.Queue()
        with server(folder, cache_mb, workers) as port:
            asyncio.run(all_clients(port, 4, 4, questions, more))  # everything is loaded
            writer = multiprocessing.Process(target=publish, args=(folder, seconds, now, rows))
            writer.start()
            times, seen, ticks = asyncio.run(all_clients(port, clients, seconds, questions, more))
            writer.join()
    shown: dict[int, int] = {first: now}
    while not rows.empty():
        generation, number = rows.get()
        shown[generation] = number
    wrong = [(g, n) for g, n in ticks if shown.get(g) != n]
    rate = len(times) / seconds
    print(f"{clients} clients for {seconds:.0f} s, {len(times):,} searches, {rate:.1f} a second, cache {cache_mb} MB")
    print(f"answers: {dict(sorted(seen.items()))}")
    seen_by = len({generation for generation, _ in ticks})
    print(f"generations: {len(shown)}, seen by clients: {seen_by}; wrong or mixed: {len(wrong)} {wrong[:5]}")
    print(f"search over HTTP: p50 {percentile(times, 50):.0f} ms, p95 {percentile(times, 95):.0f} ms")
    print(f"engine alone, one thread: p50 {percentile(own, 50):.1f} ms, p95 {percentile(own, 95):.1f} ms")
    print(f"engine alone could answer {2000 / statistics.mean(own) / 1000:.0f} a second on two cores")


def engine(kb: KnowledgeBase, questions: list[str], confidence: Any, n: int = 200) -> list[float]:
    times = []
    for i in range(n + 10):
        began = time.perf_counter()
        kb.search(questions[i % len(questions)], Access.public(), 5, confidence=confidence)
        times.append(time.perf_counter() - began)
    return times[10:]


def percentile(times: list[float], p: float) -> float:
    return sorted(times)[min(len(times) - 1, int(len(times) * p / 100))] * 1000


def _questions() -> list[tuple[str, str]]:
    rows = [json.loads(line) for line in sample_questions().read_text(encoding="utf-8").splitlines() if line.strip()]
    return [(row["query"], str(row.get("id", ""))) for row in rows]


# ---------------------------------------------------------------- rate, same


def rate(clients: int, seconds: float, known: Path | None, confidence: str, workers: int | None) -> None:
    """Searches only, and says what each process took."""
    questions = [query for query, _ in _questions()]
    times: list[float] = []

    async def ask(port: int, ends: float, seed: int) -> None:
        draw, line = random.Random(seed), Line(port)
        while time.monotonic() < ends:
            began = time.perf_counter()
            query = quote(draw.choice(questions))
            status, _ = await line.send("GET", f"/v1/search?k=5&confidence={confidence}&query={query}")
            assert status == 200, status
            times.append(time.perf_counter() - began)
        line.close()

    async def all_of(port: int, number: int, seconds: float) -> None:
        ends = time.monotonic() + seconds
        await asyncio.gather(*(ask(port, ends, seed) for seed in range(number)))

    with knowledge_base(known) as folder, server_process(folder, 0, workers) as (port, pid):
        warm(lambda: asyncio.run(all_of(port, 4, WARM_SECONDS)), times, pid)
        times.clear()
        before = {process: cpu_seconds(process) for process in tree(pid)}
        own, machine, began = time.process_time(), busy_seconds(), time.monotonic()
        asyncio.run(all_of(port, clients, seconds))
        took, client, machine = time.monotonic() - began, time.process_time() - own, busy_seconds() - machine
        used = {process: cpu_seconds(process) - before.get(process, 0.0) for process in tree(pid)}
        memory = {process: megabytes(process) for process in used}
    n, served = len(times), sum(used.values())
    print(f"{clients} clients for {took:.0f} s, confidence {confidence}: {n / took:.1f} searches a second")
    print(f"search over HTTP: p50 {percentile(times, 50):.0f} ms, p95 {percentile(times, 95):.0f} ms")
    print(f"CPU time of a search: server {served / n * 1000:.1f} ms, client {client / n * 1000:.2f} ms")
    others = machine - served - client
    print(f"cores: server {served / took:.2f}, client {client / took:.2f}, others {others / took:.2f}")
    for process, (rss, pss) in memory.items():
        print(f"  process {process}: {used[process] / took:.2f} cores, RSS {rss} MB, PSS {pss} MB")


def warm(ask: Callable[[], None], times: list[float], pid: int) -> None:
    """Asks in rounds until a search costs the server no less than in the round before. Processes that search begin with
    the first searches, and what they load would be counted as the time of searches."""
    least = math.inf
    for _ in range(MAX_ROUNDS):
        searches, spent = len(times), sum(map(cpu_seconds, tree(pid)))
        ask()
        cost = (sum(map(cpu_seconds, tree(pid))) - spent) / max(1, len(times) - searches)
        if cost > 0.9 * least:
            return
        least = cost
    print("the server still loads something")


def tree(pid: int) -> list[int]:
    """Returns a process and its children (Linux)."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [pid, *(int(child) for task in tasks for child in (task / "children").read_text().split())]


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def busy_seconds() -> float:
    """Returns the time that all processors of the machine have worked."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def megabytes(pid: int) -> tuple[int, int]:
    """Returns the memory of a process, and its share of what it has together with others."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    rss, pss = (int(re.findall(rf"{name}:\s+(\d+)", text)[0]) // 1024 for name in ("Rss", "Pss"))
    return rss, pss


def same(requests: int, known: Path | None) -> None:
    """Asks the same questions of servers with and without processes that search, and compares the bytes."""
    questions = [query for query, _ in _questions()][:requests]

    async def answers(port: int) -> list[bytes]:
        async def ask(query: str, effort: str) -> bytes:
            line = Line(port)
            _, body = await line.send("GET", f"/v1/search?confidence={effort}&query={quote(query)}")
            line.close()
            return re.sub(rb'"ms":[0-9.e-]+', b'"ms":0', body)

        kinds = [(query, "quick") for query in questions] + [(query, "read") for query in questions[:10]]
        rows: list[bytes] = []
        for at in range(0, len(kinds), 4):
            rows += await asyncio.gather(*(ask(*kind) for kind in kinds[at : at + 4]))
        return rows

    found: list[list[bytes]] = []
    with knowledge_base(known) as folder:
        for workers in (0, 2):
            with server_process(folder, 0, workers) as (port, pid):
                asyncio.run(answers(port))
                found.append(asyncio.run(answers(port)))
                print(f"workers = {workers}: {len(found[-1])} answers by {len(tree(pid))} processes")
    different = sum(a != b for a, b in zip(*found, strict=True))
    print(f"different answers: {different}")


# ---------------------------------------------------------------- overhead, start


def overhead(known: Path | None) -> None:
    """The same questions by turns over HTTP and in this process, so that noise hits both."""
    questions = [query for query, _ in _questions()]
    with knowledge_base(known) as folder, server(folder) as port, KnowledgeBase.open(folder) as kb:
        here: list[float] = []
        there: list[float] = []

        async def go() -> None:
            line = Line(port)
            for i in range(320):
                query = questions[i % len(questions)]
                began = time.perf_counter()
                kb.search(query, Access.public(), 10, confidence="quick")
                middle = time.perf_counter()
                await line.send("GET", f"/v1/search?confidence=quick&query={quote(query)}")
                end = time.perf_counter()
                if i >= 20:
                    here.append(middle - began)
                    there.append(end - middle)

        asyncio.run(go())
    extra = sorted(b - a for a, b in zip(here, there, strict=True))
    print(f"Python p50 {percentile(here, 50):.2f} ms; HTTP p50 {percentile(there, 50):.2f} ms")
    print(f"median of the differences: {extra[len(extra) // 2] * 1000:.2f} ms")


def start(known: Path | None) -> None:
    with knowledge_base(known) as folder:
        for _ in range(3):
            began = time.perf_counter()
            with server(folder) as port:
                asyncio.run(Line(port).send("GET", "/v1/search?query=wire%20cutoff"))
                print(f"start to first answer: {time.perf_counter() - began:.2f} s")
        for turn in range(5):
            began = time.perf_counter()
            words = [sys.executable, "-m", "surefind", "search", "wire cutoff", "--kb", str(folder)]
            subprocess.run(words, capture_output=True, check=True)
            print(f"surefind search, turn {turn + 1}: {time.perf_counter() - began:.2f} s")


# ---------------------------------------------------------------- malformed requests


def odd(draw: random.Random, known: list[bytes]) -> bytes:
    """A request that is wrong in some way: a good one with bytes changed, cut, repeated, or odd values."""
    paths = [
        "/v1/search",
        "/v1/ask",
        "/v1/documents",
        "/v1/documents/" + "../" * 5,
        "/v1/passages/x",
        "/v1/jobs",
        "/v1/feedback",
        "/v1/exams/x",
        "/",
        "/docs",
    ]
    values = [
        "",
        "%00",
        "%ff%fe",
        "-1",
        "1e999",
        "null",
        "[]",
        "{}",
        "a" * 3000,
        "%F0%9F%98%80",
        "' OR 1=1",
        "<script>",
        "99999999999999999999",
    ]
    names = [
        "query",
        "k",
        "offset",
        "text",
        "max_chars",
        "where",
        "pipeline",
        "generation",
        "limit",
        "min_confidence",
        "zz",
    ]
    bodies = [
        b"",
        b"{",
        b"[" * 500,
        b'{"query": 1}',
        b'{"query": "x", "k": "y"}',
        b"\xff\xfe\x00",
        b'{"query": "x"' + b" " * 5000,
        b'"text"',
        b"null",
        b'{"kind": "sync", "x": 1}',
    ]
    kinds = ["application/json", "text/plain", "multipart/form-data", "", "application/json; charset=utf-7"]
    method = draw.choice(["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "BREW"])
    query = "&".join(f"{draw.choice(names)}={draw.choice(values)}" for _ in range(draw.randrange(4)))
    body = draw.choice(bodies)
    length = draw.choice([len(body), len(body), len(body), 0])
    lines = [
        f"{method} {draw.choice(paths)}?{query} HTTP/1.1",
        "Host: localhost",
        f"Content-Length: {length}",
        f"Content-Type: {draw.choice(kinds)}",
    ]
    if draw.random() < 0.2:
        lines.append(f"Authorization: Bearer {draw.choice(values)}")
    raw = "\r\n".join(lines).encode() + b"\r\n\r\n" + body[:length]
    if draw.random() < 0.3:
        broken = bytearray(raw)
        for _ in range(draw.randrange(1, 6)):
            broken[draw.randrange(len(broken))] = draw.randrange(256)
        raw = bytes(broken)
    return raw[: draw.randrange(1, len(raw))] if draw.random() < 0.1 else raw


async def malformed_one(port: int, raw: bytes, seen: Counter[str]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    try:
        writer.write(raw)
        writer.write_eof()
        answer = await asyncio.wait_for(reader.read(1 << 20), 20)
    except (OSError, TimeoutError) as error:
        answer = b""
        seen[type(error).__name__] += 1
    finally:
        writer.close()
    status = answer[9:12].decode(errors="replace") if answer.startswith(b"HTTP/1.1 ") else "closed"
    seen[status[:1] + "xx" if status[:1].isdigit() else status] += 1
    if status.startswith("5") or b"Traceback" in answer:
        seen["BAD"] += 1
        print(f"bad answer {answer[:200]!r} to {raw[:300]!r}")


def malformed(requests: int, seed: int, known: Path | None) -> None:
    draw = random.Random(seed)
    seen: Counter[str] = Counter()

    async def go(port: int) -> None:
        for _ in range(0, requests, 20):
            await asyncio.gather(*(malformed_one(port, odd(draw, []), seen) for _ in range(20)))

    with knowledge_base(known) as folder, server(folder) as port:
        asyncio.run(go(port))
        status, _ = asyncio.run(Line(port).send("GET", "/v1/search?query=wire"))
    print(f"{requests:,} malformed requests: {dict(sorted(seen.items()))}; a good request after them: {status}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["load", "rate", "same", "malformed", "overhead", "start"])
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--cache-mb", type=int, default=0)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--confidence", choices=["off", "quick", "read"], default="quick")
    parser.add_argument("--workers", type=int, help="processes that search; the server's default if left out")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kb", type=Path, help="a folder that keeps the knowledge base for the next run")
    given = parser.parse_args()
    if given.what == "load":
        load(given.clients, given.seconds, given.cache_mb, given.kb, given.confidence, given.workers)
    elif given.what == "rate":
        rate(given.clients, given.seconds, given.kb, given.confidence, given.workers)
    elif given.what == "same":
        same(given.requests, given.kb)
    elif given.what == "malformed":
        malformed(given.requests, given.seed, given.kb)
    elif given.what == "overhead":
        overhead(given.kb)
    else:
        start(given.kb)


if __name__ == "__main__":
    main()
