"""`surefind train fusion`: trains a model that weighs the rankings for each query, and tests whether it helps.

`ndcg`: chooses weights that maximise the measure itself, instead of predicting α*.

Boosted trees predict, from the `rich` features, how much each candidate weighting gains over the best static one. The
candidates are α in steps of 0.1, or points of a coarse simplex for more than two rankings. A penalty on the distance
from static and a threshold on the predicted gain are chosen on out-of-fold predictions over the whole tuning half. They
are used only if they gain more than the standard error there; otherwise the model is the static weighting.

`surefind train weights`: finds static weights for any number of rankings, by coordinate search on the tuning half.

The search starts from equal weights. Each weight in turn is set to the value from 0 to 1 that scores best while the
others stay fixed. Rounds repeat until no weight improves, first in steps of 0.1, then of 0.02 around the result. Both
scalings of `weighted` are tried. For an equal score, the current weight is kept.
"""

from __future__ import annotations

import datetime
import json
import re
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from surefind import __version__
from surefind.base import spec
from surefind.base.access import Access
from surefind.base.disk.sealed import list_files, replace_folder, to_json, write_sealed
from surefind.base.errors import SpecError, StoreError, choices
from surefind.base.protocols import OnProgress, Retriever, Services
from surefind.base.spec import Stage
from surefind.base.types import ExamName, Floats
from surefind.engine.fuse.convex import Convex
from surefind.engine.fuse.learned import MANIFEST, TRAINING, question_key, read_manifest
from surefind.engine.fuse.rrf import RRF
from surefind.engine.fuse.support.features import Rarity, alpha_at, rich, rich_names
from surefind.engine.fuse.support.predictors import Chooser, Norm, choose, with_candidates
from surefind.engine.fuse.support.trees import Trees
from surefind.engine.fuse.tm2c2 import TM2C2
from surefind.engine.fuse.weighted import Weighted
from surefind.engine.inference.provenance import FusionTraining, TrainedRetriever, differences, drift
from surefind.engine.search.pipeline import Pipeline
from surefind.engine.store.lock import training_lock
from surefind.kb import KnowledgeBase
from surefind.lab.bench.plan import short
from surefind.lab.exam.model import Exam, clusters_of
from surefind.lab.measure.ranks import Measure
from surefind.lab.train.alpha import SEED, Fitted, fit_mlp, fit_ridge, fit_xgboost, r_squared, shap
from surefind.lab.train.material import (
    NORMS,
    SPLITS,
    Half,
    Material,
    Missing,
    Split,
    best_static,
    gather,
    simplex,
    xgboost,
)
from surefind.lab.train.report import FusionReport, HalfCounts, WeightsReport, compare, refusal, verdict

FOLDS = 4
ROUNDS = 150
SETTINGS = {
    "objective": "reg:squarederror",
    "tree_method": "hist",
    "max_depth": 4,
    "learning_rate": 0.05,
    "subsample": 0.7,
    "colsample_bytree": 0.5,
    "min_child_weight": 20,
    "reg_lambda": 5.0,
    "max_bin": 64,
    "seed": SEED,
    "nthread": 1,
}
PENALTIES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2)
THRESHOLDS = (0.0, 0.005, 0.01, 0.02, 0.05)
_PASSAGES = 20_000
"""Passages sampled to estimate how rare words are."""


def fit_ndcg(material: Material, report: OnProgress) -> Fitted:
    half = material.tuning
    candidates = simplex(len(half.rankings))
    tables = {norm: half.sweep(candidates, norm) for norm in NORMS}
    norm = max(NORMS, key=lambda norm: float(tables[norm].mean(axis=0).max()))
    table = tables[norm]
    static = int(table.mean(axis=0).argmax())
    gains = table - table[:, static : static + 1]
    rarity = rarity_of(material)
    features = rich(half.texts, half.rankings, rarity)

    promised = np.zeros_like(gains)
    folds = spread_folds([query.family for query in half.queries], FOLDS)
    for fold in range(FOLDS):
        report("Fitting ndcg", fold, FOLDS + 1)
        booster = _fit(features[folds != fold], gains[folds != fold], candidates)
        promised[folds == fold] = _predict(booster, features[folds == fold], candidates)
    penalty, threshold, expected = shrink(promised, gains, candidates, static)
    report("Fitting ndcg", FOLDS, FOLDS + 1)
    booster = _fit(features, gains, candidates)
    report("Fitting ndcg", FOLDS + 1, FOLDS + 1)

    names = (*rich_names([ranking.source for ranking in half.rankings]), *_weight_names(material))
    metrics: dict[str, Any] = {
        "expected_gain": expected,
        "shap": shap(booster, with_candidates(features[:500], candidates), names),
    }
    chosen = {"penalty": penalty, "threshold": threshold if np.isfinite(threshold) else None, "norm": norm}
    return Fitted(Chooser(norm, candidates, static, penalty, threshold, rarity, Trees.of(booster)), chosen, metrics)


