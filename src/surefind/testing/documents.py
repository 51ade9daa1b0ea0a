"""Checks readers, chunkers and enrichers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from surefind.base.errors import SourceError
from surefind.base.protocols import Chunker, Enricher, Reader, Services
from surefind.base.types import Chunk, Document
from surefind.engine.services import LocalServices
from surefind.testing._rule import rule

DOCUMENTS = (
    Document("empty.md", ""),
    Document("blank.md", " \n\t\n\u00a0\u2003 "),
    Document("word.md", "word"),
    Document("prose.txt", "One sentence. Another one! A third?\n\n" * 40, "Prose", "text"),
    Document("long-line.md", "token " * 1500, "Long"),
    Document("unicode.md", "# Überschrift\n\n" + "東京の🍮 naïve\u200bcafé e\u0301. " * 60, "Unicode"),
    Document(
        "manual.md",
        "Preamble.\n\n# Manual\n\nIntro.\n\n## Steps\n\n1. First do this.\n2. Then *that*.\n   - and more\n\n"
        "| code | meaning |\n|---|---|\n| EOD-7 | end of day |\n\n```\nrun --now\n\n# not a heading\n```\n\n"
        "Setext\n------\n\n> quoted text\n\n<div>\nhtml\n</div>\n\n## Empty\n\n### Deep\n\nLast words",
        "Manual",
    ),
)


def check_reader(reader: Reader, good: Path, bad: Path | None = None) -> None:
    """Checks a reader. `good` is a file that it can read; `bad`, if given, is one that it must refuse with a
    `SourceError`."""
    rule(reader.suffixes, "A reader must name the suffixes (or whole names) of the files it reads.")
    for suffix in reader.suffixes:
        rule("." in suffix and suffix == suffix.lower(), f"A suffix must have a dot and be lower case: {suffix!r}.")
    documents = list(reader.read(good, "folder/name"))
    rule(documents, f"A reader must return a document for a readable file; it returned none for {good}.")
    ids = [document.id for document in documents]
    rule(len(set(ids)) == len(ids), f"Documents of one file must have different ids: {ids}.")
    for document in documents:
        rule(document.id, f"A document must have an id: one of {good} has none.")
        rule("\r" not in document.text, f"Line ends must be \\n: {document.id}.")
        rule(not document.text.startswith("\ufeff"), f"A text must not begin with a byte order mark: {document.id}.")
    rule(list(reader.read(good, "folder/name")) == documents, f"Reading twice must give the same documents: {good}.")
    if bad is not None:
        _check_refuses(reader, bad)


def _check_refuses(reader: Reader, bad: Path) -> None:
    try:
        list(reader.read(bad, "folder/name"))
    except SourceError:
        return
    except Exception as error:
        raise AssertionError(f"A reader must refuse with SourceError, not {type(error).__name__}: {bad}.") from error
    raise AssertionError(f"A reader must refuse a bad file with SourceError: {bad}.")


def check_chunker(
    chunker: Chunker, documents: Sequence[Document] = DOCUMENTS, services: Services | None = None
) -> None:
    """Checks that a chunker is deterministic and returns exact spans that cover all text of each document."""
    services = services or LocalServices()
    for document in documents:
        chunks = chunker.chunk(document, services)
        _check_chunks(document, chunks)
        rule(chunker.chunk(document, services) == chunks, f"Chunking {document.id} twice must give the same chunks.")
    for text in ("", " \n\t"):
        nothing = chunker.chunk(Document("nothing", text), services)
        rule(nothing == [], f"A text without words must have no chunks: {text!r}.")


def _check_chunks(document: Document, chunks: list[Chunk]) -> None:
    covered = bytearray(len(document.text))
    for chunk in chunks:
        where = f"{document.id}[{chunk.start}:{chunk.end}]"
        rule(chunk.document == document.id, f"A chunk must name its document: {where} says {chunk.document!r}.")
        rule(0 <= chunk.start < chunk.end <= len(document.text), f"Offsets must be inside the text: {where}.")
        rule(document.text[chunk.start : chunk.end] == chunk.text, f"Offsets must match the chunk's text: {where}.")
        rule(chunk.text.strip(), f"A chunk must contain more than white space: {where}.")
        if chunk.parent is not None:
            inside = 0 <= chunk.parent[0] <= chunk.start and chunk.end <= chunk.parent[1] <= len(document.text)
            rule(inside, f"A chunk must be inside its parent, the parent inside the text: {where} in {chunk.parent}.")
        covered[chunk.start : chunk.end] = b"\1" * (chunk.end - chunk.start)
    spans = [(chunk.start, chunk.end) for chunk in chunks]
    rule(spans == sorted(spans), f"Chunks must be in the order of the text: {document.id}.")
    rule(len(set(spans)) == len(spans), f"No chunk may occur twice: {document.id}.")
    lost = [i for i, char in enumerate(document.text) if not covered[i] and not char.isspace()]
    rule(not lost, f"No character may be lost: {document.id} loses {document.text[lost[0] :][:40]!r}." if lost else "")


def check_enricher(
    enricher: Enricher, document: Document, chunks: Sequence[Chunk], services: Services | None = None
) -> None:
    """Checks that an enricher is deterministic and only adds to the context of each chunk."""
    services = services or LocalServices()
    given = list(chunks)
    enriched = enricher.enrich(document, given, services)
    rule(given == list(chunks), "An enricher must not change the list that it is given.")
    rule(len(enriched) == len(chunks), f"An enricher must return every chunk: {len(chunks)} in, {len(enriched)} out.")
    for before, after in zip(chunks, enriched, strict=True):
        same = dataclasses.replace(after, context=before.context)
        rule(same == before, f"An enricher must change nothing but the context: {document.id}[{before.start}].")
        rule(after.context.startswith(before.context), f"An enricher must keep earlier context: {before.context!r}.")
    rule(enricher.enrich(document, given, services) == enriched, "Enriching twice must give the same chunks.")
    rule(enricher.enrich(document, [], services) == [], "An enricher must return an empty list for an empty list.")
