"""Measures the language-model service without the model: overhead per call, throughput, and a job that is killed.

    python benchmarks/llm_service.py

The model is a local server in its own process that answers after a fixed time. `bare` is an httpx client that posts the
same body and reads the same JSON, without cache, budget and retries. Both are timed in alternation and compared turn by
turn, so that other work on the machine affects both.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from surefind.llm.chat import complete_many
from surefind.llm.settings import LLMSettings
from surefind.net.deadline import bounded_client
from surefind.prompts.values import Message
from surefind.protocols import Services
from surefind.services import LocalServices

TEXT = "The cutoff for outgoing wires is 4:30 p.m. Eastern. " * 40
ANSWER = {
    "choices": [{"message": {"role": "assistant", "content": "4:30 p.m. Eastern"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 500, "completion_tokens": 8},
}


def serve(port: Any, seen: Any, delay: float) -> None:
    """Runs a model server that reads a request, waits, answers, and counts each prompt."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = json.dumps(ANSWER).encode()
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n".encode()
        try:
            while True:
                headers = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(headers.split(b"content-length:")[1].split(b"\r\n")[0])
                body = json.loads(await reader.readexactly(length))
                await asyncio.sleep(delay)
                seen.put(body["messages"][-1]["content"][-12:])
                writer.write(head + data)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def run() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=256)
        port.value = server.sockets[0].getsockname()[1]
        await server.serve_forever()

    asyncio.run(run())


class Model:
    def __init__(self, delay: float) -> None:
        self.port, self.seen = multiprocessing.Value("i", 0), multiprocessing.Manager().Queue()
        self.process = multiprocessing.Process(target=serve, args=(self.port, self.seen, delay), daemon=True)
        self.process.start()
        while not self.port.value:
            time.sleep(0.01)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port.value}/v1"

    def counts(self) -> Counter[str]:
        found: Counter[str] = Counter()
        while not self.seen.empty():
            found[self.seen.get()] += 1
        return found


def prompt(turn: str, i: int) -> list[Message]:
    return [Message("system", "Answer from the text."), Message("user", f"{TEXT}{turn:>4}{i:>8}")]


def bare(client: httpx.Client, url: str, messages: list[Message]) -> str:
    body = {
        "model": "toy",
        "messages": [{"role": m.role, "content": m.content} for m in messages],
        "max_tokens": 512,
        "temperature": 0.0,
    }
    answer = client.post(f"{url}/chat/completions", json=body).json()
    return str(answer["choices"][0]["message"]["content"])


def services(url: str, folder: Path, concurrency: int = 8) -> Services:
    return LocalServices(folder, llm=LLMSettings(model=f"{url}#toy", concurrency=concurrency, budget=1e6))


def overhead(calls: int, turns: int) -> None:
    """Times one call at a time to a server that answers at once; our client also writes every answer into the cache.
    Processor time is measured as well, because other work on the machine does not affect it."""
    model = Model(0.0)
    added, worked, alone = [], [], []
    with tempfile.TemporaryDirectory() as folder, httpx.Client(trust_env=False) as client:
        given = services(model.url, Path(folder))
        chat = given.chat()
        for turn in range(turns + 1):
            theirs = timed(lambda i, turn=turn: bare(client, model.url, prompt(f"b{turn}", i)), calls)
            ours = timed(lambda i, turn=turn: chat.complete(prompt(f"o{turn}", i)), calls)
            if turn:  # the first turn opens connections and files
                alone.append(theirs[0])
                added.append(ours[0] - theirs[0])
                worked.append(ours[1] - theirs[1])
        cached = timed(lambda i: chat.complete(prompt(f"o{turns}", i)), calls)
        given.close()
    model.process.kill()
    print(f"overhead per call: {statistics.median(worked):.2f} ms of processor time, turns {min(worked):.2f} to "
          f"{max(worked):.2f}; {statistics.median(added):.2f} ms by the clock, {min(added):.2f} to {max(added):.2f} "
          f"(bare client {statistics.median(alone):.2f} ms; an answer from the cache {cached[1]:.2f} ms)")  # fmt: skip


def timed(work: Callable[[int], object], calls: int) -> tuple[float, float]:
    """Milliseconds per call, by the clock and of processor time."""
    clock, processor = time.perf_counter(), time.process_time()
    for i in range(calls):
        work(i)
    return (time.perf_counter() - clock) / calls * 1000, (time.process_time() - processor) / calls * 1000


