"""Scatter plots of the page: points as shapes, positioned in per cent, with curves behind them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlexp.reports.drawing.axes import Tick
from rlexp.reports.drawing.blocks import PointSeries, ScatterFigure
from rlexp.reports.drawing.palette import Style
from rlexp.reports.drawing.point_layout import (
    PlacedPoint,
    ScatterLayout,
    left_out_note,
    scatter_layout,
)
from rlexp.reports.page.curves import CurvePath, axis_data, curve_paths, rounded_values
from rlexp.text import name_with_value

TICKS = 5
CROWDED = (100, 400)
"""Numbers of points in a series above which each point is drawn smaller and fainter."""

ACROSS, LONGEST = 6, 24
"""Largest number of horizontal tick names, and characters of the longest one."""

DEFAULT_SHAPE = "disc"


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
        return sum(len(self.at) > few for few in CROWDED)


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
        return len(names) > ACROSS or any(len(name) > LONGEST for name in names)

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
