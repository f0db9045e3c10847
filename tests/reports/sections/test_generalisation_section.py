"""Generalisation in a report: the gap, the worst contexts, and what cannot stand together."""

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
    """The section with the settings of its yaml, and changes."""
    plain: dict[str, Any] = {"tail": 0.1, "mastery": None, "parameters": None, "bins": 6}
    return GeneralisationSection(**{**plain, **changes})


def estimates(own: Table, title: str) -> list[float]:
    """Estimates under a title."""
    return [value.estimate for value in column(own, title) if isinstance(value, Interval)]


def on_levels(returns: Sequence[Sequence[float]], **fields: Any) -> Evidence:
    """Runs of one label with an episode on each of a list of levels."""
    played = {"context/level": tuple(float(k) for k in range(len(returns[0])))}
    return evidence(
        played_out(configured(**fields), seed, own, played) for seed, own in enumerate(returns)
    )


def test_the_gap_by_hand() -> None:
    """The gap is in distribution minus held out per run, averaged over runs."""
    runs = [([1.0, 3.0], [10.0]), ([2.0, 4.0], [14.0]), ([3.0, 5.0], [15.0])]
    own = evidence(
        played_out(configured(), seed, held_out, known=known)
        for seed, (held_out, known) in enumerate(runs)
    )
    found = table(part_of(section(), own), "generalisation")
    assert [[13.0], [3.0], [10.0]] == [
        estimates(found, title) for title in ("in distribution", "held out", "gap")
    ]
    gap = column(found, "gap")[0]
    assert isinstance(gap, Interval)
    assert (3, 0, "t with bootstrap standard error") == (gap.n, gap.seed, gap.method)
    assert gap.low is not None


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(RETURNS, RETURNS), min_size=1, max_size=5))
def test_the_paired_gap_is_the_difference_of_the_means(
    runs: list[tuple[list[float], list[float]]],
) -> None:
    """The mean gap equals the difference of the means, for any runs and numbers of episodes."""
    own = evidence(
        played_out(configured(task="Pendulum-v1"), seed, held_out, known=known)
        for seed, (held_out, known) in enumerate(runs)
    )
    found = part_of(section(), own, repetitions=100)
    known, new, gap = (
        estimates(table(found, "generalisation"), title)[0]
        for title in ("in distribution", "held out", "gap")
    )
    assert known - new == pytest.approx(gap, abs=1e-9)
    assert len(runs) == len(of_kind(found, IntervalFigure)[0].panels[0].marks[0].dots)


def test_the_interval_of_the_gap_is_paired() -> None:
    """Runs with different returns and equal losses have a narrow interval of the gap."""
    own = evidence(
        played_out(configured(), seed, [100.0 * seed], known=[100.0 * seed + 10 + seed])
        for seed in range(4)
    )
    found = table(part_of(section(), own), "generalisation")
    widths = {}
    for title in ("held out", "gap"):
        value = column(found, title)[0]
        assert isinstance(value, Interval)
        assert value.low is not None
        assert value.high is not None
        widths[title] = value.high - value.low
    assert widths["gap"] < 0.05 * widths["held out"]


def test_worst_case_and_tail_by_hand() -> None:
    """Worst case and tail are computed per run, then averaged over runs."""
    own = on_levels([[1.0, 2.0, 3.0, 10.0], [9.0, 4.0, 3.0, 8.0]])
    found = table(part_of(section(tail=0.5), own), "generalisation-contexts")
    assert [2.0] == estimates(found, "worst case")
    assert [2.5] == estimates(found, "CVaR 50 %")
    assert ([4], [1]) == (column(found, "contexts"), column(found, "episodes per context"))


