"""A sweep that is asked for again: what may still grow, and what is refused with the reason."""

from dataclasses import replace
from typing import TypeVar

from rlexp.app.join import as_built_now, union
from rlexp.app.reading.imported import refuse_imported
from rlexp.app.reading.older_schema import refuse_older
from rlexp.errors import RecordError
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.redefinition import redefinition
from rlexp.protocol.sweep import Sweep, SweepPlan
from rlexp.store.layout import ExperimentPaths
from rlexp.store.runs import read_experiment

Number = TypeVar("Number", int, float)


def join_sweep(paths: ExperimentPaths, asked: Experiment, *, lag_asked: bool) -> Experiment:
    """The sweep as it stands, with the trials and test seeds that are asked for now.

    Args:
        paths: Its folder.
        asked: What the command asks for.
        lag_asked: Whether it asks for a certain lag, and not for the one that is there.

    Raises:
        RecordError: The name stands for another question, or for one that is answered; says why.
    """
    if not paths.definition.exists():
        return asked
    there = read_experiment(paths)
    refuse_imported(there, "; choose another name with experiment=…")
    refuse_older(there)
    if there.sweep is None:
        raise RecordError(
            f"experiment {asked.name} exists and is no sweep; "
            "choose another name with experiment=…",
        )
    assert asked.sweep is not None
    if not lag_asked:
        asked = _with_plan(asked, replace(asked.sweep.plan, lag=there.sweep.plan.lag))
    chosen = paths.selection.exists()
    _check_same(there, asked, chosen=chosen)
    plan = _longer(there.sweep.plan, asked.sweep.plan if asked.sweep else there.sweep.plan)
    if chosen and plan != replace(there.sweep.plan, storage=plan.storage):
        raise RecordError(
            f"{there.name} has chosen its winner: more trials would be chosen by knowing it. Only "
            f"seeds.test may grow; for a longer search, begin a sweep of its own with "
            f"experiment={there.name}-2 seeds.root={there.seeds.root + 1}"
        )
    seeds = replace(there.seeds, test=union(there.seeds.test, asked.seeds.test))
    return _with_plan(_as_built_now(replace(there, seeds=seeds), asked), plan)


def _as_built_now(there: Experiment, asked: Experiment) -> Experiment:
    """The sweep with its parts as they are asked for: a class may have moved since."""
    assert there.sweep is not None
    assert asked.sweep is not None
    sweep = replace(there.sweep, tuner=asked.sweep.tuner, pruner=asked.sweep.pruner)
    configurations = as_built_now(there.configurations, asked.configurations)
    return replace(there, sweep=sweep, configurations=configurations)


def _with_plan(experiment: Experiment, plan: SweepPlan) -> Experiment:
    sweep = experiment.sweep
    assert sweep is not None
    grown = Sweep(
        name=sweep.name, space=sweep.space, tuner=sweep.tuner, pruner=sweep.pruner, plan=plan
    )
    return replace(experiment, sweep=grown)


def _check_same(there: Experiment, asked: Experiment, *, chosen: bool) -> None:
    if there.fingerprint == asked.fingerprint:
        return
    differences = "\n".join(f"  {line}" for line in redefinition(there, asked))
    may_grow = "seeds.test may grow" if chosen else "sweep.trials and seeds.test may grow"
    raise RecordError(
        f"sweep {asked.name} exists with another definition, of which only {may_grow}; "
        f"choose another name with experiment=…\n{differences}",
    )


def _longer(there: SweepPlan, asked: SweepPlan) -> SweepPlan:
    """The plan with each limit where it is wider; a command that asks for less takes none back."""
    return replace(
        there,
        trials=max(there.trials, asked.trials),
        full_runs=_wider(there.full_runs, asked.full_runs),
        steps=_wider(there.steps, asked.steps),
        hours=_wider(there.hours, asked.hours),
        storage=asked.storage,
    )


def _wider(there: Number | None, asked: Number | None) -> Number | None:
    return None if there is None or asked is None else max(there, asked)
