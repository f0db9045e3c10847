"""The look of publication figures, and their files: the same bytes for the same figure."""

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rlexp.errors import ConfigError
from rlexp.reports.characters import one_line
from rlexp.reports.drawing.blocks import Figure as Block

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SINGLE_COLUMN, DOUBLE_COLUMN = 3.25, 6.75
"""Widths in inches, as conferences and journals of two columns have them."""

INK, PALE, GRID = "#222222", "#6b6b6b", "#e4e4e4"

LOOK: Any = {
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
    "pdf.fonttype": 42,
    "savefig.dpi": 150,
    "svg.fonttype": "path",
    "svg.hashsalt": "rlexp",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": PALE,
    "xtick.labelcolor": INK,
    "xtick.labelsize": 8,
    "ytick.color": PALE,
    "ytick.labelcolor": INK,
    "ytick.labelsize": 8,
}
"""Matplotlib's settings. DejaVu Sans comes with it, so that a figure is the same everywhere."""


UNDATED: Mapping[str, Mapping[str, None]] = {
    "pdf": {"CreationDate": None, "Producer": None},
    "svg": {"Date": None},
    "png": {"Software": None},
}
"""What Matplotlib would write of its own: the time, and its version."""


@contextmanager
def look() -> Iterator[None]:
    """Draw within it: whatever the user has set for Matplotlib is left aside, and comes back.

    Raises:
        ConfigError: Matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise ConfigError(
            "figures are drawn by Matplotlib, which is not installed; to install it: "
            "pip install 'rlexp[figures]'",
            code="missing_package",
            command="pip install 'rlexp[figures]'",
        ) from error
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(LOOK)
        yield


def empty_figure(width: float, height: float) -> "Figure":
    """A figure of this size in inches, which no other part of the program knows of."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def saved(figure: "Figure", block: Block, kind: str, version: str) -> bytes:
    """A drawn figure as a file; its title and note stand in the file's metadata."""
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
