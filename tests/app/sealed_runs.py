"""Experiments of made-up runs with a ledger, and functions that tamper with them."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from command_line import rlexp
from stored_runs import Stored, failed, stored

from rlexp.records.events import Event
from rlexp.store.layout import Layout, RunPaths
from rlexp.store.ledger_writer import LedgerWriter
from rlexp.store.registers.ledger import read_ledger


def sealed(folder: Path, name: str = "alpha", runs: int = 5) -> Stored:
    """An experiment of ended runs in a ledger; the last run has a failed attempt before."""
    experiment = stored(Layout(folder / "runs"), name, test=runs)
    seal_attempt(experiment, runs - 1, failed())
    for seed in range(runs):
        run = experiment.complete(seed, 10.0 * seed)
        (run.model).write_text(f"policy {name} {seed}")
        LedgerWriter(experiment.paths).enter(run, run.attempts()[-1].number)
    return experiment


def seal_attempt(experiment: Stored, seed: int, events: Sequence[Event]) -> RunPaths:
    """Store an attempt and enter it in the ledger."""
    run = experiment.attempt(seed, events)
    LedgerWriter(experiment.paths).enter(run, run.attempts()[-1].number)
    return run


def edit(path: Path, before: str, after: str) -> None:
    """Replace the first occurrence of a text in a file."""
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))


@dataclass(frozen=True)
class Verdict:
    """The exit code and the output lines of `rlexp verify`."""

    code: int
    lines: list[str]


def verify(folder: Path, name: str | None = "alpha", head: str | None = None) -> Verdict:
    """Run `rlexp verify`."""
    words = [] if name is None else [name]
    printed = rlexp(folder, "verify", *words, *([] if head is None else ["--head", head]))
    return Verdict(printed.code, printed.out.splitlines())


def head_of(experiment: Stored) -> str:
    """The head of the experiment's ledger."""
    ledger = read_ledger(experiment.paths)
    assert ledger is not None
    assert ledger.head is not None
    return ledger.head


Spoil = Callable[[Stored], object]


def name_of(experiment: Stored, seed: int) -> str:
    """The name of a run."""
    return experiment.run(seed).folder.name


def edit_origin(experiment: Stored) -> None:
    """Edit the commit and a setting in the provenance."""
    edit(experiment.run(2).attempt(1).provenance, "a" * 40, "b" * 40)
    edit(experiment.run(2).attempt(1).settings, "[]", "[1]")


def link_policy(experiment: Stored) -> None:
    """Replace the policy by a link to the same content."""
    experiment.run(2).model.rename(experiment.run(2).folder / "other.zip")
    experiment.run(2).model.symlink_to("other.zip")


def copy_folder(experiment: Stored) -> None:
    """Copy the whole folder of seed 3 over that of seed 4."""
    shutil.rmtree(experiment.run(4).folder)
    shutil.copytree(experiment.run(3).folder, experiment.run(4).folder)


def copy_policy(experiment: Stored) -> None:
    """Copy only the policy of seed 3."""
    shutil.copy(experiment.run(3).model, experiment.run(4).model)


def copy_journal(experiment: Stored) -> None:
    """Copy only the journal of seed 3."""
    shutil.copy(experiment.run(3).attempt(1).journal, experiment.run(4).attempt(2).journal)


def copy_unsealed(experiment: Stored) -> None:
    """Copy the journal of seed 3 as a further attempt of seed 4."""
    attempt = experiment.attempt(4).attempt(3)
    shutil.copy(experiment.run(3).attempt(1).journal, attempt.journal)


def rename(experiment: Stored) -> None:
    """Rename the folder of seed 3 to a name of seed 5."""
    shutil.copytree(experiment.run(3).folder, experiment.paths.run("ppo-test-5-0123456789").folder)
