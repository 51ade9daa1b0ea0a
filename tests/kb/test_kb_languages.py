"""Documents in other languages: their language is metadata, their words are stemmed in it, and the default follows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from helpers import Home
from surefind import Access
from surefind.base.access import Access as Rights
from surefind.engine.inference import multilingual
from surefind.engine.store.backend import StoreSettings
from surefind.kb.answer.answering import answer
from surefind.kb.completing import choose_default
from surefind.kb.settings.config import base_of, keep_base

GERMAN = (
    "# Überweisungen\n\nAusgehende Überweisungen werden bis fünfzehn Uhr angenommen. Danach gelten sie als Aufträge "
    "des nächsten Werktags, und der Kunde erhält eine Bestätigung.\n"
)
ENGLISH = (
    "# Wires\n\nOutgoing wires are accepted until three in the afternoon. After that they count as orders of the next "
    "business day, and the member gets a confirmation.\n"
)
SPANISH = "# Tarjetas\n\nLas tarjetas perdidas deben bloquearse por teléfono antes de que pasen veinticuatro horas.\n"


@pytest.fixture
def bare(home: Home, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A folder with the settings of a new knowledge base, and without the encoder for other languages."""
    monkeypatch.setattr(multilingual, "source", lambda: None)
    monkeypatch.setattr("surefind.kb.completing.source", lambda: None)
    home.configure("")
    return home


def test_languages_are_metadata_that_filters_know(bare: Home) -> None:
    for name, text in (("de", GERMAN), ("en", ENGLISH), ("es", SPANISH), ("x", "EOD-7 4270\n")):
        bare.write(f"docs/{name}.md", text)
    bare.sync("docs")
    with bare.open() as kb:
        spoken = {doc.id: doc.metadata["language"] for doc in kb.documents(Rights.owner())}
        assert spoken == {"de.md": "de", "en.md": "en", "es.md": "es", "x.md": "unknown"}
        assert kb.reader().view.languages() == {"de": 1, "en": 1, "es": 1, "unknown": 1}
        found = kb.search("Überweisung Tarjeta wire", Access.of(where=["language=es"]), 9).hits
        assert [hit.document for hit in found] == ["es.md"]


@pytest.mark.parametrize("written", ["language: de", "lang: de-AT", "language: German", "language: [de]"])
def test_front_matter_says_the_language(bare: Home, written: str) -> None:
    bare.write("docs/a.md", f"---\n{written}\n---\n# Abschluss\n\nZählungen der Tresore.\n")
    bare.sync("docs")
    with bare.open() as kb:
        (document,) = kb.documents(Rights.owner())
        assert document.metadata["language"] == "de"
        assert [hit.document for hit in kb.search("Zählung", Rights.owner(), 3).hits] == ["a.md"]


def test_another_word_under_language_stays(bare: Home) -> None:
    bare.write("docs/a.md", "---\nlanguage: COBOL\n---\n# Batch\n\nThe job runs at night and it must not be stopped.\n")
    bare.sync("docs")
    with bare.open() as kb:
        assert [doc.metadata["language"] for doc in kb.documents(Rights.owner())] == ["COBOL"]
        assert kb.search("jobs running", Rights.owner(), 3).hits


def test_a_corrected_language_takes_effect_at_the_next_sync(bare: Home) -> None:
    text = "# Zählungen\n\nKassen, Tresore, Münzen.\n"
    bare.write("docs/a.md", f"---\nlanguage: en\n---\n{text}")
    bare.sync("docs")
    asked = "Zählung"
    assert bare.found(asked, pipeline="bm25") == []
    bare.write("docs/a.md", f"---\nlanguage: de\n---\n{text}")
    bare.sync("docs")
    assert bare.found(asked, pipeline="bm25") == ["a.md"]


def test_german_words_are_found_in_other_forms(bare: Home) -> None:
    bare.write("docs/de.md", GERMAN)
    bare.write("docs/en.md", ENGLISH)
    bare.sync("docs")
    assert bare.found("Bestätigungen der Kunden", pipeline="bm25") == ["de.md"]
    assert bare.found("confirmations for members", pipeline="bm25") == ["en.md"]
    assert bare.found("Bestätigungen", pipeline="bm25(analyzer=plain)") == []


def test_english_documents_are_searched_as_with_the_english_analyzer(bare: Home) -> None:
    bare.write("docs/en.md", ENGLISH)
    bare.write("docs/cash.md", "# Cash\n\nThe teller counts the cash that members have deposited, twice.\n")
    bare.sync("docs")
    with bare.open() as kb:
        kb.build("bm25(analyzer=english)")
        for question in ("who counts cash deposits?", "members", "when are wires accepted", "Überweisung"):
            both = [
                [(hit.document, hit.score) for hit in kb.search(question, Rights.owner(), 9, pipeline=text).hits]
                for text in ("bm25", "bm25(analyzer=english)")
            ]
            assert both[0] == both[1]


def test_passages_of_a_document_in_two_languages_have_their_own(bare: Home) -> None:
    bare.write("docs/both.md", f"{ENGLISH * 6}\n{GERMAN * 6}")
    bare.sync("docs")
    with bare.open() as kb:
        (document,) = kb.documents(Rights.owner())
        assert document.metadata["language"] == ["en", "de"]
        found = kb.search("Bestätigungen der Kunden", Rights.owner(), 1, pipeline="bm25").hits
        assert found and "erhält eine Bestätigung" in found[0].text


