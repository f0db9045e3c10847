"""What the policies of a front reach: values by phase, hypervolumes, and the expected utility."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum, isfinite

from rlexp.metrics.estimate import Ends, Estimate, declared_ends
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.evidence.fronts import FrontEvidence, FrontPolicy, Vector
from rlexp.stats.aggregate import Aggregate
from rlexp.stats.pairs.difference import LARGEST_SCORE
from rlexp.stats.pareto import even_weights, hypervolume
from rlexp.stats.task_scores import TaskScores

MEAN = Aggregate("mean")
PHASES = ("tuning", "selection", "test")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyValues:
    """The objectives of one policy in one phase.

    Attributes:
        policy: The policy.
        phase: The phase of its runs.
        n: Number of runs that have every objective.
        planned: Number of planned runs.
        means: The mean of each objective over these runs with its interval; None without a run, and for
            the spread over seeds.
        whole: The objectives aggregated over these runs; None without a run.
    """

    policy: FrontPolicy
    phase: str
    n: int
    planned: int
    means: tuple[Estimate | None, ...]
    whole: Vector | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontVolume:
    """The hypervolume of the front in one phase.

    Attributes:
        phase: The phase.
        policies: Number of policies of the front with a run.
        of_means: Of the objectives of each policy, aggregated over its seeds; null where immense values have
            no finite volume.
        by_seed: Mean over seeds of the hypervolume of the policies that were trained with the same seed,
            with its interval; its n is the number of seeds on which every policy has a run.
    """

    phase: str
    policies: int
    of_means: float | None
    by_seed: Estimate | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedUtility:
    """The mean utility over weights, of the set and of the chosen policy alone, in one phase.

    Attributes:
        phase: The phase.
        weights: Number of vectors of weights.
        of_set: For each weights, the policy that had the best weighted sum when the choice was made; its
            utility is the weighted sum here. Mean over weights, then over seeds.
        of_best: The same with one policy for all weights, the best one for their mean.
    """

    phase: str
    weights: int
    of_set: Estimate | None
    of_best: Estimate | None


def policy_values(
    front: FrontEvidence, phases: Sequence[str], report: ReportContext
) -> Iterator[PolicyValues]:
    """The objectives of each policy in each phase in which it runs."""
    for policy in front.policies:
        for phase in phases:
            vectors = list(policy.values.get(phase, {}).values())
            planned = policy.planned.get(phase, 0)
            if planned or vectors:
                yield PolicyValues(
                    policy=policy,
                    phase=phase,
                    n=len(vectors),
                    planned=planned,
                    means=_means(vectors, front, report),
                    whole=policy.whole.get(phase),
                )


def _means(
    vectors: Sequence[Vector], front: FrontEvidence, report: ReportContext
) -> tuple[Estimate | None, ...]:
    if not vectors:
        return (None,) * len(front.objectives)
    columns = zip(front.objectives, zip(*vectors, strict=True), strict=True)
    return tuple(
        _estimate(column, report, declared_ends(front.known.get(name, {})))
        for name, column in columns
    )


def _estimate(
    values: Sequence[float], report: ReportContext, ends: Ends = (None, None)
) -> Estimate | None:
    """The mean over seeds with its interval; None without values, or with one that is out of range."""
    if not values or not all(isfinite(v) and abs(v) <= LARGEST_SCORE for v in values):
        return None
    return report.settings.estimator.estimate(TaskScores.from_tasks([values]), MEAN, ends)


def front_volumes(front: FrontEvidence, report: ReportContext) -> tuple[FrontVolume, ...]:
    """The hypervolume of the front in each phase in which it runs; the card and a section show it."""
    # The evidence of a report lives as long as the report, so that an `id` stands for one front.
    key = f"hypervolumes of front {id(front)}"
    if key not in report.computed:
        report.computed[key] = tuple(_volumes(front, report))
    volumes: tuple[FrontVolume, ...] = report.computed[key]
    return volumes


def _volumes(front: FrontEvidence, report: ReportContext) -> Iterator[FrontVolume]:
    reference = front.oriented(front.reference)
    for phase in PHASES:
        runs = [policy.values[phase] for policy in front.front if policy.values.get(phase)]
        if not runs:
            continue
        whole = [policy.whole[phase] for policy in front.front if phase in policy.whole]
        seeds = common_seeds(front, phase)
        volumes = [hypervolume([front.oriented(r[s]) for r in runs], reference) for s in seeds]
        yield FrontVolume(
            phase=phase,
            policies=len(runs),
            of_means=_finite(hypervolume([front.oriented(w) for w in whole], reference)),
            # A volume is not negative.
            by_seed=_estimate(volumes, report, (0.0, None)),
        )


def _finite(volume: float) -> float | None:
    """The volume; None where a product of immense values overflows."""
    return volume if isfinite(volume) else None


def common_seeds(front: FrontEvidence, phase: str) -> list[int]:
    """The seeds on which every policy of the front has all objectives."""
    seeds = [
        # A run has no spread over seeds, and no volume.
        {
            seed
            for seed, vector in policy.values.get(phase, {}).items()
            if all(map(isfinite, vector))
        }
        for policy in front.front
    ]
    return sorted(set.intersection(*seeds)) if seeds else []


def expected_utilities(front: FrontEvidence, report: ReportContext) -> Iterator[ExpectedUtility]:
    """The expected utility of the front in each phase in which it runs (Zintgraf et al. 2015).

    The policy for each weights is that with the best weighted sum by the values of the choice, so that test
    seeds choose none. Its utility is measured on other seeds.
    """
    if not front.utility or not front.front:
        return
    weights = front.weights or even_weights(len(front.objectives))
    by_choice = [front.oriented(policy.chosen_by) for policy in front.front]
    best_of = [_best(by_choice, each) for each in weights]
    single = _best(by_choice, [fsum(c) / len(weights) for c in zip(*weights, strict=True)])
    for phase in PHASES:
        if seeds := common_seeds(front, phase):
            runs = [policy.values[phase] for policy in front.front]
            yield ExpectedUtility(
                phase=phase,
                weights=len(weights),
                of_set=_utility(front, runs, seeds, weights, best_of, report),
                of_best=_utility(front, runs, seeds, weights, [single] * len(weights), report),
            )


def _best(points: Sequence[Vector], weights: Sequence[float]) -> int:
    """The position of the point with the best weighted sum; the first of equal ones."""
    return max(range(len(points)), key=lambda k: _weighted(points[k], weights))


def _weighted(point: Sequence[float], weights: Sequence[float]) -> float:
    return fsum(w * value for w, value in zip(weights, point, strict=True))


def _utility(
    front: FrontEvidence,
    runs: Sequence[Mapping[int, Vector]],
    seeds: Sequence[int],
    weights: Sequence[Sequence[float]],
    chosen: Sequence[int],
    report: ReportContext,
) -> Estimate | None:
    """Mean over seeds of the mean utility over weights, with the policy that each weights chose."""
    by_seed = []
    for seed in seeds:
        points = [front.oriented(each[seed]) for each in runs]
        pairs = zip(weights, chosen, strict=True)
        by_seed.append(fsum(_weighted(points[k], w) for w, k in pairs) / len(weights))
    return _estimate(by_seed, report)
