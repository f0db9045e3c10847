"""Time to threshold in a report."""

from dataclasses import replace

import pytest
from curve_samples import run
from evidence_samples import CARTPOLE, PENDULUM, SAMPLES, evidence, inquiry, reordered
from hypothesis import given
from hypothesis import strategies as st

from rlexp.records.events import Ending, Failure
from rlexp.reports.drawing.blocks import FigureLine, LineFigure, SectionContent, Table, Text, Value
from rlexp.reports.evidence.runs import Evidence, PlannedRun
from rlexp.reports.sections.thresholds import NOT_REACHED, TimeToThresholdSection, follow
from rlexp.stats.interval import Interval

NAN = float("nan")
LOW, HIGH = 400.0, 475.0
"""Returns below and at the threshold of CartPole."""


def part_of(evidence: Evidence) -> SectionContent:
    """The section on time to threshold, which must exist."""
    part = TimeToThresholdSection().part(inquiry(evidence))
    assert part is not None
    return part


def rows_of(evidence: Evidence, name: str = "thresholds") -> list[dict[str, Value]]:
    """The rows of a table, by title of the column."""
    blocks = part_of(evidence).blocks
    table = next(b for b in blocks if isinstance(b, Table) and b.name == name)
    titles = [column.title for column in table.columns]
    return [dict(zip(titles, row, strict=True)) for row in table.rows]


def note_of(evidence: Evidence) -> str:
    """The note of the table of times."""
    blocks = part_of(evidence).blocks
    return next(b.note for b in blocks if isinstance(b, Table) and b.name == "thresholds")


def line_of(evidence: Evidence, label: str = "ppo") -> FigureLine:
    """The curve of a label in the first figure."""
    figure = next(b for b in part_of(evidence).blocks if isinstance(b, LineFigure))
    return next(line for line in figure.lines if line.label == label)


def interval(value: Value) -> Interval:
    """A cell that must be an interval."""
    assert isinstance(value, Interval)
    return value


def two_of_four_reach() -> list[PlannedRun]:
    """Four runs, two of which reach the threshold, at 1,000 and at 3,000 steps."""
    return [
        run([HIGH, LOW, LOW, LOW], 0),
        run([LOW, LOW, HIGH, HIGH], 1),
        run([LOW] * 4, 2),
        run([LOW, NAN, LOW, LOW], 3),
    ]


def test_shares_rise_where_runs_reach_the_threshold() -> None:
    """The curve rises by a quarter where one of four runs reaches the threshold."""
    line = line_of(evidence(two_of_four_reach()))
    assert (0.0, 1000.0, 3000.0, 4000.0) == line.x
    assert (0.0, 0.25, 0.5, 0.5) == line.y
    assert line.steps


def test_the_band_holds_the_curve() -> None:
    """The band surrounds the share of runs that have reached the threshold."""
    line = line_of(evidence(two_of_four_reach()))
    assert line.low is not None
    assert line.high is not None
    for ends in zip(line.low, line.y, line.high, strict=True):
        assert sorted(end for end in ends if end is not None) == list(ends)
    assert line.low[-1] != line.high[-1]


def test_times_by_hand() -> None:
    """Half of the runs reach it by 3,000 steps; the mean counts the others as 4,000 steps."""
    row = rows_of(evidence(two_of_four_reach()))[0]
    assert "4 of 4" == row["runs"]
    assert (0.5, 4) == (interval(row["reached"]).estimate, interval(row["reached"]).n)
    assert 3000.0 == interval(row["median"]).estimate
    assert 3000.0 == pytest.approx(interval(row["restricted mean"]).estimate)
    assert "Horizons: CartPole-v1 4,000." in note_of(evidence(two_of_four_reach()))
    assert "remark" not in row


def test_a_median_without_an_upper_end_says_where_it_begins() -> None:
    """A median with only a lower bound has a reason with this bound."""
    median = interval(rows_of(evidence(two_of_four_reach()))[0]["median"])
    assert (None, "from 1,000, without an upper end") == (median.low, median.reason)


