"""Each of the four paths of ARCHITECTURE leads through few modules, so that a person can read one in an afternoon."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

MOST = 40
TRACE = r"""
import inspect, json, sys, threading
from pathlib import Path

def traced(work):
    modules = set()

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_flags & inspect.CO_OPTIMIZED:  # a function, not a module or class
            modules.add(str(frame.f_globals.get("__name__")))

    threading.setprofile(note)
    sys.setprofile(note)
    work()
    sys.setprofile(None)
    threading.setprofile(None)
    return sorted(name for name in modules if name.startswith("surefind."))

from surefind import Access, KnowledgeBase
from surefind.lab.bench.plan import Plan, from_texts, parse_measures
from surefind.lab.bench.run import run_bench
from surefind.lab.exam.model import Exam, ExamQuery, Judgment

folder = Path(sys.argv[1])
(folder / "surefind.toml").write_text('[search]\npipeline = "words"\n[pipelines.words]\nretrieve = ["bm25"]\n')
(folder / "fees.md").write_text("# Fees\n\nA wire costs 20.\n\n# Limits\n\nThree wires a day.\n")
exam = Exam("tiny", (ExamQuery("1", "what does a wire cost?", (Judgment("fees.md"),), "questions"),))
plan = Plan(tuple(from_texts(["bm25"], {})), exam, parse_measures(["nDCG@10"]))
with KnowledgeBase.open(folder) as kb:
    print(json.dumps({
        "sync": traced(lambda: kb.sync(folder / "fees.md")),
        "search": traced(lambda: kb.search("wire", Access.owner())),
        "bench": traced(lambda: run_bench(kb, plan, "")),
        "draft": traced(lambda: kb.drafts.publish(kb.drafts.add_bytes("fees.md", b"A wire costs 21.").number)),
    }))
"""


def test_each_path_leads_through_at_most_40_modules(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", TRACE, str(tmp_path)], capture_output=True, text=True, check=True)
    paths = json.loads(done.stdout)
    assert {name: len(modules) for name, modules in paths.items() if len(modules) > MOST} == {}
    assert all(len(modules) > 20 for modules in paths.values()), "they are traced"
