"""Documents that cannot drift: commands in them exist, snippets run, generated pages are fresh."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import surefind as surefind_package
from cases import each
from exam_helpers import FEW, Ran, command_of, copy_few, surefind
from helpers import EXAMPLE
from surefind import testing
from surefind.doors.cli import app
from surefind.lab.bench.saved import read_report
from surefind.lab.study.archive import hidden_of_owner, saved_reports

pytestmark = pytest.mark.usefixtures("remembered_models")

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
INDEX = ROOT / "docs" / "README.md"
PAGES = [README, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SHELL = re.compile(r"\s(?:\||&&|>|2>|;)\s.*|\s#\s.*")


def blocks(path: Path, language: str) -> list[str]:
    return [body for kind, body in _FENCE.findall(path.read_text(encoding="utf-8")) if kind == language]


def commands_in(path: Path) -> list[str]:
    whole = [block.replace("\\\n", " ") for block in blocks(path, "console")]  # a line may go on after a backslash
    lines = [line for block in whole for line in block.splitlines()]
    found = [part for line in lines if line.startswith("$ ") for part in line[2:].split("&&")]
    return [part.strip() for part in found if part.strip().startswith("surefind")]


def check_call(text: str) -> None:
    """Raises if the call names an unknown command or option, or lacks an argument."""
    _, *words = shlex.split(_SHELL.sub("", text))
    command: Any = command_of(app)
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    if not {"--help", "--version", "--install-completion", "--show-completion"} & set(words):
        assert not hasattr(command, "commands"), f"{text}: no such command"
        command.make_context(text, words)


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    return script("cli_reference")


@pytest.fixture(scope="module")
def api() -> ModuleType:
    return script("api_reference")


# ---------------------------------------------------------------- commands


@each("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_in_the_documents_exist(page: Path) -> None:
    for text in commands_in(page):
        check_call(text)


@each("text", ["surefind serch x", "surefind search x --nope", "surefind exam show", "surefind exam"])
def test_wrong_commands_would_be_noticed(text: str) -> None:
    with pytest.raises(Exception, match=r"no such command|[Nn]o such option|[Mm]issing"):
        check_call(text)


def test_readme_shows_the_first_steps() -> None:
    shown = " ".join(commands_in(README))
    assert all(f"surefind {command}" in shown for command in ("sync", "search", "bench"))


def test_command_reference_is_fresh(reference: ModuleType) -> None:
    """`make docs` writes it again."""
    assert (ROOT / "docs" / "cli.md").read_text(encoding="utf-8") == reference.reference()


def test_every_command_is_in_the_reference(reference: ModuleType) -> None:
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    calls = [" ".join(("surefind", *path)) for path in reference.paths(app)]
    assert len(calls) > 10
    assert [call for call in calls if f"## {call}\n" not in text] == []


# ---------------------------------------------------------------- the Python API


def test_api_reference_is_fresh(api: ModuleType) -> None:
    """`make docs` writes it again."""
    assert (ROOT / "docs" / "api.md").read_text(encoding="utf-8") == api.reference()


def test_api_reference_has_every_public_name(api: ModuleType) -> None:
    text = api.reference()
    names = [*(name for name in surefind_package.__all__ if name != "__version__"), *testing.__all__]
    assert [name for name in names if name not in text] == []
    assert "#### KnowledgeBase.search\n" in text


def test_every_public_name_has_a_docstring(api: ModuleType) -> None:
    assert api.undocumented() == []


# ---------------------------------------------------------------- README


def test_readme_is_at_most_150_lines() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 150


def test_readme_snippets_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    snippets = blocks(README, "python")
    assert snippets
    (tmp_path / "docs").mkdir()
    for name in FEW[:3]:
        shutil.copy(EXAMPLE / name, tmp_path / "docs")
    monkeypatch.chdir(tmp_path)
    for snippet in snippets:
        exec(compile(snippet, "README.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed] == ["1", "2", "3"]
    assert {line.split()[1] for line in printed} <= {Path(name).name for name in FEW[:3]}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ran]:
    """What `make demo` leaves and prints. It embeds the whole sample; every test of the sample uses its folder."""
    folder = tmp_path_factory.mktemp("readme") / "demo"
    return folder, surefind("demo", folder, "--json")


@pytest.fixture(scope="module")
def sample(demo: tuple[Path, Ran]) -> Path:
    """The bundled sample, indexed as the README's reader has it."""
    return demo[0]


