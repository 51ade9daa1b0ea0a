"""Writes an exam with a language model, after the agentic-knowledge-base study (section 4.2): SF1H, SF2H and MF2H.

    sf1h   one passage; the answer is an exact substring of it
    sf2h   two passages of one file that share an entity; both are needed
    mf2h   two passages of two files that share an entity and a tag; both are needed

Passages are segments of about 1,000 words, or the sections of documents that have none (`passages`). The seed decides
their order. spaCy finds names if it is installed, otherwise rules do, and the model adds more up to five, as in the
study. Each question must pass the rules (the answer is an exact substring, the question does not mention its passage,
it does not fit many documents, it is not a duplicate); two-hop questions must also pass the necessity check. The gold
is the answer's span and, for two hops, the sentence of the other passage that names the shared entity, as supporting
evidence. A question keeps its passages as segments. Every answer of the model is cached: a stopped run continues where
it was, and repeating a run is free.

Checks that a two-hop question needs both of its passages: neither of them, nor any other single passage, answers it.

The model must give the answer when it sees both passages, and must not when it sees only one. A passage that BM25 finds
for the question and that contains the answer might be enough by itself, so the model is shown such passages alone, too.

Finds the pairs of passages that a two-hop question may combine: passages that share an entity.

sf2h: two passages of one file. mf2h: passages of two files that share a tag, so that unrelated fields are not combined;
if no file has tags, two shared entities are required instead. An entity in very many passages is ignored.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, islice
from typing import Any

from surefind.base.access import Access
from surefind.base.errors import BudgetError, ExamError, MissingPartError, SurefindError, choices
from surefind.base.prompts.fence import Data
from surefind.base.prompts.prompt import Prompt
from surefind.base.prompts.values import Calls, Completion, Message
from surefind.base.protocols import ChatModel, OnProgress, Services
from surefind.base.text.words import sentence_spans, words
from surefind.base.types import Document, Query
from surefind.engine.extract.spacy import Spacy
from surefind.engine.llm.ask import read_object
from surefind.engine.llm.chat import complete_many
from surefind.engine.retrieve.bm25 import BM25
from surefind.kb import KnowledgeBase
from surefind.lab.exam.by_llm.questions import (
    LIMITS,
    SCHEMA,
    Kind,
    Question,
    Seen,
    SourcePassage,
    Specific,
    drawn,
    find_answer,
    passages,
    read_questions,
    short,
    single_prompt,
)
from surefind.lab.exam.families.names import named
from surefind.lab.exam.model import Exam, ExamQuery, Judgment, Role
from surefind.lab.exam.overlap import overlap

ENTITIES = 5
"""Most entities used of each passage."""
_TYPES = frozenset({"PERSON", "ORG", "PRODUCT", "WORK_OF_ART"})
"""The types of spaCy that the study uses."""
_COMMON = 20
"""An entity in more passages than this is too common to relate two of them."""
_EACH = 3
"""Most pairs that one passage may be in."""


@dataclass(frozen=True)
class PassagePair:
    passages: tuple[SourcePassage, SourcePassage]
    shared: tuple[str, ...]


def entities_of(passages: Sequence[SourcePassage], services: Services) -> dict[SourcePassage, tuple[str, ...]]:
    """The entities of each passage, by spaCy if it and its model are installed, as in the study; otherwise by rules."""
    try:
        read = Spacy().extract([passage.text for passage in passages], services)
    except MissingPartError:
        return {passage: entities_by_rule(passage) for passage in passages}
    return {
        passage: _most_frequent(mention.name for mention in extraction.mentions if mention.type in _TYPES)
        for passage, extraction in zip(passages, read, strict=True)
    }


def entities_by_rule(passage: SourcePassage) -> tuple[str, ...]:
    return _most_frequent(name for name, _ in named(passage.text))


def _most_frequent(names: Iterable[str]) -> tuple[str, ...]:
    """At most `ENTITIES` names, the most frequent first."""
    ordered = sorted(Counter(names).items(), key=lambda item: (-item[1], item[0]))
    return tuple(name for name, _ in ordered[:ENTITIES])


def pairs(entities: Mapping[SourcePassage, Sequence[str]], cross: bool) -> list[PassagePair]:
    """All pairs that fit, with each passage in at most `_EACH` of them."""
    holders: dict[str, list[SourcePassage]] = defaultdict(list)
    shown: dict[str, str] = {}
    for passage, names in entities.items():
        for name in dict.fromkeys(names):
            holders[name.lower()].append(passage)
            shown.setdefault(name.lower(), name)
    shared: dict[tuple[SourcePassage, SourcePassage], list[str]] = defaultdict(list)
    for key, members in holders.items():
        if 2 <= len(members) <= _COMMON:
            for a, b in combinations(members, 2):
                if (a.document != b.document) == cross:
                    shared[a, b].append(shown[key])
    tagged = any(passage.tags for passage in entities)
    used: Counter[SourcePassage] = Counter()
    made = []
    for (a, b), names in sorted(shared.items(), key=lambda item: (-len(item[1]), item[0][0].start, item[0][1].start)):
        related = not cross or bool(a.tags & b.tags) or (not tagged and len(names) >= 2)
        if related and used[a] < _EACH and used[b] < _EACH:
            used.update((a, b))
            made.append(PassagePair((a, b), tuple(names)))
    return made


ANSWER: dict[str, Any] = {
    "type": "object",
    "properties": {"answerable": {"type": "boolean"}, "answer": {"type": "string"}},
}
_F1 = 0.6
"""Smallest word overlap (F1) at which the model's answer counts as the gold answer."""

