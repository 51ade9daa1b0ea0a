"""Counts the marks of static sites outside of code, before and after the Markdown reader converts them, and its time.

python benchmarks/static_sites.py FOLDER…
"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

from markdown_it import MarkdownIt

from surefind.errors import SourceError
from surefind.ingest._front_matter import split_front_matter
from surefind.ingest._static_sites import plain_markdown

_MARK = re.compile(
    r"\{%|\{\{[<%]|\{\{ ?(?:site|page|include)\.|<%|^[ \t]*(?::::|!!! |\?\?\?\+? ?\w|=== \"|///)|\{[\w:-]+\}`"
    r"|^\([\w.:-]+\)=$|^(?:import\s.*from|export (?:const|default))|</?(?:Tabs|TabItem|Tab|Admonition)\b|\{:|^> \[!",
    re.MULTILINE,
)
_DIRECTIVE = re.compile(r"\{(?:note|tip|warning|important|toctree|admonition|figure|seealso|image)\}")
_SPAN = re.compile(r"(?<![`}])(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)


def marks(text: str) -> int:
    """Returns the number of marks that are not in code, as a parser of CommonMark sees code."""
    count = 0
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type in ("inline", "html_block"):
            count += len(_MARK.findall(_SPAN.sub("", token.content)))
        elif token.type == "fence" and _DIRECTIVE.match(token.info):
            count += 1
    return count


def main(folder: Path) -> None:
    before = after = changed = files = characters = 0
    seconds = 0.0
    for path in folder.rglob("*"):
        if not path.is_file() or not path.name.endswith((".md", ".mdx", ".md.erb")):
            continue
        try:
            metadata, body = split_front_matter(path.read_text(encoding="utf-8", errors="replace"))
        except SourceError:
            continue
        start = time.process_time()
        text = plain_markdown(body, metadata)
        seconds += time.process_time() - start
        if text.count("\n") != body.count("\n") or plain_markdown(text, metadata) != text:
            raise SystemExit(f"{path}: the lines differ, or a second conversion changes the text")
        files, changed, characters = files + 1, changed + (text != body), characters + len(body)
        before, after = before + marks(body), after + marks(text)
    rate = seconds / max(1e-9, characters / 1e6)
    print(f"| {folder.name} | {files:,} | {changed:,} | {before:,} | {after:,} | {rate:.2f} |")


if __name__ == "__main__":
    print("| folder | files | changed | marks before | after | CPU s/MB |\n|---|--:|--:|--:|--:|--:|")
    for name in sys.argv[1:]:
        main(Path(name))
