"""Nobody gets in, by any route: each one is called as everybody, about everything, and tells nothing restricted.

The routes are those of the application, and the values of their parameters are what exists in a knowledge base, so a
new route is tested without a change here: a parameter of a new name gets every value. What is restricted contains a
word such as `okapi7`, and the same calls show it to somebody who may read it.
"""

from __future__ import annotations

import contextlib
import html
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from fastapi.params import Body as JsonBody
from fastapi.params import File, Form
from pydantic import BaseModel
from starlette.testclient import TestClient

from cases import each
from exam_helpers import surefind
from helpers import Home
from http_helpers import SETTINGS
from surefind import Access, KnowledgeBase
from surefind.base.names import document_name, look_alikes
from surefind.doors.auth.keys import Keys
from surefind.doors.http import jobs
from surefind.doors.server import create_app
from surefind.kb.drafts.review import comment
from surefind.lab.exam.keeping import keep

SECRET = re.compile(r"okapi\d+")
PEOPLE: dict[str, tuple[list[str], list[str]]] = {
    "reader": (["read"], []),
    "writer": (["write"], ["sales"]),
    "reviewer": (["review"], ["public"]),
    "admin": (["admin"], ["HR", "h", "none"]),
    "hr": (["admin"], ["hr"]),
}
"""The scopes and groups of callers. Only the last may read what is restricted."""
STRANGERS = {"nobody": "", "unknown": "sk_0000_nothing", "revoked": ""}
EVERY = 50
"""Calls of one route by one caller, at most."""
SOME = 15
MOST = pytest.mark.parametrize("most", [SOME, pytest.param(EVERY, marks=pytest.mark.long)])
OPEN = re.compile(r"/(healthz|readyz|docs|openapi\.json|sign-in|sign-out|static/.*)")
"""What strangers may call."""


@dataclass(frozen=True)
class Call:
    method: str
    path: str
    route: str
    json: Any = None
    form: Mapping[str, str] | None = None
    content: bytes | None = None

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.json or self.form or ''}"


class Bank:
    def __init__(self, home: Home, kb: KnowledgeBase, client: TestClient, app: Any, keys: dict[str, str]) -> None:
        self.home, self.kb, self.client, self.app, self.keys = home, kb, client, app, keys
        self.values = _values(kb, self)

    def ask(self, who: str, call: Call, **headers: str) -> Any:
        key = self.keys[who]
        sent = {"Authorization": f"Bearer {key}"} if key else {}
        accepted = {} if call.path.startswith("/v1") else {"Accept": "text/html"}
        return self.client.request(
            call.method, call.path, headers=sent | accepted | headers, follow_redirects=False, json=call.json,
            data=call.form, content=call.content,
        )  # fmt: skip

    def state(self) -> dict[str, Any]:
        """What nobody but an owner may change."""
        restricted = {d.id: (d.text, d.acl) for d in self.kb.documents(Access.owner()) if SECRET.search(d.text)}
        return {
            "restricted": restricted,
            "settings": (self.home.folder / "surefind.toml").read_text(encoding="utf-8"),
            "keys": {(key.name, key.scopes, key.groups, key.revoked) for key in Keys(self.kb.data).list()},
        }


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bank]:
    home = Home(tmp_path_factory.mktemp("matrix"), SETTINGS)
    with _opened(home) as found:
        yield found


@contextlib.contextmanager
def _opened(home: Home) -> Iterator[Bank]:
    _fill(home)
    with home.open() as kb, pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "_MAX_RUNNING", 1)
        store = Keys(kb.data)
        keys = {name: store.create(name, *given)[1] for name, given in PEOPLE.items()}
        keys |= STRANGERS | {"revoked": store.create("revoked", ["admin"], ["*"])[1]}
        store.revoke("revoked")
        guard: Any = create_app(kb)
        with TestClient(guard) as client:
            yield Bank(home, kb, client, guard._app, keys)


