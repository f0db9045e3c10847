"""Generalisation in a report: the gap, the worst contexts, and tests that differ."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from evidence_samples import CARTPOLE, configured, evidence, inquiry, typical
from hypothesis import given, settings
from hypothesis import strategies as st
from measured_samples import (
    GRID,
    contexts,
    grid_tested,
    levels,
    on_contexts,
    one_measured_run,
    one_parameter,
    only_held_out,
    other_grids,
    partly_measured,
    played_out,
    sampled,
)
from part_blocks import column, notices, of_kind, part_of, table

from rlexp.protocol.seeds import Phase
from rlexp.reports.drawing.blocks import HeatMap, IntervalFigure, LineFigure, Table, Tone
from rlexp.reports.evidence.runs import Evidence, PlannedRun
from rlexp.reports.sections.definitions import DefinitionsSection
from rlexp.reports.sections.generalisation import GeneralisationSection
from rlexp.stats.interval import Interval

RETURNS = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=6)


def section(**changes: Any) -> GeneralisationSection:
    """The section with its default settings and these changes."""
    defaults: dict[str, Any] = {"tail": 0.1, "mastery": None, "parameters": None, "bins": 6}
    return GeneralisationSection(**{**defaults, **changes})


def estimates(block: Table, title: str) -> list[float]:
    """Estimates in the column with this title."""
    return [value.estimate for value in column(block, title) if isinstance(value, Interval)]


def on_levels(returns: Sequence[Sequence[float]], **fields: Any) -> Evidence:
    """Runs of one label with an episode on each of a list of levels."""
    episode_levels = {"context/level": tuple(float(k) for k in range(len(returns[0])))}
    return evidence(
        played_out(configured(**fields), seed, run_returns, episode_levels)
        for seed, run_returns in enumerate(returns)
    )


def test_the_gap_by_hand() -> None:
    """The gap is in distribution minus held out per run, averaged over runs."""
    runs = [([1.0, 3.0], [10.0]), ([2.0, 4.0], [14.0]), ([3.0, 5.0], [15.0])]
    sample = evidence(
        played_out(configured(), seed, held_out, known=in_distribution)
        for seed, (held_out, in_distribution) in enumerate(runs)
    )
    gap_table = table(part_of(section(), sample), "generalisation")
    assert [[13.0], [3.0], [10.0]] == [
        estimates(gap_table, title) for title in ("in distribution", "held out", "gap")
    ]
    gap = column(gap_table, "gap")[0]
    assert isinstance(gap, Interval)
    assert (3, 0, "t with bootstrap standard error") == (gap.n, gap.seed, gap.method)
    assert gap.low is not None


def test_the_shift_of_training_is_a_mean_over_runs() -> None:
    """Runs that recorded a shift are averaged, and a remark says how many did not."""
    runs = [played_out(configured(), seed, [1.0], known=[2.0]) for seed in range(4)]
    with_shift = [
        replace(run, record=replace(run.record, training_shift=shift))
        for run, shift in zip(runs, (0.1, 0.2, 0.6, None), strict=True)
    ]
    shifts = table(part_of(section(), evidence(with_shift)), "generalisation-shift")
    assert [0.3] == pytest.approx(estimates(shifts, "shift in bits"))
    assert ["1 run without a recorded shift"] == column(shifts, "remark")
    without = part_of(section(), evidence(runs))
    assert not [t for t in of_kind(without, Table) if t.name == "generalisation-shift"]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(RETURNS, RETURNS), min_size=1, max_size=5))
def test_the_paired_gap_is_the_difference_of_the_means(
    runs: list[tuple[list[float], list[float]]],
) -> None:
    """The mean gap equals the difference of the means, for any runs and numbers of episodes."""
    sample = evidence(
        played_out(configured(task="Pendulum-v1"), seed, held_out, known=in_distribution)
        for seed, (held_out, in_distribution) in enumerate(runs)
    )
    part = part_of(section(), sample, repetitions=100)
    in_distribution, on_held_out, gap = (
        estimates(table(part, "generalisation"), title)[0]
        for title in ("in distribution", "held out", "gap")
    )
    assert in_distribution - on_held_out == pytest.approx(gap, abs=1e-9)
    assert len(runs) == len(of_kind(part, IntervalFigure)[0].panels[0].marks[0].dots)


def test_the_interval_of_the_gap_is_paired() -> None:
    """Runs with different returns and similar gaps have a narrow interval of the gap."""
    sample = evidence(
        played_out(configured(), seed, [100.0 * seed], known=[100.0 * seed + 10 + seed])
        for seed in range(4)
    )
    gap_table = table(part_of(section(), sample), "generalisation")
    widths = {}
    for title in ("held out", "gap"):
        value = column(gap_table, title)[0]
        assert isinstance(value, Interval)
        assert value.low is not None
        assert value.high is not None
        widths[title] = value.high - value.low
    assert widths["gap"] < 0.05 * widths["held out"]


def test_worst_case_and_tail_by_hand() -> None:
    """Worst case and tail are computed per run, then averaged over runs."""
    sample = on_levels([[1.0, 2.0, 3.0, 10.0], [9.0, 4.0, 3.0, 8.0]])
    contexts_table = table(part_of(section(tail=0.5), sample), "generalisation-contexts")
    assert [2.0] == estimates(contexts_table, "worst case")
    assert [2.5] == estimates(contexts_table, "CVaR 50 %")
    assert ([4], [1]) == (
        column(contexts_table, "contexts"),
        column(contexts_table, "episodes per context"),
    )


def test_tuning_runs_are_not_called_tests() -> None:
    """Text on tuning runs calls no context held out and no context a test context."""
    sample = on_levels([[1.0, 2.0], [3.0, 4.0]])
    members = tuple(
        replace(m, record=replace(m.record, spec=replace(m.record.spec, phase=Phase.TUNING)))
        for m in sample.members
    )
    part = part_of(section(), replace(sample, phase=Phase.TUNING, members=members))
    assert "Worst training contexts" == table(part, "generalisation-contexts").title
    assert (
        "Worst test contexts" == table(part_of(section(), sample), "generalisation-contexts").title
    )
    assert 0 == str(part).count("held out")
    assert 2 == str(part).count("held-out contexts")
    assert "Runs of the tuning phase are scored on training contexts" in str(part)


def test_episodes_of_a_context_are_averaged_before_contexts_are() -> None:
    """All contexts have the same weight, for any number of episodes."""
    episode_levels = {"context/level": (0.0, 0.0, 0.0, 1.0)}
    sample = evidence(
        played_out(configured(), seed, [2.0, 30.0, 40.0, 20.0], episode_levels)
        for seed in range(2)
    )
    contexts_table = table(part_of(section(tail=1.0), sample), "generalisation-contexts")
    assert ([20.0], [22.0]) == (
        estimates(contexts_table, "worst case"),
        estimates(contexts_table, "CVaR 100 %"),
    )
    assert ["1–3"] == column(contexts_table, "episodes per context")


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.lists(st.floats(1, 500), min_size=4, max_size=4), min_size=1, max_size=4),
    st.floats(0.01, 1),
)
def test_the_tail_lies_between_the_worst_case_and_the_mean(
    returns: list[list[float]], tail: float
) -> None:
    """CVaR lies between the worst case and the mean, for any returns."""
    contexts_table = of_kind(
        part_of(section(tail=tail), on_levels(returns), repetitions=100), Table
    )[0]
    worst, tail_mean = (
        value.estimate for value in contexts_table.rows[0] if isinstance(value, Interval)
    )
    assert worst - 1e-9 <= tail_mean <= np.mean(returns) + 1e-9


def test_mastered_contexts_by_hand() -> None:
    """The share of mastered contexts uses a number or the task's threshold, within 0 and 1."""
    sample = on_levels([[1.0, 250.0, 300.0, 480.0], [200.0, 250.0, 475.0, 480.0]])
    with_number = table(part_of(section(mastery=250.0), sample), "generalisation-contexts")
    assert [0.75] == estimates(with_number, "mastered (≥ 250)")
    with_threshold = table(
        part_of(section(mastery="threshold"), sample), "generalisation-contexts"
    )
    assert [0.375] == estimates(with_threshold, "mastered (≥ 475)")
    three_runs = on_levels([[1.0, 250.0, 300.0, 480.0], [200.0, 480.0, 475.0, 480.0], [1.0] * 4])
    with_threshold = table(
        part_of(section(mastery="threshold"), three_runs), "generalisation-contexts"
    )
    share = column(with_threshold, "mastered (≥ 475)")[0]
    assert isinstance(share, Interval)
    assert (0.0, 1.0) == (share.low, share.high)


