"""The front of a sweep of several objectives, as `rlexp best` gives it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rlexp.metrics.estimate import Estimate
from rlexp.reports.analysis.front_values import (
    PHASES,
    ExpectedUtility,
    FrontVolume,
    expected_utilities,
    front_volumes,
    policy_values,
)
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.evidence.fronts import FrontEvidence
from rlexp.reports.evidence.sweeps import SweepEvidence


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontRow:
    """The objectives of a finalist, or of the default configuration, in one phase.

    Attributes:
        trial: The number of the trial.
        name: Its name, such as `tuned (trial 7)`.
        on_front: Whether no other finalist dominates it, by the seeds of the choice.
        phase: `tuning`, `selection` or `test`; only test values are results.
        runs: Number of runs with every objective.
        planned: Number of planned runs.
        means: The mean of each objective with its interval, by name; null without runs, and for the
            spread over seeds.
        values: Each objective, aggregated over these runs as the search does it, by name.
    """

    trial: int
    name: str
    on_front: bool
    phase: str
    runs: int
    planned: int
    means: Mapping[str, Estimate | None]
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontOfSweep:
    """The front of a sweep of several objectives.

    Attributes:
        objectives: The names of the objectives.
        minimised: Those whose lower values are better.
        frozen: Whether the choice wrote the front down; before, it is that on tuning seeds so far.
        reference: The point from which hypervolumes are measured, by objective.
        reference_rule: Where this point comes from.
        policies: The objectives of each finalist and of the default configuration in each phase.
        hypervolumes: The hypervolume of the front in each phase.
        utilities: The expected utility of the front in each phase; empty where none is reported.
    """

    objectives: tuple[str, ...]
    minimised: tuple[str, ...]
    frozen: bool
    reference: Mapping[str, float]
    reference_rule: str
    policies: tuple[FrontRow, ...]
    hypervolumes: tuple[FrontVolume, ...]
    utilities: tuple[ExpectedUtility, ...]


def front_of_sweep(sweep: SweepEvidence, context: ReportContext) -> FrontOfSweep | None:
    """The front with its estimates; None with one objective, and before the first complete trial."""
    front = sweep.front
    if front is None:
        return None
    return FrontOfSweep(
        objectives=front.objectives,
        minimised=tuple(name for name in front.objectives if name in front.minimised),
        frozen=front.frozen,
        reference=dict(zip(front.objectives, front.reference, strict=True)),
        reference_rule=front.reference_rule,
        policies=tuple(_rows(front, context)),
        hypervolumes=front_volumes(front, context),
        utilities=tuple(expected_utilities(front, context)),
    )


def _rows(front: FrontEvidence, context: ReportContext) -> Iterator[FrontRow]:
    for values in policy_values(front, PHASES, context):
        yield FrontRow(
            trial=values.policy.trial,
            name=values.policy.name,
            on_front=values.policy.on_front,
            phase=values.phase,
            runs=values.n,
            planned=values.planned,
            means=dict(zip(front.objectives, values.means, strict=True)),
            values=dict(zip(front.objectives, values.whole or (), strict=False)),
        )
