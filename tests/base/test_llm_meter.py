"""The spending meter: refusals, a limit that changes, and many threads that reserve and settle."""

from __future__ import annotations

import threading
import time

import pytest

from cases import each
from surefind.base.errors import BudgetError, UsageError
from surefind.base.prompts.values import Meter


def pay(meter: Meter, reserved: float, price: float) -> None:
    meter.reserve(reserved)
    meter.count(10, 1, price, cached=False)
    meter.release(reserved)


def refused(limit: float = 10.0) -> Meter:
    """A meter that has spent $8 and refused a call of $3."""
    meter = Meter(limit)
    pay(meter, 8.0, 8.0)
    with pytest.raises(BudgetError):
        meter.reserve(3.0)
    return meter


def is_refused(meter: Meter) -> bool:
    try:
        meter.check()
    except BudgetError:
        return True
    return False


@each("limit", [11.0, None])
def test_a_raised_limit_allows_calls_again(limit: float | None) -> None:
    meter = refused()
    assert is_refused(meter)
    meter.limit = limit
    meter.check()
    pay(meter, 3.0, 1.0)
    meter.check()
    assert meter.spent.dollars == 9.0


@each("limits", [[10.0], [5.0], [5.0, 9.0]])
def test_a_limit_that_is_no_higher_than_the_refused_one_stays_refused(limits: list[float]) -> None:
    meter = refused(10.0)
    for limit in limits:
        meter.limit = limit
    assert is_refused(meter)


def test_a_raised_limit_that_is_too_small_refuses_again() -> None:
    meter = refused()
    meter.limit = 10.5
    meter.check()
    with pytest.raises(BudgetError, match=r"budget of \$10.50 .* \$8.00 was spent on 1 calls"):
        meter.reserve(3.0)
    assert is_refused(meter)


def test_a_refusal_that_was_lifted_does_not_come_back_with_the_old_limit() -> None:
    meter = refused()
    meter.limit = 20.0
    meter.limit = 10.0
    meter.check()
    with pytest.raises(BudgetError):
        meter.reserve(3.0)


def test_a_free_call_is_never_refused_and_never_waits() -> None:
    meter = Meter(10.0)
    meter.reserve(10.0)
    meter.count(10, 10, 12.0, cached=False)  # it cost more than was set aside
    meter.reserve(0.0)
    meter.release(0.0)
    meter.check()


@each("limit", [-1.0, float("nan")])
def test_a_limit_that_limits_nothing_is_refused(limit: float) -> None:
    """Nothing is above NaN, so it would let every call through."""
    with pytest.raises(UsageError, match="must be 0 or more dollars"):
        Meter(limit)
    meter = Meter(1.0)
    with pytest.raises(UsageError, match="must be 0 or more dollars"):
        meter.limit = limit
    assert meter.limit == 1.0


def test_a_call_that_waits_goes_on_when_the_limit_is_raised() -> None:
    meter = Meter(10.0)
    meter.reserve(10.0)  # under way, and not over before the end of this test
    went = threading.Event()
    thread = threading.Thread(target=lambda: (meter.reserve(5.0), went.set()), daemon=True)
    thread.start()
    time.sleep(0.1)
    assert not went.is_set()
    meter.limit = 15.0
    assert went.wait(5)


def test_eight_threads_never_pass_a_limit_that_is_raised_under_way() -> None:
    """Each call sets $2 aside and costs $1. Whoever is refused raises the limit by $5, to $100 at most."""
    meter = Meter(10.0)
    raising = threading.Lock()
    over: list[str] = []

    def work() -> None:
        while True:
            try:
                meter.reserve(2.0)
            except BudgetError:
                with raising:
                    if meter.limit == 100.0:
                        return
                    meter.limit = min(100.0, (meter.limit or 0.0) + 5.0)
                continue
            time.sleep(0.0002)
            meter.count(1, 1, 1.0, cached=False)
            if meter.spent.dollars > (meter.limit or 0.0):
                over.append(f"{meter.spent.dollars} of {meter.limit}")
            meter.release(2.0)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    assert over == []
    assert meter.spent.dollars == 99.0  # another call might have cost 2
    assert is_refused(meter)
    meter.limit = None
    meter.check()