def test_mastery_needs_a_threshold() -> None:
    """A task without a declared threshold has a remark."""
    sample = on_levels([[1.0, 2.0]])
    members = [
        replace(m, configuration=replace(m.configuration, reference={})) for m in sample.members
    ]
    contexts_table = table(
        part_of(section(mastery="threshold"), evidence(members)), "generalisation-contexts"
    )
    assert (["no threshold is declared"], [None]) == (
        column(contexts_table, "remark"),
        column(contexts_table, "mastered"),
    )


def test_levels_have_no_map() -> None:
    """Numbered levels have a worst case and no map."""
    part = part_of(section(), levels())
    assert [] == [*of_kind(part, HeatMap), *of_kind(part, LineFigure)]
    assert [10.0, 10.0] == estimates(table(part, "generalisation-contexts"), "worst case")


def test_what_is_held_out_without_contexts_has_a_gap_alone() -> None:
    """A component that acts only in the test gives a gap without contexts."""
    part = part_of(section(), only_held_out())
    assert ["generalisation"] == [block.name for block in of_kind(part, Table)]


def test_contexts_that_training_has_too_have_no_gap() -> None:
    """Without held-out contexts the worst contexts are still reported."""
    part = part_of(section(), on_levels([[1.0, 2.0], [2.0, 3.0]]))
    assert ["generalisation-contexts"] == [block.name for block in of_kind(part, Table)]


