"""`chunking`: compares layouts on questions with gold passages.

The grid of the agentic-knowledge-base study (2025, section 4.2: six settings each of fixed, semantic and hierarchical;
hierarchical was first in its Table 1), and layouts that we would choose ourselves, all with the default pipeline. With
`--pipeline`, every layout is run with those pipelines instead.
"""

from __future__ import annotations

_FIXED = [(700, 10), (700, 20), (1000, 10), (1000, 20), (1300, 10), (1300, 20)]
_SEMANTIC = [(80, 0, 800), (80, 1, 800), (80, 0, 1000), (80, 1, 1000), (90, 0, 1200), (90, 1, 1200)]
_HIERARCHICAL = [
    (2000, 500, 50),
    (2000, 500, 100),
    (2000, 800, 50),
    (2000, 800, 100),
    (3000, 1000, 50),
    (3000, 1000, 100),
]

CONTENDERS = {"hybrid": "bm25 + dense >> convex(alpha=0.5, missing=score)"}
LAYOUTS = {
    **{f"fixed-{w}-{o}": f"fixed(tokens={w}, overlap={w * o // 100})" for w, o in _FIXED},
    **{f"semantic-{p}-{b}-{m}": f"semantic(threshold={p}, buffer={b}, max_tokens={m})" for p, b, m in _SEMANTIC},
    **{f"hierarchical-{p}-{c}-{o}": f"hierarchical(parent={p}, child={c}, overlap={o})" for p, c, o in _HIERARCHICAL},
    "fixed-700-20 + headings": "fixed(tokens=700, overlap=140) + headings",
    "markdown-250 + headings": "markdown(tokens=250, min_tokens=50) + headings",
    "sentence_window-3 + headings": "sentence_window(window=3) + headings",
    "hierarchical-700-250-0 + headings": "hierarchical(parent=700, child=250, overlap=0) + headings",
    "hierarchical-1500-200-0 + headings": "hierarchical(parent=1500, child=200, overlap=0) + headings",
    "hierarchical-1500-250-0 + headings": "hierarchical(parent=1500, child=250, overlap=0) + headings",
    "hierarchical-1500-250-0 + neighbors": "hierarchical(parent=1500, child=250, overlap=0) + neighbors",
    "whole": "whole",
}
MEASURES = ("T1EM", "T1C", "T1O", "MRR", "SpanR@5", "SpanP@5", "IoU@5")
