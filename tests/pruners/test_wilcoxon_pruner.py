"""Racing over seeds."""

from pruning_points import point

from rlexp.pruners.wilcoxon import Wilcoxon

RACE = Wilcoxon(threshold=0.1, startup_seeds=2)
BEST = (5.0, 6.0, 7.0, 8.0, 9.0)


def test_a_clear_loser_ends_after_its_fourth_seed() -> None:
    """No sooner: 1/8 is not below a tenth."""
    worse = [score - 1 for score in BEST]
    ended = [
        seeds
        for seeds in range(1, 6)
        if RACE.prunes(point(0.0, position=seeds - 1, step=1000, scores=worse[:seeds], best=BEST))
    ]
    assert [4, 5] == ended


def test_it_says_what_it_compared() -> None:
    """Seeds and p-value."""
    expected = "worse than the best trial on 4 seeds (p = 0.0625)"
    found = RACE.prunes(point(position=3, step=1000, scores=(1.0,) * 4, best=BEST))
    assert expected == found


def test_within_a_run_it_is_silent() -> None:
    """An evaluation is no score of a seed."""
    assert RACE.prunes(point(position=4, step=900, scores=(1.0,) * 4, best=BEST)) is None


def test_it_waits_for_its_seeds() -> None:
    """Whatever the threshold."""
    eager = Wilcoxon(threshold=0.9, startup_seeds=2)
    assert eager.prunes(point(step=1000, scores=(1.0,), best=BEST)) is None
    assert eager.prunes(point(position=1, step=1000, scores=(1.0, 1.0), best=BEST))


def test_without_a_best_trial_it_is_silent() -> None:
    """There is nothing to be worse than."""
    assert RACE.prunes(point(position=4, step=1000, scores=(1.0,) * 5)) is None