def test_runs_that_are_left_out_are_named() -> None:
    """The remark names failed and planned runs, and runs without contexts; n counts the others."""
    part = part_of(section(), partly_measured())
    gap_table = table(part, "generalisation")
    assert ["5 of 5", "1 of 5", "0 of 1"] == column(gap_table, "runs")
    expected = "1 failed (nan), 1 interrupted; 2 runs not played in distribution"
    assert [None, expected, "1 planned"] == column(gap_table, "remark")
    assert gap_table.note.endswith(
        "Failed runs of a2c on CartPole-v1 count in the scores, but are left out here."
    )
    contexts_table = table(part, "generalisation-contexts")
    assert ["5 of 5", "2 of 5"] == column(contexts_table, "runs")
    assert (
        "1 failed (nan), 1 interrupted; 1 run without contexts"
        == column(contexts_table, "remark")[1]
    )


def test_runs_of_different_environments_are_refused() -> None:
    """A label whose runs had different tests has a problem instead of estimates."""
    runs = [on_contexts("ppo", seed, GRID) for seed in range(3)]
    part = part_of(section(), evidence([*runs[:2], _in_other_environment(runs[2])]))
    ((tone, text),) = notices(part)
    assert tone is Tone.PROBLEM
    assert text.startswith("No generalisation of ppo on CartPole-v1: its runs use diff")
    assert [] == of_kind(part, HeatMap)
    assert [None] == column(table(part, "generalisation"), "gap")


def _in_other_environment(member: PlannedRun) -> PlannedRun:
    spec = member.record.spec
    changed_spec = replace(spec, environment={**spec.environment, "components": {"context": 1}})
    return replace(member, record=replace(member.record, spec=changed_spec))


