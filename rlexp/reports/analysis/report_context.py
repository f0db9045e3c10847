"""The context of a report: evidence, settings and metrics that every section receives."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Annotated, Any, Literal, TypeVar, cast

from annotated_types import Ge, Gt, Lt

from rlexp.metrics import Metric
from rlexp.metrics.estimate import Estimator, KeptIntervals
from rlexp.reports.evidence.runs import Evidence
from rlexp.stats.aggregate import CENTRE_BY_CUT, Aggregate, Cut
from rlexp.stats.resampling import Resampling

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
Open = Annotated[float, Gt(0), Lt(1)]


@dataclass(slots=True)
class ResultMemory:
    """Results by name, each with what it was computed from.

    `rlexp view` computes the report of an experiment again when a run has ended. What was computed
    from the runs of the other labels is then still right. One memory serves reports with the same
    metrics.
    """

    _results: dict[Hashable, tuple[object, object]] = field(default_factory=dict)

    def recall(self, name: Hashable, basis: object, compute: Callable[[], T]) -> T:
        """The result of this name; it is computed again where the basis is another one.

        Args:
            name: The name of the result. The latest result of each name is kept.
            basis: Everything that the result depends on, compared by `==`. Equal objects in tuples
                cost nothing where they are the same object.
            compute: Computes the result.
        """
        return self.recall_each([name], {name: basis}, lambda _: [compute()])[0]

    def recall_each(
        self,
        names: Sequence[K],
        bases: Mapping[K, object],
        compute: Callable[[Sequence[K]], Iterable[T]],
    ) -> list[T]:
        """The results of these names, in their order; all that are new are computed together."""
        missing = [name for name in names if not self._holds(name, bases[name])]
        if missing:
            for name, result in zip(missing, compute(missing), strict=True):
                self._results[name] = bases[name], result
        # Every name stands for one type of result.
        return [cast("T", self._results[name][1]) for name in names]

    def _holds(self, name: Hashable, basis: object) -> bool:
        return name in self._results and self._results[name][0] == basis


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSettings:
    """Settings of `conf/report.yaml`, without the metrics and sections.

    Attributes:
        iqm: Cut of interquartile means: exactly a quarter at each end, or as in rliable.
        interval: Method of the intervals of aggregates.
        level: Nominal coverage of every interval.
        alpha: Family-wise error of the verdicts.
        power: Requested probability of detecting a difference, where seeds are planned.
        margin: Largest irrelevant difference, in units of the compared score; without one, no
            pair is called equivalent.
        repetitions: Number of resamples for the interval of an aggregate.
        curve_repetitions: Number of resamples for a band over time.
        curve_points: Maximal number of points of a learning curve.
        seed: Seed of every resampling.
        normalisation: Scores that become 0 and 1: the declared `anchors` of a task, its smallest
            and largest `observed` score, which depends on the compared labels, or `none` for
            scores that are normalised already.
    """

    iqm: Cut
    interval: Literal["t", "percentile", "basic", "bca"]
    level: Open
    alpha: Open
    power: Open
    margin: Annotated[float, Gt(0), Lt(inf)] | None
    repetitions: Annotated[int, Ge(100)]
    curve_repetitions: Annotated[int, Ge(100)]
    curve_points: Annotated[int, Ge(2)]
    seed: Annotated[int, Ge(0)]
    normalisation: Literal["anchors", "observed", "none"]

    @property
    def resampling(self) -> Resampling:
        """Resampling for aggregates, comparisons and matrices."""
        return Resampling(seed=self.seed, repetitions=self.repetitions, level=self.level)

    @property
    def estimator(self) -> Estimator:
        """Estimator of aggregates with their intervals."""
        return Estimator(method=self.interval, resampling=self.resampling)

    @property
    def interquartile_mean(self) -> Aggregate:
        """The interquartile mean, with the cut of the settings."""
        return Aggregate(CENTRE_BY_CUT[self.iqm])

    @property
    def curve_resampling(self) -> Resampling:
        """Resampling for bands over time."""
        return Resampling(seed=self.seed, repetitions=self.curve_repetitions, level=self.level)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportContext:
    """Evidence and settings, from which every section computes its part.

    Attributes:
        evidence: The runs.
        settings: Levels, methods and seeds.
        metrics: Metrics by name; the first one is the leading metric.
        sections: Names of all sections of the report; definitions depend on them.
        pair_intervals: Whether differences of pairs get intervals, which take most of the time.
    """

    evidence: Evidence
    settings: ReportSettings
    metrics: Mapping[str, Metric]
    sections: tuple[str, ...] = ()
    pair_intervals: bool = True
    computed: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Cache of results that several sections need, by name."""
    memory: ResultMemory = field(default_factory=ResultMemory, repr=False, compare=False)
    """Results that a later report of this process uses again."""
    kept: KeptIntervals | None = field(default=None, repr=False, compare=False)
    """Intervals that later commands use again."""

    @property
    def estimator(self) -> Estimator:
        """Estimator of aggregates with their intervals, which are kept for later commands."""
        return replace(self.settings.estimator, kept=self.kept)
