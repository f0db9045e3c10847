"""What a sweep is about to do, said before it begins."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from math import ceil
from typing import Any

from rlexp.app.continuing import continuing, largest_replay, plain_beginnings, steps_done
from rlexp.app.estimate import estimate
from rlexp.app.execution import Driving
from rlexp.app.fit import Spaces
from rlexp.app.sweep_view import going_on, remaining_steps
from rlexp.console import Console
from rlexp.engine.sweeping import Sweeping
from rlexp.errors import RlexpError
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.identity import short_name
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.protocol.sweep import SweepPlan
from rlexp.store.layout import ExperimentPaths
from rlexp.store.provenance import Code
from rlexp.store.runs import read_spec


def show_sweep_plan(
    paths: ExperimentPaths,
    experiment: Experiment,
    sweeping: Sweeping,
    driving: Driving,
    code: Code,
    console: Console,
    spaces: Mapping[str, Spaces],
) -> None:
    """Say what is searched, by whom, on which seeds, and what it will take at most."""
    sweep, default = experiment.sweep, experiment.default
    assert sweep is not None
    plan, question = sweep.plan, sweeping.search.question
    steps = remaining_steps(sweeping)
    runs = ceil(steps / question.steps)
    promoted, finalists = going_on(sweeping)
    workers = driving.executor.workers_for(driving.threads)
    spec = default.spec(Phase.TUNING, experiment.seeds.root, 0)
    found = continuing(paths, _begun(paths, sweeping), allow_drift=driving.allow_drift)
    replay = largest_replay([spec], spaces)
    saved = {spec.name: sum(steps_done(found).values()) // max(runs, 1)}
    expected = estimate([spec] * max(runs, 1), workers, continued=saved, replay=replay)
    told: dict[str, Any] = {
        "experiment": experiment.name,
        "stage": str(sweeping.stage),
        "algorithm": short_name(default.algorithm),
        "task": default.task,
        "tuner": short_name(sweep.tuner),
        "pruner": short_name(sweep.pruner),
        "parameters": list(sweep.space.keys),
        "trials": plan.trials,
        "trials_ended": sum(1 for e in sweeping.search.entries if e.trial is not None),
        "allocation": plan.allocation,
        "screening_seeds": question.screening,
        "tuning_seeds": question.seeds,
        "promoted": promoted,
        "finalists": finalists,
        "selection_seeds": len(experiment.seeds.seeds(Phase.SELECTION)),
        "test_seeds": len(experiment.seeds.seeds(Phase.TEST)),
        "objective": list(plan.objectives),
        "aggregate": plan.aggregate,
        "lag": plan.lag,
        "limits": _limits(plan),
        "runs": runs,
        "steps_per_run": question.steps,
        **plain_beginnings(found, driving.with_drift),
        "replay_bytes": replay,
        "workers": workers,
        "threads": driving.threads,
        "seconds": round(expected.seconds, 1),
        "bytes": expected.bytes,
        "measured": expected.measured,
        "code": str(code),
    }
    console.sweep_plan(told)


def _begun(paths: ExperimentPaths, sweeping: Sweeping) -> Iterator[RunSpec]:
    """The runs that were begun and have not ended."""
    over = {record.spec.name for record in sweeping.records.values()}
    for run in paths.runs():
        if run.folder.name not in over:
            with suppress(RlexpError):
                spec = read_spec(run)
                if _is_sound(spec) and spec.name == run.folder.name:
                    yield spec


def _is_sound(spec: RunSpec) -> bool:
    """Whether its parts are what they must be: a folder under `runs/` may hold anything."""
    parts = (spec.agent, spec.algorithm, spec.environment, spec.compute)
    return all(isinstance(part, Mapping) for part in parts)


def _limits(plan: SweepPlan) -> str:
    """What ends the search besides the number of its trials."""
    told = []
    if plan.full_runs is not None:
        told.append(f"{plan.full_runs:g} full runs")
    if plan.steps is not None:
        told.append(f"{plan.steps:,} environment steps")
    if plan.hours is not None:
        told.append(f"{plan.hours:g} h")
    return f"at most {plan.trials:,} trials, {' and '.join(told)}" if told else ""