def _fill(home: Home) -> None:
    """Documents, drafts, versions, comments, exams, reports and feedback, each with a restricted one."""
    for n in range(4):
        home.write(f"docs/wire{n}.md", f"---\nowner: ada\n---\n# Wire {n}\n\nThe salary cutoff of wire {n} is noon.\n")
    pay = "---\ntitle: okapi1\nacl: [hr]\nokapi2: okapi3\n---\n# Pay okapi4\n\nThe salary cutoff of okapi5 is noon.\n"
    home.write("docs/hr/okapi6.md", pay)
    home.write("docs/hr/old.md", "---\nacl: [hr]\n---\n# Old\n\nThe okapi7 Vault of Okapi Bank.\n")
    asked = "question,document\nwhen is the cutoff of wire 1?,wire1.md\nwhat is the okapi8 salary?,hr/okapi6.md\n"
    home.write("asked.csv", asked)
    home.write("new.md", "---\nacl: [hr]\n---\n# New\n\nThe okapi9 of salaries.\n")
    home.write("open.md", "# Wire 1\n\nThe salary cutoff of wire 1 is later.\n")
    home.sync("docs")
    for words in (
        ("exam", "import", home.folder / "asked.csv", "--name", "staff"),
        ("bench", "--exam", "staff", "--pipeline", "words", "--as", "hr"),
        ("draft", "new", home.folder / "new.md", "--document", "hr/okapi6.md"),
        ("draft", "new", home.folder / "open.md", "--document", "wire1.md"),
    ):
        ran = surefind(*words, kb=home.folder)
        assert ran.code == 0, ran.err
    with home.open() as kb:
        kb.retire("hr/old.md")
        hidden = next(one for one in kb.drafts.store.waiting() if one.document == "hr/okapi6.md")
        comment(kb.drafts.store, hidden.number, 1, 1, "hr", "The okapi10 is wrong.")
        number = kb.drafts.add_bytes(
            "okapi11.md", b"---\nacl: [hr]\n---\nThe okapi12.\n", "hr/okapi11.md", author="hr"
        ).number
        comment(kb.drafts.store, number, 1, 1, "hr", "More okapi13.")
        hit = kb.search("salary cutoff", Access.of("hr"), 10).hits
        keep(kb, "how much is okapi14?", next(one.id for one in hit if "okapi" in one.text), Access.of("hr"), "staff")


# ---------------------------------------------------------------- calls


def _values(kb: KnowledgeBase, bank: Bank) -> dict[str, list[str]]:
    """What the parameters of routes may be, by name; the restricted ones first."""
    documents = ["hr/okapi6.md", "hr/okapi11.md", "hr/old.md", "hr", "wire1.md", "missing.md"]
    hits = kb.search("salary cutoff", Access.owner(), 20).hits
    passages = [hit.id for hit in sorted(hits, key=lambda hit: "okapi" not in hit.text)][:3]
    drafts = [str(one.number) for one in kb.drafts.store.waiting()]
    versions = [str(one.number) for name in documents[:3] for one in kb.history(name)]
    reports = [path.parent.name for path in sorted(kb.data.glob("**/report.json"))]
    exams = ["staff", "known-item", "none"]
    numbers = ["1", "2", "0"]
    named = {
        "document_id": documents, "document": documents, "below": documents, "inside": documents, "find": ["salary"],
        "passage_id": passages, "id": passages, "number": drafts, "which": numbers, "version": versions[:4] or ["1"],
        "revision": ["1", "2"], "since": ["1"], "report_id": [*reports, "none"], "job_id": ["none"],
        "kind": ["benchmark", "study", "up"], "exam": exams, "what": "submit rebase discard return approve".split(),
        "where": ["owner=ada", "title=x"], "pipeline": ["words", "counts", "bm25 + tfidf >> rrf"],
        "generation": numbers, "query": ["salary cutoff"],
        "part": numbers, "at": numbers, "line": numbers, "start": numbers, "end": ["9"], "offset": numbers, "k": ["50"],
        "limit": ["50"], "before": numbers, "after": numbers, "passage": [*passages, "0"], "text": ["parent"],
        "max_chars": ["500"], "min_confidence": ["0.1"], "judge": ["hr", "ada"], "only": ["mine"], "write": ["1"],
        "then": ["/"], "saved": ["1"], "made": ["1"], "compare": ["counts"],
    }  # fmt: skip
    everything = list(dict.fromkeys(itertools.chain.from_iterable(named.values())))
    return {**named, "": everything, "exams": exams}


def routes(app: Any) -> Iterator[Any]:
    for route in app.routes:
        inner = getattr(route, "original_router", None)
        yield from routes(inner) if inner is not None else [route]


def _parameters(dependant: Any, kind: str) -> Iterator[Any]:
    yield from getattr(dependant, kind)
    for inner in dependant.dependencies:
        yield from _parameters(inner, kind)


