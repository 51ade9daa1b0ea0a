"""Compares what `surefind llm check` says about models with what each step gains on the questions of an exam.

    python benchmarks/llm_check.py KB --exam questions --out check.json \\
        --model http://127.0.0.1:8000/v1#small --model http://127.0.0.1:8001/v1#smaller --seconds 1500

    KB          a synced knowledge base; with --sample or --collection DATA/NAME (a folder in BEIR format) it is made
                from the sample or the collection, with the exam `questions`
    --model     an endpoint, may be repeated; `random`, `reversing`, `constant`, `truncating` and `echoing` are scripted
                models that run here; without --model: random and reversing
    --seconds   no new batch begins after that time; steps that were not reached are missing in the table

The results are written after the check of each model and after each step, and a second run with the same --out goes on
where the first one stopped. Questions of a batch are asked in parallel (--concurrency calls at once). The gain is the
change of nDCG@10 against the same pipeline without the step, on the same questions, with a 95% bootstrap interval.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from dataclasses import dataclass, field, replace
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from _collecting import fewer, questions_of
from _shared import ChatHandler, machine
from scripted_models import SCRIPTED, scripted
from surefind.access import Access
from surefind.bench.scoring import places_of
from surefind.disk.replacing import write_file
from surefind.errors import SurefindError
from surefind.exam.store import ExamStore
from surefind.fitness.check import check_model, cost, results
from surefind.fitness.kinds import KINDS
from surefind.kb import KnowledgeBase
from surefind.kb.sample import sample_vectors
from surefind.llm.models import Models
from surefind.llm.quote import quote
from surefind.llm.settings import LLMSettings
from surefind.measure.gains import Judge
from surefind.measure.permutation import permutation_p
from surefind.measure.ranks import MEASURES
from surefind.measure.statistics import bootstrap
from surefind.search.pipeline import Pipeline
from surefind.types import Floats, Query

OWNER = Access.owner()
HYBRID = "bm25 + dense >> convex(alpha=0.5)"
_LIST = "model=MODEL, top=10, keep=10, passage_tokens=TOKENS"
STEPS = {
    "llm_weights": ("weigh", HYBRID, "bm25 + dense >> llm_weights(model=MODEL)"),
    "hyde": ("draft", "dense", "hyde(retriever=dense, model=MODEL)"),
    "multi_query": ("rewrite", "dense", "multi_query(retriever=dense, model=MODEL)"),
    "llm_listwise": ("order", HYBRID, f"{HYBRID} >> llm_listwise({_LIST})"),
    "llm_listwise, once": (
        "order", HYBRID, f"{HYBRID} >> llm_listwise({_LIST}, reverse=false)",
    ),
    "slidegar": (
        "order", HYBRID, f"{HYBRID} >> slidegar(model=MODEL, top=20, window=10, step=5, passage_tokens=TOKENS)",
    ),
    "agentic": ("gather", HYBRID, f"{HYBRID} >> agentic(model=MODEL, steps=2, passage_tokens=TOKENS)"),
    "graph_local": ("extract", "graph_local", "graph_local(entities=llm, llm=MODEL)"),
}  # fmt: skip
"""Step -> the kind of its task, the pipeline without it, and with it."""


class _Scripted(ChatHandler):
    """Answers as the scripted model whose name is in the request."""

    def choice(self, body: dict[str, Any]) -> dict[str, Any]:
        answer = scripted(body["model"])("\n\n".join(message["content"] for message in body["messages"]))
        return {"message": {"role": "assistant", "content": answer}, "finish_reason": "stop"}


@dataclass
class Study:
    kb: KnowledgeBase
    args: argparse.Namespace
    data: dict[str, Any]
    began: float = field(default_factory=time.monotonic)
    plain: dict[str, Floats] = field(default_factory=dict)

    def __post_init__(self) -> None:
        exam = ExamStore(self.kb.data / "exams").load(self.args.exam)
        step = max(1, len(exam.queries) // self.args.questions)
        self.queries = exam.queries[::step][: self.args.questions]
        texts = {document.id: document.text for document in self.kb.documents(OWNER)}
        self.places = places_of(self.kb.reader().view.spans(), texts)

    @property
    def late(self) -> bool:
        return time.monotonic() - self.began > self.args.seconds

    def use(self, address: str) -> None:
        """Asks this model from now on."""
        self.kb.services.llm.close()
        settings = LLMSettings(
            model=address, concurrency=self.args.concurrency, timeout=self.args.timeout,
            total_timeout=2 * self.args.timeout, retries=2,
        )  # fmt: skip
        self.kb.services.llm = Models(settings, self.args.out.parent / f"{self.args.out.stem}-answers")

    def check(self, name: str, address: str) -> None:
        self.use(address)
        say(f"{name}: the check is {quote(self.kb.services.llm, cost(None, KINDS))}")
        began = time.monotonic()
        found = check_model(self.kb, None, list(KINDS), lambda what, done, total: say(f"  {what}"))
        self.data["checks"][name] = {
            "kinds": {kind: {"verdict": one.verdict, "figure": one.figure, "right": one.right, "tasks": one.tasks,
                             "bias": one.bias, "why": one.why} for kind, one in found.items()},
            **self.spent(began),
        }  # fmt: skip
        assert results(self.kb, None) == found

    def measure(self, step: str, name: str, address: str) -> None:
        """Asks the questions in batches, until the time is over."""
        _, plain, text = STEPS[step]
        self.use(address)
        if plain not in self.plain:
            self.plain[plain] = self.scores(plain, "", [*range(len(self.queries))])[0]
        began, scores, notes = time.monotonic(), np.zeros(0), ""
        while len(scores) < len(self.queries) and not self.late:
            batch = [*range(len(scores), min(len(scores) + self.args.batch, len(self.queries)))]
            found, said = self.scores(text, address, batch)
            scores, notes = np.concatenate([scores, found]), notes or said
        if not len(scores):
            return
        before = self.plain[plain][: len(scores)]
        differences = scores - before
        (interval,) = bootstrap(differences[:, None])
        self.data["steps"][f"{step} | {name}"] = {
            "step": step, "model": name, "questions": len(scores), "before": float(before.mean()),
            "after": float(scores.mean()), "gain": interval.mean, "low": interval.low, "high": interval.high,
            "p": float(permutation_p(differences[:, None])[0]) if differences.any() else 1.0,
            "changed": int((differences != 0).sum()), "notes": notes[:500], **self.spent(began),
        }  # fmt: skip

    def scores(self, text: str, address: str, rows: list[int]) -> tuple[Floats, str]:
        """nDCG@10 of some questions, and what the trace says."""
        spec = text.replace("MODEL", json.dumps(address)).replace("TOKENS", str(self.args.tokens))
        pipeline = Pipeline.parse(spec)
        self.kb.build_for(pipeline.retrieve)
        queries = [self.queries[row] for row in rows]
        found = pipeline.run([Query(one.text) for one in queries], 10, self.kb.reader().view, self.kb.services, OWNER)
        gains = Judge(queries, self.places).gains(found.rankings, "document")
        return MEASURES["nDCG"](gains, 10), "; ".join(entry.note for entry in found.trace if entry.note)

    def spent(self, began: float) -> dict[str, Any]:
        spent = self.kb.services.llm.meter.spent
        return {
            "seconds": round(time.monotonic() - began, 1), "calls": spent.calls, "cached": spent.cached,
            "tokens_in": spent.tokens_in, "tokens_out": spent.tokens_out,
        }  # fmt: skip

    def save(self) -> None:
        write_file(self.args.out, json.dumps(self.data, indent=1, ensure_ascii=False))


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def attempt(what: str, work: Any, *given: str) -> None:
    """Runs a part; a model that fails leaves the others running."""
    began = time.monotonic()
    try:
        work(*given)
    except SurefindError as error:
        say(f"{what} failed: {error}")
    else:
        say(f"{what}: {time.monotonic() - began:.0f} s")


def table(data: dict[str, Any], models: list[str]) -> str:
    lines = [
        "| step | model | verdict | the check's figure | questions | nDCG@10 without → with | gain [95%] | p | calls | "
        "tokens | s |",
        "|---|---|---|---|---:|---|---|---:|---:|---:|---:|",
    ]
    for step, (kind, _, _) in STEPS.items():
        for name in models:
            checked = data["checks"].get(name, {}).get("kinds", {}).get(kind, {})
            row = data["steps"].get(f"{step} | {name}")
            verdict = f"{checked.get('verdict', '–')} | {checked.get('figure', '–')}"
            if row is None:
                lines.append(f"| {step} | {name} | {verdict} | – | – | – | – | – | – | – |")
                continue
            before_after = f"{row['before']:.3f} → {row['after']:.3f}"
            calls = f"{row['calls'] + row['cached']:,}" + (f" ({row['cached']:,} cached)" if row["cached"] else "")
            gain = f"{row['gain']:+.3f} [{row['low']:+.3f}, {row['high']:+.3f}]"
            lines.append(
                f"| {step} | {name} | {verdict} | {row['questions']} | {before_after} | {gain} | "
                f"{row['p']:.3f} | {calls} | {row['tokens_in'] + row['tokens_out']:,} | "
                f"{row['seconds']:,.0f} |"
            )
    other = [kind for kind in KINDS if kind not in {kind for kind, _, _ in STEPS.values()}]
    for kind in other:
        for name in models:
            checked = data["checks"].get(name, {}).get("kinds", {}).get(kind, {})
            said = f"{checked.get('verdict', '–')} | {checked.get('figure', '–')}"
            lines.append(
                f"| {', '.join(KINDS[kind].steps)} | {name} | {said} | – | not a step of a search | – | – | – | – | – |"
            )
    for name in models:
        one = data["checks"].get(name)
        if one:
            used = one["tokens_in"] + one["tokens_out"]
            lines.append(f"\nThe check of {name}: {one['calls']:,} calls, {used:,} tokens, {one['seconds']:,.0f} s.")
    return "\n".join(lines)


def make(folder: Path, collection: Path | None, questions: int) -> None:
    """Makes the knowledge base from a collection, or from the sample, with its questions as an exam."""
    folder.mkdir(parents=True, exist_ok=True)
    with KnowledgeBase.open(folder) as kb:
        if collection:
            exam = fewer(questions_of(kb, collection.name, collection.parent, folder / "parts"), questions)
        else:
            kb.services.keep_vectors(sample_vectors())
            exam = questions_of(kb, "sample", folder, folder)
        ExamStore(kb.data / "exams").save(replace(exam, name="questions"))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kb", type=Path)
    parser.add_argument("--exam", default="questions")
    parser.add_argument("--sample", action="store_true", help="make KB from the sample, if it is not there")
    parser.add_argument("--collection", type=Path, help="make KB from this folder, if it is not there")
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("--name", action="append", default=[], help="the name of each model in the table")
    parser.add_argument("--steps", nargs="*", choices=[*STEPS], default=[*STEPS])
    parser.add_argument("--questions", type=int, default=175)
    parser.add_argument("--batch", type=int, default=25, help="questions that are asked together")
    parser.add_argument("--tokens", type=int, default=150, help="of each passage")
    parser.add_argument("--concurrency", type=int, default=48)
    parser.add_argument("--timeout", type=float, default=120.0)
    parser.add_argument("--seconds", type=float, default=1500.0)
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


def main() -> None:
    args = arguments()
    args.out = args.out.resolve()
    if (args.sample or args.collection) and not (args.kb / ".surefind").exists():
        make(args.kb, args.collection, args.questions)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Scripted)
    server.daemon_threads = True
    server.request_queue_size = 256
    threading.Thread(target=server.serve_forever, daemon=True).start()
    given = args.model or ["random", "reversing"]
    names = args.name or [text if text in SCRIPTED else text.rpartition("#")[2] for text in given]
    url = f"http://127.0.0.1:{server.server_port}/v1"
    addresses = {name: f"{url}#{text}" if text in SCRIPTED else text for name, text in zip(names, given, strict=True)}
    data = json.loads(args.out.read_text()) if args.out.exists() else {"checks": {}, "steps": {}, "machine": machine()}
    with KnowledgeBase.open(args.kb) as kb:
        study = Study(kb, args, data)
        for name, address in addresses.items():
            if name not in data["checks"] and not study.late:
                attempt(f"The check of {name}", study.check, name, address)
                study.save()
        for step in args.steps:
            for name, address in addresses.items():
                done = data["steps"].get(f"{step} | {name}", {}).get("questions", 0)
                if done < len(study.queries) and not study.late:
                    attempt(f"{step} with {name}", study.measure, step, name, address)
                    study.save()
    print(table(data, [*addresses]))
    server.shutdown()


if __name__ == "__main__":
    main()
