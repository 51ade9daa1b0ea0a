"""A real HTTP server on the loopback that speaks OpenAI's `/chat/completions`, Anthropic's `/messages` and
Bedrock's Converse, and misbehaves on demand.

    def test_it(llm: LLMServer) -> None:
        llm.say("[2] > [1]")                          # every request gets this answer
        llm.reply = lambda prompt: prompt.upper()     # or it is made from the prompt (all messages as one text)
        llm.script = ["500", "limit", "hang"]         # how requests are treated, one word each; then "good"
        services = LocalServices(llm=LLMSettings(model=llm.model))
        ...
        llm.prompts                                   # what was asked

Words for `script`:

    good      malformed (JSON cut in the middle)      truncated (the connection ends before the body does)
    garbage (prose instead of what was asked)         empty      html (wrong content type)    plain (as text/plain)
    escaped (each letter as a JSON escape)            parts (the answer in pieces of one letter)
    limit (429, Retry-After 0.2)      tomorrow (429, a day)      hang
    drip (a byte of the body now and then, for ever)             crawl (the same with a header)
    drop      echo (401 that repeats the key)         thought (no content: max_tokens went into thoughts)
    gateway (200 with an error in it)                 any status code
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HANGS = 60.0
"""Seconds that a hanging request takes, if it is waited for."""
WRONG = "I am sorry, but as a language model I would rather not."


class LLMServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script: list[str] = []
        self.reply: Callable[[str], str] = lambda prompt: "fine"
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.times: list[float] = []
        self.refuses: tuple[str, ...] = ()
        """Parameters for which the server answers 400, as servers do that do not know them."""
        self.complaint = ""
        """What it says then; without: which parameter it was."""
        self.usage: Any = None
        """What it reports as tokens used; None: what was."""
        self.delay = 0.0
        self.now = self.most = 0
        """Requests under way, and the most there were."""
        self.over = threading.Event()
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    @property
    def model(self) -> str:
        """The model string that reaches this server."""
        return f"{self.url}#toy"

    def say(self, *answers: str) -> None:
        """These answers one after another, the last one for ever."""
        left = list(answers)
        self.reply = lambda prompt: left.pop(0) if len(left) > 1 else left[0]

    @property
    def prompts(self) -> list[str]:
        """What was asked, each as one text."""
        return [prompt_of(body) for body in self.bodies]


def prompt_of(body: dict[str, Any]) -> str:
    parts = [body.get("system", ""), *(message["content"] for message in body["messages"])]
    return "\n\n".join(part if isinstance(part, str) else "".join(p["text"] for p in part) for part in parts).strip()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: LLMServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        server = self.server
        with server.lock:
            server.bodies.append(body)
            server.headers.append({name.lower(): value for name, value in self.headers.items()})
            server.paths.append(self.path)
            server.times.append(time.monotonic())
            act = server.script.pop(0) if server.script else "good"
            text = server.reply(prompt_of(body)) if act in ("good", "malformed", "truncated", "plain", "drip") else ""
            server.now += 1
            server.most = max(server.most, server.now)
        if server.delay:
            time.sleep(server.delay)
        with server.lock:
            server.now -= 1
        refused = [name for name in server.refuses if name in body]
        if refused:
            self.answer({"error": {"message": server.complaint or f"Unsupported parameter: {refused[0]}"}}, 400)
            return
        getattr(self, f"act_{act}", self.act_status)(body, text, act)

    def completion(self, body: dict[str, Any], text: str) -> dict[str, Any]:
        used = len(prompt_of(body)) // 4, max(1, len(text) // 4)
        if self.path.endswith("/messages"):
            block: dict[str, Any] = {"type": "text", "text": text}
            if "tools" in body:
                block = {"type": "tool_use", "name": "answer", "id": "t1", "input": json.loads(text)}
            usage = {"input_tokens": used[0], "output_tokens": used[1]}
            return {"content": [block], "usage": usage, "stop_reason": "end_turn"}
        if self.path.endswith("/converse"):
            part: dict[str, Any] = {"text": text}
            if "toolConfig" in body:
                part = {"toolUse": {"toolUseId": "t1", "name": "answer", "input": json.loads(text)}}
            message = {"role": "assistant", "content": [part]}
            usage = {"inputTokens": used[0], "outputTokens": used[1], "totalTokens": sum(used)}
            return {
                "output": {"message": message},
                "usage": usage,
                "stopReason": "end_turn",
                "metrics": {"latencyMs": 1},
            }
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return {"choices": [choice], "usage": {"prompt_tokens": used[0], "completion_tokens": used[1]}}

    def answer(self, content: Any, status: int = 200, kind: str = "application/json", **headers: str) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"content-type": kind, "content-length": str(len(data)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def act_good(self, body: dict[str, Any], text: str, act: str) -> None:
        made = self.completion(body, text)
        self.answer(made if self.server.usage is None else {**made, "usage": self.server.usage})

    def act_plain(self, body: dict[str, Any], text: str, act: str) -> None:
        self.answer(self.completion(body, text), kind="text/plain")

    def act_escaped(self, body: dict[str, Any], text: str, act: str) -> None:
        spelled = "".join(f"\\u{ord(one):04x}" for one in self.server.reply(prompt_of(body)))
        self.answer(json.dumps(self.completion(body, "TEXT")).replace("TEXT", spelled).encode())

    def act_parts(self, body: dict[str, Any], text: str, act: str) -> None:
        made = self.completion(body, "")
        parts = [{"type": "text", "text": one} for one in self.server.reply(prompt_of(body))]
        if "content" in made:
            made["content"] = parts
        else:
            made["choices"][0]["message"]["content"] = parts
        self.answer(made)

    def act_garbage(self, body: dict[str, Any], text: str, act: str) -> None:
        self.answer(self.completion(_untooled(body), WRONG))

    def act_empty(self, body: dict[str, Any], text: str, act: str) -> None:
        self.answer({"choices": [{"message": {"content": None}, "finish_reason": "stop"}], "content": [], "usage": {}})

    def act_thought(self, body: dict[str, Any], text: str, act: str) -> None:
        usage = {"prompt_tokens": 7, "completion_tokens": 100, "input_tokens": 7, "output_tokens": 100}
        choice = {"message": {"role": "assistant", "reasoning": "Hm."}, "finish_reason": "length"}
        content = [{"type": "thinking", "thinking": "Hm."}]
        self.answer({"choices": [choice], "content": content, "usage": usage, "stop_reason": "max_tokens"})

    def act_gateway(self, body: dict[str, Any], text: str, act: str) -> None:
        self.answer({"error": {"message": f"behind me: too long, {self.headers['authorization']}", "code": 400}})

    def act_malformed(self, body: dict[str, Any], text: str, act: str) -> None:
        self.answer(json.dumps(self.completion(body, text)).encode()[:-20])

    def act_truncated(self, body: dict[str, Any], text: str, act: str) -> None:
        data = json.dumps(self.completion(body, text)).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[: len(data) // 2])
        self.close_connection = True

    def act_html(self, body: dict[str, Any], text: str, act: str) -> None:
        self.answer(b"<html><h1>Sign in</h1></html>", kind="text/html")

    def act_limit(self, body: dict[str, Any], text: str, act: str) -> None:
        self.answer({"error": {"message": "slow down"}}, 429, retry_after="0.2")

    def act_tomorrow(self, body: dict[str, Any], text: str, act: str) -> None:
        self.answer({"error": {"message": "daily limit"}}, 429, retry_after="86400")

    def act_hang(self, body: dict[str, Any], text: str, act: str) -> None:
        self.server.over.wait(HANGS)
        self.close_connection = True

    def act_crawl(self, body: dict[str, Any], text: str, act: str) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-type: ")
        self.slowly()

    def act_drip(self, body: dict[str, Any], text: str, act: str) -> None:
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", "100000")
        self.end_headers()
        self.slowly()

    def slowly(self) -> None:
        self.close_connection = True
        try:
            while not self.server.over.wait(0.02):
                self.wfile.write(b" ")
        except OSError:
            return

    def act_drop(self, body: dict[str, Any], text: str, act: str) -> None:
        self.close_connection = True

    def act_echo(self, body: dict[str, Any], text: str, act: str) -> None:
        key = self.headers["authorization"] or self.headers["x-api-key"]
        self.answer({"error": {"message": "x" * 180 + f" bad header {key}"}}, 401)

    def act_status(self, body: dict[str, Any], text: str, act: str) -> None:
        self.answer({"error": {"message": f"this is {act}"}}, int(act))

    def log_message(self, format_: str, *args: Any) -> None:
        pass


def _untooled(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name != "tools"}


@contextmanager
def serving() -> Iterator[LLMServer]:
    """The server, stopped at the end."""
    with LLMServer() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield made
        finally:
            made.over.set()
            made.shutdown()
            thread.join()
