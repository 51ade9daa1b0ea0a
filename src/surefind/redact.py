"""Removes secrets from URLs in a text, before it is shown or stored."""

from __future__ import annotations

import re

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
