"""The `[llm]` table of surefind.toml as a value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from surefind.base.errors import UsageError


@dataclass(frozen=True)
class LLMSettings:
    model: str = ""
    """The model of stages that do not name one."""
    fallback: str = ""
    """The model to use if another model fails."""
    timeout: float = 60.0
    """Seconds for one try."""
    total_timeout: float = 180.0
    """Seconds for a call with all its retries and its fallback."""
    retries: int = 3
    concurrency: int = 8
    """Calls that run at the same time."""
    requests_per_minute: int = 0
    budget: float | None = None
    """Dollars that a run may spend; None means no limit."""
    check: bool = True
    """Whether a model that failed the tasks of a step (`surefind llm check`) is refused for that step."""
    key_env: str = "LLM_API_KEY"
    """The environment variable with the key for models given as a URL (`https://…#model`)."""
    prices: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Model -> dollars per million input tokens and output tokens. Overrides the built-in table."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"([A-Z_][A-Z0-9_]*)?", self.key_env):  # the message does not repeat what may be a key
            raise UsageError(
                "key_env must be the name of an environment variable in capitals (such as LLM_API_KEY), not the key."
            )
        for name, least in (("timeout", 0.001), ("total_timeout", 0.001), ("retries", 0), ("concurrency", 1)):
            if getattr(self, name) < least:
                raise UsageError(f"{name} must be at least {least}, not {getattr(self, name)}.")
        if self.budget is not None and self.budget < 0:
            raise UsageError(f"budget must be 0 or more dollars, not {self.budget}.")
