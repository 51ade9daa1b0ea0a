"""The catalogue: which documents there are, their text, their chunks, and the generations made of them.

Rows are written once. A document row is one *version* of a document, valid from generation `added` until
generation `removed`; a reader of generation n sees the rows with added <= n < removed. Writing therefore never
disturbs a reader, and what an interrupted writer left behind (added > the current generation) is invisible and
swept away by the next one.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from surefind.store._database import NEVER, connect, transaction
from surefind.store.rows import FileRow, ProblemRow, Source
from surefind.types import Chunk, Document, Place

_LIVE = "added <= :g AND removed > :g"


class Catalogue:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "catalogue.db"
        self.db = connect(self.path)

    def transaction(self) -> contextlib.AbstractContextManager[None]:
        return transaction(self.db)

    def close(self) -> None:
        self.db.close()

    # ------------------------------------------------------------ generations

    def generation(self) -> int:
        """The current one; 0 before the first."""
        return int(self.db.execute("SELECT coalesce(max(number), 0) FROM generations").fetchone()[0])

    def commit_generation(self, number: int) -> None:
        """From here on readers see generation `number`."""
        count = self.db.execute(f"SELECT count(*) FROM documents WHERE {_LIVE}", {"g": number}).fetchone()[0]
        created = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        self.db.execute("INSERT INTO generations VALUES (?, ?, ?)", (number, created, count))

    def last_sync(self) -> str:
        row = self.db.execute("SELECT created FROM generations ORDER BY number DESC LIMIT 1").fetchone()
        return str(row[0]) if row else ""

    def sweep_pending(self) -> None:
        """Undo what an interrupted writer left: its rows, and its marks on the rows it meant to remove."""
        current = self.generation()
        with self.transaction():
            self._delete_documents("added > ?", current)
            self.db.execute("DELETE FROM indexes WHERE generation > ?", (current,))
            self.db.execute(
                f"UPDATE documents SET removed = {NEVER} WHERE removed > ? AND removed < {NEVER}",
                (current,),
            )

    def sweep_old(self, keep: int) -> None:
        """Forget versions that no generation from `keep` on can see."""
        with self.transaction():
            self._delete_documents("removed <= ?", keep)
            self.db.execute("DELETE FROM generations WHERE number < ?", (keep,))

    def _delete_documents(self, condition: str, value: int) -> None:
        doomed = f"SELECT row FROM documents WHERE {condition}"
        self.db.execute(f"DELETE FROM chunks WHERE document IN ({doomed})", (value,))
        self.db.execute(f"DELETE FROM chunked WHERE document IN ({doomed})", (value,))
        self.db.execute(f"DELETE FROM documents WHERE {condition}", (value,))

    # ------------------------------------------------------------ sources and files

    def sources(self) -> list[Source]:
        """What is fetched lies beside the catalogue, so its path is kept relative and moves along."""
        rows = self.db.execute("SELECT id, root, name, origin, revision FROM sources ORDER BY id")
        folder = self.path.parent.resolve()
        return [Source(id, folder / root, name, origin, revision) for id, root, name, origin, revision in rows]

    def add_source(self, root: Path, name: str = "", origin: str = "") -> Source:
        kept = root.relative_to(self.path.parent.resolve()) if origin else root
        self.db.execute(
            "INSERT OR IGNORE INTO sources (root, name, origin) VALUES (?, ?, ?)",
            (str(kept), name or root.name, origin),
        )
        return next(source for source in self.sources() if source.root == root)

    def set_revision(self, source: Source, origin: str, revision: str) -> None:
        self.db.execute("UPDATE sources SET origin = ?, revision = ? WHERE id = ?", (origin, revision, source.id))

    def drop_source(self, source: Source) -> None:
        self.db.execute("DELETE FROM sources WHERE id = ?", (source.id,))
        self.db.execute("DELETE FROM problems WHERE source = ?", (source.id,))

    def files(self, source: Source) -> dict[str, FileRow]:
        rows = self.db.execute(
            "SELECT path, size, mtime_ns, seen_ns, sha256, reader, group_concat(row) FROM documents "
            f"WHERE {_LIVE} AND source = :s GROUP BY path",
            {"g": self.generation(), "s": source.id},
        )
        return {
            path: FileRow(path, size, mtime, seen, sha, reader, tuple(map(int, found.split(","))))
            for path, size, mtime, seen, sha, reader, found in rows
        }

    def touch(self, row: FileRow, size: int, mtime_ns: int, seen_ns: int) -> None:
        """The file was written again with the same content."""
        marks = ",".join("?" * len(row.rows))
        self.db.execute(
            f"UPDATE documents SET size = ?, mtime_ns = ?, seen_ns = ? WHERE row IN ({marks})",
            (size, mtime_ns, seen_ns, *row.rows),
        )

    def distrust(self, row: int) -> None:
        """The file of a document is to be taken in again at the next sync, as if it had changed."""
        self.db.execute(
            "UPDATE documents SET sha256 = '', mtime_ns = -1 "
            "WHERE (source, path) = (SELECT source, path FROM documents WHERE row = ?)",
            (row,),
        )

    # ------------------------------------------------------------ documents

    def add_document(self, document: Document, content: str, file: Sequence[Any], generation: int) -> int:
        """`file` is (source id, path, size, mtime_ns, seen_ns, sha256, reader)."""
        cursor = self.db.execute(
            "INSERT INTO documents (id, source, path, size, mtime_ns, seen_ns, sha256, reader, content, title, format, "
            "metadata, acl, text, places, added) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                document.id, *file, content, document.title, document.format,
                json.dumps(dict(document.metadata), ensure_ascii=False), json.dumps(document.acl),
                document.text, json.dumps(document.places, ensure_ascii=False), generation,
            ),
        )  # fmt: skip
        return int(cursor.lastrowid or 0)

    def remove_documents(self, rows: Iterable[int], generation: int) -> None:
        self.db.executemany("UPDATE documents SET removed = ? WHERE row = ?", ((generation, row) for row in rows))

    def owner_of(self, id: str, generation: int) -> int | None:
        """The source that holds a document id, if any."""
        row = self.db.execute(
            f"SELECT source FROM documents WHERE id = :id AND {_LIVE}", {"id": id, "g": generation}
        ).fetchone()
        return int(row[0]) if row else None

    def document_rows(self, generation: int) -> list[tuple[int, str, str]]:
        """(row, id, content hash) of every document, in order of id."""
        return self.db.execute(
            f"SELECT row, id, content FROM documents WHERE {_LIVE} ORDER BY id, row", {"g": generation}
        ).fetchall()

    def document(self, row: int) -> Document:
        id, text, title, format, metadata, acl = self.db.execute(
            "SELECT id, text, title, format, metadata, acl FROM documents WHERE row = ?", (row,)
        ).fetchone()
        return Document(id, text, title, format, json.loads(metadata), tuple(json.loads(acl)), self.places(row))

    def places(self, row: int) -> tuple[Place, ...]:
        """Where the parts of a document stand in its source."""
        found = self.db.execute("SELECT places FROM documents WHERE row = ?", (row,)).fetchone()
        return tuple(Place(start, name) for start, name in json.loads(found[0])) if found else ()

    def metadata(self, generation: int) -> Iterator[tuple[int, dict[str, Any], list[str]]]:
        """(row, metadata, acl) of every document."""
        for row, metadata, acl in self.db.execute(
            f"SELECT row, metadata, acl FROM documents WHERE {_LIVE} ORDER BY id, row", {"g": generation}
        ):
            yield row, json.loads(metadata), json.loads(acl)

    def restricted(self, generation: int) -> list[tuple[int, list[str]]]:
        """(row, acl) of the documents that not everybody may read."""
        rows = self.db.execute(f"SELECT row, acl FROM documents WHERE {_LIVE} AND acl != '[]'", {"g": generation})
        return [(row, json.loads(acl)) for row, acl in rows]

    # ------------------------------------------------------------ chunks

    def layout(self, spec: str) -> int:
        self.db.execute("INSERT OR IGNORE INTO layouts (spec) VALUES (?)", (spec,))
        return int(self.db.execute("SELECT id FROM layouts WHERE spec = ?", (spec,)).fetchone()[0])

    def layout_id(self, spec: str) -> int | None:
        row = self.db.execute("SELECT id FROM layouts WHERE spec = ?", (spec,)).fetchone()
        return int(row[0]) if row else None

    def unchunked(self, layout: int, generation: int) -> list[int]:
        """Documents that have not been cut in this layout yet."""
        rows = self.db.execute(
            f"SELECT row FROM documents WHERE {_LIVE} AND row NOT IN "
            "(SELECT document FROM chunked WHERE layout = :l) ORDER BY id",
            {"g": generation, "l": layout},
        )
        return [row for (row,) in rows]

    def add_chunks(self, layout: int, document: int, chunks: Sequence[Chunk]) -> None:
        self.db.execute("INSERT OR IGNORE INTO chunked VALUES (?, ?)", (layout, document))
        self.db.executemany(
            "INSERT OR REPLACE INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (layout, document, seq, c.start, c.end, _listed(c.headings), c.context, *(c.parent or (None, None)))
                for seq, c in enumerate(chunks)
            ),
        )

    def chunk_rows(self, layout: int, generation: int) -> list[tuple[int, int, int, int, int, int]]:
        """(document row, seq, start, end, start and end of what is returned) of every chunk, in the order that gives
        them their ordinals."""
        return self.db.execute(
            "SELECT d.row, c.seq, c.start, c.end, coalesce(c.parent_start, c.start), coalesce(c.parent_end, c.end) "
            "FROM documents d JOIN chunks c ON c.document = d.row "
            f"WHERE c.layout = :l AND {_LIVE} ORDER BY d.id, d.row, c.seq",
            {"l": layout, "g": generation},
        ).fetchall()

    def contexts(self, layout: int, generation: int) -> Iterator[str]:
        """What enrichers wrote beside every chunk, in order of ordinal."""
        rows = self.db.execute(
            "SELECT c.context FROM documents d JOIN chunks c ON c.document = d.row "
            f"WHERE c.layout = :l AND {_LIVE} ORDER BY d.id, d.row, c.seq",
            {"l": layout, "g": generation},
        )
        return (context for (context,) in rows)

    def chunks(self, layout: int, generation: int) -> Iterator[Chunk]:
        """Every chunk with its text, in order of ordinal. A document's text is read once, not once a chunk: that
        would take time that grows with the square of its length."""
        rows = self.db.execute(
            "SELECT d.row, d.id, c.start, c.end, c.headings, c.context, d.title "
            "FROM documents d JOIN chunks c ON c.document = d.row "
            f"WHERE c.layout = :l AND {_LIVE} ORDER BY d.id, d.row, c.seq",
            {"l": layout, "g": generation},
        )
        for document, cut in groupby(rows, key=itemgetter(0)):
            (text,) = self.db.execute("SELECT text FROM documents WHERE row = ?", (document,)).fetchone()
            for _, id, start, end, headings, context, title in cut:
                yield Chunk(id, start, end, text[start:end], tuple(json.loads(headings)), context, title=title)

    def chunk(
        self, layout: int, document: int, seq: int, returned: bool = False
    ) -> tuple[Chunk, str, dict[str, Any]] | None:
        """A chunk with its document's title and metadata; None if a later writer swept it away. With `returned` it has
        the span and text of its parent, where it has one."""
        start, end = "c.start", "c.end"
        if returned:
            start, end = "coalesce(c.parent_start, c.start)", "coalesce(c.parent_end, c.end)"
        row = self.db.execute(
            f"SELECT d.id, {start}, {end}, substr(d.text, {start} + 1, {end} - {start}), c.headings, c.context, "
            "d.title, d.metadata FROM chunks c JOIN documents d ON d.row = c.document "
            "WHERE c.layout = ? AND c.document = ? AND c.seq = ?",
            (layout, document, seq),
        ).fetchone()
        if row is None:
            return None
        id, start, end, text, headings, context, title, metadata = row
        chunk = Chunk(id, start, end, text, tuple(json.loads(headings)), context, title=title)
        return chunk, title, json.loads(metadata)

    # ------------------------------------------------------------ problems and indexes

    def set_problems(self, source: Source, problems: Iterable[ProblemRow]) -> None:
        """What could not be read in the last sync of a source."""
        self.db.execute("DELETE FROM problems WHERE source = ?", (source.id,))
        self.db.executemany(
            "INSERT OR REPLACE INTO problems VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            ((source.id, p.path, p.reason, p.file, p.size, p.mtime_ns, p.seen_ns, p.reader) for p in problems),
        )

    def problems(self, source: Source | None = None) -> list[ProblemRow]:
        where, values = ("WHERE source = ?", (source.id,)) if source else ("", ())
        rows = self.db.execute(
            "SELECT path, reason, coalesce(file, path), size, mtime_ns, seen_ns, reader FROM problems "
            f"{where} ORDER BY path",
            values,
        )
        return [ProblemRow(*row) for row in rows]

    def record_index(self, key: str, layout: str, spec: str, generation: int) -> None:
        self.db.execute("INSERT OR REPLACE INTO indexes VALUES (?, ?, ?, ?)", (key, layout, spec, generation))

    def indexes(self) -> list[tuple[str, str, str, int]]:
        """(key, layout spec, index spec, generation), newest last."""
        return self.db.execute("SELECT key, layout, spec, generation FROM indexes ORDER BY generation").fetchall()

    def drop_index(self, key: str) -> None:
        self.db.execute("DELETE FROM indexes WHERE key = ?", (key,))


def _listed(items: Sequence[str]) -> str:
    return json.dumps(items, ensure_ascii=False)
