"""Models behind OpenAI's `/chat/completions`: OpenAI, Azure, Gemini, Ollama, vLLM, the llama.cpp server, gateways.

These servers refuse different parameters: structured output, `max_tokens` (newer OpenAI models want
`max_completion_tokens`), a temperature. Once a server has refused a parameter, every later request leaves it out or
replaces it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from surefind.base.errors import AnswerError, RefusedError
from surefind.base.prompts.values import Completion, Message, Request
from surefind.base.redact import redacted
from surefind.engine.llm.address import Address
from surefind.engine.llm.settings import LLMSettings
from surefind.engine.net.endpoint import Endpoint, need_httpx

_MAX_TOKENS = 1 << 31
_ADVICE = "Check model, or shorten the prompt: it may be longer than the model can read."
_PARAMETER_OF = {
    "max_completion_tokens": "max_tokens",
    "temperature": "temperature",
    "response_format": "response_format",
    "json_schema": "response_format",
}
"""Word in the server's error message -> the request parameter that it is about."""


class OpenAIChat:
    def __init__(self, address: Address, settings: LLMSettings) -> None:
        need_httpx("Language models", "llm")
        self._model = address.model
        self.fingerprint = redacted(f"{address.url.partition('?')[0]}#{address.model}")
        self._endpoint = Endpoint(
            _path(address.url), address.key_env, settings.timeout, settings.retries, settings.requests_per_minute,
            connections=settings.concurrency, advice=_ADVICE,
        )  # fmt: skip
        self._refused: frozenset[str] = frozenset()

    def ask(self, request: Request, total: float) -> Completion:
        deadline = time.monotonic() + total
        refused = self._refused
        while True:
            body = self._body(request, refused)
            try:
                answer = self._endpoint.post(body, deadline - time.monotonic())
            except RefusedError as error:
                culprit = _culprit(error, body, refused)
                if culprit is None:
                    raise
                refused |= {culprit}
            else:
                self._refused |= refused  # only after a success: too long a prompt is refused in any form
                return self._completion(answer)

    def close(self) -> None:
        self._endpoint.close()

    def _body(self, request: Request, refused: frozenset[str]) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self._model, "messages": _wire(request.messages)}
        body["max_completion_tokens" if "max_tokens" in refused else "max_tokens"] = request.max_tokens
        if "temperature" not in refused:
            body["temperature"] = request.temperature
        if request.schema is not None:
            if "response_format" in refused:
                body["messages"] = _wire(with_schema(request.messages, request.schema))
            else:
                schema = {"name": "answer", "strict": True, "schema": closed(request.schema)}
                body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return body

    def _completion(self, answer: Any) -> Completion:
        try:
            choice = answer["choices"][0]
            text = _content(choice["message"])
        except (KeyError, IndexError, TypeError, AttributeError):
            raise AnswerError(
                f"{self._endpoint.url} (model {self._model}) gave JSON without an answer. "
                "Check that the address is OpenAI-compatible."
            ) from None
        usage = answer.get("usage")
        usage = usage if isinstance(usage, Mapping) else {}
        return Completion(
            self._endpoint.without_key(text),
            count(usage.get("prompt_tokens")),
            count(usage.get("completion_tokens")),
            cut=choice.get("finish_reason") == "length",
        )


def with_schema(messages: tuple[Message, ...], schema: Mapping[str, Any]) -> tuple[Message, ...]:
    """Adds the schema to the last message, for endpoints that cannot enforce one."""
    *before, last = messages
    wish = f"{last.content}\n\nAnswer with JSON alone, after this JSON schema: {json.dumps(schema)}"
    return (*before, Message(last.role, wish))


def closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the schema as OpenAI's strict mode wants it: every property required, and no others allowed."""
    made = {
        key: closed(value) if isinstance(value, Mapping) and key != "properties" else value
        for key, value in schema.items()
    }
    if isinstance(schema.get("properties"), Mapping):
        made["properties"] = {name: closed(value) for name, value in schema["properties"].items()}
        made |= {"required": list(schema["properties"]), "additionalProperties": False}
    return made


def _culprit(error: RefusedError, body: Mapping[str, Any], refused: frozenset[str]) -> str | None:
    """The parameter to leave out next, or None if none can be the reason for the refusal."""
    if error.status not in (400, 404, 415, 422, 501):
        return None
    message = str(error)
    named = [parameter for word, parameter in _PARAMETER_OF.items() if word in message and parameter in body]
    likely = ["response_format"] if "response_format" in body and error.status != 404 else []
    return next((parameter for parameter in (*named, *likely) if parameter not in refused), None)


def _path(url: str) -> str:
    """The URL with `/chat/completions` before Azure's `?api-version=…`."""
    base, mark, version = url.partition("?")
    return base.rstrip("/").removesuffix("/chat/completions") + "/chat/completions" + mark + version


def _wire(messages: tuple[Message, ...]) -> list[dict[str, str]]:
    return [{"role": message.role, "content": message.content} for message in messages]


def _content(message: Mapping[str, Any]) -> str:
    content = message.get("content")  # missing if the model wrote only its reasoning
    if isinstance(content, list):  # some gateways answer in parts
        content = "".join(part.get("text", "") for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def count(value: Any) -> int:
    """A token count that a server reports; 0 if it is missing or impossible."""
    return int(value) if isinstance(value, int | float) and 0 <= value < _MAX_TOKENS else 0
