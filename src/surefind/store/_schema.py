"""The tables of the catalogue, and the statements that upgrade a catalogue of an earlier format."""

from __future__ import annotations

from surefind.store.checked import Format
from surefind.store.checksums import Tables

TABLES = Tables(
    columns={
        "sources": ("id", "root", "name", "origin", "revision"),
        "versions": (
            "row", "id", "source", "path", "size", "mtime_ns", "seen_ns", "sha256", "reader", "content", "title",
            "format", "metadata", "acl", "places", "length", "state", "author", "created",
        ),
        "layouts": ("id", "spec"),
        "problems": ("source", "path", "reason", "file", "size", "mtime_ns", "seen_ns", "reader"),
        "generations": ("number", "created", "documents", "contents", "author", "reason", "digest"),
        "indexes": ("key", "contents", "layout", "spec"),
        "counters": ("name", "value"),
    },
    keys={
        "sources": ("id",), "versions": ("row",), "layouts": ("id",), "problems": ("source", "path"),
        "generations": ("number",), "indexes": ("key", "contents"), "counters": ("name",),
    },
    counted={"sources": "id", "versions": "row", "layouts": "id", "generations": "number"},
)  # fmt: skip
"""The tables whose checksums are kept by triggers."""
CHUNK = ("layout", "version", "seq", "id", "start", "end", "headings", "context", "parent_start", "parent_end")
"""The columns of `chunks`."""
NEVER = 2**62
"""The value of `members.removed` for a version that has not been removed."""
BLOCK = 16_384
"""Characters of a document's text per row, so that a passage of a long document is read without the rest of it."""
BLOCK_BITS = 20
"""The bits of a block's number in its key: the key is (version << BLOCK_BITS) + number."""

_VERSIONS = """CREATE TABLE versions (
    row INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT, source INTEGER, path TEXT, size INTEGER, mtime_ns INTEGER,
    seen_ns INTEGER, sha256 TEXT, reader TEXT DEFAULT '', content TEXT, title TEXT, format TEXT, metadata TEXT,
    acl TEXT, places TEXT DEFAULT '[]', length INTEGER, state TEXT DEFAULT 'published', author TEXT DEFAULT '',
    created TEXT DEFAULT '')"""
_TEXTS = "CREATE TABLE texts (place INTEGER PRIMARY KEY, text TEXT)"
_MEMBERS = f"""CREATE TABLE members (
    version INTEGER, added INTEGER, removed INTEGER DEFAULT {NEVER}, PRIMARY KEY (version, added)) WITHOUT ROWID"""
_CHUNKS = """CREATE TABLE chunks (
    layout INTEGER, version INTEGER, seq INTEGER, id INTEGER, start INTEGER, end INTEGER, headings TEXT, context TEXT,
    parent_start INTEGER, parent_end INTEGER, PRIMARY KEY (layout, version, seq)) WITHOUT ROWID"""
_CHUNKED = "CREATE TABLE chunked (layout INTEGER, version INTEGER, PRIMARY KEY (layout, version)) WITHOUT ROWID"
_INDEXES = """CREATE TABLE indexes (
    key TEXT, contents INTEGER, layout TEXT, spec TEXT, PRIMARY KEY (key, contents)) WITHOUT ROWID"""
_COUNTERS = "CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER) WITHOUT ROWID"
_BY_ID = "CREATE INDEX versions_by_id ON versions (id)"

_FOURTH: tuple[str, ...] = (
    """CREATE TABLE sources (
    id INTEGER PRIMARY KEY AUTOINCREMENT, root TEXT UNIQUE, name TEXT, origin TEXT DEFAULT '',
    revision TEXT DEFAULT '')""",
    _VERSIONS, _BY_ID, _TEXTS, _MEMBERS, _COUNTERS, "CREATE TABLE layouts (id INTEGER PRIMARY KEY, spec TEXT UNIQUE)",
    _CHUNKED, _CHUNKS,
    """CREATE TABLE problems (
    source INTEGER, path TEXT, reason TEXT, file TEXT, size INTEGER DEFAULT -1, mtime_ns INTEGER DEFAULT 0,
    seen_ns INTEGER DEFAULT 0, reader TEXT DEFAULT '', PRIMARY KEY (source, path))""",
    """CREATE TABLE generations (
    number INTEGER PRIMARY KEY, created TEXT, documents INTEGER, contents INTEGER, author TEXT DEFAULT '',
    reason TEXT DEFAULT '')""",
    _INDEXES,
)  # fmt: skip
"""The tables of the fourth format."""

