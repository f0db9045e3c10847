"""Blocks of a report with plain numbers, made by hand."""

import math
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

from rlexp.reports.drawing.blocks import (
    Axis,
    Block,
    Callout,
    FigureLine,
    IntervalFigure,
    IntervalMark,
    LineFigure,
    Matrix,
    Panel,
    Table,
    TableColumn,
    Text,
    Tone,
)
from rlexp.stats.interval import Interval

Shown = TypeVar("Shown", Table, IntervalFigure)
STEPS = tuple(1000.0 * k for k in range(0, 101, 2))


def interval(estimate: float, half: float, *, n: int = 10, coverage: float = 0.94) -> Interval:
    """A symmetric interval."""
    return Interval(
        estimate=estimate,
        low=estimate - half,
        high=estimate + half,
        level=0.95,
        method="t",
        repetitions=50_000,
        n=n,
        tasks=3,
        seed=0,
        coverage=coverage,
    )


def impossible(estimate: float) -> Interval:
    """The estimate of one run, which has no interval."""
    return Interval(
        estimate=estimate,
        low=None,
        high=None,
        level=0.95,
        method="t",
        repetitions=0,
        n=1,
        reason="one run has no spread; a second seed would give an interval",
    )


def dots(centre: float, spread: float, n: int) -> tuple[float, ...]:
    """Scores of runs around a centre."""
    return tuple(centre + spread * math.sin(2.4 * k + 0.3) for k in range(n))


def curve(label: str, height: float, rate: float, *, band: float = 0.06) -> FigureLine:
    """A learning curve that rises to a height, at a rate in 1 / 100,000 steps."""
    y = [
        height * (1 - math.exp(-rate * x / 1e5)) + 0.01 * height * math.sin(x / 4e3) for x in STEPS
    ]
    half = [band * height * (0.5 + math.exp(-x / 4e4)) for x in STEPS]
    low = tuple(round(v - h, 4) for v, h in zip(y, half, strict=True))
    high = tuple(round(v + h, 4) for v, h in zip(y, half, strict=True))
    return FigureLine(label=label, x=STEPS, y=tuple(round(v, 4) for v in y), low=low, high=high)


def single_runs(line: FigureLine, n: int) -> tuple[FigureLine, ...]:
    """Faint lines of single runs around an aggregate."""
    return tuple(
        replace(
            line,
            y=tuple(None if v is None else v * (1 + 0.09 * math.sin(2.4 * k)) for v in line.y),
            low=None,
            high=None,
            faint=True,
        )
        for k in range(n)
    )


def learning_curves(labels: tuple[str, ...], task: str, number: int, runs: int = 5) -> LineFigure:
    """Curves of each label on a task, each with a few single runs and a threshold."""
    ceiling = (1.0, 500.0, 260.0)[number % 3]
    means = [curve(name, ceiling * 0.87**k, 6 * 0.8**k) for k, name in enumerate(labels)]
    return LineFigure(
        name=f"curves-{number}",
        title=task,
        x=Axis(title="environment steps", low=0.0, high=1e5),
        y=Axis(title="mean return"),
        lines=tuple(run for line in means for run in (*single_runs(line, runs), line)),
        marks=(("solved", 0.9 * ceiling),),
        note="IQM over runs with a 95 % band; single runs behind it.",
    )


def profile(labels: tuple[str, ...]) -> LineFigure:
    """A performance profile, drawn as a step line."""
    x = tuple(k / 40 for k in range(49))
    lines = []
    for k, label in enumerate(labels):
        y = tuple(round(1 / (1 + math.exp(9 * (v - 0.85 + 0.1 * k))), 4) for v in x)
        low, high = tuple(max(0.0, v - 0.06) for v in y), tuple(min(1.0, v + 0.06) for v in y)
        lines.append(FigureLine(label=label, x=x, y=y, low=low, high=high, steps=True))
    return LineFigure(
        name="profiles",
        title="Share of runs that score more than τ",
        x=Axis(title="normalised score τ"),
        y=Axis(title="share of runs", low=0.0, high=1.0),
        lines=tuple(lines),
    )


