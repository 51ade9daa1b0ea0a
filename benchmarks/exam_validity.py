"""Measures whether a recommendation holds for real questions, leaving one corpus out at a time.

An exam of n real questions is drawn at random from those of the corpus (with replacement), and the choice is judged by
the scores of all of them: they are the population.

    python benchmarks/exam_validity.py collect --data DATA --work WORK     scores of every configuration, once
    python benchmarks/exam_validity.py report --work WORK                  the tables of docs/results/exam-validity.md
    python benchmarks/exam_validity.py prior --work WORK                   writes src/surefind/lab/bench/prior.json
    python benchmarks/exam_validity.py effect --spec pair --work SCORES.npz --of 'minilm+arctic|α=0.6|{}' \\
        --over 'minilm|α=0.5|{}'                                           adds one change to that file

DATA holds collections in BEIR layout (a folder each); the bundled sample with its staff questions is added. `collect`
needs the encoder and the cross-encoder for every collection: hours on 2 cores for ten of them. It can be stopped and
continued. `effect` takes the scores (or gains, without --over) of every question that `training/compare_floats.py` and
`training/judge_rerankers.py` keep; {} stands for the name of a collection.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from _collecting import COLLECTED, CONFIGURATIONS, DEFAULT, EFFECTS, MEASURE, SEED, collect
from surefind.base.spec import make
from surefind.engine.search.pipeline import Pipeline
from surefind.kb.settings.config import default_settings
from surefind.kb.settings.template import BUILT_IN
from surefind.lab.bench import prior
from surefind.lab.bench.prior import Belief, choose, evidence, fit_kind, fit_prior, pooled, sampling_error
from surefind.lab.bench.recommendation import MARGIN

# ---------------------------------------------------------------- leaving one corpus out


Scores = dict[str, np.ndarray]
"""Scores of one corpus: `real` and each family, (questions, configurations)."""
HYBRID = list(CONFIGURATIONS).index("hybrid")
FEWEST_QUESTIONS = 20
"""Questions of a family that a collection must have for the family to be judged on it."""
FEWEST_CORPORA = 4
"""Corpora that a kind of questions must have been compared with real ones on, for its error to be estimated."""
REPEATS = 40
"""Random samples of real questions for each number of them."""
ALONE = frozenset({"effects", "reread", "judged"})
"""What a collection's file has beside the scores of `COLLECTED`."""
LEFT_OUT = frozenset({"policyqa"})
"""Its questions ask about one of many companies and do not say which, so all configurations score alike."""


def load(work: Path, rows: Iterable[str] = CONFIGURATIONS) -> dict[str, Scores]:
    """The scores of these configurations on every collection."""
    return {path.stem: _chosen(np.load(path), rows) for path in sorted(work.glob("*.npz")) if path.stem not in LEFT_OUT}


def _chosen(stored: Mapping[str, np.ndarray], rows: Iterable[str]) -> Scores:
    names = stored["names"].tolist()
    columns = [names.index(row) for row in rows]
    return {
        key: stored[key] if key in ALONE else stored[key][:, columns] for key in stored if key not in ("names", "texts")
    }


def against_default(scores: np.ndarray) -> np.ndarray:
    return np.asarray(scores - scores[:, [HYBRID]], dtype=np.float64)


