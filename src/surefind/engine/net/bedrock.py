"""Amazon Bedrock for encoders and language models: the client, and errors that say what to do.

Credentials and region come from the AWS configuration: environment, `~/.aws`, the machine's role. botocore retries
throttling and server errors (`standard`: exponential backoff with jitter). `embed/bedrock.py` and `llm/vendors.py` use
it, which must not import each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from surefind.base.errors import MissingPartError, SurefindError, UsageError

_ADVICE = {
    "AccessDeniedException": "Ask for access to this model in the Bedrock console, and check the role's permissions.",
    "ExpiredTokenException": "Sign in again (aws sso login).",
    "ResourceNotFoundException": "Check model and region.",
    "UnrecognizedClientException": "Check the AWS credentials.",
}


def bedrock_client(
    who: str, set_region: str, timeout: float, retries: int, concurrency: int, region: str | None = None
) -> Any:
    """Makes a client. Its errors begin with `who` ("Models on Bedrock need") or end with `set_region` (what to do)."""
    try:
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError, NoRegionError
    except ModuleNotFoundError:
        raise MissingPartError(f"{who} the package boto3. Install it with pip install 'surefind[bedrock]'.") from None
    config = Config(
        connect_timeout=min(timeout, 10.0),
        read_timeout=timeout,
        retries={"total_max_attempts": retries + 1, "mode": "standard"},
        max_pool_connections=concurrency,
    )
    try:
        return boto3.session.Session().client("bedrock-runtime", region_name=region, config=config)
    except NoRegionError:
        raise UsageError(f"Bedrock needs a region. {set_region}") from None
    except BotoCoreError as error:  # such as an unknown profile
        raise UsageError(f"The AWS configuration cannot be used: {error}. Check AWS_PROFILE and ~/.aws.") from None


@contextmanager
def explained(model: str, advice: Mapping[str, str], unanswered: str) -> Iterator[None]:
    """Re-raises Bedrock errors with advice: `advice` by error code, `unanswered` if there was no answer."""
    from botocore import exceptions

    try:
        yield
    except (exceptions.NoCredentialsError, exceptions.PartialCredentialsError) as error:
        raise UsageError(f"Bedrock needs AWS credentials: {error}. Run aws configure, or set AWS_PROFILE.") from None
    except exceptions.ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        action = {**_ADVICE, **advice}.get(code, "Try again later.")
        raise SurefindError(f"Bedrock (model {model}): {error}. {action}") from None
    except (exceptions.BotoCoreError, exceptions.HTTPClientError) as error:
        raise SurefindError(f"Bedrock (model {model}) did not answer: {error}. {unanswered}") from None
