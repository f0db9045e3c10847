"""What lies in an experiment's folder: every run, planned or not, damaged or not."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rlexp.app.reading.catalogue import catalogue_of, collector_paused
from rlexp.app.reading.summary import Entry
from rlexp.engine.running import read_progress
from rlexp.errors import RecordError, RlexpError
from rlexp.protocol.budget import Budget, Compute
from rlexp.protocol.experiment import Configuration, Experiment
from rlexp.protocol.identity import short_name
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.records.run import RunRecord, State
from rlexp.store.catalogue import Catalogue
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.runs import StoredRun, read_experiment, read_run

DAMAGE = (TypeError, ValueError, KeyError, AttributeError, ArithmeticError, OSError)
"""What files raise whose content is well-formed and makes no sense."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A run of the plan, of the disk, or of both.

    `configuration` and `stored` are missing where nothing of the run can be read. `planned` says
    whether the experiment's definition asks for it; `problem`, what is wrong with its folder.
    """

    name: str
    configuration: Configuration | None
    stored: StoredRun | None
    planned: bool
    problem: str | None = None
    damaged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """An experiment as its folder tells it; `problem` says why its definition is missing."""

    paths: ExperimentPaths
    experiment: Experiment | None
    runs: tuple[Found, ...]
    problem: str | None = None

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The phases of the planned runs, in their order."""
        present = {s.record.spec.phase for f in self.runs if f.planned and (s := f.stored)}
        return tuple(phase for phase in Phase if phase in present)

    def entries(self, phase: Phase) -> list[Entry]:
        """The planned runs of a phase; one that cannot be read stands there as never run."""
        return [
            (f.configuration, f.stored)
            for f in self.runs
            if f.planned and f.configuration and f.stored and f.stored.record.spec.phase is phase
        ]

    @property
    def problems(self) -> list[str]:
        """Everything that is wrong, a line each."""
        own = [self.problem] if self.problem else []
        return own + [f"{f.name}: {f.problem}" for f in self.runs if f.problem]


@collector_paused()
def survey(paths: ExperimentPaths, *, brief: bool = False) -> Survey:
    """Read everything in an experiment's folder; what cannot be read is said, never raised.

    Of the phases, those are planned that have a run on disk; without any, the test phase.

    Args:
        paths: The experiment.
        brief: Whether records in brief are enough, which its catalogue has. A sweep's never are:
            its trials are judged by their curves.
    """
    try:
        experiment, problem = read_experiment(paths), None
        planned = _planned(experiment)
    except (RlexpError, *DAMAGE) as error:
        experiment, problem, planned = None, _said(error, paths.folder), {}
    catalogue = None
    if brief and (experiment is None or experiment.sweep is None):
        catalogue = catalogue_of(paths)
    try:
        found = {
            run.folder.name: _look(run, planned, experiment, catalogue) for run in paths.runs()
        }
    except RecordError as error:
        found, problem = {}, _said(error, paths.folder)
    if catalogue is not None:
        catalogue.save(complete=True)
    phases = {s.record.spec.phase for f in found.values() if f.planned and (s := f.stored)}
    for name, (configuration, spec) in planned.items():
        if (
            name not in found
            and not _is_open(spec.phase, experiment)
            and spec.phase in (phases or {Phase.TEST})
        ):
            stored = StoredRun(paths.run(name), RunRecord(spec=spec))
            found[name] = Found(
                name=name, configuration=configuration, stored=stored, planned=True
            )
    order = {name: position for position, name in enumerate(planned)}
    runs = sorted(found.values(), key=lambda f: (order.get(f.name, len(order)), f.name))
    return Survey(paths=paths, experiment=experiment, runs=tuple(runs), problem=problem)


def configuration_of(paths: RunPaths, spec: RunSpec) -> Configuration:
    """The configuration of a run as its experiment labels it, or else as its spec suggests."""
    try:
        configurations = read_experiment(ExperimentPaths(paths.folder.parent)).configurations
        own = [c for c in configurations if c.fingerprint == spec.fingerprint]
    except (RlexpError, *DAMAGE):
        own = []
    return own[0] if own else _unlabelled(spec)


