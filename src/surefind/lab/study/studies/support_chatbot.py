"""`support-chatbot`: encoders, fusion with a champion, concatenation, reranking, HyDE, chunk sizes and prompts.

Retrieval Enhancements for RAG: Insights from a Deployed Customer Support Chatbot (FiQA, SciDocs, HotpotQA and help
articles of a company). Name the encoders to compare with `--encoder`; without, it is MiniLM against BM25. The
cross-encoder reads 50 passages twice for each question, so 100 questions are asked unless `--questions` says otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefind.base.errors import MissingPartError, SurefindError
from surefind.base.prompts.values import Calls
from surefind.base.protocols import Services
from surefind.base.text.words import token_spans
from surefind.engine.embed.concat import Concat
from surefind.engine.embed.onnx import Onnx
from surefind.engine.embed.sentence_transformers import SentenceTransformers
from surefind.engine.rerank.llm_listwise import LLMListwise
from surefind.engine.rerank.slidegar import SlideGAR
from surefind.engine.retrieve.dense import Dense
from surefind.engine.retrieve.hyde import HyDE
from surefind.engine.search.pipeline import Pipeline
from surefind.engine.write.layout import Layout
from surefind.lab.bench.plan import Contender
from surefind.lab.study.context import RunContext
from surefind.lab.study.scores import best_of, judge, mean, row_of, summary
from surefind.lab.study.stage import Before, Study, StudyPart
from surefind.lab.study.tables import Columns, TableLine, load_tables
from surefind.lab.study.values import NEEDS_LLM, Cell, Column, Result, Support
from surefind.lab.train.job import SENTENCES, TrainingJob, need_torch, trainable
from surefind.lab.train.prompt import ListwiseTrainer

BM25, CHAMPION = "BM25", "Champion"
CE, LLM, SLIDE = f"{CHAMPION} + Cross Encoder", f"{CHAMPION} + LLM Reranking", f"{CHAMPION} + SlideGAR"
BM25_CE, BM25_LLM = f"{BM25} + Cross Encoder", f"{BM25} + LLM Reranking"
ZERO, CHEAP = LLM, f"{CHAMPION} + LLM Reranking, cheaper model"
ONE, META = f"{CHAMPION} + One-shot LLM Reranking", f"{CHAMPION} + One-shot + Meta-prompting"
SIZES = (512, 1024, 2048, 4096)
TUNED_SIZES = (512, 2048)
"""The sizes of Tables 1 and 8."""


MEASURES = ("R@10", "R@50", "nDCG@10", "nDCG@50")
"""R@10 decides between configurations, R@50 chooses the champion, as in the paper."""
SECOND = f"{CHAMPION} + another encoder"
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


def _scored(context: RunContext, allowed: Sequence[Contender]) -> dict[str, Any]:
    return summary(context.score(allowed, MEASURES))


# ---------------------------------------------------------------- encoders


def retrievers(context: RunContext) -> dict[str, str]:
    """The retrievers that are compared, by name: every encoder, and BM25."""
    models = context.options.encoders or ("minilm",)
    return {**{model: str(Dense(model)) for model in models}, BM25: _BM25}


def encoders(context: RunContext, before: Before) -> list[Contender]:
    return context.contenders(retrievers(context))


def compare(context: RunContext, before: Before, allowed: Sequence[Contender]) -> dict[str, Any]:
    """The recall of each retriever; the champion by R@50, and the best encoder."""
    scored = _scored(context, allowed)
    names = [contender.name for contender in allowed]
    dense = [name for name in names if name != BM25]
    return {**scored, "champion": best_of(scored, names, "R@50"), "encoder": best_of(scored, dense, "R@50")}


def champion(context: RunContext, before: Before) -> str:
    """The name of the best retriever by R@50; the first encoder while that is not known."""
    return str(before.get("encoders", {}).get("champion") or next(iter(retrievers(context))))


def encoder(context: RunContext, before: Before) -> str:
    """The spec of the best encoder by R@50."""
    return str(before.get("encoders", {}).get("encoder") or next(iter(retrievers(context))))


# ---------------------------------------------------------------- two retrievers


def pairs(context: RunContext, before: Before) -> dict[str, str]:
    """The champion alone and with each of the others, by reciprocal rank fusion."""
    every, best = retrievers(context), champion(context, before)
    others = {
        f"{CHAMPION} + {name}": f"{every[best]} + {text} >> rrf(k=60)" for name, text in every.items() if name != best
    }
    return {CHAMPION: every[best], **others}


def fused(context: RunContext, before: Before) -> list[Contender]:
    return context.contenders(pairs(context, before))


def fuse(context: RunContext, before: Before, allowed: Sequence[Contender]) -> dict[str, Any]:
    scored = _scored(context, allowed)
    return {**scored, "best": best_of(scored, [contender.name for contender in allowed], "R@10")}


def joined(context: RunContext, before: Before) -> list[Contender]:
    """The best encoder alone, and its vectors joined with those of each other encoder."""
    best = encoder(context, before)
    others = [model for model in context.options.encoders if model != best]
    both = {f"{CHAMPION} + {other}": str(Dense(str(Concat((best, other))))) for other in others}
    return context.contenders({CHAMPION: str(Dense(best)), **both})


def join(context: RunContext, before: Before, allowed: Sequence[Contender]) -> dict[str, Any]:
    scored = _scored(context, allowed)
    return scored if len(allowed) > 1 else {**scored, "left_out": {SECOND: "left out: needs a second one (--encoder)"}}


# ---------------------------------------------------------------- reranking


def best_pair(context: RunContext, before: Before) -> str:
    """The pipeline of the best row of Table 3 by R@10."""
    every = pairs(context, before)
    return every.get(str(before.get("fusion", {}).get("best")), every[CHAMPION])


def reranked(context: RunContext, before: Before) -> list[Contender]:
    base = best_pair(context, before)
    again = {
        f"{row}{_RUN}{run}": f"{start} >> {stage.replace(repeat=run)}"
        for run in range(1, context.options.repeats)
        for row, start, stage in ((LLM, base, _LIST), (SLIDE, base, _SLIDE), (BM25_LLM, _BM25, _LIST))
    }
    return context.contenders(
        {
            CHAMPION: base,
            CE: f"{base} >> {_CE}",
            LLM: f"{base} >> {_LIST}",
            SLIDE: f"{base} >> {_SLIDE}",
            BM25: _BM25,
            BM25_CE: f"{_BM25} >> {_CE}",
            BM25_LLM: f"{_BM25} >> {_LIST}",
            **again,
        }
    )


def rerank(context: RunContext, before: Before, allowed: Sequence[Contender]) -> dict[str, Any]:
    scored = context.score(allowed, MEASURES)
    return folded(summary(scored, context.latency(scored)))


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


def drafted(context: RunContext, before: Before) -> list[Contender]:
    plain = str(Dense(encoder(context, before)))
    return context.contenders({"Baseline": plain, "HyDE": str(HyDE(retriever=plain, query=False))})


def sizes(context: RunContext, before: Before) -> list[Contender]:
    plain = {"encoder": str(Dense(encoder(context, before))), BM25: _BM25}
    return [
        context.contender(f"{size} {name}", text, f"fixed(tokens={size}, overlap=0)")
        for size in SIZES
        for name, text in plain.items()
    ]


def plainly(context: RunContext, before: Before, allowed: Sequence[Contender]) -> dict[str, Any]:
    return _scored(context, allowed)


# ---------------------------------------------------------------- prompts


def prompted(context: RunContext, before: Before) -> list[Contender]:
    base = best_pair(context, before)
    cheaper = context.options.cheaper_llm
    cheap = {CHEAP: f"{base} >> {_LIST.replace(model=cheaper)}"} if cheaper else {}
    return context.contenders({CHAMPION: base, ZERO: f"{base} >> {_LIST}", **cheap})


def prompt_calls(context: RunContext, before: Before) -> list[Calls]:
    """The calls to learn a prompt, and to rerank with it twice."""
    trainer = _trainer(context, before)
    again = len(context.exam.queries)
    size = 2 * _LIST.passage_tokens * _LIST.top
    return [trainer.calls(), Calls("", 2 * again, 2 * again * size, 2 * again * 10 * _LIST.keep)] if trainer else []


def prompt(context: RunContext, before: Before, allowed: Sequence[Contender]) -> dict[str, Any]:
    """Zero-shot; then a prompt learnt on questions that are not asked, with its example and with its instructions."""
    left_out = {} if context.options.cheaper_llm else {CHEAP: "left out: needs a second model (--cheaper-llm)"}
    if not context.options.llm:
        learnt = dict.fromkeys((ONE, META), NEEDS_LLM)
        return {**_scored(context, allowed), "left_out": {**learnt, **left_out}}
    more, why = _learnt(context, before)
    scored = _scored(context, [*allowed, *more])
    missing = {name: why for name in (ONE, META) if name not in scored["rows"]}
    return {**scored, "left_out": {**missing, **left_out}}


def _learnt(context: RunContext, before: Before) -> tuple[list[Contender], str]:
    """The rerankers with a learnt prompt, or why there are none."""
    trainer = _trainer(context, before)
    if trainer is None:
        return [], "left out: no question is left to learn from; ask fewer with --questions"
    name = _trained_name("prompt", context)
    made = trainer.train(name)
    if not made.use:
        return [], "left out: the model failed on no question, so there is nothing to learn from"
    modes = {ONE: "one_shot", **({META: "meta"} if made.system_prompt else {})}
    base = best_pair(context, before)
    rows = {row: f"{base} >> {_LIST.replace(mode=mode, trained=name)}" for row, mode in modes.items()}
    return context.contenders(rows), "left out: the model wrote no usable instructions"


def _trained_name(kind: str, context: RunContext) -> str:
    """The name of what the study trains; letters, digits and dashes."""
    return f"study-{kind}-{re.sub(r'[^A-Za-z0-9]+', '-', context.collection.name).strip('-')}"


def _trainer(context: RunContext, before: Before) -> ListwiseTrainer | None:
    rest = context.collection.rest
    if rest is None or len(rest.queries) < 2:
        return None
    base, most = Pipeline.parse(best_pair(context, before)), _META_QUESTIONS
    return ListwiseTrainer(context.kb, rest, base, _LIST, most, most, context.report, whole=True)


KEYS = ("queries", "relevant", "chunks_512", "chunks_2048", "documents", "median", "p75", "max")
"""The columns of Table 1."""


def count(context: RunContext, before: Before, allowed: Sequence[Contender]) -> dict[str, Any]:
    """Counts what the questions search. A passage without overlap begins every 512 or 2048 tokens."""
    tokens = np.array([len(token_spans(document.text)) for document in context.kb.documents(context.access)] or [0])
    relevant = [len({j.document for j in query.judgments if j.grade > 0}) for query in context.exam.queries]
    small, large = (int(np.maximum(1, -(-tokens // size)).sum()) for size in TUNED_SIZES)
    values = (
        len(context.exam.queries),
        float(np.mean(relevant)) if relevant else 0.0,
        small,
        large,
        len(tokens),
        float(np.median(tokens)),
        float(np.percentile(tokens, 75)),
        int(tokens.max()),
    )
    return dict(zip(KEYS, values, strict=True))


TUNED_MEASURES = ("R@10", "nDCG@5", "nDCG@10", "R@50")
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


def tuned_encoders(context: RunContext, before: Before) -> tuple[str, str]:
    """The specs of the best encoder, and of the next one; "" if there is none."""
    best = str(before.get("tuned_encoders", {}).get("encoder") or (context.options.encoders or ("minilm",))[0])
    return best, next((encoder for encoder in context.options.encoders if encoder != best), "")


def untuned(context: RunContext, before: Before) -> list[Contender]:
    """The tuned_encoders as they are."""
    best, other = tuned_encoders(context, before)
    rows = [context.contender(f"{PLAIN}, {size}", str(Dense(best)), _layout(size)) for size in reversed(TUNED_SIZES)]
    return [*rows, *([context.contender(OTHER, str(Dense(other)), _layout(512))] if other else [])]


def tuning_calls(context: RunContext, before: Before) -> list[Calls]:
    """The most calls: questions and triplets about the passages of both sizes. GPL reads the same questions."""
    if _why_not(tuned_encoders(context, before)[0], context.kb.services):
        return []
    texts = [len(document.text) for document in context.kb.documents(context.access)]
    tokens, documents = sum(texts) // _TOKENS, len(texts)
    calls_made = []
    for size in TUNED_SIZES:
        passages = tokens // size + documents  # each document ends with a shorter one
        calls = min(passages, -(-_MAX_PAIRS // _PER_PASSAGE)) + min(passages, _MAX_PAIRS)
        calls_made.append(Calls("", calls, calls * (min(size, 1000) + 250), 100 * calls))
    return calls_made


def fine_tune(context: RunContext, before: Before, allowed: Sequence[Contender]) -> dict[str, Any]:
    """Trains the tuned_encoders in each way, and measures all of them on the questions of the other tables."""
    best, other = tuned_encoders(context, before)
    wanted = {f"{name}, {size}": (best, way, size) for name, way in _WAYS.items() for size in TUNED_SIZES}
    wanted[OTHER_GPL] = (other or best, _GPL, 512)
    left_out = {} if other else {OTHER: "left out: needs a second one (--encoder)"}
    made: list[Contender] = []
    for row, (encoder, way, size) in wanted.items():
        why = "" if context.options.llm or "llm" not in way.sources else NEEDS_LLM
        why = why or _why_not(encoder, context.kb.services)
        trained = why or _trained(context, row, encoder, way, size)
        if isinstance(trained, str):
            left_out[row] = trained
        else:
            made.append(trained)
    scored = context.score([*allowed, *made], TUNED_MEASURES)
    missing = any(why != NEEDS_LLM for why in left_out.values() if "--encoder" not in why)
    return {**summary(scored), "left_out": left_out, "provisional": missing}


def _trained(context: RunContext, row: str, encoder: str, way: _Way, size: int) -> Contender | str:
    """The trained encoder as a configuration, or why there is none."""
    from surefind.lab.train.neural import fit_encoder  # needs torch

    name = re.sub(r"[^A-Za-z0-9]+", "-", f"study-{row}-{context.collection.name}").strip("-").lower()
    job = TrainingJob(
        "encoder", name, way.sources, loss=way.loss, write=way.write, most=_MAX_PAIRS,
        rate=6.25e-6, warmup=500, batch=8, epochs=1, share=1.0,
    )  # fmt: skip
    layout = _layout(size)
    try:
        folder = fit_encoder(context.kb, job, Pipeline.parse(str(Dense(encoder))), Layout.read(layout), context.report)
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


def counted(columns: Columns, stage: str) -> list[TableLine]:
    """A row for each collection, as Table 1 counts it."""
    return [TableLine(column.name, cells=tuple(column.results[stage].get(key) for key in KEYS)) for column in columns]


def varied(result: Result, row: str, measure: str) -> Cell:
    """The mean, with ± the half-width of its 95% interval if the row was run several times."""
    here, entry = mean(result, row, measure), row_of(result, row) or {}
    if here is None or "spread" not in entry:
        return here
    return f"{here:.1%} ± {100 * entry['spread'][measure]:.1f}"


def gap(result: Result, row: str) -> Cell:
    deep, shallow = mean(result, row, "R@50"), mean(result, row, "R@10")
    return None if deep is None or shallow is None else deep - shallow


def best_against_bm25(column: Column, stage: str) -> Support:
    return judge(column, stage, str(column.results[stage].get("encoder")), BM25)


def best_against_champion(column: Column, stage: str) -> Support:
    """Whether the best pair beats the champion."""
    result = column.results[stage]
    others = [name for name in result.get("rows", {}) if name != CHAMPION]
    best = max(others, key=lambda name: mean(result, name, "R@10") or 0.0, default="a second retriever")
    return judge(column, stage, best, CHAMPION)


def champions(columns: Columns) -> list[str]:
    names = ", ".join(f"{column.name}: {column.results['encoders'].get('champion')}" for column in columns)
    return [f"The champion is the best by R@50 ({names})."]


_TABLES = load_tables("support_chatbot", globals())
_FIRST = ("encoders",)
_SECOND = ("encoders", "fusion")

STUDY = Study(
    "The support chatbot: a champion, and what improves it",
    "Retrieval Enhancements for RAG: Insights from a Deployed Customer Support Chatbot",
    (
        StudyPart("collections", count, _TABLES["collections"], own_layouts=True),
        StudyPart("encoders", compare, _TABLES["encoders"], encoders),
        StudyPart("fusion", fuse, _TABLES["fusion"], fused, _FIRST),
        StudyPart("concatenation", join, _TABLES["concatenation"], joined, _FIRST),
        StudyPart("reranking", rerank, _TABLES["reranking"], reranked, _SECOND),
        StudyPart("hyde", plainly, _TABLES["hyde"], drafted, _FIRST),
        StudyPart("chunks", plainly, _TABLES["chunks"], sizes, _FIRST, own_layouts=True),
        StudyPart("prompts", prompt, _TABLES["prompts"], prompted, _SECOND, prompt_calls),
        StudyPart(
            "fine-tuning",
            fine_tune,
            _TABLES["fine-tuning"],
            untuned,
            _FIRST,
            tuning_calls,
            own_layouts=True,
            version=2,
        ),
    ),
    questions=100,
    compares_encoders=True,
    compares_models=True,
    repeats=True,
    layout="fixed(tokens=2048, overlap=0)",
)
