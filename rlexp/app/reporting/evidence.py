"""From targets on the command line to evidence: whole experiments, or single labels of them."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from rlexp.app.reading.integrity import examine
from rlexp.app.reading.provenance import provenance_of
from rlexp.app.reading.survey import Found, Survey, survey
from rlexp.app.sweeps.evidence import read_sweep_evidence
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError, ProtocolError, RecordError
from rlexp.protocol.seeds import Phase
from rlexp.records.run import State
from rlexp.reports.evidence.runs import Evidence, Member, unambiguous
from rlexp.reports.evidence.sweeps import SweepEvidence
from rlexp.store.files import read_file
from rlexp.store.layout import ExperimentPaths
from rlexp.store.secrets import mask_all, secret_values


@dataclass(frozen=True, slots=True)
class Target:
    """An experiment, or one label of it (`EXPERIMENT/LABEL`)."""

    experiment: str
    label: str | None


def read_target(text: str) -> Target:
    """Read `EXPERIMENT` or `EXPERIMENT/LABEL`; a folder's slash at the end is ignored."""
    experiment, _, label = text.removeprefix("./").removeprefix("runs/").rstrip("/").partition("/")
    return Target(experiment, label or None)


def gather(
    targets: Sequence[str],
    phase: Phase | None,
    workspace: Workspace,
    *,
    importance: bool = False,
    integrity: bool = False,
) -> Evidence:
    """Gather the planned runs of the targets, in one phase.

    Args:
        targets: Experiments, or labels of them.
        phase: Wanted phase; without one, test, or tuning where no target has test runs.
        workspace: Where the experiments are.
        importance: Whether to find out which parameters of a sweep matter, which takes seconds.
        integrity: Whether to compare the records with their ledgers, which reads every file.

    Raises:
        RecordError: There is no such experiment or label, or its definition cannot be read.
        ProtocolError: The targets have no phase in common.
    """
    asked = [read_target(text) for text in dict.fromkeys(targets)]
    surveys = {t.experiment: survey(workspace.experiment(t.experiment)) for t in asked}
    for name, found in surveys.items():
        if found.experiment is None:
            raise RecordError(f"{found.problem}; 'rlexp ls {name}' lists its runs")
    for target in asked:
        _check_label(target, surveys[target.experiment])
    chosen = phase or _common_phase(surveys)
    members = [
        m for name in surveys for m in _members(surveys[name], _labels(name, asked), chosen)
    ]
    names = unambiguous(_configurations(members))
    renamed = dict(zip(_configurations(members), names, strict=True))
    labelled = [replace(m, label=renamed[m.experiment, m.label, m.task]) for m in members]
    return Evidence(
        phase=chosen,
        experiments=tuple(s.experiment for s in surveys.values() if s.experiment),
        members=tuple(_ordered(labelled)),
        left_out=_left_out(surveys, chosen),
        problems=tuple(f"{n}: {line}" for n, s in surveys.items() for line in s.problems),
        folders={n: str(s.paths.folder) for n, s in surveys.items()},
        sweeps=tuple(_sweeps(surveys, workspace, with_importance=importance)),
        integrity=tuple(examine(s) for s in surveys.values()) if integrity else (),
        running=sum(
            f.stored is not None and f.stored.record.state is State.RUNNING
            for s in surveys.values()
            for f in s.runs
        ),
    )


def _sweeps(
    surveys: Mapping[str, Survey], workspace: Workspace, *, with_importance: bool
) -> Iterator[SweepEvidence]:
    for found in surveys.values():
        experiment = found.experiment
        if experiment is not None and experiment.sweep is not None:
            runs = [f.stored for f in found.runs if f.stored is not None and not f.damaged]
            yield read_sweep_evidence(
                found.paths, experiment, runs, workspace, with_importance=with_importance
            )


def _labels(experiment: str, asked: Sequence[Target]) -> frozenset[str] | None:
    """The labels wanted of an experiment, or nothing where it is wanted whole."""
    own = [t.label for t in asked if t.experiment == experiment]
    return None if None in own else frozenset(label for label in own if label)


def _check_label(target: Target, found: Survey) -> None:
    assert found.experiment is not None
    known = [c.label for c in found.experiment.configurations]
    if target.label is not None and target.label not in known:
        raise RecordError.unknown(
            f"{target.experiment} has no label {target.label!r}",
            target.label,
            dict.fromkeys(known),
            key=target.experiment,
        )


