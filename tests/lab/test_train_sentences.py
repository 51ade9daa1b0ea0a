"""Training models in the format of sentence-transformers, on a tiny one made here; most tests need the library."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from exam_helpers import query
from helpers import Home
from surefind.base.errors import MissingPartError, SurefindError
from surefind.engine.embed.sentence_transformers import SentenceTransformers
from surefind.engine.search.pipeline import Pipeline
from surefind.engine.services import LocalServices
from surefind.lab.bench.plan import Plan, from_texts, parse_measures
from surefind.lab.bench.run import unseen
from surefind.lab.exam.model import Exam, Judgment
from surefind.lab.measure.ranks import parse_measure
from surefind.lab.train.job import TrainingJob, start_folder, trainable, trains_with_library

WORDS = "amber birch cedar dune ember fjord glade heath islet jetty knoll lagoon marsh nook oasis peak".split()
OTHERS = "the station number keeps its own log where is who rho sigma tau".split()
PASSAGES = [f"the {word} station keeps its own log" for word in WORDS]
TEXTS = [(f"where is {word}", PASSAGES[i], PASSAGES[i - 5]) for i, word in enumerate(WORDS)]


# ---------------------------------------------------------------- without the library


def test_folder_of_the_library_is_read_by_our_network_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    monkeypatch.setattr("surefind.lab.train.job.find_spec", lambda name: None)
    (tmp_path / "modules.json").write_text("[]")
    with pytest.raises(MissingPartError, match=r"pip install 'surefind\[sentence-transformers\]'"):
        trains_with_library(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    assert not trains_with_library(tmp_path)


def test_training_starts_from_the_encoder_of_the_pipeline(tmp_path: Path) -> None:
    models = pytest.importorskip("surefind_models")
    own = tmp_path / "own"
    own.mkdir()
    (own / "model.safetensors").write_bytes(b"")
    spec = f"onnx(path={own})"
    services = LocalServices(folder=tmp_path)
    assert trainable(spec, services) == trainable("onnx(path=own)", services) == own
    assert trainable("minilm", services) == models.path("minilm")
    assert trainable("openai(model=m)", services) is None and trainable(f"onnx(path={tmp_path})", services) is None
    job = TrainingJob("encoder", "mine")
    assert start_folder(job, Pipeline.parse(f"dense(model={spec})"), services) == own
    assert start_folder(job, Pipeline.parse("dense(model=openai(model=m))"), services) == models.path("minilm")
    with pytest.raises(MissingPartError, match=r"There is no model in .* \(tokenizer.json and modules.json"):
        start_folder(TrainingJob("encoder", "mine", start=str(tmp_path)), Pipeline.parse("dense"), services)


# ---------------------------------------------------------------- with it


@pytest.fixture
def start(tmp_path: Path) -> Path:
    library = pytest.importorskip("sentence_transformers")
    torch = pytest.importorskip("torch")
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder = tmp_path / "made"
    folder.mkdir()
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = [*marks, *WORDS, *OTHERS, *"0123456789"]
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    plain = BertModel(BertConfig(vocab_size=len(vocabulary), max_position_embeddings=64, **sizes))
    plain.save_pretrained(folder / "bert")
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder / "bert")
    library.SentenceTransformer(str(folder / "bert"), device="cpu").save(str(folder / "model"))
    return folder / "model"


def settings(**more: Any) -> Any:
    from surefind.lab.train.learning import TrainingSettings

    return TrainingSettings(**{"loss": "multiple-negatives", "batch": 8, "rate": 3e-3, "max_tokens": 16, **more})


def quiet(what: str, done: int, total: int) -> None:
    pass


@pytest.mark.parametrize("loss", ["multiple-negatives", "triplet"])
def test_loss_falls_and_the_result_is_an_encoder(start: Path, tmp_path: Path, loss: str) -> None:
    from surefind.lab.train.learning import train_sentences

    losses = train_sentences(start, TEXTS, settings(loss=loss, epochs=30), 1.0, tmp_path / "work", quiet)
    assert len(losses) == 60 and np.mean(losses[-4:]) < 0.8 * np.mean(losses[:4])
    made = SentenceTransformers(str(tmp_path / "work" / "model"))
    questions, passages = (made.embed([row[i] for row in TEXTS]) for i in range(2))
    before = SentenceTransformers(str(start))
    old_questions, old_passages = (before.embed([row[i] for row in TEXTS]) for i in range(2))
    assert _found(questions, passages) > _found(old_questions, old_passages)


def _found(questions: Any, passages: Any) -> float:
    return float(np.mean((questions @ passages.T).argmax(axis=1) == np.arange(len(questions))))


def test_share_averages_the_weights(start: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    from surefind.lab.train.learning import train_sentences

    found = {}
    for share in (0.25, 1.0):
        train_sentences(start, TEXTS, settings(), share, tmp_path / str(share), quiet)
        found[share] = load_file(tmp_path / str(share) / "model" / "model.safetensors")
    before = load_file(start / "model.safetensors")
    key = "embeddings.word_embeddings.weight"
    assert np.allclose(found[0.25][key], 0.75 * before[key] + 0.25 * found[1.0][key], atol=1e-6)
    assert not np.allclose(found[1.0][key], before[key])


def test_stopped_training_resumes(start: Path, tmp_path: Path) -> None:
    from surefind.lab.train.learning import train_sentences

    def stop(what: str, done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_sentences(start, TEXTS, settings(epochs=4), 1.0, tmp_path / "work", stop)
    seen: list[int] = []
    train_sentences(
        start, TEXTS, settings(epochs=4), 1.0, tmp_path / "work", lambda what, done, total: seen.append(done)
    )
    assert seen[0] == 3


def test_folder_that_cannot_be_loaded(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    from surefind.lab.train.learning import train_sentences

    (tmp_path / "modules.json").write_text("[]")
    with pytest.raises(SurefindError, match=r"The model in .* cannot be loaded: .* Name another folder with --start"):
        train_sentences(tmp_path / "nothing", TEXTS, settings(), 1.0, tmp_path / "work", quiet)


def test_better_model_is_kept_and_not_asked_what_it_learnt(start: Path, tmp_path: Path) -> None:
    from surefind.lab.train.neural import train_model

    home = Home(tmp_path / "kb", "")
    asked = []
    for i, word in enumerate(WORDS):
        for j in range(3):
            home.write(f"docs/{word}{j}.md", f"The {word} station number {j} keeps its own log.")
            asked += [
                query(f"q{i}-{j}-{k}", f"{asks} {word} {j}", Judgment(f"{word}{j}.md"))
                for k, asks in enumerate(("where is", "who keeps"))
            ]
    home.sync("docs", index=False)
    exam = Exam("stations", tuple(asked))
    job = TrainingJob(
        "encoder", "mine", ("exam",), epochs=20, batch=8, rate=3e-3, max_tokens=32, share=1.0, device="cpu"
    )
    with home.open() as kb:
        pipeline = Pipeline.parse(f"dense(model=sentence_transformers(model={start}))")
        made = train_model(kb, exam, job, pipeline, parse_measure("nDCG@10"))
        assert made.better, made.verdict
        assert made.start == start.name and made.loss.last < made.loss.first
        assert "sentence_transformers(model=" in made.use
        plan = Plan(tuple(from_texts([made.use], {})), exam, parse_measures(["nDCG@10"]))
        assert len(unseen(plan, kb.services).exam.queries) == made.questions.held_out
