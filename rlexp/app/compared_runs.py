"""Runs compared with the ledger of their experiment: what they have, and what they should."""

import os
from collections.abc import Iterator, Mapping, Sequence

from rlexp.app.tally import Tally
from rlexp.errors import RecordError
from rlexp.records.integrity import Kind
from rlexp.records.ledger import OF_THE_ATTEMPT, Account, SealedAttempt
from rlexp.reports.sentences import counted, listed, shortened
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.lease import is_held
from rlexp.store.ledger import sum_of_file
from rlexp.store.runs import StoredAttempt
from rlexp.store.sealing import unsealed

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
