"""The `[llm]` table of surefind.toml as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class LLMSettings:
    model: str = ""
    """The model of stages that name none."""
    fallback: str = ""
    """Asked where a model fails."""
    timeout: float = 60.0
    """Seconds for one try."""
    total_timeout: float = 180.0
    """Seconds for a call with all its tries and its fallback."""
    retries: int = 3
    concurrency: int = 8
    """Calls under way at a time."""
    requests_per_minute: int = 0
    budget: float | None = None
    """Dollars that a run may spend; None: no limit."""
    key_env: str = "LLM_API_KEY"
    """The environment variable with the key for models given by address (`https://…#model`)."""
    prices: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Model -> dollars for a million tokens in, and out. Goes before the built-in table."""
    prompts: Path | None = None
    """A folder with prompts that go before the built-in ones."""
