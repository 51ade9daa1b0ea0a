"""How long results take to appear after a keystroke, in a real browser.

    surefind serve --kb demo --port 8080 &
    python benchmarks/web_typing.py http://127.0.0.1:8080 [CHROMIUM]

Types five questions letter by letter into the search page, and waits for each answer. Prints the time from a keystroke
to the change of the page, the time that the server took, and the size of the page with all of its files.
"""

from __future__ import annotations

import shutil
import sys
import time

from playwright.sync_api import Response, sync_playwright

QUESTIONS = [
    "when is the wire cutoff",
    "who approves a loan above 50000",
    "how do I reset a password",
    "late fee on a credit card",
    "opening hours of branches",
]
WATCH = """() => {
  window.times = []; let last = 0;
  document.getElementById("query").addEventListener("input", () => { last = performance.now(); });
  new MutationObserver(() => { if (last) { window.times.push(performance.now() - last); last = 0; } })
    .observe(document.getElementById("found"), {childList: true});
}"""
PAUSE = 0.25
"""Seconds between two keystrokes."""


def main(url: str, chromium: str) -> None:
    server: list[float] = []
    sizes: dict[str, int] = {}

    def note(answer: Response) -> None:
        if "query=" in answer.url:
            server.append(float(answer.headers.get("server-timing", "=0").rpartition("=")[2]))
        if "HX-Request" not in answer.request.headers and "hx-request" not in answer.request.headers:
            sizes[answer.url] = len(answer.body())

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.on("response", note)
        page.goto(f"{url}/?query=wire")
        page.evaluate(WATCH)
        for question in QUESTIONS:
            page.fill("#query", "")
            time.sleep(PAUSE)
            for letter in question:
                page.keyboard.type(letter)
                time.sleep(PAUSE)
        seen: list[float] = page.evaluate("window.times")
        browser.close()
    for name, times in (("keystroke to results", seen), ("server", server)):
        ordered = sorted(times)
        p50, p95 = (ordered[int(len(ordered) * share)] for share in (0.5, 0.95))
        print(f"{name:22} {len(ordered)} times: p50 {p50:.0f} ms, p95 {p95:.0f} ms, longest {ordered[-1]:.0f} ms")
    print(f"page with its files    {sum(sizes.values()) / 1000:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1].rstrip("/"), sys.argv[2] if len(sys.argv) > 2 else shutil.which("chromium") or "chromium")
