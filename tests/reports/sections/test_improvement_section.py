"""The probability of improvement in a report."""

import pytest
from evidence_samples import (
    CARTPOLE,
    PENDULUM,
    SAMPLES,
    inquiry,
    of_scores,
    reordered,
    typical,
)
from hypothesis import given
from hypothesis import strategies as st

from rlexp.reports.drawing.blocks import Callout, Matrix, SectionContent, Table
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.sections.improvement import ImprovementSection, mirrored
from rlexp.stats.interval import Interval


def part_of(evidence: Evidence) -> SectionContent:
    """The section on the probability of improvement, which must exist."""
    part = ImprovementSection().part(inquiry(evidence))
    assert part is not None
    return part


def table_of(evidence: Evidence) -> Table:
    """The table of the section."""
    return next(b for b in part_of(evidence).blocks if isinstance(b, Table))


def matrix_of(evidence: Evidence) -> Matrix:
    """The matrix of the section, which must exist."""
    return next(b for b in part_of(evidence).blocks if isinstance(b, Matrix))


def estimate(cell: Interval | None) -> float:
    """The estimate of a cell, which must have one."""
    assert cell is not None
    return cell.estimate


def test_wins_are_counted_by_hand() -> None:
    """The first label wins 3 and draws 1 of 3 × 2 pairs of runs."""
    scores = {("ppo", CARTPOLE): [100.0, 200.0, 300.0], ("a2c", CARTPOLE): [200.0, 150.0]}
    matrix = matrix_of(of_scores(scores))
    assert ("ppo", "a2c") == matrix.labels
    assert matrix.values[0][0] is None
    assert 3.5 / 6 == pytest.approx(estimate(matrix.values[0][1]))
    assert 2.5 / 6 == pytest.approx(estimate(matrix.values[1][0]))


def test_tasks_weigh_the_same_on_their_own_scales() -> None:
    """Tasks have the same weight, for returns of any size."""
    scores = {
        ("ppo", CARTPOLE): [300.0, 310.0],
        ("a2c", CARTPOLE): [100.0, 110.0, 120.0],
        ("ppo", PENDULUM): [-900.0, -910.0],
        ("a2c", PENDULUM): [-200.0, -210.0],
    }
    assert 0.5 == estimate(matrix_of(of_scores(scores)).values[0][1])
    assert ("ppo", "a2c", 4, 5, "2 of 2") == tuple(
        v for k, v in enumerate(table_of(of_scores(scores)).rows[0]) if k != 2
    )


def test_mirrored_turns_the_ends() -> None:
    """The complement exchanges the ends of the interval."""
    interval = Interval(
        estimate=0.7, low=0.5, high=0.8, level=0.95, method="m", repetitions=9, n=4, seed=1
    )
    complement = mirrored(interval)
    assert (0.3, 0.2, 0.5) == pytest.approx((complement.estimate, complement.low, complement.high))
    assert (0.95, "m", 9, 4, 1) == (
        complement.level,
        complement.method,
        complement.repetitions,
        complement.n,
        complement.seed,
    )


def test_an_impossible_interval_stays_impossible_mirrored() -> None:
    """The complement of an estimate without an interval has none."""
    cell = matrix_of(SAMPLES["one_seed"]()).values[1][0]
    assert cell is not None
    assert (None, None) == (cell.low, cell.high)
    assert "shows no spread" in (cell.reason or "")


def test_only_common_tasks_count() -> None:
    """A pair is compared on tasks with scores of both labels, and the table names the others."""
    rows = table_of(SAMPLES["task_missing"]()).rows
    assert ("ppo", "a2c", 10, 10, "2 of 2") == (*rows[0][:2], *rows[0][3:])
    remark = "1 of 2: without Pendulum-v1, where one label has no score"
    assert ("a2c", "dqn", 5, 5, remark) == (*rows[2][:2], *rows[2][3:])


def test_separated_labels_give_one_notice() -> None:
    """Labels without overlap of scores share one notice about their intervals."""
    notices = [b.text for b in part_of(typical()).blocks if isinstance(b, Callout)]
    assert 1 == len(notices)
    assert notices[0].startswith("ppo against a2c and ppo against dqn: ")


@pytest.mark.parametrize("sample", ["all_failed", "nothing_run"])
def test_without_scores_there_are_dashes(sample: str) -> None:
    """Without scores there is no matrix, and the table has the pair with the reason."""
    part = part_of(SAMPLES[sample]())
    assert not [b for b in part.blocks if isinstance(b, Matrix)]
    remark = "0 of 1: without CartPole-v1, where one label has no score"
    assert ("ppo", "a2c", None, 0, 0, remark) == table_of(SAMPLES[sample]()).rows[0]


@pytest.mark.parametrize("sample", ["one_label", "one_run", "empty"])
def test_one_label_has_no_such_part(sample: str) -> None:
    """With fewer than two labels there is no such section."""
    assert ImprovementSection().part(inquiry(SAMPLES[sample]())) is None


@given(st.integers(0, 10_000), st.sampled_from(sorted(SAMPLES)))
def test_the_order_of_the_runs_does_not_matter(seed: int, sample: str) -> None:
    """The same runs in another order give the same section."""
    evidence = SAMPLES[sample]()
    expected = ImprovementSection().part(inquiry(evidence))
    assert expected == ImprovementSection().part(inquiry(reordered(evidence, seed)))
