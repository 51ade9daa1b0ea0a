"""The stages of the support-chatbot study: encoders, fusion, concatenation, reranking, HyDE, chunk sizes, prompts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from surefind.bench.plan import Contender
from surefind.embed.concat import Concat
from surefind.errors import MissingPartError, SurefindError
from surefind.exam.model import Exam
from surefind.measure.names import parse_measure
from surefind.prompts.values import Calls
from surefind.rerank.llm_listwise import LLMListwise
from surefind.retrieve.dense import Dense
from surefind.retrieve.hyde import HyDE
from surefind.search.pipeline import Pipeline
from surefind.study.desk import RunContext
from surefind.study.scores import best_of, summary
from surefind.study.stage import Before
from surefind.study.studies.support_chatbot import _paper as paper
from surefind.study.values import NEEDS_LLM
from surefind.train.job import TrainingJob, need_torch, trainable
from surefind.train.material import MIN_QUESTIONS
from surefind.train.prompt import ListwiseTrainer

MEASURES = ("R@10", "R@50", "nDCG@10", "nDCG@50")
"""R@10 decides between configurations, R@50 chooses the champion, as in the paper."""
UNTUNED, TUNED = "your encoder", "your encoder, fine-tuned"
SECOND = f"{paper.CHAMPION} + another encoder"
_BM25 = "bm25"
_LIST = LLMListwise(top=50, keep=10, reverse=False)
_CE = "cross_encoder(top=50, keep=50, blend=1.0)"


def _scored(desk: RunContext, allowed: Sequence[Contender]) -> dict[str, Any]:
    return summary(desk.score(allowed, MEASURES))


# ---------------------------------------------------------------- encoders


def retrievers(desk: RunContext) -> dict[str, str]:
    """The retrievers that are compared, by name: every encoder, and BM25."""
    models = desk.options.encoders or ("minilm",)
    return {**{model: str(Dense(model)) for model in models}, paper.BM25: _BM25}


def encoders(desk: RunContext, before: Before) -> list[Contender]:
    return desk.contenders(retrievers(desk))


def compare(desk: RunContext, before: Before, allowed: Sequence[Contender]) -> dict[str, Any]:
    """The recall of each retriever; the champion by R@50, and the best encoder."""
    found = _scored(desk, allowed)
    names = [contender.name for contender in allowed]
    dense = [name for name in names if name != paper.BM25]
    return {**found, "champion": best_of(found, names, "R@50"), "encoder": best_of(found, dense, "R@50")}


def champion(desk: RunContext, before: Before) -> str:
    """The name of the best retriever by R@50; the first encoder while that is not known."""
    return str(before.get("encoders", {}).get("champion") or next(iter(retrievers(desk))))


def encoder(desk: RunContext, before: Before) -> str:
    """The spec of the best encoder by R@50."""
    return str(before.get("encoders", {}).get("encoder") or next(iter(retrievers(desk))))


# ---------------------------------------------------------------- two retrievers


def pairs(desk: RunContext, before: Before) -> dict[str, str]:
    """The champion alone and with each of the others, by reciprocal rank fusion."""
    every, best = retrievers(desk), champion(desk, before)
    others = {
        f"{paper.CHAMPION} + {name}": f"{every[best]} + {text} >> rrf(k=60)"
        for name, text in every.items()
        if name != best
    }
    return {paper.CHAMPION: every[best], **others}


def fused(desk: RunContext, before: Before) -> list[Contender]:
    return desk.contenders(pairs(desk, before))


def fuse(desk: RunContext, before: Before, allowed: Sequence[Contender]) -> dict[str, Any]:
    found = _scored(desk, allowed)
    return {**found, "best": best_of(found, [contender.name for contender in allowed], "R@10")}


def joined(desk: RunContext, before: Before) -> list[Contender]:
    """The best encoder alone, and its vectors joined with those of each other encoder."""
    best = encoder(desk, before)
    others = [model for model in desk.options.encoders if model != best]
    both = {f"{paper.CHAMPION} + {other}": str(Dense(str(Concat((best, other))))) for other in others}
    return desk.contenders({paper.CHAMPION: str(Dense(best)), **both})


def join(desk: RunContext, before: Before, allowed: Sequence[Contender]) -> dict[str, Any]:
    found = _scored(desk, allowed)
    return found if len(allowed) > 1 else {**found, "left_out": {SECOND: "left out: needs a second one (--encoder)"}}


# ---------------------------------------------------------------- reranking


def best_pair(desk: RunContext, before: Before) -> str:
    """The pipeline of the best row of Table 3 by R@10."""
    every = pairs(desk, before)
    return every.get(str(before.get("fusion", {}).get("best")), every[paper.CHAMPION])


def reranked(desk: RunContext, before: Before) -> list[Contender]:
    base = best_pair(desk, before)
    return desk.contenders(
        {
            paper.CHAMPION: base,
            paper.CE: f"{base} >> {_CE}",
            paper.LLM: f"{base} >> {_LIST}",
            paper.SLIDE: f"{base} >> slidegar(top=50, reverse=false)",
            paper.BM25: _BM25,
            paper.BM25_CE: f"{_BM25} >> {_CE}",
            paper.BM25_LLM: f"{_BM25} >> {_LIST}",
        }
    )


def rerank(desk: RunContext, before: Before, allowed: Sequence[Contender]) -> dict[str, Any]:
    scored = desk.score(allowed, MEASURES)
    return summary(scored, desk.latency(scored))


# ---------------------------------------------------------------- HyDE, chunk sizes


def drafted(desk: RunContext, before: Before) -> list[Contender]:
    plain = str(Dense(encoder(desk, before)))
    return desk.contenders({"Baseline": plain, "HyDE": str(HyDE(retriever=plain, query=False))})


def sizes(desk: RunContext, before: Before) -> list[Contender]:
    plain = {"encoder": str(Dense(encoder(desk, before))), paper.BM25: _BM25}
    return [
        desk.contender(f"{size} {name}", text, f"fixed(tokens={size}, overlap=0)")
        for size in paper.SIZES
        for name, text in plain.items()
    ]


def plainly(desk: RunContext, before: Before, allowed: Sequence[Contender]) -> dict[str, Any]:
    return _scored(desk, allowed)


# ---------------------------------------------------------------- prompts


def prompted(desk: RunContext, before: Before) -> list[Contender]:
    base = best_pair(desk, before)
    cheaper = desk.options.cheaper_llm
    cheap = {paper.CHEAP: f"{base} >> {_LIST.replace(model=cheaper)}"} if cheaper else {}
    return desk.contenders({paper.CHAMPION: base, paper.ZERO: f"{base} >> {_LIST}", **cheap})


def prompt_calls(desk: RunContext, before: Before) -> list[Calls]:
    """The calls to learn a prompt, and to rerank with it twice."""
    trainer = _trainer(desk, before)
    again = len(desk.exam.queries)
    size = 2 * _LIST.passage_tokens * _LIST.top
    return [trainer.calls(), Calls("", 2 * again, 2 * again * size, 2 * again * 10 * _LIST.keep)] if trainer else []


def prompt(desk: RunContext, before: Before, allowed: Sequence[Contender]) -> dict[str, Any]:
    """Zero-shot; then a prompt learnt on questions that are not asked, with its example and with its instructions."""
    left_out = {} if desk.options.cheaper_llm else {paper.CHEAP: "left out: needs a second model (--cheaper-llm)"}
    if not desk.options.llm:
        learnt = dict.fromkeys((paper.ONE, paper.META), NEEDS_LLM)
        return {**_scored(desk, allowed), "left_out": {**learnt, **left_out}}
    more, why = _learnt(desk, before)
    found = _scored(desk, [*allowed, *more])
    missing = {name: why for name in (paper.ONE, paper.META) if name not in found["rows"]}
    return {**found, "left_out": {**missing, **left_out}}


def _learnt(desk: RunContext, before: Before) -> tuple[list[Contender], str]:
    """The rerankers with a learnt prompt, or why there are none."""
    trainer = _trainer(desk, before)
    if trainer is None:
        return [], "left out: no question is left to learn from; ask fewer with --questions"
    name = _trained_name("prompt", desk)
    made = trainer.train(name)
    if not made["use"]:
        return [], "left out: the model failed on no question, so there is nothing to learn from"
    modes = {paper.ONE: "one_shot", **({paper.META: "meta"} if made["system_prompt"] else {})}
    base = best_pair(desk, before)
    rows = {row: f"{base} >> {_LIST.replace(mode=mode, trained=name)}" for row, mode in modes.items()}
    return desk.contenders(rows), "left out: the model wrote no usable instructions"


def _trained_name(kind: str, desk: RunContext) -> str:
    """The name of what the study trains; letters, digits and dashes."""
    return f"study-{kind}-{re.sub(r'[^A-Za-z0-9]+', '-', desk.collection.name).strip('-')}"


def _trainer(desk: RunContext, before: Before) -> ListwiseTrainer | None:
    rest = desk.collection.rest
    if rest is None or len(rest.queries) < 2:
        return None
    return ListwiseTrainer(desk.kb, rest, Pipeline.parse(best_pair(desk, before)), _LIST, report=desk.report)


# ---------------------------------------------------------------- fine-tuning


def fine_tune(desk: RunContext, before: Before, allowed: Sequence[Contender]) -> dict[str, Any]:
    """Trains the best encoder with the paper's hyperparameters, and measures it before and after, all on questions
    that the other tables do not ask."""
    rest, model = desk.collection.rest, encoder(desk, before)
    why = _why_not_tuned(rest, model)
    if rest is None or why:
        return {"left_out": {TUNED: f"left out: {why}"}, "provisional": True}
    from surefind.train.neural import train_model  # needs torch

    job = TrainingJob("encoder", _trained_name("encoder", desk), rate=6.25e-6, warmup=500, batch=8, epochs=1, share=1.0)
    try:
        made = train_model(desk.kb, rest, job, Pipeline.parse(str(Dense(model))), parse_measure("R@10"), desk.report)
    except SurefindError as error:  # weights of another kind than BERT, too few pairs
        return {"left_out": {TUNED: f"left out: {str(error).rstrip('.')}"}, "provisional": True}
    after, plain, *_ = made["rows"]
    return {"figures": {UNTUNED: plain["mean"], TUNED: after["mean"]}, "questions": made["questions"]["held_out"]}


def _why_not_tuned(rest: Exam | None, model: str) -> str:
    """Why the encoder cannot be trained here; "" if it can."""
    try:
        need_torch()
    except MissingPartError as error:
        return str(error)
    if rest is None or len(rest.queries) < MIN_QUESTIONS:
        return f"{MIN_QUESTIONS} questions are needed that the other tables do not ask; ask fewer with --questions"
    if trainable(model) is None:
        return f"{model} cannot be trained here: it is neither bundled nor a folder with the weights of an encoder"
    return ""
