"""Measures the desk under load: many editors save drafts over HTTP at once, and no draft and no update may be lost.

    python benchmarks/desk_load.py --editors 100 --seconds 60
    python benchmarks/desk_load.py --direct 500

Half of the editors each have a draft of their own; the others edit ten shared drafts, so that they meet. An editor
reads the newest revision, adds a line with a number of its own, and saves. A save that is refused because somebody was
faster is repeated on the newer revision. At the end, every line of every save that the server accepted must be in its
draft. `--direct` measures the desk without a server: saves of one process, and what is read after them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import httpx

from surefind.desk.store import Content, Desk
from surefind.desk.values import Base
from surefind.kb import KnowledgeBase

_SHARED = 10
_SETTINGS = """
[search]
pipeline = "words"
[pipelines.words]
retrieve = ["bm25"]
[serve]
requests_per_minute = 1000000
[desk]
approvals = 0
"""


async def _edit(http: httpx.AsyncClient, editor: int, draft: int, ends: float, saved: list[str], count: Counter[str],
                took: list[float]) -> None:  # fmt: skip
    number = 0
    while time.monotonic() < ends:
        number += 1
        line = f"editor {editor} line {number}"
        while True:
            found = (await http.get(f"/v1/drafts/{draft}")).json()
            began = time.perf_counter()
            answer = await http.put(
                f"/v1/drafts/{draft}",
                content=f"{found['text']}{line}\n".encode(),
                headers={"If-Match": str(found["revision"])},
            )
            count[str(answer.status_code)] += 1
            if answer.status_code == 200:
                took.append(time.perf_counter() - began)
                saved.append(line)
                break
            if answer.status_code not in (409, 503, 504) or time.monotonic() > ends + 30:
                break
        await asyncio.sleep(0.5)


async def _run(url: str, editors: int, seconds: float) -> dict[str, object]:
    limits = httpx.Limits(max_connections=editors)
    async with httpx.AsyncClient(base_url=url, timeout=60, limits=limits, trust_env=False) as http:

        async def made(name: str) -> int:
            answer = await http.post("/v1/documents", params={"name": "x.md", "document": name}, content=b"# Draft\n\n")
            return int(answer.json()["number"])

        shared = [await made(f"shared/{n}.md") for n in range(_SHARED)]
        own = [await made(f"own/{n}.md") for n in range(editors // 2)]
        drafts = [own[n] if n < len(own) else shared[n % _SHARED] for n in range(editors)]
        saved: list[list[str]] = [[] for _ in drafts]
        count: Counter[str] = Counter()
        took: list[float] = []
        ends = time.monotonic() + seconds
        await asyncio.gather(*(_edit(http, n, d, ends, saved[n], count, took) for n, d in enumerate(drafts)))
        texts = {draft: (await http.get(f"/v1/drafts/{draft}")).json() for draft in set(drafts)}
        lost = [
            line
            for draft, lines in zip(drafts, saved, strict=True)
            for line in lines
            if f"{line}\n" not in texts[draft]["text"]
        ]
        listed = {one["number"] for one in (await http.get("/v1/drafts")).json()["drafts"]}
        took.sort()
        return {
            "editors": editors,
            "seconds": seconds,
            "drafts": len(texts),
            "lost drafts": len(set(drafts) - listed),
            "accepted saves": sum(map(len, saved)),
            "lost updates": len(lost),
            "answers": dict(count),
            "median save, ms": round(1000 * took[len(took) // 2]) if took else None,
            "95% of saves below, ms": round(1000 * took[int(len(took) * 0.95)]) if took else None,
        }


def _direct(data: Path, saves: int) -> dict[str, object]:
    desk = Desk(data)
    number = desk.add("a.md", Content("a.md", b"x", "x", "A", (), 1), "ada", Base()).number
    took: dict[str, list[float]] = {"save": [], "get": [], "list of 100": []}

    def timed(name: str, work: Callable[..., object], *given: object) -> None:
        began = time.perf_counter()
        work(*given)
        took[name].append(time.perf_counter() - began)

    for at in range(1, saves + 1):
        text = f"{at} " * 1000
        timed("save", desk.save, number, at, Content("a.md", text.encode(), text, "A", (), 1), "ada")
        timed("get", desk.get, number)
    for at in range(99):
        desk.add(f"{at}.md", Content("a.md", b"x", "x", "A", (), 1), "ada", Base())
    for _ in range(100):
        timed("list of 100", desk.waiting)
    desk.close()
    return {f"median {name}, ms": round(1000 * statistics.median(times), 3) for name, times in took.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--editors", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--direct", type=int, default=0, metavar="SAVES", help="measure the desk without a server")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        if given.direct:
            print(json.dumps(_direct(home, given.direct), indent=2))
            return
        (home / "docs").mkdir()
        (home / "docs" / "a.md").write_text("# A\n\nalpha\n", encoding="utf-8")
        (home / "surefind.toml").write_text(_SETTINGS, encoding="utf-8")
        with KnowledgeBase.open(home) as kb:
            kb.sync(home / "docs")
        words = [sys.executable, "-m", "surefind", "serve", "--kb", folder, "--port", "8479"]
        server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            url = "http://127.0.0.1:8479"
            for _ in range(300):
                try:
                    httpx.get(f"{url}/healthz", trust_env=False)
                    break
                except httpx.TransportError:
                    time.sleep(0.1)
            print(json.dumps(asyncio.run(_run(url, given.editors, given.seconds)), indent=2))
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(40)


if __name__ == "__main__":
    main()
