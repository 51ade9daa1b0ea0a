"""Posts JSON to one HTTP address and returns JSON: limits, retries, and errors that say what to do.

A call ends in time, whatever the server does: another thread makes the request, and the caller waits no longer than
`timeout` for a try and `total` for all. A thread that nobody waits for ends with its next read or write, which httpx
limits; only headers that never stop keep it longer. Redirects are not followed, and an answer has a largest size. The
key is read for each request, stored nowhere, and removed from messages and answers: some servers repeat it.
"""

from __future__ import annotations

import email.utils
import json
import random
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from surefind.base.errors import MissingPartError, RefusedError, SurefindError, UsageError
from surefind.base.running import awaited, pause, started
from surefind.engine.net import trust

_FIRST_WAIT_SECONDS = 0.5
_MAX_WAIT_SECONDS = 60.0  # between two tries; if a server asks for a longer wait, the call fails instead
_MAX_CONNECT_SECONDS = 10.0
_GRACE_SECONDS = 0.1  # the caller waits longer than httpx, which knows what it was that took so long
_MAX_SHOWN_CHARS = 200
_MAX_ANSWER_BYTES = 16_000_000
_AGAIN = "Run it again later: finished answers are in the cache."


@dataclass(eq=False)
class _RequestError(Exception):
    """A request that failed; `temporary` if the same request may work later."""

    what: str
    advice: str
    temporary: bool = False
    wait: float | None = None
    status: int = 0


@dataclass(eq=False)
class Endpoint:
    url: str
    key_env: str
    timeout: float
    retries: int
    requests_per_minute: int = 0
    headers: Callable[[str], dict[str, str]] | None = None
    """Makes the headers of the key, if they are not OpenAI's."""
    advice: str = "Check model."
    """What to do if the server rejects a request."""
    extra: str = "openai"
    """The part of Surefind that needs httpx."""

    def __post_init__(self) -> None:
        if find_spec("httpx") is None:
            raise MissingPartError(f"Models behind HTTP need httpx. Install it: pip install 'surefind[{self.extra}]'.")
        self._turns, self._next_turn, self._answered = threading.Lock(), 0.0, False
        self._client: _Client | None = None

    def post(self, body: dict[str, Any], total: float = float("inf"), max_bytes: int = _MAX_ANSWER_BYTES) -> Any:
        """Returns the JSON of the answer. All tries and the waits between them end after `total` seconds."""
        key = trust.key_for(self.url, self.key_env)
        deadline, attempt = time.monotonic() + total, 0
        while True:
            attempt += 1
            try:
                self._wait_for_turn(deadline)
                return self._try(body, key, deadline - time.monotonic(), total, max_bytes)
            except _RequestError as failure:
                backoff = min(_FIRST_WAIT_SECONDS * 2.0 ** (attempt - 1), _MAX_WAIT_SECONDS / 2)
                wait = backoff * random.uniform(0.8, 1.2) if failure.wait is None else failure.wait
                late = wait > _MAX_WAIT_SECONDS or time.monotonic() + wait >= deadline
                if not failure.temporary or attempt > self.retries or late:
                    long_wait = f" and asks to wait {wait:.0f} s" if wait > _MAX_WAIT_SECONDS else ""
                    tries = f" after {attempt} tries" if attempt > 1 else ""
                    text = trust.without(key, f"{self.url} {failure.what}{long_wait}{tries}. {failure.advice}")
                    raise (RefusedError(text, failure.status) if failure.status else SurefindError(text)) from None
                pause(wait)

    def without_key(self, text: str) -> str:
        """Removes the key from a text that was put together from parts of an answer."""
        return trust.without(trust.key_for(self.url, self.key_env), text)

    def close(self) -> None:
        """Closes the connections, at once or after the running calls; the next call opens them again."""
        self._client = None

    def _wait_for_turn(self, deadline: float) -> None:
        """Keeps requests apart. If the turn of this one comes too late, raises at once and takes no turn."""
        with self._turns:
            now = time.monotonic()
            turn = max(now, self._next_turn)
            if turn > now and turn >= deadline:
                what = f"may not be called for another {turn - now:.0f} s, because of requests_per_minute"
                raise _RequestError(what, "Lower concurrency, or raise total_timeout.")
            self._next_turn = turn + (60 / self.requests_per_minute if self.requests_per_minute else 0)
        pause(turn - now)

    def _try(self, body: dict[str, Any], key: str, left: float, total: float, max_bytes: int) -> Any:
        import httpx

        seconds = max(0.001, min(self.timeout, left))
        try:
            headers = self.headers(key) if self.headers else trust.bearer(self.url, key)
            request = started(lambda: self._send(body, headers, seconds, max_bytes))
            response, content = awaited(request, seconds + _GRACE_SECONDS)
        except (httpx.ConnectTimeout, httpx.ConnectError) as error:  # tried again if the server has answered before
            what = f"cannot be reached ({error if str(error) != 'timed out' else 'no connection in time'})"
            raise _RequestError(what, "Is the server running, and is url right?", self._answered) from None
        except (httpx.TimeoutException, TimeoutError):
            what = f"did not answer within {self.timeout if left >= self.timeout else total:.3g} s"
            raise _RequestError(what, f"Raise timeout, or send less at once. {_AGAIN}", temporary=True) from None
        except (httpx.NetworkError, httpx.ProtocolError, httpx.ProxyError) as error:
            raise _RequestError(f"broke the connection ({error})", _AGAIN, temporary=True) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _RequestError(f"cannot be used ({error})", "Check url.") from None
        self._answered = True
        text = trust.without(key, content.decode("utf-8", "replace"))
        answer = None
        with suppress(ValueError, RecursionError):
            answer = json.loads(text)
        if response.status_code != 200 or (isinstance(answer, dict) and answer.get("error")):  # gateways answer 200
            raise _refusal(self, key, response, text, answer)
        if answer is None:
            kind = response.headers.get("content-type", "no content type")
            what = f"did not answer with JSON but with {kind}: {' '.join(text.split())[:_MAX_SHOWN_CHARS]!r}"
            raise _RequestError(what, "Check that url is the address of the API, not of a web page.")
        return answer

    def _send(self, body: Any, headers: dict[str, str], seconds: float, max_bytes: int) -> tuple[Any, bytes]:
        end, content = time.monotonic() + seconds, bytearray()
        headers = {**headers, "Accept-Encoding": "gzip, deflate"}  # they unpack to a thousand times the size at most
        limits = (min(seconds, _MAX_CONNECT_SECONDS), seconds, seconds, seconds)
        client = self._client = self._client or _Client(self.url)
        try:
            with client.stream("POST", self.url, json=body, headers=headers, timeout=limits) as response:
                if (packed := response.headers.get("content-encoding", "")) not in ("", "identity", "gzip", "deflate"):
                    raise _RequestError(f"packed its answer as {packed[:40]!r}", "Surefind reads gzip and deflate.")
                for piece in response.iter_bytes():
                    content += piece
                    if len(content) > max_bytes:
                        what = f"answered with more than {max_bytes / 1e6:.3g} MB"
                        raise _RequestError(what, "Check url and model: no answer to this request is so long.")
                    if time.monotonic() > end:
                        raise TimeoutError
        finally:
            del client  # an error may be kept, and this frame with it
        return response, bytes(content)


