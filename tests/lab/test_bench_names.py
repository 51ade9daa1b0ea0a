"""A configuration is found by its name: in surefind.toml, as a spec, in reports, in presets."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cases import each
from helpers import WORDS, Home
from report_helpers import bench_report, row, save_report
from surefind import KnowledgeBase, Pipeline
from surefind.base.disk.sealed import sealed, to_json, unsealed
from surefind.base.errors import ReportVersionError, SpecError, SurefindError, UsageError
from surefind.lab.bench.names import find, find_in, find_pipeline
from surefind.lab.bench.plan import Contender, distinct, preset, preset_names
from surefind.lab.bench.saved import read_report, reports_in, saved_configs


@pytest.fixture
def kb(home: Home) -> KnowledgeBase:
    return home.open()


def spec(kb: KnowledgeBase, name: str) -> str:
    return str(find(kb, name).pipeline)


def parsed(text: str) -> str:
    return str(Pipeline.parse(text))


# ---------------------------------------------------------------- every place


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("words", "bm25"),
        ("dense", "dense"),
        ("tfidf", "tfidf"),
        ("bm25 + dense >> rrf(k=10)", "bm25 + dense >> rrf(k=10)"),
        ("bm25 @50", "bm25 @50"),
        ("Vector", "dense"),
        ("Convex α=0.5", "bm25 + dense >> convex(alpha=0.5)"),
        ("RSF", "bm25 + dense >> rsf"),
        ("RRF k=60 (vector 2:1)", "bm25 + dense >> rrf(k=60, weights=[1, 2])"),
        ("BM25 + dense", "bm25 + dense >> weighted(weights=[1, 1], missing=score)"),
    ],
)
def test_name_without_a_report(kb: KnowledgeBase, name: str, expected: str) -> None:
    assert spec(kb, name) == parsed(expected)


@pytest.mark.parametrize("name", preset_names())
def test_every_row_of_a_preset_is_found_by_its_name(kb: KnowledgeBase, name: str) -> None:
    for contender in preset(name)[0]:
        for known in (contender.name, *contender.aliases):
            found = find(kb, known)
            layout = found.layout or (kb.settings.layout if contender.layout else None)
            assert len(distinct([contender, Contender("", found.pipeline, layout)])) == 1, known


def test_presets_never_use_one_name_for_two_configurations() -> None:
    """The first preset would win without a word."""
    named: dict[str, Contender] = {}
    for name in preset_names():
        for contender in preset(name)[0]:
            for known in (contender.name, *contender.aliases):
                other = named.setdefault(known, contender)
                assert len(distinct([contender, Contender(known, other.pipeline, other.layout)])) == 1, known


def test_row_of_a_report_is_found_by_its_name_alias_and_label(home: Home, kb: KnowledgeBase) -> None:
    save_report(home.folder, "a", row("Convex α=0.9", "bm25 + tfidf >> rrf(k=9)", aliases=("mine", "other")))
    for name in ("Convex α=0.9", "mine", "Convex α=0.9 (also mine, other)"):
        assert spec(kb, name) == parsed("bm25 + tfidf >> rrf(k=9)")


def test_row_that_a_real_name_was_given_to_keeps_its_pipelines_name(home: Home, kb: KnowledgeBase) -> None:
    save_report(home.folder, "a", row("whole | fast", "bm25(k1=2)", "whole", pipeline="fast"))
    found = find(kb, "whole | fast")
    assert (found.name, found.pipeline.name, str(found.layout)) == ("whole | fast", "fast", "whole")


def test_layout_of_the_settings_is_no_other_layout(home: Home, kb: KnowledgeBase) -> None:
    save_report(home.folder, "a", row("here", "bm25", str(kb.settings.layout)), row("there", "bm25", "whole"))
    assert find(kb, "here").layout is None and str(find(kb, "there").layout) == "whole"


def test_layout_counts_only_where_layouts_were_compared(home: Home, kb: KnowledgeBase) -> None:
    folder = save_report(home.folder, "a", row("x", "bm25(k1=2)", "whole"))
    data = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    (folder / "report.json").write_text(
        json.dumps(sealed({**unsealed(data), "compares_layouts": False})), encoding="utf-8"
    )
    assert find(kb, "x").layout is None


# ---------------------------------------------------------------- who comes first


def test_settings_come_before_specs_and_reports(home: Home) -> None:
    home.configure(WORDS + '\n[pipelines.dense]\nretrieve = ["tfidf"]\n[pipelines.Vector]\nretrieve = ["bm25(k1=2)"]\n')
    save_report(home.folder, "a", row("words", "bm25(k1=9)"), row("Vector", "bm25(k1=9)"))
    with home.open() as kb:
        assert [spec(kb, name) for name in ("words", "dense", "Vector")] == list(
            map(parsed, ("bm25", "tfidf", "bm25(k1=2)"))
        )


def test_specs_come_before_reports(home: Home, kb: KnowledgeBase) -> None:
    save_report(home.folder, "a", row("dense", "bm25(k1=9)"))
    assert spec(kb, "dense") == parsed("dense")


def test_reports_come_before_presets(home: Home, kb: KnowledgeBase) -> None:
    save_report(home.folder, "a", row("Vector", "bm25(k1=9)"))
    assert spec(kb, "Vector") == parsed("bm25(k1=9)")


def test_newest_report_that_has_the_name_wins(home: Home, kb: KnowledgeBase) -> None:
    save_report(home.folder, "c", row("x", "bm25(k1=1)"), row("only here", "bm25(k1=7)"), age=300)
    save_report(home.folder, "a", row("x", "bm25(k1=2)"), age=100)
    save_report(home.folder, "b", row("x", "bm25(k1=3)"), age=200)
    assert [report.path.name for report in reports_in(kb.data)] == ["a", "b", "c"]
    assert spec(kb, "x") == parsed("bm25(k1=2)")
    assert spec(kb, "only here") == parsed("bm25(k1=7)")


# ---------------------------------------------------------------- other spellings


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("WORDS", "bm25"),
        ("vector", "dense"),
        ("Dense", "dense"),
        ("convex alpha=0.5", "bm25 + dense >> convex(alpha=0.5)"),
        ("convex Α=0.5", "bm25 + dense >> convex(alpha=0.5)"),
        ("  rrf   k=60 ", "bm25 + dense >> rrf(k=60)"),
    ],
)
def test_case_and_alpha_do_not_matter(kb: KnowledgeBase, name: str, expected: str) -> None:
    assert spec(kb, name) == parsed(expected)


def test_names_that_differ_only_in_case_are_found_by_their_exact_spelling(home: Home) -> None:
    home.configure(WORDS + '\n[pipelines.hybrid]\nretrieve = ["tfidf"]\n')
    with home.open() as kb:
        assert spec(kb, "hybrid") == parsed("tfidf")
        assert spec(kb, "Hybrid") == parsed("bm25 + dense >> convex(alpha=0.5, missing=score)")
        with pytest.raises(UsageError) as caught:
            find(kb, "HYBRID")
    assert "'HYBRID' is ambiguous: it may be 'hybrid' of surefind.toml (tfidf" in str(caught.value)
    assert "or 'Hybrid' of the preset cascade (bm25 + dense" in str(caught.value)


def test_names_that_differ_only_in_case_are_not_ambiguous_if_they_mean_the_same(home: Home) -> None:
    home.configure('[pipelines.hybrid]\nretrieve = ["bm25", "dense"]\nfuse = "convex(alpha=0.5, missing=score)"\n')
    with home.open() as kb:
        assert spec(kb, "HYBRID") == parsed("bm25 + dense >> convex(alpha=0.5, missing=score)")


# ---------------------------------------------------------------- what is not found


def test_unknown_name_lists_what_there_is_and_suggests(home: Home, kb: KnowledgeBase) -> None:
    save_report(home.folder, "old", row("older", "bm25"), age=99)
    save_report(home.folder, "new", row("Row α", "bm25"))
    with pytest.raises(SpecError) as caught:
        find(kb, "Vectro")
    assert str(caught.value).startswith(
        "There is no pipeline called 'Vectro'. Did you mean Vector? Choices: Row α, bm25,"
    )
    assert "words" in str(caught.value) and "older" not in str(caught.value)


def test_wrong_spec_says_what_is_wrong_with_it(kb: KnowledgeBase) -> None:
    with pytest.raises(SpecError, match=r"no retriever called 'dens'\. Did you mean dense\?"):
        find(kb, "bm25 + dens >> rrf(k=3)")
    with pytest.raises(SpecError, match=r"Or did you mean RRF k=60 \(vector 2:1\)\?"):
        find(kb, "RRF k=60 (vector 3:1)")


def test_grid_is_not_one_pipeline(kb: KnowledgeBase) -> None:
    with pytest.raises(UsageError, match=r"stands for 2 pipelines: bm25\(k1=1\.0\), bm25\(k1=2\.0\)\. Choose one"):
        find(kb, "bm25(k1=[1, 2])")


def test_command_that_uses_the_layout_of_the_settings_refuses_another(home: Home, kb: KnowledgeBase) -> None:
    save_report(home.folder, "a", row("long ones", "bm25", "whole"))
    with pytest.raises(UsageError, match=r"cuts documents in another way .*: whole\. .*surefind use 'long ones'\."):
        find_pipeline(kb, "long ones")
    assert find_pipeline(kb, None) == find_pipeline(kb, "words")


def test_row_of_one_report(home: Home) -> None:
    report = saved_configs(save_report(home.folder, "a", row("Best", "bm25"), row("dense", "bm25(k1=2)")))
    assert str(find_in(report, "dense").pipeline) == parsed("bm25(k1=2)")
    assert find_in(report, "best").name == "Best"
    with pytest.raises(UsageError, match=r"There is no row 'bst' in .*a\. Did you mean Best\? Choices: Best, dense\."):
        find_in(report, "bst")


# ---------------------------------------------------------------- reports that cannot be trusted


GOOD: dict[str, Any] = to_json(bench_report(row("x")))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format": 0}, "its format is 0, not 3"),
        ({"format": None}, "its format is None, not 3"),
        ({"rows": 3}, "got `int` - at `$.rows`"),
        ({"rows": [{}]}, "missing required field `name` - at `$.rows[0]`"),
        ({"rows": [{**GOOD["rows"][0], "spec": 3}]}, "got `int` - at `$.rows[0].spec`"),
        ({"rows": [{**GOOD["rows"][0], "name": "x\x1b[2J"}]}, "is not a name or a spec"),
        ({"compares_layouts": 1}, "got `int` - at `$.compares_layouts`"),
    ],
)
def test_report_of_another_version_is_skipped_and_named(home: Home, kb: KnowledgeBase, change: Any, says: str) -> None:
    good = save_report(home.folder, "good", row("x", "bm25(k1=3)"), age=60)
    bad = home.write(".surefind/reports/bad/report.json", json.dumps(sealed(GOOD | change)), age=0)
    assert [report.path for report in reports_in(kb.data)] == [good]
    assert spec(kb, "x") == parsed("bm25(k1=3)")
    with pytest.raises(UsageError, match=r"bad.* is not a report of .*surefind bench .*: surefind bench\.") as told:
        saved_configs(bad.parent)
    assert "\x1b" not in str(told.value) and says in str(told.value)


@each(
    ("change", "says"),
    [
        ({"rows": [{**GOOD["rows"][0], "scores": [1.0]}]}, "its lists of questions and scores differ in length"),
        ({"rows": [{**GOOD["rows"][0], "measures": {}}]}, "a row lacks a measure"),
        (
            {"rows": [{**GOOD["rows"][0], "latency_ms": {"p50": "fast"}}]},
            "Expected `float`, got `str` - at `$.rows[0].latency_ms.p50`",
        ),
        ({"exam": [1]}, "Expected `object`, got `array` - at `$.exam`"),
        ({"query_ids": None}, "Expected `array`, got `null` - at `$.query_ids`"),
        (
            {"leakage": {"text": "", "families": {}, "bands": {"low": 0.5}}},
            "Expected `int`, got `float` - at `$.leakage.bands[...]`",
        ),
    ],
)
def test_report_with_an_odd_field_is_named(tmp_path: Path, change: Any, says: str) -> None:
    (tmp_path / "report.json").write_text(json.dumps(sealed(GOOD | change)), encoding="utf-8")
    with pytest.raises(ReportVersionError) as told:
        read_report(tmp_path)
    assert str(told.value) == (
        f"{tmp_path / 'report.json'} is not a report of this version of surefind bench ({says}). Write a new one with: "
        "surefind bench."
    )


@pytest.mark.parametrize("content", ["{", "[]", "7", '"rows"', "{}", "[" * 100_000, b"\xff\xfe", '{"chfcksum": 1}'])
def test_damaged_report_is_named(home: Home, kb: KnowledgeBase, content: str | bytes) -> None:
    """An earlier report must not take its place in silence."""
    save_report(home.folder, "good", row("x", "bm25(k1=3)"), age=60)
    bad = home.write(".surefind/reports/bad/report.json", content, age=0)
    for read in (lambda: list(reports_in(kb.data)), lambda: saved_configs(bad.parent), lambda: spec(kb, "x")):
        with pytest.raises(UsageError, match=r"bad.report\.json is damaged or was edited"):
            read()


def test_missing_report_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none cannot be read \(No such file or directory\)"):
        saved_configs(tmp_path / "none")


@pytest.mark.parametrize(
    "spec", ["__import__('os').system('touch hacked')", "../../etc/passwd", "os.system(x=1)", "bm25(analyzer=../x)"]
)
def test_spec_of_a_report_can_do_no_more_than_one_of_the_settings(
    home: Home, kb: KnowledgeBase, spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home.folder)
    save_report(home.folder, "a", replace(row("x"), spec=spec))
    before = sorted(home.folder.iterdir())
    with pytest.raises(SurefindError, match=r"'x' of the report .* cannot be used here\."):
        str(find(kb, "x").pipeline)
    assert sorted(home.folder.iterdir()) == before
