from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from helpers import Home
from llm_server import LLMServer, serving
from model_memory import remembering
from surefind.base import spec
from surefind.doors.auth.keys import Keys
from surefind.engine.files.readers import Readers
from surefind.engine.net import endpoint

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from http_helpers import Rights, Served

if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # A shell starts background jobs with SIGINT ignored, and every process that a test starts would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)

gc.disable()  # while the test modules are imported, which makes much and leaves little to collect
gc.set_threshold(10_000, 20, 20)

# The gate asks the same questions every time, and `make long` asks more; `pytest --hypothesis-profile explore` asks new
# ones. A test with long examples takes a share of these: `settings.default.max_examples // 4`.
settings.register_profile("surefind", deadline=None, max_examples=20, derandomize=True)
settings.register_profile("long", deadline=None, max_examples=100, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=500)
settings.load_profile("surefind")

TOYS = {
    "enrich": {"asks_context": "toy_stages:AsksContext"},
    "embed": {"toy": "toy_stages:ToyEmbedder", "broken": "toy_stages:NoSuchClass"},
    "rerank": {
        "shared_words": "toy_stages:SharedWords",
        "failing": "toy_stages:Failing",
        "asks_model": "toy_stages:AsksModel",
    },
    "retrieve": {"labelled": "toy_stages:Labelled"},
    "chunk": {"naughty": "toy_readers:NaughtyChunker"},
}


_numbers = count()


FIRST = (
    "docs", "route_matrix", "freeze", "http_hidden", "look_alikes", "preview_rights", "train_fusion", "http_workers",
    "mcp", "tutorial", "faults", "http_job_access", "versions", "cutting", "ingest_git", "http_turns",
)  # fmt: skip
"""The test files that take longest. A process that takes one last works on while the others have nothing to do."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.stem.removeprefix("test_") not in FIRST)


def pytest_collection_finish() -> None:
    """What the test modules hold stays until the end, so the garbage collector need not look at it again and again."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new folder. The fixture of pytest looks at the folders of all earlier tests to find a free name, which takes
    longer than many tests."""
    name = "".join(letter if letter.isalnum() else "_" for letter in request.node.name[:30])
    folder = tmp_path_factory.getbasetemp() / "tests" / f"{next(_numbers)}_{name}"
    folder.mkdir(0o700, parents=True)
    return folder.resolve()


@pytest.fixture(autouse=True)
def _own_configuration(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or changes the servers that the user has confirmed."""
    folder = tmp_path_factory.getbasetemp() / "config" / str(next(_numbers))
    folder.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))


@pytest.fixture(autouse=True)
def _unchecked_models(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripted models are used without being asked whether they are fit, except in the tests of that."""
    if "checked_models" not in request.fixturenames:
        monkeypatch.setattr("surefind.lab.fitness.check.wanted", lambda kb: False)


@pytest.fixture
def checked_models() -> None:
    """Models are checked before their first use, as outside of tests."""


@pytest.fixture(scope="module")
def remembered_models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The bundled models compute each vector and each score once in a run of the tests."""
    folder = tmp_path_factory.getbasetemp()
    with remembering((folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "models.db"):
        yield


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """The knowledge base that `server` serves."""
    from http_helpers import a_bank

    return a_bank(Home(tmp_path_factory.mktemp("bank")))


@pytest.fixture(scope="module")
def rights() -> Rights:
    """The scopes and the groups of the callers of `server`. A server without callers is open."""
    return {}


@pytest.fixture(scope="module")
def keys(bank: Home, rights: Rights) -> dict[str, str]:
    """The key of each caller."""
    store = Keys(bank.folder / ".surefind")
    return {name: store.create(name, scopes, groups)[1] for name, (scopes, groups) in rights.items()}


@pytest.fixture(scope="module")
def server(bank: Home, keys: dict[str, str]) -> Iterator[Served]:
    from http_helpers import serving

    with serving(bank.folder) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from web_helpers import browsing

    with browsing() as found:
        yield found


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def llm(monkeypatch: pytest.MonkeyPatch) -> Iterator[LLMServer]:
    """A language-model server on the loopback; a proxy that must not be asked about it; short waits between tries."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    monkeypatch.setattr(endpoint, "_FIRST_WAIT_SECONDS", 0.01)
    with serving() as server:
        yield server


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The stages of toy_stages.py as if a package had declared them as entry points."""

    def plugins(kind: str) -> dict[str, EntryPoint]:
        return {name: EntryPoint(name, value, f"surefind.{kind}") for name, value in TOYS.get(kind, {}).items()}

    monkeypatch.setattr(spec, "_plugins", plugins)
    yield
    spec.find.cache_clear()
    spec.make.cache_clear()


NAUGHTY = "[surefind.read]\nnaughty = toy_readers:Naughty\n[surefind.chunk]\nnaughty = toy_readers:NaughtyChunker\n"


@pytest.fixture(scope="session")
def naughty_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all tests, so that a process that waits for the next sync serves the next test too."""
    folder = tmp_path_factory.mktemp("plugin")
    info = folder / "naughty-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: naughty\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(NAUGHTY)
    return folder


@pytest.fixture
def naughty(naughty_package: Path, monkeypatch: pytest.MonkeyPatch) -> Readers:
    """The child finds the stages of toy_readers.py as an installed plugin."""
    tests = Path(__file__).parent
    path = os.pathsep.join(map(str, (naughty_package, tests, os.environ.get("PYTHONPATH", ""))))
    monkeypatch.setenv("PYTHONPATH", path)
    return Readers()
