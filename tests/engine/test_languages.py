"""Other languages: words that are found in any script, and English that stays as it was."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from helpers import WORDS, Home
from surefind.base.text.words import (
    clusters,
    count_tokens,
    count_words,
    fold,
    sentence_spans,
    spaced,
    token_spans,
    words,
)
from surefind.base.types import Document
from surefind.doors.cli._hits import snippet, sought
from surefind.engine.analyze import analyze
from surefind.engine.analyze.english import English
from surefind.engine.analyze.plain import Plain
from surefind.engine.extract.phrases import Phrases
from surefind.engine.graph.facts import key_of
from surefind.engine.retrieve import bm25, tfidf
from surefind.engine.services import LocalServices
from surefind.kb.completing import advice_on_languages
from surefind.lab.exam._paraphrase import paraphrase
from surefind.lab.exam.known_item import generate

ASCII = st.text(st.characters(max_codepoint=127), max_size=80)
SOME_SCRIPTS = st.text("aéßIıİçñΣςйёÅ한국手順のカタ猫กำลังเที่ខ្មែរမြန်हिन्दीعربي١٢AB12-.:()'’ \u200b\u200d\n", max_size=40)

EARLIER = re.compile(
    r"\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\w|,\d)"
    r"|[^\W_]+(?:[-.*/@&+'’_:]+[^\W_]+)*(?:\([^\W_]{1,4}\))*"
    r"|_+[^\W_]+(?:_+[^\W_]+)*"
)
"""What a token was before other scripts were known."""


# ---------------------------------------------------------------- terms


@given(ASCII)
def test_tokens_of_ascii_text_are_those_of_english_alone(text: str) -> None:
    assert English().tokens(text) == Plain().tokens(text) == EARLIER.findall(text)
    assert analyze(English(), text) == [t for token in EARLIER.findall(text) for t in English()._of_word(token)]


def test_terms_of_english_text_written_out() -> None:
    text = "The member’s CU*BASE login isn't in O'Brien's “KubeAPIDown” runbook — see AML-204 and 31 CFR 1020.320(d)."
    assert analyze(English(), text) == [
        "member", "cu*base", "cu", "base", "login", "isnt", "obrien", "brien", "kubeapidown", "kube", "api", "down",
        "runbook", "see", "aml-204", "aml", "204", "31", "cfr", "1020.320(d)", "1020.320", "1020", "320",
    ]  # fmt: skip


@each(
    ("text", "terms"),
    [
        ("我是中国人", "我是 是中 中国 国人 我 是 中 国 人"),
        ("東京都のデータ", "東京 京都 都の のデ デー ータ 東 京 都"),
        ("猫", "猫"),
        ("ﾃﾞｰﾀ", "デー ータ"),
        ("AML-204の手順", "aml-204 aml 204 の手 手順 手 順"),
        ("ＡＭＬ－２０４", "aml-204 aml 204"),
        ("注意：请保存", "注意 注 意 请保 保存 请 保 存"),
        ("문서를 저장", "문서 서를 저장"),
        ("한국어", "한국 국어"),
        ("การตั้งค่า", "การ รตั้ ตั้ง งค่า"),
        ("ខ្មែរ", "ខ្មែរ"),
        ("ការ\u200bបង្កើត", "ការ រប បង្កើ ង្កើត"),
        ("မြန်မာဘာသာ", "မြန်မာ မာဘာ ဘာသာ"),
        ("हिन्दी में खोजें", "हिन्दी में खोजें"),
        ("قَالَ أحمد ٢٠٤", "قال احمد 204"),
        ("می‌خواهم", "ميخواهم"),
        ("Straße STRASSE", "strass strass"),
        ("İstanbul ISPARTA ısparta", "istanbul isparta isparta"),
        ("café cafe\u0301 CAFÉ", "cafe cafe cafe"),
        ("Αθήνας ΑΘΗΝΑΣ", "αθηνασ αθηνασ"),
        ("ёлка йод", "елка йод"),
        ("Müller-Lüdenscheidt", "muller-ludenscheidt muller ludenscheidt"),
        ("ﬁle", "file"),
    ],
)
def test_terms_written_out(text: str, terms: str) -> None:
    assert analyze(English(), text) == terms.split()


def test_plain_keeps_words_whole_in_other_scripts_too() -> None:
    assert analyze(Plain(), "The Größe von AML-204の") == ["the", "grosse", "von", "aml-204", "の"]


@given(SOME_SCRIPTS)
def test_text_composed_or_decomposed_has_the_same_terms(text: str) -> None:
    text = text.replace("(", " ")  # at most four letters make a clause, and one letter may be three when decomposed
    forms = [unicodedata.normalize(form, text) for form in ("NFC", "NFD")]
    assert analyze(English(), forms[0]) == analyze(English(), forms[1])


@given(SOME_SCRIPTS)
def test_folding_twice_changes_nothing_more(text: str) -> None:
    assert fold(fold(text)) == fold(text)


# ---------------------------------------------------------------- search

JAPANESE = {
    "wire.md": "# 電信送金\n\n電信送金は午後三時までに受け付けます。締め切り後の依頼は翌営業日に処理します。\n",
    "card.md": "# カードの紛失\n\n紛失したときは、直ちに利用を止め、再発行を申請してください。AML-204の手順です。\n",
    "loan.md": "# 住宅ローン\n\n審査には源泉徴収票と本人確認書類が必要です。猫を飼っている場合は特約を確認します。\n",
}
CHINESE = {
    "wire.md": "# 电汇\n\n电汇申请须在下午三点之前提交。逾期的申请将在下一个工作日处理。\n",
    "card.md": "# 银行卡挂失\n\n遗失后应立即冻结账户，并申请补发新卡。流程见表格AML-204。柜员核对身份后当日办理。\n",
    "loan.md": "# 住房贷款\n\n审批需要收入证明和身份证件。税务记录保存七年。\n",
}
THAI = {
    "wire.md": "# การโอนเงิน\n\nการโอนเงินต้องส่งก่อนเวลาสามโมงเย็น คำขอที่ส่งช้าจะดำเนินการในวันทำการถัดไป\n",
    "card.md": "# บัตรหาย\n\nเมื่อบัตรหายต้องระงับบัญชีทันทีและขอออกบัตรใหม่ตามขั้นตอนAML-204\n",
    "loan.md": "# สินเชื่อบ้าน\n\nการพิจารณาต้องใช้เอกสารแสดงรายได้และบัตรประชาชน\n",
}
KOREAN = {
    "wire.md": "# 송금\n\n송금은 오후 세 시까지 접수합니다.\n",
    "card.md": "# 카드 분실\n\n카드를 분실하면 재발급을 신청하십시오. AML-204의 절차를 따릅니다.\n",
    "loan.md": "# 주택 대출\n\n심사에는 소득 증명서가 필요합니다.\n",
}


@pytest.mark.parametrize(
    ("documents", "answers"),
    [
        (
            JAPANESE,
            {"送金 締め切り": "wire", "再発行の申請": "card", "aml-204": "card", "猫": "loan", "ﾛｰﾝ": "loan"},
        ),
        (CHINESE, {"冻结账户": "card", "税": "loan", "ＡＭＬ－２０４": "card"}),
        (THAI, {"ระงับบัญชี": "card", "รายได้": "loan", "AML-204": "card"}),
        (KOREAN, {"재발급 절차": "card", "소득": "loan", "AML-204": "card"}),
    ],
    ids=["ja", "zh", "th", "ko"],
)
def test_found_by_words(home: Home, documents: dict[str, str], answers: dict[str, str]) -> None:
    for name, text in documents.items():
        home.write(f"docs/{name}", text)
    home.sync("docs")
    assert {query: home.found(query)[0] for query in answers} == {q: f"{name}.md" for q, name in answers.items()}


def test_index_of_other_terms_is_built_anew(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (bm25, tfidf):
        monkeypatch.setattr(module, "VERSION", 1)
    home.write("docs/a.md", JAPANESE["card.md"])
    home.sync("docs")
    monkeypatch.undo()
    home.write("docs/b.md", JAPANESE["loan.md"])
    assert home.sync().rebuilt == ["bm25"]
    assert home.found("再発行") == ["a.md"]


# ---------------------------------------------------------------- the rest of the way


@each(
    ("text", "sentences"),
    [
        (
            "これは文です。LibreOffice は使えます。「はい。」次は？",
            ["これは文です。", "LibreOffice は使えます。", "「はい。」", "次は？"],
        ),
        ("यह है। OK चुनें। ठीक", ["यह है।", " OK चुनें।", " ठीक"]),
        ("هل هذا صحيح؟ نعم. LibreOffice جيد.", ["هل هذا صحيح؟", " نعم.", " LibreOffice جيد."]),
        ("Τι είναι; Είναι A. Ναι", ["Τι είναι;", " Είναι A. Ναι"]),
        ("¿Qué es? ¡Nada! Świat. Šimon", ["¿Qué es?", " ¡Nada!", " Świat.", " Šimon"]),
        ("Siehe z. B. S. 3 bzw. Nr. 4. Über uns.", ["Siehe z. B. S. 3 bzw. Nr. 4.", " Über uns."]),
        ("ជ្រើស OK ។ ចុច", ["ជ្រើស OK ។", " ចុច"]),
        ("Levels of TNF-α; P was low.", ["Levels of TNF-α; P was low."]),
    ],
)
def test_sentences_of(text: str, sentences: list[str]) -> None:
    assert [text[a:b] for a, b in sentence_spans(text, 0, len(text))] == sentences


def test_words_and_tokens_of_scripts_without_spaces() -> None:
    assert clusters("ที่เครื่อง") == ["ที่", "เค", "รื่", "อ", "ง"]
    assert words("Die Größe, हिन्दी 東京") == ["die", "größe", "हिन्दी", "東", "京"]
    assert (count_words("two words"), count_words("東京都の"), count_words("LibreOfficeは東京")) == (2, 2, 3)
    assert count_tokens("हिन्दी में।") == 3
    assert spaced("LibreOfficeの設定 한국AML") == "LibreOffice\u3000の設定 한국\u3000AML"


@given(st.lists(st.tuples(st.sampled_from("กទहeا 猫"), st.text("\u0301\u0e35\u0e48\u17be\u093f", max_size=3))))
def test_no_token_begins_with_a_mark(letters: list[tuple[str, str]]) -> None:
    text = "".join(letter + marks for letter, marks in letters if letter != " " or not marks)
    assert not [start for start, _ in token_spans(text) if unicodedata.category(text[start])[0] == "M"]


@given(ASCII)
def test_words_of_ascii_text_are_runs_of_letters(text: str) -> None:
    assert words(text) == re.findall(r"\w+", text.lower())
    assert count_words(text) == len(text.split())


@pytest.mark.parametrize("documents", [JAPANESE, CHINESE, THAI], ids=["ja", "zh", "th"])
def test_exam_asks_for_headings_phrases_sentences_and_identifiers(documents: dict[str, str]) -> None:
    exam = generate([Document(name, text, name, "markdown") for name, text in documents.items()])
    assert {"heading_direct", "exact_phrase", "first_sentence"} <= {query.family for query in exam.queries}
    assert [query.text for query in exam.queries if query.family == "entity_lookup"] == ["AML-204"]
    for query in exam.queries:
        (judgment,) = query.judgments
        source = documents[judgment.document]
        asked, there = (re.sub(r"[、，\s]", "", text) for text in (query.text, source))
        assert asked in there
        assert query.overlap == pytest.approx(1.0, abs=0.35)


def test_snippet_shows_the_place_in_text_without_spaces() -> None:
    text = "これは長い文章です。" * 50 + "参考文献表を作成する手順。" + "続きの文章です。" * 60
    shown = snippet(text, sought("参考文献の作成"))
    assert "参考文献表を作成する手順" in shown
    assert len(shown) < 330


def test_names_end_where_another_script_begins() -> None:
    (found,) = Phrases().extract(["設定はLibreOfficeの画面でEOD-7を選びます。"], LocalServices())
    assert [mention.name for mention in found.mentions] == ["EOD-7", "LibreOffice", "EOD-7"]
    assert key_of("हिन्दी") == "हिन्दी"


GERMAN = (
    "# Situation der Filiale\n\nDie Überweisung muss vor fünfzehn Uhr eingehen. Verspätete Aufträge werden am "
    "nächsten Werktag ausgeführt, für die Gebühren gilt das Preisverzeichnis der Filiale.\n"
)
FRENCH = (
    "# Problèmes de position\n\nLa demande doit être déposée avant quinze heures. Les demandes reçues après ce délai "
    "sont traitées le jour ouvré suivant, à l'exception des virements urgents.\n"
)


def test_headings_are_reworded_in_english_documents_only() -> None:
    english = "# The new branch app\n\nThe transfer must be in before three, and it is sent to the bank at once.\n"
    german = GERMAN.replace("Situation der Filiale", "Die neue Filial App")
    asked = {
        name: {query.family for query in generate([Document(name, text, name, "markdown")]).queries}
        for name, text in {"en": english, "de": german}.items()
    }
    assert ("heading_paraphrase" in asked["en"], "heading_paraphrase" in asked["de"]) == (True, False)
    assert paraphrase("Die neue Filial App", "") != ""  # the lexicon alone would not have known


def test_sync_and_doctor_say_that_the_bundled_encoder_is_english(home: Home) -> None:
    with_dense = (
        '[search]\npipeline = "both"\n[pipelines.both]\nretrieve = ["bm25", "dense(model=minilm)"]\nfuse = "rrf"\n'
    )
    home.write("docs/a.md", GERMAN)
    home.sync("docs")
    with home.open() as kb:
        assert advice_on_languages(kb) == ""  # words alone need no encoder
    home.configure(with_dense)
    with home.open() as kb:
        assert "(German), and minilm read English" in advice_on_languages(kb)
    home.write("docs/a.md", "The transfer must be in before three, and it is sent to the bank at once. " * 3)
    home.configure(WORDS)
    home.sync()
    home.configure(with_dense)
    with home.open() as kb:
        assert advice_on_languages(kb) == ""
