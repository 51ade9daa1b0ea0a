"""Questions that people bring along, and exams for other tools: JSONL, CSV, BEIR, TREC."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cases import each
from exam_helpers import QUESTIONS, document, query, sample_documents, sample_exam
from surefind.base.errors import ExamError
from surefind.lab.exam.formats.collections import read_beir, read_trec, write_beir, write_trec
from surefind.lab.exam.formats.library import Library
from surefind.lab.exam.formats.table import read_table, write_csv, write_jsonl
from surefind.lab.exam.model import Exam, ExamQuery, Judgment

LIBRARY = Library(
    [
        document("sops/ctr.md", "File the CTR within 15 days. Twice. Twice. The end."),
        document("sops/wire.md", "Wires leave at three."),
        document("a/same.md", "one"),
        document("b/same.md", "two"),
        document("How to file.md", "Put it in the cabinet."),
    ]
)


def file(folder: Path, name: str, *lines: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def rows(folder: Path, *rows: object) -> Path:
    return file(folder, "mine.jsonl", *(json.dumps(row) for row in rows))


def by_text(exam: Exam) -> dict[str, list[tuple[str, int | None, int | None, int]]]:
    return {q.text: [(j.document, j.start, j.end, j.grade) for j in q.judgments] for q in exam.queries}


def golds(exam: Exam) -> dict[str, list[tuple[str, int | None, int | None, int]]]:
    return {q.id: [(j.document, j.start, j.end, j.grade) for j in q.judgments] for q in exam.queries}


# ---------------------------------------------------------------- the bundled questions


@pytest.fixture(scope="module")
def bundled() -> Exam:
    return read_table(QUESTIONS, Library(sample_documents()))


def test_every_bundled_question_is_imported(bundled: Exam) -> None:
    assert len(bundled.queries) == len(QUESTIONS.read_text(encoding="utf-8").splitlines()) >= 80


def test_every_bundled_gold_is_an_exact_span(bundled: Exam) -> None:
    texts = {document.id: document.text for document in sample_documents()}
    wanted = {
        row["id"]: [gold["text"] for gold in row["gold"]]
        for row in map(json.loads, QUESTIONS.read_text(encoding="utf-8").splitlines())
    }
    assert {q.id: [texts[j.document][j.start : j.end] for j in q.judgments] for q in bundled.queries} == wanted


def test_extra_fields_are_kept_as_metadata(bundled: Exam) -> None:
    assert bundled.queries[0].metadata == {"role": "BSA analyst"}


def test_bundled_questions_leak_less_than_known_items(bundled: Exam) -> None:
    theirs, ours = (sum(q.overlap or 0 for q in exam.queries) / len(exam.queries) for exam in (bundled, sample_exam()))
    assert theirs < ours - 0.2


# ---------------------------------------------------------------- JSONL


def test_jsonl_row_with_gold_text(tmp_path: Path) -> None:
    path = rows(
        tmp_path, {"id": "x", "query": "when?", "gold": [{"document": "sops/ctr.md", "text": "within 15 days"}]}
    )
    assert golds(read_table(path, LIBRARY)) == {"x": [("sops/ctr.md", 13, 27, 1)]}


def test_jsonl_row_with_offsets_and_grade(tmp_path: Path) -> None:
    gold = {"document": "sops/ctr.md", "start": 5, "end": 12, "grade": 3}
    exam = read_table(rows(tmp_path, {"query": "?", "gold": [gold]}), LIBRARY)
    assert by_text(exam) == {"?": [("sops/ctr.md", 5, 12, 3)]}


def test_jsonl_row_with_a_gold_file_judges_the_whole_document(tmp_path: Path) -> None:
    path = rows(tmp_path, {"query": "?", "document": "sops/wire.md"})
    assert by_text(read_table(path, LIBRARY)) == {"?": [("sops/wire.md", None, None, 1)]}


def test_document_may_be_named_by_a_file_name_that_is_unique(tmp_path: Path) -> None:
    path = rows(tmp_path, {"query": "?", "document": "wire.md"})
    assert by_text(read_table(path, LIBRARY))["?"][0][0] == "sops/wire.md"


def test_field_question_is_taken_for_query(tmp_path: Path) -> None:
    assert read_table(rows(tmp_path, {"question": "why?", "document": "wire.md"}), LIBRARY).queries[0].text == "why?"


def test_exam_is_named_after_its_file(tmp_path: Path) -> None:
    assert read_table(rows(tmp_path, {"query": "?", "document": "wire.md"}), LIBRARY).name == "mine"


def test_overlap_is_computed_for_gold_spans(tmp_path: Path) -> None:
    path = rows(tmp_path, {"query": "days zebra", "document": "sops/ctr.md", "text": "within 15 days"})
    assert read_table(path, LIBRARY).queries[0].overlap == pytest.approx(1 / 2)


def test_byte_order_mark_is_no_part_of_the_first_row(tmp_path: Path) -> None:
    path = tmp_path / "bom.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps({"query": "?", "document": "wire.md"}).encode())
    assert len(read_table(path, LIBRARY).queries) == 1


@each(
    ("row", "complaint"),
    [
        ({"document": "wire.md"}, "it has no query"),
        ({"query": "  ", "document": "wire.md"}, "it has no query"),
        ({"query": "?"}, "no 'document'"),
        ({"query": "?", "gold": []}, "it has no gold"),
        ({"query": "?", "document": "nope.md"}, "there is no document 'nope.md' in the knowledge base"),
        ({"query": "?", "document": "same.md"}, "could be any of a/same.md, b/same.md"),
        ({"query": "?", "document": "wire.md", "text": "not there"}, "does not contain the passage 'not there'"),
        ({"query": "?", "document": "ctr.md", "text": "Twice."}, "more than once; give start and end"),
        ({"query": "?", "document": "wire.md", "start": 5, "end": 900}, r"the span 5–900 is not inside 'wire.md'"),
        ({"query": "?", "document": "wire.md", "start": 5}, "the span 5–None is not inside"),
        ({"query": "?", "document": "wire.md", "start": 0, "end": 5, "text": "leave"}, "at 0–5 is not .leave."),
        ({"query": "?", "document": "wire.md", "grade": "high"}, "high"),
        (["a", "list"], "not a JSON object"),
    ],
)
def test_bad_row_is_listed_by_its_line(tmp_path: Path, row: object, complaint: str) -> None:
    path = rows(tmp_path, {"query": "fine?", "document": "wire.md"}, row)
    with pytest.raises(ExamError, match=rf"1 bad rows, so nothing was imported:\n  line 2: .*{complaint}"):
        read_table(path, LIBRARY)


def test_line_that_is_not_json_is_listed(tmp_path: Path) -> None:
    with pytest.raises(ExamError, match=r"line 1: not JSON"):
        read_table(file(tmp_path, "mine.jsonl", "{query}"), LIBRARY)


def test_all_bad_rows_are_listed_at_once(tmp_path: Path) -> None:
    path = rows(tmp_path, {"query": "1?"}, {"query": "fine", "document": "wire.md"}, {"document": "wire.md"})
    with pytest.raises(ExamError, match=r"2 bad rows.*\n  line 1: .*\n  line 3: "):
        read_table(path, LIBRARY)


def test_long_list_of_bad_rows_is_cut(tmp_path: Path) -> None:
    with pytest.raises(ExamError, match="… and 5 more"):
        read_table(rows(tmp_path, *({"query": "?"} for _ in range(15))), LIBRARY)


def test_blank_lines_keep_the_line_numbers_right(tmp_path: Path) -> None:
    with pytest.raises(ExamError, match="line 3: not JSON"):
        read_table(file(tmp_path, "mine.jsonl", '{"query": "?", "document": "wire.md"}', "", "{"), LIBRARY)


def test_file_without_questions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExamError, match="contains no questions"):
        read_table(file(tmp_path, "mine.jsonl"), LIBRARY)


def test_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ExamError, match=r"mine\.jsonl is not UTF-8 text"):
        read_table(tmp_path / "mine.jsonl", LIBRARY)


def test_two_different_questions_under_one_id_are_refused(tmp_path: Path) -> None:
    path = rows(
        tmp_path,
        {"id": "1", "query": "when?", "document": "ctr.md"},
        {"id": "1", "query": "where?", "document": "wire.md"},
    )
    with pytest.raises(ExamError, match="line 2"):
        read_table(path, LIBRARY)


def test_metadata_may_have_any_names(tmp_path: Path) -> None:
    row = {"query": "?", "document": "wire.md", "judgments": "two people"}
    assert read_table(rows(tmp_path, row), LIBRARY).queries[0].metadata == {"judgments": "two people"}


# ---------------------------------------------------------------- CSV


def test_csv_rows_of_one_query_are_one_question(tmp_path: Path) -> None:
    path = file(tmp_path, "q.csv", "query,document,grade", "when?,ctr.md,2", "when?,wire.md,1", "why?,ctr.md,")
    assert by_text(read_table(path, LIBRARY)) == {
        "when?": [("sops/ctr.md", None, None, 2), ("sops/wire.md", None, None, 1)],
        "why?": [("sops/ctr.md", None, None, 1)],
    }


def test_row_inserted_above_changes_no_other_id(tmp_path: Path) -> None:
    few = read_table(file(tmp_path, "q.csv", "query,document", "when?,ctr.md", "why?,ctr.md"), LIBRARY)
    more = read_table(file(tmp_path, "q.csv", "query,document", "who?,wire.md", "when?,ctr.md", "why?,ctr.md"), LIBRARY)
    ids = {q.text: q.id for q in more.queries}
    assert {q.text: q.id for q in few.queries} == {"when?": ids["when?"], "why?": ids["why?"]}
    assert len(set(ids.values())) == 3


def test_questions_of_the_same_words_keep_the_ids_that_tell_them_apart(tmp_path: Path) -> None:
    path = file(tmp_path, "q.csv", "id,query,document", "x,when?,ctr.md", "y,when?,wire.md", ",when?,How to file.md")
    found = read_table(path, LIBRARY).queries
    assert [q.id for q in found][:2] == ["x", "y"]
    assert len({q.id for q in found}) == 3


def test_row_without_an_id_joins_the_question_that_an_export_gave_its_id(tmp_path: Path) -> None:
    exam = read_table(file(tmp_path, "q.csv", "query,document", "when?,ctr.md"), LIBRARY)
    write_csv(exam, tmp_path / "out.csv")
    with (tmp_path / "out.csv").open("a", encoding="utf-8") as out:
        out.write(",when?,questions,wire.md,,,1\n")
    (found,) = read_table(tmp_path / "out.csv", LIBRARY).queries
    assert [j.document for j in found.judgments] == ["sops/ctr.md", "sops/wire.md"]


def test_csv_takes_ids_families_and_passages(tmp_path: Path) -> None:
    path = file(tmp_path, "q.csv", "id,query,document,text,family", 'x,when?,ctr.md,"within 15 days",deadlines')
    (found,) = read_table(path, LIBRARY).queries
    assert (found.id, found.family, found.judgments[0].quote) == ("x", "deadlines", "within 15 days")


def test_csv_needs_its_columns(tmp_path: Path) -> None:
    with pytest.raises(ExamError, match=r"needs the columns query and document; it has: question, file\."):
        read_table(file(tmp_path, "q.csv", "question,file", "a,b"), LIBRARY)


def test_bad_csv_row_is_listed_by_its_line(tmp_path: Path) -> None:
    with pytest.raises(ExamError, match=r"line 3: there is no document 'nope\.md'"):
        read_table(file(tmp_path, "q.csv", "query,document", "a,wire.md", "b,nope.md"), LIBRARY)


def test_csv_row_with_a_comma_too_many_is_listed_by_its_line(tmp_path: Path) -> None:
    with pytest.raises(ExamError, match="line 2"):
        read_table(file(tmp_path, "q.csv", "document,query", "wire.md,when, if ever?"), LIBRARY)


# ---------------------------------------------------------------- BEIR


def beir(folder: Path, *qrels: str, queries: tuple[str, ...] = ('{"_id": "1", "text": "when?"}',)) -> Path:
    file(folder, "queries.jsonl", *queries)
    file(folder, "qrels/test.tsv", "query-id\tcorpus-id\tscore", *qrels)
    return folder


def test_beir_judgments_are_graded_documents(tmp_path: Path) -> None:
    found = read_beir(beir(tmp_path, "1\tsops/ctr.md\t2", "1\tsops/wire.md\t0"), LIBRARY)
    assert golds(found) == {"1": [("sops/ctr.md", None, None, 2), ("sops/wire.md", None, None, 0)]}


def test_beir_takes_only_the_queries_of_the_split(tmp_path: Path) -> None:
    two = ('{"_id": "1", "text": "when?"}', '{"_id": "2", "text": "who?"}')
    assert [q.id for q in read_beir(beir(tmp_path, "2\tsops/ctr.md\t1", queries=two), LIBRARY).queries] == ["2"]


def test_beir_qrels_without_a_header_lose_no_row(tmp_path: Path) -> None:
    folder = beir(tmp_path)
    file(folder, "qrels/test.tsv", "1\tsops/ctr.md\t1")
    assert len(read_beir(folder, LIBRARY).queries) == 1


def test_beir_spans_replace_whole_documents(tmp_path: Path) -> None:
    folder = beir(tmp_path, "1\tsops/ctr.md\t1")
    file(folder, "spans.jsonl", json.dumps({"query-id": "1", "corpus-id": "sops/ctr.md", "start": 5, "end": 12}))
    assert golds(read_beir(folder, LIBRARY)) == {"1": [("sops/ctr.md", 5, 12, 1)]}


def test_unknown_split_lists_the_splits(tmp_path: Path) -> None:
    with pytest.raises(ExamError, match=r"has no split 'dev'\. Splits: test\."):
        read_beir(beir(tmp_path), LIBRARY, "dev")


@each(
    ("line", "complaint"),
    [
        ("9\tsops/ctr.md\t1", "there is no query '9' in queries.jsonl"),
        ("1\tnope.md\t1", "there is no document 'nope.md'"),
        ("1\tsops/ctr.md", ""),
        ("1\tsops/ctr.md\thigh", "high"),
    ],
)
def test_bad_beir_judgment_is_listed_by_its_line(tmp_path: Path, line: str, complaint: str) -> None:
    with pytest.raises(ExamError, match=rf"test\.tsv has 1 bad rows.*\n  line 3: .*{complaint}"):
        read_beir(beir(tmp_path, "1\tsops/wire.md\t1", line), LIBRARY)


def test_bad_beir_query_is_listed_by_its_line(tmp_path: Path) -> None:
    with pytest.raises(ExamError, match=r"queries\.jsonl has 1 bad rows.*\n  line 1: no _id and text"):
        read_beir(beir(tmp_path, queries=('{"id": 1}',)), LIBRARY)


def test_blank_line_in_beir_queries_is_passed_over(tmp_path: Path) -> None:
    folder = beir(tmp_path, "1\tsops/ctr.md\t1", queries=('{"_id": "1", "text": "when?"}', ""))
    assert len(read_beir(folder, LIBRARY).queries) == 1


def test_beir_split_without_judgments_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExamError, match="no questions"):
        read_beir(beir(tmp_path), LIBRARY)


# ---------------------------------------------------------------- TREC

CLASSIC = "<top>\n<num> Number: 401\n<title> when to file\n<desc> Description:\nlong\n</top>"
XML = '<topics><topic number="401"><query>when to file</query><question>?</question></topic></topics>'


@each("topics", [CLASSIC, XML, "401\twhen to file"])
def test_trec_topics_of_every_kind(tmp_path: Path, topics: str) -> None:
    qrels = file(tmp_path, "qrels.txt", "401 0 sops/ctr.md 2", "401 0 sops/wire.md 0")
    found = read_trec(file(tmp_path, "topics.txt", topics), qrels, LIBRARY)
    assert [(q.id, q.text) for q in found.queries] == [("401", "when to file")]
    assert golds(found) == {"401": [("sops/ctr.md", None, None, 2), ("sops/wire.md", None, None, 0)]}


def test_negative_trec_grades_mean_not_relevant(tmp_path: Path) -> None:
    qrels = file(tmp_path, "qrels.txt", "401 0 sops/ctr.md -2")
    found = read_trec(file(tmp_path, "topics.txt", CLASSIC), qrels, LIBRARY)
    assert found.queries[0].judgments[0].grade == 0


@each(
    ("line", "complaint"),
    [
        ("402 0 sops/ctr.md 1", "there is no topic '402' in topics.txt"),
        ("401 0 nope.md 1", "there is no document 'nope.md'"),
        ("401 sops/ctr.md 1", "not 'query 0 document grade'"),
        ("401 0 sops/ctr.md one", "not 'query 0 document grade'"),
    ],
)
def test_bad_trec_judgment_is_listed_by_its_line(tmp_path: Path, line: str, complaint: str) -> None:
    qrels = file(tmp_path, "qrels.txt", "401 0 sops/ctr.md 1", line)
    with pytest.raises(ExamError, match=rf"qrels\.txt has 1 bad rows.*\n  line 2: {complaint}"):
        read_trec(file(tmp_path, "topics.txt", CLASSIC), qrels, LIBRARY)


def test_bad_trec_topic_is_listed_by_its_line(tmp_path: Path) -> None:
    qrels = file(tmp_path, "qrels.txt", "401 0 sops/ctr.md 1")
    with pytest.raises(ExamError, match=r"topics\.txt has 1 bad rows.*\n  line 2: not 'id TAB text'"):
        read_trec(file(tmp_path, "topics.txt", "401\twhen", "402 who"), qrels, LIBRARY)


def test_trec_topic_without_text_is_refused(tmp_path: Path) -> None:
    qrels = file(tmp_path, "qrels.txt", "401 0 sops/ctr.md 1")
    with pytest.raises(ExamError, match="401"):
        read_trec(file(tmp_path, "topics.txt", "<top><num> 401 <desc> long </top>"), qrels, LIBRARY)


# ---------------------------------------------------------------- there and back

SPANS = Exam(
    "spans",
    (
        ExamQuery("1", "when to file", (Judgment("sops/ctr.md", 5, 12, 1, "the CTR"),), "deadlines", 1 / 2),
        ExamQuery("2", "which wires", (Judgment("sops/wire.md", 0, 5, 1, "Wires"),), "wires", 1 / 2),
    ),
)
GRADED = Exam("graded", (query("1", "when?", Judgment("sops/ctr.md", grade=3), Judgment("sops/wire.md", grade=1)),))


@each("exam", [SPANS, GRADED])
def test_jsonl_comes_back_with_its_judgments(tmp_path: Path, exam: Exam) -> None:
    write_jsonl(exam, tmp_path / "out" / "exam.jsonl")
    back = read_table(tmp_path / "out" / "exam.jsonl", LIBRARY)
    assert [(q.id, q.text, q.family, q.judgments) for q in back.queries] == [
        (q.id, q.text, q.family, q.judgments) for q in exam.queries
    ]


@each("exam", [SPANS, GRADED])
def test_csv_comes_back_with_its_judgments(tmp_path: Path, exam: Exam) -> None:
    write_csv(exam, tmp_path / "out" / "exam.csv")
    back = read_table(tmp_path / "out" / "exam.csv", LIBRARY)
    assert [(q.id, q.text, q.family, q.judgments) for q in back.queries] == [
        (q.id, q.text, q.family, q.judgments) for q in exam.queries
    ]


def test_jsonl_comes_back_with_its_fingerprint(tmp_path: Path) -> None:
    exam = read_table(rows(tmp_path, {"query": "days zebra", "document": "ctr.md", "text": "within 15 days"}), LIBRARY)
    write_jsonl(exam, tmp_path / "back.jsonl")
    assert read_table(tmp_path / "back.jsonl", LIBRARY).fingerprint == exam.fingerprint


def test_jsonl_comes_back_with_odd_line_separators_in_a_question(tmp_path: Path) -> None:
    write_jsonl(Exam("e", (query("1", "when\u2028to file", Judgment("sops/ctr.md")),)), tmp_path / "e.jsonl")
    assert read_table(tmp_path / "e.jsonl", LIBRARY).queries[0].text == "when\u2028to file"


@each("exam", [SPANS, GRADED])
def test_beir_comes_back_with_its_judgments(tmp_path: Path, exam: Exam) -> None:
    write_beir(exam, tmp_path)
    assert golds(read_beir(tmp_path, LIBRARY)) == golds(exam)


def test_beir_comes_back_with_graded_spans(tmp_path: Path) -> None:
    exam = Exam("e", (query("1", "when?", Judgment("sops/ctr.md", 5, 12, 3), Judgment("sops/wire.md", 0, 5, 1)),))
    write_beir(exam, tmp_path)
    assert golds(read_beir(tmp_path, LIBRARY)) == golds(exam)


def test_beir_comes_back_with_its_families(tmp_path: Path) -> None:
    write_beir(SPANS, tmp_path)
    assert read_beir(tmp_path, LIBRARY).families() == SPANS.families()


def test_trec_comes_back_with_its_grades(tmp_path: Path) -> None:
    write_trec(GRADED, tmp_path)
    assert golds(read_trec(tmp_path / "topics.tsv", tmp_path / "qrels.txt", LIBRARY)) == golds(GRADED)


def test_trec_judges_the_documents_of_gold_spans(tmp_path: Path) -> None:
    write_trec(SPANS, tmp_path)
    assert (tmp_path / "qrels.txt").read_text(encoding="utf-8") == "1 0 sops/ctr.md 1\n2 0 sops/wire.md 1\n"


def test_trec_comes_back_with_spaces_in_a_file_name(tmp_path: Path) -> None:
    exam = Exam("e", (query("1", "where?", Judgment("How to file.md")),))
    write_trec(exam, tmp_path)
    assert golds(read_trec(tmp_path / "topics.tsv", tmp_path / "qrels.txt", LIBRARY)) == golds(exam)
