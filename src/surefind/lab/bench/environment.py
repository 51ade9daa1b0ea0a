"""What a report was made with: Python, the machine and the packages that decide results."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from surefind.base.running.cores import usable_cores

_PACKAGES = ("numpy", "numba", "onnxruntime", "tokenizers", "surefind-models")


@dataclass(frozen=True)
class Environment:
    python: str
    platform: str
    cores: int
    packages: Mapping[str, str]


def environment() -> Environment:
    return Environment(
        platform.python_version(),
        f"{platform.system()} {platform.machine()}",
        usable_cores(),
        {name: _version(name) for name in _PACKAGES},
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
