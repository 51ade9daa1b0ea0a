"""Records how a small agent answers ten questions about the sample, over MCP.

    python benchmarks/agent_loop.py [--kb FOLDER]

The agent is a program with fixed rules, not a language model: it searches, reads around the first passage, answers with
the sentence that the server marks, and cites it. If the search is not sure enough, it gives no answer. It talks to
`surefind mcp` in a process of its own, over stdio, with the client of the MCP SDK. The questions are every 17th of
examples/questions.jsonl. An answer is right if its sentence is part of the gold passage, or the gold passage is part
of it.
Prints Markdown. Without --kb, the sample is indexed in a temporary folder first.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

from _shared import machine
from surefind.kb import KnowledgeBase
from surefind.kb.sample import sample_folder
from surefind.serve.mcp.search import NOTHING
from surefind.text.sentences import sentence_spans
from surefind.text.tokens import count_tokens

QUESTIONS = Path(__file__).parent.parent / "examples" / "questions.jsonl"
EVERY, COUNT = 17, 10
SURE = 0.3
"""The agent does not answer if the search is less sure than this."""
_MARKED = re.compile(r"⟦(.*?)⟧(.*)", re.DOTALL)


@dataclass(frozen=True)
class Record:
    """What the agent did for one question."""

    calls: list[str]
    tokens: int
    """The tokens of all answers of the tools: what a language model would have read."""
    sentence: str = ""
    citation: str = ""
    document: str = ""
    read: str = ""
    """The text that the agent read."""
    confidence: float | None = None


async def answer(client: Client, question: str) -> Record:
    """Answers a question by the rules above."""
    found = await _call(client, "search", query=question)
    confidence = found["confidence"]
    calls, tokens = [f"search → {len(found['hits'])} passages"], _tokens(found)
    read = " ".join(hit["text"] for hit in found["hits"])
    if not found["hits"] or (confidence is not None and confidence < SURE):
        return Record(calls, tokens, read=read, confidence=confidence)
    first = found["hits"][0]
    passage = await _call(client, "read", id=first["id"], around=1, query=question)
    sentence = marked_sentence(passage["text"])
    lines = f":{passage['lines']}" if "lines" in passage else ""
    calls.append(f"read {first['id']}")
    tokens += _tokens(passage)
    read = f"{read} {passage['text']}"
    return Record(calls, tokens, sentence, f"{passage['document']}{lines}", passage["document"], read, confidence)


def marked_sentence(text: str) -> str:
    """Returns the marked sentence; if it is a heading, the sentence after it; without a mark, the first sentence."""
    found = _MARKED.search(text)
    sentence, after = (found[1], found[2]) if found else ("", text)
    if sentence and not sentence.startswith("#"):
        return sentence
    following = (after[start:end].strip() for start, end in sentence_spans(after, 0, len(after)))
    return next((one for one in following if one and not one.startswith("#")), sentence)


async def _call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    if result.is_error:
        raise SystemExit(f"{tool} failed: {result.content}")
    return dict(result.structured_content or {})


def _tokens(data: dict[str, Any]) -> int:
    return count_tokens(json.dumps(data, ensure_ascii=False))


def _plain(text: str) -> str:
    return " ".join(re.sub(r"[⟦⟧*>]", " ", text).split())


def within(part: str, whole: str) -> bool:
    return bool(_plain(part)) and _plain(part) in _plain(whole)


def is_right(record: Record, gold: list[dict[str, str]]) -> bool:
    """Whether the sentence is part of a gold passage of its document, or the other way around."""
    same = [one["text"] for one in gold if one["document"] == record.document]
    return any(within(record.sentence, text) or within(text, record.sentence) for text in same)


def has_read(record: Record, gold: list[dict[str, str]]) -> bool:
    """Whether the agent had a whole gold passage before it."""
    return any(within(one["text"], record.read) for one in gold)


async def run(folder: Path, questions: list[dict[str, Any]]) -> tuple[list[Record], float]:
    arguments = ["-m", "surefind", "mcp", "--kb", str(folder), "--as", "*"]
    server = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))
    async with Client(server) as client:
        started = time.perf_counter()
        records = [await answer(client, question["query"]) for question in questions]
        return records, time.perf_counter() - started


def outcome(record: Record, gold: list[dict[str, str]]) -> str:
    if not record.sentence:
        return "no answer"
    return "right" if is_right(record, gold) else "wrong"


def show(questions: list[dict[str, Any]], records: list[Record], seconds: float) -> None:
    outcomes = [outcome(record, question["gold"]) for question, record in zip(questions, records, strict=True)]
    seen = [has_read(record, question["gold"]) for question, record in zip(questions, records, strict=True)]
    for number, (question, record) in enumerate(zip(questions, records, strict=True), 1):
        sure = "" if record.confidence is None else f"confidence {record.confidence:.2f}; "
        print(f"{number}. **{question['query']}**\n")
        print(f"    {', then '.join(record.calls)}; {sure}{record.tokens:,} tokens\n")
        answered = f"{_plain(record.sentence)}\n    >\n    > {record.citation}" if record.sentence else NOTHING
        print(f"    > {answered}\n")
        held = "was" if seen[number - 1] else "was not"
        print(f"    {outcomes[number - 1].capitalize()}. The gold passage {held} among what the agent read.\n")
    counted = ", ".join(f"{outcomes.count(kind)} {kind}" for kind in ("right", "wrong", "no answer"))
    mean = sum(record.tokens for record in records) / len(records)
    print(f"{len(records)} questions: {counted}. The gold passage was read {sum(seen)} times.")
    print(f"{mean:,.0f} tokens a question, {seconds:.1f} s in all. {machine('mcp')}.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kb", type=Path, help="a folder in which the sample is synced")
    given = parser.parse_args()
    lines = QUESTIONS.read_text(encoding="utf-8").splitlines()
    questions = [json.loads(line) for line in lines][::EVERY][:COUNT]
    with tempfile.TemporaryDirectory() as made:
        folder = given.kb or Path(made)
        if given.kb is None:
            with KnowledgeBase.open(folder) as kb:
                kb.sync(sample_folder())
        show(questions, *asyncio.run(run(folder, questions)))


if __name__ == "__main__":
    main()
