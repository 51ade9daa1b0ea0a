"""Where links between documents lead."""

from __future__ import annotations

from cases import each
from surefind.base.text.blocks import linked_path, slug, without_suffix


@each(
    ("document", "target", "path"),
    [
        ("faq/a.md", "../sops/b.md", "sops/b.md"),
        ("a.md", "b.md", "b.md"),
        ("faq/a.md", "/sops/b", "sops/b"),
        ("faq/a.md", "", "faq/a.md"),
        ("faq/a.md", "https://example.org/b.md", ""),
        ("faq/a.md", "//example.org/b.md", ""),
        ("faq/a.md", "mailto:x@example.org", ""),
    ],
)
def test_a_link_is_resolved_against_its_document(document: str, target: str, path: str) -> None:
    assert linked_path(document, target) == path


def test_a_page_has_one_name_whatever_its_suffixes() -> None:
    assert {without_suffix(f"a/eod{end}") for end in ("", ".md", ".html", ".html.md.erb")} == {"a/eod"}
    assert without_suffix("a/v1.2") == "a/v1.2"


def test_a_heading_gives_the_anchor_that_links_use() -> None:
    assert slug("Cut-off times (wires)") == "cut-off-times-wires"
