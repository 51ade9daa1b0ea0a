"""`surefind demo`: sync, search and benchmark on the bundled sample.

Finds the bundled sample: the documents of a fictional credit union, questions about them, and the vectors of their
passages, which take a minute to compute.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from surefind.base.errors import MissingPartError
from surefind.doors.cli._common import Json, console, print_json, progress
from surefind.doors.cli.sync import CliGate

if TYPE_CHECKING:
    from surefind.base.protocols import OnProgress
    from surefind.kb import KnowledgeBase
    from surefind.lab.bench.report import BenchReport

_QUESTIONS = (
    ("outgoing wire cutoff", ()),
    ("a member lost her card abroad on a weekend", ()),
    ("what happens if EOD-7 stops with CUB-4417", ("it-ops",)),
)


def register(app: typer.Typer) -> None:
    app.command("demo")(demo)


def demo(
    folder: Annotated[Path, typer.Argument(help="The folder for the knowledge base.")] = Path("surefind-demo"),
    as_json: Json = False,
) -> None:
    """Build a knowledge base from the bundled sample, search it, and benchmark it.

    The sample is the intranet of a fictional credit union: 115 policies, procedures, runbooks and notes, some of
    them restricted to access groups, some superseded, with 175 questions that its staff would ask.
    """
    from surefind.base.access import Access
    from surefind.doors.cli import _hits, sync
    from surefind.kb import KnowledgeBase
    from surefind.kb.settings.config import FILE_NAME, TEMPLATE

    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / FILE_NAME).exists():
        (folder / FILE_NAME).write_text(TEMPLATE, encoding="utf-8")
    with KnowledgeBase.open(folder) as base:
        if not as_json:
            typer.echo(f"Building a knowledge base in {folder} from the sample …")
        base.services.keep_vectors(sample_vectors())
        with progress(quiet=as_json) as report:
            synced = base.sync(sample_folder(), report=report, gate=CliGate(base, no_gate=False, report=report).gate)
        results = [base.search(query, Access.of(*groups), k=2) for query, groups in _QUESTIONS]
        if not as_json:
            sync.show(synced)
            for result, (_, groups) in zip(results, _QUESTIONS, strict=True):
                as_group = "".join(f" --as {group}" for group in groups)
                typer.echo(f'\n$ surefind search "{result.query}"{as_group} -k 2 --explain\n')
                _hits.show(result, explain=True, full=False, groups=groups)
            typer.echo("\nNow running sixteen configurations on questions written from these documents …")
        with progress(quiet=as_json) as report:
            reports = _benchmark(base, report)
    if as_json:
        searches = [result.to_dict() for result in results]
        print_json(
            {
                "folder": str(folder),
                "sync": synced,
                "searches": searches,
                "verdicts": {k: r.verdict for k, (r, _) in reports.items()},
            }
        )
        return
    _show(folder, reports)


def _benchmark(base: KnowledgeBase, report: OnProgress | None) -> dict[str, tuple[BenchReport, Path]]:
    """Runs the default comparison on questions written from the documents, and on questions that staff would ask: for
    the owner, whose reports it returns, and for everybody."""
    import shlex

    from surefind.base.access import Access
    from surefind.lab.bench.files import write_files
    from surefind.lab.bench.names import compared, plan_for
    from surefind.lab.bench.run import known_item_exam, run_bench
    from surefind.lab.bench.saved import REPORTS
    from surefind.lab.exam.formats.library import Library
    from surefind.lab.exam.formats.table import read_table
    from surefind.lab.exam.store import ExamStore

    what = compared(base, None, [], [], [])
    staff = ExamStore(base.data / "exams").save(read_table(sample_questions(), Library(base.documents(Access.owner()))))
    reports = {}
    for exam in (known_item_exam(base), staff):
        for access, name, words in (
            (Access.public(), f"{exam.name}-everybody", []),
            (Access.owner(), exam.name, ["--as", "*"]),
        ):
            command = shlex.join(["surefind", "bench", "--exam", exam.name, *words])
            made = run_bench(base, plan_for(base, exam, what, access), command, report=report).report
            reports[exam.name] = made, write_files(made, base.data / REPORTS / name)
    return reports


def _show(folder: Path, reports: dict[str, tuple[BenchReport, Path]]) -> None:
    import shlex

    from surefind.lab.bench.terminal import print_verdict, show

    screen = console()
    written, staff = reports["known-item"], reports["questions"]
    typer.echo("\n$ surefind bench --exam known-item --as '*'\n")
    show(written[0], screen)
    typer.echo("\nThe result on the 175 questions that staff would ask (surefind bench --exam questions --as '*'):")
    print_verdict(staff[0], screen)
    typer.echo(
        f"\nReports to open in a browser:\n  {written[1]}\n  {staff[1]}\n"
        f"\nTry more searches, in the folder {folder}:\n"
        f"  cd {folder}\n"
        f'  surefind search "how long is a mobile deposit held" --where status=approved\n'
        f'  surefind search "vault combination change" --as audit --explain\n'
        f'  surefind search "core is back up, may all of us send the offline items" -p careful\n'
        f"  surefind bench --exam questions --as '*' -p pair -p careful\n"
        f"  surefind use {shlex.quote(staff[0].recommended)}\n"
        f"\nOr use your own documents, in any folder:\n"
        f'  surefind sync path/to/docs && surefind search "your question" && surefind bench'
    )


_PACKAGED = Path(__file__).parents[2] / "sample"
_CLONE = Path(__file__).parents[4] / "examples"
VECTORS = "vectors.npz"
"""The name of the file of vectors, beside the questions."""
ENCODERS = ("minilm", "arctic")


def sample_folder() -> Path:
    """Returns the folder of the sample documents: in the installed package, or in examples/ of a clone."""
    for root in (_PACKAGED, _CLONE):
        if (root / "quillhaven").is_dir():
            return root / "quillhaven"
    raise MissingPartError("The sample is not part of this installation. Reinstall Surefind, or clone its repository.")


def sample_questions() -> Path:
    """Returns the file of the sample questions."""
    return sample_folder().parent / "questions.jsonl"


def sample_vectors(*encoders: str) -> list[tuple[bytes, bytes]]:
    """Returns the vectors of the sample's passages as rows of the vector cache; none if the file is missing.

    They are those of the bundled encoders, or of the named ones, in the default layout (`scripts/sample_vectors.py`). A
    row's key is a hash of the encoder and the text, so where one of them has changed, the vector is computed as for any
    other document.
    """
    from surefind.base.disk.arrays import read_archive

    path = sample_folder().parent / VECTORS
    if not path.is_file():
        return []
    kept = read_archive(path)
    pairs = [(kept[f"{name}_keys"], kept[f"{name}_vectors"]) for name in encoders or ENCODERS]
    return [(key.tobytes(), vector.tobytes()) for keys, rows in pairs for key, vector in zip(keys, rows, strict=True)]
