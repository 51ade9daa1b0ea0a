"""Times how long known-item questions take to write, over many documents with headings.

    python benchmarks/exam_speed.py data/kb-govuk-devdocs/source data/kb-openshift-runbooks/alerts examples/quillhaven

The Markdown files of the folders are copied in memory until there are --documents of them. Each copy has a made-up word
of its own in its headings, in its links and in most of its lines, and a form number of its own. So hardly any question
fits two copies, and all families have more candidates than they need, as in a real corpus of this size. With --copies N
nine in ten documents are there N times, word for word, as in a folder with N versions. Files are read before the clock
starts.
"""

from __future__ import annotations

import argparse
import re
import statistics
import time
from dataclasses import replace
from pathlib import Path

from _shared import machine
from surefind.exam.known_item import generate
from surefind.ingest.markdown import Markdown
from surefind.types import Document

_HEADING = re.compile(r"^(#{1,6} [^\n]*?)(?=[ #?]*$)", re.MULTILINE)
_THE = re.compile(r"^([^#\n]*? the )", re.MULTILINE)
_LINK = re.compile(r"(?<=\w)\](?=\()")
_CONSONANTS, _VOWELS = "bdfgklmnprtvz", "aeiou"


def made_up(number: int) -> str:
    """A word that no document has: 1 -> bababadoko."""
    syllables = [consonant + vowel for consonant in _CONSONANTS for vowel in _VOWELS]
    word = ""
    for _ in range(4):
        number, digit = divmod(number, len(syllables))
        word = syllables[digit] + word
    return f"{word}ko"


def copied(document: Document, number: int, folder: int) -> Document:
    """The document with a word of its own, in a folder for each round of copies, so that links lead to copies."""
    word = made_up(number)
    text = _LINK.sub(f" {word}]", _THE.sub(rf"\1{word} ", _HEADING.sub(rf"\1 {word}", document.text)))
    title = f"{document.title} {word}"
    text += f"\n\nPlease use the form FRM-{number:05} for all of this.\n"
    metadata = {**document.metadata, **({"title": title} if document.metadata.get("title") else {})}
    return replace(document, id=f"{folder:03}/{document.id}", text=text, title=title, metadata=metadata)


def corpus(folders: list[Path], count: int) -> list[Document]:
    files = [(path, path.relative_to(folder)) for folder in folders for path in sorted(folder.rglob("*.md*"))]
    originals = [document for path, document_id in files for document in Markdown().read(path, document_id.as_posix())]
    return [copied(originals[number % len(originals)], number, number // len(originals)) for number in range(count)]


def versions(documents: list[Document], copies: int) -> list[Document]:
    """Nine in ten documents, in several folders, and the others once."""
    few = len(documents) // 10
    return documents[:few] + [replace(one, id=f"v{copy}/{one.id}") for one in documents[few:] for copy in range(copies)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    documents = corpus(args.folders, args.documents // args.copies)
    documents = versions(documents, args.copies) if args.copies > 1 else documents
    characters = sum(len(document.text) for document in documents)
    print(f"{len(documents)} documents, {characters / 1e6:.1f} million characters; {machine('surefind')}")
    walls: list[float] = []
    for _ in range(args.rounds):
        wall, cpu = time.perf_counter(), time.process_time()
        exam = generate(documents)
        walls.append(time.perf_counter() - wall)
        print(f"{walls[-1]:.1f} s ({time.process_time() - cpu:.1f} s of CPU time): {exam.families()}", flush=True)
    print(f"median {statistics.median(walls):.1f} s")


if __name__ == "__main__":
    main()
