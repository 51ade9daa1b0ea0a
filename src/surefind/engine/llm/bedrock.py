"""Models on Amazon Bedrock, through its Converse API, which is the same for all models.

The client, retries and errors come from `surefind.engine.net.bedrock`. A schema becomes a tool that the model must use.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from surefind.base.errors import AnswerError
from surefind.base.prompts.values import Completion, Request
from surefind.base.running.workers import with_timeout
from surefind.engine.llm.address import Address
from surefind.engine.llm.openai import closed, count
from surefind.engine.llm.settings import LLMSettings
from surefind.engine.net.bedrock import bedrock_client, explained

_ADVICE = {
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
        with explained(self._model, _ADVICE, "Check region and network."):
            try:  # boto3 limits the time of each read, not of a call with all its retries
                answer = with_timeout(total, partial(self._client.converse, **_body(self._model, request)))
            except TimeoutError:
                raise AnswerError(
                    f"Bedrock (model {self._model}) did not answer within {total:.3g} s. Raise total_timeout."
                ) from None
        try:
            blocks = answer["output"]["message"]["content"]
            text = "".join(_part(block) for block in blocks)
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


def _part(block: dict[str, Any]) -> str:
    if "toolUse" in block:
        return json.dumps(block["toolUse"]["input"], ensure_ascii=False)
    return str(block.get("text", ""))
