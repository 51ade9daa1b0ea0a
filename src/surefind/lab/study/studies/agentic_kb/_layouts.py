"""The layouts of the agentic-knowledge-base study: its grid of 18 (4.2) and the two that ask a language model."""

from __future__ import annotations

from surefind.lab.study.desk import RunContext
from surefind.lab.study.stage import Before
from surefind.lab.study.studies.agentic_kb import _paper as paper

_FIXED = [(700, 10), (700, 20), (1000, 10), (1000, 20), (1300, 10), (1300, 20)]
_SEMANTIC = [(80, 0, 800), (80, 1, 800), (80, 0, 1000), (80, 1, 1000), (90, 0, 1200), (90, 1, 1200)]
_HIERARCHICAL = [(2000, 500), (2000, 800), (3000, 1000)]
_ASKED = "temperature=0.2, prompt=paper, max_tokens=1000"
"""How the thesis asks: its own words, at most 1,000 tokens of an answer, and always about the whole document."""
_CONTEXT = f"llm_context({_ASKED}, context_tokens=1000, document_tokens=null)"

LAYOUTS = {
    **{f"fixed-{w}-{o}": f"fixed(tokens={w}, overlap={w * o // 100})" for w, o in _FIXED},
    **{
        f"semantic-{p}-{b}-{m}": f"semantic(threshold={p}, buffer={b}, max_tokens={m}, windows=joined)"
        for p, b, m in _SEMANTIC
    },
    **{
        f"hierarchical-{p}-{c}-{o}": f"hierarchical(parent={p}, child={c}, overlap={o})"
        for p, c in _HIERARCHICAL
        for o in (50, 100)
    },
}
BASE = LAYOUTS[paper.BASE]
LAYOUTS |= {
    paper.AGENTIC_1: f"{BASE} + {_CONTEXT}",
    paper.AGENTIC_2: f"llm_segments({_ASKED}, part_words=null, base={BASE}) + {_CONTEXT}",
}


BOUNDED = {
    paper.AGENTIC_1: f"{BASE} + llm_context(temperature=0.2, prompt=paper)",
    paper.AGENTIC_2: "llm_segments(temperature=0.2, prompt=paper) + llm_context(temperature=0.2, prompt=paper)",
}
"""The two with the limits that Surefind has by default: 8,000 tokens of a document, 150 of a context, and Markdown
sections where a document cannot be cut."""


def layout_of(desk: RunContext, name: str) -> str:
    """A layout by its name, with the limits that the user chose."""
    return BOUNDED.get(name, LAYOUTS[name]) if desk.options.limits == "surefind" else LAYOUTS[name]


def winner(desk: RunContext, before: Before) -> str:
    """The name of the layout that later stages use: the one that the user chose, or the one with the best key measures;
    that of the paper's grid until they are measured."""
    return desk.options.winner or str(before.get("chunking", {}).get("winner", paper.BASE))
