"""What a sweep takes over from sweeps on disk.

These are the sweep of the same name, with which the request of a command is merged, and the earlier sweeps that it
begins from (`sweep.warm_start`): their trials by their tuning scores.
"""

from dataclasses import replace
from typing import TypeVar

from rlexp.app.execution.request import other_name, union, with_current_parts
from rlexp.app.reading.imported import is_ask_and_tell, refuse_imported
from rlexp.app.reading.older_schema import refuse_older
from rlexp.app.sweeps.state import ReadOnlyLedger, read_runs, restore_sweep
from rlexp.app.workspace import Workspace
from rlexp.config.enqueued import refuse_grid
from rlexp.config.sweep import SweepRequest
from rlexp.engine.sweep_source import SweepSource
from rlexp.errors import ConfigError, RecordError, RlexpError
from rlexp.protocol.earlier_sweeps import EarlierSweep, EarlierTrial
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.redefinition import redefinition
from rlexp.protocol.seeds import Phase
from rlexp.protocol.space import Space
from rlexp.protocol.sweep import SweepPlan
from rlexp.records.trial import Trial
from rlexp.store.layout import ExperimentPaths
from rlexp.store.runs import read_experiment
from rlexp.text import join_names
from rlexp.tuners.trial_values import is_scored, model_values

Number = TypeVar("Number", int, float)
WARM_START = "sweep.warm_start"


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


def read_earlier(
    request: SweepRequest, name: str, workspace: Workspace
) -> tuple[EarlierSweep, ...]:
    """What a new sweep takes over from the experiments that `sweep.warm_start` names.

    Args:
        request: The sweep.
        name: The name of its own experiment.
        workspace: The workspace with the experiments.

    Raises:
        ConfigError: An experiment is unknown, no sweep, over other parameters, for another objective, or
            without scores; or the sweep has several objectives, or tries every combination.
    """
    names = request.plan.earlier
    if not names:
        return ()
    refuse_grid(request, WARM_START)
    if len(request.plan.objectives) > 1:
        raise ConfigError(
            f"{WARM_START} takes over ranks, and ranks need one objective: leave it out, or write one "
            "sweep.objective",
            key=WARM_START,
        )
    if len(set(names)) < len(names) or name in names:
        raise ConfigError(
            f"{WARM_START}={list(names)} must name other sweeps, each once", key=WARM_START
        )
    return tuple(_earlier_sweep(each, request, workspace) for each in names)


def _earlier_sweep(name: str, request: SweepRequest, workspace: Workspace) -> EarlierSweep:
    try:
        paths = workspace.experiment(name)
        experiment = read_experiment(paths)
    except RlexpError as error:
        raise error.rephrased(f"{WARM_START}: {error}") from error
    _check_earlier(name, experiment, request)
    # Only tuning runs are handed over: scores of selection and test cannot reach the new search.
    runs = [run for run in read_runs(paths) if run.record.spec.phase is Phase.TUNING]
    try:
        sweeping = restore_sweep(paths, experiment, runs, workspace, ReadOnlyLedger())
    except RlexpError as error:
        raise error.rephrased(f"{WARM_START}: {name}: {error}") from error
    trials = _standings(sweeping, request.space)
    if not trials:
        raise ConfigError(
            f"{WARM_START}: {name} has no trial with a tuning score in this space: choose a wider space, "
            f"continue it with 'rlexp resume {name}' if it is not finished, or leave it out",
            key=WARM_START,
        )
    return EarlierSweep(name, experiment.fingerprint, trials)


def _check_earlier(name: str, experiment: Experiment, request: SweepRequest) -> None:
    """Refuse an experiment whose trials say nothing about this search."""
    sweep = experiment.sweep
    if sweep is None:
        raise ConfigError(
            f"{WARM_START}: {name} is not a sweep: its configurations can be tried first with "
            "sweep.enqueue=[{KEY: VALUE}]",
            key=WARM_START,
        )
    earlier, now = set(sweep.space.keys), set(request.space.keys)
    if earlier != now:
        lacks = [f"lacks {join_names(sorted(now - earlier))}"] if now - earlier else []
        more = [f"also has {join_names(sorted(earlier - now))}"] if earlier - now else []
        raise ConfigError(
            f"{WARM_START}: {name} searches other parameters: it {' and '.join([*lacks, *more])}",
            key=WARM_START,
        )
    if sweep.plan.objectives[:1] != request.plan.objectives[:1]:
        raise ConfigError(
            f"{WARM_START}: {name} has sweep.objective={sweep.plan.objectives[0]}, and this sweep has "
            f"{request.plan.objectives[0]}: their ranks cannot be compared",
            key=WARM_START,
        )


def _standings(sweeping: SweepSource, space: Space) -> tuple[EarlierTrial, ...]:
    """The trials at the full budget with their standings, the best first; each configuration once."""
    question = sweeping.search.question
    trials = [
        e.trial
        for e in sweeping.search.entries
        if e.trial is not None and e.twin is None and e.proposal.steps == question.steps
    ]
    if not any(map(is_scored, trials)):
        return ()
    # The search itself takes promoted trials for the best, and knows their values on all tuning seeds.
    whole = {c.number: c.merits[0] for c in sweeping.ranked()}
    merits = [
        (trial.number in whole, whole.get(trial.number, value))
        for trial, value in zip(trials, model_values(trials).tolist(), strict=True)
    ]
    # Equal trials have their mean rank.
    ranks = [sum(m < merit for m in merits) + merits.count(merit) / 2 for merit in merits]
    order = sorted(range(len(trials)), key=lambda i: (-ranks[i], trials[i].number))
    return tuple(
        EarlierTrial(trials[i].parameters, ranks[i] / len(trials))
        for i in order
        if _fits_space(trials[i], space)
    )


def _fits_space(trial: Trial, space: Space) -> bool:
    """Whether every value of a trial is in the space of the new sweep."""
    active = space.active(trial.parameters)
    same = {p.key for p in active} == set(trial.parameters)
    return same and all(p.domain.holds(trial.parameters[p.key]) for p in active)