_SEALED = (
    *(f"ALTER TABLE {table} ADD COLUMN checksum INTEGER" for table in ("texts", "chunks")),
    *TABLES.added_columns(),
    "ALTER TABLE generations ADD COLUMN digest INTEGER DEFAULT 0",
    "ALTER TABLE chunked ADD COLUMN digest INTEGER DEFAULT 0",
    "UPDATE generations SET digest = coalesce((SELECT set_digest(m.version) FROM members m JOIN versions v "
    "ON v.row = m.version WHERE m.added <= contents AND m.removed > contents), 0)",
    "UPDATE chunked SET digest = coalesce((SELECT chunk_digest(c.layout, c.version, seq, id, start, end, "
    "coalesce(parent_start, start), coalesce(parent_end, end)) FROM chunks c WHERE c.layout = chunked.layout "
    "AND c.version = chunked.version), no_chunks(layout, version))",
    "UPDATE texts SET checksum = text_checksum(place, text)",
    f"UPDATE chunks SET checksum = checksum('chunks', {', '.join(CHUNK)})",
    *TABLES.seals(),
    "INSERT OR IGNORE INTO counters (name, value) VALUES ('catalogue', abs(random())), ('contents', 0)",
)
"""What turns the fourth format into the fifth: checksums. A new catalogue gets them in the same way."""

_UPGRADES: dict[int, tuple[str, ...]] = {
    1: ("ALTER TABLE chunks ADD COLUMN parent_start INTEGER", "ALTER TABLE chunks ADD COLUMN parent_end INTEGER"),
    2: (
        "ALTER TABLE sources ADD COLUMN origin TEXT DEFAULT ''",
        "ALTER TABLE sources ADD COLUMN revision TEXT DEFAULT ''",
        "ALTER TABLE documents ADD COLUMN places TEXT DEFAULT '[]'",
        "ALTER TABLE documents ADD COLUMN reader TEXT DEFAULT ''",
        "ALTER TABLE problems ADD COLUMN file TEXT",
        "ALTER TABLE problems ADD COLUMN size INTEGER DEFAULT -1",
        "ALTER TABLE problems ADD COLUMN mtime_ns INTEGER DEFAULT 0",
        "ALTER TABLE problems ADD COLUMN seen_ns INTEGER DEFAULT 0",
        "ALTER TABLE problems ADD COLUMN reader TEXT DEFAULT ''",
    ),
    # Chunks and indexes can be recomputed from the documents: the sync that upgrades makes them again, from cached
    # vectors and answers.
    3: (
        _VERSIONS, _BY_ID, _TEXTS, _MEMBERS, _COUNTERS,
        "INSERT INTO versions (row, id, source, path, size, mtime_ns, seen_ns, sha256, reader, content, title, format, "
        "metadata, acl, places, length) SELECT row, id, source, path, size, mtime_ns, seen_ns, sha256, reader, "
        "content, title, format, metadata, acl, places, length(text) FROM documents",
        "INSERT INTO members SELECT row, added, removed FROM documents",
        "WITH RECURSIVE blocks (row, number, left) AS ("
        f"SELECT row, 0, length(text) FROM documents UNION ALL SELECT row, number + 1, left - {BLOCK} FROM blocks "
        f"WHERE left > {BLOCK}) INSERT INTO texts SELECT (b.row << {BLOCK_BITS}) + b.number, "
        f"substr(d.text, b.number * {BLOCK} + 1, {BLOCK}) FROM blocks b JOIN documents d ON d.row = b.row",
        "DROP TABLE documents", "DROP TABLE chunks", "DROP TABLE chunked", "DROP TABLE indexes",
        _CHUNKS, _CHUNKED, _INDEXES,
        "ALTER TABLE generations ADD COLUMN contents INTEGER",
        "ALTER TABLE generations ADD COLUMN author TEXT DEFAULT ''",
        "ALTER TABLE generations ADD COLUMN reason TEXT DEFAULT ''",
        "UPDATE generations SET contents = number",
        "INSERT INTO counters SELECT 'contents', max(number) FROM generations",
    ),
    4: _SEALED,
}  # fmt: skip
"""The statements that upgrade a catalogue from each format to the next."""
FORMAT = Format(5, (*_FOURTH, *_SEALED), _UPGRADES, TABLES)
"""The format of the catalogue."""
