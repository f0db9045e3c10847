"""Estimates and intervals in words: the same words and digits on every surface."""

from collections.abc import Iterable

from rlexp.metrics.estimate import Estimate
from rlexp.stats.interval import Interval, too_few
from rlexp.text import number, per_cent, runs_by_task

SHORT_OF_NOMINAL = 0.90
"""Expected coverage below which an interval is marked as too narrow."""


def possible(interval: Interval) -> bool:
    """Whether it has both ends."""
    return interval.low is not None and interval.high is not None


def digits_of(interval: Interval, otherwise: int) -> int:
    """Digits after the point: an estimate has the same on every surface."""
    return interval.digits if isinstance(interval, Estimate) else otherwise


def no_interval(interval: Interval) -> str:
    """That there is no interval, and why."""
    if interval.reason is None:
        return "no interval"
    return interval.reason if lacks_runs(interval) else f"no interval: {interval.reason}"


def lacks_runs(interval: Interval) -> bool:
    """Whether there is no interval because there are too few runs."""
    return interval.reason is not None and interval.reason == too_few(interval.n)


def ends(interval: Interval, digits: int) -> str:
    """The ends of an interval (`[0.79, 0.90]`), or that and why there is none."""
    if interval.low is None or interval.high is None:
        return no_interval(interval)
    digits = digits_of(interval, digits)
    return f"[{number(interval.low, digits)}, {number(interval.high, digits)}]"


def with_ends(interval: Interval, digits: int) -> str:
    """An estimate and its interval; or that there is none, and why, in parentheses.

    Where few runs stand behind it, they follow (`384 [110, 500] (n = 3: 110, 420, 500)`).
    """
    words = ends(interval, digits)
    shown = number(interval.estimate, digits_of(interval, digits))
    runs = [runs_beside(interval)] if few_runs(interval) else []
    if not possible(interval):
        return f"{shown} ({'; '.join([*runs, words])})"
    return " ".join([shown, words, *(f"({listed})" for listed in runs)])


def few_runs(interval: Interval) -> bool:
    """Whether so few runs stand behind an estimate that they are shown beside it."""
    return isinstance(interval, Estimate) and bool(interval.runs)


def every_run(interval: Interval) -> str:
    """The runs behind an estimate, where they are few (`110, 420, 500`); tasks by a semicolon."""
    if not isinstance(interval, Estimate):
        return ""
    tasks = [[number(run, interval.digits) for run in runs] for runs in interval.runs]
    return "; ".join(map(", ".join, tasks))


def runs_beside(interval: Interval) -> str:
    """How many runs of each task, and which where they are few (`n = 3: 110, 420, 500`)."""
    sizes = interval.sizes if isinstance(interval, Estimate) else ()
    count = f"n = {runs_by_task(sizes) if sizes else interval.n}"
    return f"{count}: {every_run(interval)}" if few_runs(interval) else count


def sentence(title: str, estimate: Estimate) -> str:
    """An estimate with everything that belongs to it, on one line."""
    shown = f"{title} {with_ends(estimate, estimate.digits)}"
    count = "" if few_runs(estimate) else f" ({runs_beside(estimate)})"
    if not possible(estimate):
        return f"{shown}{count}"
    words = [f"{shown}{count}", made_how(estimate)]
    if estimate.coverage is not None:
        words.append(f"expected coverage {per_cent(estimate.coverage)}")
    return ", ".join(words)


def too_narrow(interval: Interval) -> bool:
    """Whether it is known to hold the true value less often than a reader may believe."""
    return interval.coverage is not None and interval.coverage < SHORT_OF_NOMINAL


def made_how(interval: Interval) -> str:
    """Level, method, repetitions and seed of an interval that is possible."""
    words = [f"{per_cent(interval.level)} interval, method {interval.method}"]
    if interval.repetitions:
        words.append(f"{interval.repetitions:,} repetitions")
    if interval.seed is not None:
        words.append(f"seed {interval.seed}")
    return ", ".join(words)


def everything(interval: Interval, digits: int) -> str:
    """Everything that there is to say of an interval, in lines."""
    lines = [with_ends(interval, digits)]
    if possible(interval):
        lines.append(made_how(interval))
    lines.append(_count(interval))
    if interval.coverage is not None:
        lines.append(f"expected coverage {per_cent(interval.coverage)}")
    if possible(interval) and interval.reason:
        lines.append(interval.reason)
    return "\n".join(lines)


def _count(interval: Interval) -> str:
    if isinstance(interval, Estimate) and len(interval.sizes) > 1:
        return f"n = {runs_by_task(interval.sizes)}"
    runs = "1 run" if interval.n == 1 else f"{interval.n:,} runs"
    return f"{runs} on {interval.tasks} tasks" if interval.tasks > 1 else runs


def footnotes(intervals: Iterable[Interval]) -> tuple[str, ...]:
    """What a table's intervals have in common, and what the mark beside some of them means."""
    every = list(intervals)
    how = tuple(dict.fromkeys(f"{made_how(i)}." for i in every if possible(i)))
    known = sorted({i.coverage for i in every if i.coverage is not None and too_narrow(i)})
    if not known:
        return how
    spread = " to ".join(dict.fromkeys(per_cent(c) for c in (known[0], known[-1])))
    return (*how, f"† Too narrow: its expected coverage is {spread}.")
