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

ROOT = Path(surefind.__file__).parent

LAYERS = [
    {
        "types",
        "errors",
        "redact",
        "access",
        "names",
        "disk",
        "running",
        "prompts",
    },
    {"grammar", "spec", "protocols", "abilities"},
    {
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
        "text",
    },
    {"ingest", "chunk", "enrich", "retrieve", "fuse", "rerank"},
    {"search", "write", "desk", "settings"},
    {"kb", "answer"},
    {"exam", "measure", "fitness", "bench", "calibrate", "tune", "train"},
    {"study"},
    {"adapters", "client", "serve", "__main__"},
]
STAGES = LAYERS[3]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
USED_AGAIN = {"SurefindRetriever"}
"""Class names that more than one module may use: users import the retriever from the adapter of their framework."""
NEEDS_TORCH = {"surefind.train.network", "surefind.train.export"}
BESIDE = {"__init__", "testing"}
"""The front door, which imports late, and the contract suites, which nothing imports."""


def rooms() -> list[tuple[Path, str]]:
    """Every module and the room it stands in."""
    return [(path, path.relative_to(ROOT).parts[0].removesuffix(".py")) for path in sorted(ROOT.rglob("*.py"))]


@cache
def imported(path: Path, types_too: bool = False) -> tuple[str, ...]:
    """The rooms that a module imports, early or late; those for type checking only if `types_too`."""
    return tuple(_imported(path, types_too))


def _imported(path: Path, types_too: bool) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
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
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name.split(".")[1] for name in names if name.startswith("surefind."))


def test_every_room_has_a_layer() -> None:
    assert {room for _, room in rooms()} <= {*LEVEL, *BESIDE}


@pytest.mark.parametrize("layer", range(len(LAYERS)), ids=lambda i: "+".join(sorted(LAYERS[i])))
def test_room_imports_only_rooms_of_its_layer_and_below(layer: int) -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path, room in rooms()
        if LEVEL.get(room) == layer
        for name in imported(path)
        if LEVEL.get(name, -1) > layer
    ]
    assert wrong == []


def test_stages_never_import_each_other() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path, room in rooms()
        if room in STAGES
        for name in imported(path)
        if name in STAGES - {room}
    ]
    assert wrong == []


def test_no_two_rooms_import_each_other() -> None:
    pairs = {
        (room, name) for path, room in rooms() for name in imported(path, True) if name != room and room not in BESIDE
    }
    assert sorted(pair for pair in pairs if pair[::-1] in pairs) == []


def module_name(path: Path) -> str:
    parts = ("surefind", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def dependencies() -> dict[str, set[str]]:
    """Module -> the modules that it imports: early, late, or for type checking only."""
    modules = {module_name(path): path for path, _ in rooms()}
    found: dict[str, set[str]] = {}
    for name, path in modules.items():
        found[name] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                targets = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                targets = [alias.name for alias in node.names]
            else:
                continue
            for target in targets:
                while target and target not in modules:
                    target = target.rpartition(".")[0]
                if target not in ("", "surefind", name):  # the front door imports late, and everything
                    found[name].add(target)
    return found


@pytest.mark.parametrize("path", sorted((ROOT.parents[1] / "benchmarks").rglob("*.py")), ids=lambda path: path.name)
def test_benchmarks_import_only_what_is_there(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("surefind."):
            module = importlib.import_module(str(node.module)) if node.module not in NEEDS_TORCH else None
            missing = [alias.name for alias in node.names if module and not hasattr(module, alias.name)]
            assert not [name for name in missing if find_spec(f"{node.module}.{name}") is None], path


@pytest.mark.parametrize("room", ["serve", "store", "exam", "study"])
def test_no_two_folders_of_a_room_import_each_other(room: str) -> None:
    def folder(module: str) -> str:
        parts = module.split(".")
        return parts[2] if parts[1:2] == [room] and len(parts) > 3 else ""

    pairs = {
        (folder(name), folder(target))
        for name, targets in dependencies().items()
        for target in targets
        if folder(name) and folder(target) and folder(name) != folder(target)
    }
    assert sorted(pair for pair in pairs if pair[::-1] in pairs) == []


def test_no_module_imports_itself_by_way_of_others() -> None:
    try:
        tuple(TopologicalSorter(dependencies()).static_order())
    except CycleError as error:
        pytest.fail(f"an import circle: {' -> '.join(error.args[1])}")


def test_other_packages_import_public_modules_only() -> None:
    wrong = [
        f"{name} imports {target}"
        for name, targets in dependencies().items()
        for target in targets
        if "._" in target and not name.startswith(target.partition("._")[0])
    ]
    assert wrong == []


def test_no_module_is_longer_than_600_lines() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path, _ in rooms()}
    assert {name: lines for name, lines in lengths.items() if lines > 600} == {}


def test_nothing_imports_the_contract_suites() -> None:
    assert [path.name for path, room in rooms() if room != "testing" and "testing" in imported(path)] == []


HEAVY = ("numba", "onnxruntime", "sklearn", "tokenizers", "torch")


@pytest.mark.parametrize(
    "statement",
    [
        "import surefind",
        "from surefind.serve.cli import main",
        "from surefind.fitness.check import require_fit; from surefind.kb import KnowledgeBase",  # as a sync does
    ],
)
def test_import_loads_nothing_heavy(statement: str) -> None:
    if "serve" in statement and not (ROOT / "serve" / "cli").exists():
        pytest.skip("there is no command line yet")
    code = f"import sys; {statement}; print(*[m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_plain_import_loads_not_even_numpy() -> None:
    code = "import sys, surefind; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_class_name_is_used_once() -> None:
    homes: dict[str, list[str]] = {}
    for path, _ in rooms():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(f"{path.relative_to(ROOT)}:{node.lineno}")
    twice = {name: places for name, places in homes.items() if len(places) > 1 and name not in USED_AGAIN}
    assert not twice, f"Name each class after what it is: {twice}"


def test_public_exports_are_pinned() -> None:
    assert surefind.__all__ == [
        "Access",
        "Chunk",
        "Document",
        "Hit",
        "KnowledgeBase",
        "Pipeline",
        "Query",
        "Rankings",
        "SearchResult",
        "SurefindError",
        "__version__",
    ]


@pytest.mark.parametrize("name", surefind.__all__)
def test_public_name_can_be_imported(name: str) -> None:
    assert getattr(surefind, name) is not None


def test_unknown_public_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nonesuch'"):
        _ = surefind.Nonesuch


def test_errors_have_the_exit_codes_of_their_tree() -> None:
    errors = importlib.import_module("surefind.errors")
    codes = {name: getattr(errors, name).exit_code for name in dir(errors) if name.endswith("Error")}
    assert {codes[n] for n in ("SpecError", "ConfigError", "QueryError", "SourceError", "ExamError")} == {2}
    assert {codes[n] for n in ("NothingIndexedError", "LockedError", "NewerStoreError", "DiskFullError")} == {3}
    assert (codes["SurefindError"], codes["MissingPartError"]) == (1, 4)


def test_every_error_is_drawn_in_the_tree() -> None:
    errors = importlib.import_module("surefind.errors")
    classes = [n for n, c in vars(errors).items() if isinstance(c, type) and issubclass(c, Exception)]
    assert all(name in errors.__doc__ for name in classes)
