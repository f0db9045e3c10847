"""Executes runs again with their rebuilt code, in a separate experiment."""

import time
from collections.abc import Sequence
from contextlib import chdir, suppress
from dataclasses import replace
from signal import Signals

from rlexp.app.execution.checks.compatibility import EnvironmentSpaces, check_compatibility
from rlexp.app.execution.checks.import_permission import foreign_modules
from rlexp.app.execution.environment_variables import temporary_environment
from rlexp.app.execution.launch import execute_missing_runs
from rlexp.app.execution.launch_settings import LaunchSettings
from rlexp.app.execution.memory_plan import with_fitting_workers
from rlexp.app.execution.prior_data import prior_source
from rlexp.app.execution.probes import find_costs
from rlexp.app.observer import Observer
from rlexp.app.reading.experiment_scan import configuration_of
from rlexp.app.reproduction.checkout import Checkout, import_variables
from rlexp.app.reproduction.original import Original
from rlexp.app.workspace import Workspace
from rlexp.config.compose import compose
from rlexp.config.validate import build
from rlexp.engine.source import Plan
from rlexp.errors import ConfigError
from rlexp.executors import Executor
from rlexp.protocol.budget import OPERATIONAL
from rlexp.protocol.experiment import Experiment, Extension
from rlexp.protocol.seeds import Phase, SeedPlan
from rlexp.protocol.shared_experience import EXPERIENCE
from rlexp.store.checkpoints.policies import START_FROM, copy_policy
from rlexp.store.checkpoints.prior_data import copy_prior_data
from rlexp.store.checkpoints.shared_experience import copy_experience
from rlexp.store.layout import ExperimentPaths
from rlexp.store.locks.lease import hold
from rlexp.store.runs import write_experiment


def run_again(
    originals: Sequence[Original],
    paths: ExperimentPaths,
    checkout: Checkout,
    workspace: Workspace,
    command: tuple[str, ...],
    observer: Observer,
    *,
    keep_states: bool,
) -> Signals | None:
    """Execute runs from where they began; returns the signal that ended them, or None.

    Args:
        originals: The runs that are executed again.
        paths: The new experiment, which no other command uses.
        checkout: The rebuilt code.
        workspace: The workspace of the originals, whose defaults set the number of parallel runs.
        command: The command line that the user typed.
        observer: Receives the plan and the progress.
        keep_states: Whether the runs keep the states from which other runs continue.

    Raises:
        RlexpError: The processes that execute runs cannot be started.
    """
    specs = tuple(original.record.spec for original in originals)
    phase = specs[0].phase
    launch = LaunchSettings(
        executor=_executor(workspace),
        threads=max(spec.compute["threads"] for spec in specs),
        # An extended run begins with the state of its parent. Changed versions of packages are
        # reported before, as for all other runs.
        operational={
            **dict.fromkeys(OPERATIONAL),
            "keep_last": keep_states,
            "allow_drift": any(spec.parent is not None for spec in specs),
        },
        command=command,
        changeable=False,
    )
    rebuilt_workspace = replace(workspace, folder=checkout.folder)
    with (
        hold(paths.lock, f"experiment {paths.name}", now=time.time()),
        # Relative paths in configurations refer to the current folder.
        chdir(checkout.folder),
        temporary_environment(import_variables(checkout)),
    ):
        spaces = _spaces(originals, workspace)
        launch = with_fitting_workers(specs, launch, spaces)
        costs = find_costs(specs, launch, rebuilt_workspace, observer, spaces, probing=False)
        return execute_missing_runs(
            paths, phase, Plan(specs, (), ()), launch, rebuilt_workspace, observer, costs
        )


def _spaces(originals: Sequence[Original], workspace: Workspace) -> dict[str, EnvironmentSpaces]:
    """The spaces of the environments of runs that execute installed packages only.

    Other code may exist in several versions, of which this process could import only one.
    """
    spaces: dict[str, EnvironmentSpaces] = {}
    for original in originals:
        spec = original.record.spec
        if not spec.external and not foreign_modules(spec):
            # What cannot be trained any more fails in its own process, with a verdict.
            with suppress(ConfigError):
                check_compatibility([configuration_of(original.paths, spec)], workspace, spaces)
    return spaces


def _executor(workspace: Workspace) -> Executor:
    (composed,) = compose([], workspace.folder)
    executor: Executor = build(composed.plain["executor"], "executor", workspace.allowed)
    return executor


def define_experiment(originals: Sequence[Original], paths: ExperimentPaths) -> None:
    """Write the definition of an experiment that contains exactly these runs."""
    specs = [original.record.spec for original in originals]
    seeds = tuple(dict.fromkeys(spec.seed for spec in specs))
    configurations = {
        o.record.spec.fingerprint: configuration_of(o.paths, o.record.spec) for o in originals
    }
    plan = {phase: seeds if phase is specs[0].phase else 0 for phase in Phase}
    experiment = Experiment(
        name=paths.name,
        configurations=tuple(configurations.values()),
        seeds=SeedPlan(root=specs[0].root, **plan),
        failures="missing",
        extends=_extension(originals),
    )
    write_experiment(paths, experiment)
    for original in originals:
        if (digest := original.record.spec.algorithm.get(START_FROM)) is not None:
            copy_policy(ExperimentPaths(original.paths.folder.parent), paths, digest)
        received = original.record.spec.algorithm.get(EXPERIENCE)
        for digest in filter(None, received["values"] if received is not None else ()):
            copy_experience(ExperimentPaths(original.paths.folder.parent), paths, digest)
        if (source := prior_source(original.record.spec.replay)) is not None:
            copy_prior_data(ExperimentPaths(original.paths.folder.parent), paths, source)


def _extension(originals: Sequence[Original]) -> Extension | None:
    """The experiment whose runs these continue; None if they begin at step 0."""
    inherited = originals[0].record.inherited
    if inherited is None:
        return None
    specs = [original.record.spec for original in originals]
    parents = {
        spec.again(spec.phase, spec.root, spec.seed).id: spec.parent
        for spec in specs
        if spec.parent is not None
    }
    return Extension(experiment=inherited.experiment, parents=parents)