@dataclass
class Table:
    """Choices on collections that were left out: their τ and regret, and whether what was stated held."""

    rows: dict[str, dict[str, list[tuple[float, float]]]] = field(default_factory=dict)
    stated: dict[str, list[tuple[float, bool]]] = field(default_factory=dict)
    picks: dict[str, dict[str, str]] = field(default_factory=dict)

    def judge(self, row: str, name: str, chosen: int, estimate: np.ndarray, truth: np.ndarray) -> None:
        regret = 100 * float(truth.max() - truth[chosen])
        self.rows.setdefault(row, {}).setdefault(name, []).append((kendall(estimate, truth), regret))
        self.picks.setdefault(row, {})[name] = list(CONFIGURATIONS)[chosen]

    def believe(self, row: str, name: str, belief: Belief, truth: np.ndarray) -> None:
        choice = choose(belief, MARGIN, HYBRID)
        self.judge(row, name, choice.best, belief.mean, truth)
        held = bool(truth.max() - truth[choice.best] <= MARGIN)
        self.stated.setdefault(row, []).append((choice.within, held))

    def show(self) -> None:
        print("| basis of the choice | collections | mean τ | mean regret | worst collection |\n|---|---|---|---|---|")
        for row, found in self.rows.items():
            taus = np.nanmean([tau for pairs in found.values() for tau, _ in pairs])
            by = [float(np.mean([regret for _, regret in pairs])) for pairs in found.values()]
            print(f"| {row} | {len(found)} | {taus:.2f} | {np.mean(by):.2f} | {max(by):.2f} |")
        print(f"\n| basis | recommendations | stated (margin {MARGIN}) | held | of those stated as 90% or more |")
        print("|---|---|---|---|---|")
        for row, pairs in self.stated.items():
            said, held = np.array(pairs, dtype=float).T
            sure = said >= 0.9
            high = f"{held[sure].mean():.0%} of {sure.sum()}" if sure.any() else "–"
            print(f"| {row} | {len(said)} | {said.mean():.2f} | {held.mean():.3f} | {high} |")


def report(work: Path) -> None:
    corpora = load(work)
    families = sorted({family for scores in corpora.values() for family in scores if family not in ("real", *ALONE)})
    table = Table()
    for name, scores in corpora.items():
        others = [other for key, other in corpora.items() if key != name]
        truth = scores["real"].mean(axis=0).astype(np.float64)
        before = fit_prior([against_default(other["real"]) for other in others])
        typical = pooled([against_default(other["real"]) for other in others])
        written = [scores[family] for family in families if family in scores]
        if written:
            means = np.concatenate(written).mean(axis=0)
            table.judge("known-item exam alone", name, int(np.argmax(means)), means, truth)
        table.judge("the default pipeline", name, HYBRID, np.eye(len(truth))[HYBRID], truth)
        table.believe("prior", name, before, truth)
        for family in families:
            if family not in scores or len(scores[family]) < FEWEST_QUESTIONS:
                continue
            means = scores[family].mean(axis=0)
            table.judge(f"`{family}` alone", name, int(np.argmax(means)), means, truth)
            known = [other for other in others if len(other.get(family, ())) >= FEWEST_QUESTIONS]
            if len(known) < FEWEST_CORPORA:
                continue
            kind = fit_kind(
                [against_default(other[family]) for other in known],
                [against_default(other["real"]) for other in known],
            )
            seen = evidence(against_default(scores[family]), kind, typical)
            table.believe(f"prior + `{family}`", name, before.updated(seen), truth)
        real = against_default(scores["real"])
        rng = np.random.default_rng(SEED)
        for count in (10, 30, 75, 150):
            for _ in range(REPEATS):
                drawn = real[rng.integers(0, len(real), count)]
                means = drawn.mean(axis=0)
                table.judge(f"{count} real questions alone", name, int(np.argmax(means)), means, truth)
                belief = before.updated(evidence(drawn, None, typical))
                table.believe(f"prior + {count} real questions", name, belief, truth)
    table.show()
    for row in ("known-item exam alone", "prior"):
        print(row, json.dumps(table.picks.get(row), ensure_ascii=False))


