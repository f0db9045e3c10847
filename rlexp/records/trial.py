"""Trials: proposed configurations, scored by their tuning runs and by nothing else."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from rlexp.errors import ProtocolError
from rlexp.protocol.seeds import Phase
from rlexp.records.run import RunRecord


class TrialState(StrEnum):
    """How a trial ended."""

    COMPLETE = "complete"
    PRUNED = "pruned"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A finished trial, as a tuner may see it. Test and selection runs cannot reach it.

    Attributes:
        number: From 0, which is always the default configuration.
        parameters: The values that it sets; the default's are those of the configuration.
        steps: Environment steps of each of its runs: its fidelity.
        state: How it ended.
        values: One for each objective, greater is better; empty unless it is complete.
        scores: Of its runs, in order of the tuning seeds; fewer where it was screened or dropped.
        intermediate: Mean evaluation over the seeds so far, by environment steps of the trial
            over these seeds one after the other; where it was pruned, the last one is where.
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
        """The trial that these runs make.

        Args:
            number: From 0.
            parameters: The values that it sets.
            steps: Of each of its runs.
            records: Its runs, in order of the tuning seeds.
            state: How it ended.
            values: One for each objective, greater is better.
            intermediate: Mean evaluation by environment steps of the trial.

        Raises:
            ProtocolError: A run is not of the tuning phase: nothing else may reach a tuner.
        """
        for record in records:
            if record.spec.phase is not Phase.TUNING:
                raise ProtocolError(
                    f"run {record.spec.name} is of the {record.spec.phase} phase: "
                    "a trial is made of tuning runs only",
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