def _fields(parameter: Any) -> list[str]:
    """The names that one parameter reads: those of its model, if it is one."""
    kind = parameter.field_info.annotation
    return list(kind.model_fields) if isinstance(kind, type) and issubclass(kind, BaseModel) else [parameter.name]


def _paths(route: Any, values: Mapping[str, Sequence[str]]) -> list[str]:
    names = re.findall(r"{(\w+)(?::\w+)?}", route.path)
    found = []
    for given in itertools.product(*(_candidates(route.path, name, values) for name in names)):
        path = route.path
        for name, value in zip(names, given, strict=True):
            path = re.sub(rf"{{{name}(:\w+)?}}", lambda _, value=value: quote(value), path)
        found.append(path)
    return found


def _candidates(path: str, name: str, values: Mapping[str, Sequence[str]]) -> Sequence[str]:
    if name == "name":
        return ["app.js", "none"] if path.startswith("/static") else values["exams"]
    return values.get(name, values[""])


def aliases(document: str) -> list[str]:
    """Other spellings of a document's name, and names that look like it."""
    folder, name = document.split("/")
    wide = "".join(chr(ord(letter) + 0xFEE0) if letter.isalpha() else letter for letter in document)
    return [
        f"./{document}", f"{folder}//{name}", f"{folder}/./{name}", f"/{document}", f"{document}/", f"x/../{document}",
        f"{folder}\\{name}", f"{document}\u200b", f"{folder}\u00ad/{name}", f"{folder}/\ufeff{name}", f" {document}",
        f"{folder} /{name}", f"{document} ", f"{document}\n", f"{folder}/{name}\x00", quote(document, ""),
        document.replace("/", "%2F").replace(".", "%2E"), quote(quote(document, ""), ""), document.upper(), wide,
        f"{folder.upper()}/{name}", f"{folder}/{name.title()}", f"{folder}\uff0f{name}", f"docs/{document}",
        document.translate({ord("a"): "\u0430", ord("o"): "\u043e"}), f"{folder}/o\u0308{name}",
    ]  # fmt: skip


HIDDEN = ("hr/okapi6.md", "hr/old.md")
"""A restricted document, and one that was retired."""
NAMES = {"document_id", "document", "below", "inside", "in", "name", "path"}
"""The parameters that name a document, a folder of documents or a file."""
TAKEN_OVER = b"---\nacl: [public]\n---\nTaken over.\n"


def by_alias(app: Any, values: Mapping[str, Sequence[str]], step: int, start: int) -> Iterator[Call]:
    """Every route with a parameter that names a document, called with each alias of a restricted one in each of them,
    and in all at once. Every `step`th alias, and those below docs/, which a draft may have."""
    every_alias = [alias for name in HIDDEN for alias in aliases(name)]
    for alias in [alias for at, alias in enumerate(every_alias) if at % step == start or alias.startswith("docs/")]:
        every = {**values, **{name: [alias] for name in NAMES}, "exams": [alias]}
        for route, asked in named_routes(app):
            one_by_one = [{name: alias} for name in asked]
            queries = [{}, *one_by_one, dict.fromkeys(asked, alias), {"name": "x.md", "document": alias}]
            for method, path in itertools.product(sorted(route.methods - {"HEAD"}), _paths(route, every)[:2]):
                for body in [{}] if method == "GET" else list(_bodies(route.dependant, every))[:1]:
                    for query in queries if asked else [{}]:
                        content = TAKEN_OVER if method == "POST" and not body else None
                        to = f"{path}?{urlencode(query)}" if query else path
                        yield Call(method, to, route.path, **{"content": content, **body})


def named_routes(app: Any) -> Iterator[tuple[Any, list[str]]]:
    """The routes with a parameter that names a document, each with those in its query."""
    for route in routes(app):
        dependant = getattr(route, "dependant", None)
        if dependant is not None:
            query = {name for p in _parameters(dependant, "query_params") for name in (*_fields(p), p.alias)}
            body = {name for p in _parameters(dependant, "body_params") for name in _fields(p)}
            if NAMES & {*query, *body, *re.findall(r"{(\w+)", route.path)}:
                yield route, sorted(query & NAMES)


