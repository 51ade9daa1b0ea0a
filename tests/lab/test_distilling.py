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

TRAINING = Path(__file__).parents[2] / "training"
sys.path.insert(0, str(TRAINING))

from safetensors.torch import save_file  # noqa: E402

from alike import Judges  # noqa: E402
from collection import Collection  # noqa: E402
from distill import joined, nearest  # noqa: E402
from flat import embed, load_encoder  # noqa: E402
from student_text import BLOCKS, batches_of, texts_of  # noqa: E402
from tokens import Tokens, texts_batch, tokens_of  # noqa: E402
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
    with lzma.open(file, "wb") as out:
        np.save(out, dice.integers(900, 1100, lengths.sum()).astype(np.uint16))
        for array in (lengths, np.arange(texts) % 3):
            np.save(out, array.astype(np.uint32))


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
    for name, layers in {"gte": 12, "e5": 12, "student": 6, "minilm": 6}.items():
        save_random(tmp_path / name, layers)
    (tmp_path / "text").mkdir()
    save_text(tmp_path / "text" / "questions.xz", 160, 30)
    save_text(tmp_path / "text" / "colloquial.xz", 60, 30)
    save_text(tmp_path / "text" / "passages.xz", 240, 300)
    (tmp_path / "collections").mkdir()
    save_collection(tmp_path / "collections" / "policyqa.npz")
    save_collection(tmp_path / "collections" / "sample.npz")
    return tmp_path


def run(script: str, *arguments: object) -> str:
    command = [sys.executable, str(TRAINING / script), *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_a_student_is_trained_written_and_compared(work: Path) -> None:
    before = load_encoder(work / "student", "cpu").state_dict()
    printed = run("distill.py", work, "--tiny", "--teachers", "gte", "minilm", "--out", work / "out")
    student = torch.load(work / "ensemble.pt")
    assert student.keys() == before.keys()
    assert any((student[key] != before[key]).any() for key in student)
    assert "2 steps" in printed
    systems = ("minilm", "gte+minilm", "ensemble.pt")
    printed = run("compare_floats.py", work, *systems, "--out", work / "out")
    assert {file.name for file in (work / "out").iterdir()} == {"ensemble.00", "report.txt", "scores.npz"}
    assert (work / "out" / "report.txt").read_text(encoding="utf-8") in printed
    for name in systems:
        assert f"\n{name:28s} " in printed


def test_the_flat_encoder_gives_the_vectors_of_the_padded_one(work: Path) -> None:
    padded = Transformer(Shape.read(work / "gte" / "config.json")).eval()
    flat = load_encoder(work / "gte", "cpu")
    padded.load_state_dict(flat.state_dict())
    lengths = np.array([3, 250, 17, 40, 17])
    tokens = tokens_of(np.random.default_rng(1).integers(900, 1100, lengths.sum()), lengths, "cpu")
    with torch.no_grad():
        wanted = padded(*texts_batch(tokens, torch.arange(5), "bert"))
    assert torch.allclose(embed(flat, tokens, together=100).float(), wanted, atol=1e-3)
    before = torch.tensor([950, 951])
    longer = tokens_of(np.concatenate([before.numpy(), tokens.flat[:3].numpy()]), np.array([5]), "cpu")
    some = Tokens(tokens.flat, tokens.start[:1], tokens.length[:1])
    assert torch.allclose(embed(flat, some, before), embed(flat, longer), atol=1e-3)


def test_inner_products_of_joined_vectors_are_summed_similarities() -> None:
    dice = torch.Generator().manual_seed(1)
    kinds = ("questions", "passages")
    vectors = {
        kind: {name: torch.nn.functional.normalize(torch.randn(300, 6, generator=dice), dim=1) for name in "ab"}
        for kind in kinds
    }
    vectors["passages"]["b"] *= 0.1  # its similarities are ten times smaller, and count as much
    sides = joined(vectors, np.random.default_rng(1))
    found = (sides["questions"] @ sides["passages"].T).float()
    parts = [vectors["questions"][name] @ vectors["passages"][name].T for name in "ab"]
    wanted = sum(part / part.std() for part in parts)
    assert torch.corrcoef(torch.stack([found.flatten(), wanted.flatten()]))[0, 1] > 0.99
    near = nearest(sides["questions"], sides["passages"], np.random.default_rng(1))
    assert torch.allclose(found.gather(1, near[:, :1].long())[:, 0], found.amax(1), atol=1e-2)


def test_the_texts_of_a_block_have_one_length_and_passages_are_near_their_questions(work: Path) -> None:
    dice = np.random.default_rng(1)
    texts = texts_of(work, "cpu", dice, 0.002)
    count = len(texts["passages"].tokens)
    near = {kind: (torch.arange(len(texts[kind].tokens))[:, None] + torch.arange(3)) % count for kind in BLOCKS}
    drawn = batches_of(texts, near, dice)()
    blocks = iter(zip(np.cumsum([0, *(r * n for r, n in drawn.batch.blocks)]), drawn.batch.blocks, strict=False))
    for kind, numbers in drawn.questions:
        start, (rows, length) = next(blocks)
        ids = drawn.batch.ids[start : start + rows * length].view(rows, length)
        assert (ids[:, 0] == 101).all()
        assert (ids[:, -1] == 102).all()
        for row, number in zip(ids, numbers.tolist(), strict=True):
            first = int(texts[kind].tokens.start[number])
            assert torch.equal(row[1:-1], texts[kind].tokens.flat[first : first + length - 2].long())
    passages = texts["passages"].tokens
    at = 0
    for start, (rows, length) in blocks:
        for row in drawn.batch.ids[start : start + rows * length].view(rows, length):
            first = int(passages.start[drawn.passages[at]])
            assert torch.equal(row[1:-1], passages.flat[first : first + length - 2].long())
            at += 1
    assert at == len(drawn.passages)
    wanted = {int(p) for kind, numbers in drawn.questions for p in near[kind][numbers].flatten()}
    assert set(drawn.passages.tolist()) <= wanted


def test_a_hybrid_scores_candidates_of_both_by_both(work: Path) -> None:
    collection = Collection.read(work / "collections" / "sample.npz", "cpu")
    wrong = torch.zeros(6, 12)
    wrong[torch.arange(6), (torch.arange(6) * 2 + 5) % 12] = 1.0
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


def test_what_judges_is_not_learnt_from(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    document = {
        "_id": "1",
        "text": "The pump (P-7) stands in hall 3. It must be checked every week by two people, at ten.",
    }
    (tmp_path / "one" / "corpus.jsonl").write_text(json.dumps(document) + "\n", encoding="utf-8")
    (tmp_path / "one" / "queries.jsonl").write_text('{"_id": "1", "text": "Who checks pump P-7?"}\n', encoding="utf-8")
    judges = Judges.of(tmp_path)
    assert judges.has("Hall 3\nThe pump P-7 stands in hall 3. It must be checked every week by two people, at ten.")
    assert not judges.has("The pump stands in hall 3.")
    assert judges.asks("who checks pump p 7")
    assert not judges.asks("who checks pump p 8")
