"""Compares the records of an experiment with the sums in its ledger.

`examine` is the entry. A finding says what is missing, edited, copied or damaged, and in which run.
"""

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rlexp.app.reading.catalogue import collector_paused
from rlexp.app.reading.experiment_scan import ExperimentScan, ScannedRun
from rlexp.errors import RecordError, RlexpError
from rlexp.records.integrity import Integrity, IntegrityFinding, RecordKind
from rlexp.records.ledger import (
    ATTEMPT_FILES,
    DOCUMENTS,
    ExpectedRecords,
    Ledger,
    SealedAttempt,
    SealedDocument,
)
from rlexp.records.run import State
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.ledger_writer import unsealed_attempts, unsealed_scorings
from rlexp.store.left_out import LeftOutFile, read_left_out
from rlexp.store.locks.lease import is_held
from rlexp.store.registers.ledger import read_ledger, sum_of_file
from rlexp.store.runs import StoredAttempt, read_spec
from rlexp.text import format_count, join_first_names, join_names

OF_ONE_RUN = ("events.jsonl", "verdict.json", "spec.json", "model.zip", "normalisation.npz")
"""Files whose content differs between any two runs, so that an equal file is a copy."""


@dataclass(slots=True)
class IntegrityFindings:
    """Collects the findings, and counts the attempts that were compared.

    Attributes:
        owners: The run to which a file was first attributed, by the file's name and sha256.
        findings: The findings, in the order in which they were made.
        attempts: The number of ended attempts.
        matching: The number of attempts whose files match their sums.
        left_out: The files that this copy of the experiment lacks on purpose, by `RUN/FILE`.
        absent: Those of them that are in the ledger with this sum and are not in the folder.
    """

    owners: dict[tuple[str, str], str] = field(default_factory=dict)
    findings: list[IntegrityFinding] = field(default_factory=list)
    attempts: int = 0
    matching: int = 0
    left_out: Mapping[str, LeftOutFile] = field(default_factory=dict)
    absent: list[LeftOutFile] = field(default_factory=list)

    def find(self, kind: RecordKind, text: str, run: str | None = None) -> None:
        """Add a finding."""
        self.findings.append(IntegrityFinding(kind=kind, text=text, run=run))

    def own(self, name: str, files: Mapping[str, str]) -> None:
        """Attribute files, given as sha256 by path, to a run."""
        for path, text in files.items():
            if (base := path.rpartition("/")[2]) in OF_ONE_RUN:
                # The first run in the ledger made the file; a later one with it has a copy.
                self.owners.setdefault((base, text), name)

    def owner(self, path: str, text: str | None, name: str) -> str | None:
        """The other run that a file was copied from, or None."""
        owning_run = self.owners.get((path.rpartition("/")[2], text or ""))
        return None if owning_run == name else owning_run

    def is_faulty(self, name: str) -> bool:
        """Whether a fault of the run has been found already."""
        return any(f.is_fault and f.run == name for f in self.findings)


Attempts = Mapping[int, SealedAttempt]


@collector_paused()
def examine(
    survey: ExperimentScan,
    head: str | None = None,
    *,
    sum_of: Callable[[Path], str | None] = sum_of_file,
) -> Integrity:
    """Compare an experiment's folder with its ledger.

    Args:
        survey: The content of the folder.
        head: The first characters of the sum of a ledger line that the user noted earlier, if any.
        sum_of: Returns the sha256 of a file of a run; None where it is unreadable.
    """
    paths, findings = survey.paths, IntegrityFindings()
    # The ledger gets a document's sum before the document is written. Reading the documents first,
    # then the ledger, therefore finds an entry for each of them.
    documents = {name: sum_of_file(paths.folder / name) for name in DOCUMENTS}
    ledger = _read(paths, findings)
    account = ExpectedRecords.of(ledger.entries if ledger else ())
    if head is not None and not any(s.startswith(head) for s in (ledger.sums if ledger else ())):
        text = f"no line of the ledger has the sum {head}: it was rewritten, or cut, since then"
        findings.find(RecordKind.REWRITTEN, text)
    if ledger:
        _documents(paths, documents, account, findings)
    _read_left_out(paths, findings)
    compare_runs(paths, account, findings, sum_of)
    if findings.absent:
        findings.find(RecordKind.LEFT_OUT, _absent_text(findings.absent))
    _as_read(survey, findings)
    sealed = [a for attempts in account.runs.values() for a in attempts.values()]
    return Integrity(
        experiment=paths.name,
        attempts=findings.attempts,
        matching=findings.matching,
        late=sum(a.late for a in sealed),
        lines=len(ledger.sums) if ledger else 0,
        head=ledger.head if ledger else None,
        findings=tuple(sorted(findings.findings, key=lambda f: list(RecordKind).index(f.kind))),
    )