def test_runs_over_different_parameters_are_refused() -> None:
    """A label whose tests vary different parameters has a problem instead of estimates."""
    first = on_contexts("ppo", 0, GRID)
    second = on_contexts("ppo", 1, GRID, names=("gravity", "wind"))
    ((tone, text),) = notices(part_of(section(), evidence([first, second])))
    assert tone is Tone.PROBLEM
    assert text.endswith("different parameters (gravity and length; gravity and wind).")


def test_labels_with_other_grids_are_warned_of() -> None:
    """Labels with different grids of contexts give a warning."""
    ((tone, text),) = notices(part_of(section(), other_grids()))
    assert tone is Tone.WARNING
    assert "ppo and a2c were tested differently on CartPole-v1: each in separate contexts" in text


def test_samples_of_one_distribution_give_no_warning() -> None:
    """Sampled contexts that differ between runs give a remark and no warning."""
    part = part_of(section(), sampled())
    assert [] == notices(part)
    remarks = column(table(part, "generalisation-contexts"), "remark")
    assert ["the contexts differ between runs"] * 2 == remarks


def test_samples_of_other_ranges_are_warned_of() -> None:
    """Samples with less than half of their joint range in common give a warning."""
    generator = np.random.default_rng(0)

    def sample_contexts(low: float, high: float) -> list[tuple[float, ...]]:
        return [(float(g), 0.5 + 0.01 * k) for k, g in enumerate(generator.uniform(low, high, 20))]

    sample = evidence(
        on_contexts(label, seed, sample_contexts(low, low + 4))
        for label, low in (("ppo", 8.0), ("a2c", 11.0))
        for seed in range(3)
    )
    ((tone, text),) = notices(part_of(section(), sample))
    assert tone is Tone.WARNING
    assert "were tested differently on CartPole-v1: over gravity from 8" in text


def test_one_run_has_estimates_without_intervals() -> None:
    """The estimates of a single run have a reason instead of an interval."""
    gap = column(table(part_of(section(), one_measured_run()), "generalisation"), "gap")[0]
    assert isinstance(gap, Interval)
    assert (None, "too few runs for an interval (n = 1)") == (gap.low, gap.reason)


def test_other_methods_of_intervals_are_used_where_they_are_asked_for() -> None:
    """The section uses the method of intervals of the report."""
    gap = column(
        table(part_of(section(), one_parameter(), interval="percentile"), "generalisation"), "gap"
    )[0]
    assert isinstance(gap, Interval)
    assert "percentile bootstrap" == gap.method


def test_reports_without_contexts_have_no_part() -> None:
    """A report without contexts has neither the section nor its definitions."""
    assert None is section().part(inquiry(typical()))
    assert not {"generalisation gap", "CVaR", "mastered", "worst case"} & defined_statistics(
        typical()
    )


def test_what_is_used_is_defined() -> None:
    """The gap and the estimates over contexts are defined where the section shows them."""
    statistics = {"generalisation gap", "CVaR", "mastered", "worst case"}
    assert statistics <= defined_statistics(grid_tested())
    assert {"generalisation gap"} == statistics & defined_statistics(only_held_out())
    assert statistics - {"generalisation gap"} == statistics & defined_statistics(
        on_levels([[1.0, 2.0]])
    )


def defined_statistics(sample: Evidence) -> set[Any]:
    """Names of the statistics that a report with this section defines."""
    context = replace(inquiry(sample), sections=("generalisation",))
    part = DefinitionsSection().part(context)
    assert part is not None
    return set(column(table(part, "definitions"), "statistic"))


def test_contexts_are_those_of_the_final_evaluation_alone() -> None:
    """Contexts of episodes in distribution do not count as test contexts."""
    in_distribution = contexts(("gravity",), [(1.0,)])
    member = played_out(
        configured(),
        0,
        [5.0, 6.0],
        contexts(("gravity",), [(2.0,), (3.0,)]),
        known=[1.0],
        known_measures=in_distribution,
    )
    contexts_table = table(part_of(section(), evidence([member])), "generalisation-contexts")
    assert ([2], [5.0]) == (
        column(contexts_table, "contexts"),
        estimates(contexts_table, "worst case"),
    )
    assert [CARTPOLE] == column(contexts_table, "task")
