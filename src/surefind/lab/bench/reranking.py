"""Runs rerankers over an exam, in batches; results are cached by their input, and failures are counted.

If a reranker fails, the ranking before it is kept, as in a search. But a benchmark reports for how many questions this
happened, and stops at once if the reranker is not set up (a missing package, model or key): a report row that silently
shows another configuration's scores would be wrong.

Measures what rerankers changed: how much they moved, and which questions they harmed (the cascade study's tables IV
to VI).

- *Swaps*: how many of the first ten places hold another passage than before; the mean over the questions.
- *Top-1 changed*: the share of questions whose first passage changed.
- *By family*: the mean change of the primary measure within each family of questions; a star marks a change whose
  interval does not contain zero.
- *Degraded*: the questions whose primary measure fell, how many of them contain a number, and their length compared to
  all questions; the worst ones with their text and what moved. *Improved* is reported beside it: a stage is judged by
  both.

Keeps benchmark results on disk, so that a repeated run computes nothing again.

The key of a result is a hash of everything it depends on.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefind.base.abilities import declared, name_of
from surefind.base.disk.arrays import read_archive
from surefind.base.disk.sealed import Record, from_json, read_sealed, sealed, unsealed, write_file, write_sealed
from surefind.base.errors import BudgetError, MissingPartError, SpecError, SurefindError, UsageError
from surefind.base.protocols import Passages, Progress, Reranker, Services
from surefind.base.running import collecting
from surefind.base.text.words import count_words
from surefind.base.types import PAD, Floats, IdArray, Query, Rankings
from surefind.engine.store import indexes
from surefind.engine.store.backend import Spans
from surefind.lab.bench.report import FamilyChange, HarmedQuestion, MeanWords, ReportRow, RerankChange
from surefind.lab.exam.model import ExamQuery, clusters_of
from surefind.lab.measure.ranks import MEASURES, Judge, Measure
from surefind.lab.measure.statistics import bootstrap

_FORMAT = 11
"""Increase it when results change for the same configuration. A new format of the indexes counts as well."""


class RunCache:
    def __init__(self, folder: Path, read: bool = True) -> None:
        self.folder = folder
        self._read = read
        """False: ignore stored results, compute everything again and overwrite them."""

    def key(self, *parts: object) -> str:
        text = "\0".join([f"{_FORMAT}.{indexes.FORMAT}", *map(str, parts)])
        return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()

    def rankings(self, key: str) -> Rankings | None:
        path = self.folder / f"{key}.npz"
        if not self._read or not path.exists():
            return None
        try:
            data = read_archive(path)
            meta = unsealed(json.loads(str(data["meta"])))
            ids, scores = data["ids"], data["scores"]
            if meta["arrays"] != _checksum(ids, scores):
                return None
            if ids.dtype != np.int64 or scores.dtype.kind != "f" or ids.ndim != 2 or scores.shape != ids.shape:
                return None
            return Rankings(ids, scores, meta["source"], meta["signal"], float(meta["floor"]))
        except Exception:  # numpy, zipfile and zlib raise errors of their own
            return None  # a half-written or damaged file is computed again

    def put_rankings(self, key: str, rankings: Rankings) -> None:
        about = {"source": rankings.source, "signal": rankings.signal, "floor": rankings.floor}
        meta = json.dumps(sealed({**about, "arrays": _checksum(rankings.ids, rankings.scores)}))
        self.folder.mkdir(parents=True, exist_ok=True)
        made = io.BytesIO()
        np.savez(made, ids=rankings.ids, scores=rankings.scores, meta=np.array(meta))
        write_file(self.folder / f"{key}.npz", made.getvalue(), durable=False)

    def data(self, key: str) -> Any | None:
        if not self._read:
            return None
        try:
            return read_sealed(self.folder / f"{key}.json")["value"]
        except (OSError, ValueError, KeyError):
            return None

    def record(self, kind: type[Record], key: str) -> Record | None:
        """Returns a record of this type that was stored as JSON; None if there is none, or it is of another type."""
        value = self.data(key)
        try:
            return None if value is None else from_json(kind, value)
        except ValueError:
            return None

    def put_data(self, key: str, value: Any) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_sealed(self.folder / f"{key}.json", {"value": value}, durable=False, indent=None)


def _checksum(ids: IdArray, scores: NDArray[Any]) -> int:
    return zlib.crc32(np.ascontiguousarray(scores).tobytes(), zlib.crc32(np.ascontiguousarray(ids).tobytes()))


_BATCH, _SLOW_BATCH = 64, 8
"""Questions per batch, between two reports of progress: many for a reranker that calls a service, which answers in
parallel; few for one that computes on this machine."""
_GIVE_UP = 2
"""After this many failed batches in a row, the remaining batches are not tried."""
_TRIED = 100
"""Candidates given to a reranker when its time is estimated."""
_STOP = (MissingPartError, SpecError, UsageError, BudgetError)
"""Errors that end the benchmark instead of counting as a failed batch."""


@dataclass(frozen=True)
class Step:
    """The rankings before and after one reranker of one configuration."""

    name: str
    before: Rankings
    after: Rankings
    fell_back: int = 0
    """Number of questions that kept the ranking before because the stage failed."""
    why: str = ""
    """The message of the first failure."""
    stood_in: int = 0
    """Number of calls answered by the fallback model instead of the stage's own."""