def write_prior(work: Path) -> None:
    """Writes the table that ships with the package. The changes that `effect` added to it stay."""
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
        "effects": {**_stored()["effects"], **effects([scores["effects"] for scores in corpora.values()])},
    }
    place = _write(table)
    print(f"{place}: {len(table['specs'])} configurations, {len(real)} corpora")
    for spec, mean, spread in zip(CONFIGURATIONS, belief.mean, np.sqrt(np.diag(belief.covariance)), strict=True):
        print(f"| {spec} | {100 * mean:+.1f} | {100 * spread:.1f} |")
    for stage, found in table["effects"].items():
        print(f"| {stage} | {100 * found['mean']:+.1f} | {100 * found['spread']:.1f} |")
    others = ["hybrid", *(name for name in COLLECTED if name not in CONFIGURATIONS)]
    print("\nNot in the prior, by collection:")
    for name, scores in load(work, others).items():
        means = 100 * (scores["real"] - scores["real"][:, [0]]).mean(axis=0)
        print(name, {other: round(float(mean), 1) for other, mean in zip(others[1:], means[1:], strict=True)})


def effects(corpora: list[np.ndarray]) -> dict[str, dict[str, float]]:
    """What each change does to the default: its mean over the collections, its spread between them without sampling
    error, and the spread of one question. The key is the stage that differs."""
    usual = {str(stage) for stage in Pipeline.parse(DEFAULT).stages}
    found = {}
    for i, text in enumerate(EFFECTS.values(), 1):
        (stage,) = (str(stage) for stage in Pipeline.parse(text).stages if str(stage) not in usual)
        found[stage] = effect([scores[:, [i]].astype(np.float64) - scores[:, [0]] for scores in corpora])
    return found


def effect(gains: list[np.ndarray]) -> dict[str, float]:
    """Of one change, from the gain of every question of each collection, (questions, 1)."""
    means = np.array([gain.mean() for gain in gains])
    noise = float(np.mean([sampling_error(gain)[0, 0] for gain in gains]))
    variance = max(float(means.var(ddof=1)) - noise, 0.1 * float(means.var(ddof=1))) * (1 + 1 / len(means))
    question = float(np.mean([gain.var(ddof=1) for gain in gains]))
    values = {"mean": means.mean(), "spread": variance**0.5, "question_spread": question**0.5}
    return {key: round(float(value), 5) for key, value in values.items()}


def add_effect(spec: str, file: Path, of: str, over: str | None) -> None:
    """Adds one change to the table: a reranker, or a built-in pipeline by its name."""
    scores = np.load(file)
    start, end = of.split("{}")
    names = [
        key[len(start) : len(key) - len(end)] for key in scores.files if key.startswith(start) and key.endswith(end)
    ]
    gains = [scores[of.format(name)] - (scores[over.format(name)] if over else 0) for name in names]
    table = _stored()
    stage = str(default_settings().known[spec] if spec in BUILT_IN else make("rerank", spec))
    table["effects"][stage] = effect([gain[:, None].astype(np.float64) for gain in gains])
    print(f"{_write(table)}: {stage}: {table['effects'][stage]} over {len(names)} collections")


def _stored() -> dict[str, Any]:
    return dict(json.loads(_place().read_text(encoding="utf-8")))


def _place() -> Path:
    return Path(prior.__file__).with_name("prior.json")


def _write(table: dict[str, Any]) -> Path:
    place = _place()
    text = json.dumps(table, indent=None, separators=(",", ":")).replace('],"', '],\n"') + "\n"
    place.write_text(text, encoding="utf-8")
    return place


def kendall(a: np.ndarray, b: np.ndarray) -> float:
    """Kendall's τ-b."""
    first, second = np.triu_indices(len(a), 1)
    x, y = np.sign(a[first] - a[second]), np.sign(b[first] - b[second])
    size = np.sqrt((x != 0).sum() * (y != 0).sum())
    return float((x * y).sum() / size) if size else float("nan")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["collect", "report", "prior", "effect"])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--only", action="append", default=[], help="a collection; may be repeated")
    parser.add_argument("--spec")
    parser.add_argument("--of")
    parser.add_argument("--over")
    given = parser.parse_args()
    if given.step == "effect":
        add_effect(given.spec, given.work, given.of, given.over)
    elif given.step == "collect":
        collect(given.data, given.work, given.only)
    elif given.step == "report":
        report(given.work)
    else:
        write_prior(given.work)
