"""Links between documents: the path that a link leads to, and the anchor of a heading."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

_SCHEME = re.compile(r"(?:[a-z][a-z0-9+.-]*:|//)", re.IGNORECASE)
_SUFFIX = re.compile(r"(?:\.(?:md|markdown|mdx|html?|erb|rst|txt)){1,4}$", re.IGNORECASE)
_MAX_FOLDERS = 20
"""Folders above a document that may be the root of its site."""
_NOT_SLUG = re.compile(r"[^\w\- ]+")


def linked_path(document: str, target: str) -> str:
    """Resolves a link without its `#anchor`: `../sops/a.md` in `faq/b.md` is `sops/a.md`; without a path it is the
    document itself. Empty for a URL."""
    if not target:
        return document
    if _SCHEME.match(target):
        return ""
    path = target.lstrip("/") if target.startswith("/") else posixpath.join(posixpath.dirname(document), target)
    return posixpath.normpath(path)


def site_paths(document: str, target: str) -> Iterator[str]:
    """Yields the paths that a link in a site's document may mean: beside the document, below each folder above it (a
    site's root is often `docs/` or `content/en/`), and, last, below the document's own address."""
    path = linked_path(document, target)
    if not path:
        return
    yield path
    if not target:
        return
    folder = posixpath.dirname(document)
    for _ in range(_MAX_FOLDERS):
        if not folder:
            break
        yield posixpath.normpath(posixpath.join(folder, target.lstrip("/")))
        folder = posixpath.dirname(folder)
    if not target.startswith("/"):
        yield posixpath.normpath(target)
        yield posixpath.normpath(posixpath.join(without_suffix(document), target))


def without_suffix(path: str) -> str:
    """Returns a path without the endings of a document: a page may be linked as eod.md, eod.html or eod."""
    return _SUFFIX.sub("", path)


def slug(heading: str) -> str:
    """Returns the anchor of a heading, as most programs make it: `Cut-off times` is `cut-off-times`."""
    return _NOT_SLUG.sub("", heading.lower()).strip().replace(" ", "-")