Ask = Callable[[Sequence[tuple[str, Sequence[str]]]], list[str | None]]
"""(question, passages) -> the model's reply to each; None if the call failed."""
Find = Callable[[Sequence[Question]], list[list[str]]]
"""Questions -> for each, other passages that retrieval finds and that contain the answer."""


def necessary(questions: Sequence[Question], ask: Ask, find: Find) -> list[str]:
    """For each question, "" if both passages are needed, or the reason to drop it."""
    verdicts = [""] * len(questions)
    together = ask([(q.text, [p.text for p in q.passages]) for q in questions])
    for i, (question, reply) in enumerate(zip(questions, together, strict=True)):
        if reply is None:
            verdicts[i] = "could not be checked"
        elif not answers(reply, question.answer):
            verdicts[i] = "both passages together do not answer it"
    left = [i for i, verdict in enumerate(verdicts) if not verdict]
    singles: list[tuple[int, str, str]] = []
    for i, others in zip(left, find([questions[i] for i in left]), strict=True):
        singles += [(i, p.text, "one of its passages is enough") for p in questions[i].passages]
        singles += [(i, text, "another passage is enough") for text in others]
    alone = ask([(questions[i].text, [text]) for i, text, _ in singles])
    for (i, _, verdict), reply in zip(singles, alone, strict=True):
        if reply is None:
            verdicts[i] = verdicts[i] or "could not be checked"
        elif answers(reply, questions[i].answer):
            verdicts[i] = verdict
    return verdicts


def answers(reply: str, gold: str) -> bool:
    """Whether the model found the answer: one contains the other, or they share most of their words."""
    answer = read_object(reply)
    if not answer or answer.get("answerable") is not True or not isinstance(answer.get("answer"), str):
        return False
    given, wanted = words(answer["answer"]), words(gold)
    if not given or not wanted:
        return False
    if find_answer(" ".join(wanted), " ".join(given)) or find_answer(" ".join(given), " ".join(wanted)):
        return True
    shared = len(set(given) & set(wanted))
    return 2 * shared / (len(set(given)) + len(set(wanted))) >= _F1


