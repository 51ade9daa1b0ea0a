"""Measures whether one caller with `write` can keep the others waiting: by uploads, differences or previews.

    python benchmarks/heavy_requests.py --seconds 20 --clients 6

It makes the sample's knowledge base in a temporary folder and starts a server on the loopback. For each attack, the
clients of one key send the same slow request again and again. Meanwhile, callers with keys of their own search (each
query is new), sign in, and ask with keys that are revoked under them. Afterwards the clients close their connections,
and the script waits until the server and its child processes are idle.

uploads      a workbook of 26 kB with 6,000 rows of 16,384 cells, which takes most of a minute to read
differences  drafts of 2 MB of a document of 2 MB: lines of 200 words of eight kinds, and lines of one letter
previews     the chunks and the exam questions of drafts of 1.8 MB
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import httpx

from surefind.access import Access
from surefind.exam.formats.table import read_table
from surefind.exam.library import Library
from surefind.exam.store import ExamStore
from surefind.kb import KnowledgeBase
from surefind.kb.sample import sample_folder, sample_questions
from surefind.serve.auth.keys import Keys

SLOW = 1.0
"""Seconds from which on a request counts as slow."""
ROWS = 6_000
"""Rows of the workbook."""
IDLE = 0.1
"""Share of a core below which the server counts as idle."""
_PARTS = {
    "[Content_Types].xml": '<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/'
    'content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.'
    'sheet.main+xml"/><Override PartName="/xl/worksheets/sheet1.xml" ContentType="application/vnd.openxmlformats-'
    'officedocument.spreadsheetml.worksheet+xml"/></Types>',
    "_rels/.rels": '<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/'
    'relationships"><Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/'
    'officeDocument" Target="xl/workbook.xml"/></Relationships>',
    "xl/workbook.xml": '<?xml version="1.0"?><workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/'
    'main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets><sheet name="S" '
    'sheetId="1" r:id="r1"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": '<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/'
    'package/2006/relationships"><Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/'
    'relationships/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
}

Slow = Callable[[httpx.AsyncClient], Awaitable[httpx.Response]]


def workbook(rows: int) -> bytes:
    """Returns a small workbook whose rows each have a cell in the last column that a sheet can have."""
    chance = random.Random(1)  # without them, it would be refused as a zip bomb
    cells = "".join(f'<row><c r="XFD1"><v>{chance.randrange(10**6)}</v></c></row>' for _ in range(rows))
    sheet = f'<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>{cells}'
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, text in {**_PARTS, "xl/worksheets/sheet1.xml": f"{sheet}</sheetData></worksheet>"}.items():
            archive.writestr(name, text)
    return target.getvalue()


def long_text(seed: int) -> str:
    """Returns 2 MB: lines of 200 words that repeat, then lines of one letter. Two of them have no line in common but
    many words and letters, so that every way to match them is tried."""
    chance = random.Random(seed)
    lines = [" ".join(chance.choices("abcdefgh", k=200)) for _ in range(2500)]
    return "\n".join([*lines, *chance.choices("xyz", k=500_000)])


def plain_text(seed: int, words: int) -> str:
    chance = random.Random(seed)
    return "# Notes\n\n" + "\n\n".join(
        " ".join("".join(chance.choices("abcdefghijklmnop", k=5)) for _ in range(100)) + "."
        for _ in range(words // 100)
    )


@contextlib.contextmanager
def knowledge_base() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "more").mkdir()
        (folder / "more" / "long.txt").write_text(long_text(0))
        settings = '[search]\npipeline = "words"\n[pipelines.words]\nretrieve = ["bm25"]\n'
        (folder / "surefind.toml").write_text(settings + "[serve]\ncache_mb = 0\n")
        with KnowledgeBase.open(folder) as kb:
            kb.sync(sample_folder())
            asked = read_table(sample_questions(), Library(kb.documents(Access.owner())))
            ExamStore(kb.data / "exams").save(asked)
            kb.drafts.publish(kb.drafts.add_bytes("long.txt", long_text(0).encode(), "long.txt").number)
        yield folder


@contextlib.contextmanager
def server(folder: Path) -> Iterator[tuple[str, int]]:
    """Yields the URL and the process id."""
    log = folder / "serve.log"
    with log.open("w") as file:
        words = [sys.executable, "-m", "surefind", "serve", "--kb", str(folder), "--port", "0"]
        process = subprocess.Popen(words, stderr=file, stdout=file)
    try:
        while not (found := re.search(r"on (http://\S+)", log.read_text())):
            time.sleep(0.1)
        yield found[1], process.pid
    finally:
        process.terminate()
        process.wait(60)


class Attack:
    """The other callers, while `clients` tasks send slow requests."""

    def __init__(self, url: str, keys: Keys, folder: Path, pid: int) -> None:
        self.url, self.keys, self.folder, self.pid = url, keys, folder, pid
        self.took: dict[str, list[float]] = {"search": [], "sign-in": [], "revocation": [], "its request": []}
        self.answers: Counter[str] = Counter()
        self.ends = 0.0
        questions = [re.sub(r"\W+", " ", line)[:80] for line in sample_questions().read_text().splitlines()]
        self._questions = iter(f"{question} {n}" for n in range(1000) for question in questions)

    def client(self, name: str, *scopes: str) -> tuple[httpx.AsyncClient, str]:
        key = self.keys.create(f"{name}{time.monotonic_ns()}", scopes)[1]
        limits = httpx.Limits(max_connections=100)
        headers = {"Authorization": f"Bearer {key}"}
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=120, limits=limits, trust_env=False), key

    async def search(self) -> None:
        http, _ = self.client("reader", "read")
        async with http:
            while time.monotonic() < self.ends:
                began = time.perf_counter()
                found = await http.get("/v1/search", params={"query": next(self._questions), "k": 5})
                self.took["search"].append(time.perf_counter() - began)
                if found.status_code != 200:
                    self.answers[f"search: {found.status_code}"] += 1
                await asyncio.sleep(0.05)

    async def sign_in(self) -> None:
        http, key = self.client("visitor", "read")
        async with http:
            while time.monotonic() < self.ends:
                began = time.perf_counter()
                found = await http.post("/sign-in", data={"key": key})
                self.took["sign-in"].append(time.perf_counter() - began)
                assert found.status_code == 303, found.text
                await asyncio.sleep(0.3)

    async def revoke(self, slow: Slow) -> None:
        """Revokes keys that have sent the slow request. Measures until the server refuses the key, and until that
        request has ended too."""
        admin, _ = self.client("admin", "admin")
        async with admin:
            while time.monotonic() + 3 < self.ends:
                http, key = self.client("leaver", "read", "write", "review")
                async with http:
                    task = asyncio.create_task(self._sent(slow, http))
                    await asyncio.sleep(2)
                    began = time.perf_counter()
                    await admin.post("/settings/keys/revoke", data={"id": key.split("_")[1]})
                    while (await http.get("/v1/jobs")).status_code not in (401, 429):  # 429: too many wrong keys
                        await asyncio.sleep(0.01)
                    self.took["revocation"].append(time.perf_counter() - began)
                    self.answers[f"revoked: {await task}"] += 1
                    self.took["its request"].append(time.perf_counter() - began)

    async def attack(self, slow: Slow, http: httpx.AsyncClient) -> None:
        while time.monotonic() < self.ends:
            answer = await self._sent(slow, http)
            self.answers[answer] += 1
            await asyncio.sleep(0.5 if answer == "429" else 0)

    async def _sent(self, slow: Slow, http: httpx.AsyncClient) -> str:
        try:
            return str((await slow(http)).status_code)
        except httpx.TransportError as error:
            return type(error).__name__

    async def run(self, seconds: float, clients: int, slow: Slow) -> float:
        """Returns the seconds that the server worked on after the clients had gone."""
        self.ends = time.monotonic() + seconds
        http, _ = self.client("attacker", "read", "write", "review")
        tasks = [asyncio.create_task(self.attack(slow, http)) for _ in range(clients)]
        others = [self.search(), self.search(), self.sign_in(), self.revoke(slow)]
        await asyncio.gather(*others)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await http.aclose()
        return await asyncio.to_thread(self.busy)

    def busy(self) -> float:
        began = time.monotonic()
        while time.monotonic() - began < 120:
            before = _processor_time(self.pid)
            time.sleep(0.5)
            if _processor_time(self.pid) - before < 0.5 * IDLE:
                break
        return max(0.0, time.monotonic() - began - 0.5)


def _processor_time(pid: int) -> float:
    """Returns the seconds of processor time of a process and its live children."""
    used = 0.0
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        used = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        for child in " ".join(f.read_text() for f in Path(f"/proc/{pid}/task").glob("*/children")).split():
            used += _processor_time(int(child))
    return used


async def measure(url: str, folder: Path, pid: int, seconds: float, clients: int, only: str) -> None:
    keys, turn = Keys(folder / ".surefind"), 0
    setup = Attack(url, keys, folder, pid)
    writer, _ = setup.client("writer", "read", "write", "review")
    async with writer:

        async def uploaded(name: str, document: str, text: str) -> int:
            found = await writer.post("/v1/documents", params={"name": name, "document": document}, content=text)
            return int(found.json()["number"])

        compared = [await uploaded("long.txt", "long.txt", long_text(n)) for n in (1, 2)]
        previewed = [await uploaded("a.md", f"new{n}.md", plain_text(n, 300_000)) for n in range(6)]
    book = workbook(ROWS)

    async def nothing(http: httpx.AsyncClient) -> httpx.Response:
        await asyncio.sleep(1)
        return await http.get("/healthz")

    async def upload(http: httpx.AsyncClient) -> httpx.Response:
        return await http.post("/v1/documents", params={"name": "book.xlsx"}, content=book)

    async def compare(http: httpx.AsyncClient) -> httpx.Response:
        nonlocal turn
        turn += 1
        api = turn % 2
        return await http.get(f"{'/v1' if api else ''}/drafts/{compared[turn // 2 % len(compared)]}")

    async def preview(http: httpx.AsyncClient) -> httpx.Response:
        nonlocal turn
        turn += 1
        return await http.get(f"/v1/drafts/{previewed[turn % len(previewed)]}/preview")

    for name, slow in {"none": nothing, "uploads": upload, "differences": compare, "previews": preview}.items():
        if only not in ("", name):
            continue
        attack = Attack(url, keys, folder, pid)
        busy = await attack.run(seconds, clients, slow)
        print(f"{name}: {dict(attack.answers)}; idle {busy:.1f} s after the clients went away")
        for what, took in attack.took.items():
            if took:
                late = sum(one > SLOW for one in took)
                middle = statistics.median(took)
                print(f"  {what:11} {len(took):5} p50 {middle:.3f} s, max {max(took):.3f} s, above {SLOW:g} s: {late}")
        sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--only", default="", help="none, uploads, differences or previews; all by default")
    given = parser.parse_args()
    print(f"a workbook of {len(workbook(ROWS)) / 1000:.0f} kB, texts of {len(long_text(1)) / 1e6:.1f} MB")
    with knowledge_base() as folder, server(folder) as (url, pid):
        asyncio.run(measure(url, folder, pid, given.seconds, given.clients, given.only))


if __name__ == "__main__":
    main()
