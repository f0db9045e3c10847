"""Losses and other logged metrics in a report."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from curve_samples import run
from evidence_samples import SAMPLES, evidence, inquiry

from rlexp.records.events import Measured
from rlexp.reports.drawing.blocks import LineFigure, SectionContent, Text
from rlexp.reports.evidence.runs import PlannedRun
from rlexp.reports.sections.measurements import POINTS, MeasurementsSection


def logging(seed: int, **metrics: Sequence[float]) -> PlannedRun:
    """A completed run that logged metrics under `train/` every hundred steps."""
    member = run([10.0, 20.0], seed)
    events = tuple(
        Measured(time=100.0 + k, step=100 * k, metrics={f"train/{name}": value})
        for name, values in metrics.items()
        for k, value in enumerate(values, 1)
    )
    return replace(member, record=replace(member.record, measurements=events))


def part_of(*members: PlannedRun, **changes: int) -> SectionContent:
    """The section of these runs, which must exist."""
    part = MeasurementsSection().part(inquiry(evidence(members), **changes))
    assert part is not None
    return part


def figures(part: SectionContent) -> dict[str, LineFigure]:
    """The figures by metric."""
    return {b.y.title: b for b in part.blocks if isinstance(b, LineFigure)}


def texts(part: SectionContent) -> str:
    """The texts of a section."""
    return " ".join(block.text for block in part.blocks if isinstance(block, Text))


def test_each_metric_has_a_figure_with_a_band() -> None:
    """A figure has the interquartile mean of a metric at each step, its band, and n."""
    losses = ([9.0, 1.0], [7.0, 2.0], [5.0, 3.0])
    part = part_of(*(logging(seed, loss=values) for seed, values in enumerate(losses)))
    figure = figures(part)["train/loss"]
    (line,) = figure.lines
    # Of three runs 3/4 of one are cut at each end: (9 + 4 · 7 + 5) / 6 and (1 + 4 · 2 + 3) / 6.
    assert (100.0, 200.0) == line.x
    assert pytest.approx((7.0, 2.0)) == line.y
    assert line.low is not None
    assert "ppo: 3 of 3 runs." == figure.note
    assert () == figure.marks
    assert part.folded


def test_an_imported_metric_is_drawn_once() -> None:
    """The values of an imported metric are in the learning curves already, and no mean return."""
    member = logging(0, loss=[1.0, 2.0])
    source = {"kind": "csv", "returns": "evaluations", "metric": "win rate"}
    spec = replace(member.record.spec, algorithm={"name": "ppo", "imported": source})
    part = part_of(replace(member, record=replace(member.record, spec=spec)))
    assert "eval/mean_reward" not in {*figures(part), *texts(part).split()}


def test_returns_and_clocks_are_left_out() -> None:
    """The mean return is in the learning curves already, and counters of time are no results."""
    member = logging(0, loss=[1.0, 2.0])
    clock = Measured(time=101.0, step=100, metrics={"time/fps": 9.0, "rollout/ep_rew_mean": 3.0})
    later = replace(clock, step=200, metrics={"time/fps": 8.0, "rollout/ep_rew_mean": 4.0})
    events = (*member.record.measurements, clock, later)
    drawn = figures(part_of(replace(member, record=replace(member.record, measurements=events))))
    assert {"train/loss", "rollout/ep_rew_mean"} <= set(drawn)
    assert not {"eval/mean_reward", "time/fps"} & set(drawn)


def test_metrics_without_a_figure_are_named() -> None:
    """Metrics that stay constant, or have one value in each run, are named in a text."""
    part = part_of(*(logging(s, loss=[1.0, 2.0], rate=[0.1, 0.1], kl=[0.5]) for s in range(2)))
    assert not {"train/rate", "train/kl"} & set(figures(part))
    assert "Constant in every run:" in texts(part)
    assert "train/rate" in texts(part)
    assert "Logged at most once in every run: train/kl." in texts(part)


def test_small_figures_have_few_points() -> None:
    """A figure has at most 50 points, or fewer where the settings say so."""
    member = logging(0, loss=[float(k) for k in range(POINTS + 20)])
    for allowed, expected in ((100, POINTS), (10, 10)):
        part = part_of(member, curve_points=allowed)
        assert expected == len(figures(part)["train/loss"].lines[0].x)


def test_without_anything_logged_there_is_no_part() -> None:
    """An experiment without runs has no measurements."""
    assert MeasurementsSection().part(inquiry(SAMPLES["empty"]())) is None