FAMILIES = ("sf1h", "sf2h", "mf2h")
_ENTITY_SCHEMA = {"type": "object", "properties": {"entities": {"type": "array", "items": {"type": "string"}}}}
_WAVE = 32
"""Prompts sent together. If a run is stopped, the answers so far are in the cache."""
_TRIED = 3
"""Most passages or pairs tried per question wanted."""
_SINGLES = 3
"""Most other passages that a question is checked against."""
_FOUND = 10
"""Passages that BM25 returns for the necessity check."""
_QUOTE = 80
"""Characters of a gold passage that a judgment quotes."""
_TOKENS = {"write": 600, "answer": 120, "entities": 120}
_PROMPT_TOKENS = 450
"""Assumed tokens of a prompt besides its passages, used for cost estimates."""


@dataclass(frozen=True)
class LLMPlan:
    families: tuple[str, ...] = FAMILIES
    per_family: int = 50
    seed: int = 42
    passages: Kind = "segments"

    def __post_init__(self) -> None:
        for family in self.families:
            if family not in FAMILIES:
                raise ExamError(f"There is no question family called {family!r}. {choices(family, FAMILIES)}")
        if self.per_family < 1:
            raise ExamError(f"--per-family must be at least 1, not {self.per_family}.")
        if self.passages not in LIMITS:
            raise ExamError(f"There are no passages called {self.passages!r}. {choices(self.passages, LIMITS)}")

    def calls(self, model: str, material: Sequence[SourcePassage]) -> Calls:
        """Estimates the calls: a call gives about one usable question; half of the two-hop questions are dropped."""
        size = sum(len(p.text) for p in material) // max(1, len(material)) // 4 + _PROMPT_TOKENS
        single = self.per_family * ("sf1h" in self.families)
        double = 2 * self.per_family * (len(self.families) - ("sf1h" in self.families))
        entities = min(len(material), 4 * double)
        answers = 3 * double
        return Calls(
            model,
            single + double + entities + answers,
            single * size + double * 2 * size + entities * size + answers * int(1.4 * size),
            (single + double) * _TOKENS["write"] // 3 + entities * _TOKENS["entities"] // 2 + answers * 40,
        )


@dataclass
class WrittenQuestions:
    queries: list[ExamQuery] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    """Why questions were dropped, and how often."""
    stopped: str = ""
    """Why the run ended early (the budget); "" if it did not."""

    def exam(self, name: str, origin: str, corpus: str) -> Exam:
        return Exam(name, tuple(self.queries), origin=origin, corpus=corpus)


