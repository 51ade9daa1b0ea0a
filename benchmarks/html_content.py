"""Measures how much of a page's text the HTML reader keeps, and how much of the navigation around it.

    pip install mkdocs mkdocs-material trafilatura
    python benchmarks/html_content.py FOLDER-OF-MARKDOWN

Builds a web site from the Markdown files in three themes (mkdocs, readthedocs, material), so that the true content of a
page is known: the words of its Markdown. Then each contender extracts the text of every page. Recall is the share of
the true words that were kept; precision is the share of kept words that are true ones.
"""

from __future__ import annotations

import re
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import trafilatura
import yaml
from bs4 import BeautifulSoup
from markdown import markdown
from mkdocs.commands.build import build
from mkdocs.config import load_config

from _shared import machine
from surefind.ingest._front_matter import split_front_matter
from surefind.ingest._html import page_to_markdown, parse, to_markdown

THEMES = ("mkdocs", "readthedocs", "material")
EXTENSIONS = ["tables", "fenced_code", "toc"]
_WORD = re.compile(r"\w+")
_ADDRESS = re.compile(r"\]\([^)]*\)")


def words(text: str) -> Counter[str]:
    """Counts the words of a text without the URLs of links, which are not visible on the page."""
    return Counter(_WORD.findall(_ADDRESS.sub("]", text).lower()))


def everything(html: str) -> str:
    soup = parse(html)
    for element in soup(["script", "style"]):
        element.decompose()
    return to_markdown(soup.body)


CONTENDERS: dict[str, Callable[[str], str]] = {
    "surefind": page_to_markdown,
    "trafilatura": lambda html: trafilatura.extract(html, output_format="markdown", include_tables=True) or "",
    "everything": everything,
}


def copy(source: Path, docs: Path) -> dict[str, Counter[str]]:
    """Copies the Markdown files without front matter, and returns the words of each."""
    truth = {}
    for number, path in enumerate(sorted(source.rglob("*.md"))):
        try:
            _, text = split_front_matter(path.read_text(encoding="utf-8"))
        except (UnicodeDecodeError, ValueError):
            continue
        if len(text) > 500 and "<%" not in text:
            name = f"page{number:03}"
            (docs / f"{name}.md").write_text(text, encoding="utf-8")
            truth[name] = words(BeautifulSoup(markdown(text, extensions=EXTENSIONS), "html.parser").get_text(" "))
    return truth


def pages(docs: Path, site: Path, theme: str) -> dict[str, str]:
    settings = {
        "site_name": "Handbook", "docs_dir": str(docs), "site_dir": str(site), "theme": {"name": theme},
        "use_directory_urls": False, "repo_url": "https://example.org/handbook", "copyright": "Copyright Example",
        "markdown_extensions": ["tables", "fenced_code"],
    }  # fmt: skip
    file = docs.parent / f"{theme}.yml"
    file.write_text(yaml.safe_dump(settings), encoding="utf-8")
    config = load_config(str(file))
    build(config)
    return {path.stem: path.read_text(encoding="utf-8") for path in site.glob("page*.html")}


def main() -> None:
    print(machine("surefind", "trafilatura", "mkdocs", "mkdocs-material"))
    with tempfile.TemporaryDirectory() as name:
        docs = Path(name) / "docs"
        docs.mkdir()
        truth = copy(Path(sys.argv[1]), docs)
        print(f"{len(truth)} pages")
        print(f"{'theme':<12} {'contender':<12} recall  precision  worst recall  pages/s")
        for theme in THEMES:
            site = Path(name) / theme
            built = pages(docs, site, theme)
            for contender, extract in CONTENDERS.items():
                started = time.perf_counter()
                found = {page: words(extract(html)) for page, html in built.items()}
                seconds = time.perf_counter() - started
                kept = {page: (found[page] & truth[page]).total() for page in built}
                recall = [kept[page] / truth[page].total() for page in built]
                precision = [kept[page] / max(1, found[page].total()) for page in built]
                means = f"{statistics.mean(recall):.3f}   {statistics.mean(precision):.3f}"
                rest = f"{min(recall):.3f}         {len(built) / seconds:.0f}"
                print(f"{theme:<12} {contender:<12} {means}      {rest}", flush=True)
            shutil.rmtree(site)


if __name__ == "__main__":
    main()
