"""constraints.txt pins all that pyproject.toml asks for, on every platform and Python; `make lock` writes it again."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import distribution, packages_distributions
from itertools import product
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from cases import each

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
MODELS = tomllib.loads((ROOT / "models" / "pyproject.toml").read_text(encoding="utf-8"))
PINS = [
    line
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]
_PIN = re.compile(r"[a-z0-9][a-z0-9-]*==[0-9][0-9a-z.]*( ; [a-zA-Z0-9_ .'<>=!()]+)?")


def environment(machine: str, python: str) -> dict[str, str]:
    """The marker values of CPython on Linux."""
    return {
        "platform_machine": machine,
        "python_version": python,
        "python_full_version": f"{python}.0",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "os_name": "posix",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }


ENVIRONMENTS = [environment(*each) for each in product(("x86_64", "aarch64"), ("3.11", "3.12", "3.13"))]


def asked(lines: list[str]) -> Iterator[Requirement]:
    """The requirements, with those of our own extras in place of the extras."""
    for line in lines:
        requirement = Requirement(line)
        if requirement.name == "surefind":
            for extra in requirement.extras:
                yield from asked(PROJECT["project"]["optional-dependencies"][extra])
        else:
            yield requirement


def needed() -> list[Requirement]:
    """What `make demo` and `make test` install by name."""
    installed = [*PROJECT["project"]["dependencies"], *MODELS["project"]["dependencies"], "surefind[dev,formats]"]
    build = [*PROJECT["build-system"]["requires"], *MODELS["build-system"]["requires"], "editables"]
    return list(asked([*installed, *build]))


def holds(requirement: Requirement, where: dict[str, str]) -> bool:
    return requirement.marker is None or requirement.marker.evaluate(where)


# ---------------------------------------------------------------- constraints.txt


def test_every_line_is_an_exact_pin() -> None:
    """No ranges, paths, URLs or options such as --index-url."""
    assert len(PINS) > 50
    assert [line for line in PINS if not _PIN.fullmatch(line)] == []


@each("line", ["numpy>=2", "numpy", "-e ./models", "--index-url x", "a @ https://b/c.whl", "a==1.*"])
def test_other_lines_would_be_noticed(line: str) -> None:
    assert not _PIN.fullmatch(line)


def test_the_header_has_no_address() -> None:
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert "//" not in text
    assert "--index" not in text and "--extra-index" not in text


@each("where", ENVIRONMENTS, ids=lambda each: f"{each['platform_machine']}-{each['python_version']}")
def test_each_requirement_has_one_pin_in_its_range(where: dict[str, str]) -> None:
    pins: dict[str, list[str]] = {}
    for pin in map(Requirement, PINS):
        if holds(pin, where):
            pins.setdefault(canonicalize_name(pin.name), []).append(next(iter(pin.specifier)).version)
    assert {name: versions for name, versions in pins.items() if len(versions) > 1} == {}
    for requirement in needed():
        if holds(requirement, where):
            name = canonicalize_name(requirement.name)
            assert name in pins, f"{name} has no pin; run: make lock"
            assert requirement.specifier.contains(pins[name][0]), f"{requirement} but {pins[name][0]}; run: make lock"


# ---------------------------------------------------------------- types


@cache
def imported() -> set[str]:
    """The top-level modules that src/ imports, without the standard library and our own."""
    names: set[str] = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names.update(alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.partition(".")[0])
    return names - set(sys.stdlib_module_names) - {"surefind"}


def skipped() -> set[str]:
    """The modules whose types mypy never reads."""
    overrides: list[dict[str, Any]] = PROJECT["tool"]["mypy"]["overrides"]
    whole = [each for each in overrides if each.get("follow_imports") == "skip"]
    assert all(each["ignore_missing_imports"] and each["follow_imports_for_stubs"] for each in whole)
    return {name.removesuffix(".*") for each in whole for name in each["module"]}


def same_everywhere(module: str, known: dict[str, list[str]]) -> bool:
    """Whether the types come from a package with one wheel for all platforms. numpy has types in every wheel."""
    owners = known.get(f"{module}-stubs") or known.get(module, [])
    wheels = [distribution(name).read_text("WHEEL") or "" for name in owners]
    return module == "numpy" or (bool(wheels) and all("Root-Is-Purelib: true" in wheel for wheel in wheels))


def test_types_are_read_only_where_every_platform_has_them() -> None:
    known = {name: list(owners) for name, owners in packages_distributions().items()}
    varying = [name for name in sorted(imported() - skipped()) if not same_everywhere(name, known)]
    assert varying == [], "add them to the modules that mypy skips, in pyproject.toml"


def test_mypy_skips_only_what_is_imported() -> None:
    assert skipped() - imported() == set()


def test_the_image_installs_extras_that_exist() -> None:
    import yaml

    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    (named,) = re.findall(r"'\.\[([\w,-]+)\]'", text)
    assert set(named.split(",")) <= PROJECT["project"]["optional-dependencies"].keys()
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
    assert compose["services"]["surefind"]["volumes"] == ["./handbook:/data"] and "SUREFIND_KB=/data" in text
