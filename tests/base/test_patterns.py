"""No regular expression of the package, and no function that reads text, takes more than linear time."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator

import pytest

from pattern_helpers import growth, patterns, runner, texts
from surefind.base.text.blocks import paragraphs, title_of
from surefind.base.text.languages import language_of
from surefind.base.text.words import sentence_spans, token_spans
from surefind.doors.cli._hits import snippet, sought
from surefind.engine.analyze.english import English
from surefind.engine.analyze.plain import Plain
from surefind.engine.extract.phrases import Phrases
from surefind.engine.extract.regex import Regex
from surefind.engine.ingest import code
from surefind.engine.ingest.markdown import first_heading
from surefind.engine.services import LocalServices
from surefind.lab.exam.families.names import named
from surefind.lab.exam.overlap import plain, readable

AT_RUN_TIME = {
    "surefind.lab.exam.overlap: '|'.join(alternatives)",  # its results are module constants
    "surefind.lab.exam.by_llm.questions.match",  # the words of an answer, escaped
    "surefind.lab.exam.by_llm.write.names",  # names, escaped
    'surefind.base.spec: f\'"(?:[^"\\\\\\\\]|\\\\\\\\.)*"|[()\\\\[\\\\]]|{re.escape(separator)}\'',  # a spec
    "surefind.base.prompts.fence: f\"{_written('<')}(?={_SKIPPED}(?:{slash}){{0,3}}(?:{names})(",  # marks
    "surefind.base.text.words: expression",  # its callers' expressions are found where they call
    "surefind.base.disk.wildcards: f'(?:{expression})(?:/.*)?'",  # a rule of the settings, for short paths
}
"""The patterns that are made while the program runs: what they are made of, and what they read."""


@pytest.fixture(autouse=True)
def not_for_ever() -> Iterator[None]:
    """Ends a test that hangs: the engine for regular expressions looks for signals."""

    def late(number: int, frame: object) -> None:
        raise AssertionError("took too long")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(300)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.growth
def test_every_pattern_takes_linear_time() -> None:
    found, unknown = patterns()
    assert len(found) > 150 and set(unknown) == AT_RUN_TIME
    slow = []
    for one in found:
        for call in one.calls:
            work = runner(one.pattern, call)
            for make in texts(one.pattern):
                if times := growth(work, make):
                    slow.append(f"{one.where}.{call}: {times:.0f} times longer on four times {make.__name__}")
                    break
    assert slow == []


@pytest.mark.parametrize(
    "expression",
    [
        r"_+[^\W_]+",  # reads a run of underscores again from each of them
        r"\[([^\]\n]*)\]\([^)\n]*\)",
        r"\s*\([^)]*\)",
        r"(?:public\s+)+[\w\s]*?\bname\(",
    ],
)
@pytest.mark.growth
def test_slow_patterns_would_be_noticed(expression: str) -> None:
    pattern = re.compile(expression)
    assert any(growth(runner(pattern, "finditer"), make) for make in texts(pattern))


ENGLISH = English()


def analyzed(text: str) -> object:
    return [ENGLISH.terms(token) for token in (*ENGLISH.tokens(text), *ENGLISH.query_tokens(text))]


FUNCTIONS: dict[str, Callable[[str], object]] = {
    "english": analyzed,
    "plain": lambda text: [Plain().terms(token) for token in Plain().tokens(text)],
    "phrases": lambda text: Phrases().extract([text], LocalServices()),
    "regex": lambda text: Regex().extract([text], LocalServices()),
    "code": lambda text: list(code._sections(text, "c")),
    "code, one line": lambda text: list(code._declarations([text[:2000]])),
    "headings": first_heading,
    "titles": title_of,
    "sentences": lambda text: sentence_spans(text, 0, len(text)),
    "tokens": token_spans,
    "paragraphs": paragraphs,
    "language": language_of,
    "readable": readable,
    "names": lambda text: list(named(text)),
    "plain text": plain,
    "snippets": lambda text: snippet(text, sought("a public word")),
}
TEXTS = [
    "_", "a_", "_a", "1,111", "1.", "a.", "A.", "a-", "[", "](", "[a](", "![", "<", "</", "<a ", "(",
    " (", "`", "```\n", "a ", "A ", "a\n", "\n", " ", "\t", "# ", "#", "- a\n", "> a\n", "|a", "*", "**",
    "public ", "public a(", "a b(", "a(a)", "def ", "def a(", "class a\n", "a::", "{{", "{%", "{#",
    "<!--", "http://", "a.png", ".md", "Aa", "AA_", "A A", "a@", "a'", "é", "e\u0301", "中", "中a", "の",
    "。", ". A", "! ", "? ", "a, ", "…", "1 CFR 1", "\"a", "“a", "U.S.C.",
]  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_that_reads_text_takes_linear_time(name: str) -> None:
    def maker(unit: str, end: str) -> Callable[[int], str]:
        return lambda size: unit * (size // len(unit)) + end

    slow = {
        (unit, end): times
        for unit in TEXTS
        for end in ("", "!", "a")
        if (times := growth(FUNCTIONS[name], maker(unit, end)))
    }
    assert slow == {}


def test_declarations_are_still_found() -> None:
    lines = {
        "int main(int argc, char **argv) {": "main",
        "static void run(void)": "run",
        "public static void main(String[] args) throws IOException {": "main",
        "public List<String> names()": "names",
        "void done(int a);": "",
        "public int x = f(3);": "",
        "void Foo::run(int a) : b(a) {": "Foo::run",
        "public abstract class Thing {": "Thing",
    }
    assert {line: next((name for _, _, name in code._declarations([line])), "") for line in lines} == lines