class _Client:
    """An httpx client that is closed when nobody has it in hand any more, at the latest when the program ends."""

    def __init__(self, url: str) -> None:
        import httpx

        try:  # the environment names proxies and certificates; they are not for this machine
            client = httpx.Client(trust_env=not trust.is_local(url))
        except (ImportError, ValueError, httpx.InvalidURL):  # httpx may repeat the address, which may have a password
            message = "A proxy in the environment cannot be used. Write http://HOST:PORT (for SOCKS: 'httpx[socks]')."
            raise UsageError(message) from None
        self.stream = client.stream
        weakref.finalize(self, client.close)


def _refusal(endpoint: Endpoint, key: str, response: Any, text: str, error: Any) -> _RequestError:
    for name in ("error", "message", "detail"):  # the usual forms of messages
        if isinstance(error, dict) and error.get(name):
            error = error[name]
    message = text if error is None else error if isinstance(error, str) else json.dumps(error)
    message = " ".join(trust.without(key, message).split())  # JSON may have escaped it
    status, advice = response.status_code, endpoint.advice
    what = f"answered {status}" + (f" ({message[:_MAX_SHOWN_CHARS]})" if message else "")
    if "insufficient_quota" in text:
        return _RequestError(what, "The account has no credit left.", status=status)
    temporary = status in (408, 429) or status >= 500
    if status in (401, 403):
        name = f"the key in the environment variable {endpoint.key_env}" if endpoint.key_env else "key_env"
        advice = f"Check {name}, and that it may use this model."
    elif status in (404, 405) or 300 <= status < 400:
        advice = "Check url and model."
    elif temporary:
        advice = f"Set requests_per_minute, or lower concurrency. {_AGAIN}" if status == 429 else _AGAIN
    return _RequestError(what, advice, temporary, _retry_after(response.headers.get("retry-after", "")), status)


def _retry_after(value: str) -> float | None:
    """Seconds from a Retry-After header, which holds a number or a date; None if there is neither."""
    with suppress(ValueError):
        return max(0.0, float(value))
    with suppress(ValueError):
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    return None