def reads(app: Any, values: Mapping[str, Sequence[str]], most: int = EVERY) -> Iterator[Call]:
    """Every GET, without parameters, and with each value of each of them."""
    for route in routes(app):
        if "GET" not in (route.methods or {"GET"}):
            continue
        dependant = getattr(route, "dependant", None)
        asked = [name for p in _parameters(dependant, "query_params") for name in _fields(p)] if dependant else []
        needed = {"query": values["query"][0]} if "query" in asked else {}
        queries: list[dict[str, str]] = [
            needed, *(needed | {name: value} for name in asked for value in _candidates(route.path, name, values))
        ]  # fmt: skip
        every = [(path, query) for query in queries for path in _paths(route, values)]
        for path, query in _spread(every, most):
            yield Call("GET", f"{path}?{urlencode(query)}" if query else path, route.path)


def _spread(every: Sequence[Any], most: int) -> Sequence[Any]:
    """At most so many of them, from all parts."""
    return [every[i * len(every) // most] for i in range(most)] if len(every) > most else every


def changes(app: Any, values: Mapping[str, Sequence[str]], most: int = EVERY) -> Iterator[Call]:
    """Every other method, with a body that has what the route needs."""
    for route in routes(app):
        dependant = getattr(route, "dependant", None)
        for method in sorted((route.methods or {"POST"}) - {"GET", "HEAD"}):
            for path in _spread(_paths(route, values), most):
                for body in _bodies(dependant, values) if dependant else [{}]:
                    yield Call(method, path, route.path, **body)
                query = [n for p in _parameters(dependant, "query_params") for n in _fields(p)] if dependant else []
                for document in values["document"][:3] if "document" in query else ():
                    given = urlencode({"name": "new.md", "document": document})
                    yield Call(method, f"{path}?{given}", route.path, content=b"---\nacl: [public]\n---\nTaken over.\n")


def _bodies(dependant: Any, values: Mapping[str, Sequence[str]]) -> Iterator[dict[str, Any]]:
    parameters = list(_parameters(dependant, "body_params"))
    forms = [p for p in parameters if isinstance(p.field_info, Form) and not isinstance(p.field_info, File)]
    for turn in range(3):
        filled = {p.name: _pick(p.name, values, turn) for p in forms}
        models = [p.field_info.annotation for p in parameters if isinstance(p.field_info, JsonBody) and p not in forms]
        model = next((one for one in models if isinstance(one, type) and issubclass(one, BaseModel)), None)
        yield {"form": filled} if forms else {"json": _sample(model, values, turn)} if model else {}
        if not parameters:
            return


def _pick(name: str, values: Mapping[str, Sequence[str]], turn: int) -> str:
    known = {
        "text": "---\nacl: [public]\n---\nTaken over.\n",
        "mark": "0",
        "scope": "admin",
        "groups": "hr",
        "row": "words",
    }
    found = [known[name]] if name in known else values.get(name, values["exams"])
    return found[turn % len(found)]


def _sample(model: type[BaseModel], values: Mapping[str, Sequence[str]], turn: int) -> dict[str, Any]:
    """A body of this model: what it requires, and what names something that exists."""
    schema = model.model_json_schema()
    made = {}
    for name, about in schema["properties"].items():
        kinds = {about.get("type"), *(one.get("type") for one in about.get("anyOf", ()))}
        if "enum" in about:
            made[name] = about["enum"][turn % len(about["enum"])]
        elif "integer" in kinds:
            made[name] = int(_pick(name, values, turn)) if _pick(name, values, turn).isdigit() else 1
        elif "string" in kinds and (name in values or name in schema.get("required", ())):
            made[name] = "parent" if name == "text" and "query" in schema["properties"] else _pick(name, values, turn)
    return {name: value for name, value in made.items() if name in schema.get("required", ()) or name in values}


# ---------------------------------------------------------------- tests


def told(answer: Any, call: Call) -> set[str]:
    """The restricted words of an answer, except those that the caller sent."""
    text = html.unescape(answer.text) + str(sorted(answer.headers.items()))
    sent = "".join((call.path, json.dumps(call.json), str(call.form), str(call.content)))
    return {*SECRET.findall(text)} - {*SECRET.findall(sent)}


def test_every_route_is_called(bank: Bank) -> None:
    """A route of a shape that is not understood would be left out in silence."""
    called = {(call.method, call.route) for call in (*reads(bank.app, bank.values), *changes(bank.app, bank.values))}
    wanted = {
        (method, route.path) for route in routes(bank.app) for method in (route.methods or {"GET", "POST"}) - {"HEAD"}
    }
    assert wanted == called
    assert len({route for _, route in wanted}) > 60
    assert len([*reads(bank.app, bank.values)]) > 300 and len([*changes(bank.app, bank.values)]) > 200


@MOST
@each("who", [name for name in (*PEOPLE, *STRANGERS) if name != "hr"])
def test_no_read_tells_what_is_restricted(bank: Bank, who: str, most: int) -> None:
    leaks = []
    for call in reads(bank.app, bank.values, most):
        answer = bank.ask(who, call)
        assert answer.status_code < 500 or answer.status_code == 503, f"{call}: {answer.text}"
        leaks += [f"{call}: {found}" for found in [told(answer, call)] if found]
        if who in STRANGERS and not OPEN.fullmatch(call.route.replace("{name}", "x")):
            assert answer.status_code in (401, 303, 422, 429), str(call)
            assert answer.status_code != 303 or answer.headers["location"].startswith("/sign-in"), str(call)
    assert leaks == []


@MOST
def test_the_same_reads_show_it_to_who_may_read_it(bank: Bank, most: int) -> None:
    """So the test above can fail, and on which routes."""
    seen, where = set[str](), set[str]()
    for call in reads(bank.app, bank.values, most):
        found = told(bank.ask("hr", call), call)
        seen |= found
        where |= {call.route} if found else set()
    assert {f"okapi{n}" for n in range(1, 15)} - seen == {"okapi7"}, "only what is retired is shown to nobody"
    assert len(where) > 15, sorted(where)


@MOST
@each("who", ["nobody", "unknown", "revoked", "reader", "writer", "reviewer", "admin"])
def test_no_change_takes_what_is_restricted(tmp_path: Path, who: str, most: int) -> None:
    with _opened(Home(tmp_path, SETTINGS)) as bank:
        before, leaks, made = bank.state(), [], 0
        for call in changes(bank.app, bank.values, most):
            if who == "admin" and call.route.startswith("/settings"):
                continue  # an admin may make a key of any group, which is logged
            answer = bank.ask(who, call)
            assert answer.status_code < 500 or answer.status_code == 503, f"{call}: {answer.text}"
            leaks += [f"{call}: {found}" for found in [told(answer, call)] if found]
            made += answer.status_code < 400
            if who in STRANGERS and not OPEN.fullmatch(call.route):
                assert answer.status_code in (401, 303, 429), str(call)
        assert leaks == []
        assert who in STRANGERS or made >= (1 if who == "reader" else 3), "some calls do something"
        bank.kb.refresh()
        assert bank.state() == before


@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.long)])
@each("who", ["reader", "writer", "reviewer", "admin"])
def test_no_alias_of_a_document_tells_or_takes_what_is_restricted(tmp_path: Path, who: str, step: int) -> None:
    """And no draft has such a name, so nothing is published under one."""
    with _opened(Home(tmp_path, SETTINGS)) as bank:
        before, leaks, called = bank.state(), [], set[str]()
        drafts = {draft.number for draft in bank.kb.drafts.store.waiting()}
        for call in by_alias(bank.app, bank.values, step, list(PEOPLE).index(who) % step):
            if who == "admin" and call.route.startswith("/settings"):
                continue  # an admin may make a key of any name
            answer = bank.ask(who, call)
            called.add(call.route)
            assert answer.status_code < 500 or answer.status_code == 503, f"{call}: {answer.text}"
            leaks += [f"{call}: {found}" for found in [told(answer, call)] if found]
        assert leaks == []
        assert {"/v1/documents", "/v1/documents/{document_id:path}", "/drafts/new", "/v1/versions", "/retire"} <= called
        made = {draft.document: draft.number for draft in bank.kb.drafts.store.waiting() if draft.number not in drafts}
        assert who == "reader" or made, "blanks around a name in a form are not part of it"
        for document in made.keys() - {*HIDDEN}:
            assert document_name(document) and _is_another(document)
            bank.kb.drafts.publish(made[document])
        bank.kb.refresh()
        assert bank.state() == before


def _is_another(document: str) -> bool:
    return all(look_alikes(document).isdisjoint(look_alikes(name)) for name in HIDDEN)


def test_no_change_comes_from_another_site(bank: Bank) -> None:
    before = bank.state()
    for call in changes(bank.app, bank.values):
        answer = bank.ask("hr", call, Origin="https://evil.example", **{"Sec-Fetch-Site": "cross-site"})
        assert answer.status_code == 403, str(call)
    assert bank.state() == before
