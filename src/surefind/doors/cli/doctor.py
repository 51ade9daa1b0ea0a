"""`surefind doctor`: checks that everything is installed and works.

`surefind status`: shows what is in the knowledge base.

`surefind llm check`: whether a language model is fit for the steps that use one.
"""

from __future__ import annotations

import platform
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from surefind.base.errors import NothingIndexedError, SurefindError
from surefind.doors.cli._common import (
    HERE,
    LEFT_TO_OWNER,
    Budget,
    Folder,
    Json,
    Yes,
    agree,
    command_group,
    list_problems,
    megabytes,
    print_json,
    progress,
)

if TYPE_CHECKING:
    from surefind.kb import KnowledgeBase
    from surefind.kb.status import Status
    from surefind.lab.fitness.kinds import StepKind

_PACKAGES = ("numpy", "numba", "onnxruntime", "tokenizers", "surefind-models")

_VERDICTS = ("fit", "doubtful", "unfit")
_LITTLE_ROOM = 1 << 30
"""Free bytes on the disk below which the doctor warns: 1 GiB."""


def register(program: typer.Typer) -> None:
    program.command("doctor")(doctor)
    program.command("status")(status)
    program.add_typer(llm_app, name="llm")


def doctor(
    kb: Folder = HERE,
    parity: Annotated[
        bool,
        typer.Option("--parity", help="Also compare the backend with local indexes, on the standing exam."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Check the installation, the bundled models and the knowledge base; list every stage.

    Each check ends as ok, warning (it works, but you should know something) or failed. The exit code is 1 if a check
    failed.
    """
    listed = [*_checks(kb), *([("parity", lambda: _parity(kb))] if parity else [])]
    checks = [_run(name, check) for name, check in listed]
    counts = {status: sum(check["status"] == status for check in checks) for status in ("ok", "warning", "failed")}
    stages, readers = _stages(), _readers()
    if as_json:
        print_json({"checks": checks, "summary": counts, "stages": stages, "readers": readers})
    else:
        for check in checks:
            typer.echo(f"{check['status']:<7}  {check['name']:<16} {check['says']}")
        typer.echo(f"\n{len(checks)} checks: " + ", ".join(f"{n} {status}" for status, n in counts.items()) + ".\n")
        for kind, names in stages.items():
            typer.echo(f"{kind:<9} {', '.join(names) or '-'}")
        typer.echo("\nReaders and the files they read")
        for reader in readers:
            needs = f"   needs: pip install 'surefind[{reader['extra']}]'" if reader["missing"] else ""
            typer.echo(f"  {reader['name']:<9} {_endings(reader['suffixes'])}{needs}")
    if counts["failed"]:
        raise typer.Exit(1)


class _NoticeError(Exception):
    """Raised by a check that found nothing broken, but something the user should know."""


def _run(name: str, check: Callable[[], str]) -> dict[str, str]:
    try:
        return {"name": name, "status": "ok", "says": check()}
    except _NoticeError as warning:
        return {"name": name, "status": "warning", "says": f"{warning}"}
    except Exception as error:  # finding failures is the doctor's job
        return {"name": name, "status": "failed", "says": f"{error}"}


def _checks(kb: Path) -> list[tuple[str, Callable[[], str]]]:
    return [
        ("python", lambda: f"{platform.python_version()} on {platform.machine()}"),
        *((package, lambda package=package: _version(package)) for package in _PACKAGES),
        *((f"encoder {name}", partial(_encode, name)) for name in ("minilm", "arctic")),
        *((f"reranker {name}", partial(_rerank, name)) for name in ("small", "large")),
        ("disk", lambda: _disk(kb)),
        ("settings", lambda: _settings(kb)),
        ("trusted servers", _trusted),
        ("knowledge base", lambda: _verify(kb)),
        *_damage(kb),
        ("default pipeline", lambda: _default(kb)),
        ("language", lambda: _language(kb)),
        *_models(kb),
    ]


def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        raise RuntimeError(f"not installed; run: pip install {package}") from None


def _encode(name: str) -> str:
    from surefind.base import spec

    vector = spec.make("embed", name).embed(["does it work?"])
    return f"{name} (for English) returns vectors of {vector.shape[1]} dimensions, files match their SHA-256"


def _rerank(name: str) -> str:
    from surefind.base.types import Chunk
    from surefind.engine.inference.cross_encoder import OnnxCrossEncoder
    from surefind.engine.rerank.cross_encoder import bundled

    passages = [Chunk("", 0, len(text), text) for text in ("Yes, it works.", "The vault opens at nine.")]
    answer, other = OnnxCrossEncoder(bundled(name)).score("does it work?", passages)
    return f"scores an answer {answer - other:.1f} higher than an unrelated text, files match their SHA-256"


def _disk(kb: Path) -> str:
    folder = kb.resolve()
    free = shutil.disk_usage(folder if folder.exists() else Path.cwd()).free
    if free < _LITTLE_ROOM:
        raise _NoticeError(f"only {megabytes(free)} free; a sync that runs out of space stops and loses nothing")
    return f"{megabytes(free)} free"


def _settings(kb: Path) -> str:
    from surefind.kb.settings.config import FILE_NAME, load_settings

    settings = load_settings(kb / FILE_NAME)
    where = FILE_NAME if (kb / FILE_NAME).exists() else "defaults (no surefind.toml)"
    return f"{where}, pipelines: {', '.join(settings.known)}"


def _trusted() -> str:
    from surefind.engine.net.trust import remembered

    servers = [f"{host} ({', '.join(keys)})" if keys else host for host, keys in remembered().items()]
    return ", ".join(servers) or "none confirmed (surefind trust HOST); this machine and known services need none"


def _verify(kb: Path) -> str:
    """Opens the current generation and its indexes."""
    from surefind.kb import KnowledgeBase

    with KnowledgeBase.open(kb) as base:
        try:
            view = base.reader().view
        except NothingIndexedError as error:
            return str(error)  # no knowledge base yet, or the first sync is running
        view.ready(base.settings.retrievers)
        return f"{len(view)} passages can be searched"


def _damage(kb: Path) -> list[tuple[str, Callable[[], str]]]:
    """Returns the checks for damage, one for each kind of file; none before the first sync."""
    from surefind.engine.store.catalogue import NAME
    from surefind.kb.settings.config import DATA_FOLDER

    if not (kb / DATA_FOLDER / NAME).exists():
        return []
    from surefind.kb.integrity import CHECKS
    from surefind.lab.bench.saved import check_reports
    from surefind.lab.exam.store import check_exams

    checks = {**CHECKS, "exams": check_exams, "reports": check_reports}
    return [(name, partial(_check_damage, kb, check)) for name, check in checks.items()]


def _check_damage(kb: Path, check: Callable[[KnowledgeBase], str]) -> str:
    from surefind.kb import KnowledgeBase
    from surefind.kb.integrity import RepairedError

    with KnowledgeBase.open(kb) as base:
        try:
            return check(base)
        except NothingIndexedError as error:
            return str(error)  # the first sync was stopped, or is running
        except RepairedError as warning:
            raise _NoticeError(str(warning)) from None


def _models(kb: Path) -> list[tuple[str, Callable[[], str]]]:
    """Returns a check for each language model of the settings: what is known about its fitness."""
    from surefind.kb.settings.config import FILE_NAME, load_settings

    try:
        settings = load_settings(kb / FILE_NAME)
    except SurefindError:
        return []  # the check of the settings says so
    names = dict.fromkeys(name for name in (settings.llm.model, settings.llm.fallback) if name)
    return [("language model", partial(_fitness, kb, name)) for name in names]


def _fitness(kb: Path, name: str) -> str:
    from surefind.base.redact import redacted
    from surefind.kb import KnowledgeBase
    from surefind.lab.fitness.check import results
    from surefind.lab.fitness.kinds import KINDS

    with KnowledgeBase.open(kb) as base:
        checked = results(base, name)
    if not checked:
        raise _NoticeError(f"{redacted(name)} was not checked; run: surefind llm check")
    groups = {verdict: [kind for kind, task in checked.items() if task.verdict == verdict] for verdict in _VERDICTS}
    listed = [f"{verdict} for {_steps(kinds, KINDS)}" for verdict, kinds in groups.items() if kinds]
    says = f"{redacted(name)}: {'; '.join(listed)}"
    if groups["unfit"]:
        raise _NoticeError(f"{says} (surefind llm check shows the figures)")
    return says


def _steps(names: list[str], kinds: Mapping[str, StepKind]) -> str:
    return ", ".join(step for name in names for step in kinds[name].steps)


def _default(kb: Path) -> str:
    from surefind.kb import KnowledgeBase
    from surefind.kb.completing import better_default

    with KnowledgeBase.open(kb) as base:
        return better_default(base) or base.settings.pipeline


def _language(kb: Path) -> str:
    from surefind.kb import KnowledgeBase
    from surefind.kb.completing import advice_on_languages

    with KnowledgeBase.open(kb) as base:
        try:
            text = advice_on_languages(base)
        except NothingIndexedError:
            return "no documents yet"
    if text:
        raise _NoticeError(text)
    return "no mismatch found between the encoders and the documents' language"


def _parity(kb: Path) -> str:
    """Asks the standing exam with the backend, and with indexes that are built here."""
    from surefind.kb import KnowledgeBase
    from surefind.lab.bench.drift import standing_exam
    from surefind.lab.bench.parity import MAX_DIFFERENCE, MIN_OVERLAP, measure_parity

    with KnowledgeBase.open(kb) as base:
        backend = base.settings.store.backend
        parities = measure_parity(base, standing_exam(base, base.reader()))
    says = f"{backend} against local: {'; '.join(map(str, parities))}"
    if not all(parity.close for parity in parities):
        raise RuntimeError(f"{says}. At least {MIN_OVERLAP} and at most ±{MAX_DIFFERENCE} were expected")
    return says


def _stages() -> dict[str, list[str]]:
    from surefind.base import spec

    return {kind: spec.names(kind) for kind in spec.KINDS}


def _readers() -> list[dict[str, Any]]:
    """Lists every reader with the files it reads and the packages it lacks."""
    from importlib.util import find_spec

    from surefind.base import spec
    from surefind.base.abilities import declared
    from surefind.base.protocols import Reader

    readers = [(name, cast(Reader, spec.make("read", name))) for name in spec.names("read")]
    return [
        {
            "name": name,
            "suffixes": list(reader.suffixes),
            "extra": declared(reader).extra,
            "missing": [module for module in declared(reader).needs if find_spec(module) is None],
        }
        for name, reader in readers
    ]


def _endings(suffixes: list[str]) -> str:
    shown = " ".join(suffixes[:8])
    return f"{shown} … ({len(suffixes)})" if len(suffixes) > 8 else shown


def status(kb: Folder = HERE, as_json: Json = False) -> None:
    """Show what is indexed: documents, sources, models, pipelines, sizes and skipped files."""
    from surefind.kb import KnowledgeBase

    with KnowledgeBase.open(kb) as base:
        current = base.status()
    if as_json:
        print_json(current)
    else:
        _show(current)


def _show(shown: Status) -> None:
    """Prints the status without keys and fingerprints, which are only useful to programs; --json has them."""
    _row("Knowledge base", f"{shown.folder}, {megabytes(shown.size)} on disk")
    _row("Documents", f"{shown.documents} ({shown.restricted} restricted to access groups)")
    _row("Passages", f"{shown.chunks}")
    _row("Layout", shown.layout)
    earlier = [str(number) for number in shown.generations if number != shown.generation]
    _row("Generation", f"{shown.generation}" + (f" (rollback to {', '.join(earlier)} is possible)" if earlier else ""))
    _row("Last sync", shown.last_sync[:19].replace("T", " "))
    for path in shown.idle_rules:
        _row("Access rule", f"{path} matches no document: write paths relative to the synced folder")
    if shown.drafts:
        _row("Drafts", f"{shown.drafts} (list them with: surefind draft list)")
    for source in shown.sources:
        _row("Source", source)
    if shown.backend != "local":
        _row("Backend", f"{shown.backend} (the sizes below are of what is kept here)")
    for spec, size in _indexes(shown.indexes).items():
        _row("Index", f"{spec}, {megabytes(size)}")
    for kind, names in shown.models.items():
        _row("Model", f"{', '.join(names)} ({kind})")
    for name, pipeline in shown.pipelines.items():
        _row("Pipeline", f"{name} = {pipeline}")
    skipped = [one for one in shown.problems if not one.left_to_owner]
    if skipped:
        _row("Skipped", f"{len(skipped)} files:")
        for problem in skipped:
            typer.echo(f"  {problem.path} {problem.reason}")
    left = [one for one in shown.problems if one.left_to_owner]
    list_problems(LEFT_TO_OWNER, left, len(left))


def _row(label: str, text: str) -> None:
    typer.echo(f"{label:<15} {text}")


def _indexes(sizes: dict[str, int]) -> dict[str, int]:
    """Sums sizes by spec, so that two indexes that differ only in the model's weights share a line."""
    found: dict[str, int] = {}
    for spec, size in sizes.items():
        label = spec.partition("@")[0]
        found[label] = found.get(label, 0) + size
    return found


llm_app = command_group("Check a language model.")


@llm_app.callback()
def _llm() -> None:
    """Keeps `check` a command of its own, although it is the only one."""


@llm_app.command("check")
def check(
    model: Annotated[
        str,
        typer.Argument(
            help="The language model: openai:…, anthropic:…, ollama:… (see surefind help llm).",
            show_default="[llm] model",
        ),
    ] = "",
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            help="A task: order, judge, gather, weigh, draft, rewrite, split, place, extract, question, answer; may be "
            "repeated.",
            show_default="all of them",
        ),
    ] = None,
    budget: Budget = None,
    yes: Yes = False,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Ask a language model small tasks with known answers, and say for which steps it is fit.

    The tasks are asked with the prompts of the steps: order shuffled passages, judge one, find evidence, weigh methods,
    draft and reword, split a text, place a passage, extract names, write a question, answer from passages. fit means
    clearly better than the search without the step, unfit no better than chance. The result is stored: bench, sync and
    train refuse an unfit model, and doctor shows it.
    """
    from surefind.base.redact import redacted
    from surefind.kb import KnowledgeBase
    from surefind.lab.fitness.check import check_model, cost, kinds_named
    from surefind.lab.fitness.kinds import KINDS

    kinds = kinds_named(only or [])
    with KnowledgeBase.open(kb) as base:
        agree(base, cost(model or None, kinds), budget, yes, as_json)
        with progress(quiet=as_json) as report:
            checked = check_model(base, model or None, kinds, report)
        name, spent = redacted(base.services.chat_name(model or None)), str(base.services.llm.meter.spent)
    rows: list[dict[str, Any]] = [
        {
            "task": kind, "steps": list(KINDS[kind].steps), "verdict": task.verdict, "figure": task.figure,
            "right": task.right, "tasks": task.tasks, "chance": task.chance, "useful": task.useful, "bias": task.bias,
            "why": task.why,
        }
        for kind, task in checked.items()
    ]  # fmt: skip
    if as_json:
        print_json({"model": name, "results": rows, "spent": spent})
        return
    typer.echo(f"{name}: {spent}.")
    for row in rows:
        why = f"  ({row['why']})" if row["why"] else ""
        typer.echo(f"  {row['verdict']:<9} {', '.join(row['steps']):<28} {row['figure']}{why}")
    if "answer" in checked:
        typer.echo(
            "ask shows what it quotes first, and then what a model writes: of the models that were measured, none was "
            "right more often than the quote.\nMeasure yours: surefind bench --answers --llm MODEL --exam NAME"
        )
