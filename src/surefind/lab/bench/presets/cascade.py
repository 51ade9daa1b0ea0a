"""`cascade`: adds one retriever after the other, then a cross-encoder on top.

The ablation of the cascade study (Tables A and II): dense, dense + sparse, all three by reciprocal rank fusion, and a
cross-encoder on top. In the study, the cross-encoder more than recovered what fusion had lost against dense retrieval
on NFCorpus (nDCG@10 0.398 against 0.354) and on SciFact (0.721 against 0.700), but not on FiQA (0.360 against 0.385),
and on SciFact it stayed below dense + sparse (0.745). The study reranks the first
100; here it is the first 20, which the bundled cross-encoder reads in under a second. The preset adds the study's
static weights, the cross-encoder blended with the ranking before it, and a hybrid that needs no graph. The study's last
stage calls a language model: add it with `--pipeline "… >> llm_listwise(top=10, keep=5)"`.
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
