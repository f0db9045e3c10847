"""The sequential non-inferiority test of `rlexp gate`: its decisions, its errors and its power."""

import numpy as np
import pytest

from rlexp.stats.sequential.non_inferiority import Judgement, NonInferiorityDesign, judge

DESIGN = NonInferiorityDesign(group=5, interims=4, margin=1.5, alpha=0.05)
STUDIES = 300


def shares(loss: float) -> dict[Judgement, float]:
    """Share of each judgement on simulated studies whose candidate is worse by `loss` margins."""
    generator = np.random.default_rng(20261124)
    scores = generator.normal(size=(STUDIES, 2, 20))
    scores[:, 0] -= loss * DESIGN.margin
    judgements = [judge(DESIGN, *study).judgement for study in scores]
    return {judgement: judgements.count(judgement) / STUDIES for judgement in Judgement}


def test_an_equal_candidate_passes_and_is_never_called_worse() -> None:
    """A candidate with the baseline's distribution passes nearly always, and is not called worse."""
    equal = shares(0)
    assert equal[Judgement.NOT_WORSE] > 0.97
    assert equal[Judgement.WORSE] == 0


def test_at_the_margin_wrong_decisions_stay_below_the_level() -> None:
    """A candidate that is worse by exactly the margin is decided in at most about 5 % of studies."""
    decided = 1 - shares(1)[Judgement.UNDECIDED]
    # 0.05 and two standard errors of 300 studies.
    assert 0.01 < decided < 0.05 + 2 * np.sqrt(0.05 * 0.95 / STUDIES)


def test_a_loss_of_two_margins_is_found() -> None:
    """A candidate that is worse by two margins of 1.5 standard deviations is called worse."""
    found = shares(2)
    assert found[Judgement.WORSE] > 0.97
    assert found[Judgement.NOT_WORSE] == 0


def test_the_first_look_decides_a_clear_case() -> None:
    """Scores that are far from the margin are decided with the first five seeds."""
    baseline = np.arange(20.0)
    assert (5, Judgement.NOT_WORSE) == _seeds_and_judgement(baseline + 50, baseline)
    assert (5, Judgement.WORSE) == _seeds_and_judgement(baseline - 50, baseline)


def test_an_incomplete_group_waits() -> None:
    """Seeds beyond the last complete group are not tested."""
    state = judge(DESIGN, [5.0, 6.0, 7.0, 8.0], np.arange(20.0))
    assert (0, False, None) == (state.analyses, state.finished, state.difference)


def test_constant_scores_are_decided() -> None:
    """A candidate that reaches the same largest score in every run passes."""
    assert Judgement.NOT_WORSE is judge(DESIGN, np.full(20, 500.0), np.full(20, 500.0)).judgement


def test_later_scores_change_no_judgement() -> None:
    """A decision of the first look stays when further seeds are added."""
    baseline = np.zeros(20) + np.arange(20) / 10
    first = judge(DESIGN, (baseline + 9)[:5], baseline)
    later = judge(DESIGN, np.concatenate([(baseline + 9)[:5], np.full(15, -99.0)]), baseline)
    assert first == later


def test_a_design_that_cannot_decide_is_known() -> None:
    """One look with three seeds has no relabelling that is rare enough for 5 %."""
    small = NonInferiorityDesign(group=3, interims=1, margin=1.0, alpha=0.05)
    assert small.first_deciding_look is None
    assert DESIGN.first_deciding_look == 1


@pytest.mark.parametrize("margin", [0.0, -1.0, float("nan")])
def test_a_margin_must_be_above_0(margin: float) -> None:
    """A margin that is not above 0 is refused."""
    wrong = NonInferiorityDesign(group=5, interims=4, margin=margin, alpha=0.05)
    with pytest.raises(ValueError, match="the margin must be above 0"):
        judge(wrong, np.zeros(5), np.zeros(20))


def _seeds_and_judgement(candidate: np.ndarray, baseline: np.ndarray) -> tuple[int, Judgement]:
    state = judge(DESIGN, candidate, baseline)
    return state.seeds, state.judgement