def _read_left_out(paths: ExperimentPaths, findings: IntegrityFindings) -> None:
    try:
        findings.left_out = read_left_out(paths)
    except RecordError as error:
        findings.find(RecordKind.DAMAGED, str(error).replace(f"{paths.folder}{os.sep}", ""))


def _absent_text(absent: Sequence[LeftOutFile]) -> str:
    size = sum(file.bytes for file in absent)
    verb = "is" if len(absent) == 1 else "are"
    return (
        f"{format_count(len(absent), 'file')} of policies ({size:,} bytes) {verb} not in this copy, "
        "so that their content cannot be checked"
    )


def refuse_changed(results: Iterable[Integrity], run: str | None = None) -> None:
    """Refuse records that differ from their ledger.

    Args:
        results: The results of comparing experiments with their ledgers.
        run: The only run that is used, if it is one.

    Raises:
        RecordError: A record differs.
    """
    for result in results:
        faults = [f for f in result.faults if run is None or f.run in {None, run}]
        if faults:
            names = list(dict.fromkeys(f.run or result.experiment for f in faults))
            verb = "differs" if len(faults) == 1 else "differ"
            command = shlex.join(["rlexp", "verify", result.experiment])
            raise RecordError(
                f"{result.experiment}: {format_count(len(faults), 'record')} {verb} from the ledger "
                f"({join_first_names(names, 3)}), which --strict refuses; '{command}' says what "
                "differs",
                command=command,
            )


def compare_runs(
    paths: ExperimentPaths,
    account: ExpectedRecords,
    findings: IntegrityFindings,
    sum_of: Callable[[Path], str | None] = sum_of_file,
) -> None:
    """Compare every run that is in the ledger or in the folder."""
    try:
        present = {run.folder.name: run for run in paths.runs()}
    except RecordError as error:
        findings.find(RecordKind.DAMAGED, str(error))
        return
    # All files are attributed first, so that a copy is found whichever run is compared first.
    for name, attempts in account.runs.items():
        for sealed in attempts.values():
            findings.own(name, sealed.files)
    for name, attempts in account.runs.items():
        _run(paths.run(name), attempts, findings, sum_of)
    for name, attempts in account.gone.items():
        if name in present:
            findings.find(
                RecordKind.REMARK, "it was run again after its records were removed by hand", name
            )
        else:
            _gone(name, attempts, findings)
    for name in sorted(account.anew & present.keys()):
        findings.find(
            RecordKind.REMARK, "an attempt was made again after it was removed by hand", name
        )
    sealed_numbers = {name: set(attempts) for name, attempts in account.runs.items()}
    # A running command adds its ended attempts and scores soon.
    if not is_held(paths.lock):
        _unsealed(list(unsealed_attempts(present.values(), sealed_numbers)), findings)
        _unsealed_scorings(list(unsealed_scorings(present.values(), account)), findings)


def _gone(name: str, attempts: Attempts, findings: IntegrityFindings) -> None:
    findings.attempts += len(attempts)
    findings.find(
        RecordKind.MISSING, f"it is gone, with {format_count(len(attempts), 'attempt')}", name
    )


