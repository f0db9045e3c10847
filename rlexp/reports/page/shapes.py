"""Shapes of points, as SVG paths around their middle, in pixels."""

from collections.abc import Mapping

PATHS: Mapping[str, str] = {
    "disc": "M-3.6 0a3.6 3.6 0 1 1 7.2 0a3.6 3.6 0 1 1-7.2 0z",
    "cross": "M-3.2-3.2L3.2 3.2M-3.2 3.2L3.2-3.2",
    "triangle": "M-4.6-3.2L4.6-3.2L0 4.8z",
    "diamond": "M0-6.4L5.6 0L0 6.4L-5.6 0z",
    "star": "M0-7L1.8-2.5L6.7-2.2L2.9 1L4.1 5.7L0 3.1L-4.1 5.7L-2.9 1L-6.7-2.2L-1.8-2.5z",
    "square": "M-3.4-3.4H3.4V3.4H-3.4z",
    "plus": "M-4.2 0H4.2M0-4.2V4.2",
    "ring": "M-3.4 0a3.4 3.4 0 1 1 6.8 0a3.4 3.4 0 1 1-6.8 0z",
    "peak": "M-4.6 3.2L4.6 3.2L0-4.8z",
}
"""By the names that `rlexp.reports.drawing.palette` gives to them."""
