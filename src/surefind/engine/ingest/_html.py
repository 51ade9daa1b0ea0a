"""Finds the content of an HTML page and converts it to Markdown.

Pages have menus, banners, breadcrumbs, share buttons and cookie notices around their content. If these stayed in, they
would be in every document and match every query. They are recognised by what the HTML standard says (nav,
role=navigation, hidden …) or by the usual names of classes and ids. An element with the main heading or most of the
text stays, whatever its name.

Changes HTML tables into tables that Markdown can express: a grid of plain cells whose first row is the header.

A cell that spans rows is repeated in each of them, so that every row makes sense alone. A table inside a cell becomes
text. A table that only arranges things on the page, as in e-mails, is dissolved.
"""

from __future__ import annotations

import re
from copy import copy
from typing import Any

from surefind.base.errors import SourceError
from surefind.engine.ingest._tables import repeat_headers

_HEADINGS = ["h1", "h2", "h3", "h4", "h5", "h6"]
_CELLS = ["td", "th"]
_WRAPPERS = ["thead", "tbody", "tfoot"]
_DEEPEST_TABLE = 30
"""Levels of tables in tables. E-mails have about ten."""
_PRESENTATION_ROLES = ("presentation", "none")


def tidy_tables(element: Any) -> None:
    """Simplifies all tables in an element, the outermost first. Changes the soup."""
    _flatten(element)
    for table in element("table"):
        if not table.get_text(strip=True):
            table.extract()
        elif _is_presentational(table):
            _dissolve(table)
        elif table.find_parent(_CELLS):
            table.replace_with(f" {_as_text(table)} ")
        else:
            _straighten(table)


def _flatten(element: Any) -> None:
    """Dissolves tables that are nested too deeply, with everything inside them: each level is read once for every level
    above it. Makes the spans of cells plain numbers, which the Markdown converter expects."""
    for table in element("table"):
        if table.name == "table" and len(table.find_parents("table", limit=_DEEPEST_TABLE)) == _DEEPEST_TABLE:
            for part in (table, *table(["table", *_WRAPPERS, "caption", "tr", *_CELLS])):
                part.name = "div"
    for cell in element(_CELLS, colspan=True):
        cell["colspan"] = str(_span(cell, "colspan"))


def _is_presentational(table: Any) -> bool:
    """Whether a table only arranges things on the page."""
    rows = _rows(table)
    if str(table.get("role") or "").lower() in _PRESENTATION_ROLES or table.find(_HEADINGS):
        return True
    if table.find("th"):
        return False
    inside = sum(len(inner.get_text()) for inner in table("table") if inner.find_parent("table") is table)
    if rows and rows[0].find("table") and inside > len(table.get_text()) / 2:
        return True
    return all(sum(1 for cell in _cells(row) if cell.get_text(strip=True)) <= 1 for row in rows)


def _dissolve(table: Any) -> None:
    """Turns a table and its cells into plain blocks."""
    own = [part for part in table([*_WRAPPERS, "caption", "tr", *_CELLS]) if part.find_parent("table") is table]
    for part in (table, *own):
        part.name = "div"


def _straighten(table: Any) -> None:
    """Makes a table a plain grid: the caption goes in front of it, empty rows go away, spanning cells are repeated."""
    for caption in table("caption"):
        caption.name = "p"
        table.insert_before(caption.extract())
    for part in table([*_WRAPPERS, "colgroup", "col"]):
        part.unwrap()
    for row in _rows(table):
        if not _cells(row):
            row.extract()
    _fill_rows(table)


