"""One HTTP address that takes JSON and gives JSON: key, rate limit, retries, and errors that say what to do.

The key is read from the environment for each request. It is in no attribute, and cut out of every message: some
servers repeat it in their answer.
"""

from __future__ import annotations

import email.utils
import ipaddress
import itertools
import json
import os
import random
import threading
import time
from typing import Any
from urllib.parse import urlsplit

from surefind.errors import MissingPartError, SurefindError, UsageError

_LONGEST_WAIT = 60.0
"""Seconds between two tries. A server that asks for more is not asked again."""
_FIRST_WAIT = 0.5
_LONGEST_CONNECT = 10.0
_SHOWN = 200
"""Characters of a server's answer that an error shows."""
_AGAIN = "Run it again later: finished batches are in the cache."


class _RequestError(Exception):
    """A request that failed; `passing` if the same request may work in a while."""

    def __init__(self, what: str, way_out: str, passing: bool = False, wait: float | None = None) -> None:
        super().__init__(what)
        self.what, self.way_out, self.passing, self.wait = what, way_out, passing, wait


class Endpoint:
    def __init__(self, url: str, key_env: str, timeout: float, retries: int, requests_per_minute: int) -> None:
        self.url = url
        self._key_env = key_env
        self._timeout = timeout
        self._retries = retries
        self._pace = _Pace(requests_per_minute)
        self._lock = threading.Lock()
        self._client: Any = None
        self._answered = False

    def post(self, body: dict[str, Any]) -> Any:
        """The answer's JSON."""
        key = self._key()
        for attempt in itertools.count(1):
            self._pace.wait()
            try:
                return self._send(body, key)
            except _RequestError as trouble:
                wait = _backoff(attempt) if trouble.wait is None else trouble.wait
                if not trouble.passing or attempt > self._retries or wait > _LONGEST_WAIT:
                    raise SurefindError(self._complaint(trouble, attempt, key)) from None
                time.sleep(wait)
        raise AssertionError  # the loop has no end of its own

    def _complaint(self, trouble: _RequestError, attempt: int, key: str) -> str:
        tries = f" after {attempt} tries" if attempt > 1 else ""
        asked = f" and asks to wait {trouble.wait:.0f} s" if (trouble.wait or 0) > _LONGEST_WAIT else ""
        return _without(key, f"{self.url} {trouble.what}{asked}{tries}. {trouble.way_out}")

    def _send(self, body: dict[str, Any], key: str) -> Any:
        import httpx

        try:
            response = self._http().post(self.url, json=body, headers=self._headers(key))
        except httpx.ConnectTimeout:
            raise self._unreachable("no connection in time") from None
        except httpx.TimeoutException:
            what = f"did not answer within {self._timeout:g} s"
            raise _RequestError(what, f"Raise timeout or lower batch. {_AGAIN}", passing=True) from None
        except httpx.ConnectError as error:
            raise self._unreachable(str(error)) from None
        except httpx.TransportError as error:
            raise _RequestError(f"broke the connection ({error})", _AGAIN, passing=True) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _RequestError(f"cannot be used ({error})", "Check url.") from None
        self._answered = True
        if response.status_code != 200:
            raise self._refusal(response, key)
        try:
            return json.loads(response.content)
        except (ValueError, RecursionError):
            kind = response.headers.get("content-type", "no content type")
            what = f"did not answer with JSON but with {kind}: {_shorten(response.text, key)!r}"
            raise _RequestError(what, "Check that url is the address of the API, not of a web page.") from None

    def _unreachable(self, why: str) -> _RequestError:
        """Worth a retry only where a server has been seen: elsewhere it is more likely not there at all."""
        return _RequestError(f"cannot be reached ({why})", "Is the server running, and is url right?", self._answered)

    def _refusal(self, response: Any, key: str) -> _RequestError:
        status = response.status_code
        said = _shorten(_message(response), key)
        spent = "insufficient_quota" in response.text
        passing = (status in (408, 429) or status >= 500) and not spent
        way_out = "The account has no credit left." if spent else self._way_out(status)
        wait = _retry_after(response.headers.get("retry-after")) if passing else None
        return _RequestError(f"answered {status}" + (f" ({said})" if said else ""), way_out, passing, wait)

    def _way_out(self, status: int) -> str:
        if status in (401, 403):
            where = f"the key in the environment variable {self._key_env}" if self._key_env else "key_env"
            return f"Check {where}, and that it may use this model."
        if status in (404, 405) or 300 <= status < 400:
            return "Check url and model."
        if status == 429:
            return f"Set requests_per_minute. {_AGAIN}"
        if status >= 500 or status == 408:
            return _AGAIN
        return "Check model; lower batch or max_characters; leave dimensions at 0 if the model has one size only."

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

    def _headers(self, key: str) -> dict[str, str]:
        if not key:
            return {}
        azure = (urlsplit(self.url).hostname or "").endswith(".azure.com")
        return {"Authorization": f"Bearer {key}"} | ({"api-key": key} if azure else {})

    def _http(self) -> Any:
        with self._lock:
            if self._client is None:
                import httpx

                timeout = httpx.Timeout(self._timeout, connect=min(self._timeout, _LONGEST_CONNECT))
                self._client = httpx.Client(timeout=timeout, trust_env=not is_local(self.url))
            return self._client


class _Pace:
    """Keeps requests at least 60 s / `per_minute` apart; 0 is no limit."""

    def __init__(self, per_minute: int) -> None:
        self._apart = 60 / per_minute if per_minute else 0.0
        self._next = 0.0
        self._lock = threading.Lock()

    def wait(self) -> None:
        with self._lock:
            now = time.monotonic()
            mine = max(now, self._next)
            self._next = mine + self._apart
        time.sleep(mine - now)


def need_httpx() -> None:
    try:
        import httpx  # noqa: F401
    except ModuleNotFoundError:
        raise MissingPartError(
            "Encoders behind HTTP need the package httpx. Install it with pip install 'surefind[openai]'."
        ) from None


def is_local(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _backoff(attempt: int) -> float:
    """Doubles with each try; a little chance keeps many clients from coming back at once."""
    return min(_FIRST_WAIT * 2.0 ** (attempt - 1), _LONGEST_WAIT / 2) * random.uniform(0.8, 1.2)


def _retry_after(value: str | None) -> float | None:
    """Seconds, given as such or as a date."""
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


def _message(response: Any) -> str:
    """What the server says is wrong, in any of the usual shapes."""
    try:
        said = json.loads(response.content)
    except (ValueError, RecursionError):
        return str(response.text)
    for name in ("error", "message", "detail"):
        if isinstance(said, dict) and said.get(name):
            said = said[name]
    return said if isinstance(said, str) else json.dumps(said)


def _without(key: str, text: str) -> str:
    return text.replace(key, "[key]") if key else text


def _shorten(text: str, key: str) -> str:
    """One line; the key goes first, so that the cut leaves no part of it."""
    line = " ".join(_without(key, text).split())
    return line if len(line) <= _SHOWN else line[:_SHOWN] + "…"
