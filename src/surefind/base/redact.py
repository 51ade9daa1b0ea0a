"""Removes secrets from URLs in a text, before it is shown or stored; and addresses and folders of a server, before
others than its admins see it. It stands alone because errors use it, and import nothing else."""

from __future__ import annotations

import re
from functools import lru_cache

_MARK = "[redacted]"
_USER = re.compile(r"(?<!ssh)(://)[^/\s?#'\"]*@(?=[^/\s@,;])", re.IGNORECASE)
_PASSWORD = re.compile(r"(ssh://[^:/\s@]+:)[^/\s'\"]*@", re.IGNORECASE)
_PARAMETER = re.compile(r"([?&][\w.-]*(?:key|token|secret|password|signature|sig)[\w.-]*=)[^&\s#'\"]+", re.IGNORECASE)


def redacted(text: str) -> str:
    """Replaces the user and password of a URL (of ssh only the password), and parameters such as
    `api_key=…`. A user name alone may be a token, so it is replaced too."""
    if "://" not in text:
        return text
    text = _USER.sub(rf"\1{_MARK}@", text)
    text = _PASSWORD.sub(rf"\1{_MARK}@", text)
    return _PARAMETER.sub(rf"\1{_MARK}", text)


_ADDRESS = re.compile(
    r"""\b[a-z][a-z\d+.-]{0,20}://[^\s'"<>)\],;]*|(?:\[[\da-f:.]{2,45}\]|\b[a-z][\w.-]{0,100}):\d{2,5}\b"""
    r"""|\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}(?::\d{1,5})?\b""",
    re.IGNORECASE,
)
"""A URL, a host with its port, or an address of IPv4."""
_FOLDERS = re.compile(r"""(?<![\w/])/(?:[^\s/'"]+/)+""")
"""The folders of an absolute path."""


@lru_cache(1_000)  # a server shows the same specs again and again
def without_addresses(text: str) -> str:
    """Replaces addresses of servers, and takes the folders off absolute paths."""
    return without_folders(_ADDRESS.sub("[address]", text))


def without_folders(text: str) -> str:
    """Takes the folders off absolute paths: the names of files stay."""
    return _FOLDERS.sub("", text)
