"""`cascade`: one modality after the other, then a cross-encoder over what they agree on.

The ablation of the cascade study (Tables A and II): dense, dense + sparse, all three by reciprocal rank, and a
cross-encoder on top; there it recovered what fusion had lost on every set. Its first 100 are the first 20 here, which
the bundled cross-encoder reads in under a second. Beside the study's own stand its static weights, the cross-encoder
blended with the ranking before it, and both on the hybrid that needs no graph. The study's last stage asks a language
model: add it with `--pipeline "… >> llm_listwise(top=10, keep=5)"`.
"""

from __future__ import annotations

_THREE = "dense + sparse + entity_overlap"
_HYBRID = "bm25 + dense >> convex(alpha=0.5, missing=score)"

CONTENDERS = {
    "Dense only": "dense",
    "Bi-modal": "dense + sparse >> rrf(k=60)",
    "Tri-modal": f"{_THREE} >> rrf(k=60)",
    "Tri-modal, static weights": f"{_THREE} >> weighted(weights=[0.5, 0.35, 0.15])",
    "Tri-modal + CE": f"{_THREE} >> rrf(k=60) >> cross_encoder(blend=1.0)",
    "Tri-modal + CE, blended": f"{_THREE} >> rrf(k=60) >> cross_encoder(blend=0.5)",
    "Hybrid": _HYBRID,
    "Hybrid + CE, blended": f"{_HYBRID} >> cross_encoder(blend=0.5)",
}
MEASURES = ("nDCG@10", "RR@10", "AP@10", "R@10", "P@10")
