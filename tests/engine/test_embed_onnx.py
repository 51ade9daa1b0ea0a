"""`onnx(path=…)`: the bundled folder, and exports as other tools lay them out."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import surefind_models
from tokenizers import Tokenizer, models, pre_tokenizers

from surefind.base import spec
from surefind.base.errors import MissingPartError, SpecError, SurefindError
from surefind.engine.embed.onnx import Onnx
from surefind.testing import check_embedder, check_stage

onnx = pytest.importorskip("onnx")
BUNDLED = surefind_models.path("minilm")
WORDS = ["[UNK]", "cash", "report", "the", "teller"]
TABLE = np.random.default_rng(0).normal(size=(len(WORDS), 6)).astype(np.float32)
Export = Callable[..., Path]


@pytest.fixture
def export(tmp_path: Path) -> Export:
    """A folder with a graph that looks up a vector for each token, and a tokenizer of whole words."""

    def make(
        output: str = "last_hidden_state",
        inputs: tuple[str, ...] = ("input_ids", "attention_mask"),
        place: str = "model.onnx",
        whole: bool = False,
        kind: int = onnx.TensorProto.INT64,
    ) -> Path:
        folder = tmp_path / "tiny"
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        onnx.save(graph(output, inputs, whole, kind), folder / place)
        tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        tokenizer.enable_padding(length=32)  # exports often ask for it
        tokenizer.save(str(folder / "tokenizer.json"))
        return folder

    return make


def graph(output: str, inputs: tuple[str, ...], whole: bool, kind: int) -> Any:
    helper = onnx.helper
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["tokens"])]
    if whole:
        nodes.append(helper.make_node("ReduceMax", ["tokens"], [output], axes=[1], keepdims=0))
    else:
        nodes.append(helper.make_node("Identity", ["tokens"], [output]))
    shape = ["batch", 6] if whole else ["batch", "length", 6]
    made = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(name, kind, ["batch", "length"]) for name in inputs],
        [helper.make_tensor_value_info(output, onnx.TensorProto.FLOAT, shape)],
        [onnx.numpy_helper.from_array(TABLE, "table")],
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def unit(vector: Any) -> Any:
    return vector / np.linalg.norm(vector)


def test_contract_of_the_bundled_folder() -> None:
    stage = Onnx(str(BUNDLED))
    check_embedder(stage)
    check_stage(stage)


def test_bundled_folder_is_minilm_and_shares_its_cache() -> None:
    minilm = spec.make("embed", "minilm")
    stage = Onnx(str(BUNDLED))
    assert stage.fingerprint == minilm.fingerprint
    assert np.array_equal(stage.embed(["cash report"]), minilm.embed(["cash report"]))
    assert Onnx(str(BUNDLED), max_tokens=64).fingerprint != minilm.fingerprint


def test_bundled_graph_without_our_config_gives_the_same(tmp_path: Path) -> None:
    for name in ("model.onnx", "tokenizer.json"):
        shutil.copy(BUNDLED / name, tmp_path)
    stage = Onnx(str(tmp_path))
    assert stage.dimension == 384
    assert np.allclose(stage.embed(["cash report"]), Onnx(str(BUNDLED)).embed(["cash report"]), atol=1e-6)


@pytest.mark.parametrize("place", ["model.onnx", "onnx/model.onnx"])
@pytest.mark.parametrize("output", ["last_hidden_state", "token_embeddings", "output_0"])
def test_tokens_are_averaged(export: Export, output: str, place: str) -> None:
    stage = Onnx(str(export(output, place=place)))
    check_embedder(stage, ["cash report", "the teller", "cash", "unknown words"])
    assert np.allclose(stage.embed(["the cash report"])[0], unit(TABLE[[3, 1, 2]].mean(axis=0)), atol=1e-6)


@pytest.mark.parametrize("output", ["sentence_embedding", "embedding", "pooled"])
def test_whole_vector_is_taken_as_it_is(export: Export, output: str) -> None:
    stage = Onnx(str(export(output, whole=True)))
    assert np.allclose(stage.embed(["the cash report"])[0], unit(TABLE[[3, 1, 2]].max(axis=0)), atol=1e-6)


@pytest.mark.parametrize("inputs", [("input_ids",), ("input_ids", "attention_mask", "token_type_ids", "position_ids")])
def test_graph_gets_the_inputs_it_has(export: Export, inputs: tuple[str, ...]) -> None:
    assert Onnx(str(export(inputs=inputs))).embed(["cash"]).shape == (1, 6)


def test_graph_of_32_bit_tokens(export: Export) -> None:
    assert Onnx(str(export(kind=onnx.TensorProto.INT32))).embed(["cash"]).shape == (1, 6)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, TABLE[3]),
        ({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}, TABLE[[3, 1, 2]].mean(axis=0)),
        ({"pooling_mode_max_tokens": True}, TABLE[[3, 1, 2]].max(axis=0)),
        ({"pooling_mode_lasttoken": True}, TABLE[2]),
        ({"pooling_mode": "cls"}, TABLE[3]),
        ({}, TABLE[[3, 1, 2]].mean(axis=0)),
    ],
)
def test_pooling_is_read_from_its_config(export: Export, config: dict[str, Any], expected: Any) -> None:
    folder = export()
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(config))
    (folder / "config.json").write_text('{"hidden_size": 6}')
    assert np.allclose(Onnx(str(folder)).embed(["the cash report"])[0], unit(expected), atol=1e-6)


@pytest.mark.parametrize(
    "config", [{"pooling_mode_weightedmean_tokens": True}, {"pooling_mode_cls_token": 1, "pooling_mode_max_tokens": 1}]
)
def test_unknown_pooling_is_refused(export: Export, config: dict[str, Any]) -> None:
    folder = export()
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(config))
    with pytest.raises(SurefindError, match="known are cls, lasttoken, max, mean"):
        Onnx(str(folder)).embed(["cash"])


def test_step_that_the_graph_leaves_out_is_named(export: Export) -> None:
    folder = export()
    steps = ["Transformer", "Pooling", "Dense"]
    (folder / "modules.json").write_text(json.dumps([{"type": f"sentence_transformers.models.{s}"} for s in steps]))
    with pytest.raises(SurefindError, match=r"has a further step \(Dense\) that its ONNX graph leaves out"):
        Onnx(str(folder)).embed(["cash"])


def test_max_tokens_cuts(export: Export) -> None:
    folder = str(export())
    cut = Onnx(folder, max_tokens=1)
    assert np.allclose(cut.embed(["cash report"]), cut.embed(["cash"]), atol=1e-6)
    assert cut.fingerprint != Onnx(folder).fingerprint


def test_fingerprint_follows_the_files(export: Export, tmp_path: Path) -> None:
    first = export()
    prints = {Onnx(str(first)).fingerprint}
    for name, extra in (("model.onnx_data", b"weights"), ("tokenizer.json", b"\n")):
        other = tmp_path / name / "tiny"
        shutil.copytree(first, other)
        with (other / name).open("ab") as file:
            file.write(extra)
        prints.add(Onnx(str(other)).fingerprint)
    shutil.copytree(first, tmp_path / "copy" / "tiny")
    prints.add(Onnx(str(tmp_path / "copy" / "tiny")).fingerprint)
    assert len(prints) == 3


def test_strange_input_is_named(export: Export) -> None:
    with pytest.raises(SurefindError, match="needs the inputs pixel_values; a sentence encoder has only input_ids"):
        Onnx(str(export(inputs=("input_ids", "pixel_values")))).embed(["cash"])


def test_damaged_graph_is_named(export: Export) -> None:
    folder = export()
    (folder / "model.onnx").write_bytes(b"garbage")
    with pytest.raises(SurefindError, match=r"model\.onnx cannot be loaded"):
        Onnx(str(folder)).embed(["cash"])


def test_missing_files_are_named(export: Export, tmp_path: Path) -> None:
    with pytest.raises(MissingPartError, match=r"model\.onnx or onnx/model\.onnx is missing"):
        Onnx(str(tmp_path / "nothing")).embed(["cash"])
    folder = export()
    (folder / "tokenizer.json").unlink()
    with pytest.raises(MissingPartError, match=r"tokenizer\.json is missing"):
        Onnx(str(folder)).embed(["cash"])


def test_path_must_be_given() -> None:
    with pytest.raises(SpecError, match="onnx needs a folder"):
        spec.make("embed", "onnx").embed(["cash"])
    with pytest.raises(SpecError, match="max_tokens must be above 0"):
        spec.make("embed", "onnx(path=x, max_tokens=0)")
