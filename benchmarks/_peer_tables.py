"""The tables of `peers.py`: quality with intervals and tests, cost as ratios to Surefind in the same run, and what the
install of a peer takes, as its documentation has it for offline hybrid search with this encoder.

The packages of an install come from pip's plan (`pip install --dry-run --report`), their sizes from the files of the
same distributions in any environment of WORK or in this one, so that torch need not be installed five times.
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import numpy as np

from _shared import ndcg
from surefind.lab.measure.statistics import bootstrap, permutation_p

ROOT = Path(__file__).resolve().parent.parent
MODES = ("pair", "hybrid", "bm25")
DOCUMENTED = {
    "surefind": [str(ROOT / "models"), f"{ROOT}[formats,serve]"],
    "hand": ["bm25s", "PyStemmer", "faiss-cpu", "sentence-transformers"],
    "txtai": ["txtai"],
    "haystack": ["haystack-ai", "sentence-transformers"],
    "llamaindex": [
        *("llama-index-core", "llama-index-embeddings-huggingface"),
        *("bm25s", "PyStemmer"),  # what llama-index-retrievers-bm25 needs; see `peers.INSTALL`
    ],
    "langchain": [
        *("langchain", "langchain-classic", "langchain-community", "rank_bm25"),
        *("faiss-cpu", "langchain-huggingface", "sentence-transformers"),
    ],
}


def default(peer: str) -> str:
    """The mode in which a peer is compared."""
    return "pair" if peer == "surefind" else "hybrid"


def documented(peer: str, work: Path, plan: bool = False) -> dict[str, Any]:
    """The packages and megabytes of the documented install, if it was planned before or is to be planned now;
    `unknown` packages are in no environment here."""
    note = work / "venv" / f"{peer}.documented.json"
    if peer not in DOCUMENTED or not (note.exists() or plan):
        return {}
    if not note.exists():
        call = [sys.executable, "-m", "pip", "install", "-q", "--dry-run", "--ignore-installed", "--report", "-"]
        done = subprocess.run([*call, *DOCUMENTED[peer]], capture_output=True, text=True)
        if done.returncode:
            return {"error": done.stderr.strip().splitlines()[-1]}
        planned = json.loads(done.stdout)["install"]
        note.write_text(json.dumps({_plain(row["metadata"]["name"]): row["metadata"]["version"] for row in planned}))
    packages = json.loads(note.read_text())
    sizes = _sizes(work)
    known = [sizes[name] for name in packages if name in sizes]
    unknown = sorted(name for name in packages if name not in sizes)
    return {"packages": len(packages), "mb": round(sum(known) / 2**20), "unknown": unknown}


def _sizes(work: Path) -> dict[str, int]:
    """The bytes of the files of every distribution in the environments."""
    folders = [*map(str, (work / "venv").glob("*/lib/python3*/site-packages")), *sys.path]
    found: dict[str, int] = {}
    for one in distributions(path=folders):
        files = [Path(str(path.locate())) for path in one.files or []]
        size = sum(path.stat().st_size for path in files if path.is_file())
        name = _plain(one.metadata["Name"] or "")
        found[name] = max(found.get(name, 0), size)
    return found


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


Results = dict[tuple[str, str, str, str], dict[str, Any]]
"""By peer, mode, collection and task."""


def tables(work: Path, peers: Sequence[str]) -> str:
    """All tables as Markdown; also writes what they show to WORK/peers.json."""
    results = _read(work)
    rows = {
        "quality": quality(results, work, peers),
        "cost": cost(results, work, peers),
        "use": use(results, peers),
        "passages": passages(results, peers),
    }
    (work / "peers.json").write_text(json.dumps(rows, indent=1))
    return "\n\n".join(f"{name}\n\n{_markdown(table)}" for name, table in rows.items() if table)


def _read(work: Path) -> Results:
    found: Results = {}
    for path in sorted((work / "results").glob("*.json")):
        row = json.loads(path.read_text())
        variant = path.stem.removeprefix("-".join((row["peer"], row["mode"], row["work"], row["task"])))
        key = (row["peer"], row["mode"], row["work"], row["task"] + variant)
        found[key] = row
    return found


def _markdown(rows: list[dict[str, str]]) -> str:
    head = list(rows[0])
    lines = [head, ["---"] * len(head), *([row.get(name, "") for name in head] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def scores(ranked: list[list[str]], judged: list[dict[str, int]]) -> np.ndarray:
    """nDCG@10 and R@5 of each question, over the distinct documents in the order in which they were found."""
    distinct = [list(dict.fromkeys(row)) for row in ranked]
    found = [
        (ndcg(row, grades), sum(name in grades for name in row[:5]) / len(grades))
        for row, grades in zip(distinct, judged, strict=True)
    ]
    return np.array(found)


def quality(results: Results, work: Path, names: Sequence[str]) -> list[dict[str, str]]:
    rows = []
    for collection in ("scifact", "zoomcamp-faq", "sample"):
        own = results.get(("surefind", default("surefind"), collection, "measure"))
        if not own or "error" in own:
            continue
        judged = json.loads((work / "works" / collection / "judged.json").read_text())
        alike = results.get(("surefind", "hybrid", collection, "measure"), own)
        bases = {"Surefind": scores(own["ranked"], judged), "its hybrid": scores(alike["ranked"], judged)}
        for peer in names:
            for mode in MODES:
                row = results.get((peer, mode, collection, "measure"))
                if row:
                    rows.append({"collection": collection, "peer": peer, "mode": mode} | _compared(row, judged, bases))
    return rows


def _compared(row: dict[str, Any], judged: list[dict[str, int]], bases: dict[str, np.ndarray]) -> dict[str, str]:
    """The measures of a run, and how far it is from Surefind's default, and from its hybrid with the same encoder."""
    if "error" in row:
        return {"nDCG@10 [95%]": row["error"].replace("|", "/")}
    values = scores(row["ranked"], judged)
    ndcg_10, recall = bootstrap(values)
    made = {
        "nDCG@10 [95%]": f"{ndcg_10.mean:.3f} [{ndcg_10.low:.3f}, {ndcg_10.high:.3f}]",
        "R@5 [95%]": f"{recall.mean:.3f} [{recall.low:.3f}, {recall.high:.3f}]",
    }
    for name, base in bases.items():
        (gain,) = bootstrap((values - base)[:, :1])
        p = f"{permutation_p((values - base)[:, :1])[0]:.3g}"
        points = f"{100 * gain.mean:+.1f} [{100 * gain.low:+.1f}, {100 * gain.high:+.1f}]"
        differs = bool((values != base).any())
        made |= {f"nDCG@10 − {name}": points if differs else "–", f"p, {name}": p if differs else "–"}
    return made


