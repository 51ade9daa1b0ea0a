"""`kb.drafts`: writes, reviews and publishes drafts. `kb.drafts.store` keeps them.

A save needs no writer's lock: drafts can be written while a sync runs. Publishing takes the lock, as a sync does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from surefind.base.errors import NothingIndexedError, SourceError, StoreError, UsageError
from surefind.base.names import one_spelling
from surefind.base.running import check_stopped
from surefind.kb.shared import Writers

if TYPE_CHECKING:
    from surefind.base.access import Access
    from surefind.base.protocols import OnProgress
    from surefind.base.types import Chunk, Document
    from surefind.engine.search.reader import Searcher
    from surefind.engine.write.preparing import FilePreparer
    from surefind.kb.drafts.store import Content, DraftStore
    from surefind.kb.drafts.values import Base, Draft
    from surefind.kb.shared import Gate, Shared

T = TypeVar("T")


class Drafts:
    """Writes, reviews and publishes drafts, as `kb.drafts`. By default, the author of the knowledge base does it."""

    def __init__(self, shared: Shared, writers: Writers) -> None:
        self._shared = shared
        self._writers = writers

    @property
    def store(self) -> DraftStore:
        """What is kept of drafts: their revisions, reviews and events. Any thread may use it."""
        return self._shared.drafts

    # ------------------------------------------------------------ writing

    def add(self, file: str | Path, document: str = "", author: str = "") -> Draft:
        """Takes in a file as a draft: a new version of a document, which no search finds until it is published."""
        from surefind.base.access import Access

        path = Path(file).expanduser()
        if self._shared.settings.readers.find(path.name) and not path.is_file():
            raise SourceError(f"There is no file {path}. Check the path; nothing was changed.")
        limit = self._shared.settings.limits.file_mb
        if path.is_file() and path.stat().st_size > limit * 1e6:
            raise SourceError(f"{path} is larger than {limit:g} MB (max_file_mb).")
        data = path.read_bytes() if path.is_file() else b""
        return self.add_bytes(path.name, data, document, author, access=Access.owner())

    def add_bytes(
        self,
        name: str,
        data: bytes,
        document: str = "",
        author: str = "",
        keep_metadata: bool = False,
        made_from: int | None = None,
        access: Access | None = None,
    ) -> Draft:
        """Takes in the bytes of a file as a draft. With `keep_metadata`, it has the metadata and the access list of its
        document, whatever the file says. `made_from` is the version that its author edited, by default the one that is
        published now. A new name that looks like that of another document is refused; the message names the other one
        if `access` admits to it."""
        from surefind.base.access import Access
        from surefind.engine.store.database import explaining
        from surefind.kb.drafts.publishing import check_document, check_name, check_new

        check_name(name)
        document = document or one_spelling(name)
        check_document(document)
        content, base = self._taken(name, data, document, keep_metadata)
        if base.version is None and self._shared.exists:
            with explaining(self._shared.data):
                check_new(self._shared.catalogue, document, partial(self._may_read, access or Access.public()))
        if made_from is not None and made_from != base.version:
            base = self._earlier(made_from, document)
        return self._shared.drafts.add(document, content, author or self._shared.author, base, keep_metadata)

    def _earlier(self, version: int, document: str) -> Base:
        """Returns a version of a document that is not published any more, to base a draft on. A draft of a version that
        was deleted, or is of another document, is out of date: its author puts it on the newer version."""
        from surefind.kb.drafts.publishing import base_from
        from surefind.kb.drafts.values import Base

        try:
            earlier = self._shared.catalogue.versions.document(version)
        except StoreError:
            return Base(version, "gone")
        return base_from(version, earlier) if earlier.id == document else Base(version, "gone")

    def save(self, number: int, edited: int, data: bytes, author: str = "", name: str = "") -> Draft:
        """Saves a new revision of a draft. `edited` is the revision that was changed; if there is a newer one,
        `ConflictError` is raised and nothing is changed."""
        draft = self._shared.drafts.get(number)
        content, _ = self._taken(name or draft.name, data, draft.document, self._shared.drafts.keeps(number))
        return self._shared.drafts.save(number, edited, content, author or self._shared.author)

    def rebase(self, number: int, author: str = "") -> Draft:
        """Puts the text of a draft on the version of the document that is published now. It is a new revision, so it
        needs a new approval. It has the access list of the one before: the newer version may be open to more people."""
        draft = self._shared.drafts.get(number)
        current = self._shared.drafts.revision(number, draft.revision)
        content, base = self._taken(
            current.name, current.data, draft.document, self._shared.drafts.keeps(number), current.acl
        )
        what = "put the text on the newer version"
        return self._shared.drafts.save(number, draft.revision, content, author or self._shared.author, base, what)

    def restore(self, version: int, author: str = "") -> Draft:
        """Makes a draft with the text and the access list of a kept version of a document. If its file does not name
        that list, because the version had it from an earlier one, the draft is Markdown that names it."""
        from surefind.kb.drafts.publishing import shown, text_name

        document, name, data = self.source_of(version)
        content, base = self._taken(name, data, document.id, False)
        if document.acl and content.acl != document.acl:
            content, base = self._taken(text_name(document.id), shown(document).encode(), document.id, False)
        what = f"made the draft from version {version}"
        return self._shared.drafts.add(document.id, content, author or self._shared.author, base, what=what)

    def source_of(self, version: int) -> tuple[Document, str, bytes]:
        """Returns the document of a version, with the name and the bytes of a file that says the same: the file that it
        was published from, or Markdown."""
        from surefind.kb.drafts.publishing import shown, text_name

        document = self._shared.catalogue.versions.document(version)
        name, data = self._shared.drafts.file_of(version) or (text_name(document.id), shown(document).encode())
        return document, name, data

    def review(self, number: int, done: bool = False, author: str = "") -> Draft:
        """Hands a draft over to review; with `done`, hands it back to its author."""
        who = author or self._shared.author
        if done:
            return self._shared.drafts.set_state(number, "draft", who, "handed the draft back")
        return self._shared.drafts.set_state(number, "in review", who, "submitted the draft for review")

    def approve(self, number: int, revision: int, author: str = "") -> Draft:
        """Approves the newest revision of a draft in review. Nobody approves a draft that they wrote a part of."""
        from surefind.kb.drafts.review import approve

        approve(self._shared.drafts, number, revision, author or self._shared.author)
        return self._shared.drafts.get(number)

    def discard(self, number: int, author: str = "") -> None:
        """Discards a draft. Its revisions are kept, but it cannot be published any more."""
        self._shared.drafts.set_state(number, "discarded", author or self._shared.author, "discarded the draft")

    def publish(
        self,
        number: int,
        report: OnProgress | None = None,
        gate: Gate | None = None,
        approvals: int = 0,
        revision: int | None = None,
        warn: Callable[[str], None] | None = None,
        access: Access | None = None,
    ) -> int:
        """Puts a draft in the place of the document's earlier version. Returns the number of the new generation.
        `gate` is as in `sync`. `approvals` is the number of people who must have approved the draft. `revision` is the
        one to publish: if there is a newer one, `ConflictError` is raised. `warn` is told if the draft is published but
        could not be committed to git. `access` is what the publisher may read, by default everything: the file of a
        document that they may not read is not written."""
        from surefind.base.access import Access
        from surefind.kb.drafts.publishing import publish

        asked = self._writers.gate(gate)  # raises if the settings require one
        drafts = self._shared.drafts
        if not drafts.database.path.exists():
            _ = self._shared.catalogue  # raises if there is no knowledge base
        drafts.get(number)
        with self._writers.open(report=report, gate=asked) as writer:
            generation = publish(writer, drafts, number, self._shared.settings.retrievers, approvals, revision)
        problem = self._commit(number, access or Access.owner())
        if problem and warn:
            warn(f"The draft is published, but Surefind {problem}")
        return generation

    def trial(self, number: int, look: Callable[[Searcher, Searcher], T], revision: int | None = None) -> T:
        """Builds everything for publishing a draft, calls `look` with readers of the current generation and of the one
        that it would be, and deletes what was built. Raises `ConflictError` if `revision` is not the newest. Work that
        was stopped (`surefind.base.running`) ends at its next step."""
        from surefind.kb.drafts.publishing import build_only

        if self._shared.catalogue.current() is None:
            raise NothingIndexedError("Nothing is published yet, so there is nothing to compare with.")
        seen: list[T] = []

        def gate(before: Searcher, after: Searcher) -> None:
            seen.append(look(before, after))

        with self._writers.open(report=lambda *_: check_stopped(), gate=gate, trial=True) as writer:
            build_only(writer, self._shared.drafts, number, revision)
        return seen[0]

    def _commit(self, number: int, access: Access) -> str:
        """Commits a published draft to the git repository of the settings, if there is one. A failure does not undo the
        publishing: it becomes an event of the draft, and is returned."""
        from surefind.engine.files.git import WorkingTree
        from surefind.kb.drafts.publishing import write_to_git

        settings, catalogue, drafts = self._shared.settings, self._shared.catalogue, self._shared.drafts
        if not settings.drafts.git:
            return ""
        repository = (self._shared.folder / Path(settings.drafts.git).expanduser()).resolve()
        below = [repository]
        if self._shared.folder.resolve().is_relative_to(repository):  # it has the settings and keys, too
            below = [source.root for source in catalogue.sources() if not source.origin]
        tree = WorkingTree(repository, below, settings.drafts.formats, settings.limits)
        try:
            with self._reading() as reading:
                commit = write_to_git(tree, catalogue, drafts, number, reading, partial(self._may_read, access))
        except (SourceError, OSError, UnicodeError) as error:
            problem = f"could not commit to git: {error}"
            drafts.record(number, self._shared.author, problem)
            return problem
        drafts.record(number, self._shared.author, f"committed to git as {commit[:12]}")
        return ""

    def _may_read(self, access: Access, version: int) -> bool:
        """Returns whether a caller may read a version: by its own access list, and by the rules for its names."""
        from surefind.base.access import access_lists

        versions = self._shared.catalogue.versions
        document = versions.document(version)
        lists = access_lists(document.acl, (document.id, versions.file_of(version)[1]), self._shared.settings.access)
        return access.admits(access_list.groups for access_list in lists)

    # ------------------------------------------------------------ reading

    def chunks_of(self, name: str, data: bytes, document: str, keep_metadata: bool = False) -> list[Chunk]:
        """Returns the chunks that a file will have as a draft of a document, in the layout of the settings."""
        from surefind.engine.write.preparing import cut_each

        layout = self._shared.settings.layout
        if layout.asks_llm:
            raise UsageError("This layout asks a language model, so the chunks are made when the draft is published.")
        made = self.document_of(name, data, document, keep_metadata)
        with self._reading() as reading:
            (cut,) = cut_each(layout, [made], 1, reading, self._shared.services)
        if cut.refused:
            raise SourceError(f"{document} {cut.refused}, while {layout} cut it.")
        return cut.chunks

    def document_of(
        self, name: str, data: bytes, document: str, keep_metadata: bool = False, acl: tuple[str, ...] = ()
    ) -> Document:
        """Returns what a file will be as a draft of a document. It is read in a child process, under limits."""
        return self._made(name, data, document, keep_metadata, acl)[0]

    def published_text(self, document: str, access: Access) -> str:
        """Returns the published version of a document as a draft shows it; empty if the document is new, or if the
        caller may not read this version."""
        from surefind.base.access import access_lists

        base, document_now = self._published(document)
        if base.version is None or document_now is None:
            return ""
        names = (document, self._shared.catalogue.versions.file_of(base.version)[1])
        lists = access_lists(document_now.acl, names, self._shared.settings.access)
        return base.text if access.admits(access_list.groups for access_list in lists) else ""

    def may_read(self, number: int, access: Access, revision: int | None = None) -> bool:
        """Returns whether a caller may read a revision of a draft, by default the newest: by its access list, by that
        of the document as it is published now, and by the rules for its name."""
        from surefind.base.access import access_lists

        document = self._shared.drafts.get(number).document
        owned, names = [self._shared.drafts.signed(number, revision)[1]], [document]
        with contextlib.suppress(NothingIndexedError):
            versions = self._shared.catalogue.versions
            if version := versions.find(document, self._shared.catalogue.snapshot_id()):
                names.append(versions.file_of(version)[1])
                owned.append(versions.acl(version))
        lists = [access_list for own in owned for access_list in access_lists(own, names, self._shared.settings.access)]
        return access.admits(access_list.groups for access_list in lists)

    # ------------------------------------------------------------ helpers

    def _taken(
        self, name: str, data: bytes, document: str, keeps: bool, acl: tuple[str, ...] = ()
    ) -> tuple[Content, Base]:
        """Reads the file of a draft as it will be published, with this access list, if there is one. Returns it, and
        the published version."""
        from surefind.kb.drafts.publishing import shown
        from surefind.kb.drafts.store import Content

        made, base = self._made(name, data, document, keeps, acl)
        return Content(name, data, shown(made), made.title, made.acl, len(made.text)), base

    def _made(self, name: str, data: bytes, document: str, keeps: bool, acl: tuple[str, ...]) -> tuple[Document, Base]:
        from surefind.kb.drafts.publishing import check_name, completed, read

        check_name(name)
        base, before = self._published(document)
        with self._reading() as reading:
            return completed(read(reading, name, data, document), before, keeps, acl), base

    def _published(self, document: str) -> tuple[Base, Document | None]:
        from surefind.engine.store.database import explaining
        from surefind.kb.drafts.publishing import base_of
        from surefind.kb.drafts.values import Base

        try:
            with explaining(self._shared.data):
                return base_of(self._shared.catalogue, document)
        except NothingIndexedError:
            return Base(), None

    @contextlib.contextmanager
    def _reading(self) -> Iterator[FilePreparer]:
        from surefind.engine.write.preparing import FilePreparer

        with FilePreparer(self._shared.settings.readers, self._shared.settings.limits, spare=True) as reading:
            yield reading
