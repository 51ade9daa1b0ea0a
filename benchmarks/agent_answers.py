"""Measures how often an answer of the MCP tool `search` holds the gold passage, by the size of its passages.

    python benchmarks/agent_answers.py --kb FOLDER [--max-tokens 2000]

FOLDER is a knowledge base of the sample. The questions are those of examples/questions.jsonl that agent_loop.py does
not ask. `parent` is what the layout returns, `window=1` the passage that was found with a neighbour on either side.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from _shared import machine
from agent_loop import COUNT, EVERY, QUESTIONS, within
from surefind.access import Access
from surefind.kb import KnowledgeBase
from surefind.search.extent import Extent
from surefind.serve.mcp.search import fitted

EXTENTS = ("parent", "passage", "window=1", "window=2")
LIMITS = (3, 5, 8)
HEAD = 70
"""Tokens of an answer that are not passages."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kb", type=Path, required=True)
    parser.add_argument("--max-tokens", type=int, default=2000)
    given = parser.parse_args()
    questions = [json.loads(line) for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]
    asked = questions[::EVERY][:COUNT]
    rest = [question for question in questions if question not in asked]
    print("| passages | " + " | ".join(f"{limit} passages" for limit in LIMITS) + " |\n|---|" + "---|" * len(LIMITS))
    with KnowledgeBase.open(given.kb) as kb:
        for name in EXTENTS:
            cells = []
            found = [kb.search(q["query"], Access.owner(), max(LIMITS), extent=Extent.parse(name)).hits for q in rest]
            for limit in LIMITS:
                shown = [fitted(hits[:limit], given.max_tokens - HEAD) for hits in found]
                held = sum(
                    any(within(gold["text"], one.data["text"]) for gold in question["gold"] for one in answer)
                    for question, answer in zip(rest, shown, strict=True)
                )
                cells.append(f"{held / len(rest):.1%}")
            print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    print(f"\n{len(rest)} questions, {given.max_tokens:,} tokens. {machine('mcp')}.")


if __name__ == "__main__":
    main()