def forest(
    labels: tuple[str, ...], name: str = "aggregates-figure", runs: int = 10
) -> IntervalFigure:
    """A forest plot with four statistics side by side."""
    panels = []
    for p, statistic in enumerate(("IQM", "median", "mean", "optimality gap")):
        centres = [0.9 - 0.11 * k - 0.04 * p for k in range(len(labels))]
        marks = tuple(
            IntervalMark(
                label=label, interval=interval(c, 0.05 + 0.01 * p), dots=dots(c, 0.08, runs)
            )
            for label, c in zip(labels, centres, strict=True)
        )
        marked_values = (("solved", 1.0),) if p == 0 else ()
        axis = Axis(title="normalised score")
        panels.append(Panel(title=statistic, axis=axis, marks=marks, marked=marked_values))
    return IntervalFigure(
        name=name, title="Aggregates", panels=tuple(panels), note="Dots are runs."
    )


def matrix(labels: tuple[str, ...]) -> Matrix:
    """The probability that the label of a row beats the label of a column."""
    span = max(1, len(labels) - 1)
    rows = [
        tuple(None if i == j else interval(0.5 + 0.42 * (j - i) / span, 0.07) for j in columns)
        for i, columns in ((i, range(len(labels))) for i in range(len(labels)))
    ]
    return Matrix(
        name="improvement",
        title="Probability of improvement",
        labels=labels,
        values=tuple(rows),
        note="How often a run of the row beats a run of the column.",
    )


def aggregates(labels: tuple[str, ...]) -> Table:
    """A row per label with intervals, one of which is known to be too narrow."""
    columns = (
        TableColumn(title="label", label=True),
        TableColumn(title="runs", digits=0),
        TableColumn(title="IQM", digits=3),
        TableColumn(title="mean", digits=3),
        TableColumn(title="steps", digits=0),
        TableColumn(title="failed", digits=0),
    )
    rows = [
        (
            label,
            30,
            interval(0.9 - 0.1 * k, 0.05),
            interval(0.8, 0.1, coverage=0.88),
            3_000_000,
            None,
        )
        for k, label in enumerate(labels)
    ]
    return Table(name="aggregates", title="Aggregates", columns=columns, rows=tuple(rows))


def verdicts(labels: tuple[str, ...]) -> tuple[Block, ...]:
    """A question, and a verdict for each pair of neighbouring labels."""
    tones = (Tone.GOOD, Tone.NOTE, Tone.WARNING, Tone.PROBLEM)
    return (
        Text(text=f"Which of {len(labels)} algorithms learns best within 100,000 steps?"),
        *(
            Callout(
                tone=tones[k % 4],
                text=f"{a} is better than {b} (p = 0.0{k + 1} after Holm, Cliff’s δ = 0.6).",
            )
            for k, (a, b) in enumerate(pairwise(labels))
        ),
    )


def checklist() -> Table:
    """A table with texts, booleans and a missing value."""
    return Table(
        name="checklist",
        title="Reproducibility checklist",
        columns=(
            TableColumn(title="item"),
            TableColumn(title="done"),
            TableColumn(title="evidence"),
        ),
        rows=(
            ("Test seeds were never tuned on", True, "tuning 0–2, test 3–12"),
            ("The working tree was clean", False, "2 files differ; see provenance"),
            ("Hardware is stated", True, None),
        ),
        note="After Eimer et al. (2023).",
    )


def without_intervals(block: Shown) -> Shown:
    """The block of a study with one run, which has estimates without intervals."""
    if isinstance(block, Table):
        rows = tuple(
            tuple(impossible(v.estimate) if isinstance(v, Interval) else v for v in row)
            for row in block.rows
        )
        return replace(block, rows=rows)
    panels = tuple(
        replace(
            panel,
            marks=tuple(
                replace(m, interval=impossible(m.interval.estimate), dots=m.dots[:1])
                for m in panel.marks
            ),
        )
        for panel in block.panels
    )
    return replace(block, panels=panels)