def throughput(calls: int, turns: int, concurrency: int, delay: float) -> None:
    model = Model(delay)
    ratios, rates = [], []
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=concurrency)
    with (
        tempfile.TemporaryDirectory() as folder,
        httpx.Client(trust_env=False, limits=limits, timeout=60) as client,
        ThreadPoolExecutor(concurrency) as pool,
    ):
        given = services(model.url, Path(folder), concurrency)
        for turn in range(turns + 1):
            started = time.perf_counter()
            list(pool.map(lambda i, turn=turn: bare(client, model.url, prompt(f"b{turn}", i)), range(calls)))
            middle = time.perf_counter()
            done = complete_many(given.chat(), [prompt(f"o{turn}", i) for i in range(calls)])
            ended = time.perf_counter()
            assert all(getattr(answer, "text", "") for answer in done)
            if turn:
                ratios.append((middle - started) / (ended - middle))
                rates.append((calls / (middle - started), calls / (ended - middle)))
        given.close()
    model.process.kill()
    mine = statistics.median(rate[1] for rate in rates)
    theirs = statistics.median(rate[0] for rate in rates)
    print(f"{concurrency} at a time, {delay * 1000:.0f} ms each: {statistics.median(ratios):.1%} of the bare client's "
          f"throughput, turns {min(ratios):.1%} to {max(ratios):.1%} "
          f"({mine:.0f} against {theirs:.0f} calls/s)")  # fmt: skip


def job(url: str, folder: Path, calls: int) -> None:
    given = services(url, folder)
    done = complete_many(given.chat(), [prompt("job", i) for i in range(calls)])
    assert all(getattr(answer, "text", "") for answer in done)
    given.close()


def killed(calls: int, how: signal.Signals) -> None:
    """Stops a job in a process of its own half-way, starts it again, and counts the prompts paid for twice."""
    model = Model(0.05)
    with tempfile.TemporaryDirectory() as folder:
        call = [sys.executable, __file__, "--job", model.url, folder, str(calls)]
        first = subprocess.Popen(call, stderr=subprocess.DEVNULL, env=os.environ)
        while model.seen.qsize() < calls // 2:
            time.sleep(0.01)
        first.send_signal(how)
        first.wait()
        before = model.seen.qsize()
        subprocess.run(call, check=True)
        counts = model.counts()
    model.process.kill()
    twice = sum(count - 1 for count in counts.values())
    print(
        f"{calls:,} calls, {how.name} after {before}: {len(counts):,} prompts answered, {twice} of them paid for twice"
    )


class Asynchronous:
    """An asynchronous client of httpx in a thread of its own, where a call could be cancelled at any moment."""

    def __init__(self, limits: httpx.Limits) -> None:
        self._loop = asyncio.new_event_loop()
        self._client = httpx.AsyncClient(trust_env=False, limits=limits, timeout=60)
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def post(self, url: str, **rest: Any) -> httpx.Response:
        return asyncio.run_coroutine_threadsafe(self._client.post(url, **rest), self._loop).result()


def asked(client: Any, url: str, i: int) -> str:
    return bare(client, url, prompt("x", i))


def deadlines(calls: int, turns: int) -> None:
    """Compares clients that can keep to a deadline with one that cannot: one call at a time, and 64 calls at a time."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
    clients: dict[str, Any] = {
        "plain": httpx.Client(trust_env=False, limits=limits, timeout=60),
        "ours": bounded_client(64, from_environment=False),
        "asynchronous": Asynchronous(limits),
    }
    for threads, delay in ((1, 0.0), (64, 0.2)):
        model, rates = Model(delay), {name: list[float]() for name in clients}
        with ThreadPoolExecutor(threads) as pool:
            for _ in range(turns + 1):
                for name, client in clients.items():
                    started = time.perf_counter()
                    list(pool.map(partial(asked, client, model.url), range(calls)))
                    rates[name].append(calls / (time.perf_counter() - started))
        model.process.kill()
        shown = ", ".join(f"{name} {statistics.median(found[1:]):.0f}" for name, found in rates.items())
        print(f"{threads} at a time, {delay * 1000:.0f} ms each, calls/s by client: {shown}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", nargs=3, metavar=("URL", "FOLDER", "CALLS"), help=argparse.SUPPRESS)
    parser.add_argument("--calls", type=int, default=400)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--deadlines", action="store_true", help="only compare clients that can keep to a deadline")
    given = parser.parse_args()
    if given.job:
        url, folder, calls = given.job
        job(url, Path(folder), int(calls))
        return
    if given.deadlines:
        deadlines(given.calls, given.turns)
        return
    overhead(given.calls, given.turns)
    for delay in (0.2, 0.5):
        throughput(given.calls * 2, given.turns, 64, delay)
    for how in (signal.SIGINT, signal.SIGKILL):
        killed(1000, how)


if __name__ == "__main__":
    main()
