"""Posts JSON to one HTTP address and returns JSON: key, rate limit, retries, and errors that say what to do.

The key is read from the environment for each request. It is stored in no attribute and removed from every message,
because some servers repeat it in their answer.
"""

from __future__ import annotations

import email.utils
import itertools
import json
import os
import random
import re
import threading
import time
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from surefind.base.errors import MissingPartError, RefusedError, SpecError, SurefindError, UsageError
from surefind.base.running.workers import pause
from surefind.engine.net import redact, trust
from surefind.engine.net.connections import SharedClient
from surefind.engine.net.trust import is_local

_MAX_WAIT_SECONDS = 60.0
"""Most seconds between two tries. If a server asks for a longer wait, the call fails instead."""
_FIRST_WAIT_SECONDS = 0.5
_MAX_CONNECT_SECONDS = 10.0
_MAX_SHOWN_CHARS = 200
"""Most characters of a server's answer that an error message shows."""
_MAX_ANSWER_BYTES = 16_000_000
_ENCODINGS = ("", "identity", "gzip", "deflate")
"""How an answer may be packed: no more than a thousandfold, and once."""
_AGAIN = "Run it again later: finished answers are in the cache."
Headers = Callable[[str], dict[str, str]]
"""Makes the request headers from the key."""


class _RequestError(Exception):
    """A request that failed; `temporary` if the same request may work later."""

    def __init__(
        self, what: str, advice: str, temporary: bool = False, wait: float | None = None, status: int = 0
    ) -> None:
        super().__init__(what)
        self.what, self.advice, self.temporary, self.wait, self.status = what, advice, temporary, wait, status


