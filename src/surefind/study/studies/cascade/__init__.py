"""`cascade`: what each stage of a cascade adds: three retrievers, fusion, a cross-encoder, a language model.

Component-Level Evaluation of Cascaded Retrieval and Reranking in RAG (FiQA, SciFact, NFCorpus, 100 questions each). The
cross-encoder reads 100 passages of each question, which takes about 3 seconds on two cores. So 25 questions are asked
unless `--questions 100` asks for as many as the paper.
"""

from __future__ import annotations

from surefind.study.stage import Stage, Study
from surefind.study.studies.cascade import _measure as measure
from surefind.study.studies.cascade import _tables as tables

_ABLATION = (
    "Table A",
    "Table I",
    "Table II",
    "Measures",
    "Table IV",
    "Table V",
    "Table VI",
    "Degraded by kind",
)

STUDY = Study(
    "The cascade: retrieve, fuse, rerank",
    "Component-Level Evaluation of Cascaded Retrieval and Reranking in RAG: Ablations Across Financial, Biomedical, "
    "and Medical Domains",
    (
        Stage("ablation", _ABLATION, measure.ablate, tables.ablation, measure.ablation),
        Stage("tuning", ("Static weights",), measure.tune, tables.static_weights),
        Stage("fusion", ("Table III",), measure.fuse, tables.weights, measure.fusions, ("tuning",)),
        Stage("latency", ("Table VII",), measure.clock, tables.latency, measure.timed),
    ),
    questions=25,
)
