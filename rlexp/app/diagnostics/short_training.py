"""Short trainings, which show whether code repeats the numbers of earlier code bit by bit."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rlexp.app.comparison.baseline import ShortTraining
from rlexp.app.workspace import Workspace
from rlexp.protocol.identity import digest
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import Evaluated
from rlexp.records.run import RunRecord, State
from rlexp.temporary_folders import scratch

TIMEOUT = 120.0
"""Seconds that a short training may take."""
UPDATES = 3
"""Parameter updates that a training must include."""
FEWEST_STEPS = 200
"""Smallest number of environment steps of a training."""
DEFAULT_STEPS = 1000
"""Environment steps for an algorithm whose rollout length is unknown."""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """Why a short training has no result."""

    reason: str


def default_steps(spec: RunSpec) -> int:
    """Environment steps during which the learner updates its parameters at least three times."""
    return min(short_training(spec), int(spec.budget["steps"]))


def train_shortly(
    spec: RunSpec, steps: int, workspace: Workspace, timeout: float = TIMEOUT
) -> ShortTraining | Unfinished:
    """Train a run for some steps, in a separate process and outside of `runs/`.

    Args:
        spec: The run.
        steps: Environment steps of the training, which become its budget.
        workspace: The workspace, which holds the code.
        timeout: Seconds that it may take.
    """
    if spec.external:
        return Unfinished("a training script leaves no weights to compare")
    from rlexp.app.diagnostics.repeated_runs import (
        RepeatedRun,
        RepetitionSettings,
        execute_separately,
    )

    shortened = replace(spec, budget=small_budget(spec, {"steps": steps}))
    with scratch("rlexp-gate-") as (folder, _):
        settings = RepetitionSettings(
            folder=folder, workspace=workspace.folder, allowed=workspace.allowed, timeout=timeout
        )
        (record,) = execute_separately([RepeatedRun(name="short", spec=shortened)], settings)
    return _result(record, steps)


def _result(record: RunRecord, steps: int) -> ShortTraining | Unfinished:
    if record.state is not State.COMPLETED or record.weights is None:
        return Unfinished(record.reason or f"the training ended as {record.state}")
    return ShortTraining(
        seed=record.spec.seed,
        steps=steps,
        weights=record.weights,
        evaluations=digest(list(_episodes(record))),
    )


def _episodes(record: RunRecord) -> Iterator[list[object]]:
    """Step, returns, lengths and measures of each evaluation, the final one last."""
    final: tuple[Evaluated, ...] = () if record.final is None else (record.final,)
    for event in (*record.evaluations, *final):
        measures = {name: list(values) for name, values in (event.measures or {}).items()}
        yield [event.step, list(event.returns), list(event.lengths), measures]


def small_budget(spec: RunSpec, budget_overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The budget of a run, shortened to what a comparison needs, with the overrides applied."""
    steps = int(budget_overrides.get("steps", short_training(spec)))
    small = {
        "steps": steps,
        "evaluation_every": max(steps // 2, 1),
        "evaluation_episodes": 2,
        "final_episodes": 2,
        "score": "final",
    }
    kept = {key: spec.budget[key] for key in budget_overrides if key in spec.budget}
    return {**spec.budget, **small, **kept, "steps": steps}


def short_training(spec: RunSpec) -> int:
    """Environment steps during which the learner updates its parameters at least three times."""
    environments: int = spec.environment.get("vector", {}).get("count", 1)
    begin, rollout = (spec.algorithm.get(key) for key in ("learning_starts", "n_steps"))
    # Off-policy algorithms update nothing before `learning_starts`.
    if isinstance(begin, int):
        return begin + FEWEST_STEPS
    if isinstance(rollout, int):
        return max(UPDATES * rollout * environments, FEWEST_STEPS)
    return DEFAULT_STEPS
