"""Distilling an encoder with `training/`, end to end, with tiny networks: packed text in, weights and a report out."""

from __future__ import annotations

import json
import lzma
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

TRAINING = Path(__file__).parents[1] / "training"
sys.path.insert(0, str(TRAINING))

from safetensors.torch import save_file  # noqa: E402

from collection import Collection  # noqa: E402
from flat import embed, load_encoder  # noqa: E402
from student_text import batches_of, sentences  # noqa: E402
from tokens import texts_batch, tokens_of  # noqa: E402
from transformer import Shape, Transformer, upstream_state  # noqa: E402

CONFIG = {
    "hidden_size": 32,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "vocab_size": 1100,
    "max_position_embeddings": 512,
    "layer_norm_eps": 1e-12,
    "model_type": "bert",
}


def save_random(folder: Path, layers: int) -> None:
    """A network with random weights, in upstream's names."""
    torch.manual_seed(layers)
    width, inner = CONFIG["hidden_size"], CONFIG["intermediate_size"]
    shapes = {
        "embeddings.word_embeddings.weight": (CONFIG["vocab_size"], width),
        "embeddings.position_embeddings.weight": (512, width),
        "embeddings.token_type_embeddings.weight": (2, width),
        "embeddings.LayerNorm.weight": (width,),
        "embeddings.LayerNorm.bias": (width,),
    }
    for number in range(layers):
        products = {
            **{f"attention.self.{name}": (width, width) for name in ("query", "key", "value")},
            "attention.output.dense": (width, width),
            "intermediate.dense": (inner, width),
            "output.dense": (width, inner),
        }
        for name, shape in products.items():
            shapes[f"encoder.layer.{number}.{name}.weight"] = shape
            shapes[f"encoder.layer.{number}.{name}.bias"] = shape[:1]
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes[f"encoder.layer.{number}.{name}.weight"] = (width,)
            shapes[f"encoder.layer.{number}.{name}.bias"] = (width,)
    folder.mkdir(parents=True)
    weights = {name: torch.randn(shape) * 0.2 + name.endswith("LayerNorm.weight") for name, shape in shapes.items()}
    save_file(weights, folder / "part1.safetensors")
    config = {**CONFIG, "num_hidden_layers": layers}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    vocabulary = {(f"##{key}" if key % 5 == 0 else str(key)): key for key in range(CONFIG["vocab_size"])}
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocabulary}}), encoding="utf-8")


def save_text(file: Path, texts: int, longest: int) -> None:
    dice = np.random.default_rng(texts)
    lengths = dice.integers(1, longest, texts)
    ids = dice.integers(900, 1100, lengths.sum())
    with lzma.open(file, "wb") as out:
        for array in (ids, lengths, np.arange(texts) % 3):
            np.save(out, array.astype(np.uint16))


def save_collection(file: Path) -> None:
    """Six questions; question q asks for document q, whose passages are 2q and 2q+1."""
    dice = np.random.default_rng(3)
    ids = dice.integers(900, 1100, (12, 30))
    np.savez(
        file,
        passage_ids=ids.reshape(-1).astype(np.uint16),
        passage_lengths=np.full(12, 30, np.uint16),
        query_ids=ids[::2, :8].reshape(-1).astype(np.uint16),
        query_lengths=np.full(6, 8, np.uint16),
        document=np.repeat(np.arange(6), 2).astype(np.int32),
        gold=np.array([[q, q, 1] for q in range(6)], np.int32),
        bm25_ids=np.array([[2 * q, (2 * q + 3) % 12, 65535] for q in range(6)], np.uint16),
        bm25_scores=np.array([[65535, 30000, 0]] * 6, np.uint16),
        bm25_highest=np.full(6, 4.0, np.float32),
    )


@pytest.fixture
def work(tmp_path: Path) -> Path:
    save_random(tmp_path / "gte", 12)
    save_random(tmp_path / "minilm", 6)
    (tmp_path / "text").mkdir()
    save_text(tmp_path / "text" / "questions.xz", 60, 30)
    save_text(tmp_path / "text" / "colloquial.xz", 60, 30)
    save_text(tmp_path / "text" / "passages.xz", 80, 300)
    (tmp_path / "collections").mkdir()
    save_collection(tmp_path / "collections" / "policyqa.npz")
    save_collection(tmp_path / "collections" / "sample.npz")
    return tmp_path


