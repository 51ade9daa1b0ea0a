"""`/drafts`: the drafts that a visitor may see; uploads; the editor; what happens when two people save at once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from fastapi import APIRouter, File, Form, Query, Request, UploadFile
from starlette.responses import Response

from surefind.base.access import Caller
from surefind.base.errors import ConflictError, NotFoundError, SourceError
from surefind.doors.http.drafting import chunks_of, sees_document
from surefind.doors.http.service import Served, Service
from surefind.doors.web.markdown import links_to, part_of, rendered
from surefind.doors.web.page import back_to, document_path, page
from surefind.kb.drafts.difference import changed_lines
from surefind.kb.drafts.publishing import check_document, decoded, is_text, text_name
from surefind.kb.drafts.values import Draft, same_person
from surefind.kb.rights import readable_version, seen, seen_revision, sees

router = APIRouter(include_in_schema=False)
_RECENT = 20
"""Published drafts that the list shows."""
_DRAFTS_A_PAGE = 100
Section = Literal["todo", "mine", "rest"]
"""The drafts that wait for the visitor's review, the visitor's own, and the others."""


@dataclass
class Listed:
    """A part of a list of drafts, newest first."""

    drafts: list[Draft] = field(default_factory=list)
    more: bool = False
    """Whether there are older ones."""

    def add(self, draft: Draft) -> None:
        self.more = len(self.drafts) == _DRAFTS_A_PAGE
        if not self.more:
            self.drafts.append(draft)


@router.get("/drafts")
async def drafts(
    request: Request,
    service: Served,
    only: Annotated[Section | None, Query(alias="list")] = None,
    before: Annotated[int, Query(ge=1, lt=2**62)] = 2**62,
) -> Response:
    """The drafts that wait for the visitor, the visitor's own, and the others; or `only` one of these lists, with the
    drafts `before` a number."""
    caller = await service.caller(request, "write")

    def read() -> Response:
        lists = _listed(service, caller, [only] if only else ["todo", "mine", "rest"], before)
        recent = (
            []
            if only
            else [draft for draft in service.kb.drafts.store.recent(_RECENT) if sees(service.kb, caller, draft)]
        )
        return page(caller, "drafts.html", title="Drafts", here="drafts", lists=lists, recent=recent, only=only)

    return await service.work(read)


def _listed(service: Service, caller: Caller, wanted: Sequence[Section], before: int) -> dict[Section, Listed]:
    """Returns the lists. Who may see a draft is only asked for drafts that will be shown: it takes a millisecond."""
    lists: dict[Section, Listed] = {section: Listed() for section in wanted}
    authors = service.kb.drafts.store.all_authors()
    for draft in service.kb.drafts.store.waiting():
        section = _section(caller, draft, authors.get(draft.number, set()))
        if draft.number >= before or section not in lists or lists[section].more:
            continue
        if (section == "mine" or caller.may("review")) and sees(service.kb, caller, draft):
            lists[section].add(draft)
    return lists


def _section(caller: Caller, draft: Draft, authors: Collection[str]) -> Section:
    if caller.name in authors:
        return "mine"
    wrote = any(same_person(caller.name, name) for name in authors)
    return "todo" if draft.state == "in review" and not wrote else "rest"


@router.get("/drafts/new")
async def new(
    request: Request, service: Served, document: Annotated[str, Query(max_length=500)] = "", write: bool = False
) -> Response:
    """A form to upload a file, or to write a text."""
    caller = await service.caller(request, "write")

    def read() -> Response:
        empty: tuple[str, str, int | None] = "", "", None
        text, name, base = _source(service, caller, document) if write else empty
        return _form(caller, document, text, name, write, base, "")

    return await service.work(read)


def _form(
    caller: Caller, document: str, text: str, name: str, write: bool, base: int | None, wrong: str, status: int = 200
) -> Response:
    title = f"Edit {document}" if write and document else "Write a document" if write else "Upload a document"
    return page(
        caller, "draft_write.html" if write else "draft_upload.html", status, title=title, here="drafts",
        document=document, text=text, name=name, wrong=wrong, draft=None, base=base,
    )  # fmt: skip


def _source(service: Service, caller: Caller, document: str) -> tuple[str, str, int | None]:
    """Returns the text of a document to edit, the name of its file, and its version. The text is empty if the caller
    may not read it."""
    if not document or not sees_document(service, caller, document):
        return "", text_name(document) if document else "", None
    version = dict(service.reader().view.readable(caller.access()))[document]
    _, name, data = service.kb.drafts.source_of(version)
    if is_text(name):
        return decoded(data), name, version
    return service.kb.drafts.published_text(document, caller.access()), text_name(document), version


@router.post("/drafts/new")
async def make(
    request: Request,
    service: Served,
    document: Annotated[str, Form(max_length=500)] = "",
    name: Annotated[str, Form(max_length=250)] = "",
    text: Annotated[str | None, Form()] = None,
    base: Annotated[str, Form(max_length=20)] = "",
    file: Annotated[UploadFile | None, File()] = None,
) -> Response:
    """Makes a draft of a file or of a text."""
    caller = await service.caller(request, "write")
    wanted, given = document.strip(), int(base[:18]) if base.isascii() and base.isdigit() else None
    if text is not None:
        body, name = _plain(text).encode(), name or (text_name(wanted) if wanted else "")
        wrong = "" if wanted else "Give the document a name, such as policies/fees.md."
    else:
        body, name = await file.read() if file else b"", (file.filename or "") if file else ""
        wrong = "" if body else "Choose a file that is not empty."
    try:
        if wrong:
            raise SourceError(wrong)
        made_from = None if given is None else await service.work(lambda: _edited(service, caller, given))

        def write() -> Draft:
            return service.kb.drafts.add_bytes(
                name, body, wanted, caller.name, made_from=made_from, access=caller.access()
            )

        made = await service.work_apart("upload", request, caller, write)
    except SourceError as error:
        said = str(error)
        return await service.work(lambda: _form(caller, document, text or "", name, text is not None, given, said, 400))
    return back_to(request, f"/drafts/{made.number}")


def _edited(service: Service, caller: Caller, version: int) -> int:
    """Returns the version that a visitor edited; 0, which is no version, if they may not read it. A draft of it is then
    out of date, as that of a deleted version is, so nobody learns which versions exist."""
    try:
        return readable_version(service.kb, service.reader, version, caller.access()).number
    except NotFoundError:
        return 0


@router.get("/drafts/{number}/edit")
async def edit(number: int, request: Request, service: Served) -> Response:
    """The editor, with the newest revision of a draft."""
    caller = await service.caller(request, "write")

    def read() -> Response:
        found = seen(service.kb, caller, number)
        shown = service.kb.drafts.store.revision(number, found.revision)
        if not is_text(shown.name):
            raise SourceError(f"{shown.name} cannot be edited as text. Upload a new file instead.")
        return _editor(caller, found, decoded(shown.data), "")

    return await service.work(read)


def _editor(caller: Caller, draft: Draft, text: str, wrong: str, status: int = 200) -> Response:
    return page(
        caller, "draft_write.html", status, title=f"Edit draft {draft.number}", here="drafts",
        document=draft.document, text=text, name=draft.name, wrong=wrong, draft=draft, base=None,
    )  # fmt: skip


@router.post("/drafts/{number}/save")
async def save(
    number: int,
    request: Request,
    service: Served,
    revision: Annotated[int, Form(ge=1, lt=2**31)],
    text: Annotated[str, Form()],
    name: Annotated[str, Form(max_length=250)] = "",
) -> Response:
    """Saves a text as a new revision. If somebody saved meanwhile, both texts are shown. `name` is the name of the
    text's file, if that is not the one of the revision."""
    caller = await service.caller(request, "write")
    draft = await service.work(lambda: seen(service.kb, caller, number))
    data = _plain(text).encode()
    try:
        await service.work_apart(
            "upload", request, caller, lambda: service.kb.drafts.save(number, revision, data, caller.name, name)
        )
    except ConflictError as error:
        said = str(error)
        return await service.work_apart(
            "difference", request, caller, lambda: _conflict(service, caller, number, revision, data, name, said)
        )
    except SourceError as error:
        said = str(error)
        return await service.work(lambda: _editor(caller, draft, text, said, 400))
    return back_to(request, f"/drafts/{number}")


