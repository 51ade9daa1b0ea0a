"""A real Chromium for tests of pages; tests that need one are skipped where there is none."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

WIDTHS = (1280, 390)


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api")
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("there is no Chromium on this machine")
    with sync_api.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=found, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


SPILLS = """() => {
  const bad = [], page = document.documentElement;
  if (page.scrollWidth > innerWidth) bad.push("the page is " + page.scrollWidth);
  for (const e of document.body.querySelectorAll("*")) {
    const style = getComputedStyle(e);
    if (e.closest("svg, select, .sr, .skip") || !e.clientWidth || style.display === "inline") continue;
    if (style.overflowX === "visible" && e.scrollWidth > e.clientWidth + 1)
      bad.push(`${e.tagName}.${e.className}: ${e.scrollWidth} in ${e.clientWidth}`);
  }
  return bad;
}"""
"""Lists the elements whose content is wider than they are, so that it is printed over what stands beside them."""
