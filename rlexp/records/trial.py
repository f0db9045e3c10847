"""Trials: configurations proposed by a tuner, scored by their tuning runs only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from rlexp.errors import ProtocolError
from rlexp.protocol.seeds import Phase
from rlexp.records.run import RunRecord


class TrialState(StrEnum):
    """Outcome of a trial."""

    COMPLETE = "complete"
    PRUNED = "pruned"
    FAILED = "failed"


class TrialOrigin(StrEnum):
    """Where the configuration of a trial comes from, if not from the tuner alone."""

    ENQUEUED = "enqueue"
    TRIED = "try"
    PRIOR = "prior"
    EARLIER = "warm_start"

    @property
    def text(self) -> str:
        """The origin in words."""
        return ORIGINS[self]


ORIGINS = {
    TrialOrigin.ENQUEUED: "from sweep.enqueue",
    TrialOrigin.TRIED: "from --try",
    TrialOrigin.PRIOR: "from the prior",
    TrialOrigin.EARLIER: "from an earlier sweep",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A finished trial as a tuner sees it; it can be built from tuning runs only.

    Attributes:
        number: Number from 0; trial 0 is always the default configuration.
        parameters: Values of the trial's parameters; for trial 0 those of the configuration.
        steps: Environment steps of each run: the fidelity of the trial.
        state: Outcome of the trial.
        values: One value per objective, greater is better; empty unless the trial is complete.
        scores: Scores of its runs, in the order of the tuning seeds; fewer if the trial was
            screened or dropped.
        intermediate: Mean evaluation over the seeds so far, by environment steps of the trial
            summed over these seeds; the last one is where a pruned trial ended.
    """

    number: int
    parameters: Mapping[str, Any]
    steps: int
    state: TrialState
    values: tuple[float, ...] = ()
    scores: tuple[float, ...] = ()
    intermediate: Mapping[int, float] = field(default_factory=dict)

    @classmethod
    def from_records(
        cls,
        number: int,
        parameters: Mapping[str, Any],
        steps: int,
        records: Sequence[RunRecord],
        *,
        state: TrialState,
        values: tuple[float, ...] = (),
        intermediate: Mapping[int, float] | None = None,
    ) -> "Trial":
        """The trial of a set of runs.

        Args:
            number: Number from 0.
            parameters: Values of the trial's parameters.
            steps: Environment steps of each run.
            records: Records of its runs, in the order of the tuning seeds.
            state: Outcome of the trial.
            values: One value per objective, greater is better.
            intermediate: Mean evaluation by environment steps of the trial.

        Raises:
            ProtocolError: A run is not of the tuning phase.
        """
        # Test and selection scores must never reach a tuner: this is the only way to build a trial
        # from records.
        for record in records:
            if record.spec.phase is not Phase.TUNING:
                raise ProtocolError(
                    f"run {record.spec.name} is of the {record.spec.phase} phase: "
                    "a trial can only be built from tuning runs",
                )
        scores = tuple(r.score for r in records if r.score is not None)
        return cls(
            number=number,
            parameters=parameters,
            steps=steps,
            state=state,
            values=values if state is TrialState.COMPLETE else (),
            scores=scores,
            intermediate=dict(intermediate or {}),
        )