class Reranking:
    """Runs rerankers over a whole exam."""

    def __init__(
        self, passages: Passages, services: Services, cache: RunCache, corpus: str, exam: str, behind: str = ""
    ) -> None:
        self._passages = passages
        self._behind = behind
        self._services = services
        self._cache = cache
        self._scope = (corpus, exam)

    def key(self, reranker: Reranker, given: Rankings, k: int) -> str:
        digest = hashlib.blake2b(given.ids.tobytes() + given.scores.tobytes(), digest_size=16).hexdigest()
        # The result of a reranker that looks beyond its ranking also depends on the pipeline before it.
        behind = self._behind if declared(reranker).reaches else ""
        return self._cache.key(
            "rerank", *self._scope, reranker, declared(reranker).stamp(self._services), digest, k, behind
        )

    def seconds(self, reranker: Reranker, query: Query, ids: IdArray) -> float:
        """Seconds per question, measured on passages from the whole collection; 0 if the reranker is not set up."""
        tried = ids[np.unique(np.linspace(0, len(ids) - 1, min(len(ids), _TRIED)).astype(np.int64))]
        given = Rankings(tried[None], -np.arange(len(tried), dtype=np.float32)[None])
        try:
            for _ in range(2):  # only the second is timed: the first loads the models
                started = time.perf_counter()
                reranker.rerank([query], given, self._passages, 10, self._services)
        except SurefindError:
            return 0.0
        return time.perf_counter() - started

    def run(
        self,
        reranker: Reranker,
        queries: Sequence[Query],
        given: Rankings,
        k: int,
        progress: Progress,
    ) -> Step:
        """Reranks `given` for all queries."""
        name = name_of(reranker)
        key = self.key(reranker, given, k)
        known = self._cache.rankings(key)
        if known is not None:
            return Step(name, given, known)
        size = _SLOW_BATCH if declared(reranker).runs_here else _BATCH
        parts: list[Rankings] = []
        failed, in_a_row, why, stood_in = 0, 0, "", 0
        for at in range(0, len(queries), size):
            progress(at, len(queries))
            rows = _rows(given, at, at + size)
            try:
                if in_a_row >= _GIVE_UP:
                    raise SurefindError(why)
                with collecting() as collected:
                    parts.append(reranker.rerank(queries[at : at + size], rows, self._passages, k, self._services))
                self._services.meter.check()
                in_a_row = 0
                if (
                    collected.without or collected.stood_in
                ):  # no failure, but some answers are missing or the fallback's
                    failed, stood_in = failed + collected.without, stood_in + collected.stood_in
                    why = why or collected.text
            except _STOP:
                raise
            except SurefindError as error:
                parts.append(rows)
                failed, in_a_row, why = failed + len(rows), in_a_row + 1, why or str(error)
        progress(len(queries), len(queries))
        after = stacked(parts, k)
        if not (failed or stood_in):
            self._cache.put_rankings(key, after)
        return Step(name, given, after, failed, why, stood_in)


def step_problems(names: Sequence[str], steps: Sequence[Sequence[Step]]) -> list[str]:
    """Says for which rerankers the model failed, or another model stood in."""
    every = [(name, step) for name, made in zip(names, steps, strict=True) for step in made]
    failed = [
        f"{name}: {step.name} failed for {step.fell_back} questions, which kept the ranking before it ({step.why})"
        for name, step in every
        if step.fell_back
    ]
    others = [
        f"{name}: {step.name} got {step.stood_in} answers from the fallback, not from its own model ({step.why})"
        for name, step in every
        if step.stood_in
    ]
    return failed + others


def _rows(rankings: Rankings, start: int, end: int) -> Rankings:
    return replace(rankings, ids=rankings.ids[start:end], scores=rankings.scores[start:end])


def stacked(parts: Sequence[Rankings], k: int) -> Rankings:
    """Joins the rankings of several batches, cut or padded to the width of the widest, and to k at most."""
    width = min(k, max(part.ids.shape[1] for part in parts))
    shape = (sum(len(part) for part in parts), width)
    precision = np.result_type(*(part.scores for part in parts))
    ids, scores = np.full(shape, PAD, np.int64), np.full(shape, -np.inf, precision)
    at = 0
    for part in parts:
        n = min(width, part.ids.shape[1])
        ids[at : at + len(part), :n] = part.ids[:, :n]
        scores[at : at + len(part), :n] = part.scores[:, :n]
        at += len(part)
    return replace(parts[-1], ids=ids, scores=scores)


PLACES = 10
"""Ranks that are compared before and after a reranker."""
_WORST = 10
"""Most degraded questions that a report lists for each reranker."""
_HELD = 0.00005
"""A smaller change of a question's score counts as none: it is a rounding error."""


def swaps(before: Rankings, after: Rankings, places: int = PLACES) -> Floats:
    """For each question, how many of the first `places` ranks hold another passage than before, or none any more."""
    width = min(places, max(before.ids.shape[1], after.ids.shape[1]))
    return np.asarray((_wide(before, width) != _wide(after, width)).sum(axis=1), np.float64)


