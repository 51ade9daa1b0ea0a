"""Measures whether a recommendation holds for real questions, leaving one corpus out at a time.

    python benchmarks/exam_validity.py collect --data DATA --work WORK     scores of every configuration, once
    python benchmarks/exam_validity.py report --work WORK                  the tables of docs/results/exam-validity.md
    python benchmarks/exam_validity.py prior --work WORK                   writes src/surefind/bench/prior.json

DATA holds collections in BEIR layout (a folder each); the bundled sample with its staff questions is added. `collect`
needs the encoder and the cross-encoder for every collection: hours on 2 cores for ten of them. It can be stopped and
continued.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path

import numpy as np

from _collecting import CONFIGURATIONS, DEFAULT, EFFECTS, MEASURE, SEED, collect
from surefind.bench import prior
from surefind.bench.prior import Belief, Kind, choose, evidence, fit_kind, fit_prior, pooled, sampling_error
from surefind.bench.recommendation import MARGIN
from surefind.config import default_settings
from surefind.search.pipeline import Pipeline

# ---------------------------------------------------------------- leaving one corpus out


Scores = dict[str, np.ndarray]
"""Scores of one corpus: `real` and each family, (questions, configurations)."""
FEWEST_CORPORA = 4
"""Corpora that a kind of questions must have been compared with real ones on, for its error to be estimated."""
REPEATS = 40
"""Random samples of real questions for each number of them."""


def load(work: Path) -> dict[str, Scores]:
    found = {path.stem: dict(np.load(path)) for path in sorted(work.glob("*.npz"))}
    for scores in found.values():
        assert scores.pop("names").tolist() == [*CONFIGURATIONS, *EFFECTS]
    return found


def against_default(scores: np.ndarray) -> np.ndarray:
    return np.asarray(scores - scores[:, [list(CONFIGURATIONS).index("hybrid")]], dtype=np.float64)


def report(work: Path) -> None:
    corpora = load(work)
    families = sorted({family for scores in corpora.values() for family in scores if family not in ("real", "effects")})
    rows: dict[str, list[tuple[float, float]]] = defaultdict(list)
    stated: dict[str, list[tuple[float, bool]]] = defaultdict(list)
    picks: dict[str, dict[str, str]] = defaultdict(dict)
    for name, scores in corpora.items():
        others = [other for key, other in corpora.items() if key != name]
        truth = scores["real"].mean(axis=0).astype(np.float64)
        before = fit_prior([against_default(other["real"]) for other in others])
        typical = pooled([against_default(other["real"]) for other in others])

        def judge(row: str, estimate: np.ndarray, truth: np.ndarray = truth, name: str = name) -> None:
            chosen = int(np.argmax(estimate))
            rows[row].append((kendall(estimate, truth), 100 * float(truth.max() - truth[chosen])))
            picks[row][name] = list(CONFIGURATIONS)[chosen]

        def state(row: str, belief: Belief, truth: np.ndarray = truth) -> None:
            choice = choose(belief, MARGIN)
            stated[row].append((choice.within, bool(truth.max() - truth[choice.best] <= MARGIN)))

        written = np.concatenate([scores[family] for family in families if family in scores])
        judge("known-item exam alone", written.mean(axis=0))
        judge("default (hybrid)", np.eye(len(truth))[list(CONFIGURATIONS).index("hybrid")])
        judge("prior", before.mean)
        state("prior", before)
        joint = before
        for family in families:
            if family not in scores or len(scores[family]) < 20:
                continue
            judge(f"{family} alone", scores[family].mean(axis=0))
            known = [other for other in others if family in other and len(other[family]) >= 20]
            if len(known) < FEWEST_CORPORA and family != "heading_paraphrase":
                continue
            kind = (
                Kind(np.zeros(len(truth)), before.covariance)
                if len(known) < FEWEST_CORPORA
                else fit_kind(
                    [against_default(other[family]) for other in known],
                    [against_default(other["real"]) for other in known],
                )
            )
            seen = evidence(against_default(scores[family]), kind, typical)
            belief = before.updated(seen)
            judge(f"prior + {family}", belief.mean)
            state(f"prior + {family}", belief)
            if family == "heading_paraphrase":
                joint = belief
        real = against_default(scores["real"])
        rng = np.random.default_rng(SEED)
        for count in (10, 30, 75):
            for _ in range(REPEATS):
                drawn = rng.permutation(len(real))[: min(count, len(real) // 2)]
                rest = np.setdiff1d(np.arange(len(real)), drawn)
                judged = scores["real"][rest].mean(axis=0).astype(np.float64)
                seen = evidence(real[drawn], None, typical)
                judge(f"{count} real questions alone", real[drawn].mean(axis=0), judged)
                belief = before.updated(seen)
                judge(f"prior + {count} real questions", belief.mean, judged)
                state(f"prior + {count} real questions", belief, judged)
                judge(f"prior + paraphrase + {count} real questions", joint.updated(seen).mean, judged)
        for _ in range(REPEATS):
            order = rng.permutation(len(real))
            half, rest = order[: len(order) // 2], order[len(order) // 2 :]
            judge("the other half (ceiling)", real[half].mean(axis=0), scores["real"][rest].mean(axis=0).astype(float))
    print("| basis of the choice | mean τ | mean regret | worst corpus |\n|---|---|---|---|")
    for row, results in rows.items():
        taus, regrets = np.array(results).T
        by_corpus = regrets.reshape(len(corpora), -1).mean(axis=1) if len(regrets) % len(corpora) == 0 else regrets
        print(f"| {row} | {np.nanmean(taus):.2f} | {by_corpus.mean():.2f} | {by_corpus.max():.2f} |")
    print(f"\n| stated probability (margin {MARGIN}) | recommendations | mean stated | within the margin |")
    print("|---|---|---|---|")
    for row, pairs in stated.items():
        said, held = np.array(pairs, dtype=float).T
        sure = said >= 0.9
        high = f"; of {sure.sum()} given 90%: {held[sure].mean():.0%}" if sure.any() else ""
        print(f"| {row} | {len(said)} | {said.mean():.2f} | {held.mean():.2f}{high} |")
    for row in ("known-item exam alone", "prior", "prior + heading_paraphrase"):
        print(row, json.dumps(picks[row], ensure_ascii=False))


def write_prior(work: Path) -> None:
    """Writes the table that ships with the package."""
    corpora = load(work)
    real = {name: against_default(scores["real"]) for name, scores in corpora.items()}
    belief = fit_prior(list(real.values()))
    table = {
        "measure": str(MEASURE),
        "default": str(Pipeline.parse(DEFAULT)),
        "corpora": {
            name: {"questions": len(scores), "differences": scores.mean(axis=0).round(4).tolist()}
            for name, scores in real.items()
        },
        "specs": [str(Pipeline.parse(text)) for text in CONFIGURATIONS.values()],
        "mean": belief.mean.round(5).tolist(),
        "covariance": belief.covariance.round(8).tolist(),
        "per_question": pooled(list(real.values())).round(6).tolist(),
        "layout": str(default_settings().layout),
        "effects": effects([scores["effects"] for scores in corpora.values()]),
    }
    place = Path(prior.__file__).with_name("prior.json")
    place.write_text(
        json.dumps(table, indent=None, separators=(",", ":")).replace('],"', '],\n"') + "\n", encoding="utf-8"
    )
    print(f"{place}: {len(table['specs'])} configurations, {len(real)} corpora")
    for spec, mean, spread in zip(CONFIGURATIONS, belief.mean, np.sqrt(np.diag(belief.covariance)), strict=True):
        print(f"| {spec} | {100 * mean:+.1f} | {100 * spread:.1f} |")
    for stage, found in table["effects"].items():
        print(f"| {stage} | {100 * found['mean']:+.1f} | {100 * found['spread']:.1f} |")


def effects(corpora: list[np.ndarray]) -> dict[str, dict[str, float]]:
    """What each change does to the default: its mean over the collections, its spread between them without sampling
    error, and the spread of one question. The key is the stage that differs."""
    usual = {str(stage) for stage in Pipeline.parse(DEFAULT).stages}
    found = {}
    for i, text in enumerate(EFFECTS.values(), 1):
        (stage,) = (str(stage) for stage in Pipeline.parse(text).stages if str(stage) not in usual)
        gains = [scores[:, [i]].astype(np.float64) - scores[:, [0]] for scores in corpora]
        means = np.array([gain.mean() for gain in gains])
        noise = float(np.mean([sampling_error(gain)[0, 0] for gain in gains]))
        variance = max(float(means.var(ddof=1)) - noise, 0.1 * float(means.var(ddof=1))) * (1 + 1 / len(means))
        question = float(np.mean([gain.var(ddof=1) for gain in gains]))
        values = {"mean": means.mean(), "spread": variance**0.5, "question_spread": question**0.5}
        found[stage] = {key: round(float(value), 5) for key, value in values.items()}
    return found


def kendall(a: np.ndarray, b: np.ndarray) -> float:
    """Kendall's τ-b."""
    first, second = np.triu_indices(len(a), 1)
    x, y = np.sign(a[first] - a[second]), np.sign(b[first] - b[second])
    size = np.sqrt((x != 0).sum() * (y != 0).sum())
    return float((x * y).sum() / size) if size else float("nan")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["collect", "report", "prior"])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    given = parser.parse_args()
    if given.step == "collect":
        collect(given.data, given.work)
    elif given.step == "report":
        report(given.work)
    else:
        write_prior(given.work)
