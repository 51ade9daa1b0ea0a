"""Every snippet of docs/agents.md is run: settings of clients with the MCP SDK's own client, programs with their SDK.

The model behind a program is a script on the loopback, in the wire format of its provider: it calls `search`, and
answers with the citation that the tool returned. `make frameworks` installs the SDKs; without them, their tests are
skipped.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

from mcp import Client, StdioServerParameters

from helpers import EXAMPLE, Home
from surefind.base.access import Access, Caller

PAGE = (Path(__file__).parents[2] / "docs" / "agents.md").read_text(encoding="utf-8")
FOLDER = "/home/ada/kb"
QUESTION = "What does PLN-54 on an ATM mean?"
CITATION = "runbooks/rb-505-atm-offline.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


SDKS = ("agents", "anthropic", "pydantic_ai")
PROGRAMS = {name: next(one for one in blocks("python") if f"from {name} import" in one) for name in SDKS}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    made = Home(tmp_path_factory.mktemp("agents"))
    for path in sorted((EXAMPLE / "runbooks").glob("rb-50*.md")):
        made.write(f"docs/runbooks/{path.name}", path.read_text(encoding="utf-8"))
    made.sync("docs")
    return made


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PATH with a program `surefind`, as an install makes it."""
    folder = tmp_path_factory.mktemp("bin")
    program = folder / "surefind"
    given = shlex.quote(os.pathsep.join(sys.path))
    program.write_text(f'#!/bin/sh\nPYTHONPATH={given} exec {shlex.quote(sys.executable)} -m surefind "$@"\n')
    program.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


# ---------------------------------------------------------------- settings of clients


def started_by_settings() -> list[tuple[str, list[str]]]:
    """The command and the arguments of every server in the settings of clients."""
    found = []
    for block in blocks("json"):
        for servers in json.loads(block).values():
            found += [(one["command"], one["args"]) for one in servers.values()]
    for line in re.findall(r"^claude mcp add surefind -- (.*)$", PAGE, re.MULTILINE):
        command, *arguments = shlex.split(line)
        found.append((command, arguments))
    return found


def test_no_kind_of_settings_is_left_out() -> None:
    assert len(started_by_settings()) == 4 and len(blocks("json")) == 3


@pytest.mark.parametrize(("command", "arguments"), [*dict.fromkeys((c, tuple(a)) for c, a in started_by_settings())])
def test_settings_of_clients_start_the_server(home: Home, path: str, command: str, arguments: tuple[str, ...]) -> None:
    given = [one.replace(FOLDER, str(home.folder)) for one in arguments]
    assert str(home.folder) in given
    asyncio.run(_asked(StdioServerParameters(command=command, args=given, env={**os.environ, "PATH": path})))


def test_the_settings_over_http_reach_the_server(home: Home, path: str) -> None:
    (settings,) = re.findall(r"`(\{\"type\": \"http\".*?\})`", PAGE)
    url = json.loads(settings)["url"]
    command = ["surefind", "mcp", "--kb", str(home.folder), "--http", "127.0.0.1:0"]
    environment = {**os.environ, "PATH": path}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        found = re.search(r"http://127\.0\.0\.1:(\d+)/mcp", process.stderr.readline())
        assert found
        asyncio.run(_asked(url.replace("8765", found[1])))
        process.terminate()


def test_a_program_of_ones_own_says_who_calls(home: Home) -> None:
    (snippet,) = [one for one in blocks("python") if "make_server" in one]
    with home.open() as kb:
        caller = Caller("ada", frozenset({"read"}), frozenset())
        names: dict[str, Any] = {"kb": kb, "caller_of_the_request": lambda: caller}
        exec(compile(snippet, "agents.md", "exec"), names)
        asyncio.run(_asked(names["server"]))
        assert "/mcp" in [route.path for route in names["app"].routes]


async def _asked(server: Any) -> None:
    async with Client(server) as client:
        found = await client.call_tool("search", {"query": QUESTION, "k": 1})
        assert found.structured_content and CITATION in str(found.structured_content["hits"])


