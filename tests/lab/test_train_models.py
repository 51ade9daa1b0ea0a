"""Training encoders and rerankers for real, on a tiny network; needs torch, which `make test` does not install."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cases import each

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

import surefind_models  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

from exam_helpers import query, surefind  # noqa: E402
from helpers import Home, ask, integer_weights  # noqa: E402
from surefind.base.errors import DiskFullError, LockedError, SpecError, SurefindError  # noqa: E402
from surefind.base.types import Chunk  # noqa: E402
from surefind.engine.embed.onnx import Onnx  # noqa: E402
from surefind.engine.inference.cross_encoder import OnnxCrossEncoder  # noqa: E402
from surefind.engine.search.pipeline import Pipeline  # noqa: E402
from surefind.engine.services import LocalServices  # noqa: E402
from surefind.engine.store.lock import training_lock  # noqa: E402
from surefind.lab.bench.plan import Plan, from_texts, parse_measures  # noqa: E402
from surefind.lab.bench.run import unseen  # noqa: E402
from surefind.lab.exam.model import Exam, Judgment  # noqa: E402
from surefind.lab.exam.store import ExamStore  # noqa: E402
from surefind.lab.measure.ranks import parse_measure  # noqa: E402
from surefind.lab.train.export import export  # noqa: E402
from surefind.lab.train.job import TrainingJob  # noqa: E402
from surefind.lab.train.kept import keep, stopped_trainings  # noqa: E402
from surefind.lab.train.learning import TokenRows, TrainingSettings, _share, train  # noqa: E402
from surefind.lab.train.network import (  # noqa: E402
    Network,
    Shape,
    load_network,
)
from surefind.lab.train.neural import train_model  # noqa: E402
from surefind.lab.train.operators import use_faster_operators  # noqa: E402
from surefind.testing import check_embedder  # noqa: E402

BUNDLED = surefind_models.path("minilm")
TOKENIZER = BUNDLED / "tokenizer.json"
TINY = Shape(32, 2, 2, 64, 30522, 64)
QUIET = lambda what, done, total: None  # noqa: E731
ONE = TrainingSettings("multiple-negatives", epochs=1, batch=8)


def network(ranks: bool, seed: int = 0) -> Network:
    """Nowhere two equal vectors, as in a trained one: the exporter stores equal ones once."""
    torch.manual_seed(seed)
    made = Network(TINY, ranks)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter += 0.02 * torch.randn_like(parameter)
    return made


@pytest.fixture
def start(tmp_path: Path) -> Path:
    """A tiny BERT as Hugging Face lays one out."""
    made, folder = network(ranks=True).state_dict(), tmp_path / "start"
    folder.mkdir()
    names = {
        "words": "embeddings.word_embeddings", "positions": "embeddings.position_embeddings",
        "types": "embeddings.token_type_embeddings", "norm": "embeddings.LayerNorm", "pooler": "pooler.dense",
        "query": "attention.self.query", "key": "attention.self.key", "value": "attention.self.value",
        "out": "attention.output.dense", "attention_norm": "attention.output.LayerNorm",
        "up": "intermediate.dense", "down": "output.dense", "head": "classifier",
    }  # fmt: skip
    upstream = {}
    for key, tensor in made.items():
        module, kind = key.rsplit(".", 1)
        if module.startswith("layers."):
            _, layer, part = module.split(".")
            upstream[f"encoder.layer.{layer}.{'output.LayerNorm' if part == 'norm' else names[part]}.{kind}"] = tensor
        else:
            upstream[f"{names[module]}.{kind}"] = tensor
    save_file({key: tensor.clone() for key, tensor in upstream.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"num_attention_heads": TINY.heads}))
    shutil.copy(TOKENIZER, folder / "tokenizer.json")
    return folder


# ---------------------------------------------------------------- networks


def test_upstream_weights_load_by_name(start: Path) -> None:
    loaded, missing = load_network(start, ranks=True)
    assert (loaded.shape, missing) == (TINY, [])
    for key, value in network(ranks=True).state_dict().items():
        assert torch.equal(loaded.state_dict()[key], value), key


def test_bundled_encoder_is_read_back_from_its_graph() -> None:
    loaded, missing = load_network(BUNDLED, ranks=False)
    assert missing == []
    text = "Currency transaction reports are filed within fifteen days."
    from tokenizers import Tokenizer

    ids = torch.tensor([Tokenizer.from_file(str(TOKENIZER)).encode(text).ids])
    with torch.inference_mode():
        vector = loaded.eval()(ids, torch.ones_like(ids), torch.zeros_like(ids)).numpy()[0]
    assert float(vector @ Onnx(str(BUNDLED)).embed([text])[0]) > 0.985


@each("name", ["minilm", "arctic"])
def test_training_at_a_rate_of_zero_changes_no_vector(tmp_path: Path, name: str) -> None:
    """The network pools as its model does, and the folder keeps what it reads before a question."""
    begin, made = surefind_models.path(name), tmp_path / name
    loaded, _ = load_network(begin, ranks=False)
    rows = [TokenRows(tuple(([101, one, 102], [0] * 3) for one in (word, word + 1))) for word in range(2000, 2008)]
    train(loaded, rows, replace(ONE, rate=0.0), tmp_path / f"{name}.pt", QUIET)
    export(loaded, begin / "tokenizer.json", made, name, 256, precise=True)
    texts = ["Currency transaction reports are filed within fifteen days.", "when are reports filed?"]
    before, after = (LocalServices(tmp_path / "cache").embedder(model) for model in (name, f"onnx(path={made})"))
    for way in ("embed", "embed_queries"):
        both = [getattr(encoder, way)(texts) for encoder in (before, after)]
        assert min((both[0] * both[1]).sum(axis=1)) > 0.985, (name, way)


def test_reranker_that_starts_from_an_encoder_has_a_head_of_its_own() -> None:
    _, missing = load_network(BUNDLED, ranks=True)
    assert missing == ["head", "pooler"]


def test_folder_without_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SurefindError, match="no weights to start from"):
        load_network(tmp_path, ranks=False)


def test_exported_encoder_runs_as_any_other(tmp_path: Path) -> None:
    export(network(ranks=False), TOKENIZER, tmp_path / "mine", "mine", 32)
    check_embedder(Onnx(str(tmp_path / "mine"), 32))
    assert use_faster_operators(tmp_path / "mine" / "model.onnx") == 0, "the export does it"
    weights = integer_weights(tmp_path / "mine" / "model.onnx")
    assert weights and max(int(abs(matrix.astype(int)).max()) for matrix in weights) <= 64  # 7 bits, for x86_64


def with_outliers() -> Network:
    """A network with a few channels that are far larger than the others, as trained ones have."""
    made = network(ranks=False)
    with torch.no_grad():
        for layer in made.layers:
            for norm, products in ((layer.attention_norm, [layer.up]), (layer.norm, [])):
                norm.weight[:2] *= 40
                for product in products:
                    product.weight[:, :2] /= 40
    return made


TEXTS = ["who counts the cash", "The vault opens at nine, and two people are present.", "wire abroad, how long"]


def test_smoothing_before_quantising_keeps_vectors_closer_to_those_of_the_network(tmp_path: Path) -> None:
    made = with_outliers()
    export(made, TOKENIZER, tmp_path / "float", "float", 32, precise=True)
    export(made, TOKENIZER, tmp_path / "plain", "plain", 32)
    export(made, TOKENIZER, tmp_path / "smooth", "smooth", 32, texts=TEXTS)
    wanted, plain, smooth = (Onnx(str(tmp_path / n), 32).embed(TEXTS) for n in ("float", "plain", "smooth"))
    lost, kept = 1 - (wanted * plain).sum(1).mean(), 1 - (wanted * smooth).sum(1).mean()
    assert kept < 0.75 * lost


def test_smoothed_encoder_is_read_back_as_the_network_that_was_exported(tmp_path: Path) -> None:
    made = with_outliers()
    export(made, TOKENIZER, tmp_path / "smooth", "smooth", 32, texts=TEXTS)
    loaded, _ = load_network(tmp_path / "smooth", ranks=False)
    ids = torch.randint(1000, 30000, (4, 12))
    with torch.inference_mode():
        before, after = (one.eval()(ids, torch.ones_like(ids), torch.zeros_like(ids)) for one in (made, loaded))
    assert float((before * after).sum(1).min()) > 0.98
    assert torch.allclose(loaded.norm.weight, made.norm.weight, rtol=1e-4)


def test_exported_reranker_scores_as_the_network_does_and_is_read_back(tmp_path: Path) -> None:
    made = network(ranks=True)
    export(made, TOKENIZER, tmp_path / "mine", "mine", 32)
    passages = [Chunk("a", 0, 1, text) for text in ("cash is counted", "the vault opens", "a wire is sent abroad")]
    encoder = OnnxCrossEncoder(tmp_path / "mine")
    tokenizer = encoder._load()
    pairs = [tokenizer.pair(tokenizer.query("who counts cash"), "", chunk.text) for chunk in passages]
    with torch.inference_mode():
        expected = [
            float(made.eval()(*(torch.tensor([row]) for row in (p.ids, p.attention_mask, p.type_ids)))) for p in pairs
        ]
    assert np.allclose(encoder.score("who counts cash", passages), expected, atol=0.05)
    again, missing = load_network(tmp_path / "mine", ranks=True)
    assert missing == [] and again.shape == TINY


# ---------------------------------------------------------------- learning


def examples(ranks: bool) -> list[TokenRows]:
    """A question's token also stands in its passage, and nowhere else."""
    made = []
    for i in range(16):
        word, noise = 2000 + i, [3000 + j for j in range(4)]
        mine, other = [101, word, *noise, 102], [101, 2100 + i, *noise, 102]
        if ranks:
            rows = [([101, word, 102, *row[1:]], [0, 0, 0] + [1] * (len(row) - 1)) for row in (mine, other)]
        else:
            rows = [([101, word, 102], [0] * 3), (mine, [0] * 7), (other, [0] * 7)]
        made.append(TokenRows(tuple(rows)))
    return made


