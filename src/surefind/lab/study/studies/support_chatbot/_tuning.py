"""Table 8 of the support-chatbot study (appendix D): an encoder as it is and fine-tuned, by four measures at two sizes.

A language model writes the training data: questions about passages (MultipleNegativesRankingLoss), or questions with a
negative (TripletLoss). GPL has questions, mined negatives and labels of a cross-encoder (MarginMSE). One epoch, a rate
of 6.25e-6, batches of 8, a warm-up of 500 steps. As in the paper, the data is written about all documents. Rows of our
own are trained on headings and links, which need no language model. An encoder is trained once for each size.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from surefind.base.errors import MissingPartError, SurefindError
from surefind.base.prompts.values import Calls
from surefind.base.protocols import Services
from surefind.engine.embed.onnx import Onnx
from surefind.engine.embed.sentence_transformers import SentenceTransformers
from surefind.engine.retrieve.dense import Dense
from surefind.engine.search.pipeline import Pipeline
from surefind.engine.write.layout import Layout
from surefind.lab.bench.plan import Contender
from surefind.lab.study.desk import RunContext
from surefind.lab.study.scores import summary
from surefind.lab.study.stage import Before
from surefind.lab.study.studies.support_chatbot import _paper as paper
from surefind.lab.study.values import NEEDS_LLM
from surefind.lab.train.job import SENTENCES, TrainingJob, need_torch, trainable

MEASURES = ("R@10", "nDCG@5", "nDCG@10", "R@50")
_MAX_PAIRS = 2000
"""Pairs to train on, at most. The paper has 55,257 questions and about 5,000 triplets."""
_PER_PASSAGE = 3
"""Questions that are written about a passage."""
_TOKENS = 4
"""Characters of a token, about."""


@dataclass(frozen=True)
class _Way:
    """A way to fine-tune."""

    sources: tuple[str, ...]
    write: str = "questions"
    loss: str = "multiple-negatives"


_WAYS = {
    "fine-tuned on questions": _Way(("llm",)),
    "fine-tuned on triplets": _Way(("llm",), "triplets", "triplet"),
    "fine-tuned on headings and links (ours)": _Way(("headings", "links")),
}
_GPL = _Way(("llm",), "questions", "margin-mse")
PLAIN, OTHER, OTHER_GPL = "as it is", "another encoder, 512", "another encoder, GPL, 512"


def encoders(desk: RunContext, before: Before) -> tuple[str, str]:
    """The specs of the best encoder, and of the next one; "" if there is none."""
    best = str(before.get("encoders", {}).get("encoder") or (desk.options.encoders or ("minilm",))[0])
    return best, next((encoder for encoder in desk.options.encoders if encoder != best), "")


def untuned(desk: RunContext, before: Before) -> list[Contender]:
    """The encoders as they are."""
    best, other = encoders(desk, before)
    rows = [desk.contender(f"{PLAIN}, {size}", str(Dense(best)), _layout(size)) for size in reversed(paper.TUNED_SIZES)]
    return [*rows, *([desk.contender(OTHER, str(Dense(other)), _layout(512))] if other else [])]


def tuning_calls(desk: RunContext, before: Before) -> list[Calls]:
    """The most calls: questions and triplets about the passages of both sizes. GPL reads the same questions."""
    if _why_not(encoders(desk, before)[0], desk.kb.services):
        return []
    texts = [len(document.text) for document in desk.kb.documents(desk.access)]
    tokens, documents = sum(texts) // _TOKENS, len(texts)
    calls_made = []
    for size in paper.TUNED_SIZES:
        passages = tokens // size + documents  # each document ends with a shorter one
        calls = min(passages, -(-_MAX_PAIRS // _PER_PASSAGE)) + min(passages, _MAX_PAIRS)
        calls_made.append(Calls("", calls, calls * (min(size, 1000) + 250), 100 * calls))
    return calls_made


def fine_tune(desk: RunContext, before: Before, allowed: Sequence[Contender]) -> dict[str, Any]:
    """Trains the encoders in each way, and measures all of them on the questions of the other tables."""
    best, other = encoders(desk, before)
    wanted = {f"{name}, {size}": (best, way, size) for name, way in _WAYS.items() for size in paper.TUNED_SIZES}
    wanted[OTHER_GPL] = (other or best, _GPL, 512)
    left_out = {} if other else {OTHER: "left out: needs a second one (--encoder)"}
    made: list[Contender] = []
    for row, (encoder, way, size) in wanted.items():
        why = "" if desk.options.llm or "llm" not in way.sources else NEEDS_LLM
        why = why or _why_not(encoder, desk.kb.services)
        trained = why or _trained(desk, row, encoder, way, size)
        if isinstance(trained, str):
            left_out[row] = trained
        else:
            made.append(trained)
    scored = desk.score([*allowed, *made], MEASURES)
    missing = any(why != NEEDS_LLM for why in left_out.values() if "--encoder" not in why)
    return {**summary(scored), "left_out": left_out, "provisional": missing}


def _trained(desk: RunContext, row: str, encoder: str, way: _Way, size: int) -> Contender | str:
    """The trained encoder as a configuration, or why there is none."""
    from surefind.lab.train.neural import fit_encoder  # needs torch

    name = re.sub(r"[^A-Za-z0-9]+", "-", f"study-{row}-{desk.collection.name}").strip("-").lower()
    job = TrainingJob(
        "encoder", name, way.sources, loss=way.loss, write=way.write, most=_MAX_PAIRS,
        rate=6.25e-6, warmup=500, batch=8, epochs=1, share=1.0,
    )  # fmt: skip
    layout = _layout(size)
    try:
        folder = fit_encoder(desk.kb, job, Pipeline.parse(str(Dense(encoder))), Layout.read(layout), desk.report)
    except SurefindError as error:  # weights of another kind than BERT, too few pairs, a model that does not answer
        return f"left out: {str(error).rstrip('.')}"
    sentences = (folder / SENTENCES).is_file()
    spec = SentenceTransformers(model=str(folder)) if sentences else Onnx(path=str(folder))
    return Contender(row, Pipeline.parse(str(Dense(str(spec))), row), Layout.read(layout))


def _why_not(encoder: str, services: Services) -> str:
    """Why an encoder cannot be trained here; "" if it can."""
    try:
        need_torch()
    except MissingPartError as error:
        return f"left out: {str(error).rstrip('.')}"
    if trainable(encoder, services) is None:
        return f"left out: {encoder} cannot be trained here: it is neither bundled nor a folder with weights"
    return ""


def _layout(size: int) -> str:
    return f"fixed(tokens={size}, overlap=0)"
