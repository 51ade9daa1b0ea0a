"""Claude behind Anthropic's `/messages`. A schema becomes a tool that the model must use: the input is the answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from surefind.base.errors import AnswerError
from surefind.base.prompts.values import Completion, Request
from surefind.base.redact import redacted
from surefind.engine.llm.address import Address
from surefind.engine.llm.openai import closed, count
from surefind.engine.llm.settings import LLMSettings
from surefind.engine.net.endpoint import Endpoint, need_httpx

_VERSION = "2023-06-01"
_ADVICE = "Check model, or shorten the prompt: it may be longer than the model can read."


class AnthropicChat:
    def __init__(self, address: Address, settings: LLMSettings) -> None:
        need_httpx("Language models", "llm")
        self._model = address.model
        self.fingerprint = redacted(f"{address.url}#{address.model}")
        self._endpoint = Endpoint(
            f"{address.url}/messages", address.key_env, settings.timeout, settings.retries,
            settings.requests_per_minute, headers=_headers, connections=settings.concurrency, advice=_ADVICE,
        )  # fmt: skip

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
