"""What a sweep is about to do, said before it begins."""

from collections.abc import Mapping
from math import ceil
from typing import Any

from rlexp.app.continuing import continuing, largest_replay
from rlexp.app.drive import Driving
from rlexp.app.estimate import estimate
from rlexp.app.fit import Spaces
from rlexp.app.sweep_view import going_on, remaining_steps
from rlexp.console import Console
from rlexp.engine.sweeping import Sweeping
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import short_name
from rlexp.protocol.sweep import SweepPlan
from rlexp.store.layout import ExperimentPaths
from rlexp.store.provenance import Code


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
    continued = _continued(paths, sweeping)
    replay = largest_replay([spec], spaces)
    saved = {spec.name: sum(continued.values()) // max(runs, 1)}
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
        "continued": continued,
        "replay_bytes": replay,
        "workers": workers,
        "threads": driving.threads,
        "seconds": round(expected.seconds, 1),
        "bytes": expected.bytes,
        "measured": expected.measured,
        "code": str(code),
    }
    console.sweep_plan(told)


def _continued(paths: ExperimentPaths, sweeping: Sweeping) -> dict[str, int]:
    """The steps from which runs go on that were begun and have not ended, by their names."""
    over = {record.spec.name for record in sweeping.records.values()}
    return continuing(paths, [n for run in paths.runs() if (n := run.folder.name) not in over])


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
