"""The cost of runs in a report."""

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
from sweep_samples import just_begun, searching, swept, swept_evidence, two_sweeps

from rlexp.protocol.budget import Compute
from rlexp.records.system_metrics import SystemUsage
from rlexp.reports.sections.cost import CostSection

NAMES = ("sample", "other")


def test_cost_by_hand() -> None:
    """The cost of two runs of 11,000 steps and 5 seconds on 2 threads each."""
    configuration = replace(configured(), compute=Compute(threads=2, device="cpu"))
    cost_table = table(part_of(CostSection(), evidence(scored(configuration, [1.0, 2.0]))), "cost")
    expected = (CARTPOLE, "ppo", 2, 2, 22_000, 20 / 3600, 10 / 3600, 5.0)
    assert expected == cost_table.rows[0]
    assert ("all", None, *expected[2:]) == cost_table.rows[1]


def test_measured_runs_have_a_table_of_their_machine() -> None:
    """The table has the mean of the processor and the largest peak; GPUs only where there are any."""
    usage = SystemUsage(
        measurements=3,
        processor_percent=90.0,
        peak_memory_bytes=200_000_000,
        gpu_utilization_percent=None,
        peak_gpu_memory_bytes=None,
    )
    members = scored(configured(), [1.0, 2.0, 3.0])
    busier = replace(usage, processor_percent=110.0, peak_memory_bytes=300_000_000)
    measured = [replace(members[0], system=usage), replace(members[1], system=busier), members[2]]
    system = table(part_of(CostSection(), evidence(measured)), "system")
    assert (CARTPOLE, "ppo", 2, 6, 100.0, 300.0) == system.rows[0]
    assert len(system.columns) == len(system.rows[0])
    on_gpu = replace(usage, gpu_utilization_percent=40.0, peak_gpu_memory_bytes=5_000_000)
    measured[0] = replace(members[0], system=on_gpu)
    system = table(part_of(CostSection(), evidence(measured)), "system")
    assert (40.0, 5.0) == system.rows[0][-2:]
    unmeasured = part_of(CostSection(), evidence(members))
    assert "system" not in [getattr(block, "name", None) for block in unmeasured.blocks]


def test_the_text_sums_up() -> None:
    """The text has the environment steps and core-hours of all runs."""
    text = texts(part_of(CostSection(), evidence(scored(configured(), [1.0] * 36))))[0]
    assert "36 runs used 396,000 environment steps and 0.05 core-hours." == text


def test_only_runs_that_were_started_cost_something() -> None:
    """Started runs count, including failed and interrupted ones."""
    cost_table = table(part_of(CostSection(), incomplete()), "cost")
    assert [5, 3, 5, 5, 5, 5, 28] == column(cost_table, "runs")
    assert 5 * 5500 * 10 + 3000 + 11_000 == column(cost_table, "environment steps")[-1]


def test_every_attempt_is_part_of_the_cost() -> None:
    """The steps and the time of all three attempts count."""
    member = scored(configured(), [1.0])[0]
    record = replace(member.record, attempts=3, spent=15_000, seconds_spent=9.0)
    part = part_of(CostSection(), evidence([replace(member, record=record)]))
    assert [3, 3] == column(table(part, "cost"), "attempts")
    assert [15_000, 15_000] == column(table(part, "cost"), "environment steps")
    assert [9 / 3600] * 2 == column(table(part, "cost"), "run hours")
    assert "1 run used 15,000 environment steps" in texts(part)[0]
    assert "core-hours, including 2 further attempts." in texts(part)[0]


def test_a_run_of_unknown_time_is_named() -> None:
    """A run of unknown time has no time instead of 0."""
    first, second = scored(configured(), [1.0, 2.0])
    record = replace(second.record, seconds=None, seconds_spent=0.0)
    untimed = replace(second, record=record)
    part = part_of(CostSection(), evidence([first, untimed]))
    assert "; the time of 1 run is not completely known" in texts(part)[0]
    assert [5 / 3600] * 2 == column(table(part, "cost"), "run hours")
    untimed_table = table(part_of(CostSection(), evidence([untimed])), "cost")
    assert (None, None, None) == untimed_table.rows[0][-3:]


def test_nothing_run_costs_nothing() -> None:
    """Without started runs there is no section on cost."""
    assert None is CostSection().part(inquiry(nothing_run()))


def test_the_phases_of_a_sweep_by_hand() -> None:
    """The phases of a sweep sum to an hour on one thread."""
    phases_table = table(part_of(CostSection(), swept()), "phases")
    assert ["tuning", "selection", "test", "all"] == column(phases_table, "phase")
    assert [160_000, 88_000, 110_000, 358_000] == column(phases_table, "environment steps")
    assert [18, 8, 10, 36] == column(phases_table, "runs")
    assert (
        [0.5, 0.25, 0.25, 1.0]
        == column(phases_table, "core-hours")
        == column(phases_table, "run hours")
    )
    assert 160 / 358 == column(phases_table, "share of the steps")[0]


def test_threads_count_in_the_phases() -> None:
    """Two threads double the core-hours; an unknown number of threads gives none."""
    sample = swept()
    first = sample.experiments[0]
    with_two_threads = [
        replace(c, compute=Compute(threads=2, device="cpu")) for c in first.configurations
    ]
    doubled = replace(
        sample, experiments=(replace(first, configurations=tuple(with_two_threads)),)
    )
    assert 2.0 == column(table(part_of(CostSection(), doubled), "phases"), "core-hours")[-1]
    mixed_experiment = replace(first, configurations=(*first.configurations, *with_two_threads))
    phases_table = table(
        part_of(CostSection(), replace(sample, experiments=(mixed_experiment,))), "phases"
    )
    assert [None] * 4 == column(phases_table, "core-hours")


def test_a_search_costs_something_before_the_first_test_run() -> None:
    """A started search has a table of phases, an unstarted one has none."""
    part = part_of(CostSection(), searching())
    assert ["tuning", "all"] == column(table(part, "phases"), "phase")
    assert None is CostSection().part(inquiry(just_begun()))


def test_phases_without_steps_have_no_shares() -> None:
    """A phase whose runs failed at once has no share of the steps."""
    costs = {"tuning": replace(swept_evidence().costs["tuning"], steps=0)}
    sample = replace(searching(), sweeps=(swept_evidence(costs=costs),))
    assert [None, None] == column(
        table(part_of(CostSection(), sample), "phases"), "share of the steps"
    )


def test_several_sweeps_have_separate_tables() -> None:
    """Each sweep has a table with its own steps."""
    part = part_of(CostSection(), two_sweeps())
    steps = [column(table(part, f"phases-{name}"), "environment steps")[-1] for name in NAMES]
    assert [358_000, 1_074_000] == steps
