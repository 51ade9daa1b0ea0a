"""Names and settings of the agentic-knowledge-base study. Its figures are in `agentic_kb.toml`.

Figures 4 to 12 are images, so only what the text says about them is known. Table 5 is garbled in the copy at hand: its
cells are those that can be read, and those that the text repeats.
"""

from __future__ import annotations

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
