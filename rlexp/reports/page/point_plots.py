"""Plots of the page whose layout `point_layout` computes: scatter plots and parallel coordinates.

Points are shapes, positioned in per cent, with curves behind them. In parallel coordinates, all trials of a shade
are one path, and the axes are drawn above it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from rlexp.reports.drawing.axes import Tick
from rlexp.reports.drawing.blocks import ParallelFigure, PointSeries, ScatterFigure
from rlexp.reports.drawing.palette import DASHES, RISING_LIGHT, Style
from rlexp.reports.drawing.point_layout import (
    ParallelLayout,
    PlacedPoint,
    PlacedTrialLine,
    ScatterLayout,
    apart,
    colour_ends,
    coordinate_ticks,
    left_out_note,
    parallel_notes,
    scatter_layout,
    strands,
)
from rlexp.reports.page.curves import CurvePath, axis_data, curve_paths, rounded_values
from rlexp.text import name_with_value, shorten_middle

TICKS = 5
CROWDED_POINTS = (100, 400)
"""Numbers of points in a series above which each point is drawn smaller and fainter."""
ACROSS, LONGEST_TICK = 6, 24
"""Largest number of horizontal tick names, and characters of the longest one."""
DEFAULT_SHAPE = "disc"
HEIGHT = 1000
"""Height of the figure in its units; a coordinate is 2 units wide."""
CROWDED_TRIALS = (50, 300)
"""Numbers of trials above which each trial is drawn fainter."""
LONGEST_CHOICE = 11
LONGEST_NAME = 16
DIGITS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnPoints:
    """The drawn points of a series; `at` are positions in per cent from the left and the top."""

    style: Style
    at: Sequence[tuple[float, float]]

    @property
    def shape(self) -> str:
        """The name of the points' shape."""
        return self.style.shape or DEFAULT_SHAPE

    @property
    def crowd(self) -> int:
        """How faint points are drawn so that overlaps stay visible: 0, 1 or 2."""
        return sum(len(self.at) > few for few in CROWDED_POINTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatterPlot:
    """A scatter plot prepared for the page; it is empty if there is no value to draw.

    Attributes:
        labels: Labels of the point series, then of the lines.
        marks: Name and height (per cent from the top) of each horizontal line.
        data: Numbers that the script shows in tooltips.
    """

    figure: ScatterFigure
    labels: tuple[str, ...]
    x_ticks: Sequence[Tick] = ()
    y_ticks: Sequence[Tick] = ()
    clouds: Sequence[DrawnPoints] = ()
    paths: Sequence[CurvePath] = ()
    marks: Sequence[tuple[str, float]] = ()
    data: Mapping[str, Any] | None = None

    @property
    def dotted(self) -> tuple[str, ...]:
        """Labels whose legend entry is a point."""
        return tuple(cloud.label for cloud in self.figure.clouds)

    @property
    def inside(self) -> bool:
        """Whether no curve leaves the axes; then points and lines on the edge are drawn in full."""
        return all(path.inside for path in self.paths)

    @property
    def upright(self) -> bool:
        """Whether tick names are written vertically, because they are too many or too long."""
        names = self.figure.ticks
        return len(names) > ACROSS or any(len(name) > LONGEST_TICK for name in names)

    @property
    def described(self) -> str:
        """The description for screen readers."""
        counts = ", ".join(f"{len(c.x):,} {c.label}" for c in self.figure.clouds[:8])
        return f"{self.figure.title}: {self.figure.y.title} over {self.figure.x.title}; {counts}"

    @property
    def remark(self) -> str:
        """The number of points that are not shown, in words; empty if all are shown."""
        return left_out_note(self.figure)


def scatter_plot(figure: ScatterFigure, styles: Mapping[str, Style]) -> ScatterPlot:
    """Prepare the curves, and the points in front of them in the order of the series."""
    clouds, lines = figure.clouds, figure.lines
    labels = tuple(dict.fromkeys([*(c.label for c in clouds), *(n.label for n in lines)]))
    drawn = scatter_layout(figure)
    if drawn is None:
        return ScatterPlot(figure=figure, labels=labels)
    x, y = drawn.x, drawn.y
    marks = ((name_with_value(name, value), y.at(value)) for name, value in figure.marks)
    return ScatterPlot(
        figure=figure,
        labels=labels,
        x_ticks=() if figure.ticks else x.ticks(TICKS),
        y_ticks=[Tick(round(100 - t.at, 3), t.text) for t in y.ticks(TICKS)],
        clouds=[
            DrawnPoints(style=styles[cloud.label], at=[_at(point, drawn) for point in points])
            for cloud, points in zip(clouds, drawn.clouds, strict=True)
        ],
        paths=curve_paths(lines, x, y, styles),
        marks=[(name, round(100 - 100 * at, 3)) for name, at in marks if at is not None],
        data={
            "x": axis_data(x, figure.x.title),
            "y": axis_data(y, figure.y.title),
            "ticks": list(figure.ticks),
            "clouds": [
                _points_data(*pair, styles) for pair in zip(clouds, drawn.clouds, strict=True)
            ],
        },
    )


def _at(point: PlacedPoint, drawn: ScatterLayout) -> tuple[float, float]:
    across, up = drawn.x.at(point.x) or 0.0, drawn.y.at(point.y) or 0.0
    return round(100 * across, 2), round(100 - 100 * up, 2)


def _points_data(
    cloud: PointSeries, points: Sequence[PlacedPoint], styles: Mapping[str, Style]
) -> dict[str, Any]:
    style = styles[cloud.label]
    return {
        "label": style.number,
        "shape": style.shape or DEFAULT_SHAPE,
        "x": rounded_values([point.x for point in points]),
        "y": rounded_values([point.y for point in points]),
        "named": [cloud.names[point.number] for point in points],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnCoordinate:
    """A coordinate; `at` is its position in per cent from the left."""

    title: str
    at: float
    x: int
    ticks: Sequence[tuple[float, str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LineBundle:
    """All trials of one shade (or without a value); `dots` are values between two gaps."""

    look: str
    d: str
    dots: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedLine:
    """A marked trial, drawn in front of the others.

    Attributes:
        name_at: Position of its name in per cent from the top.
        leader: Path from its end to its name; empty if it ends before the last coordinate.
    """

    name: str
    full_name: str
    bundle: LineBundle
    dash: int
    name_at: float
    leader: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelPlot:
    """Parallel coordinates prepared for the page; they are empty if there is no value to draw.

    Attributes:
        ends: Texts at the ends of the colour key; None if no trial has a value.
        grey: Whether there is a trial without a value.
        data: Numbers that the script shows in tooltips.
    """

    figure: ParallelFigure
    columns: Sequence[DrawnCoordinate] = ()
    bundles: Sequence[LineBundle] = ()
    marked: Sequence[MarkedLine] = ()
    ends: tuple[str, str] | None = None
    grey: bool = False
    data: Mapping[str, Any] | None = None

    @property
    def box(self) -> str:
        """The view box of the figure in its units."""
        return f"0 0 {2 * len(self.columns)} {HEIGHT}"

    @property
    def shades(self) -> range:
        """All shades of the colour key."""
        return range(len(RISING_LIGHT))

    @property
    def crowd(self) -> int:
        """How faint trials are drawn so that marked ones stay visible: 0, 1 or 2."""
        return sum(len(self.figure.threads) > few for few in CROWDED_TRIALS)

    @property
    def described(self) -> str:
        """The description for screen readers."""
        titles = ", ".join(column.title for column in self.columns)
        marked = "".join(f"; {line.full_name}" for line in self.marked[:8])
        count = f"{len(self.figure.threads):,} lines over {titles}"
        return f"{self.figure.title}: {count}, coloured by {self.figure.colour.title}{marked}"

    @property
    def notes(self) -> tuple[str, ...]:
        """The figure's note, and remarks on what is not shown."""
        note = (self.figure.note,) if self.figure.note else ()
        return (*note, *parallel_notes(self.figure))


def parallel_plot(figure: ParallelFigure) -> ParallelPlot:
    """Prepare all trials: grey ones behind, then by rising values, marked ones in front."""
    drawn = strands(figure)
    if drawn is None:
        return ParallelPlot(figure=figure)
    unmarked = [strand for strand in drawn.strands if not strand.thread.marked]
    return ParallelPlot(
        figure=figure,
        columns=_columns(figure, drawn),
        bundles=[
            _bundle(list(strands_of_shade)) for _, strands_of_shade in groupby(unmarked, key=_look)
        ],
        marked=_marked([strand for strand in drawn.strands if strand.thread.marked]),
        ends=colour_ends(figure, drawn.colour) if drawn.colour else None,
        grey=any(strand.shade is None for strand in drawn.strands),
        data=_lines_data(figure, drawn),
    )


def _columns(figure: ParallelFigure, drawn: ParallelLayout) -> list[DrawnCoordinate]:
    count = len(figure.coordinates)
    return [
        DrawnCoordinate(
            title=coordinate.title,
            at=round(100 * (2 * k + 1) / (2 * count), 3),
            x=2 * k + 1,
            ticks=[_tick(tick) for tick in coordinate_ticks(coordinate, scale)],
        )
        for k, (coordinate, scale) in enumerate(zip(figure.coordinates, drawn.scales, strict=True))
    ]


def _tick(tick: Tick) -> tuple[float, str, str]:
    return round(100 - tick.at, 3), shorten_middle(tick.text, LONGEST_CHOICE), tick.text


def _look(strand: PlacedTrialLine) -> str:
    return "grey" if strand.shade is None else f"v{strand.shade}"


def _bundle(members: Sequence[PlacedTrialLine]) -> LineBundle:
    runs = [run for strand in members for run in _runs(strand)]
    return LineBundle(
        look=_look(members[0]),
        d="".join("M" + " ".join(run) for run in runs if len(run) > 1),
        # A line of length 0 is drawn as a dot by its round line caps.
        dots="".join(f"M{run[0]}h0" for run in runs if len(run) == 1),
    )


def _runs(strand: PlacedTrialLine) -> Iterator[list[str]]:
    """The unbroken pieces of a trial's line."""
    placed = list(enumerate(strand.heights))
    for gap, run in groupby(placed, key=lambda pair: pair[1] is None):
        if not gap:
            # A coordinate lies in the middle of its column of two units, hence at an odd position.
            yield [f"{2 * k + 1} {round(HEIGHT * (1 - (up or 0.0)))}" for k, up in run]


def _marked(front: Sequence[PlacedTrialLine]) -> list[MarkedLine]:
    ends = [_end(strand) for strand in front]
    return [
        MarkedLine(
            name=shorten_middle(strand.thread.name, LONGEST_NAME),
            full_name=strand.thread.name,
            bundle=_bundle([strand]),
            dash=k % len(DASHES),
            name_at=at,
            leader=_leader(strand, at),
        )
        for k, (strand, at) in enumerate(zip(front, apart(ends), strict=True))
    ]


def _leader(strand: PlacedTrialLine, name_at: float) -> str:
    count, last = len(strand.heights), strand.heights[-1]
    if last is None:
        return ""
    start = f"M{2 * count - 1} {round(HEIGHT * (1 - last))}"
    return f"{start}L{2 * count} {round(HEIGHT * name_at / 100)}"


def _end(strand: PlacedTrialLine) -> float:
    last = next((up for up in reversed(strand.heights) if up is not None), 0.5)
    return 100 * (1 - last)


def _lines_data(figure: ParallelFigure, drawn: ParallelLayout) -> dict[str, Any]:
    scales = [
        {**axis_data(scale, c.title), "names": list(c.names)} if scale else None
        for c, scale in zip(figure.coordinates, drawn.scales, strict=True)
    ]
    return {
        "coordinates": scales,
        "colour": figure.colour.title,
        "named": [strand.thread.name for strand in drawn.strands],
        "shades": [strand.shade for strand in drawn.strands],
        "values": rounded_values([strand.thread.value for strand in drawn.strands], DIGITS),
        "threads": [_visible_values(strand) for strand in drawn.strands],
    }


def _visible_values(strand: PlacedTrialLine) -> list[float | None]:
    pairs = zip(strand.thread.values, strand.heights, strict=True)
    return rounded_values([None if up is None else value for value, up in pairs], DIGITS)
