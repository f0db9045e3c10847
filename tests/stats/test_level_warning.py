"""A comparison warns where its runs look as those do where tests do not hold their level."""

import numpy as np
import pytest
from type_1_errors import mean_of, two_labels

from rlexp.stats.aggregate import interquartile_mean, mean
from rlexp.stats.level_warning import level_warning, sequential_level_warning
from rlexp.stats.task_scores import TaskScores

STEADY = [496.0, 500.0, 503.0, 505.0]


def scores(*tasks: list[float]) -> TaskScores:
    """The scores of a label on each task."""
    return TaskScores.from_tasks(tasks)


def warning(first: list[float], second: list[float]) -> str | None:
    """The warning about two labels on one task."""
    return level_warning(scores(first), scores(second), "ppo", "a2c", mean)


def share_with_warning(law: str, sizes: tuple[int, int], spread: float) -> float:
    """How many of 2,000 comparisons of labels with equal means have a warning."""
    generator = np.random.default_rng(0)
    shapes = [(2000, runs) for runs in sizes]
    pairs = zip(*two_labels(law, mean_of(law), spread, shapes, generator), strict=True)
    return float(np.mean([warning(list(a), list(b)) is not None for a, b in pairs]))


def test_runs_that_look_alike_have_no_warning() -> None:
    """Two labels with similar spreads and no groups have no warning."""
    assert warning(STEADY, [430.0, 436.0, 439.0, 441.0]) is None


def test_solved_and_failed_runs_have_a_warning() -> None:
    """Runs that fall into two groups have a warning that says the error and what to do."""
    assert (
        "The runs of ppo fall into two groups, such as solved and failed: in simulations with 4 "
        "runs of each label, spreads of 3 : 1 and such groups, labels with equal means were told "
        "apart in about 25 % of cases, not in 5 %. Give both labels the same number of seeds, 10 "
        "or more."
    ) == warning([500.0, 498.0, 502.0, 20.0], STEADY)


def test_verdicts_about_the_iqm_state_their_own_errors() -> None:
    """The error is that of the IQM; seven runs and skewed scores have no warning."""
    groups = [500.0, 498.0, 502.0, 20.0, 499.0, 501.0, 25.0]
    text = level_warning(scores(groups[:4]), scores(STEADY), "ppo", "a2c", interquartile_mean)
    assert text is not None
    assert "labels with equal interquartile means were told apart in about 17 % of" in text
    seven = [scores(groups), scores([score - 30 for score in groups])]
    assert level_warning(seven[0], seven[1], "ppo", "a2c", interquartile_mean) is None
    wide = scores([410.0, 450.0, 480.0, 510.0])
    assert level_warning(scores(STEADY), wide, "ppo", "a2c", interquartile_mean) is None
    fewer = scores([500.0, 498.0, 502.0, 20.0, 499.0])
    text = level_warning(scores(STEADY[:3]), fewer, "ppo", "a2c", interquartile_mean)
    assert text is not None
    assert "in about 12 % of cases" in text


def test_both_labels_may_have_groups() -> None:
    """The warning names both labels if the runs of both fall into two groups."""
    text = warning([500.0, 498.0, 502.0, 20.0], [500.0, 10.0, 15.0, 11.0])
    assert text is not None
    assert text.startswith("The runs of ppo and of a2c fall into two groups")


def test_different_spreads_have_a_warning() -> None:
    """A label that spreads far more than the other has a warning that names both."""
    text = warning(STEADY, [410.0, 450.0, 480.0, 510.0])
    assert text is not None
    # Deviations from the medians: 130 beside 12.
    assert text.startswith("The runs of a2c spread 10.8 times as much as those of ppo: ")
    assert "in about 13 % of cases, not in 5 %" in text


