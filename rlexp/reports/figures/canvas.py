"""The common parts of publication figures: style, axes, legends, texts that fit, and saving.

The same figure always gives the same bytes.
"""

import io
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from rlexp.errors import ConfigError
from rlexp.installation_way import install_command
from rlexp.reports.drawing.axes import AxisScale
from rlexp.reports.drawing.blocks import Axis
from rlexp.reports.drawing.blocks import Figure as Block
from rlexp.text import one_line, shorten_middle, spell_missing_characters

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis as DrawnAxis
    from matplotlib.figure import Figure, SubFigure


def set_x(axes: "Axes", axis: Axis, scale: AxisScale, ticks: int, width: float) -> None:
    """Set the limits, title and ticks of the horizontal axis.

    There are about `ticks` ticks, or fewer if their texts would overlap on `width` inches.
    """
    axes.set_xscale("log" if scale.log else "linear")
    axes.set_xlim(scale.low, scale.high)
    axes.set_xlabel(axis_title(axis.title, width))
    _set_ticks(axes.xaxis, scale, _most(scale, ticks, width))


def set_y(axes: "Axes", axis: Axis, scale: AxisScale, ticks: int, height: float) -> None:
    """Set the limits, title and about `ticks` ticks of a vertical axis of `height` inches."""
    axes.set_yscale("log" if scale.log else "linear")
    axes.set_ylim(scale.low, scale.high)
    axes.set_ylabel(axis_title(axis.title, height))
    _set_ticks(axes.yaxis, scale, ticks)


def mark_empty(axes: "Axes") -> None:
    """Write into a figure without values that there is no value to show."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, "nothing to show", transform=axes.transAxes, ha="center", color=PALE)


def _set_ticks(drawn: "DrawnAxis", scale: AxisScale, count: int) -> None:
    ticks = scale.ticks(count)
    drawn.set_ticks([_value(scale, t.at) for t in ticks], labels=[t.text for t in ticks])
    # A logarithmic axis of Matplotlib has minor ticks with texts of its own.
    drawn.set_ticks([], minor=True)


def _most(scale: AxisScale, count: int, width: float) -> int:
    def needed(n: int) -> float:
        return LETTER * sum(len(tick.text) + 2 for tick in scale.ticks(n))

    return next((n for n in range(count, 1, -1) if needed(n) <= width), 1)


def _value(scale: AxisScale, at: float) -> float:
    """The value at a position in per cent of the axis."""
    if scale.log:
        return float(scale.low * (scale.high / scale.low) ** (at / 100))
    return scale.low + at / 100 * (scale.high - scale.low)


LONGEST_LABEL = 28
"""Most characters of a label in the legend of a figure that is one column wide."""
HANDLE, ROW = 0.45, 0.155
"""Inches: width of a legend's line with its spaces, and height of a row at 8 points."""


def add_legend(
    figure: "Figure | SubFigure",
    handles: Sequence[Any],
    names: Sequence[str],
    width: float,
    longest: int = LONGEST_LABEL,
) -> None:
    """Add a legend below the axes, filled row by row; `longest` is in characters."""
    count = _columns(names, width, longest)
    # Matplotlib fills a legend column by column.
    order = [k for column in range(count) for k in range(column, len(names), count)]
    legend = figure.legend(
        handles=[handles[k] for k in order],
        labels=["name"] * len(order),
        loc="outside lower center",
        ncols=count,
        borderaxespad=0.2,
        columnspacing=1.2,
        handletextpad=0.5,
        labelspacing=0.3,
    )
    # Set afterwards, because Matplotlib leaves out labels that begin with an underscore.
    for text, k in zip(legend.get_texts(), order, strict=True):
        text.set_text(label(names[k], longest))