def test_fewer_than_half_have_no_median() -> None:
    """If fewer than half of the runs reach the threshold, a text replaces the median."""
    row = rows_of(evidence([run([LOW, HIGH], 0), run([LOW, LOW], 1), run([LOW, LOW], 2)]))[0]
    assert NOT_REACHED == row["median"]
    assert 2000.0 == pytest.approx(interval(row["restricted mean"]).estimate)


def test_a_run_that_failed_is_censored_and_no_success() -> None:
    """A run that failed below the threshold is followed to its end and counts as not reached."""
    members = [run([LOW, HIGH, HIGH], 0), run([LOW], 1, failure=Failure.NAN)]
    row = rows_of(evidence(members))[0]
    assert (0.5, 2) == (interval(row["reached"]).estimate, interval(row["reached"]).n)
    assert "1 below the threshold at the last evaluation (1 failed (nan))" == row["remark"]
    followed = follow(evidence(members), "ppo", CARTPOLE, HIGH)
    assert ((1000.0, 2000.0), (False, True)) == (followed.times, followed.reached)


def test_a_run_that_failed_before_its_first_evaluation_is_no_success() -> None:
    """A run that failed without an evaluation counts as not reached."""
    row = rows_of(evidence([run([HIGH, HIGH], 0), run([], 1, failure=Failure.USER)]))[0]
    assert ("1 of 2", 0.5) == (row["runs"], interval(row["reached"]).estimate)
    assert "1 without an evaluation (1 failed (user))" == row["remark"]


@pytest.mark.parametrize("ending", [None, Ending.INTERRUPTED])
def test_a_run_that_may_go_on_is_neither_success_nor_failure(ending: Ending | None) -> None:
    """Unfinished runs do not count in the share of successes."""
    for means in ([LOW], [HIGH]):
        runs = [run([HIGH, HIGH], 0), run(means, 1, ending=ending)]
        reached = interval(rows_of(evidence(runs))[0]["reached"])
        assert (1.0, 1) == (reached.estimate, reached.n)


def test_a_completed_run_without_evaluations_is_unknown() -> None:
    """A completed run without evaluations has neither success nor time."""
    row = rows_of(evidence([run([], 0)]))[0]
    assert ("0 of 1", None, None, None) == (
        row["runs"],
        row["reached"],
        row["median"],
        row["restricted mean"],
    )
    assert "1 without an evaluation (1 completed)" == row["remark"]


def test_evaluations_out_of_order_are_no_curve() -> None:
    """A run whose evaluation steps do not rise has a remark and no time."""
    damaged = run([LOW, HIGH], 0)
    record = replace(damaged.record, evaluations=damaged.record.evaluations[::-1])
    row = rows_of(evidence([replace(damaged, record=record)]))[0]
    assert ("0 of 1", None) == (row["runs"], row["reached"])
    assert "1 without an evaluation (1 completed)" == row["remark"]


def test_the_horizon_is_common_to_the_labels_of_a_task() -> None:
    """The horizon is the shortest budget of the labels; a failed run does not shorten it."""
    members = [
        run([LOW, LOW, HIGH], 0),
        run([LOW, HIGH], 0, label="a2c"),
        run([LOW], 0, label="dqn", failure=Failure.NAN),
    ]
    rows = rows_of(evidence(members))
    assert "Horizons: CartPole-v1 2,000." in note_of(evidence(members))
    assert 2000.0 == interval(rows[0]["restricted mean"]).estimate
    assert "no run was evaluated up to the horizon" == rows[2]["restricted mean"]


