"""How sure a search is: its signals by written-out arithmetic, the built-in predictors, access, and what is saved."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from cases import each
from exam_helpers import FEW, surefind
from helpers import EXAMPLE, Home
from memory_view import MemoryView
from surefind import Access, KnowledgeBase
from surefind.base import spec
from surefind.base.errors import QueryError
from surefind.base.types import Chunk, Mask, Query, Wording
from surefind.engine.confidence.answering import FOLDER, builtin, place_of
from surefind.engine.confidence.predictor import fit
from surefind.engine.confidence.signals import NAMES, overlap, signals, without_meaning
from surefind.engine.search.confidence import signals_of
from surefind.engine.search.pipeline import Pipeline
from surefind.engine.services import LocalServices
from surefind.kb.integrity import CHECKS, DamageError
from surefind.lab.calibrate.report import diagram
from surefind.lab.calibrate.run import success_of
from surefind.lab.exam.model import Exam, ExamQuery, Judgment
from surefind.lab.exam.store import ExamStore
from surefind.lab.measure.thresholds import Bin
from surefind.testing import rankings_of

pytestmark = pytest.mark.usefixtures("remembered_models")

HYBRID = """
[search]
pipeline = "hybrid"
[pipelines.hybrid]
retrieve = ["bm25", "dense"]
fuse = "convex(alpha=0.5, missing=score)"
[pipelines.words]
retrieve = ["bm25"]
[pipelines.meaning]
retrieve = ["dense"]
"""
ISOLATED = '[pipelines.words]\nretrieve = ["bm25"]\n[search]\npipeline = "words"\n[access]\nisolation = "statistics"\n'

# ---------------------------------------------------------------- signals

LAST = rankings_of([([1, 2, 3], [1.0, 0.6, 0.5])])
WORDS = rankings_of([([2, 1, 3], [8.0, 4.0, 2.0])], "bm25", "sparse", 0.0)
MEANING = rankings_of([([1, 2], [0.6, 0.2])], "dense", "dense", -1.0)
KNOWN = [Wording(16.0, 3, 2, {"cash": 3.0, "report": 1.0}, "english")]


def test_signals_of_both_kinds_written_out() -> None:
    kind, found = signals(LAST, LAST, [WORDS, MEANING], [KNOWN, None], np.array([0.75]))
    # The first passages differ; from d = 2 on, the rankings share two.
    agreement = (0 / 1 + 2 / 2 + sum(2 / d for d in range(3, 11))) / 10
    expected = {
        "margin": (1.0 - 0.6) / (1.0 - 0.5),
        "overlap": 0.75,
        "words: here": 4.0 / 16.0,
        "words: lead": 1 - 4.0 / 8.0,
        "meaning: here": 0.6,
        "meaning: spread": (0.6 - 0.4) / 0.2,
        "agreement": agreement,
        "same": 1 / 2,
    }
    assert kind == "both" and dict(zip(NAMES[kind], found[0], strict=True)) == pytest.approx(expected, abs=1e-6)


@each(
    ("retrieved", "wordings", "kind"),
    [
        ([WORDS], [KNOWN], "words"),
        ([MEANING], [None], "meaning"),
        ([WORDS], [None], "other"),
        ([MEANING, WORDS], [None, KNOWN], "both"),
    ],
)
def test_kind_says_which_signals_there_are(retrieved: Any, wordings: Any, kind: Any) -> None:
    found, values = signals(LAST, LAST, retrieved, wordings, np.array([0.5]))
    assert found == kind and values.shape == (1, len(NAMES[found]))


def test_signals_are_finite_whatever_was_found() -> None:
    nothing = rankings_of([([], [])])
    for found in (nothing, rankings_of([([4], [0.0])])):
        dense = replace(found, signal="dense")
        _, values = signals(found, found, [found, dense], [[Wording(0.0, 0, 0, {}, "english")], None], np.array([0.0]))
        assert np.isfinite(values).all()


def test_overlap_is_the_weight_of_the_words_that_are_there() -> None:
    assert overlap("ignored", "A report on cattle", KNOWN[0]) == pytest.approx(1 / 4)
    assert overlap("cash report filing", "the reports of cash") == pytest.approx(2 / 3)  # without weights
    assert overlap("???", "anything") == 0


def test_signals_without_meaning_are_those_of_the_words() -> None:
    _, both = signals(LAST, LAST, [WORDS, MEANING], [KNOWN, None], np.array([0.5]))
    kind, left = without_meaning("both", both)
    _, words = signals(LAST, LAST, [WORDS], [KNOWN], np.array([0.5]))
    assert kind == "words" and left.tolist() == words.tolist()
    assert without_meaning("meaning", both[:, [0, 1, 4, 5]])[0] == "other"


# ---------------------------------------------------------------- the words of a query


def wording(query: str, *hidden: int) -> Wording:
    texts = ["cash report", "cash drawer", "wire"]
    chunks = [Chunk(f"{i}.md", 0, len(text), text) for i, text in enumerate(texts)]
    allow = Mask(np.array([i not in hidden for i in range(3)]))
    view = MemoryView(chunks, LocalServices(), allow)
    found = view.wording(spec.make("retrieve", "bm25"), [Query(query)], Access.owner())
    assert found is not None
    return found[0]


def test_best_score_written_out() -> None:
    once, twice, never = math.log(1 + 2.5 / 1.5), math.log(1 + 1.5 / 2.5), math.log(1 + 3.5 / 0.5)
    found = wording("the cash report of zzzxqy")
    assert found.best == pytest.approx(2.5 * (once + twice + never), rel=1e-6)
    assert (found.words, found.known) == (3, 2)  # stop words do not count


def test_word_of_withheld_passages_counts_as_unknown() -> None:
    assert wording("wire", 2) == wording("zzzxqy")._replace(weights={"wire": pytest.approx(math.log(8))})
    assert wording("cash", 0) == wording("cash")  # another passage has it


def test_retriever_that_weighs_no_words_says_so(home: Home) -> None:
    home.write("docs/a.md", "# A\n\nCash.\n")
    home.sync("docs")
    with home.open() as kb:
        assert kb.build("tfidf") and kb.reader().view.wording(
            spec.make("retrieve", "tfidf"), [Query("cash")], Access.owner()
        ) is None  # fmt: skip


# ---------------------------------------------------------------- the predictors


def test_fit_stays_with_the_earlier_weights_where_nothing_contradicts() -> None:
    rng = np.random.default_rng(1)
    values, success = rng.normal(size=(200, 2)), rng.random(200) < 0.5
    earlier = replace(fit(values, success), weights=np.array([3.0, -2.0]), intercept=1.0)
    few, many = (fit(np.tile(values[:n], (times, 1)), np.tile(success[:n], times), earlier=earlier)
                 for n, times in ((4, 1), (200, 20)))  # fmt: skip
    assert few.weights == pytest.approx([3.0, -2.0], abs=0.3) and few.intercept == pytest.approx(1.0, abs=0.6)
    assert np.abs(many.weights).max() < 0.5 > abs(many.intercept)  # 4,000 questions say that it is wrong
    nothing = fit(values[:0], success[:0], earlier=earlier)
    assert nothing.weights == pytest.approx(earlier.weights) and nothing.intercept == pytest.approx(1.0)


def test_few_questions_move_the_mean_before_the_weights() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(size=(20, 2))
    earlier = replace(fit(values, np.ones(20, np.bool_)), weights=np.array([1.0, 0.0]), intercept=-2.0)
    made = fit(values, np.arange(20) % 4 > 0, earlier=earlier)
    assert made(values).mean() > 0.3 > 0.2 > earlier(values).mean()
    assert np.abs(made.weights - earlier.weights).max() < 0.5


def test_question_that_counts_twice_is_two_questions() -> None:
    rng = np.random.default_rng(2)
    values, success = rng.normal(size=(60, 3)), rng.random(60) < 0.4
    twice = fit(np.concatenate([values, values[:10]]), np.concatenate([success, success[:10]]))
    counted = fit(values, success, counts=np.array([2.0] * 10 + [1.0] * 50))
    assert counted.weights == pytest.approx(twice.weights) and counted.intercept == pytest.approx(twice.intercept)


@each("kind", NAMES)
def test_built_in_predictors_are_surer_with_more_overlap(kind: Any) -> None:
    predictor = builtin().predictors[kind]
    assert len(predictor.weights) == len(NAMES[kind])
    low, high = (predictor.means.copy() for _ in range(2))
    low[1], high[1] = 0.0, 1.0
    assert 0 < predictor(low[None])[0] < predictor(high[None])[0] < 1


def test_built_in_predictor_leaves_out_the_cosines_of_another_encoder() -> None:
    _, values = signals(LAST, LAST, [WORDS, MEANING], [KNOWN, None], np.array([0.5]))
    _, words = signals(LAST, LAST, [WORDS], [KNOWN], np.array([0.5]))
    own, other = (builtin()("both", values, encoder)[0] for encoder in (builtin().encoder, "dense(model=other)@1"))
    assert other == builtin().predictors["words"](words)[0] != own


def test_built_in_predictor_knows_the_bundled_encoder() -> None:
    assert builtin().encoder == spec.make("retrieve", "dense").index_spec(LocalServices())


# ---------------------------------------------------------------- searching


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    """Ten documents of the sample, searched by words and by meaning."""
    home = Home(tmp_path_factory.mktemp("few"), HYBRID)
    for name in FEW:
        home.write(f"docs/{name}", (EXAMPLE / name).read_text(encoding="utf-8"))
    home.sync("docs")
    with home.open() as kb:
        yield kb


@each("pipeline", ["hybrid", "words", "meaning"])
def test_nonsense_is_no_answer(few: KnowledgeBase, pipeline: str) -> None:
    nonsense = few.search("zzzxqy", Access.owner(), pipeline=pipeline)
    good = few.search("how does a teller balance the cash drawer at the close of a shift", Access.owner(), 1, pipeline)
    assert nonsense.confidence is not None and good.confidence is not None
    assert nonsense.confidence < 0.2 < 0.4 < good.confidence and nonsense.sure == "probably not here"
    assert (nonsense.known_words, good.known_words) == ((None, None) if pipeline == "meaning" else (0.0, 1.0))
    assert good.answered and good.closest is None


def test_a_query_of_small_words_does_not_claim_that_no_word_occurs(few: KnowledgeBase) -> None:
    assert few.search("the", Access.owner(), pipeline="words").known_words is None


def test_confidence_does_not_depend_on_k_and_offset(few: KnowledgeBase) -> None:
    searches = [few.search("wire cutoff", Access.owner(), *more) for more in ((10,), (1,), (300,), (3, None, 2))]
    assert len({result.confidence for result in searches}) == 1


def test_confidence_does_not_depend_on_hits_of_a_deeper_search(few: KnowledgeBase) -> None:
    short, long = (few.search("teller drawer cash", Access.owner(), k, "bm25 @3") for k in (1, 20))
    assert [entry.stage for entry in long.trace][-1] == "deeper" != [entry.stage for entry in short.trace][-1]
    assert short.confidence == long.confidence


def test_search_below_the_minimum_has_no_hits(few: KnowledgeBase) -> None:
    result = few.search("recipe for carrot cake", Access.owner(), min_confidence=0.5)
    assert not result.answered and result.hits == () and result.closest is not None and result.closest.rank == 1
    later = few.search("recipe for carrot cake", Access.owner(), offset=5, min_confidence=0.5)
    assert later.closest is not None and later.closest.id == result.closest.id


@each("least", [-0.1, 1.5, math.nan])
def test_minimum_out_of_range_is_refused(few: KnowledgeBase, least: float) -> None:
    with pytest.raises(QueryError, match="min_confidence must be from 0 to 1"):
        few.search("wire", Access.owner(), min_confidence=least)


def test_settings_have_a_minimum(home: Home) -> None:
    home.configure('[search]\nmin_confidence = 1\npipeline = "words"\n[pipelines.words]\nretrieve = ["bm25"]\n')
    home.write("docs/a.md", "# A\n\nCash.\n")
    home.sync("docs")
    done = surefind("search", "cash", kb=home.folder)
    assert done.code == 1 and "Nothing here answers this (" in done.out and "Closest: A" in done.out
    assert surefind("search", "cash", "--min-confidence", "0", kb=home.folder).code == 0
    home.configure("[search]\nmin_confidence = 2\n")
    done = surefind("search", "cash", kb=home.folder)
    assert done.code == 2 and "line 2: min_confidence must be from 0 to 1, not 2." in done.err


def test_command_says_how_sure_it_is(few: KnowledgeBase) -> None:
    done = surefind("search", "wire cutoff", "-k", "1", kb=few.folder)
    assert done.code == 0 and "Likely here: the first hit probably answers this." in done.out
    explained = surefind("search", "wire cutoff", "-k", "1", "--explain", kb=few.folder)
    assert f"calibrated on {builtin().words}." in explained.out
    nothing = surefind("search", "zzzxqy", "--min-confidence", "0.5", kb=few.folder)
    assert nothing.code == 1 and nothing.out.startswith(
        "Nothing here answers this (probably not here)."
    ) and "No word of the query occurs in these documents. Closest: " in nothing.out  # fmt: skip


def test_json_says_that_nothing_answers(few: KnowledgeBase) -> None:
    done = surefind("search", "recipe for carrot cake", "--min-confidence", "0.5", "--json", kb=few.folder)
    found = json.loads(done.out)
    assert done.code == 1 and found["answered"] is False and found["hits"] == []
    assert found["confidence"] < 0.5 and set(found["closest"]) == {"document", "title"}


@pytest.mark.usefixtures("toys")
def test_reranker_changes_the_first_passage_and_not_the_margin(few: KnowledgeBase) -> None:
    query, owner = Query("cash drawer of the teller"), Access.owner()
    reading, found = few.reader().reading(owner), []
    for text in ("bm25 + dense >> rrf", "bm25 + dense >> rrf >> shared_words", "bm25 >> shared_words", "bm25"):
        pipeline = Pipeline.parse(text)
        kind, values = signals_of(pipeline.run([query], 5, reading), [query], pipeline, reading)
        found.append(dict(zip(NAMES[kind], values[0].tolist(), strict=True)))
    plain, reranked, alone, words = found
    assert plain["margin"] == reranked["margin"] and words["margin"] == alone["margin"]
    assert plain["agreement"] == reranked["agreement"] and set(alone) == set(NAMES["words"])


def test_first_page_and_later_pages_read_the_same_passage(few: KnowledgeBase) -> None:
    """The first hit is read once if it is on the page, and by itself if it is not."""
    first, later = (few.search("wire cutoff", Access.owner(), 2, offset=offset) for offset in (0, 2))
    assert first.confidence == later.confidence and first.hits != later.hits


# ---------------------------------------------------------------- access


def confidences(home: Home, *queries: str) -> list[tuple[float | None, float | None]]:
    with home.open() as kb:
        found = [kb.search(query, Access.public()) for query in queries]
    return [(result.confidence, result.known_words) for result in found]


def test_withheld_documents_change_nothing_if_statistics_are_isolated(tmp_path: Path) -> None:
    homes = [Home(tmp_path / name, ISOLATED) for name in ("with", "without")]
    for home in homes:
        home.write("docs/a.md", "# A\n\nThe teller counts the drawer.\n")
        home.write("docs/b.md", "# B\n\nThe wire leaves at noon, says the teller.\n")
    homes[0].write("docs/c.md", "---\nacl: [hr]\n---\n# C\n\nThe teller of the secret drawer earns much.\n")
    for home in homes:
        home.sync("docs")
    queries = "teller drawer", "secret drawer", "secret", "who earns much"
    assert confidences(homes[0], *queries) == confidences(homes[1], *queries)


def test_word_of_a_withheld_document_is_unknown(home: Home) -> None:
    home.write("docs/a.md", "# A\n\nThe teller counts the drawer.\n")
    home.write("docs/c.md", "---\nacl: [hr]\n---\n# C\n\nThe secret of the teller.\n")
    home.sync("docs")
    with home.open() as kb:  # the reader sees the words of the query themselves, so that it may tell them apart
        known, unknown = (
            kb.search(text, Access.public(), confidence="quick") for text in ("teller secret", "teller zzzxqy")
        )
    assert (known.confidence, known.known_words) == (unknown.confidence, unknown.known_words)
    with home.open() as kb:
        assert kb.search("teller secret", Access.of("hr")).known_words == 1


# ---------------------------------------------------------------- calibrating


@pytest.fixture
def asked(home: Home) -> Home:
    """Eighty documents, each with a word of its own, and two questions about each: by that word, and by common ones."""
    for i in range(80):
        home.write(f"docs/d{i:02}.md", f"# Page {i}\n\nThe code word{i}x opens the common door of page {i} at night.\n")
    home.sync("docs")
    queries = []
    with home.open() as kb:
        for i, document in enumerate(kb.documents(Access.owner())):
            gold = Judgment(document.id)
            own = next(word for word in document.text.split() if word.startswith("word"))
            queries.append(ExamQuery(f"q{i}", f"what does {own} open", (gold,)))
            queries.append(ExamQuery(f"r{i}", "the common door at night", (gold,)))
    ExamStore(home.folder / ".surefind" / "exams").save(Exam("asked", tuple(queries)))
    return home


def calibrated(home: Home, *more: str) -> Any:
    return surefind("calibrate", "confidence", "--exam", "asked", *more, kb=home.folder)


def sure(home: Home, query: str) -> tuple[float, str]:
    with home.open() as kb:
        result = kb.search(query, Access.owner())
    assert result.confidence is not None
    return result.confidence, result.confidence_from


def test_calibration_is_used_by_searches(asked: Home) -> None:
    before = sure(asked, "what does word3x open")
    done = calibrated(asked, "--json")
    assert done.code == 0, done.err
    made = json.loads(done.out)
    assert made["success"] == "Success@1" and made["held_out"]["searches"] == 2 * 80 and made["confidence"] == "read"
    assert made["held_out"]["error"] < min(0.05, made["builtin"]["error"]) and made["held_out"]["auc"] > 0.95
    after = sure(asked, "what does word3x open")
    assert before[1] == builtin().words and after[1] == "the exam asked v1, 160 questions"
    assert before[0] < after[0] > 0.9 and sure(asked, "the common door at night")[0] < 0.1


def test_calibration_holds_for_its_pipeline_alone(asked: Home) -> None:
    assert calibrated(asked).code == 0
    with asked.open() as kb:
        result = kb.search("what does word3x open", Access.owner(), pipeline="bm25(k1=0.9)")
    assert result.confidence_from == builtin().words


def test_calibration_survives_a_small_change_of_the_documents(asked: Home) -> None:
    assert calibrated(asked).code == 0
    asked.write("docs/new.md", "# New\n\nA new page.\n")
    asked.sync("docs")
    assert sure(asked, "what does word3x open")[1].startswith("the exam asked")
    for path in sorted(asked.docs.glob("d*.md"))[:60]:
        path.unlink()
    asked.sync("docs")
    said = sure(asked, "what does word70x open")[1]
    assert said == f"{builtin().words}; your own calibration was not used: most documents are others"


def test_damaged_calibration_is_named_and_not_used(asked: Home) -> None:
    assert calibrated(asked).code == 0
    with asked.open() as kb:
        assert CHECKS["trained models"](kb) == "1 trained models, prompts and calibrations match their checksums"
        path = place_of(kb.data / "models", str(kb.pipeline()), kb.reader().layout)
    path.write_text(path.read_text(encoding="utf-8").replace('"right": 0.', '"right": 1.'), encoding="utf-8")
    value, said = sure(asked, "what does word3x open")
    assert 0 <= value <= 1 and "its checksum differs" in said and "surefind calibrate confidence" in said
    with asked.open() as kb, pytest.raises(DamageError, match="its checksum differs"):
        CHECKS["trained models"](kb)


def test_command_shows_the_error_and_writes_a_page(asked: Home) -> None:
    asked.write("unanswered.txt", "who is the mayor\nwhere is the moon\n")
    done = calibrated(asked, "--unanswerable", str(asked.folder / "unanswered.txt"))
    assert done.code == 0, done.err
    for part in ("asked v1: 160 questions", "and 2 that no document answers", "calibration error", "built-in"):
        assert part in done.out
    (page,) = (asked.folder / ".surefind" / "models" / FOLDER).glob("*.html")
    text = page.read_text(encoding="utf-8")
    assert str(page) in done.out.replace("\n", "") and text.count("<circle") == 20
    assert "<script" not in text and "http://" not in text and "https://" not in text


def test_diagram_is_sound_svg() -> None:
    drawn = diagram([Bin(0.25, 0.5, 4)], 'a "label" & more')
    circles = ElementTree.fromstring(drawn).findall(".//circle")
    assert [(c.get("cx"), c.get("cy")) for c in circles] == [(str(44 + 0.25 * 320), str(12 + 0.5 * 320))]


def test_standing_exam_is_the_default(asked: Home) -> None:
    done = surefind("calibrate", "confidence", "--json", kb=asked.folder)
    assert done.code == 0 and json.loads(done.out)["exam"]["name"] == "asked v1"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("confidence", "--name", "mine"), "--name is for rerankers"),
        (("cross_encoder", "--unanswerable", "x.txt"), "--unanswerable is for confidence, not for rerankers."),
        (("confidence", "--unanswerable", "x.txt"), "x.txt cannot be read"),
        (("confidence", "--pipeline", "nope"), "nope"),
    ],
)
def test_wrong_options_are_named(asked: Home, words: tuple[str, ...], message: str) -> None:
    done = surefind("calibrate", *words, "--exam", "asked", kb=asked.folder)
    assert done.code == 2 and message in done.err


def test_too_few_questions_are_refused(asked: Home) -> None:
    store = ExamStore(asked.folder / ".surefind" / "exams")
    exam = store.load("asked")
    store.save(replace(exam, queries=exam.queries[:19]))
    done = calibrated(asked)
    assert done.code == 2 and "needs at least 20. Label more on the page Label of surefind serve." in done.err
    store.save(replace(exam, queries=exam.queries[:20]))
    assert calibrated(asked).code == 0


def test_questions_that_were_written_from_the_documents_are_refused(asked: Home) -> None:
    store = ExamStore(asked.folder / ".surefind" / "exams")
    store.save(replace(store.load("asked"), generator=1))
    done = calibrated(asked)
    assert done.code == 2 and "repeat their words" in done.err and "page Label" in done.err
    assert sure(asked, "what does word3x open")[1] == builtin().words


def test_success_is_that_of_the_first_hit() -> None:
    span, whole = Judgment("a.md", 0, 3), Judgment("a.md")
    assert str(success_of(Exam("e", (ExamQuery("q", "?", (span,)),)), 1)) == "T1EM"
    assert str(success_of(Exam("e", (ExamQuery("q", "?", (whole,)),)), 1)) == "Success@1"