NUMBER = re.compile(r"\d+\.\d+")


def shown(command: str) -> list[str]:
    """The output that the README shows under a command, without the parts that it leaves out."""
    block = next(block for block in blocks(README, "console") if f"$ {command}" in block)
    lines = re.split(r"^\$ ", block.partition(f"$ {command}\n")[2], flags=re.MULTILINE)[0].splitlines()
    return [line.strip() for line in lines if line.strip() not in ("…", "")]


def check_shown(line: str, printed: list[str]) -> None:
    """The line stands in the output; numbers may differ by what another processor's rounding does to them."""
    wanted = [float(number) for number in NUMBER.findall(line)]
    words = NUMBER.sub("#", line).removesuffix("…").split()
    for other in printed:
        numbers = [float(number) for number in NUMBER.findall(other)][: len(wanted)]
        same = NUMBER.sub("#", other).split()[: len(words)] == words
        if same and all(abs(a - b) <= 0.02 for a, b in zip(wanted, numbers, strict=True)):
            return
    raise AssertionError(f"README.md shows a line that is not printed: {line}")


def test_readme_shows_what_a_search_prints(sample: Path) -> None:
    call = 'surefind search "outgoing wire cutoff" -k 2 --explain'
    result = surefind("search", "outgoing wire cutoff", "-k", "2", "--explain", kb=sample)
    lines = shown(call)
    assert len(lines) == 4
    for line in lines:
        check_shown(line, result.out.splitlines())


def test_readme_shows_a_first_minute_in_ten_lines_and_one_picture(sample: Path) -> None:
    (first, *_) = blocks(README, "console")
    assert len(first.splitlines()) <= 10 and "surefind serve" in first
    assert README.read_text(encoding="utf-8").count("![") == 1
    asked = "When is the cutoff for outgoing domestic wires?"
    result = surefind("ask", asked, kb=sample)
    assert shown(f'surefind ask "{asked}"') == [line.strip() for line in result.out.splitlines() if line.strip()]


def test_pages_show_the_figures_of_one_run() -> None:
    """`python scripts/sample_figures.py` makes the run, keeps its figures and writes them into the pages."""
    figures = script("sample_figures")
    assert figures.outdated(json.loads(figures.FIGURES.read_text(encoding="utf-8"))) == []


@each("exam", ["known-item", "questions"])
def test_the_demo_measures_what_pages_show(sample: Path, exam: str) -> None:
    """What to use, and the rows; which of two equal ones is called the winner may depend on the processor."""
    figures = script("sample_figures")
    kept = json.loads(figures.FIGURES.read_text(encoding="utf-8"))[f"demo/{exam}"]
    made = figures.summary(read_report(sample / ".surefind" / "reports" / exam / "report.json"))
    assert (made["head"], made["recommended"]) == (kept["head"], kept["recommended"])
    assert made["rows"].keys() == kept["rows"].keys()
    for name, one in kept["rows"].items():
        cells = [NUMBER.findall(" ".join(row["cells"])) for row in (one, made["rows"][name])]
        assert [float(n) for n in cells[1]] == pytest.approx([float(n) for n in cells[0]], abs=0.02), name


ELSEWHERE = ("git clone <", "cd ", "make demo", ". .venv/bin/activate", "surefind ask", "surefind serve")
"""What the README tells to run and another test runs: `surefind demo`, which `make demo` runs after an install, and
`ask` have their own here; the install is scripts/smoke.sh; test_tutorial.py serves."""


