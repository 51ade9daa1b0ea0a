"""No step of a search gets significantly worse because of a model that cannot do what it is asked.

Five scripted models (`tests/scripted_models.py`) answer on a loopback server, for questions of the sample that
its staff would ask. Each step is compared with the same pipeline without it, by nDCG@10 and a paired permutation test.
35 questions find losses from about 0.05 on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from cases import each, mostly_long
from llm_server import LLMServer, serving
from scripted_models import SCRIPTED, scripted
from surefind.base.access import Access
from surefind.base.types import Floats, Query
from surefind.doors.cli.demo import sample_folder, sample_questions, sample_vectors
from surefind.engine.search.pipeline import Pipeline
from surefind.kb import KnowledgeBase
from surefind.lab.bench.engine import places_of
from surefind.lab.exam.formats.library import Library
from surefind.lab.exam.formats.table import read_table
from surefind.lab.measure.ranks import MEASURES, Judge
from surefind.lab.measure.statistics import permutation_p

pytest.importorskip("httpx")
pytestmark = pytest.mark.usefixtures("remembered_models")

QUESTIONS = 35
HYBRID = "bm25 + dense >> convex(alpha=0.5)"
STEPS = {
    "llm_listwise": (HYBRID, f"{HYBRID} >> llm_listwise(model=MODEL, top=20, keep=10)"),
    "hyde": ("dense", "hyde(retriever=dense, model=MODEL)"),
    "hyde of words": ("bm25", "hyde(retriever=bm25, model=MODEL)"),
    "multi_query": ("dense", "multi_query(retriever=dense, model=MODEL)"),
    "multi_query of words": ("bm25", "multi_query(retriever=bm25, model=MODEL)"),
    "llm_weights": (HYBRID, "bm25 + dense >> llm_weights(model=MODEL)"),
    "graph_local": ("graph_local", "graph_local(entities=llm, llm=MODEL)"),
    "llm_weights by query": (HYBRID, "bm25 + dense >> llm_weights(model=MODEL, mode=query)"),
    "slidegar": (HYBRID, f"{HYBRID} >> slidegar(model=MODEL, top=15, window=10, step=5)"),
    "agentic": (HYBRID, f"{HYBRID} >> agentic(model=MODEL, steps=2)"),
}

ALPHA = 0.05 / (len(STEPS) * len(SCRIPTED))
"""The level of one comparison, so that all of them together have 0.05."""
MOST = -0.05
"""The largest mean loss that is accepted, significant or not."""


@dataclass
class Sample:
    kb: KnowledgeBase
    llm: LLMServer

    def __post_init__(self) -> None:
        every = self.kb.documents(Access.owner())
        queries = read_table(sample_questions(), Library(every)).queries
        self.queries = queries[:: len(queries) // QUESTIONS][:QUESTIONS]
        self.view = self.kb.reader().view
        texts = {document.id: document.text for document in every}
        self.judge = Judge(self.queries, places_of(self.view.spans(), texts))
        self.known: dict[str, Floats] = {}
        self.notes: dict[tuple[str, str], str] = {}

    def scores(self, text: str, model: str = "") -> Floats:
        """nDCG@10 of each question."""
        if text not in self.known or model:
            answer = scripted(model or "constant")
            self.llm.reply = answer
            pipeline = Pipeline.parse(text.replace("MODEL", json.dumps(f"{self.llm.url}#{model}")))
            self.kb.build_for(pipeline.retrieve)
            queries = [Query(query.text) for query in self.queries]
            found = pipeline.run(queries, 10, self.kb.reader().reading(Access.owner()))
            self.notes.setdefault((text, model), "; ".join(entry.note for entry in found.trace))
            self.known[text] = MEASURES["nDCG"](self.judge.gains(found.rankings, "document"), 10)
        return self.known[text]

    def change(self, step: str, model: str, text: str = "") -> tuple[float, float]:
        """The mean change by a step, and the p of a paired permutation test."""
        plain, with_step = STEPS[step]
        differences = self.scores(text or with_step, model) - self.scores(plain)
        return float(np.mean(differences)), float(permutation_p(differences[:, None])[0])


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory, remembered_models: None) -> Iterator[Sample]:
    with serving() as llm, KnowledgeBase.open(tmp_path_factory.mktemp("harmless")) as kb:
        kb.services.keep_vectors(sample_vectors())
        kb.sync(sample_folder())
        yield Sample(kb, llm)


@pytest.mark.parametrize("step", mostly_long(STEPS, 4))
def test_no_search_gets_significantly_worse(sample: Sample, step: str) -> None:
    found = {model: sample.change(step, model) for model in SCRIPTED}
    worse = {model: (mean, p) for model, (mean, p) in found.items() if (mean < 0 and p < ALPHA) or mean < MOST}
    assert worse == {}


@each(
    ("step", "text"),
    [
        ("llm_listwise", f"{HYBRID} >> llm_listwise(model=MODEL, top=20, keep=10, reverse=false)"),
        ("slidegar", f"{HYBRID} >> slidegar(model=MODEL, top=15, window=10, step=5, reverse=false)"),
        ("agentic", f"{HYBRID} >> agentic(model=MODEL, steps=2, reverse=false)"),
    ],
)
def test_a_model_that_answers_at_random_does_harm_where_it_is_asked_once(sample: Sample, step: str, text: str) -> None:
    """So the test above can fail."""
    mean, p = sample.change(step, "random", text)
    assert mean < MOST and p < 0.01


@each(
    ("step", "model", "said"),
    [
        ("llm_listwise", "reversing", "The answer contained no order"),
        ("hyde of words", "echoing", "The draft was empty, or the question itself"),
        ("hyde of words", "random", "The draft finds nothing that the question finds"),
        ("multi_query", "truncating", "The answer contained no queries"),
        ("multi_query", "random", "The rewrites find nothing that the question finds"),
        ("llm_weights", "truncating", "even weights"),
    ],
)
def test_answers_without_information_are_said_in_the_trace(sample: Sample, step: str, model: str, said: str) -> None:
    sample.scores(STEPS[step][1], model)
    assert said in sample.notes[STEPS[step][1], model]
