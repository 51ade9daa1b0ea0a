"""Serves a knowledge base on a small disk of its own, which is then full, or read-only, and prints what is answered.

Run by tests/test_full_disk.py in a mount namespace: the disk ends with the process. A disk becomes read-only as it does
when the kernel finds an error on it: also files that are open can no longer be written.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx

from exam_helpers import surefind
from helpers import Home
from http_helpers import a_bank
from surefind.doors.auth.keys import Keys
from surefind.doors.server import create_app
from test_http_turns import PATIENCE, serving

NO_MOUNT = 77
LONG = "The cutoff is noon. " * 20_000


def main(root: Path, kind: str) -> None:
    image = root.with_suffix(".image")
    with image.open("wb") as file:
        file.truncate(60 << 20)
    disk = ["mount", "-o", "loop,errors=remount-ro", str(image), str(root)]
    for command in (["mkfs.ext4", "-q", str(image)], disk):
        if subprocess.run(command, capture_output=True).returncode:
            sys.exit(NO_MOUNT)
    home = Home(root / "kb")
    a_bank(home)
    home.write("asked.csv", "question,document\nwhen is the cutoff of wire1?,wires/01.md\n")
    home.sync("docs")
    assert surefind("exam", "import", home.folder / "asked.csv", "--name", "staff", kb=home.folder).code == 0
    with home.open() as kb:
        key = Keys(kb.data).create("boss", ["admin"], ["*"])[1]
        kb.drafts.add_bytes("1.md", b"# Wire 1\n", "wires/01.md", "boss")
        app: Any = create_app(kb)
        headers = {"Authorization": f"Bearer {key}"}
        with serving(app) as url, httpx.Client(base_url=url, headers=headers, timeout=PATIENCE) as client:
            hit = client.get("/v1/search?query=cutoff&k=1").json()["hits"][0]["id"]
            spoil(root, kind)
            during, bench = asked(client, hit), job(client)
            if kind == "full":
                (root / "filling").unlink()
            after = asked(client, hit)
    doctor = surefind("doctor", kb=home.folder)
    print(json.dumps({"during": during, "bench": bench, "after": after, "doctor": doctor.code}))


def spoil(root: Path, kind: str) -> None:
    if kind == "read-only":
        device = subprocess.run(["findmnt", "-no", "SOURCE", root], capture_output=True, text=True, check=True).stdout
        Path("/sys/fs/ext4", Path(device.strip()).name, "trigger_fs_error").write_text("test")
        return
    file = os.open(root / "filling", os.O_CREAT | os.O_WRONLY)
    try:
        while True:
            os.write(file, b"x" * 4096)
    except OSError:
        os.close(file)


def asked(client: httpx.Client, hit: str) -> list[tuple[str, int, str]]:
    """Searches, and writes wherever the server writes."""
    question = {"query": "what cutoff?", "id": hit}
    calls: list[tuple[str, str, dict[str, Any]]] = [
        ("GET", "/v1/search?query=cutoff of wire7", {}),
        ("GET", "/v1/drafts/1", {}),
        ("POST", "/v1/documents?name=2.md&document=wires/02.md", {"content": LONG}),
        ("PUT", "/v1/drafts/1", {"content": LONG, "headers": {"If-Match": "1"}}),
        ("POST", "/v1/drafts/1/comments", {"json": {"revision": 1, "text": "hello " * 1_500}}),
        ("POST", "/v1/feedback", {"json": {**question, "kind": "up"}}),
        ("POST", "/v1/exams/staff/questions", {"json": question}),
        ("POST", "/settings/keys", {"data": {"name": "new", "scope": "read"}}),
        ("POST", "/label", {"data": {"name": "fresh", "questions": "when is the cutoff of wire2?"}}),
    ]
    answers = []
    for method, path, more in calls:
        answer = client.request(method, path, **more)
        kind = answer.headers.get("content-type", "")
        answers.append((path, answer.status_code, answer.json().get("detail", "") if "json" in kind else ""))
    return answers


def job(client: httpx.Client) -> str:
    path = "/v1/jobs/" + client.post("/v1/jobs", json={"kind": "bench", "exam": "staff"}).json()["id"]
    end = time.monotonic() + PATIENCE
    while not (seen := client.get(path).json())["ended"]:
        assert time.monotonic() < end
        time.sleep(0.1)
    return str(seen["error"])


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
