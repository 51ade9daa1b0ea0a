"""surefind.toml: what it may say, and complaints that name file, line and choices."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases import each
from surefind.base.errors import ConfigError
from surefind.engine.search.pipeline import Pipeline
from surefind.kb.settings.config import TEMPLATE, default_settings, load_settings, parse_settings
from surefind.kb.settings.template import BASES


def complaint(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_settings(text, "surefind.toml")
    return str(caught.value)


def test_missing_file_means_the_defaults(tmp_path: Path) -> None:
    assert load_settings(tmp_path / "surefind.toml") == default_settings()


def test_empty_file_means_the_defaults() -> None:
    assert parse_settings("", "surefind.toml") == default_settings()


def test_template_says_what_the_defaults_are() -> None:
    settings = parse_settings(TEMPLATE, "surefind.toml")
    assert str(settings.layout) == "hierarchical(parent=1500, child=250, overlap=0) + headings"
    assert settings.auto and settings.named(settings.pipeline) == Pipeline.parse(BASES["pair"], "pair")
    assert settings.k == 10


def test_one_setting_leaves_the_others_as_they_are() -> None:
    settings = parse_settings('[index]\nchunk = "whole"\n', "surefind.toml")
    assert str(settings.layout) == "whole + headings"
    assert settings.pipelines == default_settings().pipelines


def test_pipeline_takes_depth_and_fuser() -> None:
    text = '[search]\npipeline = "p"\n[pipelines.p]\nretrieve = ["bm25", "dense"]\nfuse = "rrf(k=5)"\ndepth = 30\n'
    assert parse_settings(text, "f").named("p") == Pipeline.parse("bm25 + dense @30 >> rrf(k=5)")


@each(
    ("text", "line", "words"),
    [
        (
            "\n[serach]\nk = 5\n",
            2,
            "no table [serach]. Did you mean search? Choices: access, bench, drafts, exam, index, llm",
        ),
        (
            "[search]\n\nkk = 5\n",
            3,
            "[search] has no setting 'kk'. Did you mean k? Choices: confidence, filters, k, min_confidence, pipeline.",
        ),
        ('[search]\nk = "ten"\n', 2, "k must be a whole number, not 'ten'"),
        ("[search]\nk = true\n", 2, "k must be a whole number, not True"),
        ("[search]\nk = 0\n", 2, "k must be at least 1, not 0"),
        ('[search]\nk = 5\npipeline = "hibrid"\n', 3, "no pipeline 'hibrid'. Did you mean hybrid? Choices: careful"),
        ('[index]\nenrich = []\nchunk = "fixd"\n', 3, "no chunker called 'fixd'. Did you mean fixed?"),
        ('[index]\nchunk = "fixed(tokens=0)"\n', 2, "tokens must be at least 1"),
        ('[index]\nchunk = "whole"\nenrich = ["heading"]\n', 3, "no enricher called 'heading'. Did you mean"),
        ('[index]\nchunk = ""\n', 2, "expected a stage name"),
        ('[index]\nenrich = "headings"\n', 2, "enrich must be a list, not 'headings'"),
        (
            '[sync]\nexclude = ["*.py"]\n',
            2,
            "'*.py' does not say which folders. Write '**/*.py' for every folder, or '/*.py'",
        ),
        ('[sync]\nmax_file_mb = "50"\n', 2, "max_file_mb must be a number"),
        ('[pipelines.hybrid]\n\nretrieve = ["bm26"]\n', 3, "no retriever called 'bm26'. Did you mean bm25?"),
        ('[pipelines.hybrid]\nretrieve = ["bm25", "dense"]\nfuse = "rff"\n', 3, "no fuser called 'rff'"),
        ('[pipelines.hybrid]\nretrieve = ["bm25"]\nrerank = ["x"]\n', 3, "no reranker called 'x'"),
        ('[pipelines.hybrid]\nretriever = ["bm25"]\n', 2, "has no setting 'retriever'. Did you mean retrieve?"),
        ("[pipelines.hybrid]\nretrieve = []\n", 1, "at least one retriever"),
        ('[pipelines.hybrid]\nretrieve = ["bm25"]\ndepth = 0\n', 1, "depth must be at least 1"),
        ("[exam]\nkeep_queries = 1\n", 2, "keep_queries must be true or false, not 1"),
        ("[exam]\nkeep_days = true\n", 2, "keep_days must be a whole number, not True"),
        ("[exam]\nkeep_days = 0\n", 2, "keep_days must be at least 1, not 0"),
        ("index = 5\n", 1, "index must be a table: write [index] above its lines"),
        ('\n[pipelines]\nhybrid = {retrieve = ["bm26"]}\n', 3, "no retriever called 'bm26'"),
        ('[sync]\ngate = "yes"\n', 2, "gate must be true or false, not 'yes'"),
        ("[sync]\ngate_margin = 1.5\n", 2, "gate_margin must be from 0 to 1, not 1.5"),
        ("[sync]\ngate_margin = -0.1\n", 2, "gate_margin must be from 0 to 1, not -0.1"),
        ("[pipelines]\nhybrid = 5\n", 2, "hybrid must be a table: write [pipelines.hybrid]"),
    ],
)
def test_complaint_names_file_line_and_choices(text: str, line: int, words: str) -> None:
    message = complaint(text)
    assert message.startswith(f"surefind.toml, line {line}: ")
    assert words in message


def test_broken_toml_names_file_and_line() -> None:
    assert "surefind.toml is not valid TOML" in complaint("[search]\nk = = 5\n")
    assert "line 2" in complaint("[search]\nk = = 5\n")


def test_file_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    path = tmp_path / "surefind.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=f"{path} cannot be read"):
        load_settings(path)


@each(
    "text",
    ["[index]\nenrich = [1]\n", "[pipelines.hybrid]\nretrieve = [5]\n", '[pipelines.hybrid]\nretrieve = [["bm25"]]\n'],
)
def test_list_of_something_else_than_text_is_a_complaint(text: str) -> None:
    assert "line 2" in complaint(text)


def test_gate_is_off_by_default() -> None:
    assert default_settings().gate is False
    assert default_settings().gate_margin == 0.01
    assert default_settings().standing == ""


def test_gate_settings_are_read() -> None:
    text = '[sync]\ngate = true\ngate_margin = 0.05\n\n[exam]\nstanding = "questions"\n'
    settings = parse_settings(text, "surefind.toml")
    assert (settings.gate, settings.gate_margin, settings.standing) == (True, 0.05, "questions")
