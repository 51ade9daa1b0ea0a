"""Uploads, differences and previews: they keep no other request waiting, and they end with their request."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import jinja2
import pytest
import uvicorn
from starlette.requests import Request

from exam_helpers import surefind
from helpers import Home
from http_helpers import SETTINGS
from identity_provider import Provider
from llm_server import LLMServer
from surefind.base.errors import SourceError
from surefind.base.prompts.values import Message
from surefind.base.running import StoppedError, Workers, check_stopped, started
from surefind.doors import listening
from surefind.doors.auth.gatekeeper import Tokens
from surefind.doors.auth.keys import Keys
from surefind.doors.http import turns
from surefind.doors.http.routes.operate import schema_of
from surefind.doors.server import create_app
from surefind.engine.inference.cross_encoder import OnnxCrossEncoder
from surefind.engine.llm.address import LLMSettings
from surefind.engine.services import LocalServices
from surefind.engine.write import preparing
from surefind.engine.write.preparing import FilePreparer
from surefind.kb import KnowledgeBase
from surefind.kb.drafts import difference as differences
from surefind.kb.drafts import difference as draft_difference
from surefind.kb.settings.serve import Oidc
from test_route_matrix import routes

PATIENCE = 20.0
"""Seconds that a test waits for what should come at once."""
SCOPES = {"mallory": ["write"], "rita": ["review"], "bob": ["write"], "reader": ["read"], "boss": ["admin"]}
TIMES = "\n[serve]\nheavy = 2\nheavy_per_caller = 3\ntimeout = 60\n"


class Slow:
    """Work that lasts until it is stopped, or until the test lets it go on."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.ended = threading.Semaphore(0)
        self.go_on = threading.Event()

    def __call__(self, *_: Any, **__: Any) -> None:
        self.begun.release()
        try:
            while not self.go_on.wait(0.02):
                check_stopped()
        finally:
            self.ended.release()

    def wait(self, what: threading.Semaphore) -> None:
        assert what.acquire(timeout=PATIENCE)


class Server:
    """A real server on the loopback, in a thread of this process."""

    def __init__(self, url: str, kb: KnowledgeBase, keys: dict[str, str], app: Any) -> None:
        self.url, self.kb, self.keys, self.app, self.service = url, kb, keys, app, app.state.service

    def client(self, name: str) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.keys[name]}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=PATIENCE, trust_env=False)

    def ask(self, name: str, method: str, path: str, **more: Any) -> httpx.Response:
        with self.client(name) as client:
            return client.request(method, path, **more)

    def draft(self, name: str, text: str = "# Wire 1\n\nThe cutoff is 5 pm.\n") -> int:
        made = self.ask(name, "POST", "/v1/documents?name=1.md&document=wires/01.md", content=text)
        assert made.status_code == 201, made.text
        return int(made.json()["number"])

    def waiting(self, kind: str) -> int:
        """Returns how many requests of a kind run or wait."""
        return int(self.service._heavy[kind]._requests._open.total())

    def check_others(self) -> None:
        """Searches, signs in and revokes a key while heavy requests run."""
        found = self.ask("reader", "GET", "/v1/search?query=cutoff&k=1")
        assert found.status_code == 200 and found.json()["hits"]
        assert self.ask("reader", "POST", "/sign-in", data={"key": self.keys["reader"]}).status_code == 303
        key, text = Keys(self.kb.data).create("leaver", ["read"])
        self.keys["leaver"] = text
        assert self.ask("leaver", "GET", "/v1/jobs").status_code == 200
        assert self.ask("boss", "POST", "/settings/keys/revoke", data={"id": key.id}).status_code == 303
        assert self.ask("leaver", "GET", "/v1/jobs").status_code == 401


