"""Which language a text is in, and how an index stems several."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from surefind.base.text.languages import (
    STEMMERS,
    code_of,
    in_languages,
    language_of,
    languages_of,
    name_of,
    with_language,
)
from surefind.base.types import EVERY, Chunk, Document, Mask, Query
from surefind.engine.analyze import analyze
from surefind.engine.analyze.auto import Auto, counted, mark_of, marked
from surefind.engine.analyze.english import English
from surefind.engine.retrieve.bm25 import BM25
from surefind.engine.retrieve.dense import Dense
from surefind.engine.services import LocalServices
from surefind.testing.retrievers import built

TEXTS = {
    "en": "The member must sign the form before the account can be opened.",
    "de": "Das Mitglied muss das Formular unterschreiben, bevor das Konto eröffnet wird.",
    "fr": "Le membre doit signer le formulaire avant que le compte puisse être ouvert.",
    "es": "El miembro debe firmar el formulario antes de que se pueda abrir la cuenta.",
    "it": "Il socio deve firmare il modulo prima che il conto possa essere aperto.",
    "pt": "O membro deve assinar o formulário antes que a conta possa ser aberta.",
    "nl": "Het lid moet het formulier ondertekenen voordat de rekening kan worden geopend.",
    "sv": "Medlemmen måste underteckna formuläret innan kontot kan öppnas.",
    "pl": "Członek musi podpisać formularz, zanim konto zostanie otwarte.",
    "ru": "Участник должен подписать форму до открытия счёта.",
    "tr": "Hesap açılmadan önce üyenin formu imzalaması gerekir.",
    "ar": "يجب على العضو توقيع النموذج قبل فتح الحساب.",
    "el": "Το μέλος πρέπει να υπογράψει το έντυπο πριν ανοίξει ο λογαριασμός.",
    "zh": "会员必须先在表格上签字，然后才能开户。",
    "ja": "口座を開設する前に、会員はフォームに署名しなければなりません。",
    "ko": "계좌를 개설하기 전에 회원은 양식에 서명해야 합니다.",
    "hi": "खाता खोलने से पहले सदस्य को फॉर्म पर हस्ताक्षर करने होंगे।",
    "th": "สมาชิกต้องลงนามในแบบฟอร์มก่อนจึงจะเปิดบัญชีได้",
}


@each(("language", "text"), list(TEXTS.items()))
def test_language_of_a_sentence(language: str, text: str) -> None:
    assert language_of(text) == language


@each(
    "text",
    [
        "",
        " ",
        "EOD-7",
        "x = f(y) + 3",
        "https://example.com/a/b?c=d",
        "4270 1020.320(d)",
        "\x00\x1f",
        "A wire costs 20.",
    ],
)
def test_nothing_is_said_of_texts_without_a_language(text: str) -> None:
    assert language_of(text) in ("", "en")


@given(st.text(max_size=400))
def test_any_text_has_a_language_or_none(text: str) -> None:
    assert language_of(text) == language_of(text) and isinstance(language_of(text), str)


def test_languages_of_a_long_document_are_those_of_its_parts() -> None:
    assert languages_of(f"{TEXTS['en'] * 20}\n{TEXTS['de'] * 40}") == ["en", "de"]
    assert languages_of(TEXTS["de"] * 60) == ["de"]


@each(
    ("written", "code"),
    [
        ("de", "de"),
        ("DE_at", "de"),
        ("German", "de"),
        ("Deutsch", "de"),
        ("nb-NO", "no"),
        ("python", ""),
        ("", ""),
        ("xq", ""),
    ],
)
def test_codes_as_people_write_them(written: str, code: str) -> None:
    assert code_of(written) == code


def test_names_of_languages() -> None:
    assert [name_of(code) for code in ("de", "en", "zh", "qq")] == ["German", "English", "Chinese", "qq"]


def test_metadata_and_chunks_get_the_language() -> None:
    document = with_language(Document("a", TEXTS["de"]))
    assert document.metadata == {"language": "de"}
    chunk = Chunk("a", 0, 10, TEXTS["de"][:10])
    assert [c.language for c in in_languages(document, [chunk])] == ["de"]
    assert in_languages(with_language(Document("a", TEXTS["en"])), [chunk]) == [chunk]


# ---------------------------------------------------------------- stemming


@given(st.text(max_size=120))
def test_unmarked_texts_have_the_terms_of_english(text: str) -> None:
    if not text.startswith("\x1f"):
        assert analyze(Auto(), text) == analyze(English(), text)
    assert marked("en", text) == marked("", text) == marked("cy", text) == text


@given(st.text(max_size=60))
def test_no_text_can_break_the_marks(text: str) -> None:
    for forged in (f"\x1f{text}", f"\x1fde{text}", f"\x1fde\x1f{text}", f"\x1fxx\x1f\n{text}"):
        terms = analyze(Auto(), forged)
        assert all(term and isinstance(term, str) for term in terms)


@each("language", sorted(STEMMERS))
def test_a_marked_text_begins_with_its_mark_and_has_stems(language: str) -> None:
    terms = analyze(Auto(), marked(language, "1020.320 Häuser"))
    assert terms[0] == mark_of(language) and counted(terms[0]) == language
    assert terms[1:] == analyze(Auto((language,)), "1020.320 Häuser") and not any(map(counted, terms[1:]))


def test_stems_written_out() -> None:
    assert analyze(Auto(("de",)), "Häuser Bestätigungen") == ["haus", "bestat"]
    assert analyze(Auto(("de", "en")), "running Häuser") == ["running", "run", "haus", "hauser"]


def test_question_words_are_left_out_in_the_language_of_the_question() -> None:
    assert Auto(("de",)).query_tokens("Wann wird die Überweisung angenommen?") == ["die", "Überweisung", "angenommen"]
    assert Auto(("de",)).query_tokens("Wer war das?") == ["das"]
    assert Auto(("es",)).query_tokens("¿Cuándo es el plazo?") == ["plazo"]  # él and el are alike without accents


def index(*texts: tuple[str, str]) -> object:
    chunks = [Chunk(f"{i}", 0, len(text), text, language=language) for i, (language, text) in enumerate(texts)]
    return built(BM25(), chunks, LocalServices())


def found(made: object, question: str, k: int = 9, allow: Mask = EVERY) -> list[tuple[int, float]]:
    ids, scores = made.search(BM25(), [Query(question)], k, allow).row(0)  # type: ignore[attr-defined]
    return list(zip(ids.tolist(), scores.tolist(), strict=True))


def test_a_question_is_searched_in_each_common_language_and_the_best_score_counts() -> None:
    made = index(("de", "Die Häuser der Stadt"), ("", "The houses of the city"), ("de", "Bäume"))
    assert [i for i, _ in found(made, "Haus")] == [0]
    assert [i for i, _ in found(made, "house")] == [1]
    assert {i for i, _ in found(made, "Haus house")} == {0, 1}
    alone = BM25(analyzer="auto(languages=[de])")
    ids, scores = made.search(alone, [Query("Haus")], 9, EVERY).row(0)  # type: ignore[attr-defined]
    assert found(made, "Haus") == list(zip(ids.tolist(), scores.tolist(), strict=True))


def test_several_questions_get_what_each_gets_alone() -> None:
    made = index(("de", "Die Häuser der Stadt"), ("", "The houses of the city"), ("es", "Las casas de la ciudad"))
    asked = ["Haus", "house", "casa", "", "Haus casa house", "?"]
    rankings = made.search(BM25(), list(map(Query, asked)), 9, EVERY)  # type: ignore[attr-defined]
    for row, question in enumerate(asked):
        ids, scores = rankings.row(row)
        assert list(zip(ids.tolist(), scores.tolist(), strict=True)) == found(made, question)


@each("k", [1, 2, 3])
def test_the_first_hits_do_not_depend_on_how_many_are_wanted(k: int) -> None:
    made = index(
        *[("de", f"Häuser {'Stadt ' * i}") for i in range(3)], *[("", f"houses {'city ' * i}") for i in range(3)]
    )
    assert found(made, "Haus house Stadt", k) == found(made, "Haus house Stadt")[:k]


def test_scores_of_single_chunks_are_those_of_the_search() -> None:
    made = index(("de", "Die Häuser der Stadt"), ("", "The houses of the city"), ("de", "Bäume"))
    rankings = made.search(BM25(), [Query("Haus houses city")], 9, EVERY)  # type: ignore[attr-defined]
    scores = made.score(BM25(), [Query("Haus houses city")], rankings.ids, EVERY)  # type: ignore[attr-defined]
    assert scores[0] == pytest.approx(rankings.scores[0], abs=1e-5)


def test_a_rare_language_is_searched_for_questions_in_it() -> None:
    made = index(("de", "Die Bestätigungen der Überweisungen"), *[("", f"wire number {i}") for i in range(30)])
    assert [i for i, _ in found(made, "Wo finde ich die Bestätigung der Überweisung?")] == [0]


def test_an_index_of_parts_scores_as_one_that_was_built_from_nothing() -> None:
    import numpy as np

    from surefind.base.abilities import Part

    texts = [("de", "Die Häuser der Stadt"), ("", "The houses of the city"), ("de", "Bäume und Häuser"), ("", "trees")]
    whole, first, second = index(*texts), index(*texts[:2]), index(*texts[2:])
    parts = [Part(first, np.array([0, 1], np.int32)), Part(second, np.array([2, 3], np.int32))]
    joined = BM25().join(parts, LocalServices())
    for question in ("Haus", "houses", "Haus tree", "Baum"):
        assert found(joined, question) == found(whole, question)


# ---------------------------------------------------------------- questions within and beyond languages


def test_which_questions_a_retriever_is_asked() -> None:
    questions = list(map(Query, (TEXTS["de"], TEXTS["en"], "EOD-7", TEXTS["zh"])))
    assert Dense().asked(questions) is None
    assert Dense(within=("en",)).asked(questions) == [1, 2]
    assert Dense(beyond=("en",)).asked(questions) == [0, 3]
    assert Dense(beyond=("en", "de")).asked(questions) == [3]
    with pytest.raises(Exception, match="is no language"):
        Dense(within=("german",))
