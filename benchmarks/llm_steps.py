"""Measures the overhead of steps that ask a language model, and the share of a small model's answers that they can use.

    python benchmarks/llm_steps.py KB                         # our own CPU time, calls and tokens per query
    python benchmarks/llm_steps.py KB --model ollama:SMALL      # the share of a real model's answers that can be used

KB is a synced knowledge base with an exam called `known-item`. In the first form, the model is a local server in a
process of its own that answers at once, so only the step itself is measured: prompts, fences, checks, searches and
network calls, in CPU time of this process, which other work on the machine does not affect. In the second form, the
model is real. A model of 135 million parameters cannot rank, so only the form of its answers is counted, not their
quality.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import statistics
import time
from http.server import ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from _shared import ChatHandler, machine
from surefind.access import Access
from surefind.exam.store import ExamStore
from surefind.kb import KnowledgeBase

PUBLIC = Access.public()
HEAD = "bm25 + dense >> convex(alpha=0.5)"
STEPS = {
    "no model": HEAD,
    "llm_listwise": f"{HEAD} >> llm_listwise(model=MODEL, top=10, keep=5, passage_tokens=TOKENS)",
    "slidegar": f"{HEAD} >> slidegar(model=MODEL, top=10, window=6, step=4, passage_tokens=TOKENS)",
    "agentic": f"{HEAD} >> agentic(model=MODEL, steps=2, look=5, passage_tokens=TOKENS)",
    "hyde": "bm25 + hyde(retriever=dense, model=MODEL) >> convex(alpha=0.5)",
    "multi_query": "bm25 + multi_query(retriever=dense, model=MODEL) >> convex(alpha=0.5)",
    "llm_weights": "bm25 + dense >> llm_weights(model=MODEL)",
}


class _Instant(ChatHandler):
    """Answers at once, in the form that the asking step expects."""

    def choice(self, body: dict[str, Any]) -> dict[str, Any]:
        prompt = body["messages"][-1]["content"]
        count = len(re.findall(r"^<passage \d+ ", prompt, re.MULTILINE))
        if "Steps left" in prompt:
            again = "only the question itself" in prompt
            text = json.dumps({"evidence": [1], "enough": not again, "searches": ["cash deadline"] if again else []})
        elif "other queries" in prompt:
            text = json.dumps({"queries": ["cash deadline", "filing date", "when to report"]})
        elif "weight from 0 to 1" in prompt:
            text = json.dumps({"bm25": 0.5, "dense": 0.5})
        else:
            text = json.dumps({"ranking": list(range(count, 0, -1))})
        return {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}


def _serve(pipe: Connection) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Instant)
    server.daemon_threads = True
    pipe.send(server.server_port)
    server.serve_forever()


def own_time(kb: KnowledgeBase, questions: list[str]) -> None:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    model = f'"http://127.0.0.1:{ours.recv()}/v1#instant"'
    print(f"{'step':<14} {'CPU ms':>10} {'beside':>8} {'calls':>6} {'tokens in':>10}")
    base = 0.0
    for name, text in STEPS.items():
        pipeline = kb.pipeline(text.replace("MODEL", model).replace("TOKENS", "300"))
        kb.build(pipeline)
        kb.search("warm up", PUBLIC, pipeline=pipeline, confidence="off")
        before, taken = kb.services.llm.meter.spent, []
        for question in questions:
            started = time.process_time()
            kb.search(question, PUBLIC, pipeline=pipeline, confidence="off")
            taken.append((time.process_time() - started) * 1000)
        spent = kb.services.llm.meter.spent
        ms = statistics.median(taken)
        base = base or ms
        calls = (spent.calls - before.calls) / len(questions)
        tokens = (spent.tokens_in - before.tokens_in) / len(questions)
        print(f"{name:<14} {ms:>10.1f} {ms - base:>8.1f} {calls:>6.1f} {tokens:>10,.0f}")
    process.terminate()


def usable(kb: KnowledgeBase, questions: list[str], model: str) -> None:
    print(f"{'step':<14} {'used as is':>14} {'repaired':>10} {'fallback used':>13} {'s per query':>11}")
    for name, text in list(STEPS.items())[1:]:
        pipeline = kb.pipeline(text.replace("MODEL", json.dumps(model)).replace("TOKENS", "60"))
        kb.build(pipeline)
        right = repaired = without = 0
        started = time.perf_counter()
        for question in questions:
            notes = "; ".join(
                entry.note for entry in kb.search(question, PUBLIC, pipeline=pipeline, confidence="off").trace
            )
            failed = ("fell back", "kept the", "as it is", "alone", "by rule", "stopped early")
            if any(words in notes for words in failed):
                without += 1
            elif "repaired" in notes:
                repaired += 1
            else:
                right += 1
        seconds = (time.perf_counter() - started) / len(questions)
        n = len(questions)
        print(f"{name:<14} {right / n:>14.0%} {repaired / n:>10.0%} {without / n:>13.0%} {seconds:>11.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kb", type=Path)
    parser.add_argument("--model", default="")
    parser.add_argument("--questions", type=int, default=50)
    options = parser.parse_args()
    print(machine("numpy", "httpx"))
    with KnowledgeBase.open(options.kb) as kb:
        exam = ExamStore(kb.data / "exams").load("known-item")
        step = max(1, len(exam.queries) // options.questions)
        questions = [query.text for query in exam.queries[::step][: options.questions]]
        if options.model:
            usable(kb, questions, options.model)
        else:
            own_time(kb, questions)


if __name__ == "__main__":
    main()