class Asked:
    """A request that was sent, and its answer when it comes."""

    def __init__(self, server: Server, name: str, method: str, path: str, question: str = "") -> None:
        self._connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=PATIENCE)
        body = question.encode() or b"# A\n" if method == "POST" else None
        headers = {"Authorization": f"Bearer {server.keys[name]}"}
        headers |= {"Content-Type": "application/json"} if question else {}
        self._connection.request(method, path, body, headers)

    def leave(self) -> None:
        self._connection.close()

    def answer(self) -> tuple[int, str, str | None]:
        """Returns the status, the text and when to try again."""
        with contextlib.closing(self._connection) as connection:
            found = connection.getresponse()
            return found.status, found.read().decode(), found.headers["retry-after"]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(turns, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(turns, "HANDOVER_SECONDS", 0.01)
    home = Home(tmp_path, SETTINGS + TIMES)
    for n in range(3):
        home.write(f"docs/wires/{n:02}.md", f"# Wire {n}\n\nThe cutoff of wire{n} is {n} pm.\n")
    home.write("asked.csv", "question,document\nwhen is the cutoff of wire1?,wires/01.md\n")
    home.sync("docs")
    assert surefind("exam", "import", home.folder / "asked.csv", "--name", "staff", kb=home.folder).code == 0
    with home.open() as kb:
        keys = {name: Keys(kb.data).create(name, scopes)[1] for name, scopes in SCOPES.items()}
        app: Any = create_app(kb)
        with serving(app) as url:
            yield Server(url, kb, keys, app._app)


@contextlib.contextmanager
def serving(app: Any) -> Iterator[str]:
    bound = listening.bind("127.0.0.1", 0)
    running = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=lambda: asyncio.run(running.serve([bound])), daemon=True)
    thread.start()
    try:
        until(lambda: running.started)
        yield listening.url_of(bound)
    finally:
        running.should_exit = True
        thread.join(PATIENCE)


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


Make = Callable[[Server, pytest.MonkeyPatch, Slow], tuple[str, str, str]]


def upload(server: Server, patch: pytest.MonkeyPatch, slow: Slow) -> tuple[str, str, str]:
    patch.setattr(FilePreparer, "read", slow)
    return "mallory", "POST", "/v1/documents?name=a.md"


def compare(server: Server, patch: pytest.MonkeyPatch, slow: Slow) -> tuple[str, str, str]:
    number = server.draft("mallory")
    patch.setattr(draft_difference, "difference", slow)
    return "mallory", "GET", f"/v1/drafts/{number}"


def preview(server: Server, patch: pytest.MonkeyPatch, slow: Slow) -> tuple[str, str, str]:
    number = server.draft("rita")
    patch.setattr("surefind.lab.bench.gate.measure_drift", slow)
    return "rita", "GET", f"/drafts/{number}/questions"


KINDS = pytest.mark.parametrize(
    ("kind", "make"), [("upload", upload), ("difference", compare), ("preview", preview)], ids=lambda one: str(one)[:10]
)


@KINDS
def test_others_are_answered_meanwhile(server: Server, monkeypatch: pytest.MonkeyPatch, kind: str, make: Make) -> None:
    slow = Slow()
    request = make(server, monkeypatch, slow)
    sent = [Asked(server, *request) for _ in range(3)]
    slow.wait(slow.begun)
    until(lambda: server.waiting(kind) == 3)
    status, told, again = Asked(server, *request).answer()
    assert status == 429 and "heavy_per_caller" in told and again
    server.check_others()
    assert not slow.begun.acquire(timeout=0.1), "one caller has no more than its share of the workers"
    for one in sent:
        one.leave()
    slow.wait(slow.ended)
    until(lambda: server.waiting(kind) == 0)


@KINDS
def test_work_ends_when_its_key_is_revoked(
    server: Server, monkeypatch: pytest.MonkeyPatch, kind: str, make: Make
) -> None:
    """What runs and what waits: neither is answered any more."""
    slow = Slow()
    request = make(server, monkeypatch, slow)
    sent = [Asked(server, *request) for _ in range(2)]
    slow.wait(slow.begun)
    until(lambda: server.waiting(kind) == 2)
    Keys(server.kb.data).revoke(request[0])
    assert [one.answer()[0] for one in sent] == [401, 401]
    slow.wait(slow.ended)


def test_work_ends_at_the_time_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(tmp_path, SETTINGS + "\n[serve]\ntimeout = 1\n")
    home.write("docs/wires/01.md", "# Wire\n\nThe cutoff is 3 pm.\n")
    home.sync("docs")
    slow = Slow()
    with home.open() as kb:
        number = kb.drafts.add_bytes("1.md", b"# Wire\n\nThe cutoff is 4 pm.\n", "wires/01.md", "anyone").number
        monkeypatch.setattr(draft_difference, "difference", slow)
        with serving(create_app(kb)) as url:
            answer = httpx.get(f"{url}/v1/drafts/{number}", timeout=PATIENCE, trust_env=False)
            assert answer.status_code == 504
            slow.wait(slow.ended)


