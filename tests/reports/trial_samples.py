"""Sample sweeps: their history, parallel coordinates and a slice for each parameter."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from rlexp.reports.drawing.blocks import (
    Axis,
    Coordinate,
    FigureLine,
    ParallelFigure,
    PointSeries,
    ReportDocument,
    ScatterFigure,
    SectionContent,
    TrialLine,
)

KINDS = ("complete", "pruned", "failed", "default")
RETURN = Axis(title="mean return")
COORDINATES = (
    Coordinate(title="algorithm.learning_rate", low=1e-5, high=1e-1, log=True),
    Coordinate(title="algorithm.n_steps", low=8.0, high=2048.0, log=True),
    Coordinate(title="algorithm.gamma", low=0.9, high=1.0),
    Coordinate(title="agent.activation", names=("tanh", "relu", "leaky_relu")),
    Coordinate(title="agent.width", low=32.0, high=512.0),
    Coordinate(title="environment.normalise", names=("false", "true")),
)


def shares(number: int, count: int) -> list[float]:
    """This many unordered numbers between 0 and 1 (Weyl's sequence)."""
    return [(0.5 + (number + 1) * (k + 2) * 0.6180339887) % 1 for k in range(count)]


def value_at(coordinate: Coordinate, share: float) -> float:
    """The value of a coordinate at a share of its length."""
    if coordinate.names:
        return float(int(share * len(coordinate.names)))
    low, high = coordinate.low, coordinate.high
    return low * (high / low) ** share if coordinate.log else low + share * (high - low)


def threads(
    count: int, coordinates: Sequence[Coordinate], name_of: Callable[[int], str]
) -> tuple[TrialLine, ...]:
    """Trials, every eleventh without a value, some without the fifth coordinate, two marked."""
    lines = []
    for k in range(count):
        positions = shares(k, len(coordinates))
        pairs = zip(coordinates, positions, strict=True)
        values: list[float | None] = [value_at(c, share) for c, share in pairs]
        if len(values) > 4 and k % 4 == 3:
            values[4] = None
        value = None if k % 11 == 10 else 500.0 * math.exp(-8 * (positions[0] - 0.6) ** 2)
        marked = k in {0, count // 2}
        lines.append(TrialLine(name=name_of(k), values=tuple(values), value=value, marked=marked))
    return tuple(lines)


def kind(number: int, thread: TrialLine) -> int:
    """The index of a trial's kind in `KINDS`."""
    if number == 0:
        return 3
    return 2 if thread.value is None else int(number % 5 == 0)


def clouds(
    trials: Sequence[TrialLine], x: Callable[[int], float | None], kinds: Sequence[str]
) -> tuple[PointSeries, ...]:
    """A cloud for each kind of trial."""
    points = [(x(k), t.value or 0.0, t.name, kind(k, t)) for k, t in enumerate(trials)]
    visible_points = [
        (a, b, name, kind_index) for a, b, name, kind_index in points if a is not None
    ]
    return tuple(
        PointSeries(
            label=label,
            x=tuple(a for a, _, _, kind_index in visible_points if kind_index == k),
            y=tuple(b for _, b, _, kind_index in visible_points if kind_index == k),
            names=tuple(name for _, _, name, kind_index in visible_points if kind_index == k),
        )
        for k, label in enumerate(kinds)
    )


def history(trials: Sequence[TrialLine], kinds: Sequence[str] = KINDS) -> ScatterFigure:
    """The value of every trial, and the best value so far as a step line."""
    steps = tuple(20_000.0 * (k + 1) for k in range(len(trials)))
    values = [thread.value or 0.0 for thread in trials]
    best = tuple(max(values[: k + 1]) for k in range(len(trials)))
    return ScatterFigure(
        name="history",
        title="Optimisation history",
        x=Axis(title="environment steps of the search"),
        y=RETURN,
        clouds=clouds(trials, lambda k: steps[k], kinds),
        lines=(FigureLine(label="best so far", x=steps, y=best, steps=True),),
        marks=(("solved", 475.0),),
        note="Every trial once.",
    )


def slices(
    trials: Sequence[TrialLine], coordinates: Sequence[Coordinate], kinds: Sequence[str] = KINDS
) -> tuple[ScatterFigure, ...]:
    """A scatter plot of the trials' values over each parameter."""
    return tuple(
        ScatterFigure(
            name=f"slice-{k}",
            title=c.title,
            x=Axis(title=c.title, log=c.log),
            y=RETURN,
            clouds=clouds(trials, lambda n, k=k: trials[n].values[k], kinds),  # type: ignore[misc]
            ticks=c.names,
        )
        for k, c in enumerate(coordinates)
    )


def parallel(trials: tuple[TrialLine, ...], coordinates: tuple[Coordinate, ...]) -> ParallelFigure:
    """Parallel coordinates of all trials."""
    return ParallelFigure(
        name="threads",
        title="Parallel coordinates",
        coordinates=coordinates,
        threads=trials,
        colour=RETURN,
        note="Each line is a trial.",
    )


def sweep_of(
    count: int,
    coordinates: tuple[Coordinate, ...] = COORDINATES,
    kinds: Sequence[str] = KINDS,
    name_of: Callable[[int], str] = "trial {}".format,
) -> ReportDocument:
    """A sweep with this many trials."""
    trials = threads(count, coordinates, name_of)
    return ReportDocument(
        title="ppo on CartPole-v1",
        subtitle=f"{count} trials",
        labels=("winner", "default"),
        parts=(
            SectionContent(
                name="course", title="Optimisation history", blocks=(history(trials, kinds),)
            ),
            SectionContent(
                name="together", title="Together", blocks=(parallel(trials, coordinates),)
            ),
            SectionContent(
                name="slices", title="Slices", blocks=slices(trials, coordinates, kinds)
            ),
        ),
        version="0.1.0",
    )


def sweep_with_names(names: Sequence[str]) -> ReportDocument:
    """A sweep whose trials, parameters, choices and kinds have these names."""
    coordinates = tuple(
        replace(c, title=names[k % len(names)], names=tuple(names) if c.names else ())
        for k, c in enumerate(COORDINATES)
    )
    return sweep_of(24, coordinates, names[:4], lambda k: f"{names[k % len(names)]} {k}")


def many_coordinates(count: int) -> ReportDocument:
    """A sweep with this many trials over twelve parameters."""
    coordinates = (*COORDINATES, *(replace(c, title=f"{c.title}_too") for c in COORDINATES))
    return sweep_of(count, coordinates)
