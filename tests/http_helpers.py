"""A real server of a small knowledge base, in a process of its own."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from forking import Forked
from helpers import Home

SETTINGS = """
[index]
chunk = "markdown(tokens=60)"
enrich = []

[search]
pipeline = "words"

[pipelines.words]
retrieve = ["bm25"]

[pipelines.counts]
retrieve = ["tfidf"]
"""


Rights = Mapping[str, tuple[Sequence[str], Sequence[str]]]
"""The scopes and the groups of callers, by their names."""


@dataclass
class Served:
    url: str
    process: Forked | subprocess.Popen[bytes]
    log: Path

    def client(self, key: str = "") -> httpx.Client:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        # Without TLS there is nothing to verify, and reading the certificates takes longer than a request.
        return httpx.Client(base_url=self.url, headers=headers, timeout=20, trust_env=False, verify=False)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])


def a_bank(home: Home) -> Home:
    home.configure(SETTINGS)
    for n in range(30):
        home.write(
            f"docs/wires/{n:02}.md", f"---\ntitle: Wire {n}\n---\n# Wire {n}\n\nThe cutoff of wire{n} is {n} pm.\n"
        )
    home.write(
        "docs/hr/pay.md", "---\nacl: [hr]\nsecretkey: zebra\n---\n# Pay\n\nThe wire cutoff of salaries is zebra.\n"
    )
    home.write("docs/page.html", "<h1>Wire page</h1><script>alert(1)</script><p>A cutoff in HTML</p>")
    home.sync("docs")
    return home


@contextlib.contextmanager
def serving(folder: Path, *words: str, forked: bool = True, **environment: str) -> Iterator[Served]:
    """Serves until the end of the block: in a fork (`forking`), or as the program that a user starts."""
    log = folder / "serve.log"
    log.write_text("")
    words = ("serve", "--kb", str(folder), "--port", "0", *words)
    process: Forked | subprocess.Popen[bytes]
    if forked:
        process = Forked(words, log, {**os.environ, **environment})
    else:
        with log.open("w") as file:
            process = subprocess.Popen([sys.executable, "-m", "surefind", *words], stderr=file, stdout=file)
    try:
        yield Served(_address(process, log), process, log)
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(20)


def _address(process: Forked | subprocess.Popen[bytes], log: Path) -> str:
    for _ in range(600):
        found = re.search(r"on (http://\S+)", log.read_text())
        if found:
            with contextlib.suppress(httpx.TransportError):
                httpx.get(found[1] + "/healthz", trust_env=False, verify=False)
                return found[1]
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise AssertionError(f"the server did not start: {log.read_text()}")
