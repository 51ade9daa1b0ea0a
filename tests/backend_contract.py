"""Checks backends, which store the chunks of a knowledge base and search them: the contract of all of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from surefind.base.access import Access, PathRule
from surefind.base.errors import NotBuiltError, StoreError, UsageError
from surefind.base.protocols import Retriever, Services
from surefind.base.types import PAD, Chunk, Document, Query, Rankings
from surefind.engine.store.backend import Backend, Contents, Delta, View
from surefind.engine.store.catalogue import Catalogue
from surefind.testing.stages import check_rankings, rule

LAYOUT = "whole + headings"
OWNER, PUBLIC = Access.owner(), Access.public()
_QUERY = [Query("cash report")]


@dataclass
class _Shelf:
    """A catalogue, a backend, and the documents that each set should contain."""

    catalogue: Catalogue
    backend: Backend
    retrievers: Sequence[Retriever]
    services: Services
    versions: dict[str, int] = field(default_factory=dict)
    texts: dict[int, dict[str, str]] = field(default_factory=dict)

    def commit(self, documents: dict[str, Document]) -> int:
        """Commits these documents as the next set; documents that differ from the last set become new versions."""
        number = self.catalogue.base() + 1
        last = self.texts.get(number - 1, {})
        gone = [
            document_id
            for document_id in last
            if document_id not in documents or documents[document_id].text != last[document_id]
        ]
        with self.catalogue.transaction():
            self.catalogue.versions.release([self.versions[document_id] for document_id in gone], number)
            for document_id, document in documents.items():
                if last.get(document_id) != document.text:
                    self.versions[document_id] = self._add(document, number)
        self.backend.build(
            self.contents(number), LAYOUT, self.retrievers, self.services, lambda what, done, total: None
        )
        with self.catalogue.transaction():
            self.catalogue.commit(number)
        self.texts[number] = {document_id: document.text for document_id, document in documents.items()}
        return number

    def _add(self, document: Document, number: int) -> int:
        content = hashlib.blake2b(document.text.encode(), digest_size=16).hexdigest()
        version = self.catalogue.versions.add(document, content, (0, document.id, 0, 0, 0, "", ""), number)
        half = len(document.text) // 2
        chunks = [
            Chunk(document.id, start, end, document.text[start:end], title=document.title)
            for start, end in ((0, half), (half, len(document.text)))
        ]
        self.backend.write([Delta(LAYOUT, version, chunks)])
        return version

    def contents(self, number: int) -> Contents:
        return Contents(number, partial(self.catalogue.members, number))

    def open(self, number: int, rules: Sequence[PathRule] = ()) -> View:
        return self.backend.open(self.contents(number), LAYOUT, self.services, rules)


def check_backend(
    make: Callable[[Catalogue], Backend], retrievers: Sequence[Retriever], services: Services, folder: Path
) -> None:
    """Checks a backend through searches, access, generations, reopening and clean-up.

    `make` returns a backend for a catalogue. `retrievers` are the retrievers that the backend must support. `folder` is
    an empty folder that the check may write to.
    """
    catalogue = Catalogue(folder)
    try:
        shelf = _Shelf(catalogue, make(catalogue), retrievers, services)
        first = shelf.commit(_documents())
        _check_search(shelf, first)
        _check_access(shelf, first)
        _check_passages(shelf, first)
        second = _check_generations(shelf, first)
        _check_reopened(shelf, make, second)
        _check_upkeep(shelf, second)
        _check_not_built(shelf, second)
        _check_sweep(shelf, first, second)
    finally:
        catalogue.close()


def _documents() -> dict[str, Document]:
    texts = [f"the cash report number {i} of the teller. every cash drawer {i} is counted twice" for i in range(12)]
    documents = {}
    for i, text in enumerate(texts):
        acl = (("board",), ("board", "audit"), ())[min(i % 4, 2)]
        status = {"status": ["draft", "approved"][i % 2], "year": 2020 + i}
        documents[f"docs/{i:02}.md"] = Document(f"docs/{i:02}.md", text, f"Title {i}", metadata=status, acl=acl)
    return documents


def _found(view: View, retriever: Retriever, access: Access, k: int = 100) -> Rankings:
    rankings = view.search(retriever, _QUERY, k, access)
    check_rankings(rankings, 1, k)
    return rankings


def _documents_of(view: View, rankings: Rankings, access: Access) -> set[str]:
    return {chunk.document for chunk in view.chunks(rankings.row(0)[0].tolist(), access)}


def _check_search(shelf: _Shelf, number: int) -> None:
    view = shelf.open(number)
    rule(len(view) == 24, f"len(view) must be the number of chunks: 24, not {len(view)}.")
    for retriever in shelf.retrievers:
        every = _found(view, retriever, OWNER)
        rule(len(every.row(0)[0]) >= 12, f"{retriever} must find the chunks that match.")
        few = _found(view, retriever, OWNER, 3)
        same = np.allclose(few.scores[0], every.scores[0, :3], atol=1e-5)
        rule(same, f"A smaller k must return the top of a larger k: {retriever}.")
        ids = every.ids[:, :5]
        scores = view.score(retriever, _QUERY, np.concatenate([ids, [[PAD]]], axis=1), OWNER)
        close = np.allclose(scores[0, :5], every.scores[0, :5], atol=1e-4) and np.isneginf(scores[0, 5])
        rule(close, f"score() must return the same scores as search(), and -inf for padding: {retriever}.")
        near = view.near(retriever, ids[0, :2].tolist(), 4, OWNER)
        rule(len(near) == 2, f"near() must return a row for each chunk: {retriever}.")
        wording = view.wording(retriever, _QUERY, OWNER)
        rule(wording is None or len(wording) == 1, f"wording() must return an entry for each query: {retriever}.")
        rule(len(view.search(retriever, [], 5, OWNER)) == 0, "A search without queries must return no rows.")


def _check_access(shelf: _Shelf, number: int) -> None:
    """Groups, path rules and filters must apply before top-k, as if the other documents did not exist."""
    view = shelf.open(number)
    ruled = shelf.open(number, [PathRule("docs/02.md", ("night",))])
    names = sorted(_documents())
    cases = {
        OWNER: set(names),
        PUBLIC: {name for i, name in enumerate(names) if i % 4 >= 2},
        Access.of("audit"): {name for i, name in enumerate(names) if i % 4 >= 1},
        Access.of("nobody"): {name for i, name in enumerate(names) if i % 4 >= 2},
        Access.public(["status=draft"]): {name for i, name in enumerate(names) if i % 4 >= 2 and i % 2 == 0},
        Access.owner(["year>=2029"]): set(names[9:]),
        Access.owner(["status=nonesuch"]): set(),
    }
    for access, expected in cases.items():
        rule(set(view.admitted(access)) == expected, f"{access} must admit {sorted(expected)}.")
        rule(view.withheld(access) == len(names) - len(expected), f"withheld() must count what {access} excludes.")
        for retriever in shelf.retrievers:
            documents = _documents_of(view, _found(view, retriever, access), access)
            rule(documents == expected, f"{retriever} must find exactly the documents that {access} admits.")
            top = _found(view, retriever, access, 1).row(0)[0]
            rule(len(top) == min(1, len(expected)), f"Access must be applied before top-k: {retriever}, {access}.")
    for retriever in shelf.retrievers:
        seen = _documents_of(ruled, _found(ruled, retriever, PUBLIC), PUBLIC)
        rule("docs/02.md" not in seen, f"A path rule must apply to every search: {retriever}.")
    _refuses(lambda: view.withheld(Access.public(["statsu=draft"])), UsageError, "A filter by an unknown key")
    for access, counts in {OWNER: (6, 6), PUBLIC: (3, 3), Access.owner(["year>=2029"]): (1, 2)}.items():
        found_values = {facet.key: dict(facet.values) for facet in view.facets(access)}.get("status")
        wanted = dict(zip(("draft", "approved"), counts, strict=True))
        rule(found_values == wanted, f"facets() must count the documents that {access} admits: {wanted}.")


def _check_passages(shelf: _Shelf, number: int) -> None:
    """Chunks must have the text of their documents, and must not be readable without access, not even by id."""
    view = shelf.open(number)
    for retriever in shelf.retrievers:
        ids = _found(view, retriever, OWNER).row(0)[0].tolist()
        for chunk, passage in zip(view.chunks(ids, OWNER), view.passages(ids, OWNER), strict=True):
            text = shelf.texts[number][chunk.document]
            rule(chunk.text == text[chunk.start : chunk.end], f"A chunk must be a part of its document: {chunk.id}.")
            rule(passage.title == f"Title {int(chunk.document[5:7])}", "A passage must have its document's title.")
            rule("status" in passage.metadata, "A passage must have its document's metadata.")
        closed = [
            document_id
            for document_id, c in zip(ids, view.chunks(ids, OWNER), strict=True)
            if c.document == "docs/00.md"
        ]
        _refuses(partial(view.chunks, closed, PUBLIC), StoreError, "A chunk that the caller may not read")
        _refuses(partial(view.passages, closed, PUBLIC), StoreError, "A passage that the caller may not read")


def _check_generations(shelf: _Shelf, first: int) -> int:
    """After a new set, both sets must be searchable, each with its own documents; unchanged chunks keep their ids."""
    earlier = shelf.open(first)
    documents = _documents()
    del documents["docs/11.md"]
    documents["docs/10.md"] = Document("docs/10.md", "the cash report was rewritten by the new teller", "Title 10")
    documents["docs/99.md"] = Document("docs/99.md", "another cash report came in", "Title 99")
    second = shelf.commit(documents)
    for retriever in shelf.retrievers:
        for view, number in ((earlier, first), (shelf.open(first), first), (shelf.open(second), second)):
            found = _documents_of(view, _found(view, retriever, OWNER), OWNER)
            rule(found == set(shelf.texts[number]), f"A view must search its own set of documents: {retriever}.")
    old, new = (dict(zip(v.spans().ids.tolist(), _texts(v), strict=True)) for v in (earlier, shelf.open(second)))
    kept = old.keys() & new.keys()
    rule(len(kept) == 20, f"Unchanged chunks must keep their ids: 20, not {len(kept)}.")
    rule(
        all(old[document_id] == new[document_id] for document_id in kept), "An id must mean the same text in every set."
    )
    return second


def _texts(view: View) -> list[str]:
    return [chunk.text for chunk in view.chunks(view.spans().ids.tolist(), OWNER)]


def _check_reopened(shelf: _Shelf, make: Callable[[Catalogue], Backend], number: int) -> None:
    again = make(shelf.catalogue).open(shelf.contents(number), LAYOUT, shelf.services, ())
    for retriever in shelf.retrievers:
        a, b = (_found(view, retriever, OWNER) for view in (shelf.open(number), again))
        same = np.array_equal(a.ids, b.ids) and np.allclose(a.scores, b.scores, atol=1e-5)
        rule(same, f"A backend that is opened again must return the same ids and scores: {retriever}.")


def _check_upkeep(shelf: _Shelf, number: int) -> None:
    """What a writer asks for besides: to merge what many sets have left."""
    before = [_found(shelf.open(number), retriever, OWNER) for retriever in shelf.retrievers]
    crowded = shelf.backend.crowded(number, LAYOUT, shelf.retrievers, shelf.services)
    for retriever in crowded:
        merged = shelf.backend.merge(
            shelf.contents(number), LAYOUT, retriever, shelf.services, lambda what, done, total: None
        )
        taken = merged and shelf.backend.take_merged(shelf.contents(number), LAYOUT, merged, shelf.services)
        rule(bool(taken), f"merge() must merge the indexes that crowded() returns: {retriever}.")
    rule(
        not shelf.backend.crowded(number, LAYOUT, shelf.retrievers, shelf.services),
        "After take_merged(), no index must be crowded.",
    )
    for retriever, a in zip(shelf.retrievers, before, strict=True):
        b = _found(shelf.open(number), retriever, OWNER)
        same = np.array_equal(a.ids, b.ids) and np.allclose(a.scores, b.scores, atol=1e-5)
        rule(same, f"merge() must not change what a set returns: {retriever}.")


def _check_not_built(shelf: _Shelf, number: int) -> None:
    _refuses(
        lambda: shelf.backend.open(shelf.contents(number), "fixed(tokens=7)", shelf.services, ()),
        NotBuiltError,
        "A layout that was not built",
    )
    rule(shelf.backend.has(number, LAYOUT), "has() must be true for a layout that was built.")
    rule(not shelf.backend.has(number, "fixed(tokens=7)"), "has() must be false for a layout that was not built.")


def _check_sweep(shelf: _Shelf, first: int, second: int) -> None:
    gone = shelf.catalogue.sweep({second})
    shelf.backend.sweep({second}, gone)
    view = shelf.open(second)
    for retriever in shelf.retrievers:
        documents = _documents_of(view, _found(view, retriever, OWNER), OWNER)
        rule(documents == set(shelf.texts[second]), f"sweep() must not change the sets that are kept: {retriever}.")
    rule(not shelf.backend.has(first, LAYOUT), "sweep() must delete the sets that are not kept.")


def _refuses(work: Callable[[], object], kind: type[Exception], what: str) -> None:
    try:
        work()
    except kind:
        return
    rule(False, f"{what} must be refused with {kind.__name__}.")
