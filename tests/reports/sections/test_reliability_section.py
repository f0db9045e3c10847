"""Reliability metrics in a report."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import pytest
from curve_samples import run
from evidence_samples import CARTPOLE, PENDULUM, SAMPLES, evidence, inquiry, reordered
from hypothesis import given
from hypothesis import strategies as st

from rlexp.records.events import Ending, Failure
from rlexp.reports.drawing.blocks import SectionContent, Table, Value
from rlexp.reports.evidence.runs import Evidence, PlannedRun
from rlexp.reports.sections.reliability import WORST_ALONE, ReliabilitySection
from rlexp.stats.interval import Interval

NAN = float("nan")
UNSTEADY = (0.0, 0.5, 0.2, 0.6, 0.6)
"""Normalised evaluations, each a fifth of training apart."""


def part_of(evidence: Evidence, **changes: object) -> SectionContent:
    """The section on reliability, which must exist."""
    part = ReliabilitySection().part(inquiry(evidence, **changes))
    assert part is not None
    return part


def table_of(evidence: Evidence, name: str = "training") -> Table:
    """The table of the section with this name."""
    tables = [b for b in part_of(evidence).blocks if isinstance(b, Table)]
    return next(table for table in tables if table.name == f"reliability-{name}")


def rows_of(evidence: Evidence, name: str = "training") -> list[dict[str, Value]]:
    """The rows of a table, by title of the column."""
    table = table_of(evidence, name)
    titles = [column.title for column in table.columns]
    return [dict(zip(titles, row, strict=True)) for row in table.rows]


def returns(shares: Sequence[float]) -> list[float]:
    """Returns on CartPole with these normalised values."""
    return [22.5 + (475.0 - 22.5) * share for share in shares]


def steady_run(shares: Sequence[float], seed: int = 0, label: str = "ppo") -> PlannedRun:
    """A run of five evaluations with these normalised means."""
    return run(returns(shares), seed, label=label, steps=5000)


def estimate(value: Value) -> float:
    """The estimate of a cell that must be an interval."""
    assert isinstance(value, Interval)
    return value.estimate


def test_metrics_of_a_run_by_hand() -> None:
    """Changes per 1 % of training are 0.025, -0.015, 0.02 and 0; the largest fall is 0.3."""
    row = rows_of(evidence([steady_run(UNSTEADY)]))[0]
    estimates = {
        title: estimate(value) for title, value in row.items() if isinstance(value, Interval)
    }
    assert estimates == pytest.approx(
        {
            "dispersion across time ↓": 0.025,
            "short-term risk ↑": -0.015,
            "long-term risk ↓": 0.3,
            "median performance ↑": 0.5,
        }
    )
    assert (None, None) == (row["dispersion across runs ↓"], row["risk across runs ↑"])
    assert (
        "No dispersion across runs: a single run"
        in table_of(evidence([steady_run(UNSTEADY)])).note
    )


def test_metrics_across_runs_by_hand() -> None:
    """Two runs give half of their distance and the lower run, as medians over evaluations."""
    sample = evidence([steady_run(UNSTEADY), steady_run([1.0] * 5, 1)])
    row = rows_of(sample)[0]
    assert estimate(row["dispersion across runs ↓"]) == pytest.approx(0.25)
    assert estimate(row["risk across runs ↑"]) == pytest.approx(0.5)
    assert "2 of 2" == row["runs"]


def test_an_interval_ends_where_returns_do() -> None:
    """The interval of a return is clipped to the least return of the task, 1 on CartPole."""
    low_runs = run([2.0] * 5, 0, steps=5000), run([2.0] * 5, 1, steps=5000)
    sample = evidence([*low_runs, run([90.0] * 5, 2, steps=5000)])
    median = rows_of(sample)[0]["median performance ↑"]
    assert isinstance(median, Interval)
    assert median.low == pytest.approx((1.0 - 22.5) / (475.0 - 22.5))


def test_a_dispersion_or_a_drawdown_has_an_interval_within_its_bounds() -> None:
    """A drawdown is at least 0, and at most the width of the possible returns."""
    fallen = steady_run([0.0, 1.0, 1.0, 1.0, 0.0], 2)
    sample = evidence([steady_run([1.0] * 5), steady_run([1.0] * 5, 1), fallen])
    risk = rows_of(sample)[0]["long-term risk ↓"]
    assert isinstance(risk, Interval)
    # Returns of CartPole are between 1 and 500, and 452.5 of them are one unit.
    assert 0.0 == risk.low
    assert risk.high == pytest.approx(499 / 452.5)
    dispersion = rows_of(sample)[0]["dispersion across time ↓"]
    assert isinstance(dispersion, Interval)
    assert dispersion.low is not None
    assert dispersion.low >= 0


def test_metrics_of_final_policies_by_hand() -> None:
    """Normalised returns 0, 0.2, 0.4 and 1 have a middle half of 0.4 and a worst of 0."""
    sample = evidence([run([100.0], 0, returns=returns([0.4, 0.0, 1.0, 0.2]))])
    row = rows_of(sample, "final")[0]
    assert estimate(row["dispersion across rollouts ↓"]) == pytest.approx(0.4)
    assert estimate(row["risk across rollouts ↑"]) == pytest.approx(0.0)


def test_the_worst_score_is_no_interval() -> None:
    """With few runs the CVaR of scores is the worst score, without an interval."""
    sample = evidence(run([100.0], k, returns=[100.0 + k, 100.0 + k]) for k in range(5))
    worst = rows_of(sample, "final")[0]["CVaR of scores ↑"]
    assert isinstance(worst, Interval)
    assert (100.0, None, 5, WORST_ALONE) == (worst.estimate, worst.low, worst.n, worst.reason)


def test_more_runs_have_an_interval_of_their_worst() -> None:
    """With 21 runs, the CVaR is the mean of the worst two runs and has an interval."""
    sample = evidence(run([100.0], k, returns=[100.0 + k, 100.0 + k]) for k in range(21))
    worst = rows_of(sample, "final")[0]["CVaR of scores ↑"]
    assert isinstance(worst, Interval)
    assert 100.5 == worst.estimate
    assert worst.low is not None
    assert worst.high is not None
    assert worst.low <= 100.5 <= worst.high


def test_failures_are_shares_of_the_runs_that_ended() -> None:
    """One of three ended runs failed; an interrupted run does not count."""
    members = [
        run([100.0], 0),
        run([100.0], 1),
        run([], 2, failure=Failure.NAN),
        run([100.0], 3, ending=Ending.INTERRUPTED),
    ]
    failure_rate = rows_of(evidence(members), "final")[0]["failed ↓"]
    assert isinstance(failure_rate, Interval)
    assert (1 / 3, 3) == (failure_rate.estimate, failure_rate.n)
    assert failure_rate.low is not None


def test_only_completed_runs_are_assessed() -> None:
    """Runs that failed or were interrupted are counted and named."""
    members = [
        steady_run(UNSTEADY),
        run(returns([1.0, 0.0]), 1, steps=5000, failure=Failure.CRASHED),
    ]
    row = rows_of(evidence(members))[0]
    assert ("1 of 2", "not completed: 1 failed (crashed)") == (row["runs"], row["remark"])
    assert estimate(row["long-term risk ↓"]) == pytest.approx(0.3)


@pytest.mark.parametrize("shares", [[], [NAN, 0.5, 0.5, 0.5, 0.5]])
def test_a_run_without_finite_evaluations_is_named(shares: list[float]) -> None:
    """A completed run without finite evaluations is in the remark."""
    row = rows_of(evidence([steady_run(shares), steady_run(UNSTEADY, 1)]))[0]
    assert ("1 of 2", "1 whose evaluations are missing or not all finite") == (
        row["runs"],
        row["remark"],
    )


def test_an_episode_that_is_no_number_is_named() -> None:
    """A final policy with a NaN episode is left out with a remark."""
    sample = evidence([run([100.0], 0, returns=[NAN, 1.0, 1.0, 1.0])])
    row = rows_of(sample, "final")[0]
    assert ("0 of 1", None) == (row["runs"], row["CVaR of scores ↑"])
    assert "1 whose final episodes are missing or not all finite" == row["remark"]


def test_one_evaluation_says_why_there_is_no_metric() -> None:
    """With a single evaluation the note has a reason for each missing metric."""
    table = table_of(evidence([steady_run([0.5]), steady_run([0.7], 1)]))
    for metric in ("dispersion across time", "short-term risk", "long-term risk"):
        assert f"No {metric}: " in table.note


def test_runs_without_a_common_step_are_named() -> None:
    """Runs without a common evaluation step have a remark."""
    late_run = run([0.0, 50.0], 1)
    record = replace(late_run.record, evaluations=late_run.record.evaluations[1:])
    row = rows_of(evidence([run([50.0], 0), replace(late_run, record=record)]))[0]
    assert "the evaluations of the runs have no step in common" == row["remark"]


def test_without_anchors_metrics_are_shares_of_what_runs_reach() -> None:
    """Without anchors, a fall of 60 after a rise of 200 is a risk of 0.3."""
    original = run([100.0, 300.0, 240.0, 300.0, 300.0], 0, returns=[100.0, 150.0, 200.0, 150.0])
    without_reference = replace(
        original, configuration=replace(original.configuration, reference={})
    )
    assert estimate(
        rows_of(evidence([without_reference]))[0]["long-term risk ↓"]
    ) == pytest.approx(0.3)
    rollouts = rows_of(evidence([without_reference]), "final")[0]["risk across rollouts ↑"]
    assert estimate(rollouts) == pytest.approx(100 / 150)


def test_reasons_are_told_once() -> None:
    """A reason that holds for every row is in the note once."""
    sample = SAMPLES["typical"]()
    note = table_of(sample).note
    assert 1 == note.count("the worst 5 % of 5 runs")
    assert " on CartPole-v1" not in note
    risk = rows_of(sample)[0]["risk across runs ↑"]
    assert isinstance(risk, Interval)
    assert WORST_ALONE == risk.reason


def test_what_is_true_of_some_rows_says_of_which() -> None:
    """A reason that holds for one label names the label."""
    assert "add seeds (a2c on CartPole-v1)." in table_of(SAMPLES["incomplete"]()).note


def test_a_label_without_planned_runs_has_a_row() -> None:
    """A label without planned runs has empty cells and the reason in both tables."""
    for name in ("training", "final"):
        row = next(
            r
            for r in rows_of(SAMPLES["task_missing"](), name)
            if (r["task"], r["label"]) == (PENDULUM, "dqn")
        )
        assert ("0 of 0", "no run planned") == (row["runs"], row["remark"])
        numbers = [v for k, v in row.items() if k not in {"task", "label", "runs", "remark"}]
        assert {None} == set(numbers)


def test_all_failed() -> None:
    """If every run failed, there is no metric, and the failure rate is 1."""
    row = rows_of(SAMPLES["all_failed"](), "final")[0]
    assert ("0 of 3", None) == (row["runs"], row["CVaR of scores ↑"])
    assert 1.0 == estimate(row["failed ↓"])
    assert (CARTPOLE, "ppo", "0 of 3") == tuple(rows_of(SAMPLES["all_failed"]())[0].values())[:3]


def test_an_experiment_without_runs_has_no_part() -> None:
    """An experiment without planned runs has no section on reliability."""
    assert ReliabilitySection().part(inquiry(SAMPLES["empty"]())) is None


@cache
def part_of_sample(sample: str) -> SectionContent | None:
    """The section of a sample, with its runs in their original order."""
    return ReliabilitySection().part(inquiry(SAMPLES[sample]()))


@given(st.integers(0, 10_000), st.sampled_from(sorted(SAMPLES)))
def test_the_order_of_the_runs_does_not_matter(seed: int, sample: str) -> None:
    """The same runs in another order give the same section."""
    original = SAMPLES[sample]()
    assert part_of_sample(sample) == ReliabilitySection().part(inquiry(reordered(original, seed)))