def _members(found: Survey, labels: frozenset[str] | None, phase: Phase) -> Iterator[Member]:
    known: dict[bytes, Mapping[str, Any]] = {}
    for run in found.runs:
        if run.planned and run.configuration and run.stored:
            of_phase = run.stored.record.spec.phase is phase
            if of_phase and (labels is None or run.configuration.label in labels):
                yield _member(found.paths, run, known)


def _member(paths: ExperimentPaths, run: Found, known: dict[bytes, Mapping[str, Any]]) -> Member:
    assert run.configuration is not None
    assert run.stored is not None
    return Member(
        experiment=paths.name,
        label=run.configuration.label,
        configuration=run.configuration,
        record=run.stored.record,
        provenance=_provenance(run, known),
        problem=run.problem,
    )


def _provenance(run: Found, known: dict[bytes, Mapping[str, Any]]) -> Mapping[str, Any]:
    """What the last attempt wrote of itself; damage is no reason to lose the run's score.

    `known` gathers it by what the file holds: runs of one command have it in common.
    """
    assert run.stored is not None
    attempts = run.stored.paths.attempts() if run.stored.record.attempts else []
    if not attempts:
        return {}
    try:
        content = read_file(attempts[-1].provenance)
    except OSError:
        return {}
    if content not in known:
        plain = provenance_of(attempts[-1])
        masked: Mapping[str, Any] = mask_all(plain, secret_values(os.environ))
        known[content] = masked if _is_provenance(masked) else {}
    return known[content]


def _is_provenance(plain: Mapping[str, Any]) -> bool:
    """Whether its parts are what `rlexp.store.provenance.collect` writes."""
    parts = code, machine, packages = [plain.get(k, {}) for k in ("code", "machine", "packages")]
    if not all(isinstance(part, Mapping) for part in parts):
        return False
    lists = [plain.get("command") or [], code.get("dirty") or [], code.get("untracked") or []]
    if not all(isinstance(values, list) for values in lists):
        return False
    texts = [*map(code.get, ("commit", "branch", "remote")), *chain(*lists)]
    texts += [*map(machine.get, ("processor", "system")), *packages.values()]
    numbers = map(machine.get, ("cores", "memory"))
    return all(isinstance(value, str | None) for value in texts) and all(
        isinstance(value, int | float | None) for value in numbers
    )


def _common_phase(surveys: Mapping[str, Survey]) -> Phase:
    """Test where every target has test runs, or else the one phase that all of them have.

    Raises:
        ProtocolError: Their phases differ.
    """
    if not surveys:
        raise ConfigError("name an experiment: EXPERIMENT or EXPERIMENT/LABEL; see 'rlexp ls'")
    phases = {name: _phases(found) for name, found in surveys.items()}
    common = set.intersection(*phases.values())
    for phase in (Phase.TEST, Phase.TUNING, Phase.SELECTION):
        if phase in common:
            return phase
    told = "; ".join(f"{n} has {', '.join(sorted(own))} runs" for n, own in phases.items())
    raise ProtocolError(f"scores of different phases are never put together: {told}")


def _phases(found: Survey) -> set[Phase]:
    """Phases that targets may be compared in: of a sweep, only what the choice has not seen."""
    is_sweep = found.experiment is not None and found.experiment.sweep is not None
    return {Phase.TEST} if is_sweep else set(found.phases) or {Phase.TEST}


def _left_out(surveys: Mapping[str, Survey], chosen: Phase) -> dict[Phase, int]:
    counts: dict[Phase, int] = {}
    # What led to a sweep's winner is told as what it is, not left out.
    plain = [s for s in surveys.values() if s.experiment is None or s.experiment.sweep is None]
    for found in plain:
        for phase in found.phases:
            if phase is not chosen:
                counts[phase] = counts.get(phase, 0) + len(found.entries(phase))
    return counts


def _configurations(members: Sequence[Member]) -> list[tuple[str, str, str]]:
    return list(dict.fromkeys((m.experiment, m.label, m.task) for m in members))


def _ordered(members: Sequence[Member]) -> list[Member]:
    """By label in the order of asking, then task, root and seed."""
    labels = {label: n for n, label in enumerate(dict.fromkeys(m.label for m in members))}
    return sorted(
        members,
        key=lambda m: (labels[m.label], m.task, m.record.spec.root, m.record.spec.seed),
    )
