"""Prints the counts of docs/results/house.md. Usage: PYTHONPATH=ROOT/src python scripts/house_counts.py ROOT"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import Any

_WITH = [
    ("move a file or folder into its place", r"(?m)^ +\w+\.(?:rename|replace)\(\w+\)$"),
    ("have an LRU cache of their own", r"OrderedDict\(|popitem\(|move_to_end\("),
    ("open SQLite", r"sqlite3\.connect\("),
    ("match paths in a dialect of their own", r"(?m)\bfnmatch\(|^class Wildcards\b"),
    ("compute differences of texts", r"(?m)\bunified_diff\(|^def difference\(before: str"),
]
_VAGUE = ("MOST", "LEAST", "LONGEST", "FEWEST", "LARGEST", "SHOWN", "KEPT", "FEW", "SHORT")


def sizes(root: Path) -> dict[str, int]:
    texts = {path: path.read_text(encoding="utf-8") for path in sorted((root / "src").rglob("*.py"))}
    nodes = [node for text in texts.values() for node in ast.walk(ast.parse(text))]
    classes = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))
    bound = Counter(node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    return {
        "lines of Python in src": sum(text.count("\n") for text in texts.values()),
        "lines of Python in tests": sum(path.read_text().count("\n") for path in (root / "tests").rglob("*.py")),
        "modules": len(texts),
        "modules at the root": sum(path.parent.name == "surefind" for path in texts),
        "classes": sum(classes.values()),
        "class names used more than once": sum(count > 1 for count in classes.values()),
        "names bound to `found` or `one`": bound["found"] + bound["one"],
        "limits that do not say of what": sum(bound[start + name] for start in ("", "_") for name in _VAGUE),
        "runtime protocols": sum(text.count("\n@runtime_checkable") for text in texts.values()),
        **{f"modules that {what}": sum(1 for text in texts.values() if re.search(line, text)) for what, line in _WITH},
    }


def traced(work: Any) -> str:
    """The modules whose functions run in this process, and the processes that it starts, to do `work`."""
    modules, started = set[str](), list[str]()

    def note(frame: Any, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_flags & inspect.CO_OPTIMIZED:  # a function, not a module or class
            modules.add(str(frame.f_globals.get("__name__")))

    sys.addaudithook(lambda event, _: started.append(event) if event == "subprocess.Popen" else None)
    threading.setprofile(note)
    sys.setprofile(note)
    work()
    sys.setprofile(None)
    return f"{sum(name.startswith('surefind.') for name in modules)} modules, {len(started)} processes started"


def paths(folder: Path) -> dict[str, str]:
    from surefind import Access, KnowledgeBase
    from surefind.bench.plan import Plan, from_texts, parse_measures
    from surefind.bench.run import run_bench
    from surefind.exam.model import Exam, ExamQuery, Judgment

    (folder / "surefind.toml").write_text('[search]\npipeline = "words"\n')
    (folder / "fees.md").write_text("# Fees\n\nA wire costs 20.\n\n# Limits\n\nThree wires a day.\n")
    exam = Exam("tiny", (ExamQuery("1", "what does a wire cost?", (Judgment("fees.md"),), "questions"),))
    plan = Plan(tuple(from_texts(["bm25"], {})), exam, parse_measures(["nDCG@10"]))
    with KnowledgeBase.open(folder) as kb:
        return {
            "a write": traced(lambda: kb.sync(folder / "fees.md")),
            "a search": traced(lambda: kb.search("wire", Access.owner())),
            "a bench": traced(lambda: run_bench(kb, plan, "")),
            "a draft": traced(lambda: kb.drafts.publish(kb.drafts.add_bytes("fees.md", b"A wire costs 21.").number)),
        }


with tempfile.TemporaryDirectory() as made:
    print(*map("| {0[0]} | {0[1]} |".format, {**sizes(Path(sys.argv[1])), **paths(Path(made))}.items()), sep="\n")
