"""Ledgers with every kind of entry, for tests of damaged and continued ledgers."""

from pathlib import Path
from typing import Any

from rlexp.records.ledger import (
    Entry,
    Ledger,
    Prefix,
    RemovedRun,
    SealedAttempt,
    SealedDocument,
)
from rlexp.store.layout import ExperimentPaths
from rlexp.store.registers.ledger import (
    append_entry,
    read_ledger,
)

SUM = "a" * 64


def attempt(run: str = "one", number: int = 1, **changes: Any) -> SealedAttempt:
    """An attempt with one file."""
    files = {f"attempts/{number}/events.jsonl": f"{number:064x}"}
    settings = {"run": run, "id": "f" * 64, "ending": "completed", "files": files, **changes}
    return SealedAttempt(attempt=number, **settings)


ENTRIES: list[Entry] = [
    SealedDocument(name="experiment.json", sha256=SUM),
    attempt(),
    attempt("two", 1, ending="failed"),
    attempt("two", 2, late=True),
    RemovedRun(run="one"),
    SealedDocument(
        name="selection.json", sha256=SUM, trials=Prefix(bytes=3, sha256=SUM), instead_of="b" * 64
    ),
    RemovedRun(run="two", late=True),
]


def read(paths: ExperimentPaths) -> Ledger:
    """Read the ledger of an experiment, which must exist."""
    ledger = read_ledger(paths)
    assert ledger is not None
    return ledger


def write_sample_ledger(folder: Path) -> ExperimentPaths:
    """Write a ledger with every kind of entry into an experiment's folder."""
    paths = ExperimentPaths(folder)
    for document in (paths.definition, paths.selection):
        document.write_text("not what was entered")
    for entry in ENTRIES:
        append_entry(paths, entry)
    return paths
