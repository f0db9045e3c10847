"""The policies of the front of a sweep, as `rlexp best` shows them."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlexp.metrics.estimate import Estimate
from rlexp.reports.analysis.front_values import PHASES, policy_values
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.evidence.sweeps import SweepEvidence


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontRow:
    """The objectives of a finalist of a sweep of several objectives, in one phase.

    Attributes:
        trial: The number of the trial.
        name: Its name, such as `tuned (trial 7)`.
        on_front: Whether no other finalist dominates it, by the seeds of the choice.
        phase: `tuning`, `selection` or `test`; only test values are results.
        runs: Number of runs with every objective.
        planned: Number of planned runs.
        means: The mean of each objective with its interval, by name; null without runs.
    """

    trial: int
    name: str
    on_front: bool
    phase: str
    runs: int
    planned: int
    means: dict[str, Estimate | None]


def front_rows(sweep: SweepEvidence, context: ReportContext) -> Iterator[FrontRow]:
    """The objectives of each finalist in each phase; nothing with one objective."""
    if sweep.front is None:
        return
    for values in policy_values(sweep.front, PHASES, context):
        yield FrontRow(
            trial=values.policy.trial,
            name=values.policy.name,
            on_front=values.policy.on_front,
            phase=values.phase,
            runs=values.n,
            planned=values.planned,
            means=dict(zip(sweep.front.objectives, values.means, strict=True)),
        )