Planned = Mapping[str, tuple[Configuration, RunSpec]]


def _planned(experiment: Experiment) -> Planned:
    """Every run that is asked for, or may be, by name; trials that share it leave it to the first."""
    pairs = [pair for phase in Phase for pair in experiment.specs(phase)]
    if _is_open(Phase.SELECTION, experiment):
        pairs += replace(experiment, finalists=experiment.trials).specs(Phase.SELECTION)
    planned: dict[str, tuple[Configuration, RunSpec]] = {}
    for configuration, spec in pairs:
        planned.setdefault(spec.name, (configuration, spec))
    return planned


def _is_open(phase: Phase, experiment: Experiment | None) -> bool:
    """Whether it is not known before they are made which runs a sweep makes in a phase."""
    if experiment is None or experiment.sweep is None:
        return False
    return phase is Phase.TUNING or (phase is Phase.SELECTION and not experiment.finalists)


def _look(
    paths: RunPaths,
    planned: Planned,
    experiment: Experiment | None,
    catalogue: Catalogue | None,
) -> Found:
    name = paths.folder.name
    configuration, spec = planned.get(name, (None, None))
    try:
        stored = catalogue.look(paths, read_intact, spec) if catalogue else read_intact(paths)
        own = stored.record.spec
        if spec is not None and own is not spec and repr(own) == repr(spec):
            # In memory once for all runs of a configuration.
            stored = replace(stored, record=replace(stored.record, spec=spec))
        configuration = configuration or _unlabelled(stored.record.spec)
    except (RlexpError, *DAMAGE) as error:
        return Found(
            name=name,
            configuration=configuration,
            stored=StoredRun(paths, RunRecord(spec=spec)) if spec else None,
            planned=spec is not None,
            problem=_said(error, paths.folder),
            damaged=True,
        )
    return Found(
        name=name,
        configuration=configuration,
        stored=stored,
        planned=spec is not None,
        problem=_problem(stored, foreign=experiment is not None and spec is None),
    )


def read_now(paths: RunPaths) -> StoredRun:
    """Read a run; while it runs, its step is the one that it is at, not that of its last event.

    Raises:
        RecordError: It is damaged.
    """
    stored = read_run(paths)
    if stored.record.state is not State.RUNNING:
        return stored
    step, _ = read_progress(paths.attempts()[-1].progress)
    record = replace(stored.record, step=max(step, stored.record.step))
    return replace(stored, record=record)


def read_intact(paths: RunPaths) -> StoredRun:
    """Read a run, and find out whether what its folder says makes sense.

    Raises:
        RecordError: It does not; so it may with the errors in `DAMAGE`.
    """
    stored = read_now(paths)
    name = stored.record.spec.name
    if name != paths.folder.name:
        raise RecordError(f"the folder holds run {name}: it was copied or renamed")
    _ = stored.record.score  # a score that cannot be computed is damage too
    return stored


def _problem(stored: StoredRun, *, foreign: bool) -> str | None:
    running = stored.record.state is State.RUNNING
    unreadable = stored.quarantined + (0 if running else stored.torn)
    told = []
    if unreadable:
        lines = "line" if unreadable == 1 else "lines"
        told.append(f"{unreadable} {lines} of its journal cannot be read")
    if foreign:
        told.append("the experiment's definition does not ask for it")
    return "; ".join(told) or None


def _unlabelled(spec: RunSpec) -> Configuration:
    return Configuration(
        label=short_name(spec.algorithm),
        task=str(spec.environment.get("id", "unknown")),
        agent=spec.agent,
        algorithm=spec.algorithm,
        environment=spec.environment,
        reference={},
        budget=Budget(**spec.budget),
        compute=Compute(**spec.compute),
    )


def _said(error: Exception, folder: Path) -> str:
    """What is wrong with a folder; its files are named as they stand in it."""
    text = str(error) if isinstance(error, RlexpError) else f"its records are damaged: {error!r}"
    return text.replace(f"{folder}{os.sep}", "")
