"""Names and settings of the agentic-knowledge-base study. Its figures are in `agentic_kb.toml`.

Figures 4 to 12 are images, so only what the text says about them is known. Table 5 is garbled in the copy at hand: its
cells are those that can be read, and those that the text repeats.

Means by the study's three sets of questions, where an exam has them (`surefind exam write`), or over all.

The layouts of the agentic-knowledge-base study: its grid of 18 (4.2) and the two that ask a language model.

Scores rankings that no pipeline made: blends with learned weights, and rankings that were reranked in part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from surefind.base.types import Floats, Rankings
from surefind.engine.search.pipeline import fold
from surefind.lab.bench.engine import OWNER, Scored, SpanScores
from surefind.lab.bench.plan import parse_measures
from surefind.lab.exam.model import ExamQuery
from surefind.lab.study.context import RunContext
from surefind.lab.study.stage import Before

SETS = ("SF1H", "SF2H", "MF2H")
"""Questions about one segment, about two segments of a file, and about segments of two files."""
KEY = ("T1EM", "T1C", "T1O", "MRR")
"""The four key measures."""
WIDE = ("T1EM", "T5EM", "T1C", "MC", "MRR", "T1O", "BO")
"""The measures of Table 3."""
AGENTIC_1, AGENTIC_2 = "agentic-1", "agentic-2"
BASE = "hierarchical-2000-500-100"
"""The best deterministic layout of the paper, below agentic-1 and the graphs."""
NO_GRAPH, ON_BASE, ON_AGENTIC = "Best Agentic (no graph)", "Graph + Hierarchical", "Graph + Agentic"
ALPHAS = {"α = 0": 0.0, "α = 0.3": 0.3, "α = 0.5": 0.5, "α = 0.7": 0.7, "α = 1": 1.0}
LEARNED = {"ridge": "Learned Ridge", "xgboost": "Learned XGBoost", "mlp": "Learned MLP"}
ORACLE = "Oracle α*"
THRESHOLDS = (0.50, 0.55, 0.60, 0.65, 0.70, 0.75, 0.80, 0.85, 0.90, 0.95, 1.00)
TAU, BETA = 0.95, 0.5


class Scorer:
    """Computes gold-span measures of rankings on the layout of a stage's first contender."""

    def __init__(
        self, context: RunContext, scored: Scored, queries: Sequence[ExamQuery], measures: Sequence[str]
    ) -> None:
        documents = {
            document.id: document.text for document in context.bench.reader(scored.plan.contenders[0]).documents(OWNER)
        }
        plan = replace(scored.plan, exam=replace(scored.plan.exam, queries=tuple(queries)))
        self._view = scored.view
        self._spans = SpanScores(plan, self._view.spans(), scored.judges[0].places, documents)
        self._measures = parse_measures(measures)

    def scores(self, ranking: Rankings) -> dict[str, Floats]:
        """Measure -> the score of each question. Each larger passage counts once, as in a search."""
        whole = fold(ranking, self._view.parents)
        return {str(measure): self._spans.of(whole, measure) for measure in self._measures}


ALL = "all"
Groups = dict[str, dict[str, dict[str, float]]]
"""Group -> row -> measure -> mean."""


def groups_of(families: Sequence[str], rows: Mapping[str, Mapping[str, Floats]]) -> Groups:
    """The means of each row over all questions, and over each of the study's sets that the exam has."""
    named = np.array([family.upper() for family in families])
    parts = {ALL: np.full(len(named), True), **{name: named == name for name in SETS}}
    return {
        group: {
            row: {measure: float(values[inside].mean()) for measure, values in scores.items()}
            for row, scores in rows.items()
        }
        for group, inside in parts.items()
        if inside.any()
    }


def by_row(scores: Mapping[str, Floats], names: Sequence[str]) -> dict[str, dict[str, Floats]]:
    """The scores of a stage by row: measure -> (questions, rows) becomes row -> measure -> questions."""
    return {name: {measure: table[:, i] for measure, table in scores.items()} for i, name in enumerate(names)}


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
_FIRST = LAYOUTS[BASE]
LAYOUTS |= {
    AGENTIC_1: f"{_FIRST} + {_CONTEXT}",
    AGENTIC_2: f"llm_segments({_ASKED}, part_words=null, base={_FIRST}) + {_CONTEXT}",
}


BOUNDED = {
    AGENTIC_1: f"{_FIRST} + llm_context(temperature=0.2, prompt=paper)",
    AGENTIC_2: "llm_segments(temperature=0.2, prompt=paper) + llm_context(temperature=0.2, prompt=paper)",
}
"""The two with the limits that Surefind has by default: 8,000 tokens of a document, 150 of a context, and Markdown
sections where a document cannot be cut."""


def layout_of(context: RunContext, name: str) -> str:
    """A layout by its name, with the limits that the user chose."""
    return BOUNDED.get(name, LAYOUTS[name]) if context.options.limits == "surefind" else LAYOUTS[name]


def winner(context: RunContext, before: Before) -> str:
    """The name of the layout that later stages use: the one that the user chose, or the one with the best key measures;
    that of the paper's grid until they are measured."""
    return context.options.winner or str(before.get("chunking", {}).get("winner", BASE))
