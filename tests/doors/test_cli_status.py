"""What status shows: what people want to know, and no internal key."""

from __future__ import annotations

import re

from exam_helpers import surefind
from helpers import Home
from surefind.doors.cli.doctor import _indexes

SETTINGS = """
[search]
pipeline = "words"
[pipelines.words]
retrieve = ["bm25"]
[pipelines.careful]
retrieve = ["bm25", "dense"]
rerank = ["cross_encoder"]
[llm]
model = "ollama:llama3.2"
"""


def test_status_shows_what_people_want_to_know(home: Home) -> None:
    home.configure(SETTINGS)
    home.write("docs/a.md", "# Cash\n\nThe teller counts cash.")
    home.write("docs/b.md", b"\x00\x01")
    home.sync("docs")
    home.write("docs/c.md", "# Vault\n\nThe vault opens at nine.")
    home.sync("docs")
    out = surefind("status", kb=home.folder).out
    for row in (
        rf"Knowledge base  {home.folder}, \d+\.\d MB on disk",
        r"Documents       2 \(0 restricted to access groups\)",
        r"Passages        \d+",
        r"Layout          hierarchical\(parent=1500, child=250, overlap=0\) \+ headings",
        r"Generation      2 \(rollback to 1 is possible\)",
        r"Last sync       \d{4}-\d\d-\d\d \d\d:\d\d:\d\d",
        rf"Source          {home.docs}",
        r"Index           bm25\(.*\), \d+\.\d MB",
        r"Index           dense\(model=minilm\), \d+\.\d MB",
        r"Model           minilm \(encoder\)",
        r"Model           \w+ \(reranker\)",
        r"Model           ollama:llama3.2 \(language model\)",
        r"Pipeline        careful = bm25\(.*\) \+ dense\(model=minilm\) >> rrf\(.*\) >> cross_encoder\(.*\)",
        r"Skipped         1 files:",
        r"  b\.md looks binary.*",
    ):
        assert re.search(f"(?m)^{row}$", out), row
    assert not re.search(r"\b[0-9a-f]{12,}\b", out.replace(str(home.folder), ""))


def test_status_json_has_more(home: Home) -> None:
    home.write("docs/a.md", "# Cash\n\nThe teller counts cash.")
    home.sync("docs")
    found = surefind("status", "--json", kb=home.folder).json
    assert found["size"] > 1000 and found["generations"] == [1]
    assert found["models"] == {}


def test_indexes_that_only_a_fingerprint_tells_apart_are_one_line() -> None:
    assert _indexes({"dense(model=m)@0123": 1, "dense(model=m)@4567": 2, "bm25": 4}) == {"dense(model=m)": 3, "bm25": 4}
