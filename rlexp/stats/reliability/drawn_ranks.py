"""Order statistics of resampled runs, from how often each run is drawn: nothing is sorted again."""

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.reliability.risk import SHARE, worst_count
from rlexp.stats.whole_runs import Counts, OrderedRuns

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class DrawnRanks:
    """Resamples of n runs at one point, counted from the lowest run on.

    Attributes:
        runs: All of them, from the lowest to the highest.
        drawn: Of shape (n, rows): how often each run is drawn, in the order in which they came.
        reached: Of shape (n, rows): how many are drawn up to each run, from the lowest on.
    """

    runs: OrderedRuns
    drawn: Counts
    reached: Counts

    @classmethod
    def of(cls, values: Array, drawn: Counts, room: Counts) -> "DrawnRanks":
        """Count the draws of n runs; `room` is that of `room_for`, and overwritten."""
        runs = OrderedRuns.of(values, np.ones(len(values), dtype=np.int64))
        room[0] = drawn[runs.places[0]]
        for rank, place in enumerate(runs.places[1:]):
            np.add(room[rank], drawn[place], out=room[rank + 1])
        return cls(runs, drawn, room)

    def places_of(self, number: int) -> NDArray[np.intp]:
        """Place of the drawn run that so many drawn ones lie below, of shape (rows,)."""
        n = len(self.reached)
        # All rows have passed these places, none has come to those.
        first = bisect_left(range(n), number + 1, key=lambda i: int(self.reached[i].max()))
        last = bisect_left(range(n), number + 1, key=lambda i: int(self.reached[i].min()))
        below = (self.reached[first:last] <= number).sum(axis=0, dtype=np.intp)
        return np.asarray(first + below)

    def quantile(self, share: float) -> Array:
        """The quantile of a share, linearly interpolated as NumPy does, of shape (rows,)."""
        place = share * (len(self.reached) - 1)
        number = int(place)
        low = self.runs.values[self.places_of(number)]
        if number + 1 == len(self.reached):
            return np.asarray(low)
        high, part = self.runs.values[self.places_of(number + 1)], place - number
        step = high - low
        return np.asarray(low + step * part if part < 1 / 2 else high - step * (1 - part))

    def worst_mean(self, share: float = SHARE) -> Array:
        """Mean of the drawn runs at or below the quantile of a share: see `risk.cvar`."""
        # Above the lowest: a mean of equal values is that value, to the last bit.
        lowest, values = self.runs.values[0], self.runs.values
        above = values - lowest
        ends = np.searchsorted(values, values, side="right") - 1
        last = ends[self.places_of(worst_count(len(values), share) - 1)]
        most = int(last.max()) + 1
        sums = np.cumsum(self.drawn[self.runs.places[:most]] * above[:most, np.newaxis], axis=0)
        rows = np.arange(len(last))
        return np.asarray(lowest + sums[last, rows] / self.reached[last, rows])


def room_for(drawn: Counts) -> Counts:
    """An array like `drawn`, of shape (n, rows), that holds numbers up to n."""
    return np.empty(drawn.shape, np.min_scalar_type(-len(drawn) - 1))


def resampled_dispersion(data: Array, drawn: Counts) -> Array:
    """Interquartile range over drawn runs at each point, by the median of their ranges.

    Args:
        data: Of shape (n, P + 1): values at P points, and in the last column the ranges.
        drawn: Of shape (n, rows).

    Returns:
        Of shape (P, rows).
    """
    room = room_for(drawn)
    ranges = DrawnRanks.of(data[:, -1], drawn, room).quantile(1 / 2)
    points = (DrawnRanks.of(values, drawn, room) for values in data[:, :-1].T)
    return np.stack([point.quantile(3 / 4) - point.quantile(1 / 4) for point in points]) / ranges


def resampled_risk(data: Array, drawn: Counts) -> Array:
    """Mean of the worst 5 % of the drawn runs at each point.

    Args:
        data: Of shape (n, P).
        drawn: Of shape (n, rows).

    Returns:
        Of shape (P, rows).
    """
    room = room_for(drawn)
    return np.stack([DrawnRanks.of(values, drawn, room).worst_mean() for values in data.T])
