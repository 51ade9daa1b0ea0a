"""Marks of static-site generators in Markdown: what becomes of them, and that lines and code stay."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from surefind.base.text.blocks import line_of
from surefind.base.types import Document
from surefind.engine.files.readers import Readers
from surefind.engine.ingest._static_sites import plain_markdown

MARKS = {
    "{% alert %}\nMind the *gap*.\n{% endalert %}": "\nMind the *gap*.\n",
    "See {% page \"setup.md\" %}.": "See [setup.md](setup.md).",
    "{% include note.html content=\"Be careful\" %}": "**Note:** Be careful",
    "{% include head.html %}\nText": "\nText",
    "On {{ site.product_name }} now": "On product name now",
    "[guide]({{ site.baseurl }}{% link docs/a.md %})": "[guide](/docs/a.md)",
    "# A {#top}\n{: .no_toc }\nText": "# A\n\nText",
    "{% highlight ruby %}\nputs '{{ site.x }}'\n{% endhighlight %}": "```ruby\nputs '{{ site.x }}'\n```",
    "{{< note title=\"Hey\" >}}\nText\n{{< /note >}}": "**Hey:**\nText\n",
    "{{% warning %}}Text{{% /warning %}}": "**Warning:**Text",
    "[guide]({{< ref \"guide/x.md#y\" >}})": "[guide](guide/x.md#y)",
    "{{< figure src=\"a.png\" alt=\"An A\" >}}": "![An A](a.png)",
    "!!! note \"My title\"\n\n    Text\n\n    ```sh\n    x\n    ```\n\nAfter":
        "**My title:**\n\nText\n\n```sh\nx\n```\n\nAfter",
    "??? tip\n    Text\n    !!! danger\n        Inner\nAfter": "**Tip:**\nText\n**Danger:**\nInner\nAfter",
    "=== \"Linux\"\n\n    apt": "**Linux:**\n\napt",
    "/// tip | Hello\nText\n///": "**Hello:**\nText\n",
    ":::note[Read this]\nText\n:::\nAfter": "**Read this:**\nText\n\nAfter",
    "::: warning\nText\n:::": "**Warning:**\nText\n",
    "import Tabs from '@theme/Tabs';\n\n<Tabs>\n<TabItem label=\"macOS\">\nbrew\n</TabItem>\n</Tabs>":
        "\n\n\n**macOS:**\nbrew\n\n",
    "export const a = {\n  b: 1,\n};\nText": "\n\n\nText",
    "```{note}\n:class: x\nText\n```\nAfter": "\n**Note:**\nText\n\nAfter",
    ":::{tip} Do it\nText\n:::": "**Do it:**\nText\n",
    "```{code-block} python\n:linenos:\nx = 1\n```": "\n```python\nx = 1\n```",
    "```{toctree}\nintro\nGuide <guide/index>\n```": "\n- [intro](intro)\n- [Guide](guide/index)\n",
    "```{figure} a.png\n:alt: An A\n\nCaption\n```": "\n![An A](a.png)\n\nCaption\n",
    ":::{card}\n:header: Head\nText\n:::": "\n**Head:**\nText\n",
    "/// html | div.x\nText\n///": "\nText\n",
    "(label)=\n# A": "\n# A",
    "{ref}`the text <label>`, {doc}`../x`, {func}`~a.b`": "the text, [x](../x), `a.b`",
    "<%= partial \"x\" %>\nText <%= name %>": "\nText",
    "<%= link_to \"A page\", \"/x.html\" %>": "[A page](/x.html)",
    "> [!NOTE]\n> Text": "> **Note:**\n> Text",
}  # fmt: skip


@each("text", MARKS)
def test_marks_become_what_they_mean(text: str) -> None:
    assert plain_markdown(text, {}) == MARKS[text]
    assert plain_markdown(MARKS[text], {}) == MARKS[text]


@each(
    "text",
    [
        "```yaml\n{{ site.x }}\n:::note\n!!! note\n```",
        "~~~\n{% raw %}\n~~~",
        "Text\n\n    {% if x %}\n    :::note\n\nText",
        "A `{% span %}` and ``{{ site.x }} ` `` stay.",
        "{{ .Values.x }} and {{ range .items }} and ${{ github.ref }} are text.",
        "Run <namespace> with <Token>, List<String> and {id} or {a=b}.",
        "```{r setup}\nx\n```",
        "```{python}\nx\n```",
        "!!! wow\nNothing is indented.",
        "import the goods from the ship, then\nexport FOO=1",
        "/// what\n:::",
        "- a\n\n      {{ site.code }}\n",
    ],
)
def test_code_and_prose_stay(text: str) -> None:
    assert plain_markdown(text, {}) == text


def read(path: Path, text: str) -> Document:
    path.write_text(text)
    (document,) = Readers().find(path.name).read(path, "id")
    return document


def test_lines_of_the_source_stay_exact(tmp_path: Path) -> None:
    source = "---\ntitle: a &amp; b\n---\n" + '!!! note "T"\n\n    In\n\n' * 3_000 + "{{< /note >}}\nThe last words.\n"
    document = read(tmp_path / "a.md", source)
    at = document.text.index("The last words")
    assert line_of(document.places, at, document.text, 0) == source[: source.index("The last words")].count("\n") + 1
    assert document.title == "a & b"


def test_a_variable_of_the_page_is_its_value(tmp_path: Path) -> None:
    document = read(tmp_path / "a.md", "---\nversion: 3\n---\nSince {{ page.version }}.\n")
    assert document.text == "Since 3.\n"


PIECES = [
    *MARKS,
    "```",
    "```{note}",
    ":::",
    "    ",
    "\n",
    "\n\n",
    "`",
    "{{",
    "%}",
    "- a\n",
    "    x\n",
    "/// tip",
    "words",
]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_the_number_of_lines_never_changes(text: str) -> None:
    assert plain_markdown(text, {}).count("\n") == text.count("\n")


UNITS = [
    "{% ", ":::\n", ":::a\n", "{{ ", "{{< ", "<% ", "<A ", '<A "', "<A {", "{#a ", '{a="', "`{a}``", "!!! a\n\n",
    "import {\n", "export {\n",
    "```{note}\n", "` `` ``` ", "- a\n", "::: a.b\n  x\n", "](", "]( {{ site.x }} ", "{/*", " {.a}",
    "{% x 'a", "> [!NOTE]\n", "<%= link_to 'a', '", '=== "a"\n    ',
]  # fmt: skip


@pytest.mark.parametrize("length", [60_000, pytest.param(480_000, marks=pytest.mark.long)])
@each("unit", UNITS)
def test_the_time_is_linear(unit: str, length: int) -> None:
    def seconds(size: int) -> float:
        text = "{% x %}\n" + unit * (size // len(unit))
        start = time.process_time()
        plain_markdown(text, {})
        return time.process_time() - start

    small, large = min(seconds(length // 8) for _ in range(2)), min(seconds(length) for _ in range(2))
    assert large < 30 * max(small, 0.005)  # eight times the text; a square would be 64
