"""Aggregates with their intervals as a picture that any service shows."""

from collections.abc import Iterator, Sequence
from html import escape

from rlexp.metrics.estimate import Estimate
from rlexp.metrics.estimate_words import ends, made_how, no_interval, possible
from rlexp.text import number
from rlexp.trackers import Aggregate

WIDTH, LABELS, LINE, MARGIN = 720, 260, 28, 24
"""Of the picture, of its labels, of each line, and around it; in pixels."""


def draw_intervals(aggregates: Sequence[Aggregate]) -> str:
    """Each aggregate with its interval on a line, as SVG: an own scale for each task.

    Where there is no interval, there is only the point; without a score, a word says so. Few runs
    are dots beside the point.
    """
    tasks = list(dict.fromkeys(a.task for a in aggregates))
    parts: list[str] = []
    top = MARGIN
    for task in tasks:
        own = [a for a in aggregates if a.task == task]
        parts += _text(MARGIN, top, task, "bold")
        parts += _axis(own, top)
        for position, aggregate in enumerate(own, start=1):
            parts += _aggregate_line(aggregate, own, top + position * LINE)
        top += (len(own) + 2) * LINE
    parts += _text(MARGIN, top - LINE, _method(aggregates))
    size = f'width="{WIDTH}" height="{top}" viewBox="0 0 {WIDTH} {top}"'
    style = 'font-family="sans-serif" font-size="13"'
    background = f'<rect width="{WIDTH}" height="{top}" fill="white"/>'
    body = "".join(parts)
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>{background}{body}</svg>\n'


def _method(aggregates: Sequence[Aggregate]) -> str:
    """What is drawn, and how the intervals were computed."""
    found = [a.estimate for a in aggregates if a.estimate is not None]
    how = dict.fromkeys(made_how(i) if possible(i) else no_interval(i) for i in found)
    titles = dict.fromkeys(f"{a.title} over seeds" for a in aggregates)
    return "; ".join([*titles, *how])


def _aggregate_line(aggregate: Aggregate, own: Sequence[Aggregate], top: float) -> Iterator[str]:
    yield from _text(MARGIN, top, _short(f"{aggregate.label} (n = {aggregate.n})"))
    found = aggregate.estimate
    if found is None:
        yield from _text(LABELS, top, "no score")
        return
    middle = top - 4
    if found.low is not None and found.high is not None:
        low, high = (_position(value, own) for value in (found.low, found.high))
        yield (
            f'<line x1="{low:.1f}" y1="{middle}" x2="{high:.1f}" y2="{middle}" '
            'stroke="#3465a4" stroke-width="6" stroke-opacity="0.4"/>'
        )
    yield f'<circle cx="{_position(found.estimate, own):.1f}" cy="{middle}" r="4" fill="#204a87"/>'
    for run in _runs(found):
        yield f'<circle cx="{_position(run, own):.1f}" cy="{middle + 7}" r="2" fill="#888a85"/>'
    shown = number(found.estimate, found.digits)
    interval = f" {ends(found, found.digits)}" if possible(found) else ""
    yield from _text(WIDTH - 190, top, f"{shown}{interval}")


def _runs(found: Estimate) -> list[float]:
    return [run for runs in found.runs for run in runs]


def _axis(own: Sequence[Aggregate], top: float) -> Iterator[str]:
    low, high = _range(own)
    yield from _text(LABELS, top, f"{low:.4g}", "normal", "start")
    yield from _text(WIDTH - 210, top, f"{high:.4g}", "normal", "end")


def _position(value: float, own: Sequence[Aggregate]) -> float:
    low, high = _range(own)
    share = 0.5 if high == low else (value - low) / (high - low)
    return LABELS + share * (WIDTH - 210 - LABELS)


def _range(own: Sequence[Aggregate]) -> tuple[float, float]:
    known = [a.estimate for a in own if a.estimate is not None]
    values = [v for i in known for v in (i.estimate, i.low, i.high, *_runs(i)) if v is not None]
    return (min(values), max(values)) if values else (0.0, 1.0)


def _text(
    left: float, top: float, words: str, weight: str = "normal", anchor: str = "start"
) -> Iterator[str]:
    place = f'x="{left:.1f}" y="{top:.1f}" text-anchor="{anchor}" font-weight="{weight}"'
    yield f"<text {place}>{escape(words)}</text>"


def _short(words: str, longest: int = 32) -> str:
    return words if len(words) <= longest else words[: longest - 1] + "…"
