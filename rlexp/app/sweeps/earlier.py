"""Earlier sweeps that a sweep begins from (`sweep.warm_start`): their trials by their tuning scores."""

from rlexp.app.sweeps.state import ReadOnlyLedger, read_runs, restore_sweep
from rlexp.app.workspace import Workspace
from rlexp.config.enqueued import refuse_grid
from rlexp.config.sweep import SweepRequest
from rlexp.engine.sweep_source import SweepSource
from rlexp.errors import ConfigError, RlexpError
from rlexp.protocol.earlier_sweeps import EarlierSweep, EarlierTrial
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.seeds import Phase
from rlexp.protocol.space import Space
from rlexp.records.trial import Trial
from rlexp.store.runs import read_experiment
from rlexp.text import join_names
from rlexp.tuners.trial_values import is_scored, model_values

KEY = "sweep.warm_start"


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
    refuse_grid(request, KEY)
    if len(request.plan.objectives) > 1:
        raise ConfigError(
            f"{KEY} takes over ranks, and ranks need one objective: leave it out, or write one "
            "sweep.objective",
            key=KEY,
        )
    if len(set(names)) < len(names) or name in names:
        raise ConfigError(f"{KEY}={list(names)} must name other sweeps, each once", key=KEY)
    return tuple(_read(each, request, workspace) for each in names)


def _read(name: str, request: SweepRequest, workspace: Workspace) -> EarlierSweep:
    try:
        paths = workspace.experiment(name)
        experiment = read_experiment(paths)
    except RlexpError as error:
        raise error.rephrased(f"{KEY}: {error}") from error
    _check(name, experiment, request)
    # Only tuning runs are handed over: scores of selection and test cannot reach the new search.
    runs = [run for run in read_runs(paths) if run.record.spec.phase is Phase.TUNING]
    try:
        sweeping = restore_sweep(paths, experiment, runs, workspace, ReadOnlyLedger())
    except RlexpError as error:
        raise error.rephrased(f"{KEY}: {name}: {error}") from error
    trials = _standings(sweeping, request.space)
    if not trials:
        raise ConfigError(
            f"{KEY}: {name} has no trial with a tuning score in this space: choose a wider space, "
            f"continue it with 'rlexp resume {name}' if it is not finished, or leave it out",
            key=KEY,
        )
    return EarlierSweep(name, experiment.fingerprint, trials)


def _check(name: str, experiment: Experiment, request: SweepRequest) -> None:
    """Refuse an experiment whose trials say nothing about this search."""
    sweep = experiment.sweep
    if sweep is None:
        raise ConfigError(
            f"{KEY}: {name} is not a sweep: its configurations can be tried first with "
            "sweep.enqueue=[{KEY: VALUE}]",
            key=KEY,
        )
    earlier, now = set(sweep.space.keys), set(request.space.keys)
    if earlier != now:
        lacks = [f"lacks {join_names(sorted(now - earlier))}"] if now - earlier else []
        more = [f"also has {join_names(sorted(earlier - now))}"] if earlier - now else []
        raise ConfigError(
            f"{KEY}: {name} searches other parameters: it {' and '.join([*lacks, *more])}", key=KEY
        )
    if sweep.plan.objectives[:1] != request.plan.objectives[:1]:
        raise ConfigError(
            f"{KEY}: {name} has sweep.objective={sweep.plan.objectives[0]}, and this sweep has "
            f"{request.plan.objectives[0]}: their ranks cannot be compared",
            key=KEY,
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
        if _fits(trials[i], space)
    )


def _fits(trial: Trial, space: Space) -> bool:
    """Whether every value of a trial is in the space of the new sweep."""
    active = space.active(trial.parameters)
    same = {p.key for p in active} == set(trial.parameters)
    return same and all(p.domain.holds(trial.parameters[p.key]) for p in active)
