"""Returns over the parameters of test contexts: a line over one, a map for each label over two."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count

from rlexp.errors import ConfigError, did_you_mean
from rlexp.metrics.estimate_words import made_how, possible
from rlexp.reports.context_maps import Places, cells, places, varied
from rlexp.reports.context_tests import LEVEL, ContextTests
from rlexp.reports.drawing.blocks import Axis, HeatMap, Line, Lines
from rlexp.reports.sentences import listed
from rlexp.reports.settings import Settings
from rlexp.stats.interval import Interval

Cells = Mapping[tuple[int, ...], Interval]
REACHED = "mean return"
SCALE = "One scale for all labels of the task."
EMPTY = "Empty cells had no episode."


def figures(
    tests: Sequence[ContextTests],
    settings: Settings,
    chosen: tuple[str, ...] | None,
    bins: int,
) -> Iterator[Lines | HeatMap]:
    """The figures of every task whose test varies a quantity.

    Args:
        tests: Of all labels on all tasks.
        settings: How intervals are made.
        chosen: Parameters to show where a task has them; without, the first two that vary.
        bins: Of a parameter that has too many values for a cell each.

    Raises:
        ConfigError: No task has a chosen parameter.
    """
    _check(tests, chosen or ())
    numbers = count(1)
    for task in dict.fromkeys(own.cell.task for own in tests):
        own = [t for t in tests if t.cell.task == task]
        names = _axes(own, chosen)
        shown = [t for t in own if set(names) <= set(t.parameters)]
        axes = places(shown, names, bins) if names else []
        if len(axes) == 1:
            yield _line(next(numbers), shown, axes[0], settings)
        elif axes:
            found = [cells(t, axes, settings) for t in shown]
            every = [cell.estimate for one in found for cell in one.values()]
            colour = Axis(title=REACHED, low=min(every), high=max(every))
            for t, one in zip(shown, found, strict=True):
                yield _map(next(numbers), t, axes, one, colour)


def _check(tests: Sequence[ContextTests], chosen: Sequence[str]) -> None:
    known = varied(tests)
    for name in chosen:
        if name not in known:
            raise ConfigError(
                f"section.generalisation.parameters: no test varies {name!r}"
                f"{did_you_mean(name, known)} (tests vary: {', '.join(known) or 'nothing'})"
            )


def _axes(tests: Sequence[ContextTests], chosen: Sequence[str] | None) -> tuple[str, ...]:
    """One or two parameters; those chosen where the task has all of them and they vary."""
    known = varied(tests)
    wanted = tuple(dict.fromkeys(chosen or ()))
    return wanted if wanted and set(wanted) <= set(known) else known[:2]


def _line(number: int, tests: Sequence[ContextTests], axis: Places, settings: Settings) -> Lines:
    found = [cells(own, [axis], settings) for own in tests]
    every = [value for one in found for value in one.values()]
    how = dict.fromkeys(f"{made_how(value)}." for value in every if possible(value))
    binned = f"Over {len(axis.at)} bins, each at its middle." if axis.edges else ""
    trained = dict.fromkeys(map(_trained, tests))
    note = [_runs(every), *how, binned, _averaged(tests, [axis]), *trained]
    return Lines(
        name=f"generalisation-map-{number}",
        title=f"{tests[0].cell.task}: {REACHED} by {axis.parameter}",
        x=Axis(title=axis.parameter),
        y=Axis(title=REACHED),
        lines=tuple(_curve(t, axis, one) for t, one in zip(tests, found, strict=True)),
        note=" ".join(filter(None, note)),
    )


def _curve(tests: ContextTests, axis: Places, found: Cells) -> Line:
    values = list(found.values())
    some = any(map(possible, values))
    return Line(
        label=tests.cell.label,
        x=tuple(axis.at[place] for (place,) in found),
        y=tuple(value.estimate for value in values),
        low=tuple(value.low for value in values) if some else None,
        high=tuple(value.high for value in values) if some else None,
    )


def _map(
    number: int, tests: ContextTests, axes: Sequence[Places], found: Cells, colour: Axis
) -> HeatMap:
    x, y = axes
    across, up = range(len(x.at)), range(len(y.at))
    empty = EMPTY if len(found) < len(x.at) * len(y.at) else ""
    note = [_runs(list(found.values())), SCALE, empty, _averaged([tests], axes), _trained(tests)]
    return HeatMap(
        name=f"generalisation-map-{number}",
        title=f"{tests.cell.label} on {tests.cell.task}: {REACHED} by context",
        label=tests.cell.label,
        x=x.parameter,
        y=y.parameter,
        columns=x.names,
        rows=y.names,
        values=tuple(tuple(found.get((i, j)) for i in across) for j in up),
        colour=colour,
        note=" ".join(filter(None, note)),
    )


def _runs(values: Sequence[Interval]) -> str:
    """How many runs each number is of."""
    low, high = min(v.n for v in values), max(v.n for v in values)
    return (
        f"Means over runs, n = {low}." if low == high else f"Means over runs, n = {low} to {high}."
    )


def _averaged(tests: Sequence[ContextTests], axes: Sequence[Places]) -> str:
    """Which parameters vary and are not shown."""
    shown = {axis.parameter for axis in axes} | {LEVEL}
    others = [name for name in varied(tests) if name not in shown]
    return f"Averaged over {listed(others)}." if others else ""


def _trained(tests: ContextTests) -> str:
    """What training had of the parameters, as far as episodes in distribution show it."""
    ranges = zip(tests.parameters, tests.trained, strict=True)
    told = [f"{name} {_ends(*ends)}" for name, ends in ranges if ends and name != LEVEL]
    return f"In distribution: {listed(told)}." if told else ""


def _ends(low: float, high: float) -> str:
    a, b = (f"{value:.4g}".replace("-", "−") for value in (low, high))
    return a if low == high else f"{a} to {b}"
