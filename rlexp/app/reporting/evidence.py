"""Collects evidence from the targets of a command: whole experiments, or single labels."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from rlexp.app.reading.beside import beside
from rlexp.app.reading.experiment_scan import (
    WORTH_FORKING,
    ExperimentScan,
    ScanMemory,
    ScannedRun,
    survey,
    with_measurements,
)
from rlexp.app.reading.integrity import examine
from rlexp.app.reading.looks import with_looks
from rlexp.app.reading.protocols import with_protocols
from rlexp.app.reading.provenance import provenance_in
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError, ProtocolError, RecordError, RlexpError
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.records.integrity import Integrity
from rlexp.records.run import RunRecord, State
from rlexp.records.system_metrics import SystemUsage, summarise_usage
from rlexp.reports.evidence.ablations import AblationEvidence
from rlexp.reports.evidence.runs import Evidence, PlannedRun, logged_series, unambiguous
from rlexp.reports.evidence.sweeps import SweepEvidence
from rlexp.store.files import read_file
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.registers.ablations import read_ablation
from rlexp.store.runs import StoredRun
from rlexp.store.secrets import mask_all, secret_values
from rlexp.store.system_metrics import read_all_measurements


@dataclass(frozen=True, slots=True)
class Target:
    """An experiment, or one label of it (`EXPERIMENT/LABEL`)."""

    experiment: str
    label: str | None


def read_target(text: str) -> Target:
    """Parse `EXPERIMENT` or `EXPERIMENT/LABEL`; `./`, `runs/` and a final slash are ignored."""
    experiment, _, label = text.removeprefix("./").removeprefix("runs/").rstrip("/").partition("/")
    return Target(experiment, label or None)


@dataclass(frozen=True, slots=True)
class RememberedMember:
    """A planned run, and what it was made from besides its files.

    Attributes:
        record: Its record, which the scan remembers.
        measurements: Whether it has what its learner logged.
        brief: Whether it lacks what the run used of its machine.
        member: The planned run.
    """

    record: RunRecord
    measurements: bool
    brief: bool
    member: PlannedRun

    def serves(self, run: ScannedRun, *, measurements: bool, brief: bool) -> bool:
        """Whether the planned run is that of a scanned run."""
        return (
            # The memory of the scan returns the same object while no file of the run changes.
            run.stored is not None
            and run.stored.record is self.record
            and (run.configuration, run.problem)
            == (self.member.configuration, self.member.problem)
            and (measurements, brief) == (self.measurements, self.brief)
        )


@dataclass(slots=True)
class EvidenceMemory:
    """What a process has collected from the records, for the next time.

    Attributes:
        scans: The ended runs, by experiment.
        members: The planned runs, by their folders.
        lasting: Whether there is a next time. Ended runs are then kept without measurements, which would
            take most of the memory; otherwise, they are read together with their measurements.
        catalogued: Whether runs may come from the catalogue, which is then written too.
    """

    scans: dict[str, ScanMemory] = field(default_factory=dict)
    members: dict[RunPaths, RememberedMember] = field(default_factory=dict)
    lasting: bool = True
    catalogued: bool = True

    def of(self, experiment: str) -> ScanMemory:
        """What was read of an experiment."""
        return self.scans.setdefault(experiment, ScanMemory(lasting=self.lasting))


def collect_evidence(
    targets: Sequence[str],
    phase: Phase | None,
    workspace: Workspace,
    *,
    importance: bool = False,
    integrity: bool = False,
    measurements: bool = False,
    enter: bool = False,
    memory: EvidenceMemory | None = None,
    brief: bool = False,
    scanned: ExperimentScan | None = None,
) -> Evidence:
    """Collect the planned runs of the targets in one phase.

    A command that shows test scores to judge them enters looks in the register.

    Args:
        targets: Experiments, or labels of them.
        phase: The phase; by default test, or tuning where no target has test runs.
        workspace: The workspace of the experiments.
        importance: Whether to compute parameter importances of sweeps, which takes seconds.
        integrity: Whether to compare the records with their ledgers, which reads every file.
        measurements: Whether to read what learners logged, which is most of a journal.
        enter: Whether to enter looks in the register; otherwise they are only counted.
        memory: What this process collected before.
        brief: Whether the scores of ended runs suffice, without their episodes, curves and use of
            the machine. The catalogue holds such records.
        scanned: One of the experiments, if the caller has read it already.

    Raises:
        RecordError: An experiment or label does not exist, or its definition cannot be read.
        ProtocolError: The targets have no phase in common.
    """
    parsed_targets = [read_target(text) for text in dict.fromkeys(targets)]
    # Measurements are read together with the runs. Most targets have test runs: where the phase
    # turns out to be another one, its runs are read again.
    expected = phase or Phase.TEST
    lasting = memory is not None and memory.lasting
    together = measurements and not (lasting or brief or scanned is not None)
    scans = _scans(
        parsed_targets,
        workspace,
        memory,
        scanned,
        brief=brief,
        measured=expected if together else None,
    )
    chosen = phase or _common_phase(scans)
    # Comparing all files with the ledger needs nothing but the scans.
    runs = sum(len(scan.runs) for scan in scans.values())
    with beside(
        lambda: tuple(_examined(s, memory) for s in scans.values()) if integrity else (),
        worthwhile=integrity and not lasting and runs >= WORTH_FORKING,
    ) as examined:
        members = [
            m
            for name in scans
            for m in _members(
                scans[name],
                _labels(name, parsed_targets),
                chosen,
                measurements=measurements,
                separately=not together or chosen is not expected,
                memory=memory.members if memory else {},
                brief=brief,
            )
        ]
        compared = examined.result()
    evidence = _assembled(
        scans, chosen, members, compared if integrity else None, workspace, importance=importance
    )
    registered = with_protocols(evidence, workspace.layout)
    return with_looks(registered, workspace.layout, enter=enter)


def _assembled(
    scans: Mapping[str, ExperimentScan],
    chosen: Phase,
    members: Sequence[PlannedRun],
    compared: tuple[Integrity, ...] | None,
    workspace: Workspace,
    *,
    importance: bool,
) -> Evidence:
    """The evidence of the runs of one phase; without a comparison with ledgers, `compared` is None."""
    return Evidence(
        phase=chosen,
        experiments=tuple(s.experiment for s in scans.values() if s.experiment),
        members=tuple(_ordered(_unambiguously_labelled(members))),
        left_out=_left_out(scans, chosen),
        problems=tuple(_problems(scans, compared=compared is not None)),
        folders={n: str(s.paths.folder) for n, s in scans.items()},
        sweeps=tuple(_sweeps(scans, workspace, with_importance=importance)),
        integrity=compared or (),
        running=_running(scans),
        ablations=tuple(_ablations(scans)),
    )


def _unambiguously_labelled(members: Sequence[PlannedRun]) -> list[PlannedRun]:
    """The runs, where no label stands for different configurations of two experiments."""
    names = unambiguous(_configurations(members))
    renamed = dict(zip(_configurations(members), names, strict=True))
    return [_labelled(m, renamed[m.experiment, m.label, m.task]) for m in members]


def _problems(scans: Mapping[str, ExperimentScan], *, compared: bool) -> Iterator[str]:
    """The problems of the experiments, without what a comparison of all files names too."""
    for name, scan in scans.items():
        yield from (
            f"{name}: {line}" for line in scan.problems if not (compared and line == scan.mismatch)
        )


def _ablations(scans: Mapping[str, ExperimentScan]) -> Iterator[AblationEvidence]:
    """The ablations whose tests have been declared."""
    for name, scan in scans.items():
        if not scan.paths.ablation.exists():
            continue
        # Few experiments are ablations: other commands do without this import.
        from rlexp.app.comparison.sequential import read_design

        try:
            ablation, design = read_ablation(scan.paths), read_design(scan.paths)
        except RlexpError:
            # `rlexp ablate` and `rlexp verify` name the damage; scores are shown without it.
            continue
        # A design of another command compares other pairs.
        if ablation is not None and design is not None and design.pairs == ablation.contrasts:
            yield AblationEvidence(
                experiment=name, ablation=ablation, design=design.test, anchors=design.anchors
            )


def _running(scans: Mapping[str, ExperimentScan]) -> int:
    """The number of runs that are running."""
    return sum(
        f.stored is not None and f.stored.record.state is State.RUNNING
        for scan in scans.values()
        for f in scan.runs
    )


def _labelled(member: PlannedRun, label: str) -> PlannedRun:
    # Not replaced without need: what a planned run has computed stays with it.
    return member if member.label == label else replace(member, label=label)


def _examined(scan: ExperimentScan, memory: EvidenceMemory | None) -> Integrity:
    return examine(scan, sum_of=memory.of(scan.paths.name).sums.of) if memory else examine(scan)


def _scans(
    targets: Sequence[Target],
    workspace: Workspace,
    memory: EvidenceMemory | None,
    scanned: ExperimentScan | None,
    *,
    brief: bool,
    measured: Phase | None,
) -> dict[str, ExperimentScan]:
    """The experiments of the targets, as read from disk, by name.

    Raises:
        RecordError: An experiment or label does not exist, or its definition cannot be read.
    """
    paths = {t.experiment: workspace.experiment(t.experiment) for t in targets}
    scans = {
        name: scanned
        if scanned is not None and scanned.paths == of_name
        else survey(
            of_name,
            memory=memory.of(name) if memory else None,
            brief=brief,
            catalogued=memory is None or memory.catalogued,
            measured=_measured(name, targets, measured),
        )
        for name, of_name in paths.items()
    }
    for name, scan in scans.items():
        if scan.experiment is None:
            raise RecordError(f"{scan.problem}; 'rlexp ls {name}' lists its runs")
    for target in targets:
        _check_label(target, scans[target.experiment])
    return scans


def _measured(
    experiment: str, targets: Sequence[Target], phase: Phase | None
) -> Callable[[Configuration, RunSpec], bool] | None:
    """Whether a run is of a phase and of a requested label; None where no phase is given."""
    if phase is None:
        return None
    labels = _labels(experiment, targets)
    return lambda configuration, spec: (
        spec.phase is phase and (labels is None or configuration.label in labels)
    )


def _sweeps(
    surveys: Mapping[str, ExperimentScan], workspace: Workspace, *, with_importance: bool
) -> Iterator[SweepEvidence]:
    for scan in surveys.values():
        experiment = scan.experiment
        if experiment is not None and experiment.sweep is not None:
            from rlexp.app.sweeps.evidence import read_sweep_evidence

            runs = [f.stored for f in scan.runs if f.stored is not None and not f.damaged]
            yield read_sweep_evidence(
                scan.paths, experiment, runs, workspace, with_importance=with_importance
            )


def _labels(experiment: str, targets: Sequence[Target]) -> frozenset[str] | None:
    """The requested labels of an experiment, or None where all are requested."""
    labels = [t.label for t in targets if t.experiment == experiment]
    return None if None in labels else frozenset(label for label in labels if label)


def _check_label(target: Target, scan: ExperimentScan) -> None:
    assert scan.experiment is not None
    labels = [c.label for c in scan.experiment.configurations]
    if target.label is not None and target.label not in labels:
        raise RecordError.unknown(
            f"{target.experiment} has no label {target.label!r}",
            target.label,
            dict.fromkeys(labels),
            key=target.experiment,
        )


def _members(
    scan: ExperimentScan,
    labels: frozenset[str] | None,
    phase: Phase,
    *,
    measurements: bool,
    separately: bool,
    memory: dict[RunPaths, RememberedMember],
    brief: bool,
) -> Iterator[PlannedRun]:
    provenances: dict[bytes, Mapping[str, Any]] = {}
    for run in scan.runs:
        if run.planned and run.configuration and run.stored:
            of_phase = run.stored.record.spec.phase is phase
            if of_phase and (labels is None or run.configuration.label in labels):
                remembered = memory.get(run.stored.paths)
                if remembered is None or not remembered.serves(
                    run, measurements=measurements, brief=brief
                ):
                    member = _member(scan.paths, run, provenances, with_usage=not brief)
                    if measurements and separately:
                        series = logged_series(with_measurements(run.stored))
                        member = replace(member, series=series)
                    remembered = RememberedMember(run.stored.record, measurements, brief, member)
                    memory[run.stored.paths] = remembered
                yield remembered.member


def _member(
    paths: ExperimentPaths,
    run: ScannedRun,
    provenances: dict[bytes, Mapping[str, Any]],
    *,
    with_usage: bool,
) -> PlannedRun:
    assert run.configuration is not None
    assert run.stored is not None
    return PlannedRun(
        experiment=paths.name,
        label=run.configuration.label,
        configuration=run.configuration,
        record=run.stored.record,
        provenance=_provenance(run, provenances),
        problem=run.problem,
        system=_usage(run.stored) if with_usage else None,
    )


def _usage(stored: StoredRun) -> SystemUsage | None:
    """What a run used of its machine; None where nothing can be read."""
    if not stored.record.attempts:
        return None
    try:
        return summarise_usage(read_all_measurements(stored.paths))
    except RecordError:
        return None


def _provenance(run: ScannedRun, provenances: dict[bytes, Mapping[str, Any]]) -> Mapping[str, Any]:
    """The provenance of a run's last attempt; empty where it is damaged, so that the score is kept.

    `provenances` holds those read so far by file content, because runs of one command share theirs.
    """
    assert run.stored is not None
    if run.stored.provenance in provenances:
        return provenances[run.stored.provenance]
    path, content = _last_provenance(run.stored)
    if content is None:
        return {}
    if content not in provenances:
        provenance = provenance_in(content, path)
        # Masked when it is read: a variable may have been declared secret after the run.
        masked: Mapping[str, Any] = mask_all(provenance, secret_values(os.environ))
        provenances[content] = masked if _is_provenance(masked) else {}
    return provenances[content]


def _last_provenance(stored: StoredRun) -> tuple[Path, bytes | None]:
    """The file with the provenance of the last attempt, and its content, if there is any."""
    if stored.provenance is not None:
        return stored.paths.attempt(stored.record.attempts).provenance, stored.provenance
    attempts = stored.paths.attempts() if stored.record.attempts else []
    if not attempts:
        return stored.paths.folder, None
    path = attempts[-1].provenance
    try:
        return path, read_file(path)
    except OSError:
        return path, None


def _is_provenance(document: Mapping[str, Any]) -> bool:
    """Whether the document has the structure that `rlexp.store.provenance.collect` writes."""
    parts = code, machine, packages = [
        document.get(k, {}) for k in ("code", "machine", "packages")
    ]
    if not all(isinstance(part, Mapping) for part in parts):
        return False
    lists = [document.get("command") or [], code.get("dirty") or [], code.get("untracked") or []]
    if not all(isinstance(values, list) for values in lists):
        return False
    texts = [*map(code.get, ("commit", "branch", "remote")), *chain(*lists)]
    texts += [*map(machine.get, ("processor", "system")), *packages.values()]
    numbers = map(machine.get, ("cores", "memory"))
    return all(isinstance(value, str | None) for value in texts) and all(
        isinstance(value, int | float | None) for value in numbers
    )


def _common_phase(surveys: Mapping[str, ExperimentScan]) -> Phase:
    """The phase that all targets have: test before tuning before selection.

    Raises:
        ProtocolError: The targets have no phase in common.
    """
    if not surveys:
        raise ConfigError("name an experiment: EXPERIMENT or EXPERIMENT/LABEL; see 'rlexp ls'")
    phases = {name: _phases(scan) for name, scan in surveys.items()}
    common = set.intersection(*phases.values())
    for phase in (Phase.TEST, Phase.TUNING, Phase.SELECTION):
        if phase in common:
            return phase
    phase_list = "; ".join(
        f"{n} has {', '.join(sorted(phases_of_target))} runs"
        for n, phases_of_target in phases.items()
    )
    raise ProtocolError(f"scores of different phases are never combined: {phase_list}")


def _phases(scan: ExperimentScan) -> set[Phase]:
    """The phases in which a target can be compared; of a sweep, only test, unseen by its choice."""
    is_sweep = scan.experiment is not None and scan.experiment.sweep is not None
    return {Phase.TEST} if is_sweep else set(scan.phases) or {Phase.TEST}


def _left_out(surveys: Mapping[str, ExperimentScan], chosen: Phase) -> dict[Phase, int]:
    counts: dict[Phase, int] = {}
    # Reports describe the search of a sweep in its own section, so it is not counted as left out.
    without_sweeps = [
        s for s in surveys.values() if s.experiment is None or s.experiment.sweep is None
    ]
    for scan in without_sweeps:
        for phase in scan.phases:
            if phase is not chosen:
                counts[phase] = counts.get(phase, 0) + len(scan.entries(phase))
    return counts


def _configurations(members: Sequence[PlannedRun]) -> list[tuple[str, str, str]]:
    return list(dict.fromkeys((m.experiment, m.label, m.task) for m in members))


def _ordered(members: Sequence[PlannedRun]) -> list[PlannedRun]:
    """Sort by label in the order of the targets, then by task, root and seed."""
    labels = {label: n for n, label in enumerate(dict.fromkeys(m.label for m in members))}
    return sorted(
        members,
        key=lambda m: (labels[m.label], m.task, m.record.spec.root, m.record.spec.seed),
    )
