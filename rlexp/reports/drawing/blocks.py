"""Blocks of a report: frozen tables, figures and texts, which every format renders.

The `kind` of a block names its class in JSON.
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal

from rlexp.stats.interval import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """A column of a table; `digits` is the number of shown decimals, values keep all.

    `label` marks a column of labels under comparison, which are coloured.
    """

    title: str
    digits: int = 2
    label: bool = False


REMARK_COLUMN = TableColumn(title="remark")


Value = str | int | float | bool | Interval | None
"""A value in a table. A missing value is `None`, never zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Table; `name` is unique in a report and the stem of its files (`aggregates`)."""

    kind: Literal["table"] = field(default="table", init=False, repr=False)
    name: str
    title: str
    columns: tuple[TableColumn, ...]
    rows: tuple[tuple[Value, ...], ...]
    note: str = ""


def without_empty_remarks(table: Table) -> Table:
    """The table, without its last column (remarks) if no row has a remark."""
    if any(row[-1] is not None for row in table.rows):
        return table
    return replace(table, columns=table.columns[:-1], rows=tuple(row[:-1] for row in table.rows))


class Tone(StrEnum):
    """Severity of a notice."""

    NOTE = "note"
    GOOD = "good"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A paragraph of text."""

    kind: Literal["text"] = field(default="text", init=False, repr=False)
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Callout:
    """A highlighted paragraph: a verdict, a warning, missing data."""

    kind: Literal["notice"] = field(default="notice", init=False, repr=False)
    tone: Tone
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VerbatimText:
    """Verbatim text: a command, a configuration, a patch."""

    kind: Literal["listing"] = field(default="listing", init=False, repr=False)
    name: str
    title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureLine:
    """A curve of one label, with an optional band.

    Attributes:
        x: Of shape (points,), rising.
        y: Of shape (points,); `None` where there is no value.
        low: Lower end of the band; `None` without a band.
        high: Upper end of the band; `None` without a band.
        faint: Whether the line is a single run behind an aggregate.
        steps: Whether the line is a step function (a distribution) instead of a polygon.
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
    """An axis with its title (quantity and unit), and its ends where they are fixed."""

    title: str
    low: float | None = None
    high: float | None = None
    log: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFigure:
    """Figure of curves over a common axis; `marks` are named horizontal lines (a threshold)."""

    kind: Literal["lines"] = field(default="lines", init=False, repr=False)
    name: str
    title: str
    x: Axis
    y: Axis
    lines: tuple[FigureLine, ...]
    marks: tuple[tuple[str, float], ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalMark:
    """Interval of one label in one panel, with its single runs as dots."""

    label: str
    interval: Interval
    dots: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Panel of one statistic or task: an interval for each label on a common axis."""

    title: str
    axis: Axis
    marks: tuple[IntervalMark, ...]
    marked: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalFigure:
    """Figure of panels side by side, with a row for each label."""

    kind: Literal["intervals"] = field(default="intervals", init=False, repr=False)
    name: str
    title: str
    panels: tuple[Panel, ...]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """Figure with a value for every pair of labels, row against column, and an empty diagonal.

    `low` and `high` are the ends of the colour scale; its middle is neutral.
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
    """Figure of one label: a value, or none, for every pair of values of two quantities.

    Attributes:
        x: Horizontal quantity; `columns` are its values from left to right.
        y: Vertical quantity; `rows` are its values from bottom to top.
        values: Of shape (rows, columns).
        colour: Title and ends of the colour scale of the values.
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
class PointSeries:
    """Points of one kind in a scatter plot, with a name for each.

    Attributes:
        label: Kind of the points (`complete`, `pruned`, `default`).
        x: Of shape (points,).
        y: Of shape (points,).
        names: Name of each point, shown when the pointer is over it (`trial 7`).
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatterFigure:
    """Figure of points, with lines (of the incumbent) and named horizontal marks.

    `ticks` are names for the x values 0, 1, 2, …, which replace numbers on the axis.
    """

    kind: Literal["scatter"] = field(default="scatter", init=False, repr=False)
    name: str
    title: str
    x: Axis
    y: Axis
    clouds: tuple[PointSeries, ...]
    lines: tuple[FigureLine, ...] = ()
    marks: tuple[tuple[str, float], ...] = ()
    ticks: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinate:
    """One axis of parallel coordinates: numbers from `low` to `high`, or choices.

    With `names` of choices, values are indices into them.
    """

    title: str
    low: float = 0.0
    high: float = 1.0
    log: bool = False
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialLine:
    """Line of one trial through parallel coordinates, with a value or `None` on each axis.

    `value` determines the colour; a line without one is faint. `marked` lines are in front, with
    their name.
    """

    name: str
    values: tuple[float | None, ...]
    value: float | None
    marked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelFigure:
    """Figure of parallel coordinates: a line for each trial, coloured by its value."""

    kind: Literal["parallel"] = field(default="parallel", init=False, repr=False)
    name: str
    title: str
    coordinates: tuple[Coordinate, ...]
    threads: tuple[TrialLine, ...]
    colour: Axis
    note: str = ""


Figure = LineFigure | IntervalFigure | Matrix | HeatMap | ScatterFigure | ParallelFigure


Block = Text | Callout | VerbatimText | Table | Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionContent:
    """Content of one section. `name` is its anchor; a `folded` part is closed at first."""

    name: str
    title: str
    blocks: tuple[Block, ...]
    folded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestedCommand:
    """A command to copy; `why` is its purpose, as an infinitive without "to"."""

    why: str
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LookCount:
    """How many configurations have been looked at on the test seeds of one task.

    Attributes:
        task: The task.
        root: The root of the test seeds.
        configurations: Number of configurations whose scores on these seeds were used.
        runs: Number of their runs.
        overstatement: How much better the best mean score is expected to look than it is, in units
            of the score; null where it cannot be estimated.
        digest: The sha256 of the counted looks.
    """

    task: str
    root: int
    configurations: int
    runs: int
    overstatement: Interval | None
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolCheck:
    """A registered protocol, and whether an experiment keeps it.

    Attributes:
        protocol: The name of the protocol.
        experiment: The experiment that belongs to it.
        hash: The sha256 of the sealed study.
        root: The root of the test seeds.
        nonce: The public nonce from which the root is derived.
        nonce_source: Where the nonce comes from; null where nothing was said.
        registered: When it was registered.
        question: The sealed question.
        kept: Whether nothing deviates.
        deviations: What deviates, each as a short text.
        runs: Number of registered test runs.
        ended: Number of them that have a score, or have failed for good.
        registration: The number of the registration among those on its tasks, from 1.
        registrations: Number of registrations on its tasks.
        same_study: Number of registrations of the same study.
    """

    protocol: str
    experiment: str
    hash: str
    root: int
    nonce: str
    nonce_source: str | None
    registered: str
    question: str
    kept: bool
    deviations: tuple[str, ...]
    runs: int
    ended: int
    registration: int
    registrations: int
    same_study: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryCard:
    """The answer of a report, and what belongs to it, on one screen.

    Attributes:
        tone: Whether the question is decided (`good`), open (`note`) or without a result.
        text: The answer on one line.
        basis: What the answer rests on, as a sentence; may be empty.
        intervals: The leading metric of every label, with its runs; `None` without a score, and for
            many labels outside of a report.
        curves: Learning curves of the first tasks, without single runs.
        tables: Scores by phase and searched hyperparameters of a sweep.
        facts: Names and texts of short facts: cost, missing runs.
        overrides: The searched hyperparameters of a winner as overrides, to copy; may be empty.
        commands: Commands to type next.
        looks: How many configurations have been looked at on the test seeds, by task and root;
            empty for other phases.
        protocols: The registered protocols of the experiments, and whether they are kept; empty for
            other phases.
    """

    tone: Tone
    text: str
    basis: str = ""
    intervals: IntervalFigure | None = None
    curves: tuple[LineFigure, ...] = ()
    tables: tuple[Table, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    overrides: str = ""
    commands: tuple[SuggestedCommand, ...] = ()
    looks: tuple[LookCount, ...] = ()
    protocols: tuple[ProtocolCheck, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeFilm:
    """A film of one episode of a run's final policy, on seeds that no training used.

    Attributes:
        label: Label of the run.
        task: Task of the run.
        run: The run (`EXPERIMENT/RUN`).
        seed: Seed of the run.
        draw: Number of the set of fresh seeds.
        episode: Number of the episode in the set.
        episode_return: The undiscounted return of the episode, in the task's own reward.
        length: Length of the episode, in environment steps.
        deterministic: Whether actions were deterministic.
        file: The video file, relative to the workspace, with `/` between folders.
        sum: The sha256 of the video file.
        bytes: The size of the video file.
    """

    label: str
    task: str
    run: str
    seed: int
    draw: int
    episode: int
    episode_return: float
    length: int
    deterministic: bool
    file: str
    sum: str
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportDocument:
    """The whole content of a report, computed once: same records, same document, same bytes.

    `labels` are the labels under comparison, in the order of their colours. `card` is the answer
    on one screen. `tags` and `notes` are those of the experiments and their runs; a note has the
    name of what it is about, its date (UTC) and its text. `failed_checks` are the reasons for which
    `--strict` refuses the report. `films` are films of episodes, at most one of each label.
    """

    title: str
    subtitle: str
    labels: tuple[str, ...]
    parts: tuple[SectionContent, ...]
    version: str
    card: SummaryCard | None = None
    tags: tuple[str, ...] = ()
    notes: tuple[tuple[str, str, str], ...] = ()
    failed_checks: tuple[str, ...] = ()
    films: tuple[EpisodeFilm, ...] = ()