def test_file_that_is_read_for_nobody_is_stopped(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The child process that reads it is killed."""
    asked, ended = threading.Event(), []
    ask, end = preparing.Child.ask, preparing.Child.end

    def waits(child: preparing.Child, request: bytes, *more: Any) -> Any:
        asked.set()
        return ask(child, b"", *more)  # an empty line is no request, so no answer comes

    monkeypatch.setattr(preparing.Child, "_give", lambda *_: None)
    monkeypatch.setattr(preparing.Child, "ask", waits)
    monkeypatch.setattr(preparing.Child, "end", lambda child: (end(child), ended.append(child.process.returncode)))
    home.write("docs/a.md", "# A\n\nalpha\n")
    with home.open() as kb:
        stop = threading.Event()
        future = started(lambda: kb.drafts.add_bytes("a.md", b"# A\n"), stop)
        assert asked.wait(PATIENCE)
        stop.set()
        with pytest.raises(StoppedError):
            future.result(PATIENCE)
    assert ended == [-9]


def test_stopped_preview_leaves_nothing_behind(home: Home) -> None:
    home.write("docs/a.md", "# A\n\nalpha\n")
    home.sync("docs")
    with home.open() as kb:
        number = kb.drafts.add_bytes("a.md", b"# A\n\nbeta\n").number
        slow, stop = Slow(), threading.Event()
        future = started(lambda: kb.drafts.trial(number, slow), stop)
        slow.wait(slow.begun)
        stop.set()
        with pytest.raises(StoppedError):
            future.result(PATIENCE)
        assert kb.drafts.trial(number, lambda before, after: after.generation) == 2
        assert kb.drafts.publish(number) == 2 == kb.catalogue.generation()


def test_callers_take_turns() -> None:
    """With two workers, one is kept for others; and who had a worker before waits for who had none."""

    async def go() -> list[str]:
        work = turns.Turns("uploads", 2, 1, "heavy_per_caller", 5)
        order: list[str] = []
        gates: list[threading.Event] = []

        def do(name: str) -> None:
            order.append(name)
            gates.append(threading.Event())
            gates[-1].wait(PATIENCE)

        async def receive() -> Any:
            await asyncio.Event().wait()

        async def let_in() -> None: ...

        async def ask(name: str) -> None:
            request = Request({"type": "http", "headers": []}, receive)
            await work.run(request, name, let_in, lambda: do(name))

        async def begun(count: int) -> None:
            async with asyncio.timeout(PATIENCE):
                while len(gates) < count:
                    await asyncio.sleep(0.01)

        tasks = [asyncio.create_task(ask(name)) for name in ("a", "a", "a", "b", "b", "c")]
        await begun(2)
        for number in range(6):
            await begun(min(number + 2, 6) if number < 4 else number + 1)
            gates[number].set()
        await asyncio.gather(*tasks)
        return order

    order = asyncio.run(go())
    assert set(order[:2]) == {"a", "b"} and order[2] == "c" and sorted(order) == list("aaabbc")


def test_client_that_has_gone_is_noticed_and_nothing_is_taken_from_one_that_waits() -> None:
    """The messages are those of a server: the end of an empty body, then a wait that ends when the connection does."""

    async def run() -> None:
        sent: asyncio.Queue[Any] = asyncio.Queue()
        request = Request({"type": "http", "method": "GET"}, sent.get)
        assert not turns._has_gone(request), "no message is there"
        sent.put_nowait({"type": "http.request", "body": b"", "more_body": False})
        assert not turns._has_gone(request)
        assert sent.empty() and not turns._has_gone(request)
        sent.put_nowait({"type": "http.request", "body": b"", "more_body": False})
        sent.put_nowait({"type": "http.disconnect"})
        assert turns._has_gone(request)
        late = asyncio.create_task(sent.get())
        await asyncio.sleep(0)
        assert not turns._has_gone(request)
        sent.put_nowait("next")
        assert await late == "next", "a look that ended waits no longer"

    asyncio.run(run())


def test_stopped_work_begins_no_more_items() -> None:
    done: list[int] = []
    stop = threading.Event()

    def one(item: int) -> int:
        done.append(item)
        stop.set()
        return item

    def work() -> list[int]:
        with Workers(1) as workers:
            return list(workers.map(one, range(10)))

    with pytest.raises(StoppedError):
        started(work, stop).result(PATIENCE)
    assert done == [0]


def test_difference_looks_whether_it_was_stopped() -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(StoppedError):
        started(lambda: differences.difference("a", "b"), stop).result(PATIENCE)


def test_stop_is_no_error_of_a_file() -> None:
    """Whatever catches errors of files must not catch it."""
    assert not issubclass(StoppedError, SourceError | Exception)


def test_waiting_for_a_model_holds_no_search(server: Server, llm: LLMServer) -> None:
    """Sixty questions to a language model that hangs: others search, and when the clients leave, the work ends."""
    use_model(server, llm)
    asked = [Asked(server, "mallory", "POST", "/v1/ask", '{"query": "when is the cutoff?"}') for _ in range(60)]
    until(lambda: len(llm.bodies) >= 1)
    for n in range(10):
        found = server.ask("reader", "GET", f"/v1/search?query=cutoff of wire{n}&k=1&confidence=quick")
        assert found.status_code == 200 and found.json()["hits"]
    until(lambda: server.waiting("answer") == 60)
    for one in asked:
        one.leave()
    until(lambda: server.waiting("answer") == 0 and not server.service._heavy["answer"]._running)


def test_second_caller_has_a_place_beside_a_model_that_hangs(server: Server, llm: LLMServer) -> None:
    use_model(server, llm)
    hanging = [Asked(server, "mallory", "POST", "/v1/ask", '{"query": "when is the cutoff?"}') for _ in range(60)]
    until(lambda: server.waiting("answer") == 60)
    llm.script.clear()
    quoted = server.ask("reader", "POST", "/v1/ask", json={"query": "when is the cutoff of wire1?", "quote": True})
    assert quoted.status_code == 200
    assert server.service._heavy["answer"]._running["mallory"] <= server.service.settings.answers // 2
    for one in hanging:
        one.leave()


def test_stream_ends_with_its_reader(server: Server, llm: LLMServer) -> None:
    use_model(server, llm)
    body = '{"query": "when is the cutoff?", "stream": true}'
    asked = Asked(server, "mallory", "POST", "/v1/ask", body)
    until(lambda: len(llm.bodies) == 1)
    asked.leave()
    until(lambda: not server.service._heavy["answer"]._running)


def use_model(server: Server, llm: LLMServer) -> None:
    """Lets the server answer with a language model that hangs."""
    llm.script = ["hang"] * 1000
    path = server.kb.folder / "surefind.toml"
    path.write_text(path.read_text() + f'\n[llm]\nmodel = "{llm.model}"\nretries = 0\n')
    assert server.service.reload()


def test_same_question_is_asked_again_if_its_first_client_leaves(llm: LLMServer) -> None:
    """Equal calls share one answer; a call that was stopped has none to share."""
    llm.script = ["hang"]
    services = LocalServices(llm=LLMSettings(model=llm.model))
    stop = threading.Event()

    def ask() -> str:
        return services.chat().complete([Message("user", "hello")]).text

    first = started(ask, stop)
    until(lambda: len(llm.bodies) == 1)
    second = started(ask)
    stop.set()
    with pytest.raises(StoppedError):
        first.result(PATIENCE)
    assert second.result(PATIENCE) == "fine"


def test_pages_are_rendered_in_threads(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the event loop, other requests would wait for them. The routes are those of the application."""
    rendered: dict[str, bool] = {}
    render = jinja2.Template.render

    def watched(template: jinja2.Template, *given: Any, **values: Any) -> str:
        with contextlib.suppress(RuntimeError):
            rendered[str(template.name)] = bool(asyncio.get_running_loop())
        rendered.setdefault(str(template.name), False)
        return render(template, *given, **values)

    monkeypatch.setattr(jinja2.Template, "render", watched)
    names = {"document_id": "wires/01.md", "number": server.draft("mallory"), "name": "staff"}
    query = "query=cutoff&document=wires/01.md&path=x&revision=1&write=1"
    with server.client("boss") as client:
        for route in routes(server.app):
            if "GET" in (route.methods or ()) and not route.path.startswith("/v1"):
                path = re.sub(r"{(\w+)[^}]*}", lambda match: str(names.get(match[1], "none")), route.path)
                for headers in ({"accept": "text/html"}, {"hx-request": "true"}):
                    client.get(f"{path}?{query}", headers=headers)
                    client.get(path, headers=headers)
    forms: dict[str, dict[str, Any]] = {
        "/sign-in": {"key": "wrong"}, "/drafts/new": {"text": "x"}, "/drafts/preview": {"text": "x"},
        "/drafts/chunks": {"text": "x"}, "/settings": {"text": "[", "mark": "0"}, "/settings/keys": {"name": "new"},
        f"/drafts/{names['number']}/save": {"revision": 9, "text": "x"},
    }  # fmt: skip
    for path, form in forms.items():
        server.ask("boss", "POST", path, data=form, headers={"accept": "text/html"})
    assert len(rendered) > 25
    assert not [name for name, in_loop in rendered.items() if in_loop]


def test_models_of_this_machine_read_in_turns_also_for_answers(server: Server, llm: LLMServer) -> None:
    """Many answers wait for a language model at once, and only as many read passages as there are places for that."""
    use_model(server, llm)
    reading, slow = server.service._heavy["reading"], Slow()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OnnxCrossEncoder, "_run", lambda *_: slow() or 0.0)
        asked = [Asked(server, "mallory", "POST", "/v1/ask", f'{{"query": "cutoff {n}?"}}') for n in range(6)]
        slow.wait(slow.begun)
        until(lambda: len(reading._waiting.get("mallory", ())) == 6 - reading._share)
        assert not llm.bodies and dict(reading._running) == {"mallory": reading._share}
        found = server.ask("reader", "GET", "/v1/search?query=cutoff&k=1")
        assert found.status_code == 200
        for one in asked:
            one.leave()
        until(lambda: not reading._running and not reading._waiting)