def _run(
    run: RunPaths,
    attempts: Attempts,
    findings: IntegrityFindings,
    sum_of: Callable[[Path], str | None],
) -> None:
    """Compare the files of a run with the ledger; the last attempt's entry for a file decides."""
    name = run.folder.name
    if not os.path.lexists(run.folder):
        _gone(name, attempts, findings)
        return
    findings.attempts += len(attempts)
    # A later attempt may replace a file of an earlier one, so its sum comes last.
    expected = {path: text for _, a in sorted(attempts.items()) for path, text in a.files.items()}
    sums = {path: sum_of(run.folder / path) for path in expected}
    differing = {path: text for path, text in sums.items() if text != expected[path]}
    absent = {path for path in differing if _is_left_out(run, path, expected[path], findings)}
    findings.absent += [findings.left_out[f"{name}/{path}"] for path in sorted(absent)]
    wrong = {path: text for path, text in differing.items() if path not in absent}
    added = {path: a for a in attempts for path in _added(run, attempts[a])}
    findings.matching += sum(
        not (wrong.keys() & sealed.files.keys()) and number not in added.values()
        for number, sealed in attempts.items()
    )
    lost = [number for number in attempts if not os.path.lexists(run.attempt(number).folder)]
    for number in lost:
        findings.find(RecordKind.MISSING, f"attempt {number} is gone", name)
    reported = {
        p: t for p, t in wrong.items() if not any(_belongs_to(p, number) for number in lost)
    }
    _report_files(run, reported, list(added), findings)


def _is_left_out(run: RunPaths, path: str, expected: str, findings: IntegrityFindings) -> bool:
    """Whether a file is not in this copy, and the copy says so with the sum of the ledger."""
    file = findings.left_out.get(f"{run.folder.name}/{path}")
    return file is not None and file.sha256 == expected and not os.path.lexists(run.folder / path)


def _belongs_to(path: str, number: int) -> bool:
    return path.startswith(f"attempts/{number}/")


def _added(run: RunPaths, sealed: SealedAttempt) -> Iterator[str]:
    """Yield files that were added to an attempt after its end."""
    names = (f"attempts/{sealed.attempt}/{name}" for name in ATTEMPT_FILES)
    yield from (n for n in names if n not in sealed.files and os.path.lexists(run.folder / n))


def _report_files(
    run: RunPaths,
    wrong: Mapping[str, str | None],
    added: Sequence[str],
    findings: IntegrityFindings,
) -> None:
    name = run.folder.name
    copied: dict[str, list[str]] = {}
    edited: list[str] = []
    for path, text in sorted(wrong.items()):
        source = findings.owner(path, text, name)
        if source is not None:
            copied.setdefault(source, []).append(path)
        elif text is None and not os.path.lexists(run.folder / path):
            findings.find(RecordKind.MISSING, f"{path} is gone", name)
        else:
            edited.append(path)
    for source, paths in copied.items():
        verb = "is that" if len(paths) == 1 else "are those"
        findings.find(RecordKind.COPIED, f"{join_names(paths)} {verb} of {source}", name)
    if edited:
        verb = "is" if len(edited) == 1 else "are"
        findings.find(RecordKind.EDITED, f"{join_names(edited)} {verb} not what was written", name)
    for path in added:
        findings.find(RecordKind.EDITED, f"{path} was added", name)


def _unsealed(
    attempts: Sequence[tuple[RunPaths, StoredAttempt]], findings: IntegrityFindings
) -> None:
    """Report ended attempts that the ledger lacks."""
    findings.attempts += len(attempts)
    for run, attempt in attempts:
        name, path = run.folder.name, attempt.paths.journal
        text = sum_of_file(path)
        source = findings.owner(path.name, text, name) if attempt.events else None
        if source is not None:
            findings.find(
                RecordKind.COPIED, f"{path.relative_to(run.folder)} is that of {source}", name
            )
        elif text is not None and attempt.events:
            findings.own(name, {path.name: text})
    if names := list(dict.fromkeys(run.folder.name for run, _ in attempts)):
        findings.find(
            RecordKind.UNSEALED,
            f"{format_count(len(attempts), 'attempt')} of {join_first_names(names, 3)} ended and "
            f"{'is' if len(attempts) == 1 else 'are'} not in the ledger; repeating the command that "
            "made them enters them",
        )


def _unsealed_scorings(runs: Sequence[RunPaths], findings: IntegrityFindings) -> None:
    """Report scores of the trusted code that the ledger lacks."""
    if names := [run.folder.name for run in runs]:
        findings.find(
            RecordKind.UNSEALED,
            f"{format_count(len(names), 'score')} of {join_first_names(names, 3)} "
            f"{'is' if len(names) == 1 else 'are'} not in the ledger; the next 'rlexp propose' enters "
            f"{'it' if len(names) == 1 else 'them'}",
        )


