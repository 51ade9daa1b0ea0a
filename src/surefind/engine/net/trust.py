"""Decides which servers may receive text, and which keys.

A surefind.toml can come from somebody else, and it can name any server and any environment variable. So a server gets
nothing before the user has confirmed it, once, with `surefind trust HOST`. These need no confirmation: this machine,
the servers of known services over https, and addresses that the user has put into the environment (OPENAI_BASE_URL).

A key goes only to the service that it belongs to. LLM_API_KEY and variables that begin with SUREFIND_ may go to every
trusted server; any other variable is confirmed for one server, with `surefind trust HOST --key NAME`. What the user has
confirmed is kept in the user's configuration folder, which no knowledge base can write to.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from surefind.base.disk.sealed import write_file
from surefind.base.errors import ConfigError, SpecError, UsageError

_ANY_SERVER = "LLM_API_KEY"
_OURS = "SUREFIND_"
_MIN_KEY_CHARS = 8
"""Shorter keys are placeholders for servers that want any key ("none"), and may be words of an answer."""
_HOST = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?|[0-9a-f:.]+")
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")


@dataclass(frozen=True)
class _KnownService:
    key: str
    """The environment variable that holds its key."""
    hosts: tuple[str, ...] = ()
    """Its servers; one that begins with a dot stands for all of its subdomains."""
    address: str = ""
    """The environment variable with which a user chooses another server."""


_AZURE = _KnownService(
    "AZURE_OPENAI_API_KEY",
    (".openai.azure.com", ".openai.azure.us", ".cognitiveservices.azure.com", ".services.ai.azure.com"),
    "AZURE_OPENAI_ENDPOINT",
)
_SERVICES = (
    _KnownService("OPENAI_API_KEY", ("api.openai.com",), "OPENAI_BASE_URL"),
    _AZURE,
    _KnownService("ANTHROPIC_API_KEY", ("api.anthropic.com",), "ANTHROPIC_BASE_URL"),
    _KnownService("GEMINI_API_KEY", ("generativelanguage.googleapis.com",)),
    _KnownService("COHERE_API_KEY", ("api.cohere.com",)),
    _KnownService("JINA_API_KEY", ("api.jina.ai",)),
    _KnownService("VOYAGE_API_KEY", ("api.voyageai.com",)),
    _KnownService("", (), "OLLAMA_HOST"),
)


def check(url: str, key_env: str) -> None:
    """Raises `UsageError` if the server may not receive text, or not the key in this environment variable."""
    host = host_of(url)
    keys = _keys_for(url, host)
    if keys is None:
        raise UsageError(
            f"The server {host or url} is not confirmed yet, so nothing was sent to it. If you know it and it may "
            f"receive text from your documents, run: surefind trust {host or 'HOST'}{_option(key_env)}"
        )
    if key_env and key_env not in keys and not _is_general(key_env):
        raise UsageError(
            f"The key in the environment variable {key_env} is not known to belong to {host}, so nothing was sent. If "
            f"the server may receive it, run: surefind trust {host} --key {key_env}"
        )


def key_for(url: str, key_env: str) -> str:
    """Reads the key for a server that may receive text and this key; "" if a server on this machine needs none."""
    check(url, key_env)
    key = os.environ.get(key_env, "").strip() if key_env else ""
    if not key and key_env and not is_local(url):
        raise UsageError(
            f"{url} needs a key, and the environment variable {key_env} is not set. "
            f'Set it, name another one with key_env=…, or write key_env="" for a server without keys.'
        )
    if not (key.isascii() and key.isprintable()):
        raise UsageError(f"The environment variable {key_env} holds characters that no key has. Set it again.")
    return key


def bearer(url: str, key: str) -> dict[str, str]:
    """The headers that bring a key to servers that speak OpenAI's protocol."""
    azure = {"api-key": key} if is_azure(url) else {}
    return {"Authorization": f"Bearer {key}", **azure} if key else {}


def without(key: str, text: str) -> str:
    """The text without the key, as it is. A server that wants to hide it in another form has it already."""
    return text.replace(key, "[key]") if len(key) >= _MIN_KEY_CHARS else text


def refuse_secrets(stage: str, url: str, key_env: str) -> None:
    """Refuses specs that may contain a key, because specs are shown and stored. The messages do not repeat it."""
    if key_env and not _VARIABLE.fullmatch(key_env):
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