def test_place_is_held_by_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that is stopped while it waits gives its place back."""

    async def go() -> tuple[int, int]:
        places, loop, slow = turns.Turns("searches", 1, 1, "queue", 5), asyncio.get_running_loop(), Slow()

        def hold() -> None:
            with places.hold("ada", loop):
                slow()

        stops = [threading.Event() for _ in range(2)]
        futures = [started(hold, stop) for stop in stops]
        await asyncio.to_thread(slow.wait, slow.begun)
        for stop in reversed(stops):
            stop.set()
        ends = await asyncio.gather(*map(asyncio.wrap_future, futures), return_exceptions=True)
        assert all(isinstance(end, StoppedError) for end in ends)
        await asyncio.sleep(0.05)
        return places._running.total(), len(places._waiting)

    assert asyncio.run(go()) == (0, 0)


def test_event_loop_gets_the_lock_of_python_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    before = sys.getswitchinterval()
    monkeypatch.setattr(uvicorn.Server, "run", lambda *_, **__: None)
    try:
        listening.serve(None, listening.bind("127.0.0.1", 0), lambda: None, 1)
        assert sys.getswitchinterval() < 0.005
    finally:
        sys.setswitchinterval(before)


def test_turn_is_that_of_the_caller_however_it_signs_in(server: Server) -> None:
    """By key or by session; who was never let in has the turn of the address, whatever they claim."""
    name = server.service.name

    def request(**headers: str) -> Request:
        given = [(key.encode(), value.encode()) for key, value in headers.items()]
        return Request({"type": "http", "headers": given, "client": ("10.0.0.7", 1)})

    bearer = f"Bearer {server.keys['rita']}"
    assert name(request(authorization=bearer)) == " 10.0.0.7"
    assert server.ask("rita", "GET", "/v1/jobs").status_code == 200
    assert name(request(authorization=bearer)) == "rita"
    with httpx.Client(base_url=server.url, trust_env=False) as client:
        client.post("/sign-in", data={"key": server.keys["bob"]})
        client.get("/drafts")
        cookie = f"surefind_session={client.cookies['surefind_session']}"
    assert name(request(cookie=cookie)) == "bob"
    forged = cookie[:-1] + ("a" if cookie[-1] != "a" else "b")
    assert name(request(cookie=forged)) == name(request(authorization=bearer + "x")) == " 10.0.0.7"


def test_known_tokens_need_no_network() -> None:
    """Only a token whose key is unknown waits for its provider."""
    with contextlib.closing(Provider()) as provider:
        tokens = Tokens(Oidc(provider.url, "surefind"))
        good = provider.token()
        assert not tokens.knows_key_of(good)
        tokens.caller(good)
        assert tokens.knows_key_of(good) and not tokens.knows_key_of(provider.token(kid="other"))
        assert tokens.knows_key_of("no token")


def test_the_schema_is_made_once_for_all_who_ask(bank: Home) -> None:
    """Two threads that make it at the same time fail."""
    with bank.open() as kb:
        for _ in range(3):
            app: Any = create_app(kb)
            with ThreadPoolExecutor(8) as threads:
                made = [*threads.map(schema_of, [app._app] * 8)]
            assert all(one is made[0] for one in made) and "/v1/search" in made[0]["paths"]
