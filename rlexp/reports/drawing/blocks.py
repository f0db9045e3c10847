"""What a report is made of: frozen blocks of numbers and words, which every format draws from.

The `kind` of a block names its class in JSON.
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal

from rlexp.stats.interval import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table. `digits` after the point are shown; all are kept.

    `label` says that its cells are labels under comparison, which have a colour of their own.
    """

    title: str
    digits: int = 2
    label: bool = False


REMARK = Column(title="remark")


Value = str | int | float | bool | Interval | None
"""What may stand in a table. A missing value is `None`, never zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of values. `name` is unique in a report, and names files (`aggregates`)."""

    kind: Literal["table"] = field(default="table", init=False, repr=False)
    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]
    note: str = ""


def remarked(table: Table) -> Table:
    """The table without its last column, of remarks, where no row has one."""
    if any(row[-1] is not None for row in table.rows):
        return table
    return replace(table, columns=table.columns[:-1], rows=tuple(row[:-1] for row in table.rows))


class Tone(StrEnum):
    """What a notice is to its reader."""

    NOTE = "note"
    GOOD = "good"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A paragraph of plain words."""

    kind: Literal["text"] = field(default="text", init=False, repr=False)
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something that a reader must not miss: a verdict, a warning, what is missing."""

    kind: Literal["notice"] = field(default="notice", init=False, repr=False)
    tone: Tone
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Text that is shown as it is: a command, a configuration, a patch."""

    kind: Literal["listing"] = field(default="listing", init=False, repr=False)
    name: str
    title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A curve of one label, with a band where one is possible.

    Attributes:
        x: Of shape (points,), rising.
        y: Of shape (points,); `None` where there is no value.
        low: Lower end of the band, or nothing.
        high: Upper end of the band, or nothing.
        faint: A single run behind an aggregate.
        steps: Drawn as stairs (a distribution), not as a polygon.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float | None, ...]
    low: tuple[float | None, ...] | None = None
    high: tuple[float | None, ...] | None = None
    faint: bool = False
    steps: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """An axis: what it shows, in which unit; its ends where they are known."""

    title: str
    low: float | None = None
    high: float | None = None
    log: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Curves over a common axis; `marks` are horizontal lines with a name (a threshold)."""

    kind: Literal["lines"] = field(default="lines", init=False, repr=False)
    name: str
    title: str
    x: Axis
    y: Axis
    lines: tuple[Line, ...]
    marks: tuple[tuple[str, float], ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """An interval of one label in one panel, with the runs that it comes from as dots."""

    label: str
    interval: Interval
    dots: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One statistic or one task: an interval for each label on a common axis."""

    title: str
    axis: Axis
    marks: tuple[Mark, ...]
    marked: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """Panels side by side, a row for each label."""

    kind: Literal["intervals"] = field(default="intervals", init=False, repr=False)
    name: str
    title: str
    panels: tuple[Panel, ...]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """A value for every pair of labels, row against column; the diagonal is empty.

    `low` and `high` are the ends of the colour scale, and its middle is neutral.
    """

    kind: Literal["matrix"] = field(default="matrix", init=False, repr=False)
    name: str
    title: str
    labels: tuple[str, ...]
    values: tuple[tuple[Interval | None, ...], ...]
    low: float = 0.0
    high: float = 1.0
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap:
    """A value of one label for every pair of values of two quantities, or none where there is none.

    Attributes:
        x: Quantity across, whose values `columns` names, from left to right.
        y: Quantity upwards, whose values `rows` names, from the bottom to the top.
        values: A row for each of `rows`, of a value for each of `columns`.
        colour: What the values are, and the ends of the colour scale.
    """

    kind: Literal["heat_map"] = field(default="heat_map", init=False, repr=False)
    name: str
    title: str
    label: str
    x: str
    y: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    values: tuple[tuple[Interval | None, ...], ...]
    colour: Axis
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloud:
    """Points of one kind in a scatter plot, with what a reader is told of each.

    Attributes:
        label: What they are (`complete`, `pruned`, `default`).
        x: Of shape (points,).
        y: Of shape (points,).
        names: Of each point, shown where it is pointed at (`trial 7`).
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scatter:
    """Points over an axis, with lines (an incumbent's stairs) and named horizontal marks.

    With `ticks`, the x axis has these names at 0, 1, 2, … instead of numbers.
    """

    kind: Literal["scatter"] = field(default="scatter", init=False, repr=False)
    name: str
    title: str
    x: Axis
    y: Axis
    clouds: tuple[Cloud, ...]
    lines: tuple[Line, ...] = ()
    marks: tuple[tuple[str, float], ...] = ()
    ticks: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinate:
    """One axis of parallel coordinates: numbers from `low` to `high`, or the names of choices.

    With `names`, values are positions among them.
    """

    title: str
    low: float = 0.0
    high: float = 1.0
    log: bool = False
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """One trial through parallel coordinates: a value on each, or none where it has none.

    `value` gives its colour; without one it is drawn faint. `marked` ones stand in front, with
    their name.
    """

    name: str
    values: tuple[float | None, ...]
    value: float | None
    marked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallel:
    """Parallel coordinates: a line for each trial, coloured by what it reached."""

    kind: Literal["parallel"] = field(default="parallel", init=False, repr=False)
    name: str
    title: str
    coordinates: tuple[Coordinate, ...]
    threads: tuple[Thread, ...]
    colour: Axis
    note: str = ""


Figure = Lines | Intervals | Matrix | HeatMap | Scatter | Parallel


Block = Text | Notice | Listing | Table | Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One section of a report. `name` is its anchor; a folded part opens on demand."""

    name: str
    title: str
    blocks: tuple[Block, ...]
    folded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """Everything that a report says, computed once: same records, same study, same bytes.

    `labels` are those under comparison, in the order of their colours. `failed_checks` says in
    words what `--strict` refuses.
    """

    title: str
    subtitle: str
    labels: tuple[str, ...]
    parts: tuple[Part, ...]
    version: str
    failed_checks: tuple[str, ...] = ()