def own_key(host: str) -> str | None:
    """The environment variable with the key of a known service; None for any other server."""
    service = _known(host)
    return service.key if service else None


def is_azure(url: str) -> bool:
    """Whether the server is Azure OpenAI, which wants its key in a header of its own. Other names below azure.com, such
    as NAME.cloudapp.azure.com, are machines that anybody can rent."""
    return _known(host_of(url)) is _AZURE


def is_local(url: str) -> bool:
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_of(url: str) -> str:
    """The host of a URL, in lower case. Empty if there is none, or if it has characters that no host name has: two
    programs could read such a URL differently."""
    try:
        host = (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""
    return host if _HOST.fullmatch(host) else ""


def _keys_for(url: str, host: str) -> frozenset[str] | None:
    """The key variables that a server may receive; None if it may receive nothing."""
    confirmed = remembered().get(host)
    keys = set(confirmed or ())
    if is_local(url):
        return frozenset(keys | {service.key for service in _SERVICES})
    service = _known(host) if url.lower().startswith("https://") else None
    chosen = [
        other for other in _SERVICES if other.address and host and host == _host_in(os.environ.get(other.address, ""))
    ]
    if confirmed is None and service is None and not chosen:
        return None
    return frozenset(keys | {known_service.key for known_service in (service, *chosen) if known_service})


def _known(host: str) -> _KnownService | None:
    for service in _SERVICES:
        if any(host == name or (name.startswith(".") and host.endswith(name)) for name in service.hosts):
            return service
    return None


def _is_general(key_env: str) -> bool:
    return key_env == _ANY_SERVER or key_env.startswith(_OURS)


def _option(key_env: str) -> str:
    return f" --key {key_env}" if key_env and not _is_general(key_env) else ""


def _host_in(text: str) -> str:
    """The host of an address that may lack the scheme, as OLLAMA_HOST does."""
    text = text.strip()
    return host_of(text if "://" in text else f"http://{text}")


# ---------------------------------------------------------------- what the user has confirmed


def remembered() -> Mapping[str, tuple[str, ...]]:
    """The servers that the user has confirmed, each with the key variables that it may receive besides its own."""
    path = memory()
    try:
        hosts = json.loads(path.read_text(encoding="utf-8"))["hosts"]
        return {str(host): tuple(map(str, keys)) for host, keys in sorted(hosts.items())}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(
            f"The list of trusted servers {path} cannot be read ({type(error).__name__}: {error}). Delete the file, "
            "and confirm the servers again."
        ) from None


def confirm(text: str, keys: Iterable[str] = ()) -> str:
    """Remembers that a server may receive text and these keys. Takes a host or a URL, and returns the host."""
    host = _confirmable(text)
    keys = tuple(keys)
    wrong = next((key for key in keys if not _VARIABLE.fullmatch(key)), None)
    if wrong is not None:  # the message does not repeat what may be a key
        raise UsageError("--key takes the name of an environment variable in capitals, not the key itself.")
    known = remembered()
    _write({**known, host: tuple(sorted({*known.get(host, ()), *keys}))})
    return host


def forget(text: str) -> str:
    """Forgets a server and its keys. Returns the host."""
    host = _confirmable(text)
    known = dict(remembered())
    if host not in known:
        raise UsageError(f"The server {host} is not in the list. It has: {', '.join(known) or 'no servers'}.")
    del known[host]
    _write(known)
    return host


def memory() -> Path:
    """The file with the confirmed servers, in the user's configuration folder."""
    given = os.environ.get("XDG_CONFIG_HOME", "")
    if given and Path(given).is_absolute():
        return Path(given) / "surefind" / "trusted.json"
    home = Path.home()
    folder = home / "Library" / "Application Support" if sys.platform == "darwin" else home / ".config"
    return folder / "surefind" / "trusted.json"


def _confirmable(text: str) -> str:
    host = _host_in(text)
    if not host:
        raise UsageError(f"{text!r} is not the name of a server. Write it like llm.example.com.")
    return host


def _write(hosts: Mapping[str, Iterable[str]]) -> None:
    path = memory()
    text = json.dumps({"hosts": {host: list(keys) for host, keys in sorted(hosts.items())}}, indent=1)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(path, text + "\n", private=True)
    except OSError as error:
        raise ConfigError(
            f"The list of trusted servers {path} cannot be written ({error}). Set XDG_CONFIG_HOME to a folder that you "
            "may write to."
        ) from None
