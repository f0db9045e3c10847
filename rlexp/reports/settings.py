"""What a report is told: which statistics, at which level, from which random seed."""

from dataclasses import dataclass
from math import inf
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Lt

from rlexp.metrics.estimate import Estimator
from rlexp.stats.resampling import Resampling

Open = Annotated[float, Gt(0), Lt(1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of `conf/report.yaml`, but for the metrics and sections.

    Attributes:
        interval: Method of the intervals of aggregates.
        level: Nominal coverage of every interval.
        alpha: Family-wise error of the verdicts.
        power: Wanted probability of finding a difference, where seeds are planned.
        margin: Difference that does not matter, in units of the compared score; without one,
            nothing is called equivalent.
        repetitions: Resamples of an aggregate's interval.
        curve_repetitions: Resamples of a band over time.
        curve_points: Points of a learning curve, at most.
        seed: Of every resampling.
        normalisation: From which scores tasks are brought to one scale: known `anchors`, or the
            least and greatest `observed` score, which depends on who takes part.
    """

    interval: Literal["t", "percentile", "basic", "bca"]
    level: Open
    alpha: Open
    power: Open
    margin: Annotated[float, Gt(0), Lt(inf)] | None
    repetitions: Annotated[int, Ge(100)]
    curve_repetitions: Annotated[int, Ge(100)]
    curve_points: Annotated[int, Ge(2)]
    seed: Annotated[int, Ge(0)]
    normalisation: Literal["anchors", "observed"]

    @property
    def resampling(self) -> Resampling:
        """Of aggregates, comparisons and matrices."""
        return Resampling(seed=self.seed, repetitions=self.repetitions, level=self.level)

    @property
    def estimator(self) -> Estimator:
        """Of every aggregate with its interval."""
        return Estimator(method=self.interval, resampling=self.resampling)

    @property
    def curve_resampling(self) -> Resampling:
        """Of bands over time."""
        return Resampling(seed=self.seed, repetitions=self.curve_repetitions, level=self.level)
