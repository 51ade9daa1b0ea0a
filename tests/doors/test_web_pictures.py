"""Pictures of a synced folder on the page of a document: shown with its rights, and nothing else of the folder."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator

import httpx
import pytest

from cases import each
from helpers import Home
from http_helpers import SETTINGS, serving
from surefind.doors.auth.keys import Keys

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 40
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
RULE = '\n[[access]]\npath = "secret/**"\ngroups = ["hr"]\n'
SHOWN = (
    "img/a.png", "../top.svg", "/root.png", "my%20map.png", "img/linked.png", "linked/a.png", "../../outside.png",
    "text.png",
    "../secret/pay.png", ".hidden/a.png", "big.png", "none.png", "..%2f..%2foutside.png", "surefind.toml",
    "../draft/x.png",
)  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = Home(tmp_path_factory.mktemp("pictures"), SETTINGS + RULE)
    shown = "\n\n".join(f"![The {number}]({target})" for number, target in enumerate(SHOWN))
    home.write("docs/guide/a.md", f"# A\n\n{shown}\n")
    home.write("docs/guide/b.md", "# B\n\nNothing.\n")
    home.write("docs/hr/pay.md", "---\nacl: [hr]\n---\n# Pay\n\n![P](pay.png)\n")
    for name in (
        "guide/img/a.png",
        "root.png",
        "guide/my map.png",
        "secret/pay.png",
        "guide/.hidden/a.png",
        "hr/pay.png",
    ):
        _bytes(home, name, PNG)
    _bytes(home, "top.svg", SVG)
    _bytes(home, "guide/text.png", b"not a picture")
    _bytes(home, "guide/big.png", PNG + b"\0" * 11_000_000)
    (home.folder / "outside.png").write_bytes(PNG)
    (home.docs / "guide/img/linked.png").symlink_to(home.folder / "outside.png")
    (home.docs / "guide/linked").symlink_to(home.docs / "secret")
    with zipfile.ZipFile(home.docs / "all.zip", "w") as archive:
        archive.writestr("z.md", "# Z\n\n![R](root.png)\n")
    home.sync("docs")
    return home


def _bytes(home: Home, name: str, data: bytes) -> None:
    path = home.docs / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


@pytest.fixture(scope="module")
def asking(home: Home) -> Iterator[dict[str, httpx.Client]]:
    with home.open() as kb:
        keys = {name: Keys(kb.data).create(name, ["read"], groups)[1] for name, groups in (("all", []), ("hr", ["hr"]))}
    with serving(home.folder) as server, server.client(keys["all"]) as one, server.client(keys["hr"]) as other:
        yield {"all": one, "hr": other}


def status(http: httpx.Client, document: str, path: str) -> int:
    return http.get("/picture", params={"document": document, "path": path}).status_code


def test_a_picture_is_served_as_data(asking: dict[str, httpx.Client]) -> None:
    for path, kind in (("img/a.png", "image/png"), ("../top.svg", "image/svg+xml"), ("/root.png", "image/png")):
        answer = asking["all"].get("/picture", params={"document": "guide/a.md", "path": path})
        assert (answer.status_code, answer.headers["content-type"]) == (200, kind)
        assert "sandbox" in answer.headers["content-security-policy"]
        assert "script-src" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "private" in answer.headers["cache-control"]


def test_the_page_shows_the_pictures_that_are_served(asking: dict[str, httpx.Client]) -> None:
    page = asking["all"].get("/documents/guide/a.md", headers={"Accept": "text/html"}).text
    assert page.count("<img ") == 5  # four that are served, and one whose content is seen only when it is read
    assert '<img src="/picture?document=guide%2Fa.md&amp;path=img%2Fa.png" alt="The 0"' in page
    assert '<span class="image">The 6</span>' in page


@each(
    "path",
    [
        *SHOWN[4:],
        "img/b.png",
        "/etc/passwd",
        "a.md",
        "guide/a.md",
        "\0",
        "img\\a.png",
        "../secret/pay.png",
        "my map.gif",
        "",
    ],
)
def test_nothing_else_is_served(asking: dict[str, httpx.Client], path: str) -> None:
    assert status(asking["all"], "guide/a.md", path) in (400, 404, 422)


def test_only_a_document_that_shows_the_picture_opens_it(asking: dict[str, httpx.Client]) -> None:
    assert status(asking["all"], "guide/a.md", "my map.png") == 200
    assert status(asking["hr"], "guide/b.md", "img/a.png") == 404
    assert status(asking["hr"], "all.zip/z.md", "root.png") == 404


def test_the_rights_of_the_document_and_of_the_path_count(asking: dict[str, httpx.Client]) -> None:
    assert status(asking["all"], "hr/pay.md", "pay.png") == 404
    assert status(asking["hr"], "hr/pay.md", "pay.png") == 200
    assert status(asking["hr"], "guide/a.md", "../secret/pay.png") == 200
