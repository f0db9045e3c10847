"""Aggregates with their intervals as a picture that any service shows."""

from collections.abc import Iterator, Sequence
from html import escape

from rlexp.trackers import Aggregate

WIDTH, LABELS, LINE, MARGIN = 720, 260, 28, 24
"""Of the picture, of its labels, of each line, and around it; in pixels."""


def draw_intervals(aggregates: Sequence[Aggregate]) -> str:
    """Each interquartile mean with its interval on a line, as SVG: an own scale for each task.

    Where there is no interval, there is only the point; without a score, a word says so.
    """
    tasks = list(dict.fromkeys(a.task for a in aggregates))
    parts: list[str] = []
    top = MARGIN
    for task in tasks:
        own = [a for a in aggregates if a.task == task]
        parts += _text(MARGIN, top, task, "bold")
        parts += _axis(own, top)
        for position, aggregate in enumerate(own, start=1):
            parts += _line(aggregate, own, top + position * LINE)
        top += (len(own) + 2) * LINE
    parts += _text(MARGIN, top - LINE, _method(aggregates))
    size = f'width="{WIDTH}" height="{top}" viewBox="0 0 {WIDTH} {top}"'
    style = 'font-family="sans-serif" font-size="13"'
    background = f'<rect width="{WIDTH}" height="{top}" fill="white"/>'
    body = "".join(parts)
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>{background}{body}</svg>\n'


def _method(aggregates: Sequence[Aggregate]) -> str:
    """What is drawn, and how the intervals were computed."""
    known = dict.fromkeys(
        (a.level, a.method, a.resampling_seed) for a in aggregates if a.low is not None and a.level
    )
    told = [
        f"{level:.0%} interval: {method}" + ("" if seed is None else f", seed {seed}")
        for level, method, seed in known
    ]
    return "; ".join(["Interquartile mean over seeds", *told])


def _line(aggregate: Aggregate, own: Sequence[Aggregate], top: float) -> Iterator[str]:
    yield from _text(MARGIN, top, _short(f"{aggregate.label} (n = {aggregate.n})"))
    if aggregate.iqm is None:
        yield from _text(LABELS, top, "no score")
        return
    middle = top - 4
    if aggregate.low is not None and aggregate.high is not None:
        low, high = (_place(value, own) for value in (aggregate.low, aggregate.high))
        yield (
            f'<line x1="{low:.1f}" y1="{middle}" x2="{high:.1f}" y2="{middle}" '
            'stroke="#3465a4" stroke-width="6" stroke-opacity="0.4"/>'
        )
    yield f'<circle cx="{_place(aggregate.iqm, own):.1f}" cy="{middle}" r="4" fill="#204a87"/>'
    shown = f"{aggregate.iqm:.4g}"
    if aggregate.low is not None and aggregate.high is not None:
        shown += f" [{aggregate.low:.4g}, {aggregate.high:.4g}]"
    yield from _text(WIDTH - 190, top, shown)


def _axis(own: Sequence[Aggregate], top: float) -> Iterator[str]:
    low, high = _range(own)
    yield from _text(LABELS, top, f"{low:.4g}", "normal", "start")
    yield from _text(WIDTH - 210, top, f"{high:.4g}", "normal", "end")


def _place(value: float, own: Sequence[Aggregate]) -> float:
    low, high = _range(own)
    share = 0.5 if high == low else (value - low) / (high - low)
    return LABELS + share * (WIDTH - 210 - LABELS)


def _range(own: Sequence[Aggregate]) -> tuple[float, float]:
    values = [v for a in own for v in (a.iqm, a.low, a.high) if v is not None]
    return (min(values), max(values)) if values else (0.0, 1.0)


def _text(
    left: float, top: float, words: str, weight: str = "normal", anchor: str = "start"
) -> Iterator[str]:
    place = f'x="{left:.1f}" y="{top:.1f}" text-anchor="{anchor}" font-weight="{weight}"'
    yield f"<text {place}>{escape(words)}</text>"


def _short(words: str, longest: int = 32) -> str:
    return words if len(words) <= longest else words[: longest - 1] + "…"
