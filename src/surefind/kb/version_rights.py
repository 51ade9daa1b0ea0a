"""Who may read a kept version of a document."""

from __future__ import annotations

from collections.abc import Callable

from surefind.base.access import Access, access_lists
from surefind.base.errors import NotFoundError, StoreError
from surefind.engine.search.reader import Searcher
from surefind.engine.store.rows import Version
from surefind.kb import KnowledgeBase


def may_read_version(kb: KnowledgeBase, version: Version, access: Access) -> bool:
    """Returns whether a caller may read a version, by its own list and the rules for its name."""
    versions = kb.catalogue.versions
    try:
        own = versions.document(version.number).acl
        path = versions.file_of(version.number)[1]
    except NotFoundError:
        return False
    lists = access_lists(own, (version.document, path), kb.settings.access)
    return access.admits(access_list.groups for access_list in lists)


def readable_version(kb: KnowledgeBase, reader: Callable[[], Searcher], number: int, access: Access) -> Version:
    """Returns a kept version. Raises `NotFoundError` if there is none, or the caller may not read it, or may not read
    its document now, in the generation of `reader`."""
    missing = NotFoundError(f"There is no version {number} among those you may read.")
    try:
        document = kb.catalogue.versions.document(number).id
        reader().document(document, access)
    except (StoreError, NotFoundError):  # whose message names the document
        raise missing from None
    version = next((candidate for candidate in kb.versions_of(document) if candidate.number == number), None)
    if version is None or not may_read_version(kb, version, access):
        raise missing
    return version
