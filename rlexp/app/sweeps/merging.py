"""Merges the sweep that a command requests with the sweep of the same name on disk."""

from dataclasses import replace
from typing import TypeVar

from rlexp.app.execution.request import other_name, union, with_current_parts
from rlexp.app.reading.imported import is_ask_and_tell, refuse_imported
from rlexp.app.reading.older_schema import refuse_older
from rlexp.errors import RecordError
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.redefinition import redefinition
from rlexp.protocol.sweep import SweepPlan
from rlexp.store.layout import ExperimentPaths
from rlexp.store.runs import read_experiment

Number = TypeVar("Number", int, float)


def merge_with_existing_sweep(
    paths: ExperimentPaths, requested: Experiment, command: SweepPlan
) -> Experiment:
    """The sweep on disk, extended by the requested trials and test seeds; the request if none exists.

    Args:
        paths: The sweep's folder.
        requested: The sweep that the command requests.
        command: The plan of the command; the sweep keeps its `lag`, its `continuation` and its rule of
            choice where the command does not set them.

    Raises:
        RecordError: An experiment of this name has another definition, or a winner that forbids the
            requested change.
    """
    if not paths.definition.exists():
        return requested
    existing = read_experiment(paths)
    if not (is_ask_and_tell(existing) and is_ask_and_tell(requested)):
        refuse_imported(existing, f"; choose another name, for example {other_name(paths)}")
    refuse_older(existing)
    if existing.sweep is None:
        raise RecordError(
            f"experiment {requested.name} exists and is not a sweep; "
            f"choose another name, for example {other_name(paths)}",
        )
    assert requested.sweep is not None
    before, kept = existing.sweep.plan, requested.sweep.plan
    if command.lag is None:
        kept = replace(kept, lag=before.lag)
    if command.continuation is None:
        kept = replace(kept, continuation=before.continuation)
    if command.choose is None:
        # An older sweep of several objectives has no rule, and ends as it began.
        kept = replace(kept, choose=before.choose)
    requested = with_plan(requested, kept)
    is_chosen = paths.selection.exists()
    _check_same(existing, requested, paths, is_chosen=is_chosen)
    plan = _longer(
        existing.sweep.plan, requested.sweep.plan if requested.sweep else existing.sweep.plan
    )
    if is_chosen and plan != replace(existing.sweep.plan, storage=plan.storage):
        raise RecordError(
            f"{existing.name} has chosen its winner, so no trials can be added. Only "
            f"seeds.test may grow; for a longer search, start another sweep with "
            f"experiment={existing.name}-2 seeds.root={existing.seeds.root + 1}"
        )
    seeds = replace(existing.seeds, test=union(existing.seeds.test, requested.seeds.test))
    return with_plan(_with_current_parts(replace(existing, seeds=seeds), requested), plan)


def _with_current_parts(existing: Experiment, requested: Experiment) -> Experiment:
    """The existing sweep with the requested plug-ins, whose classes may have moved since."""
    assert existing.sweep is not None
    assert requested.sweep is not None
    sweep = replace(existing.sweep, tuner=requested.sweep.tuner, pruner=requested.sweep.pruner)
    configurations = with_current_parts(existing.configurations, requested.configurations)
    return replace(existing, sweep=sweep, configurations=configurations)


def with_plan(experiment: Experiment, plan: SweepPlan) -> Experiment:
    """The sweep with another plan."""
    sweep = experiment.sweep
    assert sweep is not None
    return replace(experiment, sweep=replace(sweep, plan=plan))


def _check_same(
    existing: Experiment, requested: Experiment, paths: ExperimentPaths, *, is_chosen: bool
) -> None:
    if existing.fingerprint == requested.fingerprint:
        return
    differences = "\n".join(f"  {line}" for line in redefinition(existing, requested))
    may_grow = "seeds.test may grow" if is_chosen else "sweep.trials and seeds.test may grow"
    raise RecordError(
        f"sweep {requested.name} exists with another definition, of which only {may_grow}; "
        f"choose another name, for example {other_name(paths)}\n{differences}",
    )


def _longer(existing: SweepPlan, requested: SweepPlan) -> SweepPlan:
    """The plan with the larger value of each limit: a command cannot reduce an existing limit."""
    return replace(
        existing,
        trials=max(existing.trials, requested.trials),
        full_runs=_wider(existing.full_runs, requested.full_runs),
        steps=_wider(existing.steps, requested.steps),
        hours=_wider(existing.hours, requested.hours),
        storage=requested.storage,
    )


def _wider(existing: Number | None, requested: Number | None) -> Number | None:
    return None if existing is None or requested is None else max(existing, requested)
