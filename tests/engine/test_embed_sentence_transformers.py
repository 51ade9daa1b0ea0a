"""`sentence_transformers(…)`: what it says without the library; with it, a tiny model made here."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from surefind.base import spec
from surefind.base.errors import MissingPartError, SpecError
from surefind.engine.embed import sentence_transformers as room
from surefind.engine.embed.sentence_transformers import SentenceTransformers
from surefind.testing import check_embedder, check_stage


@pytest.fixture(autouse=True)
def fresh() -> None:
    room._folder.cache_clear()


def test_missing_extra_names_the_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingPartError, match=r"pip install 'surefind\[sentence-transformers\]'"):
        SentenceTransformers().embed(["a"])
    with pytest.raises(MissingPartError):
        _ = SentenceTransformers().fingerprint


def test_spec() -> None:
    check_stage(SentenceTransformers())
    with pytest.raises(SpecError, match="batch must be above 0"):
        spec.make("embed", "sentence_transformers(batch=0)")


def test_identity_is_the_commit_or_follows_the_files(tmp_path: Path) -> None:
    snapshot = tmp_path / "snapshots" / "0123abc"
    snapshot.mkdir(parents=True)
    assert room.digest_of(snapshot) == "0123abc"
    prints = set()
    for i in range(2):
        folder = tmp_path / str(i) / "model"
        folder.mkdir(parents=True)
        (folder / "model.safetensors").write_bytes(bytes([i]))
        prints.add(room.digest_of(folder))
    assert len(prints) == 2


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = pytest.importorskip("sentence_transformers")
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder = tmp_path_factory.mktemp("tiny")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz0123456789", "cash", "report"]
    (folder / "vocab.txt").write_text("\n".join([*words, *(f"##{w}" for w in words[5:41])]))
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertModel(BertConfig(vocab_size=90, max_position_embeddings=64, **sizes)).save_pretrained(folder / "bert")
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder / "bert")
    library.SentenceTransformer(str(folder / "bert"), device="cpu").save(str(folder / "model"))
    return folder / "model"


def test_contract(tiny: Path) -> None:
    stage = SentenceTransformers(str(tiny))
    check_embedder(stage)
    assert stage.dimension == 16


def test_model_that_is_not_here_is_not_downloaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    with pytest.raises(MissingPartError, match=r"write sentence_transformers\(model=nobody/nothing, download=true\)"):
        SentenceTransformers("nobody/nothing").embed(["a"])
