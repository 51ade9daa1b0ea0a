"""The figures that the cascade study printed, table by table."""

from __future__ import annotations

SETS = ("FiQA", "SciFact", "NFCorpus")
_Row = tuple[float, float, float]


def _by_set(rows: dict[str, _Row]) -> dict[str, dict[str, float]]:
    return {name: dict(zip(SETS, figures, strict=True)) for name, figures in rows.items()}


DENSE, BI, TRI, CE, FULL = "Dense Only", "Bi-Modal", "Tri-Modal", "Tri-Modal + CE", "Full Pipeline"
CONFIGURATIONS = (DENSE, BI, TRI, CE, FULL)
COMPONENTS = {
    DENSE: ("yes", "–", "–", "–", "–"),
    BI: ("yes", "yes", "–", "–", "–"),
    TRI: ("yes", "yes", "yes", "–", "–"),
    CE: ("yes", "yes", "yes", "yes", "–"),
    FULL: ("yes", "yes", "yes", "yes", "yes"),
}
"""Table A."""
PARTS = ("Dense", "Sparse", "Graph", "Cross-Encoder", "LLM")

STEPS = {TRI: "Tri-Modal Retrieval", CE: "+ Cross-Encoder", FULL: "+ LLM Reranking (Full)"}
"""The columns of Table I, which are rows of Table II under other names."""
ABLATION = _by_set(
    {
        DENSE: (0.3850, 0.6996, 0.3537),
        BI: (0.2648, 0.7449, 0.3468),
        TRI: (0.2628, 0.6896, 0.2925),
        CE: (0.3596, 0.7210, 0.3976),
        FULL: (0.3873, 0.7556, 0.3981),
    }
)
"""Tables I and II: nDCG@10."""

STATIC, TUNED, DYNAMIC = "Static (0.50, 0.35, 0.15)", "Static (tuned here)", "Dynamic (query alone)"
RULE, INFORMED = "Dynamic by rule (no model)", "Dynamic (with score distributions)"
WEIGHTS = _by_set({STATIC: (0.2730, 0.7603, 0.3482), DYNAMIC: (0.2628, 0.6896, 0.2925)})
"""Table III: nDCG@10."""

SWAPS = _by_set(
    {
        "Cross-encoder: average swaps": (9.34, 8.87, 9.32),
        "Cross-encoder: top-1 changed, %": (84, 50, 77),
        "LLM: average swaps": (1.96, 0.96, 1.45),
        "LLM: top-1 changed, %": (61, 30, 48),
    }
)
"""Table IV."""

DEGRADED = {
    "LLM: degraded questions": ("10 / 100", "5 / 100", "10 / 100"),
    "LLM: degraded, with a number": ("1 / 10", "1 / 5", "0 / 10"),
    "LLM: mean words, degraded and all": ("11.1, 10.8", "15.8, 11.7", "4.7, 3.5"),
}
"""Table V. The paper counts tokens."""

WORST = (
    ("FiQA", -0.3691, "Opening a Roth IRA account, what is the fee structure for Vanguard, Scottrade..."),
    ("FiQA", -0.2263, "Should a retail trader bother about reading SEC filings"),
    ("SciFact", -0.3691, "1,000 genomes project enables mapping of genetic sequence variation..."),
    ("SciFact", -0.3691, "Active H. pylori urease has a polymeric structure..."),
    ("NFCorpus", -0.1931, "What do you think of Dr. Jenkins' take on paleolithic diets?"),
    ("NFCorpus", -0.1551, "black raspberries"),
)
"""Table VI."""

LATENCY = _by_set(
    {
        "Weight Assignment": (2047, 1941, 2174),
        "Retrieval": (1014, 139, 171),
        "Cross-Encoder": (8775, 6930, 16902),
        "LLM Reranking": (31971, 4186, 4703),
        "Total": (43807, 13196, 23951),
    }
)
"""Table VII: milliseconds per question, means."""
