"""Begins a stream: freezes its first champion, budget, seeds, design, and what is protected."""

import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rlexp.app.reproduction.checkout import Checkout
from rlexp.app.streams.candidate_code import clean_commit, tree_of
from rlexp.app.streams.composition import ComposedCandidate, check_free, compose_candidate
from rlexp.app.streams.protected_files import check_declared, sums_of_protected
from rlexp.app.streams.training import open_checkouts
from rlexp.app.workspace import Workspace
from rlexp.config.overrides import split_override
from rlexp.errors import ConfigError, RecordError
from rlexp.protocol.experiment import Configuration, Experiment
from rlexp.protocol.identity import PLUG_IN, digest
from rlexp.protocol.seeds import Phase, SeedPlan
from rlexp.protocol.space import Space
from rlexp.protocol.sweep import PROPOSALS, Sweep, SweepPlan
from rlexp.records.selection import DEFAULT
from rlexp.records.stream import StreamBeginning
from rlexp.stats.sequential.candidates import (
    StreamDesign,
    candidate_level,
    fewest_seeds,
    least_seeds,
)
from rlexp.store.layout import ExperimentPaths
from rlexp.store.locks.lease import hold
from rlexp.store.registers.streams import append_to_stream, read_stream
from rlexp.store.runs import read_definition, write_experiment
from rlexp.store.sweeps import DEFAULT_LABEL, StoredTrial, append_trial, read_trials

