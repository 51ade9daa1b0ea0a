"""Finds the language of a text, and knows what belongs to a language: its stemmer and its question words.

    language_of("Die Frist endet am Freitag.") -> de        language_of("EOD-7") -> "" (unsure)

Codes are those of ISO 639-1. A text with several English function words is English. All others are judged by fastText's
model of 176 languages (Joulin et al., Bag of Tricks for Efficient Text Classification, 2017), of which surefind-models
has the small form. It was chosen over `py3langid`: it loads in 40 ms instead of a second, and names more passages and
questions right (docs/results/languages.md).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from surefind.base.text.words import HAN, HANGUL, KANA, fold, pattern
from surefind.base.types import Chunk, Document

LANGUAGE, UNKNOWN = "language", "unknown"
"""The key of metadata that has the language of a document, and its value where that is not sure."""
_SURE, _SURE_OF_SHORT, _SHORT = 0.5, 0.8, 60
"""The probability from which a language counts, for texts of up to 60 characters and for longer ones: of 22,943 English
documents of ten collections, 7 were called another language."""
_FEW = 30
"""Characters of a document whose language nobody can be sure of."""
_SAMPLE = 300
"""Characters of a sample: more make it no surer, and cost time."""
_ENGLISH = frozenset(
    "the of and that with are you your from this have which can when should their has been these must not for".split()
)
_ENOUGH, _SHARE = 3, 0.15
"""How many function words, and which share of the words, make a text English."""

STEMMERS: Mapping[str, str] = {
    "ar": "arabic", "hy": "armenian", "eu": "basque", "ca": "catalan", "cs": "czech", "da": "danish", "nl": "dutch",
    "eo": "esperanto", "et": "estonian", "fi": "finnish", "fr": "french", "de": "german", "el": "greek", "hi": "hindi",
    "hu": "hungarian", "id": "indonesian", "ga": "irish", "it": "italian", "lt": "lithuanian", "ne": "nepali",
    "no": "norwegian", "fa": "persian", "pl": "polish", "pt": "portuguese", "ro": "romanian", "ru": "russian",
    "sr": "serbian", "es": "spanish", "sv": "swedish", "ta": "tamil", "tr": "turkish", "yi": "yiddish",
}  # fmt: skip
"""The Snowball stemmer of each language but English. Words of other languages are treated as English ones."""
_ALIKE = {"nn": "no", "nb": "no", "bs": "sr", "hr": "sr", "sh": "sr", "gl": "pt", "ast": "es", "af": "nl", "als": "de"}
"""Languages that are judged as one of another name, or stemmed as a close one."""

_QUESTION_WORDS = {
    "de": "wer wen wem wessen was wann wo woher wohin wie warum wieso weshalb welche welcher welches welchen "
    "welchem womit wodurch worin woran wofür wieviel wieviele ich mich mir mein meine meinen meinem "
    "meiner du dich dir dein er sie es wir uns unser unsere ihr ihnen man bin ist sind war waren sein "
    "wird werden wurde wurden hat habe haben hatte hatten kann können konnte muss müssen darf dürfen soll "
    "sollen sollte",
    "es": "quién quien quiénes qué que cuándo cuando dónde donde adónde cómo como por cuál cuáles cuánto cuánta "
    "cuántos cuántas yo me mi mis tú te tu tus él ella ello nosotros nos ellos ellas usted ustedes se su "
    "sus es son era eran fue fueron ser está están ha han había haber puede pueden puedo podemos debe "
    "deben debo tiene tienen tengo",
    "fr": "qui que quoi quand où comment pourquoi quel quelle quels quelles combien est-ce qu'est-ce je j'ai me "
    "moi mon ma mes tu te toi ton ta tes il elle on nous notre nos vous votre vos ils elles se suis est "
    "sont était étaient être été a ont avait avoir ai peut peuvent peux pouvons doit doivent dois faut",
    "it": "chi che cosa quando dove come perché quale quali quanto quanta quanti quante io mi me mio mia miei "
    "mie tu ti tuo tua lui lei noi ci nostro nostra voi loro si sono è era erano essere stato ha hanno "
    "aveva avere ho può possono posso possiamo deve devono devo",
    "pt": "quem que quê quando onde aonde como porque porquê qual quais quanto quanta quantos quantas eu me mim "
    "meu minha meus minhas tu você ele ela nós nosso nossa vocês eles elas se é são era eram foi foram "
    "ser está estão tem têm tinha ter há pode podem posso podemos deve devem devo",
    "nl": "wie wat wanneer waar waarheen waarvandaan hoe waarom welke welk hoeveel ik mij me mijn jij je jou "
    "jouw hij zij ze haar hem het wij we ons onze jullie u uw men ben is zijn was waren wordt worden werd "
    "werden heeft heb hebben had hadden kan kunnen kon moet moeten mag mogen zal zullen zou",
    "sv": "vem vems vad när var vart hur varför vilken vilket vilka jag mig min mitt mina du dig din ditt han "
    "hon den det vi oss vår vårt våra ni er de dem man är var vara blir blev har hade ha kan kunde måste "
    "får ska skall",
    "da": "hvem hvis hvad hvornår hvor hvorhen hvordan hvorfor hvilken hvilket hvilke jeg mig min mit mine du "
    "dig din han hun den det vi os vores i jer de dem man er var være bliver blev har havde have kan "
    "kunne skal må",
    "no": "hvem hva når hvor hvordan hvorfor hvilken hvilket hvilke jeg meg min mitt mine du deg din han hun "
    "den det vi oss vår vårt dere de dem man er var være blir ble har hadde ha kan kunne må skal får",
    "ru": "кто кого кому кем что чего чему чем когда где куда откуда как почему зачем какой какая какое какие "
    "каком сколько чей я меня мне мной мой моя мои ты тебя он она оно его её ему ей мы нас нам наш вы вас "
    "вам ваш они их им был была было были быть есть можно могу может могут нужно надо должен должна "
    "должны ли",
    "pl": "kto kogo komu kim co czego czemu czym kiedy gdzie dokąd skąd jak dlaczego czemu jaki jaka jakie "
    "który która które ile czyj czy ja mnie mi mną mój moja moje ty ciebie on ona ono jego jej my nas nam "
    "nasz wy oni one ich jest są był była było były być mam ma mają można mogę może mogą trzeba muszę "
    "musi",
    "tr": "kim kime kimin ne neyi neden niçin niye nasıl nerede nereye nereden hangi hangisi kaç ne zaman mı mi "
    "mu mü ben bana benim sen sana senin o ona onun biz bize bizim siz onlar var yok olan olarak olur "
    "oldu idi",
    "ro": "cine cui ce când unde cum de care cât câtă câți câte eu mă mie meu mea tu el ea noi nouă nostru voi "
    "ei ele se este sunt era erau fi fost a au avea am poate pot trebuie",
}
"""Words of questions that say nothing about their subject, in the larger languages (English: `analyze.auto`)."""


def language_of(text: str) -> str:
    """Returns the language of a text; empty if it is not sure."""
    sample = " ".join(text[:_SAMPLE].split())
    words = sample.lower().split(" ")
    if (count := sum(word in _ENGLISH for word in words)) >= _ENOUGH and count >= _SHARE * len(words):
        return "en"
    if not sample.isascii() and (script := _by_script(sample)):
        return script
    plain = " ".join(word for word in sample.split(" ") if not _LETTERLESS.search(word))
    plain = plain.encode("utf-8", "replace").decode()  # the model refuses lone surrogates
    labels, probabilities = _model().predict(plain or "-")
    if not labels or probabilities[0] < (_SURE if len(plain) > _SHORT else _SURE_OF_SHORT):
        return ""
    code: str = labels[0].removeprefix("__label__")
    return _ALIKE.get(code, code)


def _east_asian() -> tuple[re.Pattern[str], ...]:
    return pattern(f"[{KANA}]"), pattern(f"[{HAN}]"), pattern(f"[{HANGUL}]")


def _by_script(sample: str) -> str:
    """The language of a text in a script of East Asia; the model takes short Chinese texts for Japanese ones."""
    kana, han, hangul = (len(letters.findall(sample)) for letters in _east_asian())
    if 3 * (kana + han + hangul) < len(sample):
        return ""
    return "ko" if hangul > kana + han else "ja" if 20 * kana > han else "zh"


_LETTERLESS = re.compile(r"[\d_/\\<>{}=@]|^www[.]")
"""Marks a word that is of no language: an address, a number, an identifier, markup."""


def languages_of(text: str) -> list[str]:
    """Returns the languages of a document, by samples of its beginning, middle and end: one, several if they differ, or
    none if no sample is sure. A few words in ASCII are not worth loading the model for."""
    if len(text) < _FEW and text.isascii():
        return []
    starts = (0,) if len(text) <= 2 * _SAMPLE else (0, len(text) // 2, len(text) - _SAMPLE)
    return list(dict.fromkeys(filter(None, (language_of(text[start : start + _SAMPLE]) for start in starts))))


def with_language(document: Document) -> Document:
    """Returns a document whose metadata has its language: what it says itself (`language` or `lang`), or else what its
    text is in; a list if it has several. Other words under `language` stay, such as the programming language of a
    file of code."""
    metadata = document.metadata
    written = metadata.get(LANGUAGE, metadata.get("lang"))
    if written is None:
        return replace(document, metadata={**metadata, LANGUAGE: detected(document.text)})
    listed = written if isinstance(written, list) else [written]
    spoken = [code for name in listed if (code := code_of(str(name)))]
    if not spoken:
        return document
    return replace(document, metadata={**metadata, LANGUAGE: spoken if len(spoken) > 1 else spoken[0]})


def detected(text: str) -> str | list[str]:
    """What metadata says of a document that does not say its language itself."""
    spoken = languages_of(text) or [UNKNOWN]
    return spoken if len(spoken) > 1 else spoken[0]


def in_languages(document: Document, chunks: list[Chunk]) -> list[Chunk]:
    """Returns the chunks of a document with their language: that of the document, or of each text if it has several.
    English is no language to mark: it is what everything else is taken for."""
    spoken = document.metadata.get(LANGUAGE, "")
    if isinstance(spoken, list):
        found = [language_of(chunk.text) for chunk in chunks]
        return [
            replace(chunk, language=own) if own in spoken else chunk for chunk, own in zip(chunks, found, strict=True)
        ]
    code = code_of(str(spoken))
    return [replace(chunk, language=code) for chunk in chunks] if code not in ("", "en") else chunks


@cache
def _model() -> Any:
    """The model; one that knows nothing where its package or surefind-models is missing."""
    try:
        import fasttext
        import surefind_models
    except ModuleNotFoundError:
        return _Ignorant()
    return fasttext.load_model(str(surefind_models.LANGUAGES))


class _Ignorant:
    def predict(self, text: str) -> tuple[Sequence[str], Sequence[float]]:
        return (), ()


def code_of(name: str) -> str:
    """Returns the code of a language as people write it: `de`, `de-AT`, `German`; empty for other words."""
    plain = name.strip().lower().replace("_", "-").partition("-")[0]
    code = _NAMES.get(plain, plain if len(plain) in (2, 3) and plain in _CODES else "")
    return _ALIKE.get(code, code)


def name_of(code: str) -> str:
    """Returns the English name of a language, or its code if we know none."""
    return next((name.capitalize() for name, known in _NAMES.items() if known == code), code)


_NAMES = {
    **{name: code for code, name in STEMMERS.items()},
    "english": "en", "chinese": "zh", "japanese": "ja", "korean": "ko", "thai": "th", "vietnamese": "vi",
    "ukrainian": "uk", "hebrew": "he", "deutsch": "de", "español": "es", "français": "fr", "italiano": "it",
    "português": "pt", "nederlands": "nl", "svenska": "sv", "dansk": "da", "norsk": "no", "suomi": "fi",
    "polski": "pl", "čeština": "cs", "русский": "ru", "українська": "uk", "türkçe": "tr", "ελληνικά": "el",
    "中文": "zh", "日本語": "ja", "한국어": "ko", "العربية": "ar",
}  # fmt: skip
_WITHOUT_STEMMER = "en zh ja ko th vi uk he bg sk sl lv mk sq bn ur ka kk az is mt cy gu kn ml mr pa te km lo my sw"
_CODES = frozenset({*STEMMERS, *_ALIKE, *_WITHOUT_STEMMER.split()})


@cache
def question_words(language: str) -> frozenset[str]:
    """The question words of a language but English, as the analyzer folds them; none if we have no list."""
    return frozenset(fold(word) for word in _QUESTION_WORDS.get(language, "").split())
