"""Labels of several judges: a pool that every judge sees, how far they agree, and the exam that comes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from exam_helpers import surefind
from helpers import Home
from study_helpers import THINGS
from surefind.base.access import Access, Caller
from surefind.base.errors import ExamError, UsageError
from surefind.kb import KnowledgeBase
from surefind.lab.exam.judging import LEADING, Asking, Judging, leading
from surefind.lab.exam.labels import Labels, Pooled, PooledPassage, agreement, cohen, grade_of
from surefind.lab.exam.model import Exam
from surefind.lab.exam.questions import Questions

PAIR = ("bm25", "tfidf")
QUESTIONS = ("Who approves a loan?", "Where is the vault ledger kept?", "What does the teller count?")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    home = Home(tmp_path / "kb")
    for n, thing in enumerate(THINGS):
        home.write(f"docs/{thing}.md", f"# The {thing}\n\nRule {n}: Mia approves each {thing}; the teller counts it.\n")
    home.sync("docs")
    (tmp_path / "asked.txt").write_text("\n".join(QUESTIONS))
    assert surefind("exam", "collect", "gold", tmp_path / "asked.txt", kb=home.folder).code == 0
    return home.folder


def session(kb: KnowledgeBase, judge: str) -> Judging:
    """One judge's session; the first one pools."""
    made = Judging(kb, "gold", Caller(judge, frozenset(), frozenset()))
    made.make_pool(PAIR)
    return made


def seen_by(folder: Path, judge: str) -> list[list[str]]:
    """The documents of each question, as a judge sees them."""
    with Home(folder).open() as kb:
        made = session(kb, judge)
        return [[passage.document for passage in made.passages(at)] for at in range(len(made.pool))]


def judged(folder: Path, judge: str, wanted: dict[str, set[str]]) -> Exam | None:
    """Labels the questions: the documents that a judge finds relevant to each."""
    with Home(folder).open() as kb:
        made = session(kb, judge)
        for at, pooled in enumerate(made.pool):
            named = [p.number for p in made.passages(at) if Path(p.document).stem in wanted[pooled.query]]
            made.mark(at, named)
        return made.make_exam()


def test_judges_see_the_same_passages_in_another_order(folder: Path) -> None:
    ann, bob = seen_by(folder, "ann"), seen_by(folder, "bob")
    assert [sorted(documents) for documents in ann] == [sorted(documents) for documents in bob]
    assert len(ann) == len(QUESTIONS) and max(map(len, ann)) == 10
    assert ann != bob and ann == seen_by(folder, "ann")


def test_the_pool_is_fair_and_shuffled(folder: Path) -> None:
    with Home(folder).open() as kb:
        asking = Asking(kb, PAIR, Access.public(), None)
        for text in QUESTIONS:
            spans = {(hit.document, hit.start, hit.end) for hit in asking.pool(text, 6)}
            for pipeline in asking.pipelines:
                hits = kb.search(text, Access.public(), 3, pipeline).hits
                firsts = {(hit.document, *(hit.matched or (hit.start, hit.end))) for hit in hits}
                assert firsts <= spans  # the first three of each of the two
        assert len({tuple(hit.id for hit in asking.pool(QUESTIONS[0], 6, seed)) for seed in range(5)}) > 1


def test_pools_of_one_configuration_or_of_a_model_are_refused(folder: Path) -> None:
    with Home(folder).open() as kb:
        with pytest.raises(UsageError, match="at least two configurations"):
            leading(kb, ["words", "bm25(k1=1.5)"])
        with pytest.raises(UsageError, match="asks a language model"):
            leading(kb, ["words", "hyde(retriever=bm25)"])
        assert len(leading(kb)) == len(LEADING)  # `words` of the settings is bm25 itself


def test_what_half_of_the_judges_marked_is_gold(folder: Path) -> None:
    def gold(exam: Exam | None) -> dict[str, set[str]]:
        assert exam is not None
        return {query.text: {Path(j.document).stem for j in query.judgments} for query in exam.queries}

    first, second, third = QUESTIONS
    other = next(name for name in (Path(name).stem for name in seen_by(folder, "ann")[0]) if name != "loan")
    judged(folder, "ann", {first: {"loan", other}, second: {"vault"}, third: set()})
    both = judged(folder, "bob", {first: {"loan"}, second: {"ledger"}, third: set()})
    assert gold(both) == {first: {"loan", other}, second: {"vault", "ledger"}}  # one of two is half
    three = judged(folder, "cat", {first: {"loan"}, second: {"vault"}, third: set()})
    assert gold(three) == {first: {"loan"}, second: {"vault"}}
    with Home(folder).open() as kb:
        made = session(kb, "ann")
        assert made.progress() == dict.fromkeys(("ann", "bob", "cat"), 3)
        pairs = [(pair.first, pair.second) for pair in made.agreement]
    assert pairs == [("ann", "bob"), ("ann", "cat"), ("bob", "cat")]
    assert surefind("bench", "--exam", "gold", "-p", "bm25", "--json", kb=folder).code == 0


def test_the_order_of_judges_gives_grades(folder: Path) -> None:
    """Ann: a, b, c; Bob: b, a. a has (3 + 2) / 2 points, b (2 + 3) / 2, c is Ann's third; halves are rounded up."""
    documents = seen_by(folder, "ann")[0][:3]
    with Home(folder).open() as kb:
        for judge, wanted in (("ann", documents), ("bob", documents[1::-1])):
            made = session(kb, judge)
            shown = [passage.document for passage in made.passages(0)]
            made.mark(0, [shown.index(name) + 1 for name in wanted])
            exam = made.make_exam()
    assert exam is not None
    grades = {judgment.document: judgment.grade for judgment in exam.queries[0].judgments}
    assert grades == {documents[0]: 3, documents[1]: 3, documents[2]: 1}
    assert grade_of(7, [[7, 1], [1, 7]]) == 3 and grade_of(7, [[1, 2, 3, 7]]) == 1 and grade_of(7, []) == 1


