"""Compares systems that have settings: chosen on one half of each collection's questions, judged on the other.

Every system gets the setting that is best for it, one for all collections: the one with the highest mean of the
collections' means on one half of the questions. Its scores on the other half count. Then the halves change places, so
that every question is judged once, by a setting that was chosen without it. Differences are paired by question;
intervals resample the questions within each collection. Needs only numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from measures import interval, macro

Settings = Mapping[str, Mapping[str, np.ndarray]]
"""By setting, then by collection: the score of every question."""
Scores = dict[str, dict[str, dict[str, np.ndarray]]]
"""By system, then as `Settings`. `NAME alone` is NAME without BM25."""
ALONE = " alone"
SEED = 7
STAFF = "sample"


@dataclass(frozen=True)
class Judged:
    settings: tuple[str, str]
    """Chosen on the second half for the first, and on the first for the second."""
    scores: dict[str, np.ndarray]
    """By collection, the score of every question by the setting that was chosen without it."""

    @property
    def shown(self) -> str:
        return " / ".join(dict.fromkeys(self.settings))

    def mean(self, names: Sequence[str]) -> float:
        return mean(self.scores, names)


def mean(scores: Mapping[str, np.ndarray], names: Sequence[str]) -> float:
    """The mean of the collections' means, in points."""
    return float(np.mean([scores[name].mean() for name in names])) * 100


def half_of(name: str, questions: int) -> np.ndarray:
    """Which questions of a collection are in the first half: the same for every system."""
    dice = np.random.default_rng([SEED, *name.encode()])
    return np.isin(np.arange(questions), dice.permutation(questions)[: questions // 2])


def best(settings: Settings, chosen: Callable[[str, np.ndarray], np.ndarray] = lambda name, scores: scores) -> str:
    """The setting with the highest mean of the collections, on the scores that `chosen` leaves."""
    return max(settings, key=lambda one: np.mean([chosen(name, row).mean() for name, row in settings[one].items()]))


def judged(settings: Settings) -> Judged:
    names = next(iter(settings.values()))
    first = {name: half_of(name, len(row)) for name, row in names.items()}
    for_first = best(settings, lambda name, row: row[~first[name]])
    for_second = best(settings, lambda name, row: row[first[name]])
    a, b = settings[for_first], settings[for_second]
    return Judged((for_first, for_second), {name: np.where(first[name], a[name], b[name]) for name in names})


def gain(one: Judged, other: Judged, names: Sequence[str]) -> tuple[float, float, float]:
    """The mean gain over the collections, with its interval."""
    return macro([one.scores[name] - other.scores[name] for name in names])


def report(table: Scores, base: str, written: Sequence[str] = ()) -> str:
    """Compares every system with `base`: alone with alone, in the hybrid with in the hybrid. `written`: the
    collections whose questions people wrote, which get a mean of their own."""
    systems = {system: judged(settings) for system, settings in table.items()}
    names = list(next(iter(systems.values())).scores)
    people = [name for name in names if name in written] or names
    kinds = [[s for s in systems if s.endswith(ALONE)], [s for s in systems if not s.endswith(ALONE)]]
    lines = [f"{len(names)} collections, {len(people)} of them ({', '.join(people)}) with questions that people wrote"]
    for kind, against in zip(kinds, (base + ALONE, base), strict=True):
        lines.append(f"\nover {against}: mean of all, gain | mean of people's, gain | {STAFF}, gain | setting")
        for system in kind:
            one, other = systems[system], systems[against]
            cells = [f"{one.mean(some):5.1f} {_shown(gain(one, other, some))}" for some in (names, people)]
            if STAFF in names:
                own = interval(one.scores[STAFF] - other.scores[STAFF])
                cells.append(f"{one.mean([STAFF]):5.1f} {_shown(own)}")
            lines.append(f"{system:28s} {'  |  '.join(cells)}  |  {one.shown}")
    lines += ["", *_of_pairs(systems, names)]
    lines.append(f"by collection, in the hybrid: the score, the gain over {base}, the setting that would be best there")
    for name in names:
        lines.append(f"{name} ({len(systems[base].scores[name])} questions)")
        for system in kinds[1]:
            one, other = systems[system].scores[name], systems[base].scores[name]
            own = best({setting: {name: row[name]} for setting, row in table[system].items()})
            lines.append(f"  {system:28s} {one.mean() * 100:5.1f} {_shown(interval(one - other))}  {own}")
    lines.append("\nall questions, by setting: the mean of all collections (not held out)")
    for system, settings in table.items():
        lines.append(f"{system}: " + ", ".join(f"{one} {mean(row, names):.2f}" for one, row in settings.items()))
    return "\n".join(lines)


def _of_pairs(systems: Mapping[str, Judged], names: Sequence[str]) -> list[str]:
    """The gain of every pair over each of its encoders, alone over alone."""
    lines = []
    for system, one in systems.items():
        kind = ALONE if system.endswith(ALONE) else ""
        parts = system.removesuffix(kind).split(" + ")
        for part in parts if len(parts) > 1 else ():
            lines.append(f"{system} over {part}{kind}: {_shown(gain(one, systems[part + kind], names))}")
    return [*lines, ""] if lines else []


def _shown(cell: tuple[float, float, float]) -> str:
    return f"{cell[0]:+5.2f} [{cell[1]:+.1f}, {cell[2]:+.1f}]"
