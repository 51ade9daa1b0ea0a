"""Runs the tasks, keeps the results in the folder of the knowledge base, and refuses a model that is unfit for a step.

    check_model(kb, "ollama:llama3.2", ["order"])      asks the model; the result is stored
    check_calls(kb, needs)                             what the next line would ask, for a quote
    require_fit(kb, needs)                             uses stored results, asks for missing ones, and refuses

A result counts for one model and one version of the tasks. It is stored with a checksum; a damaged file is as good as
none, since the tasks can be asked again.

Decides whether a model is fit for a kind of step, from how often it did a task right.

Each kind has two marks. `chance` is the share that an answer in the right form gets by chance. `useful` is the share
from which on the step is worth having: what a search does without it, or more right answers than wrong ones.

    fit        the lower bound of the share is above `useful`: Clopper and Pearson's one-sided 95% bound
    unfit      so many right answers or more are no surprise by chance: P(X >= right | n, chance) > 0.05
    doubtful   everything between

So few tasks cannot tell a good model from a very good one; they tell a model that can do it from one that cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from math import comb
from typing import Any, Literal

from surefind.base.disk.sealed import read_sealed, write_sealed
from surefind.base.errors import AnswerError, SurefindError, UsageError, choices
from surefind.base.prompts.values import Calls, Message
from surefind.base.protocols import OnProgress
from surefind.base.redact import redacted
from surefind.engine.llm.ask import ask
from surefind.engine.store.indexes import paid_extractor
from surefind.kb import KnowledgeBase
from surefind.lab.fitness.kinds import KINDS, Need, needs_of, tasks_version

Verdict = Literal["fit", "doubtful", "unfit"]
LEVEL = 0.05


@dataclass(frozen=True)
class TaskResult:
    """How often a model did the task of one kind right."""

    kind: str
    right: int
    tasks: int
    chance: float
    useful: float
    bias: float | None = None
    """How far its first choice follows the place in the list, from -1 to 1; only where lists were shown twice."""
    why: str = ""
    """Why an answer could not be used, if there was a reason."""

    @property
    def share(self) -> float:
        return self.right / self.tasks if self.tasks else 0.0

    @property
    def verdict(self) -> Verdict:
        if lower_bound(self.right, self.tasks) > self.useful:
            return "fit"
        return "unfit" if tail(self.right, self.tasks, self.chance) > LEVEL else "doubtful"

    @property
    def figure(self) -> str:
        """The figure in words: `17 of 24 right, by chance 4`."""
        said = f"{self.right} of {self.tasks} right, by chance {self.chance * self.tasks:.0f}"
        return said if self.bias is None else f"{said}, position bias {self.bias:+.2f}"


def tail(right: int, tasks: int, chance: float) -> float:
    """P(X >= right) for `tasks` answers of which each is right with the probability `chance`."""
    return sum(comb(tasks, i) * chance**i * (1 - chance) ** (tasks - i) for i in range(right, tasks + 1))


def lower_bound(right: int, tasks: int) -> float:
    """The smallest share for which so many right answers are no surprise: P(X >= right | share) = 0.05."""
    if not right:
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if tail(right, tasks, middle) < LEVEL else (low, middle)
    return low


FILE = "llm_checks.json"
_FORMAT = 1
_GREETING = [Message("user", "Answer with one word: yes")]


def kinds_named(names: Iterable[str]) -> list[str]:
    """Checks the names of kinds; all kinds if there are none."""
    for name in names:
        if name not in KINDS:
            raise UsageError(f"There is no task {name!r}. {choices(name, KINDS)}")
    return list(names) or list(KINDS)


def cost(model: str | None, kinds: Iterable[str]) -> list[Calls]:
    """The most calls of a check."""
    return [KINDS[kind].cost(model) for kind in kinds]


def check_model(
    kb: KnowledgeBase, model: str | None, kinds: Sequence[str], report: OnProgress | None = None
) -> dict[str, TaskResult]:
    """Asks the model the tasks of these kinds and stores the results. Raises if it cannot be reached: that says nothing
    about the model."""
    from surefind.lab.fitness.tasks import TASKS, Counted  # it imports all steps, and most syncs ask no model

    services = kb.services
    (greeting,) = ask(services, model, [_GREETING], max_tokens=16)
    if isinstance(greeting, SurefindError) and not isinstance(greeting, AnswerError):
        raise greeting
    found: dict[str, TaskResult] = {}
    for number, name in enumerate(kinds):
        if report:
            report("Checking the model", number, len(kinds))
        kind, why = KINDS[name], ""
        try:
            counted = TASKS[name](services, model)
        except AnswerError as error:
            counted, why = Counted(0, kind.tasks), str(error)
        found[name] = TaskResult(name, counted.right, counted.tasks, kind.chance, kind.useful, counted.bias, why)
    if report:
        report("Checking the model", len(kinds), len(kinds))
    services.meter.check()
    _store(kb, model, found)
    return found


def results(kb: KnowledgeBase, model: str | None) -> dict[str, TaskResult]:
    """The stored results of a model, by kind, if they are of the present tasks."""
    rows = _read(kb).get(_name(kb, model), {})
    if rows.get("tasks") != tasks_version():
        return {}
    return {kind: TaskResult(**row) for kind, row in rows["kinds"].items() if kind in KINDS}


def check_calls(kb: KnowledgeBase, needs: Sequence[Need]) -> list[Calls]:
    """The calls of the tasks that `require_fit` would ask."""
    return [calls for model, kinds in _missing(kb, needs).items() for calls in cost(model, kinds)]


def require_fit(kb: KnowledgeBase, needs: Sequence[Need], report: OnProgress | None = None) -> None:
    """Checks the models that the steps need, each kind once, and refuses a model that is unfit for one of them. If the
    settings say `check = false`, nothing is asked and nothing refused."""
    if not wanted(kb):
        return
    for model, kinds in _missing(kb, needs).items():
        check_model(kb, model, kinds, report)
    for need, result in checked(kb, needs):
        if result.verdict == "unfit":
            raise UsageError(refusal(kb.services.chat_name(need.model), need.step, result))


def wanted(kb: KnowledgeBase) -> bool:
    """Whether models are checked before their first use."""
    return kb.settings.llm.check


def sync_needs(kb: KnowledgeBase) -> list[Need]:
    """What a sync needs a model for."""
    layout = kb.settings.layout
    extractors = [reader for retriever in kb.settings.retrievers if (reader := paid_extractor(retriever))]
    return needs_of([layout.chunk, *layout.enrich, *extractors])


def _missing(kb: KnowledgeBase, needs: Sequence[Need]) -> dict[str, list[str]]:
    """The kinds that each model was not asked yet."""
    missing: dict[str, list[str]] = {}
    for need in needs if wanted(kb) else ():
        model = kb.services.chat_name(need.model)
        if model and need.kind not in results(kb, model) and need.kind not in missing.setdefault(model, []):
            missing[model].append(need.kind)
    return {model: kinds for model, kinds in missing.items() if kinds}


def checked(kb: KnowledgeBase, needs: Iterable[Need]) -> list[tuple[Need, TaskResult]]:
    """The stored results of the steps."""
    pairs = [(need, results(kb, need.model).get(need.kind)) for need in needs]
    return [(need, result) for need, result in pairs if result]


def sentence(results: Sequence[tuple[Need, TaskResult]], name: Callable[[str | None], str]) -> str:
    """Says the verdict on each step; "" if there is none. `name` names the model of a step."""
    parts = [
        f"{redacted(name(need.model))} is {task.verdict} for {need.step} ({task.figure})" for need, task in results
    ]
    return f"Model checks: {'; '.join(dict.fromkeys(parts))}." if parts else ""


def refusal(model: str, step: str, result: TaskResult) -> str:
    return (
        f"{redacted(model)} is unfit for {step}, since it {KINDS[result.kind].does} in {result.right} of "
        f"{result.tasks} tasks ({result.chance * result.tasks:.0f} by chance): choose another model, or write "
        "check = false below [llm] in surefind.toml to use it all the same."
    )


def _name(kb: KnowledgeBase, model: str | None) -> str:
    return redacted(kb.services.chat_name(model))


def _read(kb: KnowledgeBase) -> dict[str, Any]:
    try:
        models: dict[str, Any] = read_sealed(kb.data / FILE, _FORMAT)["models"]
    except (OSError, ValueError, KeyError):
        return {}
    return models


def _store(kb: KnowledgeBase, model: str | None, found: dict[str, TaskResult]) -> None:
    models, name = _read(kb), _name(kb, model)
    known = models.get(name, {})
    before = known["kinds"] if known.get("tasks") == tasks_version() else {}
    rows = {**before, **{kind: asdict(result) for kind, result in found.items()}}
    write_sealed(
        kb.data / FILE, {"format": _FORMAT, "models": {**models, name: {"tasks": tasks_version(), "kinds": rows}}}
    )
