"""`surefind train fusion`: a model that weighs the rankings anew for each query, and whether it pays."""

from __future__ import annotations

import datetime
import json
import re
import shutil
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from surefind import __version__
from surefind.bench.plan import short
from surefind.errors import SpecError, choices
from surefind.exam.model import Exam
from surefind.fuse._features import alpha_at
from surefind.fuse._join import Floats
from surefind.fuse._predictors import Norm
from surefind.fuse.learned import FORMAT, MANIFEST
from surefind.fuse.rrf import RRF
from surefind.kb import KnowledgeBase
from surefind.measure.names import Measure
from surefind.pipeline import Pipeline
from surefind.snapshot import Snapshot
from surefind.sync import Report
from surefind.train.alpha import Fitted, fit_mlp, fit_ridge, fit_xgboost, r_squared
from surefind.train.gain import fit_ndcg
from surefind.train.judge import compare, verdict
from surefind.train.material import NORMS, K, Material, gather, simplex

MODELS: dict[str, Callable[[Material, Report], Fitted]] = {
    "ridge": fit_ridge,
    "xgboost": fit_xgboost,
    "mlp": fit_mlp,
    "ndcg": fit_ndcg,
}
NDCG = Measure("nDCG", 10)
RRF_K = 60.0
_BEST_STATIC, _RRF = 1, 2


def train_fusion(
    kb: KnowledgeBase,
    exam: Exam,
    model: str = "ndcg",
    retrieve: Sequence[str] = ("bm25", "dense"),
    name: str = "",
    measure: Measure = NDCG,
    report: Report | None = None,
) -> dict[str, Any]:
    """Fit on the tuning half, judge on the other, save; the manifest, which is also the report."""
    tell: Report = report or (lambda what, done, total: None)
    name = name or f"{model}-{exam.name}"
    _check(model, name, retrieve)
    material = gather(kb, exam, retrieve, measure, report)
    if model == "mlp" and not material.embedder:
        raise SpecError(
            "The mlp reads the query's vector, so one of the retrievers must be dense. Add --retrieve dense."
        )
    started = time.perf_counter()
    fitted = MODELS[model](material, tell)
    seconds = time.perf_counter() - started
    tell("Judging", 0, 1)
    manifest = _manifest(material, fitted, name, seconds) | _judged(material, fitted, name)
    tell("Judging", 1, 1)
    _save(kb, name, fitted, manifest)
    return manifest


def _check(model: str, name: str, retrieve: Sequence[str]) -> None:
    if model not in MODELS:
        raise SpecError(f"There is no model {model!r}; {choices(model, MODELS)}")
    if not re.fullmatch(r"[A-Za-z_][\w-]*", name):
        raise SpecError(f"A model cannot be called {name!r}. Begin with a letter; use letters, digits, '-' and '_'.")
    if model != "ndcg" and len(retrieve) != 2:
        raise SpecError(f"{model} weighs two rankings, not {len(retrieve)}. Name two retrievers, or take --model ndcg.")


def _manifest(material: Material, fitted: Fitted, name: str, seconds: float) -> dict[str, Any]:
    pairs = zip(material.pipeline.retrieve, material.tuning.rankings, strict=True)
    return {
        "format": FORMAT,
        "name": name,
        "model": fitted.predictor.kind,
        "surefind": __version__,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "corpus": material.snapshot.fingerprint,
        "retrievers": [
            {"spec": str(r), "index": r.index_spec, "name": ranking.source, "signal": ranking.signal}
            for r, ranking in pairs
        ],
        "embedder": material.embedder,
        "exam": {"name": material.exam.label, "fingerprint": material.exam.fingerprint},
        "questions": {"tuning": len(material.tuning.queries), "held_out": len(material.held.queries)},
        "hyperparameters": fitted.chosen,
        "training_seconds": round(seconds, 2),
    }


# ---------------------------------------------------------------- the held-out half


