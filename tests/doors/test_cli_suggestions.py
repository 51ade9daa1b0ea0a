"""What was probably meant, where a name, an option or a command is misspelt."""

from __future__ import annotations

import pytest

from cases import each
from exam_helpers import surefind
from helpers import Home
from surefind.base.errors import choices, closest


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = Home(tmp_path_factory.mktemp("suggestions"))
    home.write("docs/a.md", "# Cash\n\nThe teller counts cash twice before the vault opens.")
    assert surefind("sync", home.docs, kb=home.folder).code == 0
    assert surefind("exam", "generate", "--name", "mine", kb=home.folder).code == 0
    return home


@each(
    ("words", "says"),
    [
        (("search", "x", "--rerank", "cross-encoder"), "called 'cross-encoder'. Did you mean cross_encoder?"),
        (("search", "x", "--rerank", "cross-encoder(top=5)"), "Did you mean cross_encoder?"),
        (("search", "x", "--rerank", "conditional(stage=cross-encoder)"), "Did you mean cross_encoder?"),
        (("search", "x", "--retrieve", "BM-25"), "no retriever called 'BM-25'. Did you mean bm25?"),
        (("search", "x", "--retrieve", "bm25", "--retrieve", "tfidf", "--fuse", "RRf"), "Did you mean rrf?"),
        (
            ("search", "x", "--retrieve", "bm25", "--retrieve", "tfidf", "--fuse", "convex(alhpa=0.3)"),
            "convex has no parameter 'alhpa'. Did you mean alpha?",
        ),
        (("search", "x", "--rerank", "cross_encoder(max-ms=3)"), "names are written with '_', not with '-'"),
        (("search", "x", "-p", "Wrods"), "no pipeline called 'Wrods'. Did you mean words?"),
        (("bench", "--exam", "mine", "-p", "wrods"), "no pipeline called 'wrods'. Did you mean words?"),
        (("bench", "--exam", "mine", "--layout", "fixd"), "no chunker called 'fixd'. Did you mean fixed?"),
        (("bench", "--exam", "mine", "--preset", "context_layers"), "Did you mean context-layer?"),
        (("bench", "--exam", "mnie"), "no exam called 'mnie'. Did you mean mine?"),
        (("exam", "show", "mnie"), "Did you mean mine?"),
        (("bench", "--exam", "mine", "-m", "ndgc@5"), "no measure 'ndgc@5'. Did you mean nDCG@5?"),
        (("bench", "--exam", "mine", "-m", "ndcg10"), "Did you mean nDCG@10?"),
        (("bench", "--exam", "mine", "-m", "recal@5:span"), "Did you mean R@5:span?"),
        (("bench", "--exam", "mine", "-m", "T1ME"), "Did you mean T1EM?"),
        (("serach", "x"), "No such command 'serach'. Did you mean search? See: surefind --help."),
        (("exam", "shwo", "x"), "No such command 'shwo'. Did you mean show? See: surefind exam --help."),
        (("search", "x", "--retreive", "bm25"), "No such option: --retreive. Did you mean --retrieve?"),
        (("search", "x", "--hlep"), "Did you mean --help?"),
        (("search", "x", "--k", "3"), "No such option: --k. Did you mean -k? See"),
        (("search", "x", "--retrieve", "bm25", "--retrieve", "tfidf", "--fuse", "rff"), "Did you mean rrf?"),
        (("search", "x", "--limit", "5"), "No such option: --limit. See: surefind search --help."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_misspelt_name_is_answered_with_the_right_one(small: Home, words: tuple[str, ...], says: str) -> None:
    ran = surefind(*words) if words[-1].startswith("--h") else surefind(*words, kb=small.folder)
    assert (ran.code, ran.out) == (2, "")
    assert says in ran.err


@each(
    ("settings", "says"),
    [
        ("[serch]\n", "no table [serch]. Did you mean search?"),
        ("[search]\npipelin = 'x'\n", "[search] has no setting 'pipelin'. Did you mean pipeline?"),
        ("[sync]\nkeep-generations = 2\n", "Did you mean keep_generations?"),
        ("[llm]\nbugdet = 2\n", "[llm] has no setting 'bugdet'. Did you mean budget?"),
        ("[pipelines.a]\nretreive = []\n", "Did you mean retrieve?"),
        ('[pipelines.a]\nretrieve = ["bm25"]\nrerank = ["cross-encoder"]\n', "line 3: There is no reranker called"),
    ],
)
def test_misspelt_setting_is_answered_with_the_right_one(home: Home, settings: str, says: str) -> None:
    home.configure(settings)
    ran = surefind("search", "x", kb=home.folder)
    assert ran.code == 2 and says in ran.err


def test_a_spec_that_begins_with_a_right_name_is_told_where_it_goes_wrong(small: Home) -> None:
    ran = surefind("search", "x", "--retrieve", "bm25 dense", kb=small.folder)
    assert "expected the end at column 6" in ran.err


def test_nothing_is_suggested_where_nothing_is_near() -> None:
    assert closest("zebra", ["bm25", "dense"]) == ""
    assert choices("zebra", ["bm25", "dense"]) == "Choices: bm25, dense."


def test_capitals_and_hyphens_are_no_difference() -> None:
    assert closest("RRF", ["rrf", "rsf"]) == "rrf"
    assert closest("context_layer", ["context-layer", "cascade"]) == "context-layer"