def _read(paths: ExperimentPaths, findings: IntegrityFindings) -> Ledger | None:
    try:
        ledger = read_ledger(paths)
    except RecordError as error:
        findings.find(RecordKind.BROKEN, str(error).replace(f"{paths.folder}{os.sep}", ""))
        return None
    for text in ledger.breaks if ledger else ():
        findings.find(RecordKind.BROKEN, text)
    if ledger and ledger.torn:
        findings.find(
            RecordKind.REMARK, "the last line of the ledger is incomplete and is ignored"
        )
    return ledger


def _documents(
    paths: ExperimentPaths,
    sums: Mapping[str, str | None],
    account: ExpectedRecords,
    findings: IntegrityFindings,
) -> None:
    for name, sha256 in sums.items():
        entries = account.documents.get(name, [])
        if entries:
            _document(paths, entries, sha256, account, findings)
        elif sha256 is not None:
            findings.find(RecordKind.UNSEALED, f"{name} is not in the ledger")


def _document(
    paths: ExperimentPaths,
    entries: Sequence[SealedDocument],
    actual: str | None,
    account: ExpectedRecords,
    findings: IntegrityFindings,
) -> None:
    entry, name = entries[-1], entries[-1].name
    allowed: set[str | None] = {entry.sha256}
    if account.last is entry:
        # After the last entry its command may have been killed before it wrote the document. The
        # former document is then still right; the next command repairs the ledger before it adds
        # anything.
        allowed.add(entries[-2].sha256 if len(entries) > 1 else None)
    # A file without a sum is not absent: it may be a link or unreadable, and None may be allowed.
    unreadable = actual is None and os.path.lexists(paths.folder / name)
    if actual not in allowed or unreadable:
        _absent_or_edited(paths.folder, name, findings)
    if any(e.instead_of is not None for e in entries):
        findings.find(RecordKind.EDITED, f"{name} had been edited when a command wrote it again")
    if entry.trials is None or (actual is None and None in allowed):
        return
    if sum_of_file(paths.trials, entry.trials.bytes) != entry.trials.sha256:
        _absent_or_edited(paths.folder, paths.trials.name, findings)
    elif paths.trials.stat().st_size > entry.trials.bytes:
        findings.find(
            RecordKind.EDITED, f"{paths.trials.name} has grown since the choice was made"
        )


def _absent_or_edited(folder: Path, name: str, findings: IntegrityFindings) -> None:
    if os.path.lexists(folder / name):
        findings.find(RecordKind.EDITED, f"{name} is not what was written")
    else:
        findings.find(RecordKind.MISSING, f"{name} is gone")


def _as_read(survey: ExperimentScan, findings: IntegrityFindings) -> None:
    """Report damage that was met while the records were read and that no sum shows."""
    if survey.problem and not any(f.is_fault and f.run is None for f in findings.findings):
        findings.find(RecordKind.DAMAGED, survey.problem)
    for run in survey.runs:
        if run.damaged and not findings.is_faulty(run.name):
            _damaged(survey.paths.run(run.name), str(run.problem), findings)
        elif not (run.damaged or run.planned or survey.experiment is None):
            findings.find(
                RecordKind.FOREIGN, "the experiment's definition does not include it", run.name
            )
        if unreadable := _unreadable(run):
            text = f"{format_count(unreadable, 'line')} of its journal cannot be read"
            findings.find(RecordKind.REMARK, text, run.name)


def _damaged(run: RunPaths, problem: str, findings: IntegrityFindings) -> None:
    actual_run = _run_in_folder(run)
    if actual_run in {None, run.folder.name}:
        findings.find(RecordKind.DAMAGED, problem, run.folder.name)
    else:
        findings.find(RecordKind.COPIED, f"spec.json is that of {actual_run}", run.folder.name)


def _unreadable(run: ScannedRun) -> int:
    """The number of unreadable journal lines; a running run is still writing its last line."""
    if run.stored is None or run.stored.record.state is State.RUNNING:
        return 0
    return run.stored.torn + run.stored.quarantined


def _run_in_folder(run: RunPaths) -> str | None:
    """The name of the run whose specification the folder holds, or None."""
    try:
        return read_spec(run).name
    except RlexpError:
        return None
