"""Inputs that broke a parser once, reduced. `benchmarks/faults/fuzz.py` found them and looks for more."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from surefind.base.access import PathRule
from surefind.base.disk.wildcards import Wildcards
from surefind.base.errors import ConfigError, SourceError, SpecError, UsageError
from surefind.base.types import Document
from surefind.engine.enrich.neighbors import Neighbors
from surefind.engine.files.git import source
from surefind.engine.ingest.csv import Csv
from surefind.engine.ingest.eml import Eml
from surefind.engine.ingest.html import Html
from surefind.engine.llm.address import parse_model
from surefind.engine.llm.ask import read_object
from surefind.engine.net.trust import is_local
from surefind.engine.search.pipeline import Pipeline
from surefind.engine.services import LocalServices
from surefind.engine.write.layout import Layout
from surefind.kb.settings.config import parse_settings
from surefind.kb.settings.file import changed
from surefind.lab.exam.formats.library import Library
from surefind.lab.exam.formats.questions import read_questions
from surefind.lab.exam.store import ExamStore
from surefind.lab.measure.ranks import parse_measure

DIGITS = "9" * 5000
"""Python refuses to convert more than 4,300 digits."""


def seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


# ---------------------------------------------------------------- what the owner writes


def test_measure_with_thousands_of_digits_is_refused() -> None:
    with pytest.raises(SpecError, match="rank"):
        parse_measure(f"nDCG@{DIGITS}")


def test_setting_with_thousands_of_digits_is_refused() -> None:
    with pytest.raises(ConfigError, match="not valid TOML"):
        parse_settings(f"[search]\nk = {DIGITS}\n", "surefind.toml")
    with pytest.raises(ConfigError, match="not valid TOML"):
        changed(f"[search]\nk = {DIGITS}\n", {("search", "k"): 7}, "surefind.toml")


def test_depth_with_thousands_of_digits_is_refused() -> None:
    with pytest.raises(SpecError, match="depth"):
        Pipeline.parse(f"bm25 @{DIGITS}")


@each("text", ["http://[::1/v1#m", "https://[x]/v1#m", "https://a]/v1#m"])
def test_model_with_a_broken_host_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a URL"):
        parse_model(text)
    assert not is_local(text)


@each("text", ["git+https://[::1/a.git", "git+https://example.org/\ud800.git", "git+ssh://a.org/b@c@"])
def test_repository_with_a_broken_host_or_name_is_refused(text: str) -> None:
    with pytest.raises(SourceError, match="not a repository URL"):
        source(text)


@each("text", ["git+https://example.org/a.git@v1#b", "git+https://example.org/a.git@v1?b=c"])
def test_repository_with_a_query_or_fragment_is_refused(text: str) -> None:
    """Its text form, with the revision at the end, would be read as another repository."""
    with pytest.raises(SourceError, match=r"contains \? or #"):
        source(text)


def test_repository_with_many_slashes_reads_back() -> None:
    origin = source("git+file://////tmp/a@main")
    assert source(str(origin)) == origin
    assert str(origin) == "git+file:///tmp/a@main"


def test_address_longer_than_a_file_name_is_an_address() -> None:
    with pytest.raises(SourceError, match="is a URL, not a path"):
        source(f"git@example.org:{'a' * 5000}.git")


def test_path_rule_with_many_wildcards_takes_linear_time() -> None:
    rule = PathRule("**/a" * 30 + "/**/*a*b*c*", ("hr",))
    assert seconds(lambda: rule.covers("a/" * 2000 + "a" * 200)) < 1


@given(
    st.lists(st.sampled_from(["a", "b", "/", "*", "**", "**/", "?"]), max_size=7).map("".join),
    st.text("ab/", max_size=9),
)
def test_both_ways_to_match_a_path_agree(pattern: str, path: str) -> None:
    rule = Wildcards(pattern)
    assert rule.cover_in_linear_time(path) == (rule._expression.fullmatch(path) is not None)


# ---------------------------------------------------------------- documents


def test_tables_within_tables_take_linear_time(tmp_path: Path) -> None:
    page = tmp_path / "a.html"
    page.write_text(("<table><tr><td>a " * 90 + "</table>" * 90) * 8)
    assert seconds(lambda: list(Html().read(page, "a.html"))) < 5


@each("span", [DIGITS, "²", "-1", "", "x"])
def test_cell_may_span_a_strange_number_of_columns(tmp_path: Path, span: str) -> None:
    page = tmp_path / "a.html"
    page.write_text(f"<table><tr><th colspan='{span}'>fee<th>b</tr><tr><td rowspan='{span}'>25<td>x</table>")
    (document,) = Html().read(page, "a.html")
    assert "fee" in document.text


@each("cell", ['"' * 3000, '"a' * 3000, ",'" * 3000, ';"a" ' * 1500])
def test_table_with_a_row_of_quotes_takes_linear_time(tmp_path: Path, cell: str) -> None:
    table = tmp_path / "a.csv"
    table.write_text(f"id,title\n1,{cell}\n2,two\n")
    assert seconds(lambda: list(Csv().read(table, "a.csv"))) < 1


@each("tag", [f"<h{DIGITS}>", f"<ol start={DIGITS}><li>", "<ol start='½'><li>"])
def test_tag_may_have_a_strange_number(tmp_path: Path, tag: str) -> None:
    page = tmp_path / "a.html"
    page.write_text(f"<body>{tag}fee 25")
    (document,) = Html().read(page, "a.html")
    assert "fee 25" in document.text


@each("tag", ["<th>a", "<tr>", "<table><tr><td>a ", "<div>"])
def test_page_that_nests_tags_without_end_is_refused_at_once(tmp_path: Path, tag: str) -> None:
    page = tmp_path / "a.html"
    page.write_text("<table><tr>" + tag * (20_000 // len(tag)))
    started = time.process_time()
    with pytest.raises(SourceError, match="nests its tags"):
        list(Html().read(page, "a.html"))
    assert time.process_time() - started < 2


def test_bar_in_a_cell_is_escaped_and_one_in_text_is_not(tmp_path: Path) -> None:
    page = tmp_path / "a.html"
    page.write_text("<p>x|y</p><table><tr><th>a<th>b</tr><tr><td>c|d</td><td>e</td></tr></table>")
    (document,) = Html().read(page, "a.html")
    assert "x|y" in document.text
    assert "c\\|d" in document.text


def test_page_that_the_parser_rejects_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which pages it rejects depends on the release of Python, so a parser that rejects every page is used here."""

    def reject(*given: object) -> None:
        raise AssertionError("unknown status keyword 'CDAain'")

    monkeypatch.setattr("html.parser.HTMLParser.feed", reject)
    page = tmp_path / "a.html"
    page.write_text("<p>a")
    with pytest.raises(SourceError, match=r"not HTML that can be parsed.*CDAain"):
        list(Html().read(page, "a.html"))


