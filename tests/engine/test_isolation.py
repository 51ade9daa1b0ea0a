"""With isolation = "statistics", no score depends on documents that the caller may not read."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from helpers import Home, ask
from surefind.base import spec
from surefind.base.errors import ConfigError
from surefind.engine.retrieve._postings import Postings
from surefind.engine.retrieve._tfidf import Features
from surefind.kb.settings.config import parse_settings

PIPELINES = "\n".join(f'[pipelines.{name}]\nretrieve = ["{name}"]' for name in ("bm25", "tfidf", "sparse", "ppr"))
SETTINGS = f'[search]\npipeline = "bm25"\n{PIPELINES}\n'
ISOLATED = SETTINGS + '[access]\nisolation = "statistics"\n'
GUESSES = ("falcon", "lisbon", "merger", "severance")
OPEN = {
    f"docs/{i}.md": f"# Desk {i}\n\nThe {word} desk of Lisbon Bank closes early. " + "It keeps a ledger. " * i
    for i, word in enumerate((*GUESSES, "wire", "teller"))
}
CLOSED = {
    f"docs/closed{i}.md": f"---\nacl: [board]\n---\n# Falcon {i}\n\nThe falcon merger of Lisbon Bank and its severance."
    for i in range(5)
}


def made(folder: Path, settings: str, files: dict[str, str]) -> Home:
    home = Home(folder, settings)
    for name, text in files.items():
        home.write(name, text)
    home.sync("docs")
    return home


def scores(home: Home, pipeline: str, query: str, **more: object) -> dict[str, float]:
    with home.open() as kb:
        return {hit.document: hit.score for hit in ask(kb, query, k=20, pipeline=pipeline, **more).hits}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Without the restricted documents."""
    return made(tmp_path_factory.mktemp("alone"), SETTINGS, OPEN)


@pytest.fixture(scope="module")
def isolated(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return made(tmp_path_factory.mktemp("isolated"), ISOLATED, {**OPEN, **CLOSED})


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return made(tmp_path_factory.mktemp("shared"), SETTINGS, {**OPEN, **CLOSED})


@each("pipeline", ["bm25", "tfidf", "sparse", "ppr"])
@each("guess", GUESSES)
def test_scores_are_those_of_a_knowledge_base_without_the_restricted_documents(
    pipeline: str, guess: str, alone: Home, isolated: Home
) -> None:
    query = f"{guess} desk"
    assert scores(isolated, pipeline, query) == pytest.approx(scores(alone, pipeline, query))


@each("pipeline", ["bm25", "tfidf", "sparse"])
def test_scores_without_isolation_depend_on_restricted_documents(pipeline: str, alone: Home, shared: Home) -> None:
    assert scores(shared, pipeline, "falcon desk") != pytest.approx(scores(alone, pipeline, "falcon desk"))


def test_owner_and_members_find_restricted_documents(isolated: Home, shared: Home) -> None:
    for groups in (["board"], ["*"]):
        found = scores(isolated, "bm25", "falcon merger", groups=groups)
        assert found == pytest.approx(scores(shared, "bm25", "falcon merger", groups=groups))
        assert "closed0.md" in found


def test_caller_who_may_read_nothing_finds_nothing(tmp_path: Path) -> None:
    home = made(tmp_path, ISOLATED, CLOSED)
    for pipeline in ("bm25", "tfidf", "sparse"):
        assert scores(home, pipeline, "falcon") == {}


def test_missing_scores_are_isolated_too(tmp_path: Path, alone: Home, isolated: Home) -> None:
    pipeline = "bm25 + tfidf >> weighted(weights=[0.5, 0.5], missing=score)"
    assert scores(isolated, pipeline, "falcon ledger") == pytest.approx(scores(alone, pipeline, "falcon ledger"))


def test_unknown_isolation_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"isolation must be one of none, statistics, not 'all'"):
        parse_settings(SETTINGS + '[access]\nisolation = "all"\n', "surefind.toml")


TEXTS = st.lists(st.tuples(st.text("abcd ", max_size=20), st.booleans()), max_size=12)


@given(TEXTS)
def test_part_of_an_index_equals_an_index_of_the_part(rows: list[tuple[str, bool]]) -> None:
    texts, kept = [text for text, _ in rows], np.array([keep for _, keep in rows], np.bool_)
    some = [text for text, keep in rows if keep]
    analyzer = spec.make("analyze", "plain")
    part, alone = Postings.build(texts, analyzer).only(kept, None), Postings.build(some, analyzer)
    assert part.vocabulary == alone.vocabulary
    for name in ("starts", "docs", "tfs", "lengths"):
        assert getattr(part, name).tolist() == getattr(alone, name).tolist(), name
    stage = SimpleNamespace(ngrams=2, features=5)
    grams = Features.build(texts, analyzer, 2, 5).only(kept, stage), Features.build(some, analyzer, 2, 5)
    assert grams[0].grams == grams[1].grams
    for name in ("starts", "docs", "weights"):
        assert getattr(grams[0], name).tolist() == getattr(grams[1], name).tolist(), name