@each(
    ("ranks", "loss"),
    [(False, "multiple-negatives"), (False, "triplet"), (False, "margin-mse"), (True, "multiple-negatives")],
)
def test_loss_falls(ranks: bool, loss: str, tmp_path: Path) -> None:
    settings = TrainingSettings(loss, epochs=15, batch=8, rate=3e-3)
    given = [replace(one, margins=(8.0,)) for one in examples(ranks)] if loss == "margin-mse" else examples(ranks)
    losses = train(network(ranks), given, settings, tmp_path / "c.pt", QUIET)
    assert np.mean(losses[-4:]) < 0.6 * np.mean(losses[:4])


def test_first_loss_is_the_formula(tmp_path: Path) -> None:
    made, some = network(ranks=False), examples(ranks=False)[:2]
    with torch.inference_mode():
        vectors = [
            [
                made.eval()(*(torch.tensor([x]) for x in (ids, [1] * len(ids), kinds)))[0].numpy()
                for ids, kinds in e.rows
            ]
            for e in some
        ]
    every = [v for rows in vectors for v in rows[1:]]
    expected = 0.0
    for q, at in zip((rows[0] for rows in vectors), (0, 2), strict=True):
        similar = np.array([20 * float(q @ v) for v in every])
        expected += -(similar[at] - np.log(np.exp(similar).sum())) / 2
    losses = train(made, some, TrainingSettings("multiple-negatives", batch=2), tmp_path / "c.pt", QUIET)
    assert losses[0] == pytest.approx(expected, rel=1e-3)