@router.post("/drafts/{number}/upload")
async def upload(
    number: int,
    request: Request,
    service: Served,
    revision: Annotated[int, Form(ge=1, lt=2**31)],
    file: Annotated[UploadFile, File()],
) -> Response:
    """Takes in a file as a new revision."""
    caller = await service.caller(request, "write")
    data, name = await file.read(), file.filename or ""

    def write() -> None:
        seen(service.kb, caller, number)
        service.kb.drafts.save(number, revision, data, caller.name, name)

    await service.work_apart("upload", request, caller, write)
    return back_to(request, f"/drafts/{number}")


def _conflict(
    service: Service, caller: Caller, number: int, edited: int, data: bytes, name: str, wrong: str
) -> Response:
    """Shows the text that was not saved beside the one that somebody else saved. The form saves on the revision that is
    shown, whatever was saved since."""
    theirs = seen_revision(service.kb, caller, number)
    text, mine = decoded(theirs.data) if is_text(theirs.name) else "", decoded(data)
    return page(
        caller, "draft_conflict.html", 409, title="Somebody saved meanwhile", here="drafts", mine=mine, wrong=wrong,
        name=name or service.kb.drafts.store.revision(number, edited).name, theirs=theirs, their_text=text,
        part=part_of(*changed_lines(text, mine)),
    )  # fmt: skip


Typed = Annotated[str, Form()]
Name = Annotated[str, Form(max_length=500)]


@router.post("/drafts/preview")
async def preview(request: Request, service: Served, text: Typed, document: Name = "") -> Response:
    """A text as readers will see it; nothing is saved."""
    caller = await service.caller(request, "write")
    name = document.strip() or "new.md"

    def read() -> Response:
        try:
            check_document(name)
            made = service.kb.drafts.document_of(text_name(name), _plain(text).encode(), name)
        except SourceError as error:
            return page(
                caller, "preview.html", title="Preview", here="drafts", made=None, rendered=None, wrong=str(error)
            )
        find = links_to(dict.fromkeys(service.readable(caller)), name, document_path)
        shown = rendered(made.text, find, made.title)
        return page(caller, "preview.html", title="Preview", here="drafts", made=made, rendered=shown, wrong="")

    return await service.work_apart("upload", request, caller, read)


@router.post("/drafts/chunks")
async def chunks(request: Request, service: Served, text: Typed, document: Name = "") -> Response:
    """The chunks that a text would have; nothing is saved."""
    caller = await service.caller(request, "write")
    name = document.strip() or "new.md"

    def cut() -> Response:
        check_document(name)
        found = chunks_of(lambda: service.kb.drafts.chunks_of(text_name(name), _plain(text).encode(), name))
        return page(caller, "chunks.html", title="Chunks", here="drafts", found=found)

    return await service.work_apart("upload", request, caller, cut)


def _plain(text: str) -> str:
    """Returns the text of a form, as browsers send it, with plain line ends."""
    return text.replace("\r\n", "\n").replace("\r", "\n")
