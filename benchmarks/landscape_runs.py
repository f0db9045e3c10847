"""Runs from landscapes, as the journals that real trainings would have written."""

from collections.abc import Sequence

import numpy as np
from landscape_table import Landscape

from rlexp.protocol.budget import Budget, Compute
from rlexp.protocol.experiment import Configuration
from rlexp.records.events import (
    Ending,
    Evaluated,
    Event,
    Failure,
    RunEnded,
    RunStarted,
    StopRequest,
)

EPISODES = 128
"""Of each evaluation in ARLBench."""
COMPUTE = Compute(threads=1, device="cpu")
STARTED = RunStarted(time=0.0, attempt=1, pid=0, host="table")


def configuration(landscape: Landscape, row: int, steps: int) -> Configuration:
    """A configuration of a landscape, trained until the checkpoint nearest to `steps`."""
    return Configuration(
        label=landscape.name,
        task=landscape.name,
        agent={},
        algorithm={"_target_": "landscape.table", "row": row},
        environment={"id": landscape.name},
        reference={},
        budget=_budget(landscape, min(landscape.steps, key=lambda at: abs(at - steps))),
        compute=COMPUTE,
    )


def journal(landscape: Landscape, row: int, seed: int, steps: int) -> tuple[Event, ...]:
    """The events of a training until a checkpoint, or until it crashed."""
    last = landscape.steps.index(steps)
    returns = landscape.returns[row, seed, : last + 1]
    finished = returns[~np.isnan(returns)]
    curve = tuple(_evaluated(landscape.steps[k], value) for k, value in enumerate(finished))
    if len(finished) < len(returns):
        return (STARTED, *curve, _crashed(landscape.steps[len(finished)]))
    final = _evaluated(steps, finished[-1], final=True)
    return (STARTED, *curve, final, _ended(steps, Ending.COMPLETED))


def stopped_journal(curve: Sequence[Evaluated], request: StopRequest) -> tuple[Event, ...]:
    """The events of a training that was stopped after these evaluations."""
    end = RunEnded(
        time=0.0,
        step=curve[-1].step,
        ending=request.ending,
        seconds=0.0,
        reason=request.reason,
        rung=request.rung,
    )
    return (STARTED, *curve, end)


def _budget(landscape: Landscape, steps: int) -> Budget:
    return Budget(
        steps=steps,
        evaluation_every=landscape.steps[0],
        evaluation_episodes=EPISODES,
        evaluation_deterministic=True,
        final_episodes=EPISODES,
        score="final",
        timeout=None,
    )


def _evaluated(step: int, value: float, *, final: bool = False) -> Evaluated:
    return Evaluated(
        time=0.0, step=step, returns=(float(value),), lengths=(1,), seconds=0.0, final=final
    )


def _ended(step: int, ending: Ending) -> RunEnded:
    return RunEnded(time=0.0, step=step, ending=ending, seconds=0.0)


def _crashed(step: int) -> RunEnded:
    return RunEnded(
        time=0.0,
        step=step,
        ending=Ending.FAILED,
        seconds=0.0,
        failure=Failure.NAN,
        reason="crashed",
    )