def test_constant_runs_have_a_warning_beside_varying_ones() -> None:
    """A label whose runs are all equal has a warning beside one whose runs are not."""
    text = warning([500.0] * 4, STEADY)
    assert text is not None
    assert text.startswith("The runs of ppo are all equal, and those of a2c are not: ")


def test_two_constant_labels_have_no_warning() -> None:
    """Labels without any spread have no spreads that differ."""
    assert warning([500.0] * 4, [400.0] * 4) is None


def test_three_against_three_have_no_warning() -> None:
    """Three runs against three have none, because no verdict is possible."""
    assert warning([0.0, 250.0, 500.0], [400.0, 401.0, 402.0]) is None


def test_unequal_numbers_say_the_error_of_the_fewer_runs() -> None:
    """With unequal numbers of runs the error is that of the label with fewer runs."""
    groups = [500.0, 498.0, 502.0, 20.0, 499.0, 501.0, 25.0, 497.0, 21.0, 503.0]
    text = warning([400.0, 420.0, 470.0], groups)
    assert text is not None
    assert "with 3 runs of the label that spreads more" in text
    assert "in about 38 % of cases" in text


def test_ten_runs_in_groups_have_no_warning() -> None:
    """Ten runs of each label in two groups have none: their error is below 10 %."""
    groups = [500.0, 498.0, 502.0, 20.0, 499.0, 501.0, 25.0, 497.0, 21.0, 503.0]
    assert warning(groups, [score - 30 for score in groups]) is None
    assert warning(groups[:9], [score - 30 for score in groups[:9]]) is not None


def test_ten_runs_with_different_spreads_have_another_advice() -> None:
    """With ten equal seeds the advice is not to have ten."""
    runs = [float(score) for score in range(400, 500, 10)]
    text = warning(runs, [5 * score for score in runs])
    assert text is not None
    assert text.endswith("More seeds lower this slowly, so look at the runs as well.")


def test_groups_on_one_of_several_tasks_have_a_warning() -> None:
    """With several tasks each task is looked at; the runs of all tasks count."""
    first = scores([0.9, 0.91, 0.92, 0.1], [0.5, 0.55, 0.6])
    second = scores([0.7, 0.8, 0.85, 0.9], [0.4, 0.45, 0.5])
    text = level_warning(first, second, "ppo", "a2c", mean)
    assert text is not None
    assert "fall into two groups" in text
    assert "with 7 runs of each label" in text


def test_the_order_of_the_runs_does_not_matter() -> None:
    """Scores that are not sorted give the same warning."""
    shuffled = TaskScores(np.array([500.0, 20.0, 502.0, 498.0]), (4,))
    expected = warning([500.0, 498.0, 502.0, 20.0], STEADY)
    assert expected == level_warning(shuffled, scores(STEADY), "ppo", "a2c", mean)


@pytest.mark.parametrize(("group", "error"), [(2, 20), (5, 20), (9, 20), (10, 8)])
def test_a_sequential_warning_says_its_own_error(group: int, error: int) -> None:
    """The warning of a sequential comparison has the error for its seeds at each look."""
    text = sequential_level_warning(
        scores([500.0, 498.0, 502.0, 20.0]), scores(STEADY), "ppo", "a2c", group=group
    )
    assert text is not None
    assert f"in about {error} % of cases, not in 5 %" in text
    assert "with a larger --group" in text


def test_few_normal_comparisons_with_equal_spreads_have_a_warning() -> None:
    """At most 10 % of comparisons of five normal scores with equal spreads have a warning."""
    # Four standard errors of 2,000 comparisons are 2.2 %; simulated are 6.3 %.
    assert share_with_warning("normal", (5, 5), 1.0) < 0.1


@pytest.mark.parametrize("runs", [4, 5, 7])
def test_most_solved_or_failed_comparisons_have_a_warning(runs: int) -> None:
    """Most comparisons of labels that solve or fail, with spreads of 3 : 1, have a warning."""
    assert share_with_warning("bimodal", (runs, runs), 3.0) > 0.8