TUNING_SEEDS = "seeds.tuning"
WHAT_DIFFERS = {
    "experiment": "settings",
    "seeds": "number of tuning seeds",
    "horizon": "number of candidates",
    "declared": "protected files",
    "free": "freed settings",
}
"""What is frozen in a stream, in words; the other fields are their own names."""
MOST_TRIALS = 1_000_000
"""Trials that the plan of an endless stream allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRequest:
    """What a stream is to freeze.

    Attributes:
        words: The words of the first champion.
        alpha: The level over all candidates.
        candidates: Largest number of candidates; None for an endless stream.
        margin: The gain that a candidate must exceed, in units of the score.
        protect: Files and folders that no candidate may change, besides those of the environment.
        free: Settings that candidates may change besides agent and algorithm.
    """

    words: tuple[str, ...]
    alpha: float = 0.05
    candidates: int | None = None
    margin: float = 0.0
    protect: tuple[str, ...] = ()
    free: tuple[str, ...] = ()


def begin_stream(
    paths: ExperimentPaths, request: StreamRequest, workspace: Workspace, command: str
) -> None:
    """Write the definition of a stream, its first champion, and the first line of its register.

    The same request again changes nothing.

    Raises:
        RlexpError: The words or the design are wrong, files are not committed, or the name is taken.
    """
    check_free(request.free)
    check_declared(workspace.folder, request.protect)
    commit = clean_commit(workspace.folder, workspace.layout.root, "the workspace", command)
    with open_checkouts(workspace) as checkouts:
        checkout = checkouts.of(commit)
        composed = compose_candidate(request.words, checkout, workspace)
        beginning, experiment = _frozen(paths, request, composed, commit, checkout)
    workspace.layout.root.mkdir(parents=True, exist_ok=True)
    with hold(paths.lock, f"stream {paths.name}", now=time.time()):
        existing = read_stream(paths).beginning
        if existing is not None:
            _refuse_other(paths, existing, beginning)
            return
        _write(paths, experiment, beginning)


def _frozen(
    paths: ExperimentPaths,
    request: StreamRequest,
    composed: ComposedCandidate,
    commit: str | None,
    checkout: Checkout,
) -> tuple[StreamBeginning, Experiment]:
    design = _design(request, composed)
    modules = composed.modules
    protected = sums_of_protected(checkout.folder, modules, request.protect)
    # Without git, the digest covers what is protected: nothing else of the code is frozen.
    code = digest(protected) if commit is None else tree_of(checkout.folder, commit)
    first = replace(composed.configuration, label=DEFAULT_LABEL, code=code)
    tuning = composed.seeds.seeds(Phase.TUNING)[: design.seeds] or design.seeds
    chosen = design.seeds if not _names_seeds(request.words) else tuning
    seeds = replace(composed.seeds, tuning=chosen, selection=0)
    experiment = Experiment(
        name=paths.name,
        configurations=(first,),
        seeds=_counted(seeds),
        failures=composed.failures,
        sweep=_sweep(paths.name, design),
    )
    beginning = StreamBeginning(
        time=time.time(),
        experiment=experiment.fingerprint,
        words=request.words,
        commit=commit,
        code=code,
        modules=modules,
        declared=request.protect,
        protected=protected,
        free=request.free,
        operational=composed.operational,
        alpha=design.alpha,
        seeds=design.seeds,
        horizon=design.horizon,
        margin=design.margin,
    )
    return beginning, experiment


def _names_seeds(words: Sequence[str]) -> bool:
    return any(split_override(word)[0] == TUNING_SEEDS for word in words)


def _counted(seeds: SeedPlan) -> SeedPlan:
    """The seeds with a number in the place of a list of the first ones."""
    tuning = seeds.seeds(Phase.TUNING)
    return replace(seeds, tuning=len(tuning)) if tuning == (*range(len(tuning)),) else seeds


def _design(request: StreamRequest, composed: ComposedCandidate) -> StreamDesign:
    """The design, which must be able to keep the first candidate.

    Raises:
        ConfigError: A value is out of range, or the seeds do not suffice for the first level.
    """
    given = len(composed.seeds.seeds(Phase.TUNING)) if _names_seeds(request.words) else None
    try:
        design = StreamDesign(
            alpha=request.alpha,
            **({} if given is None else {"seeds": given}),
            horizon=request.candidates,
            margin=request.margin,
        )
    except ValueError as error:
        raise ConfigError(str(error), code="out_of_range") from error
    if fewest_seeds(design, 1, 0) is None:
        level = candidate_level(design, 1, 0)
        least = least_seeds(level)
        raise ConfigError(
            f"{TUNING_SEEDS}={design.seeds} can never keep the first candidate, whose level is "
            f"{level:.3g}: it takes {least} seeds, all of them won; {TUNING_SEEDS}={least + 6} "
            "leaves room for some losses",
            code="out_of_range",
            key=TUNING_SEEDS,
            allowed=[f"{least} or more"],
        )
    return design


def _sweep(name: str, design: StreamDesign) -> Sweep:
    """The sweep as which a stream is stored: it has no space, no tuner and no pruner."""
    return Sweep(
        name=name,
        space=Space(parameters=()),
        tuner={PLUG_IN: {"group": "tuner", "name": PROPOSALS, "version": 1}},
        pruner={PLUG_IN: {"group": "pruner", "name": "none", "version": 1}},
        plan=SweepPlan(
            trials=MOST_TRIALS if design.horizon is None else design.horizon + 1,
            full_runs=None,
            steps=None,
            hours=None,
            allocation="fixed",
            promoted=1.0,
            objective=("score",),
            aggregate="mean",
            finalists=1,
            lag=0,
            failures="worst",
            stop_after=MOST_TRIALS,
            storage=None,
        ),
    )


def _refuse_other(
    paths: ExperimentPaths, existing: StreamBeginning, requested: StreamBeginning
) -> None:
    """Refuse to begin a stream again in another way.

    Raises:
        RecordError: Names the first thing that differs.
    """
    names = ("words", "experiment", "alpha", "seeds", "horizon", "margin", "declared", "free")
    for name in names:
        before, now = getattr(existing, name), getattr(requested, name)
        if before != now:
            raise RecordError(
                f"{paths.name} has begun with other {WHAT_DIFFERS.get(name, name)} "
                f"({_in_words(before)}, and now {_in_words(now)}): give another name, or propose a "
                f"candidate: rlexp propose {shlex.quote(paths.name)} algorithm.gamma=0.98",
                code="other_definition",
                key=name,
            )


def _in_words(value: object) -> str:
    """A frozen value in a message."""
    if value is None or value == ():
        return "none"
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _write(paths: ExperimentPaths, experiment: Experiment, beginning: StreamBeginning) -> None:
    """Write a stream; the first line of its register comes last and makes it one."""
    if paths.definition.exists() and read_definition(paths).fingerprint != experiment.fingerprint:
        raise RecordError(
            f"{paths.folder} exists already, and is no stream of this definition: choose another "
            "name; to see the names that are taken: rlexp ls",
            code="other_definition",
            command="rlexp ls",
        )
    write_experiment(paths, experiment)
    if not read_trials(paths):
        append_trial(paths, first_trial(experiment.configurations[0]))
    append_to_stream(paths, beginning)


def first_trial(configuration: Configuration) -> StoredTrial:
    """The trial of the first champion."""
    return StoredTrial(
        number=DEFAULT,
        parameters={},
        steps=configuration.budget.steps,
        configuration=configuration,
    )