def legend_height(names: Sequence[str], width: float, longest: int = LONGEST_LABEL) -> float:
    """The height of a legend in inches."""
    return 0.1 + ROW * -(-len(names) // _columns(names, width, longest)) if names else 0.0


def _columns(names: Sequence[str], width: float, longest: int) -> int:
    widest = max((len(label(name, longest)) for name in names), default=0)
    fit = int(width / (HANDLE + LETTER * widest))
    rows = -(-len(names) // max(1, fit))
    return max(1, -(-len(names) // max(1, rows)))


LETTER, BOLD, LINE = 0.066, 0.077, 0.14
"""Inches: width of a character at 8 points, of one in a bold title, and height of a line."""


def label(text: str, longest: int = LONGEST_LABEL) -> str:
    """The name of a label, shortened for a legend."""
    return fit_text(text, longest)


def title(text: str, width: float) -> str:
    """A bold title on at most two lines of `width` inches."""
    return _two_lines(text, int(width / BOLD))


def axis_title(text: str, length: float) -> str:
    """The title of an axis of `length` inches, on at most two lines."""
    return _two_lines(text, int(length / LETTER))


def extra_height(texts: Iterable[str]) -> float:
    """Inches that the text with the most lines needs beyond one line."""
    return LINE * max((text.count("\n") for text in texts), default=0)


def _two_lines(text: str, length: int) -> str:
    first, *others = textwrap.wrap(drawable_text(text), length) or [""]
    return "\n".join([first, shorten_middle(" ".join(others), length)] if others else [first])


def fit_text(text: str, length: int) -> str:
    """A text of at most `length` characters, all of which exist in the font."""
    return shorten_middle(drawable_text(text), length)


def drawable_text(text: str) -> str:
    """The text on one line; characters missing in the font are written as code points."""
    return spell_missing_characters(
        one_line(text), lambda character: ord(character) in _characters()
    )


@cache
def _characters() -> frozenset[int]:
    from matplotlib.font_manager import findfont, get_font

    return frozenset(get_font(findfont("DejaVu Sans")).get_charmap())


SINGLE_COLUMN, DOUBLE_COLUMN = 3.25, 6.75
"""Widths in inches of one column and of both columns in a two-column paper."""

INK, PALE, GRID = "#222222", "#6b6b6b", "#e4e4e4"

STYLE: Any = {
    "axes.axisbelow": True,
    "axes.edgecolor": PALE,
    "axes.labelcolor": INK,
    "axes.labelsize": 8,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlepad": 5,
    "axes.titlesize": 8.5,
    "axes.titleweight": "bold",
    "figure.dpi": 150,
    "figure.constrained_layout.h_pad": 0.045,
    "figure.constrained_layout.w_pad": 0.045,
    "font.family": ["DejaVu Sans"],
    "font.size": 8,
    "grid.color": GRID,
    "grid.linewidth": 0.5,
    "hatch.linewidth": 0.5,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "legend.handlelength": 2.2,
    "lines.linewidth": 1.3,
    # TrueType fonts: many conferences refuse the Type 3 fonts that Matplotlib embeds by default.
    "pdf.fonttype": 42,
    "savefig.dpi": 150,
    "svg.fonttype": "path",
    # Without a fixed salt, Matplotlib gives the elements of an SVG random identifiers.
    "svg.hashsalt": "rlexp",
    "text.color": INK,
    # A label may contain `$`, which would begin a formula.
    "text.parse_math": False,
    "xtick.color": PALE,
    "xtick.labelcolor": INK,
    "xtick.labelsize": 8,
    "ytick.color": PALE,
    "ytick.labelcolor": INK,
    "ytick.labelsize": 8,
}
"""Matplotlib's settings. DejaVu Sans is part of Matplotlib, so figures are the same everywhere."""


UNDATED: Mapping[str, Mapping[str, None]] = {
    "pdf": {"CreationDate": None, "Producer": None},
    "svg": {"Date": None},
    "png": {"Software": None},
}
"""Metadata that Matplotlib would add and that would change the bytes: the time and its version."""


@contextmanager
def publication_style() -> Iterator[None]:
    """Use rlexp's Matplotlib settings within the context; restore the user's settings after it.

    Raises:
        ConfigError: Matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise ConfigError.missing_package(
            "figures are drawn by Matplotlib, which is not installed; to install it",
            install_command("figures"),
        ) from error
    with mpl.rc_context():
        # The user's own settings would change the figure, so Matplotlib's defaults are the base.
        mpl.rcdefaults()
        mpl.rcParams.update(STYLE)
        yield


def empty_figure(width: float, height: float) -> "Figure":
    """An empty figure of this size in inches, which is not registered with pyplot."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: "Figure", block: Block, kind: str, version: str) -> bytes:
    """The bytes of a figure's file; the metadata contains its title and note."""
    content = io.BytesIO()
    title, note = one_line(block.title), one_line(block.note)
    maker = f"rlexp {version}"
    metadata: Mapping[str, Mapping[str, str | None]] = {
        "pdf": {"Title": title, "Subject": note, "Creator": maker, **UNDATED["pdf"]},
        "svg": {"Title": title, "Description": note, "Creator": maker, **UNDATED["svg"]},
        "png": UNDATED["png"],
    }
    figure.savefig(content, format=kind, metadata=dict(metadata[kind]))
    return content.getvalue()