def test_tuning_runs_are_not_called_tests() -> None:
    """Text on tuning runs calls no context held out and no context a test context."""
    own = on_levels([[1.0, 2.0], [3.0, 4.0]])
    members = tuple(
        replace(m, record=replace(m.record, spec=replace(m.record.spec, phase=Phase.TUNING)))
        for m in own.members
    )
    found = part_of(section(), replace(own, phase=Phase.TUNING, members=members))
    assert "Worst training contexts" == table(found, "generalisation-contexts").title
    assert "Worst test contexts" == table(part_of(section(), own), "generalisation-contexts").title
    assert 0 == str(found).count("held out")
    assert 2 == str(found).count("held-out contexts")
    assert "Runs of the tuning phase are scored on training contexts" in str(found)


def test_episodes_of_a_context_are_averaged_before_contexts_are() -> None:
    """All contexts have the same weight, for any number of episodes."""
    played = {"context/level": (0.0, 0.0, 0.0, 1.0)}
    own = evidence(
        played_out(configured(), seed, [2.0, 30.0, 40.0, 20.0], played) for seed in range(2)
    )
    found = table(part_of(section(tail=1.0), own), "generalisation-contexts")
    assert ([20.0], [22.0]) == (estimates(found, "worst case"), estimates(found, "CVaR 100 %"))
    assert ["1–3"] == column(found, "episodes per context")


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.lists(st.floats(1, 500), min_size=4, max_size=4), min_size=1, max_size=4),
    st.floats(0.01, 1),
)
def test_the_tail_lies_between_the_worst_case_and_the_mean(
    returns: list[list[float]], tail: float
) -> None:
    """CVaR lies between the worst case and the mean, for any returns."""
    found = of_kind(part_of(section(tail=tail), on_levels(returns), repetitions=100), Table)[0]
    worst, least = (value.estimate for value in found.rows[0] if isinstance(value, Interval))
    assert worst - 1e-9 <= least <= np.mean(returns) + 1e-9


def test_mastered_contexts_by_hand() -> None:
    """The share of mastered contexts uses a number or the task's threshold, within 0 and 1."""
    own = on_levels([[1.0, 250.0, 300.0, 480.0], [200.0, 250.0, 475.0, 480.0]])
    given_ = table(part_of(section(mastery=250.0), own), "generalisation-contexts")
    assert [0.75] == estimates(given_, "mastered (≥ 250)")
    declared = table(part_of(section(mastery="threshold"), own), "generalisation-contexts")
    assert [0.375] == estimates(declared, "mastered (≥ 475)")
    three = on_levels([[1.0, 250.0, 300.0, 480.0], [200.0, 480.0, 475.0, 480.0], [1.0] * 4])
    declared = table(part_of(section(mastery="threshold"), three), "generalisation-contexts")
    share = column(declared, "mastered (≥ 475)")[0]
    assert isinstance(share, Interval)
    assert (0.0, 1.0) == (share.low, share.high)


def test_mastery_needs_a_threshold() -> None:
    """A task without a declared threshold has a remark."""
    own = on_levels([[1.0, 2.0]])
    bare = [replace(m, configuration=replace(m.configuration, reference={})) for m in own.members]
    found = table(part_of(section(mastery="threshold"), evidence(bare)), "generalisation-contexts")
    assert (["no threshold is declared"], [None]) == (
        column(found, "remark"),
        column(found, "mastered"),
    )


def test_levels_have_no_map() -> None:
    """Numbered levels have a worst case and no map."""
    found = part_of(section(), levels())
    assert [] == [*of_kind(found, HeatMap), *of_kind(found, LineFigure)]
    assert [10.0, 10.0] == estimates(table(found, "generalisation-contexts"), "worst case")


def test_what_is_held_out_without_contexts_has_a_gap_alone() -> None:
    """A component that acts only in the test gives a gap without contexts."""
    found = part_of(section(), only_held_out())
    assert ["generalisation"] == [own.name for own in of_kind(found, Table)]


def test_contexts_that_training_has_too_have_no_gap() -> None:
    """Without held-out contexts the worst contexts are still reported."""
    found = part_of(section(), on_levels([[1.0, 2.0], [2.0, 3.0]]))
    assert ["generalisation-contexts"] == [own.name for own in of_kind(found, Table)]


