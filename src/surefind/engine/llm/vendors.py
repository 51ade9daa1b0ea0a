"""Models behind OpenAI's `/chat/completions`: OpenAI, Azure, Gemini, Ollama, vLLM, the llama.cpp server, gateways.

These servers refuse different parameters: structured output, `max_tokens` (newer OpenAI models want
`max_completion_tokens`), a temperature. Once a server has refused a parameter, every later request leaves it out or
replaces it.

Claude behind Anthropic's `/messages`. A schema becomes a tool that the model must use: the input is the answer.

Models on Amazon Bedrock, through its Converse API, which is the same for all models.

The client, retries and errors come from `surefind.engine.net.bedrock`. A schema becomes a tool that the model must use.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from surefind.base.errors import AnswerError, RefusedError
from surefind.base.prompts.values import Completion, Message, Request
from surefind.base.redact import redacted
from surefind.base.running import awaited, started
from surefind.engine.llm.address import Address, LLMSettings
from surefind.engine.net.bedrock import bedrock_client, explained
from surefind.engine.net.endpoint import Endpoint

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
        self._model = address.model
        self.fingerprint = redacted(f"{address.url.partition('?')[0]}#{address.model}")
        self._endpoint = _endpoint(_path(address.url), address, settings)
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


def _endpoint(url: str, address: Address, settings: LLMSettings, headers: Any = None) -> Endpoint:
    limits = settings.timeout, settings.retries, settings.requests_per_minute
    return Endpoint(url, address.key_env, *limits, headers, advice=_ADVICE, extra="llm")


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


_VERSION = "2023-06-01"


class AnthropicChat:
    def __init__(self, address: Address, settings: LLMSettings) -> None:
        self._model = address.model
        self.fingerprint = redacted(f"{address.url}#{address.model}")
        self._endpoint = _endpoint(f"{address.url}/messages", address, settings, _headers)

    def ask(self, request: Request, total: float) -> Completion:
        return self._completion(self._endpoint.post(self._body(request), total))

    def close(self) -> None:
        self._endpoint.close()

    def _body(self, request: Request) -> dict[str, Any]:
        system = "\n\n".join(message.content for message in request.messages if message.role == "system")
        talk = [{"role": m.role, "content": m.content} for m in request.messages if m.role != "system"]
        body: dict[str, Any] = {
            "model": self._model,
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
            "messages": talk,
        }
        if system:
            body["system"] = system
        if request.schema is not None:
            tool = {"name": "answer", "description": "Give the answer.", "input_schema": closed(request.schema)}
            body |= {"tools": [tool], "tool_choice": {"type": "tool", "name": "answer"}}
        return body

    def _completion(self, answer: Any) -> Completion:
        try:
            text = "".join(_part(block) for block in answer["content"])
        except (KeyError, TypeError, AttributeError):
            raise AnswerError(
                f"{self._endpoint.url} (model {self._model}) gave JSON without an answer. Check ANTHROPIC_BASE_URL."
            ) from None
        usage = answer.get("usage")
        usage = usage if isinstance(usage, Mapping) else {}
        tokens = count(usage.get("input_tokens")), count(usage.get("output_tokens"))
        return Completion(self._endpoint.without_key(text), *tokens, cut=answer.get("stop_reason") == "max_tokens")


def _headers(key: str) -> dict[str, str]:
    return {"anthropic-version": _VERSION} | ({"x-api-key": key} if key else {})


def _part(block: dict[str, Any]) -> str:
    if block.get("type") == "tool_use":
        return json.dumps(block["input"], ensure_ascii=False)
    return str(block["text"]) if block.get("type") == "text" else ""


_BEDROCK_ADVICE = {
    "ThrottlingException": "Lower concurrency. Run it again later: finished answers are in the cache.",
    "ValidationException": "Check model; the prompt may be longer than it can read, or it may not support tools.",
}


class BedrockChat:
    def __init__(self, address: Address, settings: LLMSettings) -> None:
        self._model = address.model
        set_region = "Set the environment variable AWS_DEFAULT_REGION."
        self._client: Any = bedrock_client(
            "Models on Bedrock need", set_region, settings.timeout, settings.retries, settings.concurrency
        )
        self.fingerprint = f"bedrock:{self._client.meta.region_name}#{address.model}"

    def ask(self, request: Request, total: float) -> Completion:
        with explained(self._model, _BEDROCK_ADVICE, "Check region and network."):
            try:  # boto3 limits the time of each read, not of a call with all its retries
                answer = awaited(started(partial(self._client.converse, **_body(self._model, request))), total)
            except TimeoutError:
                raise AnswerError(
                    f"Bedrock (model {self._model}) did not answer within {total:.3g} s. Raise total_timeout."
                ) from None
        try:
            blocks = answer["output"]["message"]["content"]
            text = "".join(_bedrock_part(block) for block in blocks)
        except (KeyError, TypeError):
            raise AnswerError(f"Bedrock (model {self._model}) gave JSON without an answer. Check model.") from None
        usage = answer.get("usage") or {}
        tokens = count(usage.get("inputTokens")), count(usage.get("outputTokens"))
        return Completion(text, *tokens, cut=answer.get("stopReason") == "max_tokens")

    def close(self) -> None:
        self._client.close()


def _body(model: str, request: Request) -> dict[str, Any]:
    body: dict[str, Any] = {
        "modelId": model,
        "messages": [
            {"role": m.role, "content": [{"text": m.content}]} for m in request.messages if m.role != "system"
        ],
        "inferenceConfig": {"maxTokens": request.max_tokens, "temperature": request.temperature},
    }
    system = [{"text": message.content} for message in request.messages if message.role == "system"]
    if system:
        body["system"] = system
    if request.schema is not None:
        tool = {"name": "answer", "description": "Give the answer.", "inputSchema": {"json": closed(request.schema)}}
        body["toolConfig"] = {"tools": [{"toolSpec": tool}], "toolChoice": {"any": {}}}
    return body


def _bedrock_part(block: dict[str, Any]) -> str:
    if "toolUse" in block:
        return json.dumps(block["toolUse"]["input"], ensure_ascii=False)
    return str(block.get("text", ""))
