"""Shows a race: the standing after each block of questions, the leaderboard, and the result in words."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from surefind.base.disk.sealed import to_json
from surefind.lab.bench.recommendation import MARGIN
from surefind.lab.measure.statistics import Interval
from surefind.lab.tune.search import MIN_HALF, Confirmed, Race, Standing, Tuned

if TYPE_CHECKING:
    from rich.table import Table

_MAX_LISTED = 5
"""Leaders that a standing lists, and dropped candidates that it names."""


def lines(standing: Standing) -> Iterator[str]:
    """The standing after a block, for the terminal or a log."""
    race, names = standing.race, [contender.name for contender in standing.contenders]
    asked = int(race.questions.max())
    alive = f"{len(race.alive)} of {len(names)} candidates left"
    times = f"{standing.seconds:.0f} s, at most {standing.left:.0f} s more"
    yield f"{standing.stage}: {asked} of {standing.total} questions, {alive}, {times}{standing.money}"
    leaders = sorted(race.alive, key=lambda i: -race.means[i])[:_MAX_LISTED]
    errors = _errors(race)
    for i in leaders:
        yield f"  {race.means[i]:.3f} ± {1.96 * errors[race.alive.index(i)]:.3f}  {names[i]}"
    if standing.dropped:
        first = [
            f"{names[drop.candidate]} ({drop.difference:+.3f}; {drop.chance:.1%} to be better)"
            for drop in sorted(standing.dropped, key=lambda drop: drop.difference)[:_MAX_LISTED]
        ]
        more = f" and {len(standing.dropped) - _MAX_LISTED} more" if len(standing.dropped) > _MAX_LISTED else ""
        leader = names[standing.dropped[0].leader]
        yield f"  dropped against {leader}: {', '.join(first)}{more}"


def leaderboard(tuned: Tuned) -> Table:
    """The survivors and the last that were dropped, best first."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("configuration", overflow="fold")
    table.add_column(f"{tuned.measure}", justify="right", no_wrap=True)
    table.add_column("questions", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for row in rows(tuned)[: 4 * _MAX_LISTED]:
        table.add_row(row.name, f"{row.mean:.3f}", str(row.questions), row.status)
    return table


@dataclass(frozen=True)
class CandidateRow:
    name: str
    spec: str
    layout: str
    mean: float
    questions: int
    """How many it was asked."""
    status: str
    """What became of it; empty for a survivor that did not win."""


def rows(tuned: Tuned) -> list[CandidateRow]:
    """Every candidate with its mean, the questions it was asked, and what became of it. Survivors come first."""
    every: dict[str, CandidateRow] = {}
    for contenders, race in tuned.races:
        dropped = {drop.candidate: drop for drop in race.drops}
        for i, candidate in enumerate(contenders):
            if not race.questions[i]:
                continue
            drop = dropped.get(i)
            status = f"dropped: {drop.difference:+.3f} against {contenders[drop.leader].name}" if drop else ""
            mean, asked = round(float(race.means[i]), 5), int(race.questions[i])
            every[str(candidate)] = CandidateRow(
                candidate.name, str(candidate.pipeline), str(candidate.layout or ""), mean, asked, status
            )
    winner = str(tuned.winner)
    if winner in every:
        every[winner] = replace(every[winner], status="winner")
    order = {"winner": 0, "": 1}
    return sorted(every.values(), key=lambda row: (order.get(row.status, 2), -row.mean))


def result(tuned: Tuned) -> Iterator[str]:
    """What was found, how sure it is, and what to do."""
    for name, reason in list(tuned.over.items())[:_MAX_LISTED]:
        yield f"Over a limit: {name} ({reason})."
    if len(tuned.over) > _MAX_LISTED:
        yield f"Over a limit: {len(tuned.over) - _MAX_LISTED} more."
    if tuned.winner is None or tuned.leader is None:
        yield "No block of questions was finished, so there is no best configuration yet."
        return
    early = f" ({tuned.stopped})" if tuned.stopped else ""
    yield f"Best so far: {tuned.winner.name}{early}." if tuned.stopped else f"Best: {tuned.winner.name}."
    begun = [race for _, race in tuned.races if race.questions.any()]
    yield _of_race(tuned.winner.name, tuned.leader.name, begun[-1])
    if tuned.confirmed is not None:
        yield confirmation(tuned.winner.name, tuned.confirmed, tuned.measure, tuned.kept)
    elif tuned.few and not tuned.stopped:
        yield unconfirmed(tuned.winner.name, tuned.few, tuned.kept)


def _of_race(winner: str, leader: str, race: Race) -> str:
    """What the race says about its winner."""
    others, asked = len(race.alive) - 1, int(race.questions.max())
    left = f"after {asked} questions {others} other candidate{' is' if others == 1 else 's are'} left"
    if winner != leader:
        points = f"{100 * MARGIN:g} points"
        return f"{leader} scored more, but no more than {points}, and costs more; {left}."
    score = f"It scored {race.means[race.leader]:.3f} in the race"
    return f"{score}; {left}, which may be as good." if others else f"{score}; all others were dropped."


def confirmation(name: str, confirmed: Confirmed, measure: str, same: bool) -> str:
    gain = f"{confirmed.gain.mean:+.3f} [{confirmed.gain.low:+.3f}, {confirmed.gain.high:+.3f}]"
    scores = f"{_estimate(confirmed.winner)} against {_estimate(confirmed.current)} {measure}"
    where = f"on {confirmed.questions} questions that the race never saw"
    if same:
        return f"It is the current configuration: {_estimate(confirmed.current)} {measure} {where}. Nothing to change."
    if confirmed.better:
        return f"Confirmed {where}: {scores}, {gain} better than the current configuration (p = {confirmed.p:.4f})."
    return (
        f"Not confirmed {where}: {scores}, a difference of {gain}, which may be noise. The current configuration "
        f"stays. To use {name} anyway, run: surefind use."
    )


def unconfirmed(name: str, questions: int, same: bool) -> str:
    """What few questions can and cannot tell."""
    can = f"{questions} questions can drop what is clearly worse here; between the rest, chance decides"
    cannot = f"They cannot confirm a gain: that takes {2 * MIN_HALF} real questions, half of which the race never sees"
    done = "It is the current configuration. Nothing to change" if same else "The current configuration stays"
    way = "" if same else f" To use {name} anyway, run: surefind use {shlex.quote(name)}."
    return f"{can}. {cannot}. {done}.{way}"


def as_json(tuned: Tuned) -> dict[str, Any]:
    """The result for `--json`."""
    confirmed = tuned.confirmed
    return {
        "measure": tuned.measure,
        "winner": None
        if tuned.winner is None
        else {
            "name": tuned.winner.name,
            "spec": str(tuned.winner.pipeline),
            "layout": str(tuned.winner.layout or ""),
        },
        "rows": to_json(rows(tuned)),
        "over": tuned.over,
        "confirmed": None
        if confirmed is None
        else {
            "questions": confirmed.questions,
            "winner": confirmed.winner.mean,
            "current": confirmed.current.mean,
            "gain": [confirmed.gain.mean, confirmed.gain.low, confirmed.gain.high],
            "p": confirmed.p,
            "better": confirmed.better,
        },
        "few": tuned.few,
        "stopped": tuned.stopped,
        "seconds": round(tuned.seconds, 1),
    }


def _errors(race: Race) -> Any:
    scores = race.scores
    return scores.std(axis=0, ddof=1) / np.sqrt(len(scores)) if len(scores) > 1 else np.zeros(scores.shape[1])


def _estimate(interval: Interval) -> str:
    return f"{interval.mean:.3f} [{interval.low:.3f}, {interval.high:.3f}]"