def test_equal_runs_of_two_labels_do_not_differ() -> None:
    """Labels whose runs take equally long have a log-rank p of 1."""
    heights = ([HIGH, HIGH], [LOW, HIGH], [LOW, LOW])
    members = [run(h, k, label=label) for label in ("ppo", "a2c") for k, h in enumerate(heights)]
    row = rows_of(evidence(members), "thresholds-pairs")[0]
    assert ("ppo", "a2c", "3 and 3") == (row["label"], row["against"], row["runs"])
    assert (0.0, 1.0, 1.0) == pytest.approx((row["χ²"], row["p"], row["p after Holm"]))


def test_holm_counts_every_test_and_no_other() -> None:
    """Of two tested pairs, Holm doubles the smaller p and raises the other p to it."""
    members = [
        *(run([HIGH, HIGH], k) for k in range(4)),
        *(run([LOW, LOW], k, label="a2c") for k in range(4)),
        *(run([LOW, LOW], k, label="dqn") for k in range(3)),
    ]
    rows = rows_of(evidence(members), "thresholds-pairs")
    p = [row["p"] for row in rows]
    assert isinstance(p[0], float)
    assert isinstance(p[1], float)
    assert p[0] < p[1] < 2 * p[0]
    assert [2 * p[0], 2 * p[0], None] == [row["p after Holm"] for row in rows]
    assert "no run reached the threshold" == rows[2]["remark"]


def test_a_label_without_planned_runs_has_a_row() -> None:
    """A label without planned runs has rows with the reason in both tables."""
    rows = [r for r in rows_of(SAMPLES["task_missing"]()) if r["task"] == PENDULUM]
    assert ("dqn", "0 of 0", None, "no run planned") == tuple(
        rows[2][title] for title in ("label", "runs", "reached", "remark")
    )
    pairs = rows_of(SAMPLES["task_missing"](), "thresholds-pairs")
    assert "no evaluation of dqn" == pairs[-1]["remark"]


def test_tasks_without_a_threshold_are_named() -> None:
    """A task without a declared threshold has no row, and a text names the task."""
    part = part_of(SAMPLES["without_anchors"]())
    assert Text(text="No threshold is declared for Pendulum-v1.") == part.blocks[-1]
    assert {CARTPOLE} == {row["task"] for row in rows_of(SAMPLES["without_anchors"]())}


def test_no_threshold_at_all() -> None:
    """If no task declares a threshold, the section is one sentence."""
    sample = SAMPLES["one_run"]()
    members = [
        replace(m, configuration=replace(m.configuration, reference={})) for m in sample.members
    ]
    expected = (Text(text="No threshold is declared for CartPole-v1."),)
    assert expected == part_of(evidence(members)).blocks


@pytest.mark.parametrize("sample", ["one_run", "one_label"])
def test_one_label_has_no_pairs(sample: str) -> None:
    """A single label has no table of pairs."""
    names = [b.name for b in part_of(SAMPLES[sample]()).blocks if isinstance(b, Table)]
    assert ["thresholds"] == names


def test_nothing_run_has_rows_of_dashes() -> None:
    """Without a run there is no figure, and each label has a row with the reason."""
    part = part_of(SAMPLES["nothing_run"]())
    assert not [b for b in part.blocks if isinstance(b, LineFigure)]
    rows = rows_of(SAMPLES["nothing_run"]())
    assert ["ppo", "a2c"] == [row["label"] for row in rows]
    assert ["3 without an evaluation (3 planned)"] * 2 == [row["remark"] for row in rows]


def test_an_experiment_without_runs_has_no_part() -> None:
    """An experiment without planned runs has no section on time to threshold."""
    assert TimeToThresholdSection().part(inquiry(SAMPLES["empty"]())) is None


@given(st.integers(0, 10_000), st.sampled_from(sorted(SAMPLES)))
def test_the_order_of_the_runs_does_not_matter(seed: int, sample: str) -> None:
    """The same runs in another order give the same section."""
    original = SAMPLES[sample]()
    expected = TimeToThresholdSection().part(inquiry(original))
    assert expected == TimeToThresholdSection().part(inquiry(reordered(original, seed)))
