"""Estimates and intervals as text, with the same wording and digits on every surface."""

from collections.abc import Iterable, Iterator

from rlexp.metrics.estimate import Estimate
from rlexp.stats.interval import TOO_FEW, Interval
from rlexp.text import (
    decimals_for_span,
    format_number,
    format_percentage,
    format_runs_by_task,
    join_first_names,
)

SHORT_OF_NOMINAL = 0.90
"""Expected coverage below which an interval is marked as too narrow."""


VALUES_LISTED = 6
"""Most values of rliable that a footnote lists."""

THREE_RUNS = "three runs show little of their spread"
"""Warning beside an interval of three runs: its width is mostly an assumption."""


def possible(interval: Interval) -> bool:
    """Whether the interval has both ends."""
    return interval.low is not None and interval.high is not None


def digits_of(interval: Interval, otherwise: int) -> int:
    """Digits after the decimal point: those of an estimate, or `otherwise` for other intervals.

    Other intervals have more digits where these would show every number of them as zero.
    """
    if isinstance(interval, Estimate):
        return interval.digits
    shown = [v for v in (interval.estimate, interval.low, interval.high) if v is not None]
    largest = max(map(abs, shown))
    if not 0 < largest < 1 or round(largest, otherwise) != 0:
        return otherwise
    return decimals_for_span(max(shown) - min(shown), largest)


def decimals_of_width(interval: Interval) -> int:
    """Decimal places that distinguish the ends of an interval; without ends, those of its size."""
    if interval.low is None or interval.high is None:
        return decimals_for_span(abs(interval.estimate))
    return decimals_for_span(interval.high - interval.low)


def no_interval(interval: Interval) -> str:
    """The text for a missing interval, with the reason."""
    if interval.reason is None:
        return "no interval"
    return interval.reason if has_too_few_runs(interval) else f"no interval: {interval.reason}"


def has_too_few_runs(interval: Interval) -> bool:
    """Whether the interval is missing because there are too few runs."""
    return interval.reason is not None and interval.reason.startswith(f"{TOO_FEW} (")


def ends(interval: Interval, digits: int) -> str:
    """The ends of an interval (`[0.79, 0.90]`), or the reason why there are none."""
    if interval.low is None or interval.high is None:
        return no_interval(interval)
    digits = digits_of(interval, digits)
    return f"[{format_number(interval.low, digits)}, {format_number(interval.high, digits)}]"


def with_ends(interval: Interval, digits: int) -> str:
    """An estimate with its interval, or with the reason why there is none in parentheses.

    The scores of few runs are added: `384 [110, 500] (n = 3: 110, 420, 500)`.
    """
    ends_text = ends(interval, digits)
    shown = format_number(interval.estimate, digits_of(interval, digits))
    runs = [runs_beside(interval)] if few_runs(interval) else []
    if runs and has_too_few_runs(interval):
        # The reason names the number of runs as well, which stands before it here.
        return f"{shown} ({_count_of_few(interval)}; {TOO_FEW})"
    if not possible(interval):
        return f"{shown} ({'; '.join([*runs, ends_text])})"
    return " ".join([shown, ends_text, *(f"({listed})" for listed in runs)])


def optimism_text(optimism: Interval, *, lower_is_better: bool) -> str:
    """The optimism of a tuning score, with the difference that it is and its interval."""
    difference = (
        "test score minus tuning score, because lower is better"
        if lower_is_better
        else "tuning score minus test score"
    )
    shown = with_ends(optimism, decimals_of_width(optimism))
    return f"Optimism of tuning ({difference}): {shown}"


def few_runs(interval: Interval) -> bool:
    """Whether an estimate is based on so few runs that they are shown beside it."""
    return isinstance(interval, Estimate) and bool(interval.runs)


def every_run(interval: Interval) -> str:
    """The scores of few runs (`110, 420, 500`), with a semicolon between tasks; else empty."""
    if not isinstance(interval, Estimate):
        return ""
    tasks = [[format_number(run, interval.digits) for run in runs] for runs in interval.runs]
    return "; ".join(map(", ".join, tasks))


def runs_beside(interval: Interval) -> str:
    """Number of runs of each task, with the scores of few runs (`n = 3: 110, 420, 500`)."""
    sizes = interval.sizes if isinstance(interval, Estimate) else ()
    count = f"n = {format_runs_by_task(sizes) if sizes else interval.n}"
    return f"{count}: {every_run(interval)}" if few_runs(interval) else count


def _count_of_few(interval: Interval) -> str:
    """Number and scores of runs that are too few; the score of a single one is the estimate."""
    return "n = 1" if interval.n == 1 else runs_beside(interval)


