"""The import rule of ARCHITECTURE: data flows one way. And `import surefind` stays light."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib.util import find_spec
from pathlib import Path

import pytest

import surefind
from cases import each

ROOT = Path(surefind.__file__).parent

WINGS = ("base", "engine", "kb", "lab", "doors")
"""The import rule: a wing imports itself and those before it."""
SERVICES = {
    "analyze",
    "confidence",
    "embed",
    "extract",
    "files",
    "graph",
    "inference",
    "llm",
    "net",
    "services",
    "store",
}
STAGES = {"ingest", "chunk", "enrich", "retrieve", "fuse", "rerank"}
ENGINE = {**dict.fromkeys(SERVICES, 0), **dict.fromkeys(STAGES, 1), "write": 2, "search": 2}
"""The same rule inside the engine: services, stages, the writer and the readers."""
AT_HOME = {"adapters": "doors", "client": "doors", "__main__": "doors"}
"""Doors that users import by an address of their own."""
USED_AGAIN = {"SurefindRetriever"}
"""Class names that more than one module may use: users import the retriever from the adapter of their framework."""
NEEDS_TORCH = {"surefind.lab.train.network", "surefind.lab.train.export"}


@cache
def modules() -> dict[str, Path]:
    """Every module by its name."""
    return {module_name(path): path for path in sorted(ROOT.rglob("*.py"))}


def module_name(path: Path) -> str:
    parts = ("surefind", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def free(name: str) -> bool:
    """Whether it is the front door, which imports late, or one of the contract suites, which nothing imports."""
    return name == "surefind" or name.startswith("surefind.testing")


def wing(name: str) -> str:
    first = name.split(".")[1]
    return AT_HOME.get(first, first)


@cache
def room(name: str) -> str:
    """`engine.store` for all that stands in that folder; `kb` and `doors` for what stands in no folder of theirs."""
    parts = name.split(".")
    inside = parts[1] in ("base", "engine", "lab") or (ROOT.joinpath(*parts[1:3])).is_dir()
    return ".".join(parts[1:3]) if inside and wing(name) != "doors" else wing(name)


@cache
def dependencies(types_too: bool = True) -> dict[str, set[str]]:
    """Module -> the modules that it imports, early or late; those for type checking only if `types_too`."""
    paths = modules()
    imports: dict[str, set[str]] = {}
    for name, path in paths.items():
        imports[name] = set()
        for target in _targets(path, types_too):
            while target and target not in paths:
                target = target.rpartition(".")[0]
            if target not in ("", "surefind", name):  # the front door imports late, and everything
                imports[name].add(target)
    return imports


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _targets(path: Path, types_too: bool) -> Iterator[str]:
    tree = tree_of(path)
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only and not types_too:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def pairs(types_too: bool = False) -> list[tuple[str, str]]:
    """Every import of one module by another."""
    return [(name, target) for name, targets in dependencies(types_too).items() for target in targets]


def test_every_module_stands_in_a_wing() -> None:
    assert {wing(name) for name in modules() if not free(name)} == set(WINGS)
    rooms = {name.split(".")[2] for name in modules() if name.startswith("surefind.engine.")}
    assert rooms == set(ENGINE)


def test_wings_import_only_those_before_them() -> None:
    wrong = [
        f"{name} imports {target}"
        for name, target in pairs(types_too=True)
        if not free(name) and not free(target) and WINGS.index(wing(target)) > WINGS.index(wing(name))
    ]
    assert wrong == []


def test_services_stages_and_the_writer_stand_in_this_order() -> None:
    inside = [
        (name, name.split(".")[2], target, target.split(".")[2])
        for name, target in pairs()
        if name.startswith("surefind.engine.") and target.startswith("surefind.engine.")
    ]
    assert [f"{name} imports {target}" for name, a, target, b in inside if ENGINE[b] > ENGINE[a]] == []
    assert [f"{name} imports {target}" for name, a, target, b in inside if a != b and {a, b} <= STAGES] == []


def test_no_two_rooms_import_each_other() -> None:
    rooms = {(room(name), room(target)) for name, target in pairs(types_too=True) if not free(name)}
    assert sorted(pair for pair in rooms if pair[::-1] in rooms and pair[0] != pair[1]) == []


def test_no_two_folders_of_a_room_import_each_other() -> None:
    def folder(name: str) -> str:
        below = name.removeprefix(room(name)).split(".")[1:]
        return f"{room(name)}.{below[0]}" if len(below) > 1 or (modules()[name].stem == "__init__" and below) else ""

    folders = {(folder(name), folder(target)) for name, target in pairs(types_too=True) if not free(name)}
    wrong = sorted(pair for pair in folders if pair[::-1] in folders and pair[0] != pair[1] and all(pair))
    assert wrong == []


def test_benchmarks_import_only_what_is_there() -> None:
    wrong = []
    for path in sorted((ROOT.parents[1] / "benchmarks").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("surefind."):
                module = importlib.import_module(str(node.module)) if node.module not in NEEDS_TORCH else None
                missing = [alias.name for alias in node.names if module and not hasattr(module, alias.name)]
                wrong += [(path.name, name) for name in missing if find_spec(f"{node.module}.{name}") is None]
    assert wrong == []


def test_no_module_imports_itself_by_way_of_others() -> None:
    try:
        tuple(TopologicalSorter(dependencies()).static_order())
    except CycleError as error:
        pytest.fail(f"an import circle: {' -> '.join(error.args[1])}")


def test_other_packages_import_public_modules_only() -> None:
    wrong = [
        f"{name} imports {target}"
        for name, target in pairs(types_too=True)
        if "._" in target and not name.startswith(target.partition("._")[0])
    ]
    assert wrong == []


FILES_ARE_STAGES = ("analyze", "chunk", "embed", "enrich", "extract", "fuse", "ingest", "rerank", "retrieve")


def test_a_module_of_less_than_60_lines_says_why_it_stands_alone() -> None:
    """A stage does: its file name is its name. So do adapters, which are what users import."""
    short = [
        name
        for name, path in modules().items()
        if len((text := path.read_text(encoding="utf-8")).splitlines()) < 60
        and path.name not in ("__init__.py", "__main__.py")
        and (path.name.startswith("_") or path.parent.name not in (*FILES_ARE_STAGES, "adapters"))
        and "stands alone because" not in " ".join(text.split())
    ]
    assert short == []


def test_no_module_is_longer_than_600_lines() -> None:
    lengths = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in modules().items()}
    assert {name: lines for name, lines in lengths.items() if lines > 600} == {}


def test_nothing_imports_the_contract_suites() -> None:
    assert [name for name, target in pairs(types_too=True) if not free(name) and free(target)] == []


HEAVY = ("numba", "onnxruntime", "sklearn", "tokenizers", "torch")


@each(
    "statement",
    [
        "import surefind",
        "from surefind.doors.cli import main",
        "from surefind.lab.fitness.check import require_fit; from surefind.kb import KnowledgeBase",  # as a sync does
    ],
)
def test_import_loads_nothing_heavy(statement: str) -> None:
    code = f"import sys; {statement}; print(*[m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_plain_import_loads_not_even_numpy() -> None:
    code = "import sys, surefind; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_class_name_is_used_once() -> None:
    homes: dict[str, list[str]] = {}
    for path in modules().values():
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(f"{path.relative_to(ROOT)}:{node.lineno}")
    twice = {name: places for name, places in homes.items() if len(places) > 1 and name not in USED_AGAIN}
    assert not twice, f"Name each class after what it is: {twice}"


def test_public_exports_are_pinned() -> None:
    assert surefind.__all__ == [
        "PAD",
        "Access",
        "Chunk",
        "Document",
        "Hit",
        "KnowledgeBase",
        "Pipeline",
        "Query",
        "Rankings",
        "SearchResult",
        "SpecError",
        "Stage",
        "SurefindError",
        "__version__",
        "make",
        "require",
    ]


@each("name", surefind.__all__)
def test_public_name_can_be_imported(name: str) -> None:
    assert getattr(surefind, name) is not None


def test_unknown_public_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nonesuch'"):
        _ = surefind.Nonesuch


def test_errors_have_the_exit_codes_of_their_tree() -> None:
    errors = importlib.import_module("surefind.base.errors")
    codes = {name: getattr(errors, name).exit_code for name in dir(errors) if name.endswith("Error")}
    assert {codes[n] for n in ("SpecError", "ConfigError", "QueryError", "SourceError", "ExamError")} == {2}
    assert {codes[n] for n in ("NothingIndexedError", "LockedError", "NewerStoreError", "DiskFullError")} == {3}
    assert (codes["SurefindError"], codes["MissingPartError"]) == (1, 4)


def test_every_error_is_drawn_in_the_tree() -> None:
    errors = importlib.import_module("surefind.base.errors")
    classes = [n for n, c in vars(errors).items() if isinstance(c, type) and issubclass(c, Exception)]
    assert all(name in errors.__doc__ for name in classes)
