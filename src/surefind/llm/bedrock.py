"""Models on Amazon Bedrock, by its Converse API, which is the same for all of them.

Credentials and region come from where AWS keeps them: environment, `~/.aws`, the machine's role. Throttling and server
errors are retried by botocore (`standard`: exponential backoff with jitter). A schema becomes a tool that must be used.
"""

from __future__ import annotations

import json
from typing import Any

from surefind.errors import AnswerError, MissingPartError, SurefindError, UsageError
from surefind.llm.address import Address
from surefind.llm.openai import closed
from surefind.llm.settings import LLMSettings
from surefind.llm.values import Completion, Request

_WAYS_OUT = {
    "AccessDeniedException": "Ask for access to this model in the Bedrock console, and check the role's permissions.",
    "ExpiredTokenException": "Sign in again (aws sso login).",
    "ResourceNotFoundException": "Check model and region.",
    "ThrottlingException": "Lower concurrency. Run it again later: what was answered is in the cache.",
    "UnrecognizedClientException": "Check the AWS credentials.",
    "ValidationException": "Check model; the prompt may be longer than it can read, or it may know no tools.",
}


class BedrockChat:
    def __init__(self, address: Address, settings: LLMSettings) -> None:
        self._model = address.model
        self._client = _client(settings)
        self.fingerprint = f"bedrock:{self._client.meta.region_name}#{address.model}"

    def ask(self, request: Request, total: float) -> Completion:
        if request.logprobs:
            raise AnswerError(f"Bedrock (model {self._model}) gives no log-probabilities. Take an OpenAI address.")
        answer = self._converse(_body(self._model, request))
        try:
            blocks = answer["output"]["message"]["content"]
            text = "".join(_part(block) for block in blocks)
            tokens = int(answer["usage"]["inputTokens"]), int(answer["usage"]["outputTokens"])
        except (KeyError, TypeError, ValueError):
            text = ""
        if not text:
            raise AnswerError(f"Bedrock (model {self._model}) gave an empty answer. Try another model.")
        return Completion(text, *tokens, cut=answer.get("stopReason") == "max_tokens")

    def close(self) -> None:
        self._client.close()

    def _converse(self, body: dict[str, Any]) -> Any:
        from botocore import exceptions

        try:
            return self._client.converse(**body)
        except (exceptions.NoCredentialsError, exceptions.PartialCredentialsError) as error:
            raise UsageError(
                f"Bedrock needs AWS credentials: {error}. Run aws configure, or set AWS_PROFILE."
            ) from None
        except exceptions.ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            raise SurefindError(
                f"Bedrock (model {self._model}): {error}. {_WAYS_OUT.get(code, 'Try again later.')}"
            ) from None
        except (exceptions.BotoCoreError, exceptions.HTTPClientError) as error:
            raise SurefindError(
                f"Bedrock (model {self._model}) did not answer: {error}. Check region and network."
            ) from None


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


def _client(settings: LLMSettings) -> Any:
    try:
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError, NoRegionError
    except ModuleNotFoundError:
        raise MissingPartError(
            "Models on Bedrock need the package boto3. Install it with pip install 'surefind[bedrock]'."
        ) from None
    config = Config(
        connect_timeout=min(settings.timeout, 10.0),
        read_timeout=settings.timeout,
        retries={"total_max_attempts": settings.retries + 1, "mode": "standard"},
        max_pool_connections=settings.concurrency,
    )
    try:
        return boto3.session.Session().client("bedrock-runtime", config=config)
    except NoRegionError:
        raise UsageError("Bedrock needs a region. Set the environment variable AWS_DEFAULT_REGION.") from None
    except BotoCoreError as error:  # such as a profile that is not there
        raise UsageError(f"The AWS configuration cannot be used: {error}. Check AWS_PROFILE and ~/.aws.") from None
