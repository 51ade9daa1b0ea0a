"""Writes known-item questions from the documents themselves: free, offline, the same for the same seed.

Each question is made from one passage (or a few that it fits equally), which is its gold. This resembles an agent that
looks for a certain procedure or policy. It also favours lexical retrieval, because the words of the question come from
the passage; `leakage` measures how much.

Writes a known-item exam whose kinds of questions have given shares, such as those of a published study.

    n(kind) = ⌊s · share(kind)⌋        s = min over kinds of written(kind) / share(kind), at most 1

A kind of which there are too few makes the others fewer. A kind of which there is none is left out.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from surefind.base.errors import ExamError, choices
from surefind.base.types import Document
from surefind.lab.exam._documents import Drafts, ExamDocuments, PossibleQuestion, QuestionSeed
from surefind.lab.exam.families.headings import heading_direct, heading_paraphrase, heading_paraphrase_titled
from surefind.lab.exam.families.names import alias, anchor_text, entity_lookup, faq
from surefind.lab.exam.families.sentences import chunk_opening, exact_phrase, first_sentence
from surefind.lab.exam.model import Exam, ExamQuery
from surefind.lab.exam.overlap import content_terms, overlap

FAMILIES: dict[str, Callable[[ExamDocuments], Drafts]] = {
    "heading_direct": heading_direct,
    "entity_lookup": entity_lookup,
    "heading_paraphrase": heading_paraphrase,
    "exact_phrase": exact_phrase,
    "first_sentence": first_sentence,
    "faq": faq,
    "anchor_text": anchor_text,
    "alias": alias,
}
ON_REQUEST: dict[str, Callable[[ExamDocuments], Drafts]] = {
    "chunk_opening": chunk_opening,
    "heading_paraphrase_titled": heading_paraphrase_titled,
}
"""Families that are written only if they are named."""
EVERY = FAMILIES | ON_REQUEST
PER_FAMILY = 200
GENERATOR = 2
"""The version of the rules that write questions. Raise it when they change, so that saved exams are written again."""
_MAX_DRAFTS = 20
"""Drafts that are tried for each question wanted. In a corpus of copies, most drafts are ambiguous."""


def generate(
    documents: Sequence[Document],
    name: str = "known-item",
    per_family: int = PER_FAMILY,
    families: Sequence[str] = tuple(FAMILIES),
    seed: int = 42,
) -> Exam:
    families = tuple(dict.fromkeys(families))
    for family in families:
        if family not in EVERY:
            raise ExamError(f"There is no question family called {family!r}. {choices(family, EVERY)}")
    if per_family < 1:
        raise ExamError(f"--per-family must be at least 1, not {per_family}.")
    corpus = ExamDocuments(documents, seed)
    texts = {document.id: document.text for document in documents}
    taken: set[str] = set()
    queries: list[ExamQuery] = []
    for family in families:
        chosen = _distinct(candidates(family, corpus, _MAX_DRAFTS * max(per_family, PER_FAMILY)), taken, per_family)
        queries += [_query(family, candidate, texts) for candidate in chosen]
    if not queries:
        raise ExamError(
            "No questions can be written from these documents: they have no headings, names or whole sentences, or all "
            "of these are in several documents."
        )
    return Exam(name, tuple(queries), origin=origin_of(per_family, families, seed), generator=GENERATOR)


def origin_of(per_family: int = PER_FAMILY, families: Sequence[str] = tuple(FAMILIES), seed: int = 42) -> str:
    """The command that writes such an exam."""
    chosen = "" if set(families) == set(FAMILIES) else "".join(f" --family {family}" for family in families)
    return f"generate --per-family {per_family}{chosen} --seed {seed}"


def candidates(family: str, corpus: ExamDocuments, tries: int) -> Iterator[PossibleQuestion]:
    """The questions of a family. One draft of each document is tried in turn, so that long documents do not fill the
    exam, and no time is lost on copies.

    The order of the documents, and of the drafts within a document, depends on the seed and on their own ids and texts.
    So an edit of one document hardly changes the questions about others. A document is read when its turn comes.
    """
    drafts = EVERY[family](corpus)
    lot = partial(_lot, corpus.seed, family)
    documents = sorted(corpus.documents, key=lambda document: lot(document.id))
    queues = deque(_in_order(drafts, document, lot) for document in documents)
    while queues and tries > 0:
        queue = queues.popleft()
        draft = next(queue, None)
        if draft is None:
            continue
        tries -= 1
        queues.append(queue)
        candidate = draft.ask()
        if candidate:
            yield candidate


def _in_order(drafts: Drafts, document: Document, lot: Callable[[str, str], bytes]) -> Iterator[QuestionSeed]:
    yield from sorted(drafts(document), key=lambda draft: lot(document.id, draft.text))


def _lot(seed: int, family: str, document: str, text: str = "") -> bytes:
    return hashlib.blake2b("\0".join((str(seed), family, document, text)).encode(), digest_size=8).digest()


def _distinct(candidates: Iterable[PossibleQuestion], taken: set[str], most: int) -> list[PossibleQuestion]:
    """The first `most` candidates whose words no earlier question has, in this family or another."""
    chosen: list[PossibleQuestion] = []
    for candidate in candidates:
        if len(chosen) == most:
            break
        key = " ".join(sorted(content_terms(candidate.text))) or candidate.text.lower()
        if key not in taken:
            taken.add(key)
            chosen.append(candidate)
    return chosen


def _query(family: str, candidate: PossibleQuestion, texts: dict[str, str]) -> ExamQuery:
    """Makes the question. Its id is derived from its words, so an edit elsewhere does not change it."""
    metadata = {"source": candidate.source} if candidate.source else {}
    shared = max(overlap(candidate.text, texts[j.document], j.start, j.end) for j in candidate.judgments)
    digest = hashlib.blake2b(f"{candidate.text}\0{candidate.document}".encode(), digest_size=5).hexdigest()
    return ExamQuery(f"{family}-{digest}", candidate.text, candidate.judgments, family, shared, metadata)


_PARAPHRASE, _TITLED = "heading_paraphrase", "heading_paraphrase_titled"


def in_shares(queries: Sequence[ExamQuery], shares: Mapping[str, int]) -> tuple[ExamQuery, ...]:
    """The first questions of each kind, as many as its share allows."""
    kinds = {kind: [query for query in queries if query.family == kind] for kind in shares}
    there = {kind: members for kind, members in kinds.items() if members}
    scale = min((len(members) / shares[kind] for kind, members in there.items()), default=0.0)
    counts = {kind: max(1, int(min(1.0, scale) * shares[kind] + 1e-9)) for kind in there}
    return tuple(query for kind, members in there.items() for query in members[: counts[kind]])


def generate_in_shares(
    documents: Sequence[Document],
    shares: Mapping[str, int],
    name: str,
    written: Sequence[ExamQuery] = (),
    seed: int = 42,
) -> Exam:
    """Writes the exam. Kinds of which there are `written` questions, by a language model, are not written by rule.
    Paraphrases by rule name their document where their words alone point at several."""
    by_model = {query.family for query in written}
    families = [_TITLED if kind == _PARAPHRASE else kind for kind in shares if kind not in by_model]
    made = generate(documents, name, max(shares.values()), families, seed)
    ours = [replace(query, family=_PARAPHRASE) if query.family == _TITLED else query for query in made.queries]
    return Exam(name, in_shares([*ours, *written], shares), origin=made.origin, generator=GENERATOR)
