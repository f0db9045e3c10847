"""The records of an experiment compared with its ledger."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from rlexp.app.collector import collector_paused
from rlexp.app.compared_runs import compare_runs
from rlexp.app.reading.survey import Found, Survey
from rlexp.app.tally import Tally
from rlexp.errors import RecordError, RlexpError
from rlexp.records.integrity import Integrity, Kind
from rlexp.records.ledger import DOCUMENTS, Account, Ledger, SealedDocument
from rlexp.records.run import State
from rlexp.reports.sentences import counted
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.ledger import read_ledger, sum_of_file
from rlexp.store.runs import read_spec


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
