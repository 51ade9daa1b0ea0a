"""Comments, template tags, code, link targets and image files never become questions."""

from __future__ import annotations

import time

from cases import each
from exam_helpers import document, sample_documents
from surefind.lab.exam.known_item import generate
from surefind.lab.exam.overlap import HOLE, readable

PROSE = "The teller counts the drawer of the branch twice and then signs the sheet for the shift."
FILLER = f"# Closing the drawer\n\n{PROSE}\n"
SECRETS = {
    "handlebars": "Please send the form {{ SECRET_0815.Zebra Quorum }} to the vault of the branch before noon today.",
    "jinja": "{% if SECRET_0815 %}\nPlease send the form to the vault of the branch today.\n{% endif SECRET_0815 %}",
    "jinja comment": "{# SECRET_0815 wants a zebra at the quorum of every single branch #}\n",
    "liquid comment": "{% comment %}\n# SECRET_0815 zebra quorum rules\n\nNo SECRET_0815.\n{% endcomment %}\n",
    "erb": '<%= partial "SECRET_0815", locals: { zebra: "quorum verdict of all the branches in town" } %>\n',
    "erb heading": "## <%= SECRET_0815.title %> zebra quorum\n\n" + PROSE,
    "template heading": "## Install {{ SECRET_0815 }} zebra quorum\n\n" + PROSE,
    "php": "<?php echo SECRET_0815; ?>\n",
    "ruby": "Read [#{SECRET_0815.name}](a.md) and #{SECRET_0815} before the quorum of the zebra meets in the branch.",
    "shell": "Set the variable to ${SECRET_0815} before the quorum of the zebra meets in the branch office.",
    "html comment": "<!-- SECRET_0815 is a zebra quorum that nobody but the author of this page will ever read -->\n",
    "long comment": "<!--\n# SECRET_0815 zebra quorum\n\nNobody but the author reads SECRET_0815 in here today.\n-->\n",
    "unclosed comment": "<!-- SECRET_0815 zebra quorum verdict that runs to the very end of this page",
    "markdown comment": "[//]: # (SECRET_0815 is a zebra quorum that nobody but the author will ever read)\n",
    "mdx comment": "{/* SECRET_0815 is a zebra quorum that nobody but the author will ever read */}\n",
    "definition": f"{PROSE}\n\n[form]: https://example.org/SECRET_0815/zebra.html 'SECRET_0815 zebra quorum'\n",
    "image": "![](images/SECRET_0815-zebra.png)\n",
    "image of its file": "![SECRET_0815.png](images/SECRET_0815.png)\n",
    "image in html": '<img src="SECRET_0815.png"\n  title="SECRET_0815 zebra quorum verdict of all the branches">\n',
    "image in a sentence": "Open the file SECRET_0815.png in the viewer of the branch office and print it twice.",
    "link": "Please read [the rules of the zebra](SECRET_0815/zebra_(quorum).md 'SECRET_0815 quorum') before noon.",
    "reference link": "Please read [the rules of the zebra][SECRET_0815] before you come to the branch at noon.",
    "wiki link": "Please read [[SECRET_0815|the rules of the zebra]] before you come to the branch at noon.",
    "autolink": "Please read <https://example.org/SECRET_0815> before you come to the branch at noon today.",
    "address": "Please read https://example.org/SECRET_0815 before you come to the branch at noon today, or later.",
    "fence": "```sh\n# SECRET_0815 zebra quorum\nrun SECRET_0815 with the zebra of the quorum, then stop.\n```\n",
    "tildes": "~~~\nThe SECRET_0815 of the zebra runs with the quorum in all of the branches.\n~~~\n",
    "unclosed fence": "```\nThe SECRET_0815 of the zebra runs with the quorum in all of the branches.\n",
    "fence in a list": "- Run this:\n\n  ```sh\n  SECRET_0815 --zebra\n  ```\n",
    "script": "<script>\nvar SECRET_0815 = 'zebra';\n</script>\n",
    "placeholder": "Please run the command on <SECRET_0815> after the quorum of the zebra met in the branch office.",
    "heading id": "## Zebra quorum verdict {#SECRET_0815}\n\n" + PROSE,
    "kramdown": "Read [the zebra rules](a.md){:target='SECRET_0815'} before you come to the branch at noon.",
    "table rule": "| zebra | quorum |\n|---|:-:|\n\n| a | b |\n--- | ---\n| c | d |\n",
}


@each("kind", SECRETS)
def test_what_nobody_reads_never_becomes_a_question(kind: str) -> None:
    text = f"{FILLER}\n## Opening the vault\n\n{SECRETS[kind]}\n"
    asked = [query.text for query in generate([document("a.md", text)]).queries]
    assert [text for text in asked if "SECRET" in text or "---" in text or HOLE in text] == []


def test_sentence_around_a_link_is_asked_without_its_target() -> None:
    text = "# Rules\n\nThe zebra reads [the long rules](rules.md) of the quorum every day.\n"
    (query,) = generate([document("a.md", text)], families=["first_sentence"]).queries
    assert query.text == "The zebra reads the long rules of the quorum every day"


def test_sentence_with_a_template_tag_is_not_asked_with_a_gap() -> None:
    text = f"# Rules\n\nPlease send the form {{{{ form }}}} to the vault of the branch before noon. {PROSE}\n"
    asked = [query.text for query in generate([document("a.md", text)]).queries]
    assert asked and not any("form to" in text for text in asked)


def test_first_sentence_after_a_comment_is_found() -> None:
    text = f"# Rules\n\n<!-- toc -->\n\n![](picture.png)\n\n{PROSE}\n"
    (query,) = generate([document("a.md", text)], families=["first_sentence"]).queries
    assert query.text == PROSE.rstrip(".")


def test_gold_quotes_the_document_and_not_its_readable_form() -> None:
    text = f"# Zebra rules\n\n{{{{ tag }}}} {PROSE}\n"
    (query,) = generate([document("a.md", text)], families=["heading_direct"]).queries
    assert "{{ tag }}" in query.judgments[0].quote


def test_text_of_a_link_and_of_an_image_stays() -> None:
    assert readable("[the rules](a.md), ![a zebra](z.png)").split() == ["the", "rules", ",", "a", "zebra"]


@each("text", [*SECRETS.values(), "a\r\n```\nb", "{{\n\n}}", "", "<a\nb>"])
def test_offsets_and_lines_stay(text: str) -> None:
    found = readable(text)
    assert len(found) == len(text)
    assert [at for at, c in enumerate(found) if c == "\n"] == [at for at, c in enumerate(text) if c == "\n"]


def test_sample_stays_readable() -> None:
    kept = sum(len(readable(one.text).split()) for one in sample_documents())
    assert kept > 0.9 * sum(len(one.text.split()) for one in sample_documents())


@each(
    "mark", "<!-- {{ {% <% ```\n ![ ]( <a [[ {# <script ]((( http:// < |-- a. %% [a]: ${ ![a. [a] {{{% <pre>".split(" ")
)
def test_marks_without_an_end_take_no_long_time(mark: str) -> None:
    started = time.process_time()
    readable(mark * 30_000)
    assert time.process_time() - started < 2
