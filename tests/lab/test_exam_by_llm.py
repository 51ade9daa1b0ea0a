"""Questions that a language model writes: the rules, the pairs, necessity, and a whole run against a loopback model."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from cases import each
from exam_helpers import surefind
from helpers import Home
from llm_server import LLMServer
from surefind import Access
from surefind.base.errors import MissingPartError
from surefind.base.types import Document
from surefind.engine.services import LocalServices
from surefind.lab.exam.by_llm.questions import (
    Question,
    Seen,
    SourcePassage,
    Specific,
    drawn,
    find_answer,
    passages,
    read_questions,
)
from surefind.lab.exam.by_llm.write import answers, entities_by_rule, entities_of, necessary, pairs
from surefind.lab.exam.store import ExamStore

WIRES = SourcePassage(
    "wires.md", 10, 90, "The cutoff for outgoing wires is 4:30 p.m. Eastern.\nForm W-12 is needed.", "Wires"
)
FEES = SourcePassage("fees.md", 0, 40, "Form W-12 costs a fee of $25 per wire.", "Fees")


def asked(question: str, answer: str) -> str:
    return json.dumps({"questions": [{"question": question, "answer": answer}]})


# ---------------------------------------------------------------- rules


def test_answer_is_found_to_the_letter() -> None:
    made, refused = read_questions(asked("When do wires close?", "4:30 p.m. Eastern"), [WIRES])
    assert refused == []
    question = made[0]
    assert (question.start, question.end) == (10 + 33, 10 + 50)
    assert WIRES.text[question.start - 10 : question.end - 10] == question.answer == "4:30 p.m. Eastern"


def test_answer_over_a_line_end_is_taken_as_it_stands() -> None:
    assert find_answer("Eastern. Form", WIRES.text) == (43, 56)
    made, _ = read_questions(asked("What comes after the cutoff?", "Eastern. Form"), [WIRES])
    assert made[0].answer == "Eastern.\nForm"


@each(
    ("said", "reason"),
    [
        (asked("When do wires close?", "5 p.m."), "the answer is not an exact substring"),
        (asked("When do wires close?", "4:30 P.M. eastern"), "the answer is not an exact substring"),
        (asked("What does the passage say on wires?", "4:30 p.m. Eastern"), "mentions its passage"),
        (asked("Which form is mentioned in the first excerpt?", "Form W-12"), "mentions its passage"),
        (asked("What is the main issue described in the document?", "outgoing wires"), "mentions its passage"),
        (asked("What is the highest severity level mentioned in the table?", "Form W-12"), "mentions its passage"),
        (asked("What is the section of the document on closed wires?", "Form W-12"), "mentions its passage"),
        (asked("What is the title of the document?", "Form W-12"), "asks for nothing in particular"),
        (asked("What is the main topic of the document?", "outgoing wires"), "asks for nothing in particular"),
        (asked("What is the version of the policy?", "4:30 p.m. Eastern"), "asks for nothing in particular"),
        (asked("What is the name of the product or service?", "Form W-12"), "asks for nothing in particular"),
        (asked("Is Form W-12 needed for wires?", "Form W-12"), "contains its own answer"),
        (asked("When do wires close?", ""), "no question and answer"),
        ('{"questions": [3]}', "no question and answer"),
        ("I would rather not.", "no JSON in the model's answer"),
        ('{"questions": "many"}', "no JSON in the model's answer"),
    ],
)
def test_question_that_breaks_a_rule_is_refused(said: str, reason: str) -> None:
    assert read_questions(said, [WIRES]) == ([], [reason])


@each(
    ("question", "specific"),
    [
        ("What is the name of the member?", False),  # a real model asked these
        ("What is the role of the member at the window?", True),
        ("What is the name of the queue for complaints?", True),
        ("When is the cutoff for wires?", True),
    ],
)
def test_a_question_that_fits_many_documents_is_told_from_others(question: str, specific: bool) -> None:
    texts = ["The member signs.", "A member may ask.", "Each member has a window.", "Complaints go to a queue."]
    known = Specific([SourcePassage(f"{n}.md", 0, len(text), text, "") for n, text in enumerate(texts)])
    assert known(question) is specific


def test_of_two_passages_the_one_with_the_answer_comes_first() -> None:
    made, _ = read_questions(asked("What does the form for wires cost?", "$25"), [WIRES, FEES], ["Form W-12"])
    assert [passage.document for passage in made[0].passages] == ["fees.md", "wires.md"]


@each(
    ("second", "new"),
    [
        ("when does the wire desk of every branch CLOSE", False),
        ("When does the wire desk of every branch close today?", False),  # 4 of 5 words
        ("When does the wire desk open?", True),
    ],
)
def test_repetition_is_noticed(second: str, new: bool) -> None:
    seen = Seen()
    assert seen.take(_question("When does the wire desk of every branch close?"))
    assert seen.take(_question(second)) is new


def _question(text: str, passages: tuple[SourcePassage, ...] = (WIRES,), answer: str = "4:30 p.m. Eastern") -> Question:
    return Question(text, answer, passages, 43, 60)


# ---------------------------------------------------------------- passages and pairs


def test_passages_are_sections_and_long_ones_are_cut_between_sentences() -> None:
    words = "The teller counts the drawer and signs the log before leaving. "
    text = f"# Cash\n\n{words * 60}\n\n## Short\n\nToo short.\n"
    found = passages([Document("a.md", text, "Cash", "markdown", {"tags": ["Cash", "branch"]})], "sections")
    assert len(found) == 2
    assert all(text[p.start : p.end] == p.text for p in found)
    assert all(25 <= len(p.text.split()) <= 350 for p in found)
    assert found[0].text.rstrip().endswith("leaving.")
    assert found[0].tags == {"cash", "branch"}


def test_segments_have_about_a_thousand_words_across_sections_and_at_least_five_hundred() -> None:
    words = "The teller counts the drawer and signs the log before leaving. "
    text = "\n\n".join(f"# Part {i}\n\n{words * 15}" for i in range(16))
    found = passages([Document("a.md", text, "Cash"), Document("b.md", words * 40, "Short"), Document("c.md", "No.")])
    sizes = [len(p.text.split()) for p in found]
    assert [p.document for p in found] == ["a.md"] * 3 + ["b.md"] * 2  # 440 words are no segment: sections are read
    found = found[:3]
    assert sizes[:2] == pytest.approx([1000, 1000], abs=12) and 500 <= sizes[2] <= 1000
    assert found[0].start == 0 and found[0].end == found[1].start
    assert all(text[p.start : p.end] == p.text and p.text.rstrip().endswith("leaving.") for p in found)


def test_sections_of_short_documents_are_read_without_asking(desks: Home) -> None:
    desks.write("docs/long.md", "# Long\n\n" + "The teller counts the drawer and signs the log before leaving. " * 60)
    desks.sync("docs")
    done = surefind("exam", "write", "--per-family", "4", "--json", kb=desks.folder)
    assert done.code == 0, done.err
    assert "6 of 7 documents have no segment of 500 words or more: their sections are read instead." in done.err
    assert done.json["questions"] > 0
    assert "their sections are read" not in _write(desks).err


def test_documents_without_any_passage_are_refused(home: Home, llm: LLMServer) -> None:
    home.configure(f'[llm]\nmodel = "{llm.model}"\n')
    home.write("docs/a.md", "Too short to ask about.")
    home.sync("docs")
    done = surefind("exam", "write", kb=home.folder)
    assert done.code == 2 and "no sections of 25 words or more" in done.err and not llm.bodies


def test_unknown_passages_are_refused(desks: Home) -> None:
    done = surefind("exam", "write", "--passages", "pages", kb=desks.folder)
    assert done.code == 2
    assert "There are no passages called 'pages'" in done.err and "sections" in done.err


class Ruled:
    """Stands in for a spaCy pipeline, which this machine may not have: it finds two entities in any text."""

    max_length = 10

    def pipe(self, texts: Sequence[str]) -> list[SimpleNamespace]:
        entities = [("Dana Whitfield", "PERSON"), ("Oak Street", "FAC"), ("Oak Credit", "ORG"), ("Oak Credit", "ORG")]
        found = [SimpleNamespace(text=name, label_=label, start_char=0) for name, label in entities]
        return [SimpleNamespace(text=text, ents=found) for text in texts]


def test_entities_are_those_of_spacy_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("surefind.engine.extract.spacy._loaded", lambda model: Ruled())
    assert entities_of([WIRES], LocalServices()) == {WIRES: ("Oak Credit", "Dana Whitfield")}


def test_without_spacy_rules_find_the_entities(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(model: str) -> Any:
        raise MissingPartError("not installed")

    monkeypatch.setattr("surefind.engine.extract.spacy._loaded", missing)
    assert entities_of([WIRES], LocalServices()) == {WIRES: entities_by_rule(WIRES)}


def test_drawing_takes_documents_in_turn_and_depends_on_the_seed_alone() -> None:
    items = [(SourcePassage(f"{d}.md", i, i + 1, f"{d}{i}"),) for d in "abc" for i in range(4)]
    first = drawn(items, "sf1h", 1)
    assert first == drawn(items[::-1], "sf1h", 1)
    assert {item[0].document for item in first[:3]} == {"a.md", "b.md", "c.md"}
    assert first != drawn(items, "sf1h", 2)


def test_entities_by_rule() -> None:
    assert "W-12" in " ".join(entities_by_rule(WIRES))


def _passages(*places: tuple[str, int, str]) -> list[SourcePassage]:
    return [SourcePassage(d, i, i + 9, f"{d} {i}", "", frozenset(tags.split())) for d, i, tags in places]


def test_pairs_of_one_file_share_an_entity() -> None:
    a, b, c = _passages(("x", 0, ""), ("x", 20, ""), ("y", 0, ""))
    found = pairs({a: ("SAR",), b: ("sar", "CTR"), c: ("SAR",)}, cross=False)
    assert [(pair.passages, pair.shared) for pair in found] == [((a, b), ("SAR",))]


def test_pairs_of_two_files_share_a_tag_too() -> None:
    a, b, c = _passages(("x", 0, "aml"), ("y", 0, "aml hr"), ("z", 0, "hr"))
    names = {a: ("SAR",), b: ("SAR",), c: ("SAR",)}
    found = {tuple(p.document for p in pair.passages) for pair in pairs(names, cross=True)}
    assert found == {("x", "y"), ("y", "z")}


def test_without_tags_two_shared_entities_are_asked_for() -> None:
    a, b, c = _passages(("x", 0, ""), ("y", 0, ""), ("z", 0, ""))
    found = pairs({a: ("SAR", "CTR"), b: ("SAR", "CTR"), c: ("SAR",)}, cross=True)
    assert [tuple(p.document for p in pair.passages) for pair in found] == [("x", "y")]


def test_entity_that_stands_everywhere_joins_nothing() -> None:
    many = _passages(*[("x", i * 10, "") for i in range(21)])
    assert pairs(dict.fromkeys(many, ("SAR",)), cross=False) == []


# ---------------------------------------------------------------- necessity


@each(
    ("said", "found"),
    [
        ('{"answerable": true, "answer": "4:30 p.m. Eastern"}', True),
        ('{"answerable": true, "answer": "at 4:30 P.M., Eastern time"}', True),
        ('{"answerable": true, "answer": "5 p.m. Pacific"}', False),
        ('{"answerable": false, "answer": "4:30 p.m. Eastern"}', False),
        ('{"answerable": true, "answer": ""}', False),
        ("no idea", False),
    ],
)
def test_whether_a_model_found_the_answer(said: str, found: bool) -> None:
    assert answers(said, "4:30 p.m. Eastern") is found


GOOD, BAD = '{"answerable": true, "answer": "$25"}', '{"answerable": false, "answer": ""}'


@each(
    ("replies", "verdict"),
    [
        ({2: GOOD, "alone": BAD, "other": BAD}, ""),
        ({2: BAD}, "both passages together do not answer it"),
        ({2: None}, "could not be checked"),
        ({2: GOOD, "alone": GOOD, "other": BAD}, "one of its passages is enough"),
        ({2: GOOD, "alone": BAD, "other": GOOD}, "another passage is enough"),
        ({2: GOOD, "alone": None, "other": BAD}, "could not be checked"),
    ],
)
def test_necessity(replies: dict[Any, str | None], verdict: str) -> None:
    def ask(items: Sequence[tuple[str, Sequence[str]]]) -> list[str | None]:
        kinds = [2 if len(texts) == 2 else "other" if texts[0] == "elsewhere" else "alone" for _, texts in items]
        return [replies[kind] for kind in kinds]

    question = _question("What does it cost?", (FEES, WIRES), "$25")
    assert necessary([question], ask, lambda questions: [["elsewhere"]] * len(questions)) == [verdict]


# ---------------------------------------------------------------- a whole run

TOPICS = "wire vault teller ledger audit branch".split()


def _documents(home: Home) -> None:
    """Each file: two sections that share a code; files share tags; every section has a number of its own."""
    for i, topic in enumerate(TOPICS):
        filler = f"Everybody who works on the {topic} desk reads this page once a year and signs the list of readers. "
        home.write(
            f"docs/{topic}.md",
            f"---\ntags: [desk{i // 2}]\n---\n# The {topic} desk\n\n## Opening\n\n{filler}"
            f"The {topic} desk uses code DESK-{i // 2}00 and opens at {i + 7}:05 in the morning sharp.\n\n"
            f"## Limits\n\n{filler}With code DESK-{i // 2}00 the limit of the {topic} desk is ${i + 3}17 on a day.\n",
        )


def _model(prompt: str) -> str:
    """Copies a number as the answer; a two-hop question names one number, which must be seen to give the other."""
    found = re.findall(r"<passage(?: \d+)? [0-9a-f]{12}>\n(.*?)\n</passage", prompt, re.DOTALL)
    if "You name the key entities" in prompt:
        return '{"entities": ["limit", "nowhere in the text"]}'
    if "You answer a question" in prompt:
        query = re.findall(r"<query [0-9a-f]{12}>\n(.*?)\n</query", prompt, re.DOTALL)[0]
        hint = re.findall(r"\[(.*?)\]", query)[0]
        others = [number for number in re.findall(r"\d+:05|\$\d+17", " ".join(found)) if number != hint]
        ok = hint in " ".join(found) and bool(others)
        return json.dumps({"answerable": ok, "answer": others[-1] if ok else ""})
    numbers = [re.findall(r"opens at (\d+:05)|is (\$\d+17)", text) for text in found]
    flat = [next(filter(None, row[0])) for row in numbers if row]
    if not flat:
        return '{"questions": []}'
    if len(found) == 1:
        return asked(f"Which number goes with {found[0].split('the ')[1].split(' desk')[0]} {len(found[0])}?", flat[0])
    return json.dumps({"questions": [{"question": f"What needs [{flat[0]}] besides?", "answer": flat[-1]}]})


@pytest.fixture
def desks(home: Home, llm: LLMServer) -> Home:
    home.configure(
        f'[llm]\nmodel = "{llm.model}"\n[pipelines.words]\nretrieve = ["bm25"]\n[search]\npipeline = "words"\n'
    )
    _documents(home)
    home.sync("docs")
    llm.reply = _model
    return home


def _write(home: Home, *more: str) -> Any:
    return surefind("exam", "write", "--per-family", "4", "--passages", "sections", *more, "--json", kb=home.folder)


def test_exam_of_three_families(desks: Home, llm: LLMServer) -> None:
    done = _write(desks)
    assert done.code == 0, done.err
    shown = json.loads(done.out)
    exam = ExamStore(desks.folder / ".surefind" / "exams").load("written")
    assert set(shown["families"]) == {"sf1h", "sf2h", "mf2h"}
    texts = {document.id: document.text for document in _read(desks)}
    for query in exam.queries:
        gold = query.judgments[0]
        assert texts[gold.document][gold.start : gold.end] == query.metadata["answer"]
        assert len(query.judgments) == (1 if query.family == "sf1h" else 2)
        assert [j.role for j in query.judgments] == ["answer", "support"][: len(query.judgments)]
        for judgment, segment in zip(query.judgments, query.segments, strict=True):
            assert segment.document == judgment.document
            assert (segment.start or 0) <= (judgment.start or 0) < (judgment.end or 0) <= (segment.end or 0)
        documents = {judgment.document for judgment in query.judgments}
        assert len(documents) == (2 if query.family == "mf2h" else 1)
    sent = len(llm.bodies)
    again = json.loads(_write(desks).out)
    assert (again["fingerprint"], len(llm.bodies)) == (shown["fingerprint"], sent)  # the same, and free


def _read(home: Home) -> list[Document]:
    with home.open() as kb:
        return kb.documents(Access.owner())


def _obliging(prompt: str) -> str:
    """Finds every question answerable, from whatever passage it is shown."""
    if "You answer a question" not in prompt:
        return _model(prompt)
    answer = re.findall(r"(\$\d+17|\d+:05)", prompt.split("<query")[0])
    return json.dumps({"answerable": True, "answer": " ".join(answer)})


def test_questions_that_one_passage_answers_are_dropped(desks: Home, llm: LLMServer) -> None:
    llm.reply = _obliging
    done = _write(desks, "--family", "sf2h")
    assert done.code == 2
    assert "No question passed the checks" in done.err


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (lambda prompt: "I would rather not.", "No question passed the checks"),
        (lambda prompt: asked("When?", "never in there"), "No question passed the checks"),
    ],
)
def test_useless_model_is_told(desks: Home, llm: LLMServer, reply: Callable[[str], str], reason: str) -> None:
    llm.reply = reply
    done = _write(desks, "--family", "sf1h")
    assert (done.code, reason in done.err) == (2, True)


def test_dead_model_ends_the_run_at_once(desks: Home, llm: LLMServer) -> None:
    llm.script = ["401"] * 100
    done = _write(desks, "--family", "sf1h")
    assert (done.code, "answered 401" in done.err) == (1, True)


def test_restricted_documents_are_not_shown_to_the_model(desks: Home, llm: LLMServer) -> None:
    desks.write(
        "docs/secret.md", "---\nacl: [board]\n---\n# Merger\n\n" + "The merger opens at 9:05 under code SECRET-1. " * 9
    )
    desks.sync("docs")
    _write(desks)
    assert not any("merger" in prompt for prompt in llm.prompts)
    _write(desks, "--as", "board", "--family", "sf1h", "--per-family", "40")
    assert any("merger" in prompt for prompt in llm.prompts)


# ---------------------------------------------------------------- money


def _priced(home: Home, llm: LLMServer) -> None:
    text = (home.folder / "surefind.toml").read_text(encoding="utf-8")
    home.configure(f'{text}\n[llm.prices]\n"{llm.model}" = [0, 1000]\n')  # a tenth of a cent for a token of answer


def test_nothing_is_spent_without_a_yes(desks: Home, llm: LLMServer) -> None:
    _priced(desks, llm)
    done = _write(desks)
    assert (done.code, llm.bodies) == (2, [])
    assert re.search(r"This may cost money: [\d,]+ calls, [\d,]+ tokens, about \$[\d.]+, .* Add --yes", done.err)


def test_budget_stops_and_keeps_what_was_written(desks: Home, llm: LLMServer) -> None:
    _priced(desks, llm)
    done = surefind(
        "exam", "write", "--per-family", "4", "--budget", "0.8", "--yes", "--family", "sf1h", "--family", "sf2h",
        "--passages", "sections", kb=desks.folder,
    )  # fmt: skip
    assert done.code == 1
    assert "The budget of $0.80 is too small for the next call" in done.err
    sent = len(llm.bodies)
    assert sent > 0
    done = _write(desks, "--budget", "50", "--yes", "--family", "sf1h", "--family", "sf2h")
    assert done.code == 0
    keys = [json.dumps(body, sort_keys=True) for body in llm.bodies]
    assert len(keys) == len(set(keys))  # no call was paid for twice