class QuestionWriter:
    def __init__(
        self,
        kb: KnowledgeBase,
        model: str,
        documents: Sequence[Document],
        plan: LLMPlan,
        report: OnProgress | None = None,
    ) -> None:
        self.kb = kb
        self.plan = plan
        self.model = model
        self.material = passages(sorted(documents, key=lambda document: document.id), plan.passages)
        if not self.material:
            raise ExamError(
                "No questions can be written from these documents: they have no sections of "
                f"{LIMITS['sections'][0]} words or more. Add longer documents."
            )
        self.short = short(documents) if plan.passages == "segments" else 0
        """Documents whose sections are read, because they have no segment."""
        self._texts = {document.id: document.text for document in documents}
        self._report: OnProgress = report or (lambda what, done, total: None)
        self._seen = Seen()
        self._written = WrittenQuestions()

    @cached_property
    def _specific(self) -> Specific:
        return Specific(self.material)

    @property
    def chat(self) -> ChatModel:
        return self.kb.services.chat(self.model)

    def calls(self) -> Calls:
        return self.plan.calls(self.model, self.material)

    def write(self) -> WrittenQuestions:
        """Writes all families. If the budget ends, the questions written so far are kept."""
        try:
            for family in self.plan.families:
                self._family(family)
        except BudgetError as error:
            self._written.stopped = str(error)
        return self._written

    # ------------------------------------------------------------ families

    def _family(self, family: str) -> None:
        wanted, kept, tried = self.plan.per_family, 0, 0
        material = self._pairs(family) if family != "sf1h" else self._singles()
        while kept < wanted and tried < wanted * _TRIED:
            self._report(f"Writing {family}", kept, wanted)
            wave = list(islice(material, min(_WAVE, max(1, wanted - kept))))
            if not wave:
                break
            tried += len(wave)
            questions = self._checked(family, self._drafted(wave))
            for question in questions[: wanted - kept]:
                self._written.queries.append(self._query(family, question))
                kept += 1
        self._report(f"Writing {family}", wanted, wanted)

    def _singles(self) -> Iterator[PassagePair | SourcePassage]:
        return (item[0] for item in drawn([(p,) for p in self.material], "sf1h", self.plan.seed))

    def _pairs(self, family: str) -> Iterator[PassagePair | SourcePassage]:
        candidates = pairs(self._entities(), cross=family == "mf2h")
        if not candidates:
            self._written.refused[f"no two {self.plan.passages} for {family} share an entity"] += 1
        shared = {pair.passages: pair for pair in candidates}
        return (shared[item] for item in drawn(list(shared), family, self.plan.seed))  # type: ignore[index]

    def _entities(self) -> dict[SourcePassage, tuple[str, ...]]:
        """The entities of as many passages as the pairs may need. If fewer than five are found, the model adds the
        rest."""
        most = 4 * self.plan.per_family * _TRIED
        chosen = [item[0] for item in drawn([(p,) for p in self.material], "entities", self.plan.seed)][:most]
        known = entities_of(chosen, self.kb.services)
        short = [passage for passage, names in known.items() if len(names) < ENTITIES]
        template = self._prompt("exam_entities", ("passage", "names", "count"))
        prompts = [
            template.messages(
                passage=Data("passage", p.text),
                names=Data("names", ", ".join(known[p]) or "none"),
                count=ENTITIES - len(known[p]),
            )
            for p in short
        ]
        answers = self._ask(prompts, _ENTITY_SCHEMA, _TOKENS["entities"], "Naming")
        for passage, reply in zip(short, answers, strict=True):
            listed = (read_object(reply) or {}).get("entities") if reply else None
            more = [name for name in listed or [] if isinstance(name, str) and find_answer(name, passage.text)]
            known[passage] = tuple(dict.fromkeys([*known[passage], *more]))[:ENTITIES]
        return known

    # ------------------------------------------------------------ asking

    def _drafted(self, wave: Sequence[PassagePair | SourcePassage]) -> list[Question]:
        prompts = []
        for item in wave:
            if isinstance(item, SourcePassage):
                prompts.append(single_prompt(item, self.kb.services))
            else:
                shown = [Data("passage", p.text, number) for number, p in enumerate(item.passages, 1)]
                pair = self._prompt("exam_pair", ("passages", "names"))
                prompts.append(pair.messages(passages=shown, names=Data("names", ", ".join(item.shared))))
        made: list[Question] = []
        for item, reply in zip(wave, self._ask(prompts, SCHEMA, _TOKENS["write"]), strict=True):
            if reply is None:
                self._written.refused["the model did not answer"] += 1
                continue
            sources, shared = ((item,), ()) if isinstance(item, SourcePassage) else (item.passages, item.shared)
            questions, refused = read_questions(reply, sources, shared)
            self._written.refused.update(refused)
            made += questions
        return made

    def _checked(self, family: str, questions: Sequence[Question]) -> list[Question]:
        asking = [question for question in questions if self._specific(question.text)]
        new = [question for question in asking if self._seen.take(question)]
        counts = {"fits many documents": len(questions) - len(asking), "asked before": len(asking) - len(new)}
        self._written.refused.update({reason: count for reason, count in counts.items() if count})
        if family == "sf1h":
            return new
        verdicts = necessary(new, self._answers, self._retrieved)
        self._written.refused.update(filter(None, verdicts))
        return [question for question, verdict in zip(new, verdicts, strict=True) if not verdict]

    def _answers(self, requests: Sequence[tuple[str, Sequence[str]]]) -> list[str | None]:
        template = self._prompt("exam_answer", ("passages", "query"))
        prompts = [
            template.messages(
                passages=[Data("passage", text, number) for number, text in enumerate(texts, 1)],
                query=Data("query", question),
            )
            for question, texts in requests
        ]
        return self._ask(prompts, ANSWER, _TOKENS["answer"])

    def _retrieved(self, questions: Sequence[Question]) -> list[list[str]]:
        """Passages that BM25 finds for each question, that contain its answer and are not its own passages."""
        if not questions:
            return []
        retriever = BM25()
        self.kb.build_for([retriever])
        view = self.kb.reader().view
        rankings = view.search(retriever, [Query(q.text) for q in questions], _FOUND, Access.owner())
        hits_by_query = []
        for i, question in enumerate(questions):
            chunks = view.chunks(rankings.row(i)[0].tolist(), Access.owner())
            others = [
                chunk.text
                for chunk in chunks
                if chunk.document in self._texts
                and find_answer(question.answer, chunk.text)
                and not any(p.overlaps(chunk.document, chunk.start, chunk.end) for p in question.passages)
            ]
            hits_by_query.append(others[:_SINGLES])
        return hits_by_query

    def _ask(
        self, prompts: Sequence[Sequence[Message]], schema: Mapping[str, Any], most: int, what: str = ""
    ) -> list[str | None]:
        """The model's reply to each prompt; None if the call failed."""
        progress = (lambda done, total: self._report(what, done, total)) if what else None
        answers = complete_many(self.chat, prompts, schema=schema, max_tokens=most, progress=progress)
        failed = [answer for answer in answers if isinstance(answer, SurefindError)]
        if answers and len(failed) == len(answers):
            raise failed[0]  # if every call fails, the following ones will fail, too
        return [answer.text if isinstance(answer, Completion) else None for answer in answers]

    def _prompt(self, name: str, slots: Sequence[str]) -> Prompt:
        return self.kb.services.prompt(name, "v1", slots)

    # ------------------------------------------------------------ questions -> exam

    def _query(self, family: str, question: Question) -> ExamQuery:
        first = question.passages[0]
        gold = [self._judge(first.document, question.start, question.end)]
        gold += [self._judge(p.document, *self._evidence(p, question.shared), "support") for p in question.passages[1:]]
        shared = max(overlap(question.text, self._texts[j.document], j.start, j.end) for j in gold)
        digest = hashlib.blake2b(f"{question.text}\0{first.document}".encode(), digest_size=5).hexdigest()
        metadata = {"answer": question.answer, "model": self.model or self.kb.settings.llm.model}
        if question.shared:
            metadata["shared"] = ", ".join(question.shared)
        segments = tuple(self._judge(p.document, p.start, p.end) for p in question.passages)
        return ExamQuery(f"{family}-{digest}", question.text, tuple(gold), family, shared, metadata, segments)

    def _judge(self, document: str, start: int, end: int, role: Role = "answer") -> Judgment:
        return Judgment(document, start, end, 1, self._texts[document][start:end][:_QUOTE], role)

    def _evidence(self, passage: SourcePassage, shared: Sequence[str]) -> tuple[int, int]:
        """The first sentence of the other passage that names a shared entity."""
        text = self._texts[passage.document]
        names = re.compile("|".join(map(re.escape, shared)) or "$^", re.IGNORECASE)
        match = names.search(text, passage.start, passage.end)
        at = match.start() if match else passage.start
        start, end = next(span for span in sentence_spans(text, passage.start, passage.end) if span[0] <= at < span[1])
        body = text[start:end]
        return start + len(body) - len(body.lstrip()), start + len(body.rstrip())
