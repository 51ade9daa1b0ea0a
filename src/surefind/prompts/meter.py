"""What is being spent, and a hard stop.

Before a call is sent its worst price (the prompt's tokens, `max_tokens` of answer) is set aside. If that would pass the
limit it waits for those under way, most of which cost less than was set aside for them, and is refused if it would pass
the limit even then. Answers are kept as they come, so a stopped job goes on later from where the money ended. A limit
that is raised lifts the refusal and wakes the calls that wait.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from surefind.errors import BudgetError, UsageError


def money(dollars: float) -> str:
    """To the cent; small sums to a hundredth of one."""
    return f"${dollars:,.2f}" if dollars >= 0.1 or not dollars else f"${dollars:.4f}"


@dataclass(frozen=True)
class Spent:
    calls: int = 0
    cached: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    dollars: float = 0.0

    def __str__(self) -> str:
        free = f" ({self.cached:,} from the cache)" if self.cached else ""
        used = self.tokens_in + self.tokens_out
        return f"{self.calls + self.cached:,} calls{free}, {used:,} tokens, ${self.dollars:.4f}"


class Meter:
    def __init__(self, limit: float | None = None) -> None:
        self.spent = Spent()
        self._limit: float | None = None
        self._aside = 0.0
        self._flying = 0
        self._refused: float | None = None
        """The limit at which a call was refused last; None: none was."""
        self._lock = threading.Condition()
        self.limit = limit

    @property
    def limit(self) -> float | None:
        """Dollars that may be spent; None: any number. It may be changed at any time."""
        return self._limit

    @limit.setter
    def limit(self, dollars: float | None) -> None:
        if dollars is not None and not dollars >= 0:  # nothing is above NaN, so it would limit nothing
            raise UsageError(f"A budget must be 0 or more dollars, not {dollars}.")
        with self._lock:
            self._limit = dollars
            if dollars is None or (self._refused is not None and dollars > self._refused):
                self._refused = None
            self._lock.notify_all()

    def reserve(self, dollars: float) -> None:
        """Set money aside for a call; refuses it where it might pass the limit."""
        with self._lock:
            while self._flying and self._passes(dollars):
                self._lock.wait()
            if self._passes(dollars):
                self._refused = self._limit
                raise self._stop()
            self._aside += dollars
            self._flying += 1

    def release(self, dollars: float) -> None:
        """The call is over, whatever came of it."""
        with self._lock:
            self._aside -= dollars
            self._flying -= 1
            self._lock.notify_all()

    def count(self, tokens_in: int, tokens_out: int, dollars: float, cached: bool) -> None:
        with self._lock:
            s = self.spent
            if cached:
                self.spent = Spent(s.calls, s.cached + 1, s.tokens_in, s.tokens_out, s.dollars)
            else:
                self.spent = Spent(
                    s.calls + 1, s.cached, s.tokens_in + tokens_in, s.tokens_out + tokens_out, s.dollars + dollars
                )

    def check(self) -> None:
        """Raises if a call was refused: long jobs ask after each step, since a stage that falls back would hide it."""
        with self._lock:
            if self._refused is not None:
                raise self._stop()

    def _passes(self, dollars: float) -> bool:
        """A call that costs nothing passes no limit, even one that has been passed."""
        limit = self._limit
        return limit is not None and dollars > 0 and self.spent.dollars + self._aside + dollars > limit + 1e-9

    def _stop(self) -> BudgetError:
        limit, spent = money(self._limit or 0.0), money(self.spent.dollars)
        return BudgetError(
            f"The budget of {limit} does not reach any further: {spent} went into {self.spent.calls:,} calls. Their "
            "answers are kept; run it again with a higher --budget and it goes on."
        )
