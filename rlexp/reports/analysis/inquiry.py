"""What a section of a report is asked about."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Lt

from rlexp.metrics import Metric
from rlexp.metrics.estimate import Estimator
from rlexp.reports.evidence.runs import Evidence
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """Evidence, and what is to be computed from it.

    Attributes:
        evidence: The runs.
        settings: Levels, methods, seeds.
        metrics: Aggregates by name; the first one leads.
        sections: Names of all sections of the report, so that one can speak of the others.
    """

    evidence: Evidence
    settings: Settings
    metrics: Mapping[str, Metric]
    sections: tuple[str, ...] = ()
    computed: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What one section has computed and another asks for, by what it is."""
