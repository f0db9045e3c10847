"""The figures of a report for print: PDF, SVG and PNG, drawn by Matplotlib."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rlexp.errors import ConfigError, did_you_mean
from rlexp.reports.drawing.blocks import Figure as Block
from rlexp.reports.drawing.blocks import (
    HeatMap,
    IntervalFigure,
    LineFigure,
    Matrix,
    ReportDocument,
    ScatterFigure,
    Table,
)
from rlexp.reports.drawing.file_names import drawn_blocks, file_stems
from rlexp.reports.drawing.palette import Style, styles
from rlexp.reports.figures.canvas import publication_style, save_figure
from rlexp.reports.figures.grids import draw_heat_map, draw_matrix
from rlexp.reports.figures.intervals import draw_intervals
from rlexp.reports.figures.lines import draw_lines
from rlexp.reports.figures.panels import draw_panels
from rlexp.reports.figures.parallel import draw_parallel
from rlexp.reports.figures.scatter import draw_scatter

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("pdf", "svg", "png")


def draw_figures(
    study: ReportDocument, formats: Sequence[str] = ("pdf", "svg")
) -> Mapping[str, bytes]:
    """Every figure of a report as files, `NAME.FORMAT`; the same report gives the same bytes.

    Args:
        study: The report.
        formats: Some of `pdf`, `svg` and `png` (150 dots per inch).

    Raises:
        ConfigError: A format is unknown, or Matplotlib is not installed.
    """
    for kind in formats:
        if kind not in FORMATS:
            raise ConfigError(
                f"figures cannot be drawn as {kind!r}{did_you_mean(kind, FORMATS)} "
                f"(allowed: {', '.join(FORMATS)})"
            )
    stems, looks, files = file_stems(study), styles(study), {}
    with publication_style():
        for block in drawn_blocks(study):
            if isinstance(block, Table):
                continue
            figure = draw_figure(block, looks)
            for kind in formats:
                name = f"{stems[block.name]}.{kind}"
                files[name] = save_figure(figure, block, kind, study.version)
    return files


def draw_picture(
    figures: Sequence[LineFigure],
    labels: Sequence[str],
    sentences: Sequence[str],
    kind: str,
    version: str,
) -> bytes:
    """One picture of curves on several tasks; the same curves give the same bytes.

    Args:
        figures: One figure for each task.
        labels: The labels under comparison, in the order of their colours.
        sentences: The lines of the caption.
        kind: `pdf`, `svg` or `png` (150 dots per inch).
        version: The version of rlexp, for the metadata.

    Raises:
        ConfigError: Matplotlib is not installed.
    """
    looks = {label: Style(number) for number, label in enumerate(labels)}
    summary = replace(
        figures[0],
        title=", ".join(figure.title for figure in figures),
        note=" ".join(sentences),
    )
    with publication_style():
        return save_figure(draw_panels(figures, looks, sentences), summary, kind, version)


def draw_figure(block: Block, looks: Mapping[str, Style]) -> "Figure":
    """A block drawn as a Matplotlib figure with the current rcParams."""
    if isinstance(block, LineFigure):
        return draw_lines(block, looks)
    if isinstance(block, IntervalFigure):
        return draw_intervals(block, looks)
    if isinstance(block, Matrix):
        return draw_matrix(block)
    if isinstance(block, HeatMap):
        return draw_heat_map(block)
    if isinstance(block, ScatterFigure):
        return draw_scatter(block, looks)
    return draw_parallel(block)
