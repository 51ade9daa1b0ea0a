"""A configuration becomes the default of surefind.toml, and the file can be restored."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers import WORDS, Home
from surefind import Pipeline
from surefind.base.errors import ConfigError, NothingIndexedError, SpecError, UsageError
from surefind.engine.write.layout import Layout
from surefind.kb.adoption import SettingsChange, build, check_free, missing, prepare, prepare_undo, write
from surefind.kb.settings import file as settings_file
from surefind.kb.settings.config import TEMPLATE, load_settings

COMMENTED = """\
# about us
[search]
# it answers
pipeline = 'words'  # the fast one

[index]
chunk = "whole"     # short documents
enrich = []

[pipelines.words]
retrieve = ['bm25']
"""
HYBRID = Pipeline.parse("bm25 + tfidf >> rrf(k=10)")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "surefind.toml").write_text(COMMENTED, encoding="utf-8")
    return tmp_path


def text(folder: Path) -> str:
    return (folder / "surefind.toml").read_bytes().decode("utf-8")


def adopt(folder: Path, name: str, pipeline: Pipeline = HYBRID, layout: Layout | None = None) -> SettingsChange:
    change = prepare(folder, name, pipeline, layout)
    write(folder, change)
    return change


def undo(folder: Path) -> SettingsChange:
    change = prepare_undo(folder)
    write(folder, change)
    return change


# ---------------------------------------------------------------- what is written


def test_pipeline_is_added_and_comments_stay(folder: Path) -> None:
    adopt(folder, "Convex α=0.5")
    expected = COMMENTED.replace("pipeline = 'words'", 'pipeline = "Convex α=0.5"')
    assert text(folder) == expected + (
        '\n[pipelines."Convex α=0.5"]\nretrieve = ["bm25(k1=1.5, b=0.75, analyzer=auto)", '
        f'"{HYBRID.retrieve[1]}"]\nfuse = "rrf(k=10.0)"\n'
    )
    now = load_settings(folder / "surefind.toml")
    assert (now.pipeline, now.named(now.pipeline)) == ("Convex α=0.5", HYBRID)


def test_rerankers_and_depth_are_written(folder: Path) -> None:
    pipeline = Pipeline.parse("bm25 @50 >> cross_encoder")
    adopt(folder, "deep", pipeline)
    assert load_settings(folder / "surefind.toml").named("deep") == pipeline


@pytest.mark.parametrize(
    ("name", "spec", "expected"),
    [
        pytest.param("words", "bm25", "words", id="its own name"),
        pytest.param("BM25", "bm25(k1=1.5)", "words", id="the name of an equal pipeline"),
        pytest.param("words", "tfidf", "words (2)", id="a name that is taken by another pipeline"),
    ],
)
def test_pipeline_of_the_file_is_not_written_twice(folder: Path, name: str, spec: str, expected: str) -> None:
    adopt(folder, name, Pipeline.parse(spec))
    now = load_settings(folder / "surefind.toml")
    assert now.pipeline == expected and now.named(expected) == Pipeline.parse(spec)
    assert now.named("words") == Pipeline.parse("bm25")


def test_default_that_is_equal_stays(folder: Path) -> None:
    (folder / "surefind.toml").write_text(COMMENTED + "\n[pipelines.first]\nretrieve = ['bm25']\n", encoding="utf-8")
    assert prepare(folder, "BM25", Pipeline.parse("bm25")).empty
    assert not prepare(folder, "first", Pipeline.parse("bm25")).empty


def test_layout_is_written_and_only_its_changed_parts(folder: Path) -> None:
    adopt(folder, "words", Pipeline.parse("bm25"), Layout.read("fixed(tokens=300, overlap=0)"))
    assert text(folder) == COMMENTED.replace('"whole" ', '"fixed(tokens=300, overlap=0, unit=tokens)" ')
    adopt(folder, "words", Pipeline.parse("bm25"), Layout.read("fixed(tokens=300, overlap=0) + headings"))
    assert str(load_settings(folder / "surefind.toml").layout).endswith(" + headings")


def test_where_there_is_no_file_one_is_written_with_every_comment(tmp_path: Path) -> None:
    adopt(tmp_path, "mine")
    assert text(tmp_path).startswith(TEMPLATE.partition("[search]")[0])
    assert load_settings(tmp_path / "surefind.toml").pipeline == "mine"
    undo(tmp_path)
    assert not (tmp_path / "surefind.toml").exists()


def test_built_in_pipelines_are_kept_by_a_file_that_names_none(tmp_path: Path) -> None:
    (tmp_path / "surefind.toml").write_text("[search]\nk = 5\n", encoding="utf-8")
    before = load_settings(tmp_path / "surefind.toml")
    kept = {name: pipeline for name, pipeline in before.pipelines.items() if name != before.pipeline}
    adopt(tmp_path, "mine")
    assert load_settings(tmp_path / "surefind.toml").pipelines == {**kept, "mine": HYBRID}


@pytest.mark.parametrize(
    "settings",
    [
        WORDS,
        "search = { pipeline = 'words', k = 5 }  # ours\n\n[pipelines.words]\nretrieve = ['bm25']\n",
        "[ 'search' ]\npipeline = 'words' # ours\n[pipelines . words]\nretrieve = ['bm25']\n",
        "search.pipeline = 'words'\npipelines.words.retrieve = ['bm25']\n\n[index]\nenrich = []\n",
        "[search]\r\npipeline = 'words'\r\n\r\n[pipelines.words]\r\nretrieve = ['bm25']",
        "",
    ],
)
def test_undo_restores_the_file_to_the_byte(tmp_path: Path, settings: str) -> None:
    (tmp_path / "surefind.toml").write_bytes(settings.encode())
    adopt(tmp_path, "mine")
    assert load_settings(tmp_path / "surefind.toml").pipeline == "mine"
    assert undo(tmp_path).name == "mine"
    assert text(tmp_path) == settings


# ---------------------------------------------------------------- undo


def test_the_last_change_is_undone_and_no_other(folder: Path) -> None:
    adopt(folder, "a", Pipeline.parse("bm25(k1=1)"))
    first = text(folder)
    adopt(folder, "b", Pipeline.parse("bm25(k1=2)"))
    assert undo(folder).name == "b"
    assert text(folder) == first
    with pytest.raises(UsageError, match="nothing to undo"):
        prepare_undo(folder)


def test_file_that_was_edited_since_is_not_restored(folder: Path) -> None:
    adopt(folder, "mine", layout=Layout.read("fixed(tokens=300, overlap=0) + headings"))
    edited = text(folder) + "# new\n"
    (folder / "surefind.toml").write_text(edited, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        prepare_undo(folder)
    assert "surefind.toml was edited after 'mine' was adopted" in str(caught.value)
    assert "run: surefind use words." in str(caught.value)
    assert 'write below [index]: chunk = "whole", enrich = [].' in str(caught.value)
    assert text(folder) == edited


def test_an_edit_before_a_change_is_kept_when_it_is_undone(folder: Path) -> None:
    edited = text(folder) + "# new\n"
    (folder / "surefind.toml").write_text(edited, encoding="utf-8")
    adopt(folder, "b", Pipeline.parse("bm25(k1=2)"))
    undo(folder)
    assert text(folder) == edited


def test_change_that_was_interrupted_before_the_file_was_written_is_no_change(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adopt(folder, "a")
    first, kept = text(folder), settings_file.write_settings

    def stop(path: Path, content: str) -> None:
        if path.name == "surefind.toml":
            raise KeyboardInterrupt
        kept(path, content)

    monkeypatch.setattr("surefind.kb.adoption.write_settings", stop)
    with pytest.raises(KeyboardInterrupt):
        adopt(folder, "b", Pipeline.parse("bm25(k1=2)"))
    monkeypatch.undo()
    assert text(folder) == first
    with pytest.raises(UsageError, match="nothing to undo"):
        prepare_undo(folder)


def test_record_that_cannot_be_read_is_named(folder: Path) -> None:
    adopt(folder, "a")
    (folder / ".surefind" / "adopted.json").write_text("{", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"adopted\.json cannot be read .*Delete it"):
        prepare_undo(folder)


# ---------------------------------------------------------------- what is refused


def test_read_only_file_is_refused_and_stays(folder: Path) -> None:
    (folder / "surefind.toml").chmod(0o444)
    with pytest.raises(ConfigError, match=r"surefind\.toml is read-only and was not changed\. .*chmod u\+w "):
        prepare(folder, "mine", HYBRID)
    assert text(folder) == COMMENTED and list(folder.iterdir()) == [folder / "surefind.toml"]


def test_file_that_becomes_read_only_cannot_be_restored(folder: Path) -> None:
    adopt(folder, "mine")
    (folder / "surefind.toml").chmod(0o444)
    with pytest.raises(ConfigError, match="is read-only and was not changed"):
        prepare_undo(folder)


def test_file_that_cannot_be_written_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(settings_file.os, "fsync", broken)
    with pytest.raises(ConfigError, match=r"cannot be written \(Input/output error\)"):
        adopt(folder, "mine")
    assert text(folder) == COMMENTED


def test_file_that_was_edited_while_indexes_were_built_is_not_overwritten(folder: Path) -> None:
    change = prepare(folder, "mine", HYBRID)
    (folder / "surefind.toml").write_text(COMMENTED + "# new\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"was edited in the meantime, so it was not changed\. Run the command again"):
        write(folder, change)
    assert text(folder) == COMMENTED + "# new\n"
    with pytest.raises(UsageError, match="nothing to undo"):
        prepare_undo(folder)


@pytest.mark.parametrize(
    "settings", ["[ pipelines.mine ]\nretrieve = ['bm25']\n", "pipelines.mine.retrieve = ['bm25']\n"]
)
def test_pipeline_of_that_name_is_seen_however_it_is_spelled(tmp_path: Path, settings: str) -> None:
    (tmp_path / "surefind.toml").write_text(settings, encoding="utf-8")
    with pytest.raises(UsageError, match="already has a pipeline called 'mine'"):
        check_free(tmp_path, "mine")


def test_built_in_pipeline_is_in_the_way_where_there_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="already has a pipeline called 'words'"):
        check_free(tmp_path, "words")


# ---------------------------------------------------------------- what is built


@pytest.fixture
def synced(home: Home) -> Home:
    home.write("docs/a.md", "# Cash\n\nThe teller counts cash twice before the vault opens.")
    home.sync("docs")
    return home


def test_missing_indexes_are_named_and_built(synced: Home) -> None:
    with synced.open() as kb:
        change = prepare(kb.folder, "mine", HYBRID)
        assert missing(kb, change) == ["tfidf"]
        assert build(kb, change) == ["tfidf"]
        assert (missing(kb, change), build(kb, change)) == ([], [])


def test_another_layout_is_built_for_every_pipeline(synced: Home) -> None:
    synced.configure(WORDS + '\n[pipelines.other]\nretrieve = ["tfidf"]\n')
    synced.sync("docs")
    with synced.open() as kb:
        change = prepare(kb.folder, "words", Pipeline.parse("bm25"), Layout.read("whole"))
        assert missing(kb, change) == ["bm25", "tfidf"]
        assert build(kb, change) == ["bm25", "tfidf"]
        write(kb.folder, change)
    assert synced.found("cash", pipeline="other") == ["a.md"]


def test_fusion_that_was_not_trained_here_is_refused(synced: Home) -> None:
    with synced.open() as kb:
        change = prepare(kb.folder, "mine", Pipeline.parse("bm25 + tfidf >> learned(model=nothing)"))
        with pytest.raises(SpecError, match="nothing"):
            build(kb, change)


def test_without_documents_there_is_nothing_to_build(home: Home) -> None:
    with home.open() as kb:
        change = prepare(kb.folder, "mine", HYBRID)
        assert (missing(kb, change), build(kb, change)) == ([], [])
    assert not (home.folder / ".surefind").exists()


def test_folder_that_is_no_knowledge_base_is_refused(tmp_path: Path) -> None:
    with Home(tmp_path).open() as kb:
        (tmp_path / "surefind.toml").unlink()
        with pytest.raises(NothingIndexedError, match="There is no knowledge base"):
            build(kb, prepare(tmp_path, "mine", HYBRID))