def test_runs_that_are_left_out_are_named() -> None:
    """The remark names failed and planned runs, and runs without contexts; n counts the others."""
    found = part_of(section(), partly_measured())
    gaps = table(found, "generalisation")
    assert ["5 of 5", "1 of 5", "0 of 1"] == column(gaps, "runs")
    expected = "1 failed (nan), 1 interrupted; 2 runs not played in distribution"
    assert [None, expected, "1 planned"] == column(gaps, "remark")
    assert gaps.note.endswith(
        "Failed runs of a2c on CartPole-v1 count in the scores, but are left out here."
    )
    worst = table(found, "generalisation-contexts")
    assert ["5 of 5", "2 of 5"] == column(worst, "runs")
    assert "1 failed (nan), 1 interrupted; 1 run without contexts" == column(worst, "remark")[1]


def test_runs_of_different_environments_are_refused() -> None:
    """A label whose runs had different tests has a problem instead of estimates."""
    own = [on_contexts("ppo", seed, GRID) for seed in range(3)]
    found = part_of(section(), evidence([*own[:2], _elsewhere(own[2])]))
    ((tone, text),) = notices(found)
    assert tone is Tone.PROBLEM
    assert text.startswith("No generalisation of ppo on CartPole-v1: its runs use diff")
    assert [] == of_kind(found, HeatMap)
    assert [None] == column(table(found, "generalisation"), "gap")


def _elsewhere(member: PlannedRun) -> PlannedRun:
    spec = member.record.spec
    moved = replace(spec, environment={**spec.environment, "components": {"context": 1}})
    return replace(member, record=replace(member.record, spec=moved))


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
    found = part_of(section(), sampled())
    assert [] == notices(found)
    remarks = column(table(found, "generalisation-contexts"), "remark")
    assert ["the contexts differ between runs"] * 2 == remarks


def test_samples_of_other_ranges_are_warned_of() -> None:
    """Samples with less than half of their joint range in common give a warning."""
    generator = np.random.default_rng(0)

    def drawn(low: float, high: float) -> list[tuple[float, ...]]:
        return [(float(g), 0.5 + 0.01 * k) for k, g in enumerate(generator.uniform(low, high, 20))]

    own = evidence(
        on_contexts(label, seed, drawn(low, low + 4))
        for label, low in (("ppo", 8.0), ("a2c", 11.0))
        for seed in range(3)
    )
    ((tone, text),) = notices(part_of(section(), own))
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
    assert not {"generalisation gap", "CVaR", "mastered", "worst case"} & defined(typical())


def test_what_is_used_is_defined() -> None:
    """The gap and the estimates over contexts are defined where the section shows them."""
    words = {"generalisation gap", "CVaR", "mastered", "worst case"}
    assert words <= defined(grid_tested())
    assert {"generalisation gap"} == words & defined(only_held_out())
    assert words - {"generalisation gap"} == words & defined(on_levels([[1.0, 2.0]]))


def defined(own: Evidence) -> set[Any]:
    """Names of the statistics that a report with this section defines."""
    asked = replace(inquiry(own), sections=("generalisation",))
    part = DefinitionsSection().part(asked)
    assert part is not None
    return set(column(table(part, "definitions"), "statistic"))


def test_contexts_are_those_of_the_final_evaluation_alone() -> None:
    """Contexts of episodes in distribution are not test contexts."""
    seen = contexts(("gravity",), [(1.0,)])
    member = played_out(
        configured(),
        0,
        [5.0, 6.0],
        contexts(("gravity",), [(2.0,), (3.0,)]),
        known=[1.0],
        known_measures=seen,
    )
    found = table(part_of(section(), evidence([member])), "generalisation-contexts")
    assert ([2], [5.0]) == (column(found, "contexts"), estimates(found, "worst case"))
    assert [CARTPOLE] == column(found, "task")