def _judged(material: Material, fitted: Fitted, name: str) -> dict[str, Any]:
    held, predictor = material.held, fitted.predictor
    weights = predictor.weights(held.texts, held.rankings, material.embed)
    learned = held.blended(weights, predictor.norm)
    norm, static = best_static(material)
    label, text = static_spec(material, static, norm)
    others = {(f"best static, {label}", text): held.blended(static, norm)}
    joined = material.joined
    others["RRF k=60", f"{joined} >> {RRF(RRF_K)}"] = held.score(RRF(RRF_K).fuse(held.rankings, K))
    for retriever, ranking in zip(material.pipeline.retrieve, held.rankings, strict=True):
        others[short(Pipeline((retriever,))), str(retriever)] = held.score(ranking)
    oracles, metrics = _oracles(material, fitted, weights)
    rows = compare((f"learned {predictor.kind}", f"{joined} >> learned(model={name})", learned), others, oracles)
    sentence, use = verdict(rows, _BEST_STATIC, str(held.measure))
    return {
        "measure": str(held.measure),
        "rows": [row.as_data() for row in rows],
        "verdict": sentence,
        "use": use,
        "metrics": metrics,
    }


def _oracles(material: Material, fitted: Fitted, weights: Floats) -> tuple[dict[str, Floats], dict[str, Any]]:
    """What knowing the answers would bring; and how near the predicted α come to α*."""
    held = material.held
    candidates = simplex(len(held.rankings))
    ceiling = held.sweep(candidates, fitted.predictor.norm).max(axis=1)
    if len(held.rankings) != 2:
        return {"oracle, best weights per query": ceiling}, fitted.metrics
    at = alpha_at([ranking.signal for ranking in held.rankings])
    stars = held.alphas
    rows = np.stack([1 - stars, stars] if at == 1 else [stars, 1 - stars], axis=1)
    aims = fitted.predictor.kind != "ndcg"  # which aims at the measure, not at α*
    metrics = fitted.metrics | ({"r2_held_out": r_squared(stars, weights[:, at])} if aims else {})
    return {"oracle α*": held.blended(rows, "floor"), "oracle, best α per query": ceiling}, metrics


def best_static(material: Material) -> tuple[Norm, Floats]:
    """The scaling and the weights with the best mean on the tuning half."""
    candidates = simplex(len(material.tuning.rankings))
    means = {norm: material.tuning.sweep(candidates, norm).mean(axis=0) for norm in NORMS}
    norm = max(NORMS, key=lambda norm: float(means[norm].max()))
    return norm, candidates[int(means[norm].argmax())]


def static_spec(material: Material, weights: Floats, norm: Norm) -> tuple[str, str]:
    """Weights as a person would write them: a label and a pipeline."""
    signals = [ranking.signal for ranking in material.tuning.rankings]
    if len(signals) == 2 and signals.count("dense") == 1:
        alpha = round(float(weights[alpha_at(signals)]), 4)
        fuser = f"{'tm2c2' if norm == 'floor' else 'convex'}(alpha={alpha})"
    else:
        fuser = f"weighted(weights=[{', '.join(f'{w:g}' for w in weights)}], norm={norm})"
    return fuser, f"{material.joined} >> {fuser}"


# ---------------------------------------------------------------- on disk


def _save(kb: KnowledgeBase, name: str, fitted: Fitted, manifest: dict[str, Any]) -> None:
    """Written aside and moved: a reader sees the old model or the new one, whole."""
    folder = kb.data / "models"
    aside, place, old = folder / f".{name}.writing", folder / name, folder / f".{name}.old"
    for leftover in (aside, old):
        shutil.rmtree(leftover, ignore_errors=True)
    aside.mkdir(parents=True)
    fitted.predictor.save(aside)
    (aside / MANIFEST).write_text(json.dumps(manifest, ensure_ascii=False, indent=1), encoding="utf-8")
    if place.exists():
        place.rename(old)
    aside.rename(place)
    shutil.rmtree(old, ignore_errors=True)


def manifests(kb: KnowledgeBase) -> list[dict[str, Any]]:
    """Every trained model of a knowledge base."""
    return [
        json.loads(path.read_text(encoding="utf-8")) for path in sorted((kb.data / "models").glob(f"[!.]*/{MANIFEST}"))
    ]


def changes(manifest: dict[str, Any], snapshot: Snapshot) -> list[str]:
    """What is not as it was when the model was trained."""
    return ["the documents or how they are cut"] if manifest["corpus"] != snapshot.fingerprint else []
