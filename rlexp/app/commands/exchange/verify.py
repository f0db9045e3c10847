"""`rlexp verify`: finds every record that is missing, edited or copied."""

import re
import shlex
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rlexp.app.reading.experiment_scan import ExperimentScan, survey
from rlexp.app.reading.integrity import examine
from rlexp.app.reading.protocols import registered_experiment
from rlexp.app.results import Displayed, NextCommand, Schema
from rlexp.app.streams.verification import VerifiedStream, verify_stream
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError, RecordError
from rlexp.protocol.seeds import Phase
from rlexp.records.deviations import BEFORE
from rlexp.records.integrity import SHORT, IntegrityFinding, RecordKind
from rlexp.records.look import LookRegister
from rlexp.records.registration import ProtocolRegister, RegisteredExperiment, Registration
from rlexp.records.run import State
from rlexp.store.checkpoints.checkpoint_files import checkpoint_steps, read_checkpoint
from rlexp.store.layout import ExperimentPaths
from rlexp.store.registers.looks import read_looks
from rlexp.store.registers.protocols import read_protocols
from rlexp.store.runs import StoredRun
from rlexp.text import format_count

REWRITTEN = "no line has the sum {head}: the register was rewritten, or cut, since then"
"""What is said where a register lacks a line whose sum was noted."""
HEAD = re.compile(r"[0-9a-f]{8,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedFinding:
    """A finding on a run or on an experiment.

    Attributes:
        kind: The kind of finding (`missing`, `edited`, `copied`, `remark` …).
        text: The finding as a sentence.
        run: The name of the run; null for a finding on the experiment.
        fault: Whether a record differs from what was written.
    """

    kind: RecordKind
    text: str
    run: str | None
    fault: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedExperiment:
    """An experiment whose records were compared with its ledger.

    Attributes:
        experiment: The name of the experiment.
        attempts: Number of attempts that ended, including missing ones.
        matching: Number of attempts whose files are the same as when they ended.
        late: Number of attempts that a later command entered in the ledger.
        lines: Number of lines in the ledger.
        head: The sha256 of the last line of the ledger; null if there is no ledger.
        faults: Number of findings that are faults.
        findings: All findings, faults first.
        verdict: The result as a sentence, as reports quote it.
        next: The command that removes a faulty record, so that it can be made again; none for a
            registered experiment, which keeps its runs.
    """

    experiment: str
    attempts: int
    matching: int
    late: int
    lines: int
    head: str | None
    faults: int
    findings: tuple[VerifiedFinding, ...]
    verdict: str
    next: tuple[NextCommand, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedLooks:
    """The register of looks at test scores, whose chain of checksums was checked.

    Attributes:
        looks: Number of looks in the register.
        head: The sha256 of its last line; null if it has no line.
        uncounted: Number of configurations with test scores, in the verified experiments, that no look
            counts on these seeds.
        faults: What was changed in the register, as sentences.
        remarks: Other findings on the register.
        verdict: The result as a sentence.
    """

    looks: int
    head: str | None
    uncounted: int
    faults: tuple[str, ...]
    remarks: tuple[str, ...]
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedProtocol:
    """A registration, whose hash and root follow from its content, and the experiment that belongs to it.

    Attributes:
        protocol: The name of the protocol.
        hash: The sha256 of the sealed study.
        root: The root of the test seeds.
        registered: When it was registered.
        experiment: The experiment that belongs to it; null where it has not been run, or was not
            verified.
        deviations: The deviations of the experiment, each as a short text.
        verdict: The result as a sentence.
    """

    protocol: str
    hash: str
    root: int
    registered: str
    experiment: str | None
    deviations: tuple[str, ...]
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedProtocols:
    """The register of protocols, whose chain of checksums was checked.

    Attributes:
        registrations: Number of registrations in the register.
        head: The sha256 of its last line; null if it has no line.
        protocols: Every registration that can be read.
        faults: What was changed in the register, and runs or looks before a registration, as sentences.
        remarks: Other findings on the register.
        verdict: The result as a sentence.
    """

    registrations: int
    head: str | None
    protocols: tuple[VerifiedProtocol, ...]
    faults: tuple[str, ...]
    remarks: tuple[str, ...]
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification(Displayed):
    """Records compared with their ledgers.

    Attributes:
        folder: The folder with the experiments.
        experiments: The verified experiments.
        looks: The register of looks; null where there is none.
        protocols: The register of protocols; null where there is none.
        streams: The register of every stream of candidates among the experiments.
    """

    schema: ClassVar[Schema] = Schema("verification")

    folder: str
    experiments: tuple[VerifiedExperiment, ...]
    looks: VerifiedLooks | None = None
    protocols: VerifiedProtocols | None = None
    streams: tuple[VerifiedStream, ...] = ()

    @property
    def faultless(self) -> bool:
        """Whether every record, and each register, is the same as when it was written."""
        registers = (self.looks, self.protocols, *self.streams)
        changed = any(register.faults for register in registers if register is not None)
        return not changed and not any(experiment.faults for experiment in self.experiments)


def verify(
    name: str | None,
    head: str | None,
    workspace: Workspace,
    *,
    looks_head: str | None = None,
    protocols_head: str | None = None,
) -> Verification:
    """Compare records with their ledgers, and check the registers of looks and of protocols.

    Args:
        name: An experiment; None verifies all.
        head: The first digits of the sum of a line that its ledger must contain.
        workspace: The workspace of the experiments.
        looks_head: The first digits of the sum of a line that the register of looks must contain.
        protocols_head: The same for the register of protocols.

    Raises:
        RlexpError: There is no such experiment, or a head is not hexadecimal.
    """
    noted = _read_head(name, head)
    noted_looks = None if looks_head is None else hexadecimal(looks_head, "--looks-head")
    noted_protocols = (
        None if protocols_head is None else hexadecimal(protocols_head, "--protocols-head")
    )
    folders = workspace.layout.experiments() if name is None else [workspace.experiment(name)]
    scans = [survey(paths) for paths in folders]
    sealed = _sealed_names(workspace)
    return Verification(
        folder=str(workspace.layout.root),
        experiments=tuple(_verify(scan, noted, sealed) for scan in scans),
        looks=_verify_looks(workspace, scans, noted_looks),
        protocols=_verify_protocols(workspace, scans, noted_protocols),
        streams=tuple(s for scan in scans if (s := verify_stream(scan.paths)) is not None),
    )


def _sealed_names(workspace: Workspace) -> frozenset[str]:
    """The names of the registered experiments, which keep their runs."""
    try:
        return frozenset(r.protocol for r in read_protocols(workspace.layout).registrations)
    except RecordError:
        # The register is named with its faults.
        return frozenset()


def _read_head(name: str | None, head: str | None) -> str | None:
    if head is None:
        return None
    if name is None:
        raise ConfigError("--head needs an experiment: rlexp verify EXPERIMENT --head HEX")
    return hexadecimal(head, "--head")


def hexadecimal(head: str, option: str) -> str:
    """The first digits of a sum, in lower case.

    Raises:
        ConfigError: They are no hexadecimal digits, or too few.
    """
    noted = head.lower()
    if not HEAD.fullmatch(noted):
        kind = "ledger" if option == "--head" else "register"
        raise ConfigError(
            f"{option} {head!r} is not the head of a {kind}: give at least the first 8 of the {SHORT} "
            "hexadecimal digits that 'rlexp verify' and reports print",
        )
    return noted


def _verify_looks(
    workspace: Workspace, scans: Sequence[ExperimentScan], head: str | None
) -> VerifiedLooks | None:
    """The register of looks; None where there is none."""
    register, unreadable = LookRegister(), list[str]()
    try:
        register = read_looks(workspace.layout)
    except RecordError as error:
        unreadable = [str(error)]
    uncounted = len(_scored(scans) - {(look.configuration, look.root) for look in register.looks})
    if register.sha256 is None and not unreadable and head is None:
        return None
    cut = head is not None and not any(line.startswith(head) for line in register.sums)
    rewritten = [REWRITTEN.format(head=head)] if cut else []
    faults = (*unreadable, *register.breaks, *rewritten)
    return VerifiedLooks(
        looks=len(register.looks),
        head=register.head,
        uncounted=uncounted,
        faults=faults,
        remarks=("its last line is incomplete: the next look replaces it",) * register.torn,
        verdict=_verdict_on_looks(register, uncounted),
    )


def _scored(scans: Sequence[ExperimentScan]) -> set[tuple[str, int]]:
    """The configurations with test scores of rlexp's own runs, with the roots of their seeds."""
    records = [run.record for scan in scans for run in _stored(scan)]
    return {
        (record.spec.fingerprint, record.spec.root)
        for record in records
        if record.spec.phase is Phase.TEST
        and record.state is State.COMPLETED
        and record.score is not None
        and record.spec.imported is None
    }


def _verdict_on_looks(register: LookRegister, uncounted: int) -> str:
    count = format_count(len(register.looks), "look")
    text = f"{count} (head {register.head[:SHORT]})" if register.head else f"no register, {count}"
    if uncounted:
        configurations = format_count(uncounted, "configuration")
        verb = "is" if uncounted == 1 else "are"
        text += f", and {configurations} with test scores {verb} not counted yet"
    return text


def _verify_protocols(
    workspace: Workspace, scans: Sequence[ExperimentScan], head: str | None
) -> VerifiedProtocols | None:
    """The register of protocols; None where there is none."""
    register, unreadable = ProtocolRegister(), list[str]()
    try:
        register = read_protocols(workspace.layout)
    except RecordError as error:
        unreadable = [str(error)]
    if register.sha256 is None and not unreadable and head is None:
        return None
    cut = head is not None and not any(line.startswith(head) for line in register.sums)
    registered = [r for scan in scans if (r := _registered(scan, register, workspace)) is not None]
    faults = (
        *unreadable,
        *register.breaks,
        *([REWRITTEN.format(head=head)] if cut else []),
        *_before_registration(registered),
        *_looks_before(register, workspace),
    )
    count = format_count(len(register.sums), "registration")
    return VerifiedProtocols(
        registrations=len(register.sums),
        head=register.head,
        protocols=tuple(_verified_protocol(r, registered) for r in register.registrations),
        faults=faults,
        remarks=("its last line is incomplete: the next registration replaces it",)
        * register.torn,
        verdict=f"{count} (head {register.head[:SHORT]})"
        if register.head
        else f"no register, {count}",
    )


def _registered(
    scan: ExperimentScan, register: ProtocolRegister, workspace: Workspace
) -> RegisteredExperiment | None:
    if scan.experiment is None:
        return None
    records = [stored.record for _, stored in scan.entries(Phase.TEST)]
    return registered_experiment(scan.experiment, records, register, workspace.layout)


def _verified_protocol(
    registration: Registration, registered: Sequence[RegisteredExperiment]
) -> VerifiedProtocol:
    under_root = [r for r in registered if r.registration.root == registration.root]
    deviations = tuple(d for experiment in under_root for d in experiment.deviations)
    state = "; ".join(dict.fromkeys(experiment.state for experiment in under_root))
    study = registration.study
    return VerifiedProtocol(
        protocol=registration.protocol,
        hash=study.hash,
        root=registration.root,
        registered=registration.registered,
        experiment=under_root[0].experiment if under_root else None,
        deviations=deviations,
        verdict=(
            f"protocol {registration.protocol} (hash {study.hash[:SHORT]}, registered "
            f"{registration.registered}): {state or 'no runs here'}"
        ),
    )


def _before_registration(registered: Sequence[RegisteredExperiment]) -> Iterator[str]:
    """The experiments whose runs are older than their registration."""
    for experiment in registered:
        for deviation in experiment.deviations:
            if deviation.endswith(BEFORE):
                yield f"{experiment.experiment}: {deviation}"


def _looks_before(register: ProtocolRegister, workspace: Workspace) -> Iterator[str]:
    """What the register of looks says about the time before each registration."""
    try:
        looks = read_looks(workspace.layout)
    except RecordError:
        # The other register is named with its faults.
        return
    for registration in register.registrations:
        if registration.looks is None:
            continue
        if registration.looks not in looks.sums:
            yield (
                f"{registration.protocol}: the register of looks was rewritten, or cut, since the "
                "registration"
            )
        elif not looks.breaks and any(
            look.root == registration.root
            for look in looks.looks[: looks.sums.index(registration.looks) + 1]
        ):
            yield f"{registration.protocol}: its test seeds were looked at before its registration"


def _verify(
    surveyed: ExperimentScan, head: str | None, sealed: Container[str]
) -> VerifiedExperiment:
    paths = surveyed.paths
    integrity = examine(surveyed, head)
    checkpoints = [finding for run in _stored(surveyed) for finding in _checkpoints(run)]
    order = list(RecordKind).index
    findings = sorted((*integrity.findings, *checkpoints), key=lambda f: order(f.kind))
    faults = [finding for finding in findings if finding.is_fault]
    return VerifiedExperiment(
        experiment=paths.name,
        attempts=integrity.attempts,
        matching=integrity.matching,
        late=integrity.late,
        lines=integrity.lines,
        head=integrity.head,
        faults=len(faults),
        findings=tuple(_finding(finding) for finding in findings),
        verdict=str(integrity),
        next=() if paths.name in sealed else tuple(_next(paths, faults)),
    )


def _finding(finding: IntegrityFinding) -> VerifiedFinding:
    return VerifiedFinding(
        kind=finding.kind, text=finding.text, run=finding.run, fault=finding.is_fault
    )


def _stored(surveyed: ExperimentScan) -> Iterator[StoredRun]:
    """The runs whose records can be read."""
    yield from (f.stored for f in surveyed.runs if f.stored is not None and not f.damaged)


def _checkpoints(stored: StoredRun) -> Iterator[IntegrityFinding]:
    """Findings on damaged checkpoints; a fault if the run could still continue from them."""
    # A running run may be writing or removing a checkpoint at this moment.
    if stored.record.state is State.RUNNING:
        return
    # The checkpoint of a run that will never continue is of no use, so its damage does no harm.
    needed = stored.record.may_run(retry=True)
    kind = RecordKind.DAMAGED if needed else RecordKind.REMARK
    for step in _steps(stored):
        try:
            checkpoint = read_checkpoint(stored.paths, step, run_id=stored.record.spec.id)
            # Reading the replay buffer checks the sums of its files.
            for _ in checkpoint.transitions() if needed else ():
                pass
        except RecordError as error:
            text = str(error).replace(f"{stored.paths.folder}/", "")
            yield IntegrityFinding(kind=kind, text=text, run=stored.paths.folder.name)


def _steps(stored: StoredRun) -> Sequence[int]:
    try:
        return checkpoint_steps(stored.paths)
    except RecordError:
        return []


def _next(paths: ExperimentPaths, faults: Sequence[IntegrityFinding]) -> Iterator[NextCommand]:
    """The command that removes a faulty run, so that it can be made again.

    There is none after a sweep has selected its winner: no run is made again then.
    """
    runs = [f.run for f in faults if f.run and paths.run(f.run).folder.exists()]
    if runs and not paths.selection.exists():
        command = shlex.join(["rlexp", "rm", f"{paths.name}/{runs[0]}", "--yes"])
        why = "remove the run, so that repeating its command makes it again"
        yield NextCommand(why=why, command=command)
