"""`eml(attachments=true)`: reads an e-mail: subject, people, date and body. Each attachment becomes a document too."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from email import policy
from email.message import EmailMessage, MIMEPart
from email.parser import BytesParser
from mimetypes import guess_extension
from pathlib import Path
from typing import Any, ClassVar, cast

from surefind.base.errors import SourceError
from surefind.base.names import record_name
from surefind.base.spec import Stage
from surefind.base.types import Document
from surefind.engine.files.inside import access_name, guarded, owner_only, read_inside, scope
from surefind.engine.files.opening import read_file
from surefind.engine.files.readers import FORMATS

_HEADERS = ("From", "To", "Cc", "Date")


@dataclass(frozen=True)
class Eml(Stage):
    kind: ClassVar[str] = "read"
    name: ClassVar[str] = "eml"
    suffixes: ClassVar[tuple[str, ...]] = FORMATS["eml"].suffixes

    attachments: bool = True

    def read(self, path: Path, document_id: str) -> Iterable[Document]:
        message = BytesParser(policy=policy.default).parsebytes(read_file(path, scope().limits.file_mb))
        if not any(_header(message, name) for name in ("From", "To", "Subject", "Date", "Message-ID")):
            raise SourceError("is not an e-mail (it has no From, To, Subject or Date)")
        name = access_name(message.keys())
        groups = owner_only(document_id, f"it has the header {name!r}") if name else ()
        attached = list(_attachments(message))
        headers = {name: value for name in _HEADERS if (value := _header(message, name))}
        listed = {"Attachments": ", ".join(name for name, _ in attached)} if attached else {}
        title = _header(message, "Subject") or path.stem
        head = "".join(f"- {name}: {value}\n" for name, value in {**headers, **listed}.items())
        text = f"# {title}\n\n{head}\n{_body(message)}\n"
        metadata = {name.lower(): value for name, value in headers.items()}
        mail = guarded(Document(document_id, text, title, "markdown", metadata, groups))
        yield mail
        if self.attachments:
            for name, content in attached:
                for inside in read_inside(name, io.BytesIO(content), f"{document_id}/{name}"):
                    yield replace(inside, acl=mail.acl) if mail.acl else inside  # it has the list of the owner alone


def _header(message: EmailMessage, name: str) -> str:
    """Returns the value of a header; as it is written if the library cannot parse it, which fails in many ways."""
    try:
        value = message.get(name, "")
    except Exception:
        value = next((raw for key, raw in message.raw_items() if key.lower() == name.lower()), "")
    return " ".join(str(value).split())


def _body(message: EmailMessage) -> str:
    part = message.get_body(("plain", "html"))
    if part is None:
        return ""
    text = _decoded(part)
    if part.get_content_subtype() == "html":
        from surefind.engine.ingest._html import page_to_markdown

        text = page_to_markdown(text)
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()


def _decoded(part: MIMEPart) -> str:
    try:
        return str(part.get_content())
    except (LookupError, ValueError):  # a charset that does not exist, cannot exist or does not fit
        return cast(bytes, part.get_payload(decode=True)).decode("utf-8", "replace")


def _attachments(message: EmailMessage) -> Iterator[tuple[str, bytes]]:
    """Yields (name, content) of each attachment, with unique names."""
    taken: set[str] = set()
    for number, part in enumerate(message.iter_attachments(), 1):
        content: Any = part.get_payload(decode=True)
        if part.get_content_type() == "message/rfc822":
            content = cast(EmailMessage, part.get_content()).as_bytes()
        base = record_name((part.get_filename() or "").replace("\\", "/").rpartition("/")[2])
        name = base if base not in ("", ".", "..") else _name(part, number)
        name = name if name not in taken else f"{number} {name}"
        taken.add(name)
        charset = part.get_content_charset("") if part.get_content_maintype() == "text" else ""
        yield name, _as_utf8(content or b"", charset)


def _name(part: MIMEPart, number: int) -> str:
    """Makes a name for a part without one. Some mail programs put the text after a picture into such a part."""
    kind = part.get_content_type()
    return "message.eml" if kind == "message/rfc822" else f"attachment {number}{guess_extension(kind) or ''}"


def _as_utf8(content: bytes, charset: str) -> bytes:
    """Converts text to UTF-8, which readers expect, from the charset that the e-mail names. Returns content that is
    UTF-8 already, or does not fit the charset, as it is."""
    try:
        content.decode()
    except UnicodeDecodeError:
        with contextlib.suppress(LookupError, ValueError):
            return content.decode(charset).encode()
    return content
