"""The formats of files: which built-in reader reads which names, and which modules of an extra it needs.

A table, not attributes of the readers alone: to pick a reader, or to see whether a file that failed may be read now, a
sync asks for all formats. Importing all readers for that takes 70 ms, and it needs one or two of them.
"""

from __future__ import annotations

from dataclasses import dataclass

CODE_LANGUAGES = {
    ".py": "python", ".js": "javascript", ".mjs": "javascript", ".jsx": "jsx", ".ts": "typescript", ".tsx": "tsx",
    ".java": "java", ".kt": "kotlin", ".scala": "scala", ".groovy": "groovy", ".go": "go", ".rs": "rust", ".c": "c",
    ".h": "c", ".cc": "cpp", ".cpp": "cpp", ".hpp": "cpp", ".cs": "csharp", ".swift": "swift", ".rb": "ruby",
    ".php": "php", ".pl": "perl", ".lua": "lua", ".r": "r", ".jl": "julia", ".sh": "bash", ".bash": "bash",
    ".ps1": "powershell", ".sql": "sql", ".proto": "protobuf", ".tf": "hcl", ".ex": "elixir", ".hs": "haskell",
}  # fmt: skip
"""The languages of source code, by the suffix of a file."""


@dataclass(frozen=True)
class FileFormat:
    suffixes: tuple[str, ...]
    """The endings of file names, such as `.md`, or whole names; in lower case."""
    needs: tuple[str, ...] = ()
    """The modules that the reader imports and that an extra installs."""
    extra: str = ""
    """The name of the extra: `pip install 'surefind[EXTRA]'`."""


FORMATS = {
    "beir": FileFormat(("corpus.jsonl",)),
    "code": FileFormat(tuple(sorted(CODE_LANGUAGES))),
    "csv": FileFormat((".csv", ".tsv")),
    "docx": FileFormat((".docx",), ("mammoth",), "office"),
    "eml": FileFormat((".eml",)),
    "html": FileFormat((".html", ".htm", ".xhtml")),
    "json": FileFormat((".json", ".jsonl", ".ndjson")),
    "jupyter": FileFormat((".ipynb",)),
    "markdown": FileFormat((".md", ".markdown", ".mdown", ".mkd", ".mdx", ".md.erb")),
    "pdf": FileFormat((".pdf",), ("liteparse",), "pdf"),
    "pptx": FileFormat((".pptx",), ("pptx",), "office"),
    "rst": FileFormat((".rst", ".rest"), ("docutils",), "rst"),
    "text": FileFormat((".txt", ".text", ".log")),
    "xlsx": FileFormat((".xlsx", ".xlsm"), ("openpyxl",), "office"),
    "zip": FileFormat((".zip",)),
}
"""The format of each built-in reader, by its name."""