def test_margins_are_those_of_the_formula(tmp_path: Path) -> None:
    made = network(ranks=False)
    some = [replace(one, margins=(3.0 + i,)) for i, one in enumerate(examples(ranks=False)[:2])]
    expected = 0.0
    with torch.inference_mode():
        for one in some:
            rows = [
                made.eval()(*(torch.tensor([x]) for x in (ids, [1] * len(ids), kinds)))[0] for ids, kinds in one.rows
            ]
            query, passage, negative = rows
            expected += (20 * float(query @ passage - query @ negative) - one.margins[0]) ** 2 / 2
    losses = train(made, some, TrainingSettings("margin-mse", batch=2), tmp_path / "c.pt", QUIET)
    assert losses[0] == pytest.approx(expected, rel=1e-3)


def test_stopped_training_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    settings = TrainingSettings("multiple-negatives", epochs=4, batch=8, rate=1e-3)
    whole = network(ranks=False)
    losses = train(whole, examples(False), settings, tmp_path / "whole.pt", QUIET)

    def stop(what: str, done: int, total: int) -> None:
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(network(ranks=False), examples(False), settings, tmp_path / "c.pt", stop)
    seen: list[int] = []
    second = network(ranks=False)
    again = train(second, examples(False), settings, tmp_path / "c.pt", lambda what, done, total: seen.append(done))
    assert seen[0] == 5
    assert again == pytest.approx(losses, rel=1e-4)
    for key, value in whole.state_dict().items():
        assert torch.allclose(second.state_dict()[key], value, atol=1e-5), key


