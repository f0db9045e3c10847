"""What runs cost, in a report."""

from dataclasses import replace

from evidence_samples import (
    CARTPOLE,
    configured,
    evidence,
    incomplete,
    inquiry,
    nothing_run,
    scored,
)
from part_blocks import column, part_of, table, texts

from rlexp.protocol.budget import Compute
from rlexp.reports.sections.cost import Cost


def test_cost_by_hand() -> None:
    """Two runs of 11,000 steps and 5 seconds on 2 threads each."""
    own = replace(configured(), compute=Compute(threads=2, device="cpu"))
    found = table(part_of(Cost(), evidence(scored(own, [1.0, 2.0]))), "cost")
    expected = (CARTPOLE, "ppo", 2, 2, 22_000, 20 / 3600, 10 / 3600, 5.0)
    assert expected == found.rows[0]
    assert ("all", None, *expected[2:]) == found.rows[1]


def test_the_text_sums_up() -> None:
    """Steps and core-hours of all runs."""
    text = texts(part_of(Cost(), evidence(scored(configured(), [1.0] * 36))))[0]
    assert "36 runs took 396,000 environment steps and 0.05 core-hours." == text


def test_only_runs_that_were_started_cost_something() -> None:
    """Failed and interrupted ones among them."""
    own = table(part_of(Cost(), incomplete()), "cost")
    assert [5, 3, 5, 5, 5, 5, 28] == column(own, "runs")
    assert 5 * 5500 * 10 + 3000 + 11_000 == column(own, "environment steps")[-1]


def test_earlier_attempts_are_counted_and_their_time_is_not() -> None:
    """The text says so."""
    member = scored(configured(), [1.0])[0]
    again = replace(member, record=replace(member.record, attempts=3))
    own = part_of(Cost(), evidence([again]))
    assert [3, 3] == column(table(own, "cost"), "attempts")
    assert "besides 2 earlier attempts, whose time is not counted" in texts(own)[0]


def test_a_run_of_unknown_time_is_said() -> None:
    """It is not a run of no time."""
    first, second = scored(configured(), [1.0, 2.0])
    untimed = replace(second, record=replace(second.record, seconds=None))
    own = part_of(Cost(), evidence([first, untimed]))
    assert "; of 1 run no time is known" in texts(own)[0]
    assert [5 / 3600] * 2 == column(table(own, "cost"), "hours of runs")
    alone = table(part_of(Cost(), evidence([untimed])), "cost")
    assert (None, None, None) == alone.rows[0][-3:]


def test_nothing_run_costs_nothing() -> None:
    """There is no part."""
    assert None is Cost().part(inquiry(nothing_run()))
