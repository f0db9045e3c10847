"""The records of an experiment compared with its ledger."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rlexp.app.reading.catalogue import collector_paused
from rlexp.app.reading.survey import Found, Survey
from rlexp.errors import RecordError, RlexpError
from rlexp.records.integrity import Finding, Integrity, Kind
from rlexp.records.ledger import (
    DOCUMENTS,
    OF_THE_ATTEMPT,
    Account,
    Ledger,
    SealedAttempt,
    SealedDocument,
)
from rlexp.records.run import State
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.lease import is_held
from rlexp.store.ledger import read_ledger, sum_of_file
from rlexp.store.runs import StoredAttempt, read_spec
from rlexp.store.sealing import unsealed
from rlexp.text import counted, listed, shortened

OF_ONE_RUN = ("events.jsonl", "verdict.json", "spec.json", "model.zip", "normalisation.npz")
"""Files that no two runs have in common."""


@dataclass(slots=True)
class Tally:
    """What is found; `owners` knows whose a file is, by its name and sum.

    Attributes:
        owners: By name and sha256, the run that a file was first seen of.
        findings: In the order in which they were made.
        attempts: Those that ended.
        matching: Those whose files are what they were.
    """

    owners: dict[tuple[str, str], str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    attempts: int = 0
    matching: int = 0

    def find(self, kind: Kind, text: str, run: str | None = None) -> None:
        """Make a finding."""
        self.findings.append(Finding(kind=kind, text=text, run=run))

    def own(self, name: str, files: Mapping[str, str]) -> None:
        """Remember whose files these are, by their path and sha256."""
        for path, text in files.items():
            if (base := path.rpartition("/")[2]) in OF_ONE_RUN:
                self.owners.setdefault((base, text), name)

    def owner(self, path: str, text: str | None, name: str) -> str | None:
        """The other run whose file this is, if it is one's."""
        found = self.owners.get((path.rpartition("/")[2], text or ""))
        return None if found == name else found

    def is_faulty(self, name: str) -> bool:
        """Whether something is wrong with a run already."""
        return any(f.is_fault and f.run == name for f in self.findings)


Attempts = Mapping[int, SealedAttempt]


def compare_runs(paths: ExperimentPaths, account: Account, tally: Tally) -> None:
    """Compare every run that the ledger or the folder knows."""
    try:
        there = {run.folder.name: run for run in paths.runs()}
    except RecordError as error:
        tally.find(Kind.DAMAGED, str(error))
        return
    for name, own in account.runs.items():
        for sealed in own.values():
            tally.own(name, sealed.files)
    for name, own in account.runs.items():
        _run(paths.run(name), own, tally)
    for name, own in account.gone.items():
        if name in there:
            tally.find(Kind.REMARK, "it was run anew after its records were removed by hand", name)
        else:
            _gone(name, own, tally)
    for name in sorted(account.anew & there.keys()):
        tally.find(Kind.REMARK, "an attempt was made anew after it was removed by hand", name)
    known = {name: set(own) for name, own in account.runs.items()}
    _unsealed(paths, list(unsealed(there.values(), known)), tally)


def _gone(name: str, own: Attempts, tally: Tally) -> None:
    tally.attempts += len(own)
    tally.find(Kind.MISSING, f"it is gone, with {counted(len(own), 'attempt')}", name)


def _run(run: RunPaths, own: Attempts, tally: Tally) -> None:
    """Compare the files of a run with what they were; the last attempt's sums count."""
    name = run.folder.name
    if not os.path.lexists(run.folder):
        _gone(name, own, tally)
        return
    tally.attempts += len(own)
    expected = {path: text for _, a in sorted(own.items()) for path, text in a.files.items()}
    found = {path: sum_of_file(run.folder / path) for path in expected}
    wrong = {path: text for path, text in found.items() if text != expected[path]}
    added = {path: a for a in own for path in _added(run, own[a])}
    tally.matching += sum(
        not (wrong.keys() & sealed.files.keys()) and number not in added.values()
        for number, sealed in own.items()
    )
    lost = [number for number in own if not os.path.lexists(run.attempt(number).folder)]
    for number in lost:
        tally.find(Kind.MISSING, f"attempt {number} is gone", name)
    told = {p: t for p, t in wrong.items() if not any(_is_of(p, number) for number in lost)}
    _tell(run, told, list(added), tally)