def _fill_rows(table: Any) -> None:
    """Repeats a cell in the rows that it spans."""
    spanning: dict[int, tuple[Any, int]] = {}
    for row in _rows(table):
        column = 0
        for cell in [*_cells(row), None]:
            while column in spanning:
                above, left = spanning.pop(column)
                again = copy(above)
                row.append(again) if cell is None else cell.insert_before(again)
                if left > 1:
                    spanning[-1 - column] = above, left - 1  # for the next row
                column += _span(above, "colspan")
            if cell is not None:
                if (rows := _span(cell, "rowspan")) > 1:
                    spanning[-1 - column] = cell, rows - 1
                column += _span(cell, "colspan")
        spanning = {-1 - at if at < 0 else at: kept for at, kept in spanning.items()}


def _as_text(table: Any) -> str:
    """Writes a table as text: `Season, Extra; Summer, +20%`."""
    lines = (", ".join(filter(None, (" ".join(c.get_text(" ").split()) for c in _cells(row)))) for row in _rows(table))
    return "; ".join(filter(None, lines))


def _rows(table: Any) -> list[Any]:
    return [row for row in table("tr") if row.find_parent("table") is table]


def _cells(row: Any) -> list[Any]:
    return list(row.find_all(_CELLS, recursive=False))


def _span(cell: Any, name: str) -> int:
    digits = str(cell.get(name) or "1")
    return max(1, min(1000, int(digits[:9]))) if digits.isdecimal() else 1


