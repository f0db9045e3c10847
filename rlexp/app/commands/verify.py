"""`rlexp verify`: names every record that is missing, edited or copied."""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rlexp.app.reading.integrity import examine
from rlexp.app.reading.survey import Survey, survey
from rlexp.app.results import NextCommand, Schema
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError, RecordError
from rlexp.records.integrity import SHORT, Finding, Kind
from rlexp.records.run import State
from rlexp.store.checkpoints import checkpoint_steps, read_checkpoint
from rlexp.store.layout import ExperimentPaths
from rlexp.store.runs import StoredRun

HEAD = re.compile(r"[0-9a-f]{8,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedFinding:
    """Something about a run, or about the experiment itself where no run is named.

    Attributes:
        kind: What it is about (`missing`, `edited`, `copied`, `remark` …).
        text: What was found.
        run: The run.
        fault: Whether a record is not what was written.
    """

    kind: Kind
    text: str
    run: str | None
    fault: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedExperiment:
    """An experiment whose records were compared with its ledger.

    Attributes:
        experiment: Its name.
        attempts: Attempts that ended, whether they are still there or not.
        matching: Attempts whose files are what they were when they ended.
        late: Attempts that were entered by a later command than the one that saw them end.
        lines: Lines of the ledger.
        head: The sha256 of the last line of the ledger; nothing where there is no ledger.
        faults: Findings that are faults.
        findings: Everything that was found, faults first.
        verdict: The result in a sentence, as reports quote it.
        next: The command that makes a faulty record anew, if there is one.
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
class Verification:
    """Records compared with their ledgers.

    Attributes:
        folder: Where the experiments are.
        experiments: Those that were verified.
    """

    schema: ClassVar[Schema] = Schema("verification")

    folder: str
    experiments: tuple[VerifiedExperiment, ...]

    @property
    def faultless(self) -> bool:
        """Whether every record is what was written."""
        return not any(experiment.faults for experiment in self.experiments)


def verify(name: str | None, head: str | None, workspace: Workspace) -> Verification:
    """Compare records with their ledgers.

    Args:
        name: An experiment; by default, all of them.
        head: The beginning of the sum of a line that its ledger must still have.
        workspace: Where they are.

    Raises:
        RlexpError: There is no such experiment, or the head cannot be the head of a ledger.
    """
    noted = _read_head(name, head)
    folders = workspace.layout.experiments() if name is None else [workspace.experiment(name)]
    return Verification(
        folder=str(workspace.layout.root),
        experiments=tuple(_verify(paths, noted) for paths in folders),
    )


def _read_head(name: str | None, head: str | None) -> str | None:
    if head is None:
        return None
    if name is None:
        raise ConfigError("--head is of one ledger: rlexp verify EXPERIMENT --head HEX")
    noted = head.lower()
    if not HEAD.fullmatch(noted):
        raise ConfigError(
            f"--head {head!r} is no head: write the {SHORT} digits that 'rlexp verify' and reports "
            "print, at least the first 8 of them",
        )
    return noted


def _verify(paths: ExperimentPaths, head: str | None) -> VerifiedExperiment:
    surveyed = survey(paths)
    integrity = examine(surveyed, head)
    checkpoints = [finding for run in _stored(surveyed) for finding in _checkpoints(run)]
    order = list(Kind).index
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
        next=tuple(_next(paths, faults)),
    )


def _finding(finding: Finding) -> VerifiedFinding:
    return VerifiedFinding(
        kind=finding.kind, text=finding.text, run=finding.run, fault=finding.is_fault
    )


def _stored(surveyed: Survey) -> Iterator[StoredRun]:
    """The runs that can be read."""
    yield from (f.stored for f in surveyed.runs if f.stored is not None and not f.damaged)


def _checkpoints(stored: StoredRun) -> Iterator[Finding]:
    """Checkpoints that are damaged: a fault where the run could still continue from them."""
    if stored.record.state is State.RUNNING:
        return
    needed = stored.record.may_run(retry=True)
    kind = Kind.DAMAGED if needed else Kind.REMARK
    for step in _steps(stored):
        try:
            checkpoint = read_checkpoint(stored.paths, step, run_id=stored.record.spec.id)
            for _ in checkpoint.transitions() if needed else ():
                pass
        except RecordError as error:
            text = str(error).replace(f"{stored.paths.folder}/", "")
            yield Finding(kind=kind, text=text, run=stored.paths.folder.name)


def _steps(stored: StoredRun) -> Sequence[int]:
    try:
        return checkpoint_steps(stored.paths)
    except RecordError:
        return []


def _next(paths: ExperimentPaths, faults: Sequence[Finding]) -> Iterator[NextCommand]:
    """The command that removes a faulty record; a sweep that has chosen makes none anew."""
    runs = [f.run for f in faults if f.run and paths.run(f.run).folder.exists()]
    if runs and not paths.selection.exists():
        command = shlex.join(["rlexp", "rm", f"{paths.name}/{runs[0]}", "--yes"])
        why = "remove it, so that repeating its command makes it anew"
        yield NextCommand(why=why, command=command)