class Endpoint:
    def __init__(
        self,
        url: str,
        key_env: str,
        timeout: float,
        retries: int,
        requests_per_minute: int = 0,
        headers: Headers | None = None,
        connections: int = 20,
        advice: str = "Check model.",
    ) -> None:
        """`advice` tells the user what to do if the server rejects a request; `headers` makes the headers of the key if
        they are not OpenAI's; `connections` is how many connections stay open between requests."""
        self.url = url
        self._key_env = key_env
        self._timeout = timeout
        self._retries = retries
        self._pace = _Pace(requests_per_minute)
        self._headers = headers or self._bearer
        self._advice = advice
        self._answered = False
        self._connections = SharedClient(partial(_open, connections, url))
        weakref.finalize(self, self._connections.close)  # at the latest when the program ends

    def post(self, body: dict[str, Any], total: float | None = None, max_bytes: int = _MAX_ANSWER_BYTES) -> Any:
        """Returns the JSON of the answer, which may have `max_bytes`, unpacked. All tries and the waits between them
        end after `total` seconds."""
        trust.check(self.url, self._key_env)
        key = self._key()
        total = float("inf") if total is None else total
        deadline = time.monotonic() + total
        for attempt in itertools.count(1):
            try:
                self._pace.wait(deadline)
                left = deadline - time.monotonic()
                times = (self._timeout,) * 2 if left >= self._timeout else (left, total)
                return self._send(body, key, *times, max_bytes)
            except _RequestError as failure:
                wait = _backoff(attempt) if failure.wait is None else failure.wait
                late = time.monotonic() + wait >= deadline
                if not failure.temporary or attempt > self._retries or wait > _MAX_WAIT_SECONDS or late:
                    raise self._error(failure, attempt, key) from None
                pause(wait)
        raise AssertionError  # unreachable: the loop ends only by return or raise

    def without_key(self, text: str) -> str:
        """Removes the key from a text that was put together from parts of an answer."""
        return redact.without(self._key(), text)

    def close(self) -> None:
        """Closes the connections, without breaking running calls; the next call opens them again."""
        self._connections.close()

    def _error(self, failure: _RequestError, attempt: int, key: str) -> SurefindError:
        tries = f" after {attempt} tries" if attempt > 1 else ""
        long_wait = f" and asks to wait {failure.wait:.0f} s" if (failure.wait or 0) > _MAX_WAIT_SECONDS else ""
        text = redact.without(key, f"{self.url} {failure.what}{long_wait}{tries}. {failure.advice}")
        return RefusedError(text, failure.status) if failure.status else SurefindError(text)

    def _send(self, body: dict[str, Any], key: str, timeout: float, reported: float, max_bytes: int) -> Any:
        """`reported` is the time limit that an error names: for a last try that is cut short, that of all tries."""
        import httpx

        from surefind.engine.net.deadline import until

        limits = httpx.Timeout(max(timeout, 0.001), connect=max(min(timeout, _MAX_CONNECT_SECONDS), 0.001))
        try:
            headers = {**self._headers(key), "Accept-Encoding": "gzip, deflate"}
            with (
                until(time.monotonic() + timeout),
                self._connections.client() as client,
                client.stream("POST", self.url, json=body, headers=headers, timeout=limits) as response,
            ):
                content = _received(response, max_bytes)
        except httpx.ConnectTimeout:
            raise self._unreachable("no connection in time") from None
        except httpx.TimeoutException:
            what = f"did not answer within {reported:.3g} s"
            raise _RequestError(what, f"Raise timeout, or send less at once. {_AGAIN}", temporary=True) from None
        except httpx.ConnectError as error:
            raise self._unreachable(str(error)) from None
        except (httpx.NetworkError, httpx.ProtocolError, httpx.ProxyError) as error:
            raise _RequestError(f"broke the connection ({error})", _AGAIN, temporary=True) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _RequestError(f"cannot be used ({error})", "Check url.") from None
        self._answered = True
        if response.status_code != 200:
            raise self._refusal(response.status_code, response.headers, content, key)
        try:
            # A server may echo the request, and the key must not get into a cache, however the JSON spells it.
            answer = redact.without_in(key, json.loads(content))
        except (ValueError, RecursionError):
            kind = response.headers.get("content-type", "no content type")
            what = f"did not answer with JSON but with {kind}: {_shorten(_text(content), key)!r}"
            raise _RequestError(what, "Check that url is the address of the API, not of a web page.") from None
        if isinstance(answer, dict) and answer.get("error"):  # gateways answer 200 when the server behind them refused
            raise self._refusal(response.status_code, response.headers, content, key)
        return answer

    def _unreachable(self, why: str) -> _RequestError:
        """Allows a retry only if the server has answered before; otherwise it probably does not exist."""
        return _RequestError(f"cannot be reached ({why})", "Is the server running, and is url right?", self._answered)

    def _refusal(self, status: int, headers: Any, content: bytes, key: str) -> _RequestError:
        message = _shorten(_message(content), key)
        what = f"answered {status}" + (f" ({message})" if message else "")
        no_credit = b"insufficient_quota" in content
        temporary = (status in (408, 429) or status >= 500) and not no_credit
        advice = "The account has no credit left." if no_credit else self._advice_for(status)
        wait = _retry_after(headers.get("retry-after")) if temporary else None
        return _RequestError(what, advice, temporary, wait, status)

    def _advice_for(self, status: int) -> str:
        if status in (401, 403):
            where = f"the key in the environment variable {self._key_env}" if self._key_env else "key_env"
            return f"Check {where}, and that it may use this model."
        if status in (404, 405) or 300 <= status < 400:
            return "Check url and model."
        if status == 429:
            return f"Set requests_per_minute, or lower concurrency. {_AGAIN}"
        if status >= 500 or status == 408:
            return _AGAIN
        return self._advice

    def _key(self) -> str:
        key = os.environ.get(self._key_env, "").strip() if self._key_env else ""
        if not key and self._key_env and not is_local(self.url):
            raise UsageError(
                f"{self.url} needs a key, and the environment variable {self._key_env} is not set. "
                f'Set it, name another one with key_env=…, or write key_env="" for a server without keys.'
            )
        if not (key.isascii() and key.isprintable()):
            raise UsageError(
                f"The environment variable {self._key_env} holds characters that no key has. Set it again."
            )
        return key

    def _bearer(self, key: str) -> dict[str, str]:
        if not key:
            return {}
        return {"Authorization": f"Bearer {key}"} | ({"api-key": key} if trust.is_azure(self.url) else {})


