"""Converts the marks of static-site generators in Markdown to plain Markdown, outside of code.

    Jekyll, GitBook   {% alert %} {% link x %} {% include x %} {{ site.x }} {: .class}
    Hugo              {{< note >}} {{% note %}} {{< ref "x" >}}
    MkDocs            !!! note "Title"   ??? note   === "Tab"   /// note | Title   { .class }
    Docusaurus        :::note Title   import …   export …   <Tabs> <TabItem label="x">
    MyST              ```{note}   :::{note}   {ref}`x`   (label)=
    Middleman         <%= link_to "text", "x" %>   <% … %>
    GitHub            > [!NOTE]

A mark becomes what it means (a label in bold type, a link, a picture, a code block) or vanishes. The text keeps its
number of lines: a line of the result is the same line of the file. A text without marks stays as it is, and a converted
text is not changed by a second conversion. Every pattern stops where the next mark begins, so the time is linear.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Span = tuple[int, int]
_ANY = re.compile(
    r"\{[%{:.#*/]|<%|<[A-Z]|\{ ?[\w.#-]+[ =}]|\}`|^[ \t>]*"
    r"(?::::|!!! ?|\?\?\?|===[!+]? \"|///|-+8<-|\[!|\[TOC\])|^\([\w.:-]+\)="
    r"|^(?:import|export)\s|:(?:material|octicons|fontawesome|simple)-",
    re.MULTILINE,
)
_FENCE = re.compile(r"[ \t]*(`{3,}(?=[^`]*$)|~{3,})[ \t]*(.*)")
_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+(?=\S)")
_DIRECTIVE = re.compile(r"\{([A-Za-z][\w:.+-]*)\}[ \t]*(.*)")
_COLONS = re.compile(r"[ \t]*(:{3,})[ \t]*(.*)")
_CONTAINER = re.compile(r"([A-Za-z][\w-]*)(?:\[([^\]]*)\])?[ \t]*(?:\{[^{}]*\})?[ \t]*(.*)")
_OBJECT = re.compile(r"[A-Za-z_]\w*(?:\.\w+)+")
_SLASHES = re.compile(r"[ \t]*(/{3,})(?:[ \t]*([a-z][\w-]*)[ \t]*(?:\|[ \t]*(.*))?)?")
_ADMONITION = re.compile(r"[ \t]*(?:!!!|\?\?\?\+?)[ \t]*([A-Za-z][\w-]*(?: [\w-]+)*+)[ \t]*+(?:\"(.*)\")?[ \t]*")
_TAB = re.compile(r"[ \t]*===[!+]?[ \t]+\"(.*)\"[ \t]*")
_ALERT = re.compile(r"([ \t]*(?:>[ \t]*)+)\[!([A-Za-z]+)\][+-]?[ \t]*(.*)")
_OPTION = re.compile(r"[ \t]*:([\w-]+):[ \t]*(.*)")
_LINE_MARK = re.compile(r"\([\w.:-]+\)=[ \t]*|[ \t]*-+8<-{2,}.*|[ \t]*\[TOC\][ \t]*")
_CODE_TAG = re.compile(
    r"[ \t]*(?:\{%-?[ \t]*(highlight|comment|raw)\b([^%{}]*)%\}|\{\{[<%][ \t]*(highlight)\b([^<>{}%]*)[>%]\}\})[ \t]*"
)
_CODE_END = re.compile(
    r"[ \t]*(?:\{%-?[ \t]*end(highlight|comment|raw)[ \t]*-?%\}|\{\{[<%][ \t]*/[ \t]*(highlight)[ \t]*[>%]\}\})[ \t]*"
)
_IMPORT = re.compile(r"import\s(?:[\w$*{},\s]{0,400}\sfrom\s)?\s{0,9}[\"'][^\"'\n]*[\"'];?[ \t]*")
_IMPORT_BEGINS = re.compile(r"import\s+\{[\w$,\s]*")
_EXPORT = re.compile(r"export\s+(?:const|let|var|function|default|async|class|type|interface)\b|export\s*\{")
_ATTRIBUTE = re.compile(r"(?<![\w:-])([A-Za-z][\w:-]*+)[ \t]*+=[ \t]*\{?(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'{}/>]+))")
_STRING = re.compile(r"\"([^\"]*)\"|'([^']*)'")
_NAMED = re.compile(r"[ \t]*([A-Za-z][\w.:/-]*)")
_INLINE = re.compile(
    r"(?P<hugo>\{\{[<%](?!/\*)(?:(?!\{\{|[>%]\}\})[\s\S])*+[>%]\}\})"
    r"|(?P<liquid>\{%(?:(?!\{%|%\})[\s\S])*+%\})"
    r"|(?P<erb><%(?:(?!<%|%>)[\s\S])*+%>)"
    r"|(?P<variable>\{\{(?:(?!\{\{|\}\})[^\n])*+\}\})"
    r"|(?P<comment>\{/\*(?:(?!\{/\*|\*/\})[\s\S])*+\*/\}|\{\*[^*{}\n]*+\*\})"
    r"|(?P<tag></?(?P<name>[A-Z][\w.]*+)"
    r"(?P<properties>\s(?:[^<>{}\"']|\"[^\"<]*+\"|'[^'<]*+'|\{(?:[^{}<]|\{[^{}<]*+\})*+\})*+)?/?>)"
    r"|(?P<attributes>\{:?[ \t]*+(?:(?:[.#][A-Za-z][\w:-]*+"
    r"|[A-Za-z][\w:-]*+=(?:\"[^\"\n{}]*+\"|'[^'\n{}]*+'|[^\s{}\"']++))[ \t]*+)++\}|\{::?/?[\w \t=\"'.#-]*+/?\})"
    r"|(?P<icon>:(?:material|octicons|fontawesome|simple)-[\w-]++:)"
)
_TICKS = re.compile(r"(?<!\\)`+|\n[ \t]*(?=\n)")
_VALUE = re.compile(r"\{[{%][^{}\n]*\}\}?")
"""A variable or a tag, which may stand before another one in an address."""
_ROLE = re.compile(r"\{([A-Za-z][\w:+-]{0,80})\}$")
_ROLE_TARGET = re.compile(r"([^<>]*[^<>\s])\s*<([^<>]*)>")
_WORDS = {"seealso": "See also", "versionadded": "New in version", "versionchanged": "Changed in version"}
_ADMONITIONS = frozenset(
    "abstract alert attention bug callout caution danger deprecated error example failure faq hint important info "
    "note question quote secondary seealso success summary tip todo versionadded versionchanged warning".split()
)
_NO_LABEL, _BLOCKS = frozenset("callout secondary alert".split()), frozenset("details tab caption html define".split())
_CODE = {
    "code": "", "code-block": "", "code-cell": "", "sourcecode": "", "parsed-literal": "text", "prompt": "",
    "doctest": "", "testcode": "python", "math": "math", "mermaid": "mermaid", "graphviz": "dot", "eval-rst": "rst",
}  # fmt: skip
"""Directives whose content is code, and its language if the argument does not name it."""
_HIDDEN = frozenset(
    "include literalinclude raw contents index tableofcontents bibliography highlight currentmodule module "
    "tabularcolumns jupyter-execute plot testsetup testcleanup".split()
)
_TEXT = _ADMONITIONS | frozenset(
    "admonition attribute autoclass autofunction automodule button-link button-ref card card-carousel centered class "
    "contents csv-table dropdown epigraph figure figure-md function glossary grid grid-item grid-item-card hlist image "
    "list-table margin method only option pull-quote rst-class rubric sidebar tab-item tab-set table topic "
    "toctree".split()
)
_PICTURES = frozenset("figure image img picture image_tag figure-md".split())
_LINKS = frozenset("link link_to post_url page ref relref doc xref url page-ref content-ref".split())
_TITLES = ("title", "label", "header", "heading", "summary", "caption", "name")
_FLOW = frozenset(
    "if elsif else unless for case when assign capture cycle increment decrement layout render partial yield break "
    "continue include include_relative include-cached content_for do with block extends set import from macro".split()
)
_TEXT_ROLES = frozenset(
    "ref numref term abbr abbreviation sub sup subscript superscript guilabel menuselection eq cite dfn strong "
    "emphasis doc any download index title-reference octicon bdg".split()
)
_ROLES = _TEXT_ROLES | frozenset(
    "func class meth mod attr obj exc data const file command option envvar program literal code samp kbd math "
    "pep rfc keyword token mimetype".split()
)
_COMPONENTS = frozenset("Tabs TabItem Tab Admonition Details Card Cards Steps Step Callout Aside".split())
_MAX_EXPORT_LINES = 500
_MAX_LINE = 400
"""Characters of a line before a mark that are looked at, to see what the mark belongs to."""


@dataclass
class _Block:
    """An open container. `mark` closes it; what is in it is text, hidden, code, or a list of pages."""

    mark: str
    kind: str


def plain_markdown(text: str, metadata: Mapping[str, Any]) -> str:
    """Returns the text without the marks of static sites, with as many lines. `metadata` is that of its front matter,
    which `{{ page.x }}` shows."""
    if not _ANY.search(text):
        return text
    scan = _MarkScan(text.split("\n"))
    scan.read()
    components = {match[1] for match in re.finditer(r"</([A-Z][\w.]*+)>", text)} | _COMPONENTS
    return "\n".join(_inline(run, metadata, components) if prose else run for prose, run in scan.runs())


@dataclass
class _MarkScan:
    """Reads a text line by line: converts the marks that take whole lines, and tells prose from code."""

    lines: list[str]
    out: list[str] = field(default_factory=list)
    prose: list[bool] = field(default_factory=list)
    blocks: list[_Block] = field(default_factory=list)
    margins: list[tuple[int, int]] = field(default_factory=list)
    """Where the content of each open admonition begins, and how many list items were open before it."""
    items: list[int] = field(default_factory=list)
    """Where the content of each open list item begins."""
    code: str = ""
    """What closes the code block, if one is open."""
    closing: str = ""
    """The line that stands for the end of the code block; empty if it stays as it is."""
    opened: int = -1
    """The line of a directive whose options may follow."""
    yaml: bool = False
    after_blank: bool = True
    indented: bool = False
    skip: int = 0
    """Lines that are still left out."""
    no_export: int = 0
    """Before this line, no export ends: it is looked for once."""

    def read(self) -> None:
        ends = {
            (match[1] or match[2]): at for at, line in enumerate(self.lines) if (match := _CODE_END.fullmatch(line))
        }
        for at, source in enumerate(self.lines):
            bare, width = source.strip(), _width(source)
            if not self.code and bare:
                while self.margins and width < self.margins[-1][0]:
                    del self.items[self.margins.pop()[1] :]
            line = _dedented(source, 4 * len(self.margins)) if self.margins else source
            prose, converted = self._line(at, line, bare, ends)
            self.out.append(converted)
            self.prose.append(prose)
            self.after_blank = not bare

    def runs(self) -> Iterator[tuple[bool, str]]:
        """Yields the text in runs of lines that are prose or code."""
        start = 0
        for at in range(1, len(self.out) + 1):
            if at == len(self.out) or self.prose[at] != self.prose[start]:
                yield self.prose[start], "\n".join(self.out[start:at])
                start = at

    def _line(self, at: int, line: str, bare: str, ends: Mapping[str, int]) -> tuple[bool, str]:
        if self.skip:
            self.skip -= 1
            return False, ""
        if self.opened >= 0 and (option := self._option(at, line, bare)) is not None:
            return False, option
        fence = _FENCE.fullmatch(line)
        if self.code:
            return False, self._in_code(line, bare, fence)
        if not bare:
            return True, line
        if self._is_indented(line):
            return False, line
        if fence:
            return self._fence(at, line, fence)
        if tag := _CODE_TAG.fullmatch(line):
            return self._code_tag(at, tag, ends)
        if (block := self._block(at, line, bare)) is not None:
            return block
        if item := _ITEM.match(line):
            here = _width(line)
            while self.items and self.items[-1] > here:
                self.items.pop()
            self.items.append(here + len(item[0].lstrip()))
        kind = self.blocks[-1].kind if self.blocks else "text"
        if kind == "hidden":
            return False, ""
        return (False, _page_of(bare)) if kind == "pages" else (True, line)

    def _is_indented(self, line: str) -> bool:
        """Whether the line belongs to an indented code block. Closes the list items that it is not in."""
        width = _width(line)
        if self.after_blank:
            while self.items and width < self.items[-1]:
                self.items.pop()
        base = self.items[-1] if self.items else 0
        self.indented = width >= base + 4 and (self.after_blank or self.indented) and not _ITEM.match(line)
        return self.indented

    def _in_code(self, line: str, bare: str, fence: re.Match[str] | None) -> str:
        """Returns a line of a code block, or of its end."""
        if self.code in ("highlight", "comment", "raw"):
            end = _CODE_END.fullmatch(line)
            ended = bool(end) and (end[1] or end[2]) == self.code  # type: ignore[index]
        elif self.code[0] == ":":
            ended = len(bare) >= len(self.code) and set(bare) == {":"}
        else:
            ended = bool(fence) and fence[1].startswith(self.code) and not fence[2].strip()  # type: ignore[index]
        hidden = self.code == "comment" or (ended and self.code == "raw")
        made = (self.closing or line) if ended else line
        self.code = "" if ended else self.code
        return "" if hidden else made

    def _code_tag(self, at: int, tag: re.Match[str], ends: Mapping[str, int]) -> tuple[bool, str]:
        name, words = tag[1] or tag[3], (tag[2] or tag[4] or "").strip(" \t-").split()
        if ends.get(name, -1) < at:
            return True, ""
        self.code, self.closing = name, "```" if name == "highlight" else ""
        return False, f"```{words[0] if words else ''}" if name == "highlight" else ""

    def _fence(self, at: int, line: str, fence: re.Match[str]) -> tuple[bool, str]:
        mark, info = fence[1], fence[2].strip()
        top = self.blocks[-1] if self.blocks else None
        if not info and top and top.mark[0] == mark[0] and len(mark) >= len(top.mark):
            self.blocks.pop()
            return True, ""
        directive = _DIRECTIVE.fullmatch(info)
        if directive and _is_directive(directive[1]):
            return True, self._directive(at, mark, directive[1], directive[2], line[: len(line) - len(line.lstrip())])
        self.code, self.closing = mark, ""
        return False, line

    def _directive(self, at: int, mark: str, name: str, argument: str, indent: str) -> str:
        """Opens a directive, and returns the line that stands for its first one."""
        self.opened = at
        if name in _CODE:
            self.code, self.closing = mark, f"{indent}```" if mark[0] == ":" else ""
            language = (argument.split() or [_CODE[name]])[0] if not _CODE[name] else _CODE[name]
            return f"{indent}{'```' if mark[0] == ':' else mark}{language}"
        kind = "pages" if name == "toctree" else "hidden" if name in _HIDDEN else "text"
        self.blocks.append(_Block(mark, kind))
        if name in _PICTURES:
            return f"{indent}![]({argument.split()[0]})" if argument.split() else ""
        return "" if kind != "text" else indent + _label(name, argument)

    def _option(self, at: int, line: str, bare: str) -> str | None:
        """Returns what stands for an option of the directive above; None if it has no more options."""
        option = None if self.yaml else _OPTION.fullmatch(line)
        if bare == "---" and (self.yaml or self.opened == at - 1):
            self.yaml = not self.yaml
        elif not option and not self.yaml:
            self.opened = -1
            return None
        head, self.out[at - 1] = self.out[at - 1], ""
        if option and option[1] == "alt" and head.lstrip().startswith("![]("):
            head = head.replace("![]", f"![{option[2]}]", 1)
        elif option and option[1] in ("header", "caption") and not head and not self.code:
            head = _label("", option[2])
        return head

    def _block(self, at: int, line: str, bare: str) -> tuple[bool, str] | None:
        """Returns what stands for a mark that takes the line; None if there is none."""
        first, indent = bare[0], line[: len(line) - len(line.lstrip())]
        if first == ":" and (match := _COLONS.fullmatch(line)):
            return self._colons(at, match, indent)
        if first == "/" and (match := _SLASHES.fullmatch(line.rstrip())):
            if not match[2] and self.blocks and self.blocks[-1].mark[0] == "/":
                self.blocks.pop()
                return True, ""
            if match[2] and (match[3] is not None or match[2] in _ADMONITIONS | _BLOCKS):
                self.blocks.append(_Block(match[1], "text"))
                return True, indent + _label(match[2], (match[2] != "html" and match[3]) or "")
        if first in "!?" and (match := _ADMONITION.fullmatch(line)) and self._has_content(at, match):
            self.margins.append((_width(self.lines[at]) + 4, len(self.items)))
            return True, indent + _label(match[1].split()[0].lower(), match[2] or "")
        if first == "=" and (match := _TAB.fullmatch(line)):
            self.margins.append((_width(self.lines[at]) + 4, len(self.items)))
            return True, indent + _label("", match[1])
        if first == ">" and (match := _ALERT.fullmatch(line)) and match[2].lower() in _ADMONITIONS:
            return True, match[1] + _label(match[2].lower(), match[3])
        if first in "(-[" and _LINE_MARK.fullmatch(line):
            return True, ""
        if first in "ie" and line[0] == first:
            return self._module(at, line)
        return None

    def _colons(self, at: int, match: re.Match[str], indent: str) -> tuple[bool, str] | None:
        mark, rest = match[1], match[2].strip()
        if not rest:
            if not (self.blocks and self.blocks[-1].mark[0] == ":"):
                return None
            self.blocks.pop()
            return True, ""
        if directive := _DIRECTIVE.fullmatch(rest):
            return True, self._directive(at, mark, directive[1], directive[2], indent)
        if _OBJECT.fullmatch(rest):  # mkdocstrings: the documentation of an object, with options below
            self.skip = self._indented_below(at)
            return True, f"{indent}**`{rest}`**"
        if rest.startswith("{"):
            self.blocks.append(_Block(mark, "text"))
            classes = [word.removeprefix("callout-") for word in re.findall(r"\.([\w-]+)", rest)]
            name = next((word for word in classes if word in _ADMONITIONS), "")
            return True, indent + _label(name, dict(_attributes(rest)).get("title", ""))
        if container := _CONTAINER.fullmatch(rest):
            self.blocks.append(_Block(mark, "text"))
            return True, indent + _label(container[1].lower(), container[2] or container[3])
        return None

    def _has_content(self, at: int, match: re.Match[str]) -> bool:
        """Whether an indented text follows, as below every admonition. Otherwise the line is prose."""
        below = next((line for line in self.lines[at + 1 : at + 20] if line.strip()), "")
        known = match[1].split()[0].lower() in _ADMONITIONS
        return _width(below) >= _width(self.lines[at]) + 4 or bool(match[2]) or (known and not below)

    def _indented_below(self, at: int) -> int:
        here, count = _width(self.lines[at]), 0
        while at + count + 1 < len(self.lines) and _width(self.lines[at + count + 1]) >= here + 2:
            count += 1
        return count

    def _module(self, at: int, line: str) -> tuple[bool, str] | None:
        """Leaves out an import or an export of MDX."""
        if _IMPORT.fullmatch(line):
            return True, ""
        if _IMPORT_BEGINS.fullmatch(line):
            below = self.lines[at + 1 : at + 40]
            end = next((number for number, one in enumerate(below) if not re.fullmatch(r"[\w$,\s]*", one)), -1)
            if end < 0 or not _IMPORT.fullmatch("\n".join([line, *below[: end + 1]])):
                return None
            self.skip = end + 1
            return True, ""
        if not _EXPORT.match(line):
            return None
        if at < self.no_export:
            return None
        depth = 0
        for number, one in enumerate(self.lines[at : at + _MAX_EXPORT_LINES]):
            depth += sum(one.count(mark) for mark in "({[") - sum(one.count(mark) for mark in ")}]")
            if depth <= 0:
                self.skip = number
                return True, ""
        self.no_export = at + _MAX_EXPORT_LINES
        return None


def _width(line: str) -> int:
    """Returns the columns of white space at the start of a line."""
    space = line[: len(line) - len(line.lstrip())]
    return len(space.expandtabs(4)) if "\t" in space else len(space)


def _dedented(line: str, columns: int) -> str:
    at = 0
    while at < len(line) and columns > 0 and line[at] in " \t":
        columns -= 4 if line[at] == "\t" else 1
        at += 1
    return line[at:]


def _is_directive(name: str) -> bool:
    """Whether `{name}` after a fence is a directive. Other names are languages of code that is run: `{r}`."""
    return name in _TEXT or name in _CODE or name in _HIDDEN or ":" in name


def _label(name: str, title: str) -> str:
    """Returns what a container begins with: its title or its kind, in bold type; nothing for one of another kind."""
    label = title.replace("*", "").replace("`", "").strip().strip('"').strip()
    if name in _WORDS:
        label = f"{_WORDS[name]} {label}".strip()
    elif not label and name in _ADMONITIONS and name not in _NO_LABEL:
        label = name.capitalize()
    return f"**{label}{'' if label[-1] in ':.!?' else ':'}**" if label else ""


def _page_of(line: str) -> str:
    """Returns an entry of a table of contents as a link."""
    if "*" in line or line.startswith(":"):
        return ""
    match = _ROLE_TARGET.fullmatch(line)
    title, target = (match[1], match[2]) if match else (line.rpartition("/")[2], line)
    return "" if target == "self" or " " in target else f"- [{title}]({target})"


def _inline(text: str, metadata: Mapping[str, Any], components: set[str]) -> str:
    """Converts the marks within lines, outside of code spans. Lines of which nothing is left become empty."""
    spans = _code_spans(text)
    edits: list[tuple[int, int, str]] = []
    for start, end in spans:
        role = _ROLE.search(text, max(0, start - 84), start)
        if role and (":" in role[1] or role[1] in _ROLES):
            edits.append((role.start(), end, _role(role[1], text[start:end].strip("`").strip())))
    number = 0
    for match in _INLINE.finditer(text):
        while number < len(spans) and spans[number][1] <= match.start():
            number += 1
        if number < len(spans) and spans[number][0] <= match.start():
            continue
        made = _made(text, match, metadata, components)
        if made is not None:
            edits.append((*match.span(), made + "\n" * match[0].count("\n")))
    return _edited(text, sorted(edits))


def _edited(text: str, edits: Sequence[tuple[int, int, str]]) -> str:
    pieces, at = list[str](), 0
    for start, end, made in edits:
        if start < at:
            continue
        before = text[at:start]
        if not made.strip("\n") and text[end : end + 1] in ("", "\n"):  # what vanishes takes the space before it along
            before = before.rstrip(" ")
        pieces += (before, made)
        at = end
    pieces.append(text[at:])
    return "".join(pieces)


def _code_spans(text: str) -> list[Span]:
    """Returns where the code spans of a text are. A run of backticks is closed by the next one of its length in the
    paragraph."""
    spans: list[Span] = []
    runs: list[tuple[int, int]] = []

    def close() -> None:
        places: dict[int, list[int]] = {}
        for at, (start, end) in reversed(list(enumerate(runs))):
            places.setdefault(end - start, []).append(at)
        at = 0
        while at < len(runs):
            start, end = runs[at]
            same = places[end - start]
            while same and same[-1] <= at:
                same.pop()
            if same:
                at = same[-1]
                spans.append((start, runs[at][1]))
            at += 1
        runs.clear()

    for match in _TICKS.finditer(text):
        if match[0][0] == "`":
            runs.append(match.span())
        else:
            close()
    close()
    return spans


def _role(name: str, content: str) -> str:
    """Converts a role of MyST: a link to a document, words, or code."""
    match = _ROLE_TARGET.fullmatch(content)
    label = match[1].strip() if match else content.lstrip("~!")
    target = match[2] if match else content
    kind = name.rpartition(":")[2]
    if kind in ("doc", "download"):
        return f"[{label.rpartition('/')[2]}]({target})" if not match else f"[{label}]({target})"
    return label if match or kind in _TEXT_ROLES or "ref" in kind else f"`{label}`"


def _made(text: str, match: re.Match[str], metadata: Mapping[str, Any], components: set[str]) -> str | None:
    """Returns what a mark becomes; None if it is none."""
    kind, mark, start = match.lastgroup, match[0], match.start()
    if match["tag"]:
        return _component(match, components)
    if kind == "hugo":
        return _tag(mark[3:-3], _in_address(text, start))
    if kind == "liquid":
        return _tag(mark[2:-2].strip("-+"), _in_address(text, start))
    if kind == "erb":
        call = mark[2:-2].strip("-")
        return _call(call[1:]) if call.startswith("=") else ""
    if kind == "variable":
        return _variable(mark[2:-2].strip().strip("-").strip(), metadata, _in_address(text, start))
    if kind == "attributes":
        return "" if mark[1] == ":" or _belongs(text, start, match.end()) else None
    return ""


def _belongs(text: str, start: int, end: int) -> bool:
    """Whether attributes without a colon belong to something: a link, a heading, or words in bold type."""
    near = max(0, start - _MAX_LINE)
    begin = text.rfind("\n", near, start) + 1 or near
    before = text[max(begin, start - 8) : start].rstrip(" ")
    if before and before[-1] in ")]*_`>:":
        return True
    last = text[end : end + 1] in ("", "\n")
    return last and (text.startswith("#", begin) or not text[begin:start].strip())


def _in_address(text: str, at: int) -> bool:
    """Whether a place is in the target of a link, or in an attribute of HTML."""
    before = _VALUE.sub("", text[max(0, at - 300) : at])
    link = max(before.rfind("]("), before.rfind("]: "), before.rfind('="'), before.rfind("](<"))
    return link >= 0 and not re.search(r"[\s)\"]", before[link + 2 + (before[link : link + 3] == "]: ") :])


def _attributes(text: str) -> Iterator[tuple[str, str]]:
    for match in _ATTRIBUTE.finditer(text):
        yield match[1].lower(), match[2] or match[3] or match[4] or ""


def _tag(tag: str, in_address: bool) -> str:
    """Converts a tag of Liquid or a shortcode of Hugo."""
    named = _NAMED.match(tag)
    name = named[1].lower() if named else ""
    if not named or name.startswith("end") or (name in _FLOW and "=" not in tag):
        return ""
    arguments = tag[named.end() :].strip().rstrip("/")
    values = dict(_attributes(arguments))
    strings = [match[1] or match[2] or "" for match in _STRING.finditer(_ATTRIBUTE.sub("", arguments))]
    words = strings or [word for word in _ATTRIBUTE.sub("", arguments).split() if "=" not in word]
    if name in _LINKS:
        target = (words or [values.get("url") or values.get("page") or values.get("path") or ""])[0]
        target = {"link": "/", "post_url": "/_posts/"}.get(name, "") + target if target else ""
        closed = name == "content-ref" or not target
        return target if in_address else "" if closed else f"[{target.rstrip('/').rpartition('/')[2]}]({target})"
    if name in _PICTURES and (source := values.get("src") or values.get("url") or (words or [""])[0]):
        caption = values.get("caption") or values.get("title") or ""
        return source if in_address else f"![{values.get('alt') or caption}]({source}) {caption}".rstrip()
    content = next((values[key] for key in ("content", "text") if values.get(key)), "")
    title = next((values[key] for key in _TITLES if values.get(key)), "") if name not in _FLOW else ""
    if name in _FLOW:  # an include: what it says is in its attributes, and its file names its kind
        name = next((word for word in re.split(r"[/.\s_-]", arguments.split("=")[0]) if word in _ADMONITIONS), "")
        title = values.get("title", "")
    if in_address:
        return ""
    kind = next((values[key] for key in ("type", "style", "kind") if values.get(key) in _ADMONITIONS), name)
    quoted = strings[0] if strings else ""
    if kind in _ADMONITIONS or title:
        return f"{_label(kind, title or quoted)} {content}".strip()
    return content or (quoted if name in ("heading", "tab", "button") else "")


def _call(call: str) -> str:
    """Converts a call of ERB that only has strings: a link, a picture, or a text."""
    named = _NAMED.match(call)
    strings = [match[1] or match[2] or "" for match in _STRING.finditer(call)]
    if not named or not strings or any("#{" in string for string in strings):
        return ""
    if named[1] == "link_to" and len(strings) > 1:
        return f"[{strings[0]}]({strings[1]})" if re.match(r"[ \t]*+[(]?[ \t]*+[\"']", call[named.end() :]) else ""
    if named[1] in _PICTURES:
        return f"![{strings[1] if len(strings) > 1 else ''}]({strings[0]})"
    return strings[0] if named[1] in ("warning_text", "inset_text") else ""


def _variable(name: str, metadata: Mapping[str, Any], in_address: bool) -> str | None:
    """Returns what a variable of a site shows: what the front matter says, or its name in words. Other pairs of braces
    are text."""
    literal = re.fullmatch(
        r"[\"']([^\"']*)[\"'][ \t]*\|[ \t]*(?:relative_url|absolute_url|url|prepend:.*|append:.*)", name
    )
    if literal:
        return literal[1]
    path = re.match(r"(site|page|include|layout|config|extra|book|theme)\.([\w.-]+)(.*)", name)
    if not path:
        return None
    value = metadata.get(path[2]) if path[1] == "page" else None
    if isinstance(value, str | int | float) and not path[3].strip():
        return str(value)
    if in_address or path[3].strip() or path[2].endswith("url"):
        return ""
    return re.sub(r"[_-]+", " ", path[2].rpartition(".")[2])


def _component(match: re.Match[str], components: set[str]) -> str | None:
    """Converts a tag of JSX: its title stays. `<Name>` alone may be a word that the reader needs."""
    mark, name, properties = match[0], match["name"], match["properties"] or ""
    if name not in components and not mark.endswith("/>") and not re.search(r"\w=[\"'{]", properties):
        return None
    if mark.startswith("</"):
        return "" if name in components else None
    values = dict(_attributes(properties))
    if name in ("Image", "Img", "Figure") and values.get("src"):
        return f"![{values.get('alt', '')}]({values['src']})"
    title = next((values[key] for key in _TITLES if values.get(key)), "")
    kind = values.get("type", name).lower()
    return _label(kind if kind in _ADMONITIONS else "", title)