_NEVER_CONTENT = (
    "script style noscript template iframe svg canvas audio video object embed nav footer dialog button select input "
    "textarea"
).split()
_OUTSIDE = ["header", "aside"]
"""Elements that are content inside an article (its title, a note), but not outside one."""
_ROLES = {"navigation", "contentinfo", "search", "dialog", "alertdialog", "menu", "menubar", "toolbar", "tablist"}
_OUTSIDE_ROLES = {"banner", "complementary"}
_NAMES = re.compile(
    r"(?:^|[-_ ])(?:cookies?|consent|gdpr|breadcrumbs?|sidebar|side-bar|sidenav|navbar|navigation|menu|toc|"
    r"nav(?=$|[-_](?:bar|menu|links?|list|items?|side|top|bottom|wrapper|container))|"
    r"nav(?:header|footer|path|[-_]?panel)|docnav|table-of-contents|tableofcontents|skip-?links?|skip-?to|share|"
    r"sharing|social|newsletter|subscribe|advert|"
    r"advertisement|ads|pagination|pager|prev-next|feedback|edit-?(?:this-)?page|headerlink|comments|"
    r"related-(?:posts|articles|stories|content|links)|ad(?=$|[-_](?:slot|unit|box|banner|wrapper|container))|"
    r"site-?header|site-?footer|page-?footer|masthead|copyright|popup|modal|toast)(?:$|[-_ ])",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_EMBEDDED = re.compile(r"^\s*(?:data|javascript):", re.IGNORECASE)
_BLANKS = re.compile(r"\n{3,}")
_REPEATED = "\0repeated"
"""The name, which no page can write, of an attribute that holds repeated ones."""
_DEEPEST = 300
"""Levels of tags within tags. The Markdown converter calls itself for each, and Python allows no more."""
_NO_HEADING = re.compile(r"h\d\d+")
_SHORT_NUMBER = re.compile(r"[0-9]{1,9}")
_SMALL_FORM = 300
"""Forms with less text than this, in characters, are removed: larger ones may contain the whole page."""
_CONTENT: tuple[dict[str, Any], ...] = ({"name": "main"}, {"attrs": {"role": "main"}}, {"name": "article"})


def page_to_markdown(html: str) -> str:
    return to_markdown(content(parse(html)))


def parse(html: str) -> Any:
    from bs4 import BeautifulSoup
    from bs4.builder import ParserRejectedMarkup

    try:
        soup = BeautifulSoup(html, "html.parser", on_duplicate_attribute=_keep_first)
    except ParserRejectedMarkup as error:
        reason = str(error).strip().rpartition("\n")[2].strip()
        raise SourceError(f"is not HTML that can be parsed ({reason})") from None
    _check_depth(soup)
    return soup


def _keep_first(attributes: Any, name: str, value: str) -> None:
    """Of a repeated attribute the first value counts, as in browsers. The others are kept for `repeated`."""
    attributes.setdefault(_REPEATED, []).append((name, value))


def repeated(element: Any) -> list[tuple[str, str]]:
    """Returns the attributes of an element that stand in it twice, with the values that do not count."""
    return list(element.get(_REPEATED) or [])


def _check_depth(soup: Any) -> None:
    """Refuses a page that no converter can read. Looking for the parents of its tags would take minutes."""
    level = {id(soup): 0}
    for tag in soup.find_all(True):
        level[id(tag)] = level[id(tag.parent)] + 1
    if max(level.values()) > _DEEPEST:
        raise SourceError(f"nests its tags more than {_DEEPEST} deep")


def to_markdown(element: Any) -> str:
    from markdownify import MarkdownConverter

    for picture in element("img", src=_EMBEDDED):
        picture.replace_with(picture.get("alt") or "")
    for link in element("a", href=_EMBEDDED):
        link.unwrap()
    tidy_tables(element)
    _tame(element)
    for text in element.find_all(string=lambda text: "|" in text):
        if text.find_parent(["td", "th"]):
            text.replace_with(text.replace("|", "\\|"))
    body = MarkdownConverter(
        heading_style="ATX", bullets="-", table_infer_header=True, escape_underscores=False, escape_asterisks=False
    ).convert_soup(element)
    return repeat_headers(_BLANKS.sub("\n\n", body).strip() + "\n")


def _tame(element: Any) -> None:
    """Changes what the Markdown converter takes for a number and cannot read: `<h99…>`, `<ol start="½">`."""
    for heading in element(_NO_HEADING):
        heading.name = "div"
    for listed in element("ol", start=True):
        if not _SHORT_NUMBER.fullmatch(str(listed["start"])):
            del listed["start"]


def content(soup: Any) -> Any:
    """Returns the element that holds the content of the page, without menus and the like. Changes the soup."""
    for element in soup(_NEVER_CONTENT):
        element.decompose()
    body = soup.body or soup
    for form in body("form"):
        if len(form.get_text()) < _SMALL_FORM:
            form.decompose()
        else:
            form.unwrap()  # some servers put the whole page into a form
    _clear(body, len(body.get_text()))
    return _main(body)


def _clear(body: Any, whole: int) -> None:
    """Removes page furniture (menus, banners …) from the top down, so that nothing inside it has to be checked."""
    waiting = [body]
    while waiting:
        for element in waiting.pop().find_all(True, recursive=False):
            if _is_furniture(element) and not _is_the_page(element, whole):
                element.decompose()
            else:
                waiting.append(element)


def _main(body: Any) -> Any:
    """The main element if it holds more than a third of the text, else the body."""
    whole = len(body.get_text())
    for wanted in _CONTENT:
        elements = body.find_all(**wanted)
        if len(elements) == 1 and len(elements[0].get_text()) > whole / 3:
            return elements[0]
    return body


def _is_furniture(element: Any) -> bool:
    role = str(element.get("role") or "").lower()
    if role in _ROLES or element.has_attr("hidden") or element.get("aria-hidden") == "true":
        return True
    if _HIDDEN.search(str(element.get("style") or "")):
        return True
    if element.name in _OUTSIDE or role in _OUTSIDE_ROLES:
        return element.find_parent(["main", "article"]) is None
    names = [*(element.get("class") or []), str(element.get("id") or "")]
    return any(_NAMES.search(_CAMEL.sub("-", name)) for name in names if name)


def _is_the_page(element: Any, whole: int) -> bool:
    """Whether an element holds the page's content although it is named like furniture: <body class="with-sidebar">."""
    if element.find(["main", "article", "h1"]) is not None or element.name in ("main", "article", "h1", "body"):
        return True
    return len(element.get_text()) > whole / 2