def all_commands_in(path: Path) -> list[str]:
    """Every command after a dollar sign, whatever the program."""
    lines = [line[2:] for block in blocks(path, "console") for line in block.splitlines() if line.startswith("$ ")]
    return [part.strip() for line in lines for part in line.split("&&")]


def inline_commands_in(path: Path) -> list[str]:
    """Commands in the prose, between backticks, that are complete."""
    found = []
    for text in re.findall(r"`(surefind [a-z][^`]*)`", _FENCE.sub("", path.read_text(encoding="utf-8"))):
        with contextlib.suppress(Exception):
            check_call(text)
            found.append(text)
    return found


@pytest.fixture(scope="module")
def reader_of_the_readme(tmp_path_factory: pytest.TempPathFactory, sample: Path) -> Path:
    """A folder as the README's reader has it, but with ten documents, whose vectors were computed before."""
    folder = tmp_path_factory.mktemp("reader") / "demo"
    copy_few(folder.parent / "docs")
    copy_few(folder / "docs")
    shutil.copytree(sample / ".surefind" / "cache", folder / ".surefind" / "cache")
    asked = "query,document\nwhen is the outgoing wire cutoff,sop-301-outgoing-domestic-wire.md\n"
    (folder / "questions.csv").write_text(asked, encoding="utf-8")
    return folder


