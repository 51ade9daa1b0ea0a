"""Readers, chunkers and enrichers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from surefind.errors import SourceError
from surefind.protocols import Chunker, Enricher, Reader
from surefind.services import Services
from surefind.testing._rule import rule
from surefind.types import Chunk, Document

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
    """`good` is a file that it reads; `bad`, if given, one that it must refuse with a `SourceError`."""
    rule(reader.suffixes, "A reader must name the suffixes (or whole names) of the files it takes.")
    for suffix in reader.suffixes:
        rule("." in suffix and suffix == suffix.lower(), f"A suffix has a dot and is lower case: {suffix!r}.")
    documents = list(reader.read(good, "folder/name"))
    rule(documents, f"A readable file must give a document; {good} gave none.")
    ids = [document.id for document in documents]
    rule(len(set(ids)) == len(ids), f"Documents of one file must have different ids: {ids}.")
    for document in documents:
        rule(document.id, f"A document must have an id: one of {good} has none.")
        rule("\r" not in document.text, f"Line ends must be \\n in {document.id}.")
        rule(not document.text.startswith("\ufeff"), f"A byte order mark is no text: {document.id}.")
    rule(list(reader.read(good, "folder/name")) == documents, f"Reading twice must give the same: {good}.")
    if bad is not None:
        _check_refuses(reader, bad)


def _check_refuses(reader: Reader, bad: Path) -> None:
    try:
        list(reader.read(bad, "folder/name"))
    except SourceError:
        return
    except Exception as error:
        raise AssertionError(f"A reader must refuse with SourceError, not {type(error).__name__}: {bad}.") from error
    raise AssertionError(f"A reader must refuse a file that it cannot read: {bad}.")


def check_chunker(
    chunker: Chunker, documents: Sequence[Document] = DOCUMENTS, services: Services | None = None
) -> None:
    """Chunks are parts of their document, in order, the same each time; a document without words has none."""
    services = services or Services()
    for document in documents:
        chunks = chunker.chunk(document, services)
        _check_chunks(document, chunks)
        rule(chunker.chunk(document, services) == chunks, f"Chunking {document.id} twice must give the same.")
    for text in ("", " \n\t"):
        nothing = chunker.chunk(Document("nothing", text), services)
        rule(nothing == [], f"A text without words has no chunks: {text!r}.")


def _check_chunks(document: Document, chunks: list[Chunk]) -> None:
    covered = bytearray(len(document.text))
    for chunk in chunks:
        where = f"{document.id}[{chunk.start}:{chunk.end}]"
        rule(chunk.document == document.id, f"A chunk must name its document: {where} says {chunk.document!r}.")
        rule(0 <= chunk.start < chunk.end <= len(document.text), f"Offsets must lie inside the text: {where}.")
        rule(document.text[chunk.start : chunk.end] == chunk.text, f"Offsets must give the chunk's text: {where}.")
        rule(chunk.text.strip(), f"A chunk must hold more than white space: {where}.")
        if chunk.parent is not None:
            inside = 0 <= chunk.parent[0] <= chunk.start and chunk.end <= chunk.parent[1] <= len(document.text)
            rule(inside, f"A chunk must lie inside its parent, and that in the text: {where} in {chunk.parent}.")
        covered[chunk.start : chunk.end] = b"\1" * (chunk.end - chunk.start)
    spans = [(chunk.start, chunk.end) for chunk in chunks]
    rule(spans == sorted(spans), f"Chunks must stand in the order of the text: {document.id}.")
    rule(len(set(spans)) == len(spans), f"No chunk may stand twice: {document.id}.")
    lost = [i for i, char in enumerate(document.text) if not covered[i] and not char.isspace()]
    rule(not lost, f"No character may be lost: {document.id} loses {document.text[lost[0] :][:40]!r}." if lost else "")


def check_enricher(
    enricher: Enricher, document: Document, chunks: Sequence[Chunk], services: Services | None = None
) -> None:
    """Every chunk comes back with nothing changed but its context."""
    services = services or Services()
    given = list(chunks)
    enriched = enricher.enrich(document, given, services)
    rule(given == list(chunks), "An enricher must leave the list it got alone.")
    rule(len(enriched) == len(chunks), f"An enricher must return every chunk: {len(chunks)} in, {len(enriched)} out.")
    for before, after in zip(chunks, enriched, strict=True):
        same = dataclasses.replace(after, context=before.context)
        rule(same == before, f"An enricher must change nothing but the context: {document.id}[{before.start}].")
        rule(after.context.startswith(before.context), f"An enricher must keep earlier context: {before.context!r}.")
    rule(enricher.enrich(document, given, services) == enriched, "Enriching twice must give the same.")
    rule(enricher.enrich(document, [], services) == [], "No chunks must stay no chunks.")
