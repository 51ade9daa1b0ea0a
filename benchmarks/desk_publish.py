"""Measures how soon a published change is searchable: from the request that publishes a draft to the first search that
finds it, on a server of its own.

    surefind demo /tmp/demo && python benchmarks/desk_publish.py /tmp/demo --times 5
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx

_PORT = 8478


def _published(http: httpx.Client, number: int) -> float:
    word = f"quokka{number}"
    text = f"# {word}\n\nThe rule of {word} is new.\n".encode()
    draft = http.post("/v1/documents", params={"name": "x.md", "document": f"new/{word}.md"}, content=text).json()
    began = time.perf_counter()
    job = http.post(f"/v1/drafts/{draft['number']}/publish").json()["id"]
    while True:
        hits = http.get("/v1/search", params={"query": word, "k": 1}).json()["hits"]
        if hits and hits[0]["document"] == f"new/{word}.md":
            return time.perf_counter() - began
        if http.get(f"/v1/jobs/{job}").json()["state"] == "failed" or time.perf_counter() - began > 120:
            raise SystemExit("The draft was not published.")
        time.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kb", type=Path, help="A knowledge base. It is copied, and the copy is changed.")
    parser.add_argument("--times", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "kb"
        shutil.copytree(given.kb, home)
        (home / ".surefind" / "keys.json").unlink(missing_ok=True)
        words = [sys.executable, "-m", "surefind", "serve", "--kb", str(home), "--port", str(_PORT)]
        server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{_PORT}", timeout=60, trust_env=False) as http:
                for _ in range(600):
                    try:
                        if http.get("/readyz").status_code == 200:
                            break
                    except httpx.TransportError:
                        pass
                    time.sleep(0.1)
                took = [round(_published(http, number), 2) for number in range(given.times)]
            print(json.dumps({"seconds": took, "median": statistics.median(took), "most": max(took)}))
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(40)


if __name__ == "__main__":
    main()