def first_step(checkpoint: Path, settings: TrainingSettings = ONE, seed: int = 0) -> int:
    """Where a training begins that finds this checkpoint."""
    seen: list[int] = []
    train(network(False, seed), examples(False), settings, checkpoint, lambda what, done, total: seen.append(done))
    return seen[0]


def test_a_training_that_is_over_need_not_be_done_again(tmp_path: Path) -> None:
    """As when Ctrl-C comes while the model is judged."""
    losses = train(network(False), examples(False), ONE, tmp_path / "c.pt", QUIET)
    assert first_step(tmp_path / "c.pt") == len(losses)


def test_checkpoint_of_something_else_is_left_alone(tmp_path: Path) -> None:
    train(network(False), examples(False), ONE, tmp_path / "c.pt", QUIET)
    assert first_step(tmp_path / "c.pt", TrainingSettings("triplet", batch=8)) == 0
    train(network(False), examples(False), ONE, tmp_path / "c.pt", QUIET)
    assert first_step(tmp_path / "c.pt", seed=9) == 0  # other weights to start from


@each("damage", ["cut", "flipped", "empty", "text"])
def test_damaged_checkpoint_is_begun_again(tmp_path: Path, damage: str) -> None:
    """One byte of the weights is enough: torch itself would load it."""
    path = tmp_path / "c.pt"
    train(network(False), examples(False), ONE, path, QUIET)
    data = path.read_bytes()
    middle = len(data) // 2
    flipped = data[:middle] + bytes([data[middle] ^ 0x40]) + data[middle + 1 :]
    path.write_bytes({"cut": data[:middle], "flipped": flipped, "empty": b"", "text": b"{}"}[damage])
    assert first_step(path) == 0