def _received(response: Any, max_bytes: int) -> bytes:
    """Reads an answer as it arrives. A server that never stops would fill the memory of this machine."""
    if (encoding := response.headers.get("content-encoding", "").strip().lower()) not in _ENCODINGS:
        raise _RequestError(f"packed its answer as {encoding[:40]!r}", "Surefind reads gzip and deflate. Check url.")
    content = bytearray()
    for piece in response.iter_bytes():
        content += piece
        if len(content) > max_bytes:
            what = f"answered with more than {max_bytes / 1e6:.3g} MB"
            raise _RequestError(what, "Check url and model: no answer to this request is so long.")
    return bytes(content)


def _open(connections: int, url: str) -> Any:
    from surefind.engine.net.deadline import bounded_client

    return bounded_client(connections, from_environment=not is_local(url))


class _Pace:
    """Keeps requests at least 60 s / `per_minute` apart; 0 is no limit."""

    def __init__(self, per_minute: int) -> None:
        self._apart = 60 / per_minute if per_minute else 0.0
        self._next = 0.0
        self._lock = threading.Lock()

    def wait(self, deadline: float) -> None:
        """Waits until it is this request's turn. If that would be too late, raises at once and takes no turn."""
        with self._lock:
            now = time.monotonic()
            mine = max(now, self._next)
            if mine > now and mine >= deadline:
                what = f"may not be called for another {mine - now:.0f} s, because of requests_per_minute"
                raise _RequestError(what, "Lower concurrency, or raise total_timeout.")
            self._next = mine + self._apart
        pause(mine - now)


def need_httpx(what: str = "Encoders", extra: str = "openai") -> None:
    try:
        import httpx  # noqa: F401
    except ModuleNotFoundError:
        raise MissingPartError(
            f"{what} behind HTTP need the package httpx. Install it with pip install 'surefind[{extra}]'."
        ) from None


def refuse_secrets(stage: str, url: str, key_env: str) -> None:
    """Refuses specs that may contain a key, because specs are shown and stored. The messages do not repeat it."""
    if not re.fullmatch(r"([A-Z_][A-Z0-9_]*)?", key_env):
        raise SpecError(
            f"{stage}: key_env must be the name of an environment variable in capitals (such as OPENAI_API_KEY), "
            "not the key itself."
        )
    address = urlsplit(url)
    others = {name for name, _ in parse_qsl(address.query, keep_blank_values=True)} - {"api-version"}
    if "@" in address.netloc or others or address.fragment:
        raise SpecError(
            f"{stage}: url must not contain a user, a password or a parameter other than api-version. "
            "Put the key into an environment variable and name the variable with key_env=…."
        )


def _backoff(attempt: int) -> float:
    """Seconds to wait: doubles with each try, with some randomness so that many clients do not come back at once."""
    return min(_FIRST_WAIT_SECONDS * 2.0 ** (attempt - 1), _MAX_WAIT_SECONDS / 2) * random.uniform(0.8, 1.2)


def _retry_after(value: str | None) -> float | None:
    """Seconds from a Retry-After header, which holds a number or a date; None if there is neither."""
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None


def _message(content: bytes) -> str:
    """The server's error message, from any of the usual JSON shapes."""
    try:
        error = json.loads(content)
    except (ValueError, RecursionError):
        return _text(content)
    for name in ("error", "message", "detail"):
        if isinstance(error, dict) and error.get(name):
            error = error[name]
    return error if isinstance(error, str) else json.dumps(error)


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")


def _shorten(text: str, key: str) -> str:
    """Puts a text on one line and cuts it. The key is removed first, so that no part of it is left."""
    line = " ".join(redact.without(key, text).split())
    return line if len(line) <= _MAX_SHOWN_CHARS else line[:_MAX_SHOWN_CHARS] + "…"