def test_every_command_of_the_readme_runs(reader_of_the_readme: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(reader_of_the_readme)
    shown = [text for text in all_commands_in(README) if not text.startswith(ELSEWHERE)]
    assert len(shown) >= 3
    for text in [*shown, *inline_commands_in(README)]:
        program, *words = shlex.split(text)
        assert program == "surefind", f"no test runs {text!r}"
        result = surefind(*words)
        assert result.code == 0, f"{text}: {result.err}"


def test_prose_of_the_readme_has_commands_to_run() -> None:
    found = inline_commands_in(README)
    assert {"surefind exam import questions.csv", "surefind bench --check baseline.json"} <= set(found)
    assert found.index("surefind bench --save baseline.json") < found.index("surefind bench --check baseline.json")


def test_demo_runs(demo: tuple[Path, Ran]) -> None:
    assert "surefind demo demo" in (ROOT / "Makefile").read_text(encoding="utf-8")
    _, result = demo
    assert result.code == 0, result.err
    assert result.json["sync"]["documents"] == 115
    assert set(result.json["verdicts"]) == {"known-item", "questions"}


def test_the_demo_makes_reports_that_everybody_may_read(sample: Path) -> None:
    listed = saved_reports(sample / ".surefind", frozenset())
    assert {(one.title, one.audience) for one in listed} == {("known-item", "everybody"), ("questions", "everybody")}
    assert hidden_of_owner(sample / ".surefind", frozenset()) == 2


def links_in(page: Path) -> list[str]:
    prose = _FENCE.sub("", page.read_text(encoding="utf-8"))
    return [target for target in re.findall(r"\]\(([^)\s]+)\)", prose) if "://" not in target]


@each("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_to_files_lead_somewhere(page: Path) -> None:
    targets = [target.partition("#")[0] for target in links_in(page)]
    assert [target for target in targets if not (page.parent / target).exists()] == []


@each("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_to_sections_lead_somewhere(page: Path) -> None:
    wrong = []
    for target in links_in(page):
        name, _, anchor = target.partition("#")
        if anchor and anchor not in anchors_of(page.parent / name if name else page):
            wrong.append(target)
    assert wrong == []


def anchors_of(page: Path) -> set[str]:
    """As GitHub makes them: small letters, no punctuation, dashes for spaces."""
    headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_can_be_reached_from_the_index() -> None:
    """Directly: a page that only another page names is not found by who looks for it."""
    listed = {(INDEX.parent / target.partition("#")[0]).resolve() for target in links_in(INDEX)}
    pages = [page for page in sorted((ROOT / "docs").rglob("*.md")) if page != INDEX]
    assert [page.relative_to(ROOT).as_posix() for page in pages if page not in listed] == []


def test_readme_leads_to_the_index() -> None:
    assert "docs/README.md" in links_in(README)


# ---------------------------------------------------------------- figures


def staff_figures() -> dict[str, str]:
    """nDCG@10 of each configuration on the 175 staff questions: results/exam.md is where they are kept."""
    text = (ROOT / "docs/results/exam.md").read_text(encoding="utf-8")
    table = text.partition("| configuration | sample, 175 staff questions |")[2].partition("\n\n")[0]
    return dict(re.findall(r"^\| ([^|]+) \| \**(0\.\d{3})\** ", table, re.MULTILINE))


def test_figures_of_the_staff_questions_are_the_same_on_every_page() -> None:
    """Those of the run that scripts/sample_figures.py made; pages of results are of other runs, on other processors
    and with the same weights in other operators. Both change how activations are rounded, and figures by up to .006."""
    run = json.loads(script("sample_figures").FIGURES.read_text(encoding="utf-8"))["demo/questions"]["rows"]
    measured = {name: row["cells"][0].partition(" ")[0] for name, row in run.items()}
    table = (ROOT / "docs/your-questions.md").read_text(encoding="utf-8")
    pair = re.findall(r"^\| 175 \| (0\.\d{3}) \[.*?\| (0\.\d{3}) \[", table, re.MULTILINE)[0]
    assert pair == (measured["BM25"], measured["hybrid"])
    study = (ROOT / "docs/study-context-layer.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"^\| ([\w =αk.:()]+?)(?: \(also \w+\))? \| (0\.\d{3}) \| 0", study, re.MULTILINE))
    assert len(shown) >= 14 and len(staff_figures()) == 15
    for figures in (shown, staff_figures()):
        for name in figures.keys() & measured.keys():
            assert float(figures[name]) == pytest.approx(float(measured[name]), abs=0.007), name


# ---------------------------------------------------------------- the rest of the repository


@each("name", ["CHANGELOG.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "LICENSE", "README.md"])
def test_document_is_there(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8").strip()


def test_architecture_names_every_room() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rooms = sorted(path.parent.name for path in (ROOT / "src" / "surefind").glob("*/__init__.py"))
    assert [room for room in rooms if not re.search(rf"\b{room}/", text)] == []


def test_paths_of_the_architecture_lead_through_files_that_exist() -> None:
    paths = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("## Four paths")[2].partition("\n## ")[0]
    source, named = ROOT / "src" / "surefind", set(re.findall(r"`([a-z_/]+\.py)`", paths))
    assert len(named) > 40
    assert [name for name in named if not (source / name).exists() and not (source / "engine" / name).exists()] == []


def test_changelog_speaks_of_this_version() -> None:
    from surefind import __version__

    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert __version__ in text or "Unreleased" in text


def test_no_file_names_a_developer_machine() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone")
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    wrong = re.compile("|".join(re.escape(f"/{place}") for place in ("work/", "tmp/w", "root/.")))
    found = []
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        content = path.read_bytes() if path.is_file() else b"\0"
        if b"\0" not in content[:8000] and wrong.search(content.decode("utf-8", "replace")):
            found.append(name)
    assert found == []


def test_the_systemd_unit_lets_the_server_write_what_it_writes() -> None:
    """`use`, adopting and the settings page write surefind.toml, which is replaced: its folder must be writable."""
    unit = (ROOT / "docs/http.md").read_text(encoding="utf-8").partition("```ini\n")[2].partition("```")[0]
    (folder,) = re.findall(r"^ExecStart=.* --kb (\S+)$", unit, re.MULTILINE)
    assert re.findall(r"^ReadWritePaths=(.*)$", unit, re.MULTILINE) == [folder]