def _ratio(value: float, base: float, digits: int = 2, unit: str = "") -> str:
    return f"{value:.{digits}f}{unit} ({value / base:.2f}×)" if base else f"{value:.{digits}f}{unit}"


def cost(results: Results, work: Path, peers: Sequence[str]) -> list[dict[str, str]]:
    """Installed megabytes and packages, first answer, indexing, memory; ratios to Surefind."""
    rows = []
    for peer in peers:
        note = work / "venv" / f"{peer}.json"
        installed = json.loads(note.read_text()) if note.exists() else {}
        if "error" in installed:
            rows.append({"peer": peer, "environment": installed["error"]})
            continue
        row = {
            "peer": peer,
            "environment": f"{installed.get('mb', 0)} MB, {len(installed.get('packages', {}))} packages",
        }
        plan = documented(peer, work)
        row["documented install"] = plan.get("error") or (f"{plan['mb']} MB, {plan['packages']}" if plan else "")
        first = results.get((peer, default(peer), "sample", "first"), {})
        own = results.get(("surefind", default("surefind"), "sample", "first"), {})
        if "hits" in first:
            row["first answer, s"] = _ratio(first["process_s"], own["process_s"], 1)
            row["… CPU-s"] = _ratio(first["process_cpu"], own["process_cpu"], 1)
            row["… of it encoder"] = f"{first['encoder_cpu']:.1f}"
        changes = [results.get((peer, default(peer), "sample", f"change-{n}"), {}) for n in "123"]
        times = [one for one in changes if "change_s" in one]
        if times:
            row["changed file, s"] = f"{statistics.median(one['change_s'] for one in times):.2f}"
            row["… CPU-s"] = row.get("… CPU-s", "")
            row["changed file, CPU-s"] = f"{statistics.median(one['change_cpu'] for one in times):.2f}"
            row["found first"] = f"{sum(one['found'] for one in times)} of {len(times)}"
        row["error"] = first.get("error", "") or next((one["error"] for one in changes if "error" in one), "")
        rows.append(row)
    head = ["peer", "documented install", "environment", "first answer, s", "… CPU-s", "… of it encoder"]
    head += ["changed file, s", "changed file, CPU-s", "found first", "error"]
    return [{name: row.get(name, "") for name in head} for row in rows]


def use(results: Results, peers: Sequence[str]) -> list[dict[str, str]]:
    """What a second process sees while the first one writes."""
    rows = []
    for peer in peers:
        row = results.get((peer, default(peer), "sample", "second"))
        if not row:
            continue
        reader, writer = row.get("reader", {}), row.get("writer", {})
        errors = "; ".join(f"{number} × {text}" for text, number in reader.get("errors", {}).items())
        told = row.get("error") or reader.get("error") or writer.get("error") or errors
        rounds, answers = str(writer.get("rounds", "")), str(reader.get("answers", ""))
        rows.append({"peer": peer, "writes": rounds, "answers": answers, "errors": told.replace("|", "/")})
    return rows


def passages(results: Results, names: Sequence[str]) -> list[dict[str, str]]:
    """Time and memory by collection; a ratio compares with Surefind in the same mode."""
    rows = []
    works = sorted({key[2] for key in results}, key=lambda name: (name.isdigit(), len(name), name))
    for name in works:
        for mode in MODES:
            own = results.get(("surefind", mode, name, "measure"))
            for peer in names:
                row = results.get((peer, mode, name, "measure"))
                if own and row and "error" not in own:
                    rows.append({"collection": name, "mode": mode, "peer": peer} | _times(row, own))
    return rows


def _times(row: dict[str, Any], own: dict[str, Any]) -> dict[str, str]:
    if "error" in row:
        return {"index, CPU-s": row["error"].replace("|", "/")}
    p50, p95 = np.percentile(row["query_ms"], [50, 95])
    cpu, base = statistics.median(row["query_cpu_ms"]), statistics.median(own["query_cpu_ms"])
    return {
        "index, CPU-s": _ratio(row["index_cpu"], own["index_cpu"]),
        "index, s": f"{row['index_s']:.1f}",
        "query CPU p50, ms": _ratio(cpu, base),
        "query p50, ms": f"{p50:.1f}",
        "p95": f"{p95:.1f}",
        "peak MB": _ratio(row["peak_mb"], own["peak_mb"], 0),
        "load": f"{row['load']:.0f}",
    }