def run(*arguments: object) -> str:
    command = [sys.executable, str(TRAINING / "distill.py"), *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_a_student_and_a_joint_encoder_are_trained_written_and_compared(work: Path) -> None:
    before = load_encoder(work / "gte", "cpu", (0, 2, 4, 6, 8, 10)).state_dict()
    run("student", work, "--tiny", "--out", work / "out")
    printed = run("joint", work, "--tiny", "--out", work / "out", "--start", work / "student.pt")
    student, joint = torch.load(work / "student.pt"), torch.load(work / "joint.pt")
    assert {key.split(".")[0] for key in student} == {"layers"}
    assert any((student[key] != before[key]).any() for key in student)
    assert joint["head.weight"].shape == (64, 32)
    assert {file.name for file in (work / "out").iterdir()} == {"student.00", "joint.00", "report.txt", "scores.npz"}
    assert (work / "out" / "report.txt").read_text(encoding="utf-8") in printed
    for name in ("gte", "student", "minilm + student", "joint", "joint alone"):
        assert f"\n{name:28s} " in printed


def test_the_flat_encoder_gives_the_vectors_of_the_padded_one(work: Path) -> None:
    padded = Transformer(Shape.read(work / "gte" / "config.json"), pools=False).eval()
    flat = load_encoder(work / "gte", "cpu")
    padded.load_state_dict(flat.state_dict())
    lengths = np.array([3, 250, 17, 40])
    tokens = tokens_of(np.random.default_rng(1).integers(900, 1100, lengths.sum()), lengths, "cpu")
    with torch.no_grad():
        wanted = padded.mean(*texts_batch(tokens, torch.arange(4), "bert"))
    assert torch.allclose(embed(flat, tokens, together=100), wanted, atol=1e-5)


def test_all_batches_have_the_same_shape_and_different_texts(work: Path) -> None:
    draw = batches_of(work, "cpu")
    first, second = draw(), draw()
    assert first.blocks == second.blocks
    assert (first.ids != second.ids).any()
    starts = np.cumsum([0, *(rows * length for rows, length in first.blocks)])[:-1]
    for start, (rows, length) in zip(starts, first.blocks, strict=True):
        ids, mask = (part[start : start + rows * length].view(rows, length) for part in (first.ids, first.mask))
        assert (ids[:, 0] == 101).all()
        assert (ids.gather(1, mask.sum(1, keepdim=True) - 1) == 102).all()
        assert (ids[~mask] == 0).all()


def test_sentences_end_with_a_full_stop_or_with_their_passage() -> None:
    ids = np.array([5, 6, 7, 8, 1012, 5, 5, 5, 5, 9, 9, 9, 9, 9])
    start, length, passage = sentences(ids, np.array([9, 5]))
    assert start.tolist() == [0, 5, 9]
    assert length.tolist() == [5, 4, 5]
    assert passage.tolist() == [0, 0, 1]


def test_a_hybrid_scores_candidates_of_both_by_both(work: Path) -> None:
    collection = Collection.read(work / "collections" / "sample.npz", "cpu")
    wrong = np.zeros((6, 12))
    wrong[np.arange(6), (np.arange(6) * 2 + 5) % 12] = 1.0
    found = collection.hybrid(wrong, (0.0, 0.4, 0.6))
    assert found[0.0].tolist() == [1.0] * 6
    assert found[0.4].tolist() == [1.0] * 6  # BM25's first has 0.6, the encoder's first 0.4
    assert np.allclose(found[0.6], 1 / np.log2(3))
    assert collection.dense(wrong).max() < 1


def test_weights_keep_their_names_and_layers(work: Path) -> None:
    from safetensors.torch import load_file

    whole = upstream_state(load_file(work / "gte" / "part1.safetensors"))
    some = load_encoder(work / "gte", "cpu", (0, 2, 4, 6, 8, 10)).state_dict()
    assert torch.equal(some["layers.3.up.weight"], whole["layers.6.up.weight"])
    assert torch.equal(some["words.weight"], whole["words.weight"])
