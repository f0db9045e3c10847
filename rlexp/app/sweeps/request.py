"""From the words of `rlexp sweep` to an experiment whose configurations are still to be found."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from rlexp.app.execution.compatibility import Spaces, check_fit
from rlexp.app.execution.external import keep_files
from rlexp.app.execution.request import (
    as_built_now,
    configuration_of,
    derive_name,
    plain_part,
    require_minimum,
    union,
)
from rlexp.app.reading.imported import refuse_imported
from rlexp.app.reading.older_schema import refuse_older
from rlexp.app.tracking.mirror_client import Trackers
from rlexp.app.workspace import Workspace
from rlexp.config.compose import Composed
from rlexp.config.sweep import SweepRequest, compose_sweep
from rlexp.config.sweep_checks import check_sweep
from rlexp.config.validate import Parts, build, validate
from rlexp.engine.progress import Proposal
from rlexp.errors import ConfigError, ProtocolError, RecordError
from rlexp.executors import Executor
from rlexp.protocol.budget import Budget
from rlexp.protocol.experiment import Configuration, Experiment
from rlexp.protocol.redefinition import redefinition
from rlexp.protocol.sweep import Sweep, SweepPlan
from rlexp.records.selection import Selection
from rlexp.records.trial import Trial
from rlexp.store.layout import ExperimentPaths, check_name
from rlexp.store.runs import read_experiment
from rlexp.store.sweeps import DEFAULT_LABEL, StoredTrial, append_trial, write_selection
from rlexp.tuners import Suggester, Suggestion


@dataclass(slots=True)
class Thinking:
    """A tuner whose time is taken."""

    suggester: Suggester
    last: float = 0.0
    total: float = 0.0
    longest: float = 0.0
    suggestions: int = 0

    def needs(self, number: int) -> int:
        """What the tuner needs."""
        return self.suggester.needs(number)

    def suggest(self, trials: Sequence[Trial], number: int) -> Suggestion | None:
        """What the tuner suggests."""
        begun = time.monotonic()
        suggestion = self.suggester.suggest(trials, number)
        self.last = time.monotonic() - begun
        self.total += self.last
        self.longest = max(self.longest, self.last)
        self.suggestions += 1
        return suggestion


@dataclass(frozen=True, slots=True)
class Asked:
    """What one command asks for; `storage` is where the search is mirrored to."""

    experiment: Experiment
    request: SweepRequest
    executor: Executor
    budget: Budget
    trackers: Trackers
    parts: Parts

    @property
    def sweep(self) -> Sweep:
        """How configurations are found."""
        assert self.experiment.sweep is not None
        return self.experiment.sweep


@dataclass(slots=True)
class Configurer:
    """Makes configurations of parameters; what cannot be run is refused with its reason."""

    asked: Asked
    workspace: Workspace
    spaces: dict[str, Spaces]

    def check_default(self) -> None:
        """Refuse a sweep whose default configuration cannot be run.

        Raises:
            ConfigError: It cannot; says why.
        """
        default = self.asked.experiment.default
        built = {default.fingerprint: self.asked.parts}
        check_fit([default], self.workspace, self.spaces, built)

    def configure(
        self, number: int, parameters: Mapping[str, Any], steps: int | None
    ) -> tuple[Configuration | None, str]:
        """The configuration of a trial; nothing, and why, where it cannot be run."""
        label = f"trial {number}"
        if number == 0:
            return replace(self.asked.experiment.default, label=label), ""
        try:
            plain = self.asked.request.configure(parameters, steps)
            keep_files(plain, self.asked.request.plain, self.asked.experiment.default)
            root, parts = validate(plain, self.workspace.allowed)
            configuration = configuration_of(Composed(plain, ()), root, parts)
            built = {configuration.fingerprint: parts}
            check_fit([configuration], self.workspace, self.spaces, built)
        except (ConfigError, ProtocolError) as error:
            return None, str(error)
        return replace(configuration, label=label), ""


@dataclass(slots=True)
class FolderLedger:
    """Writes trials and the choice into the sweep's folder."""

    paths: ExperimentPaths
    configurer: Configurer
    thinking: list[Thinking] = field(default_factory=list)
    disk_error: OSError | None = None

    def around(self, suggester: Suggester) -> Suggester:
        """Take the time of a tuner."""
        self.thinking.append(Thinking(suggester))
        return self.thinking[-1]

    def configure(self, number: int, suggestion: Suggestion) -> tuple[Configuration | None, str]:
        """The configuration of a trial; nothing, and why, where it cannot be run."""
        return self.configurer.configure(number, suggestion.parameters, suggestion.steps)

    def propose(self, proposal: Proposal, configuration: Configuration | None) -> None:
        """Write a trial down."""
        trial = StoredTrial(
            number=proposal.number,
            parameters=proposal.parameters,
            steps=proposal.steps,
            configuration=configuration,
            refused=proposal.refused,
            parent=proposal.parent,
            seconds=self.thinking[-1].last if self.thinking and proposal.number else 0.0,
        )
        append_trial(self.paths, trial)

    def choose(self, selection: Selection) -> None:
        """Freeze the choice."""
        write_selection(self.paths, selection)


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


def split_definition(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """The name of a definition, if words begin with one, and the configuration after it."""
    given = list(words)
    is_name = bool(given) and "=" not in given[0] and given[0][:1] not in "~+"
    return (given.pop(0) if is_name else None), given


def read_sweep(name: str | None, words: Sequence[str], workspace: Workspace) -> Asked:
    """Turn a definition and words into an experiment; starts nothing and writes nothing.

    Raises:
        ConfigError: Something in them is unknown, mistyped, out of range or contradictory.
    """
    workspace.make_importable()
    request = compose_sweep(name, words, workspace.folder)
    root, parts = validate(request.plain, workspace.allowed)
    configuration = configuration_of(Composed(request.plain, ()), root, parts)
    check_sweep(request, workspace.allowed)
    if root.failures == "worst":
        require_minimum([configuration])
    lag = request.plan.lag
    workers = parts.executor.workers_for(root.compute.threads)
    plan = replace(request.plan, lag=2 * workers - 1 if lag is None else lag)
    experiment = Experiment(
        name="",
        configurations=(replace(configuration, label=DEFAULT_LABEL),),
        seeds=root.seeds,
        failures=root.failures,
        sweep=Sweep(
            name=name or "",
            space=request.space,
            tuner=_searching("tuner", request.tuner, workspace),
            pruner=_searching("pruner", request.pruner, workspace),
            plan=plan,
        ),
    )
    named = root.experiment or name or derive_name(experiment)
    named_experiment = replace(experiment, name=check_name(named))
    trackers = Trackers.of(request.plain, parts)
    return Asked(named_experiment, request, parts.executor, root.budget, trackers, parts)


def _searching(group: str, given: dict[str, Any], workspace: Workspace) -> dict[str, Any]:
    """The tuner or the pruner of a sweep, as its definition holds it."""
    return plain_part(given, build(given, group, workspace.allowed), group)
