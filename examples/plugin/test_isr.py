import pytest
from surefind_isr import ISR

from surefind import SpecError, make
from surefind.testing import check_fuser, check_stage, rankings_of


@pytest.mark.parametrize("stage", [ISR(), ISR(power=1.0)])
def test_it_keeps_the_contract(stage: ISR) -> None:
    check_stage(stage)
    check_fuser(stage)


def test_score_is_what_the_formula_says() -> None:
    lexical, dense = rankings_of([([7, 8], [3.0, 1.0])]), rankings_of([([8, 9], [0.9, 0.2])], "dense")
    ids, scores = ISR().fuse([lexical, dense], k=3).row(0)
    assert ids.tolist() == [8, 7, 9]
    assert scores.tolist() == [2 * (1 / 2**2 + 1 / 1**2), 1 * 1 / 1**2, 1 * 1 / 2**2]


def test_a_power_of_zero_is_refused() -> None:
    with pytest.raises(SpecError, match="power must be above 0"):
        make("fuse", "isr(power=0)")
