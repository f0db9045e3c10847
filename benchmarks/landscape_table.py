"""Landscapes: tables of real trainings of many configurations on many seeds."""

import csv
import gzip
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlexp.protocol.space import Choice, Domain, Integer, Parameter, Real, Space

FOLDER = Path(__file__).parents[1] / "tests" / "landscapes"
CRASH = 1e-300
"""ARLBench writes the smallest positive float, 2.2e-308, where a training crashed."""
CHOICES = 10
"""A column of so many different values or fewer is a choice among them."""
DECADE = 10.0
"""A range must span a factor of so many to be searched on a log scale."""
PERCENTILES = (5, 95)
FLAT = 0.25
"""Of the range of its configurations, the share that 5–95 % of them must span."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Landscape:
    """The trainings of one task.

    Attributes:
        name: Of the task and the algorithm.
        rows: The hyperparameters of each configuration; those that it lacks are left out.
        steps: Environment steps of the checkpoints, of shape (checkpoints,).
        returns: Mean return at each checkpoint, of shape (configurations, seeds, checkpoints);
            NaN from a crash on.
    """

    name: str
    rows: tuple[Row, ...]
    steps: tuple[int, ...]
    returns: NDArray[np.float64]

    @property
    def final(self) -> NDArray[np.float64]:
        """Return after training, of shape (configurations, seeds); NaN where it crashed."""
        return self.returns[:, :, -1]

    @cached_property
    def scores(self) -> NDArray[np.float64]:
        """The same, with the worst return of all where a training crashed."""
        return np.where(np.isnan(self.final), np.nanmin(self.final), self.final)

    @cached_property
    def means(self) -> NDArray[np.float64]:
        """Mean return after training of each configuration that did not always crash."""
        some = ~np.isnan(self.final).all(axis=1)
        return np.asarray(np.nanmean(self.final[some], axis=1))

    @cached_property
    def ends(self) -> tuple[float, float]:
        """5th and 95th percentile of the means of the configurations: 0 and 1 of the task."""
        low, high = np.percentile(self.means, PERCENTILES)
        return float(low), float(high)

    @property
    def is_flat(self) -> bool:
        """Whether hardly any configuration differs from the others: nothing can be scaled then."""
        low, high = self.ends
        return high - low < FLAT * float(np.ptp(self.means))

    def normalise(self, score: float) -> float:
        """A score on the scale of the task."""
        low, high = self.ends
        return (score - low) / (high - low)

    @cached_property
    def space(self) -> Space:
        """What the columns span: log scales, choices, and conditions where there are gaps."""
        return space_of(self.rows)

    @cached_property
    def cube(self) -> NDArray[np.float64]:
        """The configurations in the unit cube, of shape (configurations, parameters)."""
        return np.array([self.place(row) for row in self.rows])

    def place(self, values: Mapping[str, Any]) -> NDArray[np.float64]:
        """Where values lie in the unit cube, of shape (parameters,); NaN for what is not there."""
        shares = self.space.encode(values)
        return np.array([math.nan if share is None else share for share in shares])

    def nearest(self, values: Mapping[str, Any], taken: Sequence[int] = ()) -> int:
        """The configuration next to values, of those not taken unless all are.

        By squared distance in the unit cube over the parameters that both have; words that differ
        are 1 apart. Of equals the first.
        """
        apart = np.abs(self.cube - self.place(values))
        unordered = self._words
        apart[:, unordered] = np.where(apart[:, unordered] > 0, 1.0, apart[:, unordered])
        distance = np.nansum(apart**2, axis=1)
        if len(set(taken)) < len(self.rows):
            distance[list(taken)] = np.inf
        return int(distance.argmin())

    @cached_property
    def _words(self) -> NDArray[np.bool_]:
        domains = [parameter.domain for parameter in self.space.parameters]
        return np.array([isinstance(d, Choice) and not _has_order(d.values) for d in domains])


def names() -> list[str]:
    """The names of all landscapes."""
    return sorted(path.name.removesuffix(".scores.csv.gz") for path in FOLDER.glob("*.scores.*"))


def load(name: str) -> Landscape:
    """Read one landscape.

    Raises:
        OSError: There is none of this name.
    """
    lines = _read(name, "scores")
    table = np.array([[float(cell or "nan") for cell in line.values()] for line in lines])
    ordered = table[np.lexsort(table.T[2::-1])]
    shape = [len(np.unique(column)) for column in ordered.T[:3]]
    returns = ordered[:, 3].reshape(shape)
    rows = {int(row.pop("config")): _values(row) for row in _read(name, "configs")}
    return Landscape(
        name=name,
        rows=tuple(rows[number] for number in sorted(rows)),
        steps=tuple(int(step) for step in np.unique(ordered[:, 2])),
        returns=without_crashes(returns),
    )


def usable() -> list[Landscape]:
    """The landscapes whose configurations have clearly different scores."""
    tables = [load(name) for name in names()]
    return [landscape for landscape in tables if not landscape.is_flat]


def without_crashes(returns: NDArray[np.float64]) -> NDArray[np.float64]:
    """The returns of shape (…, checkpoints), NaN from the first crash of a training on."""
    crashed = np.isnan(returns) | ((returns > 0) & (returns < CRASH))
    return np.where(np.maximum.accumulate(crashed, axis=-1), np.nan, returns)


def space_of(rows: Sequence[Row]) -> Space:
    """The space of configurations; parameters that are not always active come last."""
    keys = list(dict.fromkeys(key for row in rows for key in row))
    always = [key for key in keys if all(key in row for row in rows)]
    domains = {key: domain([row[key] for row in rows if key in row]) for key in keys}
    return Space(
        parameters=tuple(
            Parameter(key=key, domain=domains[key], when=_condition(key, always, rows))
            for key in (*always, *(key for key in keys if key not in always))
        )
    )


def domain(values: Sequence[Any]) -> Domain:
    """The domain of a column: a choice, or a range on the scale that spreads its values evenly."""
    distinct = sorted(set(values))
    if len(distinct) <= CHOICES:
        return Choice(tuple(distinct))
    low, high = distinct[0], distinct[-1]
    on_log = low > 0 and high / low >= DECADE and _is_even_on_log(values)
    if all(isinstance(value, int) for value in values):
        return Integer(low, high, log=on_log)
    return Real(low, high, "log" if on_log else "linear")


def _is_even_on_log(values: Sequence[float]) -> bool:
    """Whether the median is nearer to the middle of the range on a log scale."""
    numbers = np.asarray(values, dtype=np.float64)
    off = [abs(_share(np.median(scaled), scaled) - 0.5) for scaled in (np.log(numbers), numbers)]
    return off[0] < off[1]


def _share(value: Any, scaled: NDArray[np.float64]) -> float:
    return float((value - scaled.min()) / np.ptp(scaled))


def _condition(
    key: str, always: Sequence[str], rows: Sequence[Row]
) -> Mapping[str, tuple[Any, ...]]:
    """The parameter whose values decide if a key is active, and these values."""
    if key in always:
        return {}
    for parent in always:
        there = {row[parent] for row in rows if key in row}
        absent = {row[parent] for row in rows if key not in row}
        if len(there | absent) <= CHOICES and not there & absent:
            return {parent: tuple(sorted(there))}
    raise ValueError(f"nothing decides where {key} is there")


def _has_order(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _read(name: str, kind: str) -> list[dict[str, str]]:
    text = gzip.decompress((FOLDER / f"{name}.{kind}.csv.gz").read_bytes()).decode()
    return list(csv.DictReader(io.StringIO(text)))


def _values(row: Mapping[str, str]) -> dict[str, Any]:
    return {key: _value(text) for key, text in row.items() if text}


def _value(text: str) -> Any:
    if text in {"True", "False"}:
        return text == "True"
    try:
        number = float(text)
    except ValueError:
        return text
    return int(number) if number.is_integer() else number
