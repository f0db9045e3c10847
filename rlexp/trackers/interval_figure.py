"""An SVG picture of aggregates with their intervals, which every service can show."""

from collections.abc import Iterator, Sequence
from html import escape

from rlexp.metrics.estimate import Estimate
from rlexp.metrics.estimate_text import ends, method_text, no_interval, possible
from rlexp.text import format_number
from rlexp.trackers import TrackedAggregate

WIDTH, LABELS, LINE, MARGIN = 720, 260, 28, 24
"""Pixels: width of the picture, left end of the axis, height of a line, and margin."""


def draw_intervals(aggregates: Sequence[TrackedAggregate]) -> str:
    """An SVG with one line for each aggregate and its interval; each task has its own axis.

    An aggregate without an interval is a point; one without a score has the text `no score`. If
    there are few runs, each run is a dot below the point.
    """
    tasks = list(dict.fromkeys(a.task for a in aggregates))
    parts: list[str] = []
    top = MARGIN
    for task in tasks:
        of_task = [a for a in aggregates if a.task == task]
        parts += _text(MARGIN, top, task, "bold")
        parts += _axis(of_task, top)
        for position, aggregate in enumerate(of_task, start=1):
            parts += _aggregate_line(aggregate, of_task, top + position * LINE)
        top += (len(of_task) + 2) * LINE
    parts += _text(MARGIN, top - LINE, _method(aggregates))
    size = f'width="{WIDTH}" height="{top}" viewBox="0 0 {WIDTH} {top}"'
    style = 'font-family="sans-serif" font-size="13"'
    background = f'<rect width="{WIDTH}" height="{top}" fill="white"/>'
    body = "".join(parts)
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>{background}{body}</svg>\n'


def _method(aggregates: Sequence[TrackedAggregate]) -> str:
    """What the picture shows, and how the intervals were computed."""
    estimates = [a.estimate for a in aggregates if a.estimate is not None]
    how = dict.fromkeys(method_text(i) if possible(i) else no_interval(i) for i in estimates)
    titles = dict.fromkeys(f"{a.title} over seeds" for a in aggregates)
    return "; ".join([*titles, *how])


def _aggregate_line(
    aggregate: TrackedAggregate, aggregates: Sequence[TrackedAggregate], top: float
) -> Iterator[str]:
    yield from _text(MARGIN, top, _short(f"{aggregate.label} (n = {aggregate.n})"))
    estimate = aggregate.estimate
    if estimate is None:
        yield from _text(LABELS, top, "no score")
        return
    middle = top - 4
    if estimate.low is not None and estimate.high is not None:
        low, high = (_position(value, aggregates) for value in (estimate.low, estimate.high))
        yield (
            f'<line x1="{low:.1f}" y1="{middle}" x2="{high:.1f}" y2="{middle}" '
            'stroke="#3465a4" stroke-width="6" stroke-opacity="0.4"/>'
        )
    at = _position(estimate.estimate, aggregates)
    yield f'<circle cx="{at:.1f}" cy="{middle}" r="4" fill="#204a87"/>'
    for run in _runs(estimate):
        at = _position(run, aggregates)
        yield f'<circle cx="{at:.1f}" cy="{middle + 7}" r="2" fill="#888a85"/>'
    shown = format_number(estimate.estimate, estimate.digits)
    interval = f" {ends(estimate, estimate.digits)}" if possible(estimate) else ""
    yield from _text(WIDTH - 190, top, f"{shown}{interval}")


def _runs(estimate: Estimate) -> list[float]:
    return [run for runs in estimate.runs for run in runs]


def _axis(aggregates: Sequence[TrackedAggregate], top: float) -> Iterator[str]:
    low, high = _range(aggregates)
    yield from _text(LABELS, top, f"{low:.4g}", "normal", "start")
    yield from _text(WIDTH - 210, top, f"{high:.4g}", "normal", "end")


def _position(value: float, aggregates: Sequence[TrackedAggregate]) -> float:
    low, high = _range(aggregates)
    share = 0.5 if high == low else (value - low) / (high - low)
    return LABELS + share * (WIDTH - 210 - LABELS)


def _range(aggregates: Sequence[TrackedAggregate]) -> tuple[float, float]:
    estimates = [a.estimate for a in aggregates if a.estimate is not None]
    values = [
        v for i in estimates for v in (i.estimate, i.low, i.high, *_runs(i)) if v is not None
    ]
    return (min(values), max(values)) if values else (0.0, 1.0)


def _text(
    left: float, top: float, text: str, weight: str = "normal", anchor: str = "start"
) -> Iterator[str]:
    attributes = f'x="{left:.1f}" y="{top:.1f}" text-anchor="{anchor}" font-weight="{weight}"'
    # A label is the user's text and could otherwise put a script into a page of the service.
    yield f"<text {attributes}>{escape(text)}</text>"


def _short(text: str, longest: int = 32) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