def sentence(title: str, estimate: Estimate) -> str:
    """An estimate with its interval, number of runs and method, on one line."""
    shown = f"{title} {with_ends(estimate, estimate.digits)}"
    has_count = few_runs(estimate) or has_too_few_runs(estimate)
    count = "" if has_count else f" ({runs_beside(estimate)})"
    if not possible(estimate):
        return f"{shown}{count}"
    parts = [f"{shown}{count}", method_text(estimate)]
    if estimate.coverage is not None:
        parts.append(f"expected coverage {format_percentage(estimate.coverage)}")
    if value := rliables_value(estimate):
        parts.append(f"{value} with rliable's cut of whole runs")
    if three_runs(estimate):
        parts.append(THREE_RUNS)
    return ", ".join(parts)


def three_runs(interval: Interval) -> bool:
    """Whether an interval with ends is that of three runs of one task."""
    return possible(interval) and (interval.n, interval.tasks) == (3, 1)


def rliables_value(interval: Interval) -> str | None:
    """The interquartile mean of rliable as text, where its digits differ; `None` elsewhere."""
    if not isinstance(interval, Estimate) or interval.rliable is None:
        return None
    return format_number(interval.rliable, interval.digits)


def too_narrow(interval: Interval) -> bool:
    """Whether the expected coverage of the interval is below `SHORT_OF_NOMINAL`."""
    return interval.coverage is not None and interval.coverage < SHORT_OF_NOMINAL


def method_text(interval: Interval) -> str:
    """Level, method, repetitions and seed of an interval with ends."""
    parts = [f"{format_percentage(interval.level)} interval, method {interval.method}"]
    if interval.repetitions:
        parts.append(f"{interval.repetitions:,} repetitions")
    if interval.seed is not None:
        parts.append(f"seed {interval.seed}")
    return ", ".join(parts)


def short_method_text(interval: Interval) -> str:
    """Level, method and seed of an interval with ends, in few words."""
    seed = "" if interval.seed is None else f", seed {interval.seed}"
    return f"{format_percentage(interval.level)} interval: {interval.method}{seed}"


def full_text(interval: Interval, digits: int) -> str:
    """All fields of an interval, on several lines."""
    lines = [with_ends(interval, digits)]
    if possible(interval):
        lines.append(method_text(interval))
    lines.append(_count(interval))
    if value := rliables_value(interval):
        lines.append(f"{value} with rliable's cut of whole runs")
    if interval.coverage is not None:
        lines.append(f"expected coverage {format_percentage(interval.coverage)}")
    if three_runs(interval):
        lines.append(THREE_RUNS)
    if possible(interval) and interval.reason:
        lines.append(interval.reason)
    return "\n".join(lines)


def _count(interval: Interval) -> str:
    if isinstance(interval, Estimate) and len(interval.sizes) > 1:
        return f"n = {format_runs_by_task(interval.sizes)}"
    runs = "1 run" if interval.n == 1 else f"{interval.n:,} runs"
    return f"{runs} on {interval.tasks} tasks" if interval.tasks > 1 else runs


def footnotes(intervals: Iterable[Interval]) -> tuple[str, ...]:
    """Footnotes of a table: methods of its intervals, rliable's values, and what † means."""
    every = list(intervals)
    methods = dict.fromkeys(f"{method_text(i)}." for i in every if possible(i))
    return (*methods, *_rliables_values(every), *_weaknesses(every))


def short_footnotes(intervals: Iterable[Interval]) -> tuple[str, ...]:
    """Footnotes for one screen: level, method and seed of the intervals, and what weakens them."""
    every = list(intervals)
    methods = dict.fromkeys(f"{short_method_text(i)}." for i in every if possible(i))
    absent = dict.fromkeys(no_interval(i) for i in every if not possible(i) and i.reason)
    reasons = (f"[—] {reason[:1].upper()}{reason[1:]}." for reason in absent)
    return (*methods, *reasons, *_weaknesses(every))


def _weaknesses(every: Iterable[Interval]) -> Iterator[str]:
    """Footnotes on intervals of three runs, and on intervals that are too narrow."""
    listed = list(every)
    if any(map(three_runs, listed)):
        yield f"Intervals of n = 3: {THREE_RUNS}."
    too_low = sorted({i.coverage for i in listed if i.coverage is not None and too_narrow(i)})
    if too_low:
        spread = dict.fromkeys(format_percentage(c) for c in (too_low[0], too_low[-1]))
        yield f"† Too narrow: its expected coverage is {' to '.join(spread)}."


def _rliables_values(intervals: Iterable[Interval]) -> tuple[str, ...]:
    """A footnote with the interquartile means of rliable, where their digits differ."""
    values = dict.fromkeys(
        f"{value} for {format_number(i.estimate, digits_of(i, 0))}"
        for i in intervals
        if (value := rliables_value(i))
    )
    if not values:
        return ()
    named = join_first_names(list(values), VALUES_LISTED)
    return (f"rliable, which cuts whole runs, gives {named} (--set iqm=rliable).",)