def _is_of(path: str, number: int) -> bool:
    return path.startswith(f"attempts/{number}/")


def _added(run: RunPaths, sealed: SealedAttempt) -> Iterator[str]:
    """Files that the attempt did not have when it ended, and that would have been entered."""
    names = (f"attempts/{sealed.attempt}/{name}" for name in OF_THE_ATTEMPT)
    yield from (n for n in names if n not in sealed.files and os.path.lexists(run.folder / n))


def _tell(
    run: RunPaths, wrong: Mapping[str, str | None], added: Sequence[str], tally: Tally
) -> None:
    name = run.folder.name
    copied: dict[str, list[str]] = {}
    edited: list[str] = []
    for path, text in sorted(wrong.items()):
        source = tally.owner(path, text, name)
        if source is not None:
            copied.setdefault(source, []).append(path)
        elif text is None and not os.path.lexists(run.folder / path):
            tally.find(Kind.MISSING, f"{path} is gone", name)
        else:
            edited.append(path)
    for source, paths in copied.items():
        verb = "is that" if len(paths) == 1 else "are those"
        tally.find(Kind.COPIED, f"{listed(paths)} {verb} of {source}", name)
    if edited:
        verb = "is" if len(edited) == 1 else "are"
        tally.find(Kind.EDITED, f"{listed(edited)} {verb} not what was written", name)
    for path in added:
        tally.find(Kind.EDITED, f"{path} was added", name)


def _unsealed(
    paths: ExperimentPaths, found: Sequence[tuple[RunPaths, StoredAttempt]], tally: Tally
) -> None:
    """Attempts that ended and are in no ledger; while a command drives, they are soon."""
    if is_held(paths.lock):
        return
    tally.attempts += len(found)
    for run, attempt in found:
        name, path = run.folder.name, attempt.paths.journal
        text = sum_of_file(path)
        source = tally.owner(path.name, text, name) if attempt.events else None
        if source is not None:
            tally.find(Kind.COPIED, f"{path.relative_to(run.folder)} is that of {source}", name)
        elif text is not None and attempt.events:
            tally.own(name, {path.name: text})
    if names := list(dict.fromkeys(run.folder.name for run, _ in found)):
        tally.find(
            Kind.UNSEALED,
            f"{counted(len(found), 'attempt')} of {shortened(names, 3)} ended and "
            f"{'is' if len(found) == 1 else 'are'} not in the ledger; repeating the command that "
            "made them enters them",
        )


@collector_paused()
def examine(survey: Survey, head: str | None = None) -> Integrity:
    """Compare what lies in an experiment's folder with what its ledger says was written.

    Args:
        survey: What lies there.
        head: The beginning of the sum of a line that the ledger had once, if one was noted.
    """
    paths, tally = survey.paths, Tally()
    # A document is entered before it is written: read in the other order, none is found too early.
    documents = {name: sum_of_file(paths.folder / name) for name in DOCUMENTS}
    ledger = _read(paths, tally)
    account = Account.of(ledger.entries if ledger else ())
    if head is not None and not any(s.startswith(head) for s in (ledger.sums if ledger else ())):
        text = f"no line of the ledger has the sum {head}: it was rewritten, or cut, since then"
        tally.find(Kind.REWRITTEN, text)
    if ledger:
        _documents(paths, documents, account, tally)
    compare_runs(paths, account, tally)
    _as_read(survey, tally)
    sealed = [a for own in account.runs.values() for a in own.values()]
    return Integrity(
        experiment=paths.name,
        attempts=tally.attempts,
        matching=tally.matching,
        late=sum(a.late for a in sealed),
        lines=len(ledger.sums) if ledger else 0,
        head=ledger.head if ledger else None,
        findings=tuple(sorted(tally.findings, key=lambda f: list(Kind).index(f.kind))),
    )


