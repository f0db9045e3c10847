"""Hyperparameter sensitivity in a report."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from evidence_samples import CARTPOLE, PENDULUM, SAMPLES, inquiry
from grid_samples import (
    GRIDS,
    grid,
    grid_beside_others,
    grid_of_costs,
    grid_of_equal_scores,
    grid_of_one_seed,
    grid_on_tuning_seeds,
    grid_with_failures,
    grid_without_overlap,
    grid_without_scores,
    labelled,
)
from part_blocks import column, notices, part_of, table, texts
from sweep_samples import SWEEPS

from rlexp.reports.drawing.blocks import SectionContent, Tone
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.sections.definitions import DefinitionsSection
from rlexp.reports.sections.sensitivity import SensitivitySection
from rlexp.stats.interval import Interval

LOW = {CARTPOLE: 112.5, PENDULUM: -1175.0}
HIGH = {CARTPOLE: 460.0, PENDULUM: -225.0}
"""Percentiles 5 and 95 of six means, by hand: a quarter of the way from the last to the next."""
ESTIMATES = ["P (best setting per task)", "C (one setting for all tasks)", "sensitivity Φ"]


def sensitivity_part(sample: Evidence) -> SectionContent:
    """The section on sensitivity, which must exist."""
    return part_of(SensitivitySection(), sample)


def interval(sample: Evidence, title: str, row: int = 0) -> Interval:
    """An interval in the first table."""
    value = column(table(sensitivity_part(sample), "sensitivity"), title)[row]
    assert isinstance(value, Interval)
    return value


def share(score: float, task: str) -> float:
    """The normalised value of a score."""
    return (score - LOW[task]) / (HIGH[task] - LOW[task])


@pytest.mark.parametrize("sample", [*SAMPLES, *SWEEPS])
def test_there_is_no_part_without_a_grid(sample: str) -> None:
    """A report without a grid of settings has no section on sensitivity."""
    report_sample = {**SAMPLES, **SWEEPS}[sample]()
    assert None is SensitivitySection().part(inquiry(report_sample))


def test_estimates_by_hand() -> None:
    """P uses the best setting of each task, C the best single setting."""
    best = (share(480.0, CARTPOLE) + share(-200.0, PENDULUM)) / 2
    best_single = (share(400.0, CARTPOLE) + share(-200.0, PENDULUM)) / 2
    estimates = [interval(grid(), title).estimate for title in ESTIMATES]
    assert [best, best_single, best - best_single] == pytest.approx(estimates)
    assert 2.0 == interval(grid(), "dimensionality d").estimate


def test_the_row_has_the_numbers_of_settings_and_runs() -> None:
    """The row has settings, tasks, runs and parameters; the interval has level and n."""
    sensitivity_table = table(sensitivity_part(grid()), "sensitivity")
    cells = [
        column(sensitivity_table, title)[0]
        for title in ("settings", "tasks", "runs per setting", "parameters")
    ]
    assert ["6 of 6", 2, "3", 2] == cells
    for title in ESTIMATES:
        estimate = interval(grid(), title)
        assert (36, 2, 0.95) == (estimate.n, estimate.tasks, estimate.level)
        assert estimate.low is not None
        assert estimate.high is not None
        assert estimate.low < estimate.high


def test_best_settings_are_named() -> None:
    """The first row is the best setting for all tasks, then one row per task."""
    settings_table = table(sensitivity_part(grid()), "sensitivity-settings")
    assert ["all tasks, on average", CARTPOLE, PENDULUM] == column(settings_table, "best on")
    expected = [labelled(0.001, 10), labelled(0.01, 4), labelled(0.001, 10)]
    assert expected == column(settings_table, "label")
    assert [None, 480.0, -200.0] == column(settings_table, "mean score")
    assert share(480.0, CARTPOLE) == pytest.approx(column(settings_table, "normalised score")[1])


def test_the_best_settings_of_a_cost_have_the_lowest_one() -> None:
    """A grid of costs has the sensitivity of the negated costs, and shows costs in their units."""
    for title in ESTIMATES:
        assert interval(grid(), title) == interval(grid_of_costs(), title)
    high, low = (
        table(sensitivity_part(sample()), "sensitivity-settings")
        for sample in (grid, grid_of_costs)
    )
    assert column(high, "label") == column(low, "label")
    assert [None, -480.0, 200.0] == column(low, "mean score")


def test_gains_are_listed_by_number_of_tuned_parameters() -> None:
    """Rows go from no tuned parameter to all, with shares of P."""
    parameters_table = table(sensitivity_part(grid()), "sensitivity-parameters")
    assert ["0 of 2 parameters", "1 of 2 parameters", "2 of 2 parameters"] == column(
        parameters_table, "parameters tuned per task"
    )
    assert ["none", "algorithm.learning_rate"] == column(parameters_table, "which parameters")[:2]
    shares = [
        value for value in column(parameters_table, "share of P") if isinstance(value, float)
    ]
    assert 1.0 == shares[-1]
    assert sorted(shares) == shares


def test_every_algorithm_is_normalised_by_all_of_them() -> None:
    """Normalisation uses the scores of all labels, also of algorithms with one setting."""
    sensitivity_table = table(sensitivity_part(grid_beside_others()), "sensitivity")
    assert ["dqn", "ppo"] == column(sensitivity_table, "algorithm")
    without_others = interval(grid(), ESTIMATES[0]).estimate
    assert without_others < interval(grid_beside_others(), ESTIMATES[0], 1).estimate
    assert "no interval of d: the tuned score of a resample is not above 0" in str(
        column(sensitivity_table, "remark")[0]
    )


@pytest.mark.parametrize(("sample", "phase"), [(grid, "test"), (grid_on_tuning_seeds, "tuning")])
def test_selection_bias_is_warned_of(sample: Callable[[], Evidence], phase: str) -> None:
    """A warning names the phase whose scores selected the settings."""
    part = sensitivity_part(sample())
    tone, text = notices(part)[0]
    assert Tone.WARNING is tone
    assert text.startswith(f"These {phase} scores were also used to select the settings")
    assert "run it on new seeds" in text
    assert texts(part)[0].startswith("Φ = P − C is the loss of an algorithm with one setting")


def test_one_seed_has_no_interval() -> None:
    """The estimates of one seed have a reason instead of an interval."""
    expected = (
        "No interval for ppo: 12 of 12 settings and tasks have one run, which shows no spread."
    )
    assert (Tone.WARNING, expected) in notices(sensitivity_part(grid_of_one_seed()))
    assert interval(grid_of_one_seed(), ESTIMATES[2]).low is None


def test_settings_that_failed_are_named() -> None:
    """A warning names failed settings, and the table counts the others."""
    part = sensitivity_part(grid_with_failures())
    messages = [text for _, text in notices(part)]
    assert any(
        text.startswith(f"{labelled(0.01, 4)} on {CARTPOLE}: a run failed") for text in messages
    )
    sensitivity_table = table(part, "sensitivity")
    assert ["5 of 6"] == column(sensitivity_table, "settings")
    assert ["no interval of Φ: all resamples give the same value"] == column(
        sensitivity_table, "remark"
    )


@pytest.mark.parametrize(
    ("sample", "reason"),
    [
        (
            grid_without_overlap,
            "no setting has a score on every task: run one setting on all tasks.",
        ),
        (grid_without_scores, "no setting has a score on Pendulum-v1."),
        (grid_of_equal_scores, "percentiles 5 and 95 of a task are equal"),
    ],
)
def test_what_cannot_be_estimated_has_a_reason(
    sample: Callable[[], Evidence], reason: str
) -> None:
    """A missing sensitivity has a warning with the reason, without tables."""
    part = sensitivity_part(sample())
    assert any(text.startswith(f"No sensitivity for ppo: {reason}") for _, text in notices(part))
    assert [] == texts(part)
    assert not any("sensitivity" in getattr(block, "name", "") for block in part.blocks)


@pytest.mark.parametrize(
    ("sample", "sections", "expected"),
    [("grid", ("sensitivity",), True), ("grid", (), False), ("typical", ("sensitivity",), False)],
)
def test_sensitivity_is_defined_where_it_is_shown(
    sample: str, sections: tuple[str, ...], expected: bool
) -> None:
    """The definitions contain sensitivity with its source."""
    context = replace(inquiry({**SAMPLES, **GRIDS}[sample]()), sections=sections)
    part = DefinitionsSection().part(context)
    assert part is not None
    assert expected == (
        "hyperparameter sensitivity" in column(table(part, "definitions"), "statistic")
    )