def test_labels_without_an_order_have_one_grade(folder: Path) -> None:
    with Home(folder).open() as kb:
        made = session(kb, "ann")
        made.mark(0, [2, 1], ranked=False)
        assert sorted(made.mine[QUESTIONS[0]]) == sorted(made.pool[0].order_for("ann")[:2])
        exam = made.make_exam()
    assert exam is not None and [judgment.grade for judgment in exam.queries[0].judgments] == [1, 1]


def test_a_passage_from_outside_the_pool_is_gold(folder: Path) -> None:
    with Home(folder).open() as kb:
        made = Judging(kb, "gold", Caller("ann", frozenset(), frozenset()))
        made.make_pool(PAIR, size=2)
        before = [passage.document for passage in made.passages(0)]
        missing = next(f"{thing}.md" for thing in THINGS if f"{thing}.md" not in before)
        words = f"Mia approves each {missing.removesuffix('.md')}"
        made.mark(0, [made.add(0, made.outside(missing, words)), 1])
        exam = made.make_exam()
        assert exam is not None
        added = next(judgment for judgment in exam.queries[0].judgments if judgment.document == missing)
        assert added.quote == words and added.grade == 3
        bob = Caller("bob", frozenset(), frozenset())
        later = Judging(kb, "gold", bob).passages(0)  # a later judge sees it, after the others
        assert later[-1].text == words and sorted(p.document for p in later[:-1]) == sorted(before)


@pytest.mark.parametrize(
    ("document", "text", "complaint"),
    [
        ("nowhere.md", "x", "there is no document 'nowhere.md'"),
        ("loan.md", "Nobody says this.", "does not contain the passage"),
        ("loan.md", " ", "which words of 'loan.md'"),
    ],
)
def test_a_passage_that_is_not_there_is_refused(folder: Path, document: str, text: str, complaint: str) -> None:
    with Home(folder).open() as kb, pytest.raises(ExamError, match=complaint):
        session(kb, "ann").outside(document, text)


def test_nobody_adds_a_document_they_may_not_read(folder: Path) -> None:
    home = Home(folder)
    home.write("docs/secret.md", "---\nacl: [hr]\n---\n# Secret\n\nThe hushword is quagga.\n")
    home.sync("docs")
    with home.open() as kb:
        made = session(kb, "ann")
        with pytest.raises(ExamError, match="there is no document"):
            made.outside("secret.md", "The hushword is quagga.")
        found = Judging(kb, "gold", Caller("cat", frozenset(), frozenset({"hr"})))
        assert found.add(0, found.outside("secret.md", "The hushword is quagga.")) == len(found.pool[0].passages)
        seen = Judging(kb, "gold", Caller("bob", frozenset(), frozenset()))
        assert len(seen.pool) == len(found.pool) - 1  # a question with a passage that Bob may not read


def test_kappa_by_hand() -> None:
    """Cohen's example: 20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no. p_o = 35/50; p_e = .5 · .6 + .5 · .4; κ = 0.4."""
    pairs = [(True, True)] * 20 + [(True, False)] * 5 + [(False, True)] * 10 + [(False, False)] * 15
    observed, kappa = cohen(pairs)
    assert observed == pytest.approx(0.7) and kappa == pytest.approx(0.4)
    assert cohen([(True, True)] * 3) == (1.0, None)
    assert cohen([(True, False), (False, True)]) == (0.0, -1.0)


def test_agreement_is_over_what_both_have_judged() -> None:
    passages = tuple(PooledPassage(f"{i}.md", 0, 5) for i in range(4))
    pool = [Pooled("one", passages), Pooled("two", passages)]
    labels = {"ann": {"one": [0, 1], "two": [0]}, "bob": {"one": [1, 0]}, "cat": {}}
    (pair,) = agreement(pool, labels)
    assert (pair.first, pair.second, pair.questions, pair.passages) == ("ann", "bob", 1, 4)
    assert (pair.observed, pair.kappa) == (1.0, 1.0)


def test_labels_are_those_of_a_judge(tmp_path: Path) -> None:
    store = Questions(tmp_path)
    kept = Labels(store, "gold")
    kept.mark("ann", "one", [1])
    kept.mark("bob", "one", [0])
    kept.mark("bob", "one", None)
    assert kept.of("ann") == {"one": [1]} and list(kept.all()) == ["ann"]


def test_the_doctor_finds_damaged_labels(folder: Path) -> None:
    seen_by(folder, "ann")
    assert surefind("doctor", kb=folder).code == 0
    path = Questions(folder / ".surefind" / "exams").path
    path.write_bytes(path.read_bytes()[:4096] + bytes(path.stat().st_size - 4096))
    broken = surefind("doctor", kb=folder)
    assert broken.code == 1 and "questions.db is damaged" in broken.out + broken.err


def test_changed_documents_end_the_pool(folder: Path) -> None:
    seen_by(folder, "ann")
    Home(folder).write("docs/new.md", "# New\n\nA new document.\n")
    assert surefind("sync", folder / "docs", kb=folder).code == 0
    with Home(folder).open() as kb, pytest.raises(ExamError, match="The documents have changed since the pool of gold"):
        session(kb, "ann")
