"""Collects the runs of a plot: those of experiments and labels, and single runs."""

from collections.abc import Sequence
from dataclasses import replace

from rlexp.app.reading.experiment_scan import configuration_of, read_now, survey, with_measurements
from rlexp.app.reporting.evidence import collect_evidence, read_target
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError, ProtocolError, RecordError
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.seeds import Phase
from rlexp.reports.evidence.runs import Evidence, PlannedRun
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.runs import read_experiment


def collect_plotted(targets: Sequence[str], phase: Phase | None, workspace: Workspace) -> Evidence:
    """Collect the runs of the targets in one phase.

    A target that names a single run gives a label of its own, which is the name of the run.

    Args:
        targets: Experiments, labels of them (`EXPERIMENT/LABEL`), or runs (`EXPERIMENT/RUN`).
        phase: The phase; by default that of single runs, else test, or tuning where no target has
            test runs.
        workspace: The workspace of the experiments.

    Raises:
        RecordError: A target does not exist, or its records cannot be read.
        ProtocolError: The targets have no phase in common.
    """
    if not targets:
        raise ConfigError("name an experiment: EXPERIMENT or EXPERIMENT/RUN; see 'rlexp ls'")
    runs = {text: run for text in targets if (run := _single_run(text, workspace)) is not None}
    others = [text for text in targets if text not in runs]
    if not runs:
        return collect_evidence(others, phase, workspace, measurements=True)
    singles = _single_runs(list(runs.values()), phase)
    if not others:
        return singles
    evidence = collect_evidence(others, phase or singles.phase, workspace, measurements=True)
    if not evidence.members:
        raise ProtocolError(
            f"runs of different phases are never shown together: {', '.join(runs)} is of phase "
            f"{singles.phase}, and {', '.join(others)} has no run of it"
        )
    included = {experiment.name for experiment in evidence.experiments}
    further = tuple(e for e in singles.experiments if e.name not in included)
    return replace(
        evidence,
        experiments=(*evidence.experiments, *further),
        members=(*evidence.members, *singles.members),
    )


def _single_run(text: str, workspace: Workspace) -> RunPaths | None:
    """The run that a target names; None for an experiment or a label.

    Raises:
        RecordError: The target is neither a label nor a run of its experiment.
    """
    target = read_target(text)
    if target.label is None:
        return None
    paths = workspace.experiment(target.experiment)
    experiment = _definition(paths)
    if target.label in {configuration.label for configuration in experiment.configurations}:
        return None
    matches = [run for run in paths.runs() if target.label in run.folder.name]
    if matches:
        return workspace.run(f"{paths.name}/{target.label}")
    labels = dict.fromkeys(configuration.label for configuration in experiment.configurations)
    raise RecordError.unknown(
        f"{paths.name} has no label and no run {target.label!r}",
        target.label,
        labels,
        key=paths.name,
        after=f"; 'rlexp ls {paths.name}' lists its runs",
    )


def _definition(paths: ExperimentPaths) -> Experiment:
    """The definition of an experiment.

    Raises:
        RecordError: The definition cannot be read.
    """
    scan = survey(paths, brief=True)
    if scan.experiment is None:
        raise RecordError(f"{scan.problem}; 'rlexp ls {paths.name}' lists its runs")
    return scan.experiment


def _single_runs(runs: Sequence[RunPaths], phase: Phase | None) -> Evidence:
    """The evidence of single runs, each with its name as label.

    Raises:
        ProtocolError: The runs are of several phases, or of another one than the requested one.
    """
    distinct = {str(run.folder): run for run in runs}.values()
    members = [_member(run) for run in distinct]
    phases = dict.fromkeys(member.record.spec.phase for member in members)
    shown_phase = phase or next(iter(phases))
    for member in members:
        if member.record.spec.phase is not shown_phase:
            raise ProtocolError(
                f"runs of different phases are never shown together: {member.name} is a "
                f"{member.record.spec.phase} run, not a {shown_phase} run"
            )
    several = len({member.experiment for member in members}) > 1
    named = [replace(m, label=m.name if several else m.record.spec.name) for m in members]
    experiments = {run.folder.parent.name: run.folder.parent for run in distinct}
    return Evidence(
        phase=shown_phase,
        experiments=tuple(read_experiment(ExperimentPaths(p)) for p in experiments.values()),
        members=tuple(named),
        folders={name: str(folder) for name, folder in experiments.items()},
    )


def _member(run: RunPaths) -> PlannedRun:
    stored = read_now(run)
    configuration = configuration_of(run, stored.record.spec)
    return PlannedRun(
        experiment=run.folder.parent.name,
        label=configuration.label,
        configuration=configuration,
        record=with_measurements(stored),
    )