def shrink(promised: Floats, gains: Floats, candidates: Floats, static: int) -> tuple[float, float, float]:
    """The best penalty and threshold, and their mean gain on questions that the trees have not seen."""
    rows = np.arange(len(gains))
    best = (0.0, float("inf"), 0.0)
    # The most cautious values come first, so they win a tie.
    for penalty, threshold in product(reversed(PENALTIES), reversed(THRESHOLDS)):
        won = gains[rows, choose(promised, candidates, static, penalty, threshold)]
        error = float(won.std()) / len(won) ** 0.5
        if won.mean() > max(best[2], error):
            best = penalty, threshold, float(won.mean())
    return best


def rarity_of(material: Material) -> Rarity:
    """The rarity of words, from about 20,000 evenly spaced passages, which are enough."""
    ids = material.view.spans().ids[:: max(1, len(material.view) // _PASSAGES)].tolist()
    return Rarity.of([chunk.text for chunk in material.view.chunks(ids, Access.owner())])


def _fit(features: Floats, gains: Floats, candidates: Floats) -> Any:
    module = xgboost()
    data = module.DMatrix(with_candidates(features, candidates), gains.ravel())
    return module.train(SETTINGS, data, num_boost_round=ROUNDS)


def _predict(booster: Any, features: Floats, candidates: Floats) -> Floats:
    rows = booster.inplace_predict(with_candidates(features, candidates))
    return np.asarray(rows, dtype=np.float64).reshape(len(features), len(candidates))


def spread_folds(families: list[str], count: int) -> NDArray[np.int64]:
    """Assigns each question to a fold, so that every family is spread over all folds."""
    rng = np.random.default_rng(SEED)
    folds = np.zeros(len(families), np.int64)
    for family in sorted(set(families)):
        rows = np.array([i for i, f in enumerate(families) if f == family])
        folds[rng.permutation(rows)] = np.arange(len(rows)) % count
    return folds


def _weight_names(material: Material) -> list[str]:
    return [f"weight_{ranking.source}" for ranking in material.tuning.rankings[:-1]]


MODELS: dict[str, Callable[[Material, OnProgress], Fitted]] = {
    "ridge": fit_ridge,
    "xgboost": fit_xgboost,
    "mlp": fit_mlp,
    "ndcg": fit_ndcg,
}
ANY_NUMBER = "ndcg"
"""The model for more than two rankings; the others predict α*."""
NDCG = Measure("nDCG", 10)
RRF_K = 60.0
_BEST_STATIC, _SINGLE = 1, 3
"""Rows of the report: the best static weights, and the first single retriever."""
_MAX_SAVED_ALPHAS = 600
"""Most questions whose α are saved for the report."""


def train_fusion(
    kb: KnowledgeBase,
    exam: Exam,
    model: str = "ndcg",
    retrieve: Sequence[str] = ("bm25", "dense"),
    name: str = "",
    measure: Measure = NDCG,
    missing: Missing | Literal["auto"] = "auto",
    cross: bool = False,
    report: OnProgress | None = None,
    split: Split = "halves",
) -> FusionReport:
    """Fits a model on the tuning half, tests it on the other and saves it. Returns the manifest, which is the report.

    `missing=auto` means "score" for `ndcg`, which optimises the measure, and None for models that predict α*, whose
    closed form counts a passage that is not in a ranking as 0.

    With `cross`, a second model is fitted on the other half, only to test on the first half. So every question is
    scored by a model that has not seen it, and there are twice as many test questions.

    With `split=70/15/15`, 70% of all questions fit the model, 15% choose its hyperparameters and 15% test it, as in the
    agentic-knowledge-base study.
    """
    progress: OnProgress = report or (lambda what, done, total: None)
    name = name or f"{model}-{exam.name}"
    _check(model, name, retrieve)
    if split not in SPLITS:
        raise SpecError(f"There is no split {split!r}. {choices(split, SPLITS)}")
    if cross and split != "halves":
        raise SpecError("--cross exchanges two halves, so it cannot be combined with --split 70/15/15. Leave one out.")
    if missing == "auto":
        missing = "score" if model == ANY_NUMBER else None
    with training_lock(kb.data, name):
        material = gather(kb, exam, retrieve, measure, missing, report, split)
        if model == "mlp" and not material.embedder:
            raise SpecError(
                "mlp reads the query's vector, so one of the retrievers must be dense. Add --retrieve dense."
            )
        started = time.perf_counter()
        fitted = MODELS[model](material, progress)
        seconds = time.perf_counter() - started
        pairs = [(material, fitted)]
        if cross:
            pairs.append((material.swapped, MODELS[model](material.swapped, progress)))
        progress("Judging", 0, 1)
        made = _report(pairs, name, seconds, kb.services)
        progress("Judging", 1, 1)
        _save(kb, fitted, made, _training(material, fitted))
        return made


def _check(model: str, name: str, retrieve: Sequence[str]) -> None:
    if model not in MODELS:
        raise SpecError(f"There is no model {model!r}. {choices(model, MODELS)}")
    check_name(name)
    if model != ANY_NUMBER and len(retrieve) != 2:
        raise SpecError(
            f"{model} needs exactly two rankings, not {len(retrieve)}. Name two retrievers, or use --model ndcg."
        )


def check_name(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z_][\w-]*", name):
        raise SpecError(f"A model cannot be called {name!r}. Begin with a letter; use letters, digits, '-' and '_'.")


def _training(material: Material, fitted: Fitted) -> FusionTraining:
    return FusionTraining(
        documents=tuple(material.view.sketch),
        learnt=tuple(question_key(query.text) for query in material.tuning.queries),
        alphas=_alphas(material, fitted),
    )


def _alphas(material: Material, fitted: Fitted) -> tuple[tuple[float, float, str], ...]:
    """α*, the predicted α and the family of held-out questions, for the chart in the report."""
    held, predictor = material.held, fitted.predictor
    if len(held.rankings) != 2:
        return ()
    at = alpha_at([ranking.signal for ranking in held.rankings])
    predicted = predictor.weights(held.texts, held.rankings, material.embed)[:, at]
    rows = zip(held.alphas.tolist(), predicted.tolist(), held.queries, strict=True)
    return tuple((round(star, 3), round(alpha, 3), query.family) for star, alpha, query in rows)[:_MAX_SAVED_ALPHAS]


# ---------------------------------------------------------------- the held-out half


def _report(pairs: Sequence[tuple[Material, Fitted]], name: str, seconds: float, services: Services) -> FusionReport:
    """Judges a model on its held-out half. With a second pair, each half by the model of the other."""
    material, fitted = pairs[0]
    kind, joined = fitted.predictor.kind, material.joined
    missing = f", missing={material.missing}" if material.missing else ""
    label, text = static_spec(material, *best_static(material))
    columns = [_columns(*pair) for pair in pairs]
    scores = {key: np.concatenate([column[key] for column in columns]) for key in columns[0]}
    others = {
        (f"best static, {label}", text): scores["static"],
        ("RRF k=60", f"{joined} >> {RRF(RRF_K)}"): scores["rrf"],
    }
    for retriever in material.pipeline.retrieve:
        others[short(Pipeline((retriever,))), str(retriever)] = scores[str(retriever)]
    oracles = {key: values for key, values in scores.items() if key.startswith("oracle")}
    trained = (f"learned {kind}", f"{joined} >> learned(model={name}{missing})", scores["trained"])
    questions = [query for judged, _ in pairs for query in judged.held.queries]
    rows = compare(trained, others, oracles, clusters_of(questions))
    alone = range(_SINGLE, _SINGLE + len(material.pipeline.retrieve))
    sentence, use = refusal(rows, _BEST_STATIC, str(material.held.measure), questions), ""
    if not sentence:
        sentence, use = verdict(rows, _BEST_STATIC, str(material.held.measure), alone)
    return FusionReport(
        name=name,
        model=kind,
        corpus=material.view.fingerprint,
        layout=material.view.layout,
        depth=material.pipeline.depth,
        missing=material.missing,
        retrievers=tuple(
            TrainedRetriever(str(one), one.index_spec(services), ranking.source, ranking.signal)
            for one, ranking in zip(material.pipeline.retrieve, material.tuning.rankings, strict=True)
        ),
        embedder=material.embedder,
        exam=ExamName(material.exam.label, material.exam.fingerprint),
        metrics=_metrics(material, fitted),
        surefind=__version__,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        questions=HalfCounts(len(material.tuning.queries), len(material.held.queries)),
        hyperparameters=fitted.chosen,
        training_seconds=round(seconds, 2),
        measure=str(material.held.measure),
        judged=_judged_on(pairs),
        rows=tuple(row.rounded for row in rows),
        verdict=sentence,
        use=use,
    )


def _judged_on(pairs: Sequence[tuple[Material, Fitted]]) -> str:
    if len(pairs) > 1:
        return "both halves, each by a model trained on the other"
    return "the held-out half" if pairs[0][0].validation is None else "15% of the questions, chosen at random"


def _columns(material: Material, fitted: Fitted) -> dict[str, Floats]:
    """The measure of each held-out question, for the trained model and everything it is compared with."""
    held, predictor = material.held, fitted.predictor
    norm, static = best_static(material)
    columns = {
        "trained": held.score(predictor.fuse(held.texts, held.rankings, material.embed, held.width)),
        "static": held.blended(static, norm),
        "rrf": held.score(RRF(RRF_K).fuse(held.found, held.width)),
    }
    for retriever, ranking in zip(material.pipeline.retrieve, held.found, strict=True):
        columns[str(retriever)] = held.score(ranking)
    ceiling = held.sweep(simplex(len(held.rankings)), predictor.norm).max(axis=1)
    if len(held.rankings) != 2:
        return columns | {"oracle, best weights per query": ceiling}
    stars = held.alphas
    at = alpha_at([ranking.signal for ranking in held.rankings])
    rows = np.stack([1 - stars, stars] if at == 1 else [stars, 1 - stars], axis=1)
    return columns | {"oracle α*": held.blended(rows, "floor"), "oracle, best α per query": ceiling}


def _metrics(material: Material, fitted: Fitted) -> dict[str, Any]:
    """The metrics of the fit; for models that predict α*, with R² of the predicted α on the held-out half."""
    held, predictor = material.held, fitted.predictor
    if predictor.kind == ANY_NUMBER:
        return fitted.metrics
    at = alpha_at([ranking.signal for ranking in held.rankings])
    weights = predictor.weights(held.texts, held.rankings, material.embed)
    return fitted.metrics | {"r2_held_out": r_squared(held.alphas, weights[:, at])}


def static_spec(material: Material, norm: Norm, weights: Floats) -> tuple[str, str]:
    """A label and a pipeline for static weights, with the simplest fuser that expresses them."""
    signals = [ranking.signal for ranking in material.tuning.rankings]
    fuser: Stage
    if len(signals) == 2 and signals.count("dense") == 1:
        alpha = round(float(weights[alpha_at(signals)]), 4)
        fuser = TM2C2(alpha, material.missing) if norm == "floor" else Convex(alpha, material.missing)
    else:
        fuser = Weighted(tuple(round(float(w), 4) for w in weights), norm, material.missing)
    return str(fuser), f"{material.joined} >> {fuser}"


# ---------------------------------------------------------------- on disk


def _save(kb: KnowledgeBase, fitted: Fitted, made: FusionReport, training: FusionTraining) -> None:
    """Writes the model to a temporary folder and renames it, so that a reader sees the whole old or new model."""
    folder = kb.data / "models"
    aside = folder / f".{made.name}.writing"
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    fitted.predictor.save(aside)
    (aside / TRAINING).write_text(json.dumps(to_json(training), ensure_ascii=False), encoding="utf-8")
    write_sealed(aside / MANIFEST, to_json(replace(made, files=list_files(aside))))
    replace_folder(aside, folder / made.name)


@dataclass(frozen=True)
class ListedFusion:
    """A trained fusion, and whether it can be used now."""

    report: FusionReport
    changed: tuple[str, ...]
    """Reasons why it cannot be used."""
    drift: str
    """Changes that do not matter."""


@dataclass(frozen=True)
class UnreadableModel:
    name: str
    unreadable: str
    """Why it cannot be read."""


def manifests(kb: KnowledgeBase) -> list[ListedFusion | UnreadableModel]:
    """All trained fusions."""
    view = kb.reader().view
    listed: list[ListedFusion | UnreadableModel] = []
    for path in sorted((kb.data / "models").glob(f"[!.]*/{MANIFEST}")):
        try:
            made, training = read_manifest(path, FusionReport)
        except StoreError as error:
            listed.append(UnreadableModel(path.parent.name, str(error)))
            continue
        retrievers = [cast(Retriever, spec.make("retrieve", retriever.spec)) for retriever in made.retrievers]
        changed = differences(made, training.documents, retrievers, made.depth, view, kb.services)
        listed.append(ListedFusion(replace(made, files=None), tuple(changed), drift(made, training.documents, view)))
    return listed


COARSE = np.round(np.arange(0, 1.01, 0.1), 2)
FINE = np.round(np.arange(-0.08, 0.081, 0.02), 2)
_ROUNDS = 10
"""Most rounds of the search per step size."""


def train_weights(
    kb: KnowledgeBase,
    exam: Exam,
    retrieve: Sequence[str],
    measure: Measure = NDCG,
    missing: Missing | Literal["auto"] = "auto",
    report: OnProgress | None = None,
) -> WeightsReport:
    missing = "score" if missing == "auto" else missing
    material = gather(kb, exam, retrieve, measure, missing, report)
    progress: OnProgress = report or (lambda what, done, total: None)
    tried = []
    for i, norm in enumerate(NORMS):
        progress("Searching weights", i, len(NORMS))
        weights, score = search(material.tuning, norm)
        tried.append((score, -i, norm, weights))
    progress("Searching weights", len(NORMS), len(NORMS))
    tuned, _, norm, weights = max(tried, key=lambda row: row[:2])

    held = material.held
    joined = material.joined
    equal = np.full(len(held.rankings), 1 / len(held.rankings))
    spec, plain = (str(Weighted(w, norm, missing)) for w in (tuple(map(float, weights)), None))
    others = {("equal weights", f"{joined} >> {plain}"): held.blended(equal, norm)}
    for retriever, ranking in zip(material.pipeline.retrieve, held.found, strict=True):
        others[short(Pipeline((retriever,))), str(retriever)] = held.score(ranking)
    rows = compare(
        ("tuned weights", f"{joined} >> {spec}", held.blended(weights, norm)), others, {}, clusters_of(held.queries)
    )
    rival = max(range(1, len(rows)), key=lambda i: rows[i].mean)
    sentence, use = refusal(rows, rival, str(measure), held.queries), ""
    if not sentence:
        sentence, use = verdict(rows, rival, str(measure))
    idle = (one for one, weight in zip(material.pipeline.retrieve, weights, strict=True) if not weight)
    return WeightsReport(
        weights=tuple(weights.tolist()),
        norm=norm,
        useless=tuple(short(Pipeline((one,))) for one in idle),
        spec=spec,
        exam=ExamName(exam.label, exam.fingerprint),
        questions=HalfCounts(len(material.tuning.queries), len(held.queries)),
        measure=str(measure),
        tuning_mean=round(tuned, 5),
        rows=tuple(row.rounded for row in rows),
        verdict=sentence,
        use=use,
    )


def search(half: Half, norm: Norm) -> tuple[Floats, float]:
    """The best weights, which sum to 1, and their mean measure on this half."""
    seen: dict[tuple[float, ...], float] = {}

    def score(weights: Floats) -> float:
        key = tuple(np.round(weights / weights.sum(), 6).tolist())
        if key not in seen:
            seen[key] = float(half.blended(np.array(key), norm).mean())
        return seen[key]

    # One weight at a time can stop beside the best mixture, so the search starts from the best point of a grid as well.
    weights = max([np.full(len(half.rankings), 0.5), *simplex(len(half.rankings))], key=score)
    for steps in (lambda now: COARSE, lambda now: np.clip(now + FINE, 0, 1)):
        for _ in range(_ROUNDS):
            before = score(weights)
            for i in range(len(weights)):
                tries = [weights, *(_with(weights, i, value) for value in steps(weights[i]))]
                weights = max((w for w in tries if w.sum() > 0), key=score)
            if score(weights) <= before:
                break
    share = np.round(weights / weights.sum(), 3)
    return share, float(half.blended(share, norm).mean())


def _with(weights: Floats, i: int, value: float) -> Floats:
    changed = weights.copy()
    changed[i] = value
    return changed
