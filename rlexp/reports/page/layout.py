"""The order of a page: its parts, and in them groups of blocks that stand side by side."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from rlexp.reports.drawing.blocks import (
    Block,
    Figure,
    HeatMap,
    Intervals,
    Lines,
    Listing,
    Matrix,
    Notice,
    Parallel,
    Part,
    Scatter,
    Study,
    Table,
    Text,
)
from rlexp.reports.drawing.palette import Style
from rlexp.reports.page.grids import heat_map_plot
from rlexp.reports.page.intervals import forest
from rlexp.reports.page.lines import LinePlot, line_plot
from rlexp.reports.page.matrix import shaded_matrix
from rlexp.reports.page.parallel import ParallelPlot, parallel_plot
from rlexp.reports.page.scatter import ScatterPlot, scatter_plot
from rlexp.reports.page.tables import drawn_table


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Neighbours of one kind; `blocks` are as the template of that kind draws them."""

    kind: str
    blocks: Sequence[Any]

    @property
    def columns(self) -> int:
        """How many figures stand beside each other where there is room."""
        return {1: 1, 2: 2, 4: 2}.get(len(self.blocks), 3)

    @property
    def note(self) -> str:
        """The note that its figures share, if they have one and share it."""
        notes = {block.figure.note for block in self.blocks}
        return notes.pop() if len(notes) == 1 else ""

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of its figures, once each."""
        return tuple(dict.fromkeys(label for block in self.blocks for label in block.labels))

    @property
    def dotted(self) -> frozenset[str]:
        """Labels whose key is a point, not a line."""
        return frozenset(label for block in self.blocks for label in block.dotted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the page."""

    part: Part
    groups: Sequence[Group]


def sections(study: Study, styles: Mapping[str, Style]) -> list[Section]:
    """Draw every part of a study, in its order."""
    return [Section(part=part, groups=list(_groups(part, styles))) for part in study.parts]


def numbers(drawn: Sequence[Section], styles: Mapping[str, Style]) -> dict[str, Any]:
    """What the script needs to know: labels and names in their order, and what figures hold."""
    plots = [
        block
        for section in drawn
        for group in section.groups
        for block in group.blocks
        if isinstance(block, LinePlot | ScatterPlot | ParallelPlot) and block.data is not None
    ]
    names: dict[str, int] = {}
    told = {plot.figure.name: _numbered(plot.data, names) for plot in plots}
    return {"labels": list(styles), "names": list(names), "figures": told}


def _numbered(data: Any, names: dict[str, int]) -> Any:
    """Data with a number for each name, as many figures name the same trials."""
    if isinstance(data, list):
        return [_numbered(item, names) for item in data]
    if not isinstance(data, Mapping):
        return data
    return {
        key: [names.setdefault(name, len(names)) for name in value]
        if key == "named"
        else _numbered(value, names)
        for key, value in data.items()
    }


def _groups(part: Part, styles: Mapping[str, Style]) -> Iterator[Group]:
    for kind, blocks in groupby(part.blocks, key=_kind):
        yield Group(kind=kind, blocks=[_drawn(block, styles) for block in blocks])


def _kind(block: Block) -> str:
    return type(block).__name__.lower()


def _drawn(block: Block, styles: Mapping[str, Style]) -> object:
    match block:
        case Table():
            return drawn_table(block, styles)
        case Text() | Notice() | Listing():
            return block
        case _:
            return _drawn_figure(block, styles)


def _drawn_figure(block: Figure, styles: Mapping[str, Style]) -> object:
    match block:
        case Lines():
            return line_plot(block, styles)
        case Intervals():
            return forest(block, styles)
        case Matrix():
            return shaded_matrix(block, styles)
        case HeatMap():
            return heat_map_plot(block)
        case Scatter():
            return scatter_plot(block, styles)
        case Parallel():
            return parallel_plot(block)
