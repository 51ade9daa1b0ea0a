"""`cascade`: what each stage of a cascade adds: three retrievers, fusion, a cross-encoder, a language model.

Component-Level Evaluation of Cascaded Retrieval and Reranking in RAG (FiQA, SciFact, NFCorpus, 100 questions each). As
many are asked here. The cross-encoder reads 100 passages of each, which takes about 3 seconds on two cores: ask fewer
with `--questions`.
"""

from __future__ import annotations

from surefind.lab.study.declared import load_tables
from surefind.lab.study.stage import Study, StudyPart
from surefind.lab.study.studies.cascade import _cells
from surefind.lab.study.studies.cascade import _measure as measure

_TABLES = load_tables("cascade", vars(_cells))
STUDY = Study(
    "The cascade: retrieve, fuse, rerank",
    "Component-Level Evaluation of Cascaded Retrieval and Reranking in RAG: Ablations Across Financial, Biomedical, "
    "and Medical Domains",
    (
        StudyPart("ablation", measure.ablate, _TABLES["ablation"], measure.ablation, version=2),
        StudyPart("tuning", measure.tune, _TABLES["tuning"], version=2),
        StudyPart("fusion", measure.fuse, _TABLES["fusion"], measure.fusions, ("tuning",)),
        StudyPart("latency", measure.clock, _TABLES["latency"], measure.timed, version=2),
    ),
    questions=100,
)