def test_stopped_within_a_step_it_goes_on_from_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the weights have made the step; doing it again on top of that would be another training."""
    settings = TrainingSettings("multiple-negatives", epochs=2, batch=8, rate=1e-3, pause=0.0)
    whole = train(network(False), examples(False), settings, tmp_path / "whole.pt", QUIET)
    step = torch.optim.AdamW.step
    turns = iter(range(100))

    def broken(self: Any, *more: Any) -> Any:
        if next(turns) == 2:
            with torch.no_grad():
                self.param_groups[0]["params"][0].add_(1.0)
            raise KeyboardInterrupt
        return step(self, *more)

    monkeypatch.setattr(torch.optim.AdamW, "step", broken)
    with pytest.raises(KeyboardInterrupt):
        train(network(False), examples(False), settings, tmp_path / "c.pt", QUIET)
    monkeypatch.setattr(torch.optim.AdamW, "step", step)
    seen: list[int] = []
    again = train(
        network(False), examples(False), settings, tmp_path / "c.pt", lambda what, done, total: seen.append(done)
    )
    assert seen[0] == 2
    assert again == pytest.approx(whole, rel=1e-4)


def test_full_disk_is_told_and_the_checkpoint_before_stays(tmp_path: Path) -> None:
    """/dev/full takes nothing, whatever is written to it."""
    train(network(False), examples(False), ONE, tmp_path / "c.pt", QUIET)
    before = (tmp_path / "c.pt").read_bytes()
    (tmp_path / "c.writing").symlink_to("/dev/full")
    with pytest.raises(DiskFullError, match=r"A checkpoint needs about \d+ MB, and the disk of .* Free some space"):
        train(network(False, seed=1), examples(False), ONE, tmp_path / "c.pt", QUIET)
    assert (tmp_path / "c.pt").read_bytes() == before


def test_too_little_room_is_told_before_the_first_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=5 << 20))
    seen: list[int] = []
    with pytest.raises(DiskFullError, match=r"needs about 11 MB, and the disk of .* has 5 MB left"):
        train(network(False), examples(False), ONE, tmp_path / "c.pt", lambda what, done, total: seen.append(done))
    assert seen == []


# ---------------------------------------------------------------- all together

WORDS = "amber birch cedar dune ember fjord glade heath islet jetty knoll lagoon marsh nook oasis peak".split()


@pytest.fixture
def corpus(tmp_path: Path) -> tuple[Home, Exam]:
    """Questions in one language, documents in another: nothing but learning tells which word means which."""
    home = Home(tmp_path / "kb", "")
    asked = []
    for i, word in enumerate(WORDS):
        for j in range(3):
            name = f"{word}{j}.md"
            home.write(f"docs/{name}", f"The {word} station number {j} keeps its own log of all visits and repairs.")
            for k, asks in enumerate(("where is", "who keeps")):
                text = f"{asks} {word} {j}"
                asked.append(query(f"q{i}-{j}-{k}", text, Judgment(name)))
    home.sync("docs", index=False)
    return home, Exam("stations", tuple(asked))


def job(kind: Any, start: Path, **more: Any) -> TrainingJob:
    return TrainingJob(kind, "mine", ("exam",), str(start), epochs=2, batch=8, max_tokens=32, device="cpu", **more)


def test_model_that_is_not_better_is_not_kept(corpus: tuple[Home, Exam], start: Path) -> None:
    home, exam = corpus
    with home.open() as kb:
        pipeline = Pipeline.parse("bm25")
        made = train_model(kb, exam, job("reranker", start, rate=1e-6), pipeline, parse_measure("nDCG@10"))
        assert made.better is False
        assert made.use == str(pipeline)
        assert not list((kb.data / "models").iterdir())
    assert made.pairs["exam"] > 20 and made.loss.steps > 2


def test_encoder_for_a_pipeline_without_one_is_refused_before_training(corpus: tuple[Home, Exam], start: Path) -> None:
    home, exam = corpus
    with home.open() as kb, pytest.raises(SpecError, match="no dense retriever, so a new encoder"):
        train_model(
            kb, replace(exam, queries=()), job("encoder", start), Pipeline.parse("bm25"), parse_measure("RR@10")
        )


def test_name_that_is_being_trained_is_refused(corpus: tuple[Home, Exam], start: Path) -> None:
    home, exam = corpus
    with home.open() as kb, training_lock(kb.data, "mine"), pytest.raises(LockedError, match="is training 'mine'"):
        train_model(kb, exam, job("reranker", start), Pipeline.parse("bm25"), parse_measure("nDCG@10"))


def test_training_that_was_stopped_is_listed_and_goes_on(corpus: tuple[Home, Exam], start: Path) -> None:
    home, exam = corpus
    pipeline, measure = Pipeline.parse("bm25"), parse_measure("nDCG@10")

    def stop(what: str, done: int, total: int) -> None:
        if (what, done) == ("Training", 3):
            raise KeyboardInterrupt

    with home.open() as kb:
        with pytest.raises(KeyboardInterrupt):
            train_model(kb, exam, job("reranker", start), pipeline, measure, stop)
        assert stopped_trainings(kb) == [{"name": "mine", "stopped": str(kb.data / "models" / ".mine.training")}]
        assert (
            "mine                     stopped: run the same command to continue"
            in surefind("train", "list", kb=home.folder).out
        )
        seen: list[int] = []
        train_model(
            kb, exam, job("reranker", start), pipeline, measure,
            lambda what, done, total: seen.append(done) if what == "Training" else None,
        )  # fmt: skip
        assert seen[0] == 3
        assert stopped_trainings(kb) == []


def test_three_documents_are_enough_if_two_of_them_are_free_to_learn_from(tmp_path: Path, start: Path) -> None:
    """Negatives come from other documents than the passage's own, and there are only two of those."""
    home = Home(tmp_path / "three", '[index]\nchunk = "markdown(tokens=60, min_tokens=10)"\n')
    for name in "abc":
        sections = [f"## The {name}-{w} valve\n\n{f'Turn the wheel of {name} {w} to the left. ' * 6}" for w in WORDS]
        home.write(f"docs/{name}.md", f"# Manual {name}\n\n" + "\n\n".join(sections))
    home.sync("docs", index=False)
    asked = tuple(query(f"q{i}", f"valve a {WORDS[i % 16]} turned {i}", Judgment("a.md")) for i in range(64))
    with home.open() as kb:
        wanted = TrainingJob("reranker", "mine", ("headings",), str(start), batch=8, max_tokens=32, device="cpu")
        made = train_model(kb, Exam("a", asked), wanted, Pipeline.parse("bm25"), parse_measure("nDCG@10"))
    assert made.pairs["headings"] >= 16 and made.loss.steps >= 2