def test_page_that_some_parsers_reject_is_refused_or_read(tmp_path: Path) -> None:
    page = tmp_path / "a.html"
    page.write_text("<p>a <![CDAain[ b")
    try:
        (document,) = Html().read(page, "a.html")
    except SourceError as error:
        assert "not HTML that can be parsed" in str(error)
    else:
        assert document.text.startswith("a")


@each(
    "header",
    [
        "Date: Mon, 1 Jan 99999999999999999999 00:00:00 +0000",
        "To: a@",
        'From: "',
        "Date: 1 Jan 2025 00:00:00 +99999999999",
    ],
)
def test_mail_with_a_header_that_no_library_reads_is_read(tmp_path: Path, header: str) -> None:
    mail = tmp_path / "a.eml"
    mail.write_text(f"Subject: Vault\n{header}\n\nThe code changed.\n")
    (document,) = Eml().read(mail, "a.eml")
    assert "The code changed." in document.text
    assert document.title == "Vault"


@each("charset", ["a\0b", "utf-8\0", "nothing"])
def test_mail_in_a_charset_that_cannot_exist_is_read(tmp_path: Path, charset: str) -> None:
    mail = tmp_path / "a.eml"
    attached = (
        f'--b\nContent-Type: text/plain; charset="{charset}"\nContent-Disposition: attachment; filename=n.txt\n\n\xe4\n'
    )
    body = f'--b\nContent-Type: text/plain; charset="{charset}"\n\nThe code changed.\n'
    head = "Subject: Vault\nContent-Type: multipart/mixed; boundary=b\n\n"
    mail.write_bytes(f"{head}{body}{attached}--b--\n".encode("latin-1"))
    assert "The code changed." in next(iter(Eml().read(mail, "a.eml"))).text


def test_context_of_many_chunks_with_one_long_sentence_takes_linear_time() -> None:
    text = "# A\n\n" + "word, " * 4000 + "end.\n"
    document = Document("a.md", text, "A")
    chunks = Layout.parse("fixed(tokens=5, overlap=0)").cut(document, LocalServices())
    assert seconds(lambda: Neighbors().enrich(document, chunks, LocalServices())) < 1


# ---------------------------------------------------------------- exams

LIBRARY = Library([Document("a.md", "Text of a.", "A")])
HALF = '{"query": "half of a \\ud83d", "document": "a.md"}\n'


def test_half_of_a_surrogate_pair_in_a_chat_is_left_out(tmp_path: Path) -> None:
    chat = tmp_path / "chat.jsonl"
    chat.write_text('{"role": "user", "content": "recall a wire transfer \\ud83d"}\n')
    store = ExamStore(tmp_path / "exams")
    store.candidates("real").collect(read_questions(chat), chat.name)
    assert [one.text for one in store.candidates("real").all()] == ["recall a wire transfer"]


# ---------------------------------------------------------------- answers of models


@each("part", ['{"a":', "{", '{"'])
def test_answer_that_opens_objects_without_end_takes_linear_time(part: str) -> None:
    assert seconds(lambda: read_object(part * (100_000 // len(part)))) < 1


def test_last_object_of_an_answer_is_read() -> None:
    assert read_object('see {"a": {"b": 1}} and {"c": 2}') == {"c": 2}