def test_what_an_agent_gets_is_what_the_page_shows(home: Home) -> None:
    """The sample as a whole has other word statistics, so the table is compared, and the citation."""
    (asked,) = re.findall(r"`search` with `(\{.*?\})`", PAGE)
    shown = next(one for one in blocks("text") if one.startswith("The answer is"))
    with home.open() as kb:
        hit = kb.search(json.loads(asked)["query"], Access.public(), 1).hits[0]
    assert hit.document in shown
    assert next(line for line in shown.splitlines() if "⟦" in line).strip("> ⟦⟧") in hit.text


# ---------------------------------------------------------------- programs with an SDK


class Model(BaseHTTPRequestHandler):
    """Calls `search`, then answers with the citation that it found."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        names = [one.get("name") or one["function"]["name"] for one in body.get("tools", ())]
        tool = next((name for name in names if name.endswith("search")), "")  # Pydantic AI puts "surefind_" before it
        said = f"Its encryption key is out of step ({CITATION})." if CITATION in json.dumps(body) else ""
        made = {"/responses": _responses, "/completions": _chat, "/messages": _messages}
        answer = next(make for end, make in made.items() if self.path.partition("?")[0].endswith(end))(tool, said)
        sent = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, *_: object) -> None:
        pass


def _responses(tool: str, said: str) -> dict[str, Any]:
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": tool, "status": "completed"}
    text = {"type": "output_text", "text": said, "annotations": []}
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
    return {
        "id": "resp_1", "object": "response", "created_at": 1, "model": "script", "status": "completed",
        "output": [message if said else {**call, "arguments": json.dumps({"query": QUESTION})}],
        "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
        "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2,
                  "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}},
    }  # fmt: skip


def _chat(tool: str, said: str) -> dict[str, Any]:
    call = {"id": "call_1", "type": "function", "function": {"name": tool, "arguments": '{"query": "PLN-54"}'}}
    message = {"role": "assistant", "content": said} if said else {"role": "assistant", "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "stop" if said else "tool_calls"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return {
        "id": "chat_1", "object": "chat.completion", "created": 1, "model": "script", "choices": [choice],
        "usage": usage,
    }  # fmt: skip


def _messages(tool: str, said: str) -> dict[str, Any]:
    call = {"type": "tool_use", "id": "toolu_1", "name": tool, "input": {"query": QUESTION}}
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "script", "stop_sequence": None,
        "content": [{"type": "text", "text": said} if said else call],
        "stop_reason": "end_turn" if said else "tool_use", "usage": {"input_tokens": 1, "output_tokens": 1},
    }  # fmt: skip


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Model) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_every_program_is_run() -> None:
    programs = [one for one in blocks("python") if "make_server" not in one]
    assert sorted(programs) == sorted(PROGRAMS.values())


@pytest.mark.parametrize("sdk", SDKS)
def test_programs_with_an_sdk_get_the_citation(sdk: str, home: Home, path: str, model: str, tmp_path: Path) -> None:
    pytest.importorskip(sdk)
    (tmp_path / "mcp.json").write_text(blocks("json")[0].replace(FOLDER, str(home.folder)))
    (tmp_path / "program.py").write_text(PROGRAMS[sdk].replace(FOLDER, str(home.folder)))
    given = {
        "OPENAI_BASE_URL": f"{model}/v1", "OPENAI_API_KEY": "none", "OPENAI_AGENTS_DISABLE_TRACING": "1",
        "ANTHROPIC_BASE_URL": model, "ANTHROPIC_API_KEY": "none", "PATH": path,
    }  # fmt: skip
    proxies = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    environment = {name: value for name, value in os.environ.items() if name not in proxies} | given
    with contextlib.chdir(tmp_path):
        done = subprocess.run(
            [sys.executable, "program.py"], env=environment, capture_output=True, text=True, timeout=600, check=False
        )
    assert done.returncode == 0, done.stderr[-3_000:]
    assert done.stdout == f"Its encryption key is out of step ({CITATION}).\n"
