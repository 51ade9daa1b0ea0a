"""Starts many jobs on a real server while eight threads read, preview and save, and measures the slowest `/healthz`.

    python benchmarks/faults/freeze.py --jobs 1000

The server must answer `/healthz` within a second all the time, and end within ten seconds after SIGTERM. Three drafts
are in review. Most jobs are cancelled once they run; every tenth runs to its end. Another process asks `/healthz`, so
that the load of this one does not count. The exit code is 1 if the server froze.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx

from surefind.base.running import usable_cores

BAR_SECONDS = 1.0
"""No answer of `/healthz` may take longer."""
STOP_SECONDS = 10.0
"""Seconds in which a stopped server must end."""
_FROZEN_SECONDS = 30.0
_BETWEEN_SECONDS = 0.02
_TO_ITS_END = 10
_SETTINGS = """
[index]
chunk = "markdown(tokens=60)"
enrich = []
[search]
pipeline = "words"
[pipelines.words]
retrieve = ["bm25"]
[serve]
workers = 2
[drafts]
approvals = 0
"""


def probe(address: str) -> None:
    """Asks `/healthz` until standard input ends. Prints the number of answers, and the seconds of the slowest ones."""
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    host, _, port = address.removeprefix("http://").rpartition(":")
    took: list[float] = []
    while not ended.is_set():
        began = time.perf_counter()
        with contextlib.suppress(OSError):
            line = http.client.HTTPConnection(host, int(port), timeout=_FROZEN_SECONDS)
            line.request("GET", "/healthz")
            line.getresponse().read()
            line.close()
        took.append(time.perf_counter() - began)
        ended.wait(_BETWEEN_SECONDS)
    took.sort(reverse=True)
    print(json.dumps({"asked": len(took), "slowest": took[0], "late": took[len(took) // 1000]}))


@contextlib.contextmanager
def _served(folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    log = folder / "serve.log"
    words = [sys.executable, "-m", "surefind"]
    (folder / "surefind.toml").write_text(_SETTINGS, encoding="utf-8")
    (folder / "docs").mkdir()
    for number in range(30):
        page = f"# Wire {number}\n\nThe cutoff of wire{number} is {number} pm.\n"
        (folder / "docs" / f"{number:02}.md").write_text(page, encoding="utf-8")
    subprocess.run([*words, "sync", "docs"], cwd=folder, check=True, capture_output=True)
    with log.open("wb") as out:
        process = subprocess.Popen([*words, "serve", "--port", "0"], cwd=folder, stdout=out, stderr=out)
    try:
        while " on http://" not in log.read_text():
            time.sleep(0.05)
        yield log.read_text().partition(" on ")[2].split()[0], process
    finally:
        process.kill()
        process.wait()


class Load:
    """Three drafts in review, and the threads that read, preview and save them."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.ended = threading.Event()
        self.answers: Counter[str] = Counter()
        with self.client() as http:
            self.drafts = [self._draft(http, number) for number in range(3)]

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=_FROZEN_SECONDS, trust_env=False)

    def threads(self) -> list[threading.Thread]:
        works = [*[self._preview] * 3, *[self._read] * 3, *[self._save] * 2]
        return [
            threading.Thread(target=self._repeat, args=(work, number), daemon=True) for number, work in enumerate(works)
        ]

    def _draft(self, http: httpx.Client, number: int) -> int:
        about = {"name": "x.md", "document": f"docs/{number:02}.md"}
        made = http.post("/v1/documents", params=about, content=f"# Wire\n\nDraft {number}.\n".encode()).json()
        http.post(f"/v1/drafts/{made['number']}/submit", json={"revision": 1}).raise_for_status()
        return int(made["number"])

    def _repeat(self, work: Callable[[httpx.Client, int], httpx.Response], number: int) -> None:
        with self.client() as http:
            while not self.ended.is_set():
                try:
                    answer = work(http, self.drafts[number % 3])
                    self.answers[f"{work.__name__.strip('_')} {answer.status_code}"] += 1
                except httpx.HTTPError as error:
                    self.answers[f"{work.__name__.strip('_')} {type(error).__name__}"] += 1
                    self.ended.wait(0.1)

    def _preview(self, http: httpx.Client, draft: int) -> httpx.Response:
        return http.get(f"/v1/drafts/{draft}/preview")

    def _read(self, http: httpx.Client, draft: int) -> httpx.Response:
        http.get("/v1/search", params={"query": f"wire cutoff {time.monotonic()}"})
        return http.get(f"/v1/drafts/{draft}")

    def _save(self, http: httpx.Client, draft: int) -> httpx.Response:
        there = http.get(f"/v1/drafts/{draft}").json()
        text = f"# Wire\n\nSaved at {time.time()}.\n".encode()
        return http.put(f"/v1/drafts/{draft}", content=text, headers={"If-Match": str(there.get("revision", 1))})


def start_jobs(load: Load, jobs: int, frozen: threading.Event) -> int:
    """Starts jobs one after the other. Returns how many started; fewer than asked if the server froze."""
    started: set[str] = set()
    with load.client() as http:
        while len(started) < jobs:
            try:
                answer = http.post("/v1/jobs", json={"kind": "sync"})
                job = answer.json().get("id") if answer.status_code == 202 else None
                if job is None:  # too many are running
                    time.sleep(0.05)
                elif job not in started:
                    started.add(job)
                    if len(started) % _TO_ITS_END:
                        http.delete(f"/v1/jobs/{job}")
                    if len(started) % 100 == 0:
                        print(f"  {len(started)} jobs", file=sys.stderr)
                else:
                    time.sleep(0.02)
            except httpx.TimeoutException:
                frozen.set()
                break
    return len(started)


def run(jobs: int) -> dict[str, object]:
    """Returns the figures of one run."""
    frozen = threading.Event()
    with tempfile.TemporaryDirectory() as folder, _served(Path(folder)) as (url, process):
        load = Load(url)
        prober = subprocess.Popen(
            [sys.executable, __file__, "--probe", url], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        threads = load.threads()
        for thread in threads:
            thread.start()
        began = time.monotonic()
        started = start_jobs(load, jobs, frozen)
        seconds = time.monotonic() - began
        health = json.loads(prober.communicate()[0])
        process.send_signal(signal.SIGTERM)  # while all threads still ask
        stopping = time.monotonic()
        try:
            process.wait(_FROZEN_SECONDS)
            stopped = time.monotonic() - stopping
        except subprocess.TimeoutExpired:
            stopped = float("inf")
        load.ended.set()
        for thread in threads:
            thread.join(2 * _FROZEN_SECONDS)
    return {
        "cores": usable_cores(), "jobs": started, "seconds": round(seconds), "frozen": frozen.is_set(),
        "healthz asked": health["asked"], "slowest, s": round(health["slowest"], 3),
        "99.9% below, s": round(health["late"], 3), "stopped after, s": round(stopped, 2),
        "answers": dict(sorted(load.answers.items())),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--bar", type=float, default=BAR_SECONDS, help="The slowest answer of /healthz, in seconds.")
    parser.add_argument("--probe", default="", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.probe:
        probe(chosen.probe)
        return
    figures = run(chosen.jobs)
    print(json.dumps(figures, indent=2))
    fine = figures["jobs"] == chosen.jobs and figures["slowest, s"] <= chosen.bar  # type: ignore[operator]
    sys.exit(0 if fine and figures["stopped after, s"] <= STOP_SECONDS else 1)  # type: ignore[operator]


if __name__ == "__main__":
    main()
