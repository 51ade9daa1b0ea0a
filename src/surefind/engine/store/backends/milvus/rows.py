"""The rows of a collection: keys, and hashes of everything that an expression compares.

Groups, paths and metadata are sent as 63-bit hashes. No name or value is ever part of an expression, so none can change
what the expression means, whatever characters it has; and the server learns none of them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from surefind.base.access import PUBLIC
from surefind.base.errors import StoreError
from surefind.engine.store.backends.milvus.server import CAPACITY
from surefind.engine.store.columns import folders_of, items_of
from surefind.engine.store.rows import Member

_SEQ_BITS = 24


def key_of(version: Any, seq: Any) -> Any:
    """Returns the id of a row; takes numbers or arrays."""
    return version << _SEQ_BITS | seq


def digest(*parts: str) -> int:
    """Hashes some texts to a positive number of 63 bits."""
    encoded = [part.encode(errors="surrogatepass") for part in parts]  # a group may come from anywhere
    joined = b"".join(len(part).to_bytes(8, "little") + part for part in encoded)
    return int.from_bytes(hashlib.blake2b(joined, digest_size=8).digest()) >> 1


def group(name: str) -> int:
    return digest("group", name)


def place(path: str) -> int:
    """Hashes a path, or a folder, which ends in a slash."""
    return digest("place", path)


def tag(key: str, value: str) -> int:
    return digest("tag", key, value)


NO_LIST = digest("no list")
"""In `acl`: the document has no access list of its own."""


def folders(path: str) -> Iterator[str]:
    """Yields the folders above a path, the outermost first; each ends in a slash."""
    return (f"{folder}/" for folder in folders_of(path))


@dataclass(frozen=True, slots=True)
class DocumentFields:
    """What the rows of a document have in common."""

    version: int
    acl: list[int]
    under: list[int]
    tags: list[int]

    @classmethod
    def of(cls, member: Member) -> DocumentFields:
        acl = [group(name) for name in member.acl] or [group(PUBLIC), NO_LIST]
        names = dict.fromkeys((member.path, member.document))
        under = dict.fromkeys(place(part) for name in names for part in (*folders(name), name))
        tags = dict.fromkeys(
            tag(key, item.lower()) for key, value in json.loads(member.metadata).items() for item in items_of(value)
        )
        for what, values in (("groups", acl), ("folders", under), ("values of metadata", tags)):
            if len(values) > CAPACITY:
                raise StoreError(
                    f"{member.document} has {len(values)} {what}, and Milvus stores at most {CAPACITY} for a document. "
                    "Shorten them, or use the local backend."
                )
        return cls(member.version, acl, list(under), list(tags))

    def row(self, seq: int, first: int, vector: Any) -> dict[str, Any]:
        """Returns the row of a chunk."""
        return {
            "id": key_of(self.version, seq), "version": self.version, "first": first, "acl": self.acl,
            "under": self.under, "tags": self.tags, "vector": vector,
        }  # fmt: skip
