"""The stages of the support-chatbot study but the first and the last: encoders, fusion, concatenation, reranking, HyDE,
chunk sizes, prompts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from surefind.base.prompts.values import Calls
from surefind.engine.embed.concat import Concat
from surefind.engine.rerank.llm_listwise import LLMListwise
from surefind.engine.rerank.slidegar import SlideGAR
from surefind.engine.retrieve.dense import Dense
from surefind.engine.retrieve.hyde import HyDE
from surefind.engine.search.pipeline import Pipeline
from surefind.lab.bench.plan import Contender
from surefind.lab.study.desk import RunContext
from surefind.lab.study.scores import best_of, summary
from surefind.lab.study.stage import Before
from surefind.lab.study.studies.support_chatbot import _paper as paper
from surefind.lab.study.values import NEEDS_LLM
from surefind.lab.train.prompt import ListwiseTrainer

MEASURES = ("R@10", "R@50", "nDCG@10", "nDCG@50")
"""R@10 decides between configurations, R@50 chooses the champion, as in the paper."""
SECOND = f"{paper.CHAMPION} + another encoder"
_T = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}
"""Student's t for a 95% interval, by the number of runs."""
_RUN = ", run "
"""Between the name of a row and the number of a further run."""
_META_QUESTIONS = 1000
"""Questions that a prompt is learnt from, and failures that are shown to the model, at most, as in the paper."""
_BM25 = "bm25"
_LIST = LLMListwise(top=50, keep=10, reverse=False, passage_tokens=512)
"""Fifty passages of 512 tokens, as in the paper (appendix A)."""
_SLIDE = SlideGAR(top=50, reverse=False, passage_tokens=512)
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
    scored = _scored(desk, allowed)
    names = [contender.name for contender in allowed]
    dense = [name for name in names if name != paper.BM25]
    return {**scored, "champion": best_of(scored, names, "R@50"), "encoder": best_of(scored, dense, "R@50")}


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
    scored = _scored(desk, allowed)
    return {**scored, "best": best_of(scored, [contender.name for contender in allowed], "R@10")}


def joined(desk: RunContext, before: Before) -> list[Contender]:
    """The best encoder alone, and its vectors joined with those of each other encoder."""
    best = encoder(desk, before)
    others = [model for model in desk.options.encoders if model != best]
    both = {f"{paper.CHAMPION} + {other}": str(Dense(str(Concat((best, other))))) for other in others}
    return desk.contenders({paper.CHAMPION: str(Dense(best)), **both})


def join(desk: RunContext, before: Before, allowed: Sequence[Contender]) -> dict[str, Any]:
    scored = _scored(desk, allowed)
    return scored if len(allowed) > 1 else {**scored, "left_out": {SECOND: "left out: needs a second one (--encoder)"}}


# ---------------------------------------------------------------- reranking


def best_pair(desk: RunContext, before: Before) -> str:
    """The pipeline of the best row of Table 3 by R@10."""
    every = pairs(desk, before)
    return every.get(str(before.get("fusion", {}).get("best")), every[paper.CHAMPION])


def reranked(desk: RunContext, before: Before) -> list[Contender]:
    base = best_pair(desk, before)
    again = {
        f"{row}{_RUN}{run}": f"{start} >> {stage.replace(repeat=run)}"
        for run in range(1, desk.options.repeats)
        for row, start, stage in ((paper.LLM, base, _LIST), (paper.SLIDE, base, _SLIDE), (paper.BM25_LLM, _BM25, _LIST))
    }
    return desk.contenders(
        {
            paper.CHAMPION: base,
            paper.CE: f"{base} >> {_CE}",
            paper.LLM: f"{base} >> {_LIST}",
            paper.SLIDE: f"{base} >> {_SLIDE}",
            paper.BM25: _BM25,
            paper.BM25_CE: f"{_BM25} >> {_CE}",
            paper.BM25_LLM: f"{_BM25} >> {_LIST}",
            **again,
        }
    )


def rerank(desk: RunContext, before: Before, allowed: Sequence[Contender]) -> dict[str, Any]:
    scored = desk.score(allowed, MEASURES)
    return folded(summary(scored, desk.latency(scored)))


def folded(scored: dict[str, Any]) -> dict[str, Any]:
    """The rows of repeated runs as one: the mean of their means, and the half-width of its 95% interval (Student's t).
    The scores of each question, by which claims are tested, are those of the first run."""
    rows = scored["rows"]
    kept = {name: row for name, row in rows.items() if _RUN not in name}
    for name, row in kept.items():
        runs = [row, *(other for key, other in rows.items() if key.startswith(f"{name}{_RUN}"))]
        if len(runs) < 2:
            continue
        means = {measure: np.array([run["measures"][measure]["mean"] for run in runs]) for measure in row["measures"]}
        row["spread"] = {
            measure: _T.get(len(runs), 1.96) * float(values.std(ddof=1)) / len(runs) ** 0.5
            for measure, values in means.items()
        }
        for measure, values in means.items():
            row["measures"][measure]["mean"] = float(values.mean())
    return {**scored, "rows": kept, "runs": 1 + max((int(n.split(_RUN)[1]) for n in rows if _RUN in n), default=0)}


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
    scored = _scored(desk, [*allowed, *more])
    missing = {name: why for name in (paper.ONE, paper.META) if name not in scored["rows"]}
    return {**scored, "left_out": {**missing, **left_out}}


def _learnt(desk: RunContext, before: Before) -> tuple[list[Contender], str]:
    """The rerankers with a learnt prompt, or why there are none."""
    trainer = _trainer(desk, before)
    if trainer is None:
        return [], "left out: no question is left to learn from; ask fewer with --questions"
    name = _trained_name("prompt", desk)
    made = trainer.train(name)
    if not made.use:
        return [], "left out: the model failed on no question, so there is nothing to learn from"
    modes = {paper.ONE: "one_shot", **({paper.META: "meta"} if made.system_prompt else {})}
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
    base, most = Pipeline.parse(best_pair(desk, before)), _META_QUESTIONS
    return ListwiseTrainer(desk.kb, rest, base, _LIST, most, most, desk.report, whole=True)