def top_changed(before: Rankings, after: Rankings) -> NDArray[np.bool_]:
    return np.asarray(_wide(before, 1)[:, 0] != _wide(after, 1)[:, 0])


def _wide(rankings: Rankings, width: int) -> NDArray[np.int64]:
    ids = rankings.ids[:, :width]
    return np.pad(ids, ((0, 0), (0, width - ids.shape[1])), constant_values=-1)


class Movement:
    """Measures the steps of rerankers on an exam."""

    def __init__(
        self,
        queries: Sequence[ExamQuery],
        judge: Judge,
        measure: Measure,
        spans: Spans,
        titles: Mapping[str, str],
    ) -> None:
        self._queries = queries
        self._clusters = clusters_of(queries)
        self._judge = judge
        self._measure = measure
        self._spans = spans
        self._titles = titles

    def of(self, step: Step) -> RerankChange:
        """What a reranker changed. If the primary measure is a gold-span measure, which has no judgments by rank, only
        the moved places are reported."""
        moved = RerankChange(
            stage=step.name,
            swaps=round(float(swaps(step.before, step.after).mean()), 3),
            top1_changed=round(float(top_changed(step.before, step.after).mean()), 4),
            fell_back=step.fell_back,
            why=step.why,
        )
        return moved if self._measure.of_spans else self._judged(moved, step)

    def _judged(self, moved: RerankChange, step: Step) -> RerankChange:
        """Adds what the change did to the scores."""
        gains = [self._judge.gains(ranking, self._measure.level) for ranking in (step.before, step.after)]
        before, after = (np.asarray(MEASURES[self._measure.name](g, self._measure.k), np.float64) for g in gains)
        change = after - before
        firsts = [_first_relevant(g.gains) for g in gains]
        worse = np.flatnonzero(change < -_HELD)
        order = worse[np.argsort(change[worse], kind="stable")][:_WORST].tolist()
        lengths = np.array([count_words(query.text) for query in self._queries])
        numeric = np.array([bool(re.search(r"\d", query.text)) for query in self._queries])
        return replace(
            moved,
            measure=str(self._measure),
            change=bootstrap(change[:, None], clusters=self._clusters)[0],
            families=self._families(change),
            improved=int((change > _HELD).sum()),
            degraded=len(worse),
            queries=len(change),
            degraded_with_numbers=int(numeric[worse].sum()),
            with_numbers=int(numeric.sum()),
            words=MeanWords(_mean(lengths[worse]), _mean(lengths)),
            worst=tuple(
                HarmedQuestion(
                    id=self._queries[q].id,
                    text=self._queries[q].text,
                    family=self._queries[q].family,
                    change=round(float(change[q]), 4),
                    first_relevant=(firsts[0][q], firsts[1][q]),
                    top=(self._passage(step.before, q), self._passage(step.after, q)),
                )
                for q in order
            ),
        )

    def _families(self, change: Floats) -> dict[str, FamilyChange]:
        """The change within each family of questions, since a stage may help one and harm another; empty if there is
        only one family."""
        labels = np.array([query.family for query in self._queries])
        families = sorted(set(labels.tolist()))
        if len(families) < 2:
            return {}
        changes = {}
        for family in families:
            own = labels == family
            interval = bootstrap(change[own][:, None], clusters=self._clusters[own])[0]
            changes[family] = FamilyChange(
                mean=interval.mean, low=interval.low, high=interval.high, queries=int(own.sum())
            )
        return changes

    def _passage(self, rankings: Rankings, q: int) -> str:
        """The title of the first document."""
        ids = rankings.row(q)[0]
        if not len(ids):
            return ""
        document = self._spans.document(int(ids[0]))
        return self._titles.get(document) or document


def _first_relevant(gains: Any) -> list[int | None]:
    return [int(np.argmax(row > 0)) + 1 if (row > 0).any() else None for row in np.asarray(gains)]


def _mean(values: NDArray[Any]) -> float | None:
    return round(float(values.mean()), 1) if len(values) else None


def in_words(row: ReportRow) -> list[str]:
    """A line about each reranker of a report row, for the terminal and Markdown."""
    lines = []
    for moved in row.reranking:
        text = (
            f"{row.name}, {moved.stage}: {moved.swaps:.1f} of the first {PLACES} places and "
            f"{moved.top1_changed:.0%} of the first passages changed"
        )
        if moved.change is not None:
            change = moved.change
            text += (
                f"; {moved.improved} questions better, {moved.degraded} worse of {moved.queries} "
                f"({moved.measure} {change.mean:+.3f} [{change.low:+.3f}, {change.high:+.3f}])"
            )
        if moved.families:
            changes = (f"{name} {one.mean:+.3f}{'*' if one.clear else ''}" for name, one in moved.families.items())
            text += f"; by family: {', '.join(changes)}"
        if moved.fell_back:
            text += f"; it failed for {moved.fell_back} questions, which kept the ranking before it: {moved.why}"
        lines.append(text)
    return lines
