"""`spacy(model=en_core_web_sm)`: extracts named entities and their types with a spaCy pipeline.

`model` is an installed spaCy model or the folder of your own, trained or made of rules (`entity_ruler`). Dates, amounts
and other values are left out, because they connect passages that have nothing else in common. Definitions come from
`phrases`. Needs `surefind[spacy]` and the model, which is downloaded from spaCy, not from the package index.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

from surefind.base.errors import MissingPartError
from surefind.base.protocols import Progress, Services
from surefind.base.spec import Stage
from surefind.base.text.words import sentence_spans
from surefind.base.types import Extraction, Mention
from surefind.engine.extract.phrases import Phrases

_VALUES = frozenset({"CARDINAL", "DATE", "MONEY", "ORDINAL", "PERCENT", "QUANTITY", "TIME"})


@dataclass(frozen=True)
class Spacy(Stage):
    kind: ClassVar[str] = "extract"
    name: ClassVar[str] = "spacy"

    model: str = "en_core_web_sm"

    def extract(self, texts: Sequence[str], services: Services, progress: Progress | None = None) -> list[Extraction]:
        extractions = Phrases().extract(texts, services)
        nlp = _loaded(self.model)
        nlp.max_length = max(nlp.max_length, *map(len, texts), 0)
        for i, document in enumerate(nlp.pipe(texts)):
            extractions[i] = replace(extractions[i], mentions=tuple(_mentions(document)))
            if progress and i % 100 == 0:
                progress(i, len(texts))
        return extractions


def _mentions(document: Any) -> Iterator[Mention]:
    starts = [start for start, _ in sentence_spans(document.text, 0, len(document.text))]
    for entity in document.ents:
        if entity.label_ not in _VALUES:
            name = " ".join(entity.text.split())
            yield Mention(name, max(0, bisect_right(starts, entity.start_char) - 1), entity.label_)


@lru_cache(maxsize=2)
def _loaded(model: str) -> Any:
    try:
        import spacy
    except ImportError:
        raise MissingPartError(
            "The extractor spacy needs the package spaCy. Install it with: pip install 'surefind[spacy]', and a model "
            f"with: python -m spacy download {model}."
        ) from None
    try:
        return spacy.load(model)
    except (OSError, ValueError, ImportError) as error:
        raise MissingPartError(
            f"The spaCy model {model!r} cannot be loaded ({str(error).splitlines()[0]}). Install it with: "
            f"python -m spacy download {model}, or give the folder of your own model."
        ) from None
