"""The Wilcoxon pruner, which races trials over seeds."""

from pruning_points import point

from rlexp.pruners.wilcoxon import Wilcoxon

RACE = Wilcoxon(threshold=0.1, startup_seeds=2)
BEST = (5.0, 6.0, 7.0, 8.0, 9.0)


def test_a_clear_loser_ends_after_its_fourth_seed() -> None:
    """A trial that is worse on every seed ends after four seeds; with three, p is 1/8."""
    worse_scores = [score - 1 for score in BEST]
    ended_after = [
        seeds
        for seeds in range(1, 6)
        if RACE.prunes(
            point(0.0, position=seeds - 1, step=1000, scores=worse_scores[:seeds], best=BEST)
        )
    ]
    assert [4, 5] == ended_after


def test_reason_names_the_comparison() -> None:
    """The reason for pruning has the number of seeds and the p-value."""
    expected = "worse than the best trial on 4 seeds (p = 0.0625)"
    result = RACE.prunes(point(position=3, step=1000, scores=(1.0,) * 4, best=BEST))
    assert expected == result


def test_trial_never_ends_within_a_run() -> None:
    """A trial does not end within a run, because its evaluations are not scores."""
    assert RACE.prunes(point(position=4, step=900, scores=(1.0,) * 4, best=BEST)) is None


def test_pruner_needs_finished_seeds() -> None:
    """With fewer seeds than required, no trial ends at any threshold."""
    eager_pruner = Wilcoxon(threshold=0.9, startup_seeds=2)
    assert eager_pruner.prunes(point(step=1000, scores=(1.0,), best=BEST)) is None
    assert eager_pruner.prunes(point(position=1, step=1000, scores=(1.0, 1.0), best=BEST))


def test_trial_without_a_best_trial_continues() -> None:
    """Without a complete earlier trial, no trial ends."""
    assert RACE.prunes(point(position=4, step=1000, scores=(1.0,) * 5)) is None
