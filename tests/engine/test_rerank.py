"""Cross-encoder and conditional reranking, on a real ONNX graph whose scores can be worked out by hand."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from helpers import Home, ask
from rerank_helpers import Shelf, tiny_cross_encoder, tokenizer
from surefind.base import spec
from surefind.base.errors import CorruptIndexError, MissingPartError, SpecError, SurefindError
from surefind.base.running import collecting
from surefind.base.types import Chunk, Query
from surefind.engine.confidence.signals import confidence
from surefind.engine.inference import cross_encoder as rerank_onnx
from surefind.engine.inference import encoder as embed_onnx
from surefind.engine.inference.cross_encoder import PairTokenizer, best_window
from surefind.engine.rerank._rescore import reordered
from surefind.engine.rerank.conditional import Conditional
from surefind.engine.rerank.cross_encoder import CrossEncoder
from surefind.engine.services import LocalServices
from surefind.testing import check_rankings, check_reranker, check_stage, rankings_of

TEXTS = ["the vault", "two officer", "cash report deadline", "teller cash cash report", "alpha", "beta cash", "gamma"]
ROWS = [([5, 0, 3, 2], [9.0, 3.0, 2.0, 1.0]), ([4], [1.0]), ([], []), ([1, 2, 6], [3.0, 3.0, 3.0])]
QUERIES = [Query("cash report"), Query("vault"), Query("nothing"), Query("the deadline of a report")]


@pytest.fixture
def model(tmp_path: Path) -> str:
    return str(tiny_cross_encoder(tmp_path / "tiny"))


# ---------------------------------------------------------------- the stage


def test_contract(model: str) -> None:
    for stage in (
        CrossEncoder(model),
        CrossEncoder(model, top=2, keep=1, blend=1.0),
        CrossEncoder(model, max_ms=1e6),
        CrossEncoder(model, second=0.7),
    ):
        check_reranker(stage, QUERIES, rankings_of(ROWS), Shelf(*TEXTS))
        check_stage(stage)


def test_blend_is_half_of_each_by_min_max(model: str) -> None:
    # "cash report" shares 1 word with 5, 0 with 0, 3 with 3 (cash twice), 2 with 2: logits 1, 0, 3, 2.
    found = CrossEncoder(model).rerank(QUERIES[:1], rankings_of(ROWS[:1]), Shelf(*TEXTS), 10, LocalServices())
    ordinals, scores = found.row(0)
    expected = {
        5: 0.5 * (9 - 1) / 8 + 0.5 * 1 / 3,
        0: 0.5 * (3 - 1) / 8 + 0.5 * 0 / 3,
        3: 0.5 * (2 - 1) / 8 + 0.5 * 3 / 3,
        2: 0.5 * (1 - 1) / 8 + 0.5 * 2 / 3,
    }
    assert ordinals.tolist() == sorted(expected, key=lambda o: -expected[o]) == [5, 3, 2, 0]
    assert scores.tolist() == pytest.approx([expected[o] for o in ordinals.tolist()])


def test_spread_keeps_small_differences_small(model: str) -> None:
    """Logits 1, 0, 3, 2, where they usually lie 6 apart: they count half."""
    found = CrossEncoder(model, spread=6.0).rerank(
        QUERIES[:1], rankings_of(ROWS[:1]), Shelf(*TEXTS), 10, LocalServices()
    )
    expected = {5: 0.5 * 8 / 8 + 0.5 * 1 / 6, 0: 0.5 * 2 / 8, 3: 0.5 * 1 / 8 + 0.5 * 3 / 6, 2: 0.5 * 2 / 6}
    assert dict(zip(*map(list, found.row(0)), strict=True)) == pytest.approx(expected)


def test_spread_stands_in_the_config_of_a_model(tmp_path: Path) -> None:
    stages = []
    for spread in (0.0, 6.0):
        folder = tiny_cross_encoder(tmp_path / f"{spread:g}" / "ours", ours=True)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "spread": spread}))
        stages.append(CrossEncoder(str(folder)))
    assert stages[0].stamp(LocalServices()) != stages[1].stamp(LocalServices())
    rows = [s.rerank(QUERIES[:1], rankings_of(ROWS[:1]), Shelf(*TEXTS), 10, LocalServices()).row(0) for s in stages]
    assert float(rows[0][1][0]) == pytest.approx(0.5 + 0.5 / 3)
    assert float(rows[1][1][0]) == pytest.approx(0.5 + 0.5 / 6)


@pytest.mark.parametrize(("blend", "order"), [(0.0, [5, 0, 3, 2]), (1.0, [3, 2, 5, 0])])
def test_blend_of_nothing_and_of_everything(model: str, blend: float, order: list[int]) -> None:
    stage = CrossEncoder(model, blend=blend)
    found = stage.rerank(QUERIES[:1], rankings_of(ROWS[:1]), Shelf(*TEXTS), 10, LocalServices())
    assert found.row(0)[0].tolist() == order


def test_second_reading_finds_what_answers_together_with_the_first_passage(model: str) -> None:
    # "deadline" is only in 2. With "cash report deadline" beside the question, 5 ("beta cash") shares a word with it.
    row = rankings_of([([0, 2, 6, 5], [9.0, 8.9, 8.8, 8.7])])

    def order(**options: float) -> list[int]:
        stage = CrossEncoder(model, blend=0.9, **options)
        return list(stage.rerank([Query("deadline")], row, Shelf(*TEXTS), 10, LocalServices()).row(0)[0])

    assert order() == [2, 0, 6, 5]
    assert order(second=1.0) == order(second=0.5) == [2, 5, 0, 6]


def test_second_reading_keeps_the_best_passage_first(model: str) -> None:
    # Alone, 2 ("cash report deadline") is the best; with 2 beside the question, 3 shares more words with it.
    row = rankings_of([([2, 3], [2.0, 1.0])])
    found = CrossEncoder(model, second=1.0).rerank([Query("deadline")], row, Shelf(*TEXTS), 10, LocalServices())
    assert found.row(0)[0].tolist() == [2, 3]
    check_rankings(found, 1, 10, 10)


def test_beyond_top_and_beyond_keep_stand_below_as_they_came(model: str) -> None:
    stage = CrossEncoder(model, top=3, keep=1, blend=1.0)
    found = stage.rerank(QUERIES[:1], rankings_of(ROWS[:1]), Shelf(*TEXTS), 10, LocalServices())
    assert found.row(0)[0].tolist() == [3, 5, 0, 2]
    assert found.row(0)[1].tolist() == [1.0, -1.0, -2.0, -3.0]


def test_title_is_read_beside_the_text(model: str) -> None:
    plain, titled = Shelf("alpha", "beta"), Shelf("alpha", "beta")
    titled.chunks[1] = Chunk("1.md", 0, 4, "beta", context="cash report")
    given = rankings_of([([0, 1], [2.0, 1.0])])
    stage = CrossEncoder(model, blend=1.0)
    assert stage.rerank(QUERIES[:1], given, plain, 2, LocalServices()).row(0)[0].tolist() == [0, 1]
    assert stage.rerank(QUERIES[:1], given, titled, 2, LocalServices()).row(0)[0].tolist() == [1, 0]


def test_headings_stand_in_where_nothing_was_enriched(model: str) -> None:
    shelf = Shelf("alpha", "beta")
    shelf.chunks[1] = Chunk("1.md", 0, 4, "beta", headings=("cash", "report"))
    given = rankings_of([([0, 1], [2.0, 1.0])])
    found = CrossEncoder(model, blend=1.0).rerank(QUERIES[:1], given, shelf, 2, LocalServices())
    assert found.row(0)[0].tolist() == [1, 0]


def test_what_answers_far_down_in_a_long_passage_is_seen(model: str) -> None:
    shelf = Shelf("filler " * 2000 + "cash report " + "filler " * 2000, "cash", "filler " * 4000)
    given = rankings_of([([2, 1, 0], [3.0, 2.0, 1.0])])
    found = CrossEncoder(model, blend=1.0).rerank(QUERIES[:1], given, shelf, 3, LocalServices())
    assert found.row(0)[0].tolist() == [0, 1, 2]


def test_time_limit_reads_what_fits_and_says_so(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = rerank_onnx.OnnxCrossEncoder._run

    def run(self: Any, pair: Any) -> float:
        time.sleep(0.02)
        return slow(self, pair)

    monkeypatch.setattr(rerank_onnx.OnnxCrossEncoder, "_run", run)
    monkeypatch.setattr(rerank_onnx, "usable_cores", lambda: 1)
    shelf, many = Shelf(*(["alpha"] * 39), "cash report"), ([*range(40)], [float(40 - i) for i in range(40)])
    stage = CrossEncoder(model, top=40, keep=40, max_ms=100)
    with collecting() as collected:
        found = stage.rerank(QUERIES[:1], rankings_of([many]), shelf, 40, LocalServices())
    read = int((found.row(0)[1] >= 0).sum())
    assert 1 <= read < 40
    assert collected.text == f"read {read} of 40 passages in 100 ms; the others keep their places"
    assert found.row(0)[0].tolist()[read:] == list(range(read, 40))
    check_rankings(found, 1, 40, 40)


def test_time_that_is_over_at_once_still_reads_one(model: str) -> None:
    found = CrossEncoder(model, max_ms=1e-6).rerank(
        QUERIES[:1], rankings_of(ROWS[:1]), Shelf(*TEXTS), 4, LocalServices()
    )
    assert found.row(0)[0].tolist() == [5, 0, 3, 2]


# ---------------------------------------------------------------- scores that were computed once


def test_a_pair_is_scored_once_whatever_the_blend(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []
    run = rerank_onnx.OnnxCrossEncoder._run
    monkeypatch.setattr(rerank_onnx.OnnxCrossEncoder, "_run", lambda self, pair: runs.append(1) or run(self, pair))
    services = LocalServices(tmp_path / "cache")
    given, shelf = rankings_of(ROWS), Shelf(*TEXTS)
    without = [CrossEncoder(model, blend=b).rerank(QUERIES, given, shelf, 10, LocalServices()) for b in (0.3, 0.7)]
    runs.clear()
    within = [CrossEncoder(model, blend=b).rerank(QUERIES, given, shelf, 10, services) for b in (0.3, 0.7)]
    assert len(runs) == 8  # 4 + 1 + 0 + 3 pairs
    for a, b in zip(without, within, strict=True):
        assert np.array_equal(a.ids, b.ids) and np.array_equal(a.scores, b.scores)
    services.close()


def test_a_search_neither_reads_nor_writes_the_cache(model: str, tmp_path: Path) -> None:
    services = LocalServices(tmp_path / "cache")
    CrossEncoder(model).rerank(QUERIES[:1], rankings_of(ROWS[:1]), Shelf(*TEXTS), 10, services)
    assert not (tmp_path / "cache").exists()


def test_other_weights_are_another_model(tmp_path: Path) -> None:
    a = tiny_cross_encoder(tmp_path / "a" / "tiny")
    b = tiny_cross_encoder(tmp_path / "b" / "tiny", output="scores")
    stamps = [CrossEncoder(str(folder)).stamp(LocalServices()) for folder in (a, b)]
    assert stamps[0] != stamps[1]
    assert CrossEncoder(str(a), max_tokens=32).stamp(LocalServices()) != stamps[0]


# ---------------------------------------------------------------- folders


def test_folder_of_ours_is_checked(tmp_path: Path) -> None:
    folder = tiny_cross_encoder(tmp_path / "ours", ours=True)
    given, shelf = rankings_of(ROWS[:1]), Shelf(*TEXTS)
    assert CrossEncoder(str(folder)).rerank(QUERIES[:1], given, shelf, 4, LocalServices()).row(0)[0].tolist()[0] == 5
    damaged = tiny_cross_encoder(tmp_path / "damaged", ours=True)
    config = json.loads((damaged / "config.json").read_text())
    config["sha256"]["model.onnx"] = "0" * 64
    (damaged / "config.json").write_text(json.dumps(config))
    with pytest.raises(CorruptIndexError, match="damaged"):
        CrossEncoder(str(damaged)).rerank(QUERIES[:1], given, shelf, 4, LocalServices())


def test_export_with_the_graph_in_a_folder_of_its_own(tmp_path: Path) -> None:
    folder = tiny_cross_encoder(tmp_path / "hub", place="onnx/model.onnx")
    check_reranker(CrossEncoder(str(folder)), QUERIES, rankings_of(ROWS), Shelf(*TEXTS))


def test_model_of_the_knowledge_base_is_found_by_name(tmp_path: Path) -> None:
    tiny_cross_encoder(tmp_path / "models" / "mine")
    services = LocalServices(models_folder=tmp_path / "models")
    found = CrossEncoder("mine").rerank(QUERIES[:1], rankings_of(ROWS[:1]), Shelf(*TEXTS), 4, services)
    assert found.row(0)[0].tolist()[0] == 5


@each(
    ("shape", "words"),
    [
        ({"per_label": 3}, "gives 3 numbers for a passage"),
        ({"inputs": ("input_ids", "attention_mask", "token_type_ids", "pixels")}, "needs the inputs pixels"),
    ],
)
def test_graph_that_is_no_reranker_is_refused(tmp_path: Path, shape: dict[str, Any], words: str) -> None:
    folder = tiny_cross_encoder(tmp_path / "other", **shape)
    with pytest.raises(SurefindError, match=words):
        CrossEncoder(str(folder)).rerank(QUERIES[:1], rankings_of(ROWS[:1]), Shelf(*TEXTS), 4, LocalServices())


def test_missing_folder_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(MissingPartError, match="no cross-encoder 'nowhere'"):
        CrossEncoder("nowhere").rerank(QUERIES[:1], rankings_of(ROWS[:1]), Shelf(*TEXTS), 4, LocalServices())


def test_folder_without_a_graph_needs_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from surefind.engine.rerank import cross_encoder

    monkeypatch.setattr(cross_encoder, "find_spec", lambda name: None)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(MissingPartError, match=r"surefind\[sentence-transformers\]"):
        CrossEncoder(str(tmp_path)).rerank(QUERIES[:1], rankings_of(ROWS[:1]), Shelf(*TEXTS), 4, LocalServices())


@each(
    ("text", "words"),
    [
        ("cross_encoder(top=0)", "top must be above 0"),
        ("cross_encoder(top=5, keep=6)", "keep must be from 1 to top"),
        ("cross_encoder(blend=1.5)", "blend must be from 0 to 1"),
        ("cross_encoder(max_ms=0)", "max_ms must be above 0"),
        ("cross_encoder(second=2)", "second must be from 0 to 1"),
        ("cross_encoder(second=0.7, max_ms=100)", "second cannot be used with max_ms"),
        ("cross_encoder(spread=-1)", "spread must not be negative"),
        ("cross_encoder(max_tokens=3)", "max_tokens must be"),
        ('cross_encoder(model="")', "model must be named"),
    ],
)
def test_bad_parameters(text: str, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        spec.make("rerank", text)


def test_sessions_are_shared_by_stages_of_one_model(model: str) -> None:
    folder = Path(model)
    opened = embed_onnx.open_session(folder / "model.onnx", 1)
    for top in (1, 2, 3):
        stage = CrossEncoder(model, top=top, keep=1)
        stage.rerank(QUERIES[:1], rankings_of(ROWS[:1]), Shelf(*TEXTS), 4, LocalServices())
    assert embed_onnx.open_session(folder / "model.onnx", 1) is opened


def test_model_trained_again_under_its_name_is_read_again(tmp_path: Path) -> None:
    stage, place = CrossEncoder(str(tmp_path / "mine")), tmp_path / "mine"
    tiny_cross_encoder(place)
    before = stage.stamp(LocalServices()), embed_onnx.open_session(place / "model.onnx", 1)
    tiny_cross_encoder(tmp_path / "other", output="scores").joinpath("model.onnx").replace(place / "model.onnx")
    assert stage.stamp(LocalServices()) != before[0]
    assert embed_onnx.open_session(place / "model.onnx", 1) is not before[1]


# ---------------------------------------------------------------- windows


def words_of(encoding: Any) -> list[str]:
    return list(encoding.tokens)


def test_a_pair_is_laid_out_as_the_model_learnt_it(tmp_path: Path) -> None:
    tokenizer().save(str(tmp_path / "tokenizer.json"))
    pairs = PairTokenizer(tmp_path / "tokenizer.json", 16)
    pair = pairs.pair(pairs.query("cash report"), "vault", "the teller")
    assert words_of(pair) == ["[CLS]", "cash", "report", "[SEP]", "vault", "the", "teller", "[SEP]"]
    assert pair.type_ids == [0, 0, 0, 0, 1, 1, 1, 1]
    assert pair.attention_mask == [1] * 8


def test_words_on_every_line_do_not_choose_the_window() -> None:
    text = "cash filler filler filler " * 10 + "cash deadline filler filler " + "cash filler filler filler " * 10
    made = tokenizer()
    query = set(made.encode("cash cash deadline", add_special_tokens=False).ids)
    window = best_window(made.encode(text, add_special_tokens=False), query, 8)
    assert "deadline" in words_of(window)


@given(
    query=st.lists(st.sampled_from(["cash", "report", "zzz"]), max_size=40),
    title=st.lists(st.sampled_from(["vault", "teller"]), max_size=40),
    text=st.lists(st.sampled_from(["cash", "filler", "the", "yyy"]), max_size=120),
    room=st.integers(8, 64),
)
def test_a_pair_never_has_more_tokens_than_the_model_reads(
    tmp_path_factory: pytest.TempPathFactory, query: list[str], title: list[str], text: list[str], room: int
) -> None:
    folder = tmp_path_factory.getbasetemp() / "pairs"
    if not folder.exists():
        folder.mkdir()
        tokenizer().save(str(folder / "tokenizer.json"))
    pairs = PairTokenizer(folder / "tokenizer.json", room)
    pair = pairs.pair(pairs.query(" ".join(query)), " ".join(title), " ".join(text))
    assert len(pair.ids) <= room
    if len(query) + len(title) + len(text) + 3 <= room and len(query) <= (room - 3) // 2:
        third = (room - 3 - len(query)) // 3
        if len(title) <= third:
            assert len(pair.ids) == len(query) + len(title) + len(text) + 3


# ---------------------------------------------------------------- order


@given(
    rows=st.lists(
        st.lists(st.tuples(st.integers(0, 30), st.floats(-5, 5, width=32)), max_size=12, unique_by=lambda p: p[0]),
        min_size=1,
        max_size=4,
    ),
    data=st.data(),
    k=st.integers(1, 15),
)
def test_whatever_is_decided_the_rankings_are_well_formed(rows: Any, data: st.DataObject, k: int) -> None:
    sorted_rows = [sorted(row, key=lambda pair: (-pair[1], pair[0])) for row in rows]
    given_rows = rankings_of([([o for o, _ in row], [s for _, s in row]) for row in sorted_rows])
    decided = []
    for row in rows:
        chosen = data.draw(st.lists(st.sampled_from(row), unique=True, max_size=len(row)) if row else st.just([]))
        decided.append([(o, data.draw(st.floats(-3, 3, width=32))) for o, _ in chosen])
    found = reordered(given_rows, decided, k, "test")
    check_rankings(found, len(rows), k, 31)
    for i, row in enumerate(rows):
        assert len(found.row(i)[0]) == min(k, len(row))


# ---------------------------------------------------------------- conditional


def test_conditional_contract(model: str) -> None:
    for text in (f"conditional(stage=cross_encoder(model={json.dumps(model)}), below={tau})" for tau in (0, 2.5, 100)):
        stage = spec.make("rerank", text)
        check_reranker(stage, QUERIES, rankings_of(ROWS), Shelf(*TEXTS))
        check_stage(stage)


def test_only_unsure_queries_are_reranked(model: str) -> None:
    stage = Conditional(f"cross_encoder(model={json.dumps(model)}, blend=1)", "max", 5.0)
    with collecting() as collected:
        found = stage.rerank(QUERIES, rankings_of(ROWS), Shelf(*TEXTS), 10, LocalServices())
    assert found.row(0)[0].tolist() == [5, 0, 3, 2]  # its first score is 9
    assert found.row(3)[0].tolist() == [2, 1, 6]  # 3 is under 5: reranked by "deadline" and "report"
    assert collected.text == "max under 5 for 1 of 4 queries"  # the others found fewer than two


def test_trace_says_why_a_query_was_left_alone(model: str) -> None:
    stage = Conditional(f"cross_encoder(model={json.dumps(model)})", "margin", 0.5)
    with collecting() as collected:
        stage.rerank(QUERIES[:1], rankings_of(ROWS[:1]), Shelf(*TEXTS), 10, LocalServices())
    assert collected.text == "margin 0.750, not under 0.5"  # (9 - 3) / (9 - 1)


@each(
    ("scores", "when", "expected"),
    [
        ([0.9, 0.5], "max", 0.9),
        ([0.9, 0.5], "margin", 1.0),
        ([0.9, 0.8, 0.5], "margin", 0.25),
        ([1.0, 0.8, *([0.6] * 7), 0.5, 0.0], "margin", 0.4),  # against the tenth, not the last
        ([0.7, 0.7], "margin", 0.0),
        ([0.7], "max", float("inf")),
        ([], "margin", float("inf")),
    ],
)
def test_confidence(scores: list[float], when: str, expected: float) -> None:
    ranking = rankings_of([(list(range(len(scores))), scores)])
    assert confidence(ranking, [], when) == pytest.approx([expected])  # type: ignore[arg-type]


def test_equal_conditions_have_equal_specs() -> None:
    assert str(Conditional("cross_encoder(top=20)")) == str(Conditional("cross_encoder"))
    assert "stage=cross_encoder(model=small, top=20, keep=10, blend=0.5)" in str(Conditional())


def test_conditional_on_nothing_known_is_refused() -> None:
    with pytest.raises(SpecError, match="no reranker called 'oracle'"):
        spec.make("rerank", "conditional(stage=oracle)")


# ---------------------------------------------------------------- in a search


def test_search_shows_the_stage(model: str, tmp_path: Path) -> None:
    home = Home(tmp_path / "kb")
    for name, text in {"a": "cash cash cash cash", "b": "the report of cash and teller filler filler"}.items():
        home.write(f"docs/{name}.md", text)
    home.sync("docs")
    with home.open() as kb:
        result = ask(kb, "cash report", pipeline=f"bm25 >> cross_encoder(model={json.dumps(model)}, blend=1)")
    assert [hit.document for hit in result.hits] == ["a.md", "b.md"]
    assert set(result.hits[0].stages) == {"bm25", "cross_encoder"}
    assert result.hits[0].stages["cross_encoder"].score == 1.0
