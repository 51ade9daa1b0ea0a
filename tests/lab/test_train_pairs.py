"""What a model learns from: pairs without leaks, negatives of other documents, and putting a model to use."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cases import each
from exam_helpers import query
from helpers import Home
from surefind import Access
from surefind.base import spec
from surefind.base.errors import MissingPartError, SpecError
from surefind.base.types import Chunk, Document
from surefind.engine.search.pipeline import Pipeline
from surefind.lab.exam.model import Exam, Judgment
from surefind.lab.measure.ranks import ChunkSpans
from surefind.lab.train import job
from surefind.lab.train.job import TrainingJob
from surefind.lab.train.neural import train_model, with_encoder, with_reranker
from surefind.lab.train.pairs import Pair, PassageSet, filled, gather_pairs, mine, without_heading

BODY = "A currency transaction report is due within fifteen days of the transaction."
OTHER = "The vault is opened by two officers, who sign the log before and after."
TEXTS = {
    "sops/ctr.md": f"# CTR filing\n\n## Filing deadline rules\n\n{BODY}\n",
    "sops/vault.md": f"# Vault\n\n## Opening the vault\n\n{OTHER}\n",
    "faq/all.md": "# Questions\n\nSee [how to open the vault](../sops/vault.md#opening-the-vault) and "
    "[the CTR procedure](../sops/ctr.md), [outside](https://example.org/x.md), [x](../sops/ctr.md).\n",
}


def chunk(document: str, headings: tuple[str, ...], part: str) -> Chunk:
    start = TEXTS[document].index(part)
    return Chunk(document, start, start + len(part), part, headings, context=" > ".join(headings))


CHUNKS = [
    chunk("faq/all.md", ("Questions",), TEXTS["faq/all.md"]),
    chunk("sops/ctr.md", ("CTR filing", "Filing deadline rules"), f"## Filing deadline rules\n\n{BODY}"),
    chunk("sops/vault.md", ("Vault", "Opening the vault"), f"## Opening the vault\n\n{OTHER}"),
]
DOCUMENTS = {key: Document(key, text) for key, text in TEXTS.items()}
PLACES = ChunkSpans(
    np.array([list(TEXTS).index(c.document) for c in CHUNKS]),
    np.array([c.start for c in CHUNKS]),
    np.array([c.end for c in CHUNKS]),
    {key: i for i, key in enumerate(TEXTS)},
)
GOLD = TEXTS["sops/ctr.md"].index(BODY)
ASKED = query("t", "when is a CTR due?", Judgment("sops/ctr.md", GOLD, GOLD + len(BODY)))


def pairs(*sources: str, held: tuple[object, ...] = (), tuning: tuple[object, ...] = ()) -> list[Pair]:
    shelf = PassageSet(CHUNKS, held, PLACES)  # type: ignore[arg-type]
    return gather_pairs(sources, shelf, tuning, PLACES, DOCUMENTS)  # type: ignore[arg-type]


def test_question_of_the_tuning_half_stands_with_the_passage_on_its_gold() -> None:
    (pair,) = pairs("exam", tuning=(ASKED,))
    assert (pair.query, pair.document, pair.source) == (ASKED.text, "sops/ctr.md", "exam")
    assert pair.passage == f"CTR filing > Filing deadline rules\n{CHUNKS[1].text}"


def test_heading_is_not_in_the_passage_it_stands_for() -> None:
    found = {pair.query: pair.passage for pair in pairs("headings")}
    assert found == {"Filing deadline rules": BODY, "Opening the vault": OTHER}


@each("line", ["## Filing deadline rules", "Filing deadline rules", "**Filing deadline rules**"])
def test_heading_goes_in_any_of_its_forms(line: str) -> None:
    assert without_heading(f"{line}\n\n{BODY}", "Filing deadline rules") == BODY


def test_links_lead_to_the_section_they_name() -> None:
    found = [(pair.query, pair.document) for pair in pairs("links")]
    assert found == [("how to open the vault", "sops/vault.md"), ("the CTR procedure", "sops/ctr.md")]


def test_nothing_that_is_held_out_is_learnt() -> None:
    held = (query("h", "ctr deadline", Judgment("sops/ctr.md", GOLD, GOLD + len(BODY))),)
    assert {pair.document for pair in pairs("exam", "headings", "links", held=held, tuning=(ASKED,))} == {
        "sops/vault.md"
    }
    asked = (query("h", "Opening the VAULT?", Judgment("faq/all.md")),)
    assert "Opening the vault" not in {pair.query for pair in pairs("headings", held=asked)}


def test_same_question_is_learnt_once() -> None:
    twice = (ASKED, query("u", "When is a CTR due", *ASKED.judgments))
    assert len(pairs("exam", tuning=twice)) == 1


# ---------------------------------------------------------------- negatives


def test_negatives_come_from_other_documents(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write("docs/a.md", "# Cash\n\ncash report one\n\n# More\n\ncash report two")
    home.write("docs/b.md", "cash report of the teller")
    home.write("docs/c.md", "cash and report, once more")
    home.sync("docs")
    with home.open() as kb:
        view = kb.reader().view
        chunks = view.chunks(view.spans().ids.tolist(), Access.owner())
        pair = Pair("cash report", "", "cash report one", "a.md", "exam")
        found = mine(view, chunks, [pair], [spec.make("retrieve", "bm25")], 5, lambda *told: None)
        assert {chunks[o].document for o in found[0]} == {"b.md", "c.md"}
        full = filled([[]], [pair], chunks, 2)
        assert {chunks[o].document for o in full[0]} == {"b.md", "c.md"}


# ---------------------------------------------------------------- what is asked for


@each(
    ("given", "words"),
    [
        ({"sources": ("tea leaves",)}, "no source of pairs called 'tea leaves'"),
        ({"loss": "luck"}, "no loss 'luck'"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"batch": 1}, "batch must be at least 2"),
        ({"share": 0.0}, "share must be above 0"),
        ({"warmup": -1}, "warmup must not be negative"),
    ],
)
def test_bad_jobs(given: dict[str, object], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        TrainingJob("encoder", "mine", **given)  # type: ignore[arg-type]


def test_training_without_its_libraries_says_what_to_install(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "find_spec", lambda name: None if name == "torch" else object())
    with home.open() as kb, pytest.raises(MissingPartError, match=r"needs torch\. .* 'surefind\[train\]'"):
        train_model(kb, Exam("e", ()), TrainingJob("encoder", "mine"), Pipeline.parse("dense"), None)  # type: ignore[arg-type]


def test_of_two_encoders_the_trained_one_is_replaced() -> None:
    two = Pipeline.parse("bm25 + dense + dense(model=arctic) >> rrf")
    for instead, kept in (("minilm", "arctic"), ("arctic", "minilm"), ("another", "arctic")):
        made = with_encoder(two, Path("/models/mine"), instead)
        assert sorted(getattr(stage, "model", "").partition("(")[0] for stage in made.retrieve) == ["", kept, "onnx"]


def test_encoder_takes_the_place_of_the_dense_one() -> None:
    made = with_encoder(Pipeline.parse("bm25 + dense >> convex(alpha=0.5)"), Path("/models/mine"), "minilm")
    assert str(made.retrieve[1]) == "dense(model=onnx(path=/models/mine, max_tokens=256))"
    assert made.fuse == Pipeline.parse("bm25 + dense >> convex(alpha=0.5)").fuse


def test_reranker_stands_after_the_fusion() -> None:
    made = with_reranker(Pipeline.parse("bm25 + dense >> rrf >> cross_encoder"), "mine", 0.3)
    assert [str(stage) for stage in made.rerank] == ["cross_encoder(model=mine, top=20, keep=10, blend=0.3)"]
