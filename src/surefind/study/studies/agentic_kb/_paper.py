"""The figures that the agentic-knowledge-base study printed, table by table.

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
Figures = dict[str, dict[str, dict[str, float]]]
"""Row -> set -> measure -> figure."""


def _figures(measures: tuple[str, ...], sets: tuple[str, ...], rows: dict[str, str]) -> Figures:
    made: Figures = {}
    for name, line in rows.items():
        numbers = [float(text) for text in line.split()]
        parts = [numbers[i * len(measures) : (i + 1) * len(measures)] for i in range(len(sets))]
        made[name] = {one: dict(zip(measures, part, strict=True)) for one, part in zip(sets, parts, strict=True)}
    return made


AGENTIC_1, AGENTIC_2 = "agentic-1", "agentic-2"
BASE = "hierarchical-2000-500-100"
"""The best deterministic layout of the paper, below agentic-1 and the graphs."""
CHUNKING = _figures(
    KEY,
    SETS,
    {
        "fixed-700-20": ".272 .389 .168 .357  .364 .409 .225 .471  .311 .357 .202 .407",
        "semantic-80-1-800": ".324 .430 .121 .408  .362 .405 .150 .470  .288 .333 .148 .375",
        BASE: ".387 .507 .243 .482  .467 .517 .318 .578  .369 .436 .282 .483",
        AGENTIC_1: ".369 .493 .238 .464  .469 .509 .315 .581  .394 .450 .279 .505",
        AGENTIC_2: ".248 .407 .165 .329  .413 .475 .263 .516  .305 .386 .216 .411",
    },
)
"""Table 1."""
COSTS = {
    "fixed-700-20": (0.445, 0.00, 0.198),
    "semantic-80-1-800": (4.263, 0.00, 0.197),
    BASE: (0.573, 0.00, 0.200),
    AGENTIC_1: (3.822, 2.45, 0.190),
    AGENTIC_2: (3.881, 0.13, 0.236),
}
"""Table 2: seconds and dollars per document, seconds per query."""

NO_GRAPH, ON_BASE, ON_AGENTIC = "Best Agentic (no graph)", "Graph + Hierarchical", "Graph + Agentic"
AVERAGES = {NO_GRAPH: 0.408, ON_BASE: 0.254, ON_AGENTIC: 0.210}
"""Figure 4: T1EM, averaged over the three sets."""
GRAPH = _figures(
    WIDE,
    SETS[1:],
    {
        NO_GRAPH: ".469 .747 .509 .756 .581 .315 .379  .394 .670 .450 .717 .505 .279 .293",
        ON_BASE: ".318 .752 .398 .757 .483 .264 .390  .285 .729 .367 .721 .417 .207 .273",
        ON_AGENTIC: ".248 .574 .333 .635 .374 .208 .299  .303 .563 .361 .641 .386 .209 .247",
    },
)
"""Table 3."""

ALPHAS = {"α = 0": 0.0, "α = 0.3": 0.3, "α = 0.5": 0.5, "α = 0.7": 0.7, "α = 1": 1.0}
LEARNED = {"ridge": "Learned Ridge", "xgboost": "Learned XGBoost", "mlp": "Learned MLP"}
ORACLE = "Oracle α*"
FUSION = _figures(
    KEY,
    SETS,
    {
        "α = 0": ".573 .618 .247 .649  .552 .561 .265 .671  .402 .383 .263 .503",
        "α = 0.3": ".547 .604 .242 .636  .544 .555 .256 .654  .433 .398 .254 .527",
        "α = 0.5": ".458 .545 .213 .583  .493 .511 .237 .635  .435 .415 .240 .540",
        "α = 0.7": ".337 .457 .171 .446  .426 .456 .207 .547  .366 .399 .205 .473",
        "α = 1": ".264 .397 .146 .365  .374 .419 .184 .487  .360 .406 .180 .455",
        "Learned Ridge": ".530 .598 .235 .626  .551 .560 .264 .669  .427 .418 .244 .531",
        "Learned XGBoost": ".537 .601 .239 .632  .556 .562 .266 .672  .439 .421 .236 .542",
        "Learned MLP": ".535 .599 .237 .630  .552 .562 .265 .672  .421 .413 .247 .535",
        ORACLE: ".561 .639 .246 .647  .622 .624 .274 .717  .465 .501 .255 .568",
    },
)
"""Table 4."""
R_SQUARED = {"ridge": 0.002, "xgboost": 0.589, "mlp": 0.215}
"""Figure 8."""
CHOSEN = {
    "ridge": "λ=100",
    "xgboost": "n_estimators=100, max_depth=7, learning_rate=0.1, subsample=0.8",
    "mlp": "hidden_dims=(128, 64), learning_rate=0.001, batch_size=128, dropout=0.5, weight_decay=0.01",
}
"""The hyperparameters below Figures 5, 6 and 7."""

THRESHOLDS = (0.50, 0.55, 0.60, 0.65, 0.70, 0.75, 0.80, 0.85, 0.90, 0.95, 1.00)
RERANK_COST = {0.60: 0.0031, 0.85: 0.0080}
RERANK_SECONDS = {0.50: 0.008, 0.95: 0.96, 1.00: 1.20}
"""Table 5, per question."""
RERANK_T1EM = {0.50: 0.537, 0.80: 0.606, 0.95: 0.620, 1.00: 0.632}
"""Figure 9. The figure of 0.95 is from the conclusion."""
SKIPPED_T5EM = {0.80: 0.398, 0.90: 0.465, 0.95: 0.546, 1.00: 0.627}
SKIPPED = {0.80: 12054, 0.95: 5655}
"""Figure 10: success of the questions that are not reranked, and how many there are."""
TAU, BETA = 0.95, 0.5

LADDER = {"Agentic": 0.408, "Graph": None, "Fusion": None, "Rerank": 0.620}
"""Figure 11: T1EM over all sets."""