def _read(paths: ExperimentPaths, tally: Tally) -> Ledger | None:
    try:
        ledger = read_ledger(paths)
    except RecordError as error:
        tally.find(Kind.BROKEN, str(error).replace(f"{paths.folder}{os.sep}", ""))
        return None
    for text in ledger.breaks if ledger else ():
        tally.find(Kind.BROKEN, text)
    if ledger and ledger.torn:
        tally.find(Kind.REMARK, "the last line of the ledger was not finished, and is left out")
    return ledger


def _documents(
    paths: ExperimentPaths, found: Mapping[str, str | None], account: Account, tally: Tally
) -> None:
    for name, sha256 in found.items():
        entries = account.documents.get(name, [])
        if entries:
            _document(paths, entries, sha256, account, tally)
        elif sha256 is not None:
            tally.find(Kind.UNSEALED, f"{name} is not in the ledger")


def _document(
    paths: ExperimentPaths,
    entries: Sequence[SealedDocument],
    found: str | None,
    account: Account,
    tally: Tally,
) -> None:
    entry, name = entries[-1], entries[-1].name
    allowed: set[str | None] = {entry.sha256}
    if account.last is entry:
        # What was entered last may not have been written: its command was killed in between.
        # Whoever enters more enters first what is there.
        allowed.add(entries[-2].sha256 if len(entries) > 1 else None)
    unreadable = found is None and os.path.lexists(paths.folder / name)
    if found not in allowed or unreadable:
        _absent_or_edited(paths.folder, name, tally)
    if any(e.instead_of is not None for e in entries):
        tally.find(Kind.EDITED, f"{name} had been edited when a command wrote it again")
    if entry.trials is None or (found is None and None in allowed):
        return
    if sum_of_file(paths.trials, entry.trials.bytes) != entry.trials.sha256:
        _absent_or_edited(paths.folder, paths.trials.name, tally)
    elif paths.trials.stat().st_size > entry.trials.bytes:
        tally.find(Kind.EDITED, f"{paths.trials.name} has grown since the choice was made")


def _absent_or_edited(folder: Path, name: str, tally: Tally) -> None:
    if os.path.lexists(folder / name):
        tally.find(Kind.EDITED, f"{name} is not what was written")
    else:
        tally.find(Kind.MISSING, f"{name} is gone")


def _as_read(survey: Survey, tally: Tally) -> None:
    """What reading the records met that no sum tells."""
    if survey.problem and not any(f.is_fault and f.run is None for f in tally.findings):
        tally.find(Kind.DAMAGED, survey.problem)
    for run in survey.runs:
        if run.damaged and not tally.is_faulty(run.name):
            _damaged(survey.paths.run(run.name), str(run.problem), tally)
        elif not (run.damaged or run.planned or survey.experiment is None):
            tally.find(Kind.FOREIGN, "the experiment's definition does not ask for it", run.name)
        if unreadable := _unreadable(run):
            text = f"{counted(unreadable, 'line')} of its journal cannot be read"
            tally.find(Kind.REMARK, text, run.name)


def _damaged(run: RunPaths, problem: str, tally: Tally) -> None:
    held = _held(run)
    if held in {None, run.folder.name}:
        tally.find(Kind.DAMAGED, problem, run.folder.name)
    else:
        tally.find(Kind.COPIED, f"spec.json is that of {held}", run.folder.name)


def _unreadable(run: Found) -> int:
    """Lines of its journals that cannot be read; while it runs, the last one is being written."""
    if run.stored is None or run.stored.record.state is State.RUNNING:
        return 0
    return run.stored.torn + run.stored.quarantined


def _held(run: RunPaths) -> str | None:
    """The name of the run whose specification is in the folder, if one is."""
    try:
        return read_spec(run).name
    except RlexpError:
        return None