def test_the_default_is_words_where_documents_are_in_other_languages(bare: Home) -> None:
    said: list[str] = []
    bare.write("docs/de.md", GERMAN)
    bare.sync("docs", tell=said.append)
    assert base_of(bare.folder / ".surefind") == "words"
    assert any("pip install 'surefind[languages]'" in text and "100% of" in text for text in said)
    with bare.open() as kb:
        assert kb.settings.pipeline == "words" and str(kb.pipeline()) == "bm25(k1=1.5, b=0.75, analyzer=auto)"
    said.clear()
    bare.sync("docs", tell=said.append)
    assert not any("pip install" in text for text in said)  # once is enough


def test_the_default_stays_for_english_with_some_other_passages(bare: Home) -> None:
    for number in range(30):
        bare.write(f"docs/{number}.md", f"{ENGLISH}\nNumber {number}.\n")
    bare.write("docs/de.md", GERMAN)
    bare.sync("docs")
    assert base_of(bare.folder / ".surefind") == "pair"
    assert bare.found("Bestätigungen der Kunden", pipeline="bm25")[0] == "de.md"  # rare, but asked in German


def test_a_chosen_default_stays(bare: Home) -> None:
    bare.configure('[search]\npipeline = "hybrid"\n')
    bare.write("docs/de.md", GERMAN)
    bare.sync("docs")
    with bare.open() as kb:
        assert kb.settings.pipeline == "hybrid"


def test_the_default_has_the_encoder_for_languages_where_it_is_installed(
    home: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The choice alone: `tests/engine/test_multilingual.py` runs the encoder."""
    monkeypatch.setattr("surefind.kb.completing.source", lambda: tmp_path)
    home.configure("")
    home.write("docs/de.md", GERMAN)
    home.write("docs/en.md", ENGLISH)
    home.sync("docs", wait=False)
    assert base_of(home.folder / ".surefind") == "languages de en"
    with home.open() as kb:
        assert str(kb.pipeline()) == (
            "bm25(k1=1.5, b=0.75, analyzer=auto) + dense(model=multilingual, within=[de, en]) + "
            "dense(model=multilingual, beyond=[de, en]) "
            ">> weighted(weights=[4.0, 6.0, 36.0], norm=minmax, missing=score)"
        )


def test_no_confidence_is_given_across_languages_and_ask_is_not_sure(bare: Home) -> None:
    bare.write("docs/en.md", ENGLISH)
    bare.sync("docs")
    question = "Bis wann werden Überweisungen angenommen? Outgoing wires?"
    with bare.open() as kb:
        result = kb.search("Bis wann werden ausgehende wires accepted, bitte?", Rights.owner(), 1)
        assert result.confidence is None and result.sure == ""
        assert result.confidence_from == "the question is in German and the first passage in English"
        asked = answer(kb, "Wann werden ausgehende wires accepted, bitte?", Rights.owner())
        assert asked.state == "not_sure" and asked.sentences
        assert kb.search(question.rpartition("?")[0].split("?")[1], Rights.owner(), 1).confidence is not None


def test_a_german_answer_is_quoted(bare: Home) -> None:
    bare.write("docs/de.md", GERMAN)
    bare.write("docs/es.md", SPANISH)
    bare.sync("docs")
    with bare.open() as kb:
        made = answer(kb, "Bis wann werden ausgehende Überweisungen angenommen?", Rights.owner())
        assert made.sentences and "fünfzehn Uhr" in made.sentences[0].text


def test_a_draft_does_not_state_the_language_that_was_found(bare: Home) -> None:
    bare.write("docs/de.md", GERMAN)
    bare.write("docs/en.md", f"---\nlanguage: fr\n---\n{ENGLISH}")
    bare.sync("docs")
    with bare.open() as kb:
        assert "language" not in kb.drafts.published_text("de.md", Rights.owner())
        assert 'language: "fr"' in kb.drafts.published_text("en.md", Rights.owner())
        kb.drafts.publish(kb.drafts.add_bytes("de.md", ENGLISH.encode()).number)
        assert next(doc for doc in kb.documents(Rights.owner()) if doc.id == "de.md").metadata["language"] == "en"


def test_the_default_stays_where_milvus_has_the_indexes(bare: Home) -> None:
    bare.write("docs/de.md", GERMAN)
    bare.sync("docs", index=False)
    with bare.open() as kb:
        kb.use(replace(kb.settings, store=StoreSettings(backend="milvus")))
        assert not choose_default(kb, lambda text: None)
        kb.use(replace(kb.settings, store=StoreSettings()))
        assert choose_default(kb, lambda text: None)


def test_a_server_uses_a_default_that_another_process_chose(bare: Home) -> None:
    """Its indexes are not built yet; the server goes on with them."""
    bare.write("docs/en.md", ENGLISH)
    bare.sync("docs")
    with bare.open() as kb:
        keep_base(kb.data, "languages en")
        assert kb.reload() and kb.settings.pipeline == "languages"
        assert kb.search("when are wires accepted?", Rights.owner(), 1).hits
