"""Executes runs again, beside their records, with code that was rebuilt for them."""

import os
import time
from collections.abc import Sequence
from contextlib import chdir
from dataclasses import replace
from signal import Signals

from rlexp.app.execution.environment_variables import given
from rlexp.app.execution.launch import drive
from rlexp.app.execution.launch_settings import Driving
from rlexp.app.observer import Observer
from rlexp.app.reading.survey import configuration_of
from rlexp.app.reproduction.checkout import Checkout
from rlexp.app.reproduction.original import Original
from rlexp.app.workspace import Workspace
from rlexp.config.compose import compose
from rlexp.config.validate import build
from rlexp.engine.source import Plan
from rlexp.executors import Executor
from rlexp.protocol.budget import OPERATIONAL
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.seeds import Phase, SeedPlan
from rlexp.store.layout import ExperimentPaths
from rlexp.store.lease import hold
from rlexp.store.runs import write_experiment


def run_again(
    originals: Sequence[Original],
    paths: ExperimentPaths,
    checkout: Checkout,
    workspace: Workspace,
    command: tuple[str, ...],
    observer: Observer,
) -> Signals | None:
    """Execute runs from their first step; returns the signal that ended it, if any.

    Args:
        originals: What is executed again.
        paths: Where the records of that go; nobody else's experiment.
        checkout: The code.
        workspace: The workspace of the originals, whose defaults say how many runs go on at a time.
        command: What the user typed.
        observer: Shows the plan and the runs.

    Raises:
        RlexpError: The processes that execute runs cannot be started.
    """
    specs = tuple(original.record.spec for original in originals)
    phase = specs[0].phase
    driving = Driving(
        executor=_executor(workspace),
        threads=max(spec.compute["threads"] for spec in specs),
        operational=dict.fromkeys(OPERATIONAL),
        command=command,
    )
    place = replace(workspace, folder=checkout.folder)
    with (
        hold(paths.lock, f"experiment {paths.name}", now=time.time()),
        chdir(checkout.folder),
        given(_imports(checkout)),
    ):
        return drive(paths, phase, Plan(specs, (), ()), driving, place, observer)


def _executor(workspace: Workspace) -> Executor:
    (composed,) = compose([], workspace.folder)
    executor: Executor = build(composed.plain["executor"], "executor", workspace.allowed)
    return executor


def define(originals: Sequence[Original], paths: ExperimentPaths) -> None:
    """Write the experiment whose runs are to be executed again; it asks for no other."""
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
    )
    write_experiment(paths, experiment)


def _imports(checkout: Checkout) -> dict[str, str]:
    """What lets the processes of the runs import from the checkout before anything else."""
    if not checkout.imports:
        return {}
    before = os.environ.get("PYTHONPATH")
    folders = [*map(str, checkout.imports), *([before] if before else [])]
    return {"PYTHONPATH": os.pathsep.join(folders)}