def test_encoder_that_is_better_is_kept_used_and_taken_back(corpus: tuple[Home, Exam], start: Path) -> None:
    home, exam = corpus
    ExamStore(home.folder / ".surefind" / "exams").save(exam)
    begin = home.folder / "weights"
    export(load_network(start, ranks=False)[0], TOKENIZER, begin, "begin", 32)
    retriever = f"dense(model=onnx(path={begin}, max_tokens=32))"
    home.configure(f'[search]\npipeline = "meaning"\n\n[pipelines.meaning]\nretrieve = ["{retriever}"]\n')
    before = (home.folder / "surefind.toml").read_text()
    ran = surefind(
        "train", "encoder", "--exam", "stations", "--name", "mine", "--from", "exam", "--start", start,
        "--epochs", "12", "--batch", "8", "--rate", "3e-3", "--tokens", "32", "--share", "1", "--device",
        "cpu", "--use", "--json", kb=home.folder,
    )  # fmt: skip
    made = ran.json
    assert made["better"] and made["used"], made["verdict"]
    with home.open() as kb:
        assert "models/mine" in str(kb.pipeline())
        assert ask(kb, "where is cedar 1").hits[0].document.startswith("cedar")
        contender = Plan(tuple(from_texts([made["use"]], {})), exam, parse_measures(["nDCG@10"]))
        assert len(unseen(contender, kb.services).exam.queries) == len(exam.queries) // 2
    listed = surefind("train", "list", kb=home.folder)
    assert "mine" in listed.out and "encoder" in listed.out
    again = surefind("train", "encoder", "--exam", "stations", "--name", "mine", "--use", kb=home.folder)
    assert again.code == 2 and "already has a pipeline called 'mine'" in again.err
    models = home.folder / ".surefind" / "models"
    (models / "new").mkdir()
    keep(
        models / "new", models / "mine", {"name": "mine"}
    )  # a better one takes its place, and can be taken back as well
    assert surefind("use", "--undo", kb=home.folder).code == 0
    assert (home.folder / "surefind.toml").read_text() == before


def test_the_learning_rate_rises_during_the_warmup_and_then_falls() -> None:
    assert [round(_share(step, 10, 4), 2) for step in range(10)] == [0.25, 0.5, 0.75, 1, 1, 0.83, 0.67, 0.5, 0.33, 0.17]
    assert _share(0, 20) == 0.5  # a tenth of 20 steps
    assert _share(9, 10, 500) == 1.0  # a warm-up longer than the training
