"""Every path under `runs/`."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from rlexp.errors import ConfigError, RecordError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=,@-]{0,119}")
RUN_HOLDS = ("spec.json", "attempts")
"""What makes a folder of an experiment a run: one of these."""
NUMBER = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)


def check_name(name: str) -> str:
    """Return `name` if it can be a folder under `runs/`.

    Raises:
        ConfigError: It could leave `runs/`, or no file system would take it.
    """
    if not NAME.fullmatch(name) or ".." in name:
        raise ConfigError(
            f"experiment={name!r} cannot be a folder name: "
            "use up to 120 letters, digits and . _ + = , @ -, starting with a letter or digit",
        )
    return name


@dataclass(frozen=True, slots=True)
class AttemptPaths:
    """One try at executing a run."""

    folder: Path

    @property
    def number(self) -> int:
        """The attempt's number, from 1: its fencing token."""
        return int(self.folder.name)

    @property
    def settings(self) -> Path:
        """What the attempt was asked for besides the run: cadence of checkpoints, time limit."""
        return self.folder / "attempt.json"

    @property
    def provenance(self) -> Path:
        """Where the numbers come from."""
        return self.folder / "provenance.json"

    @property
    def patch(self) -> Path:
        """Uncommitted changes to the study's code."""
        return self.folder / "diff.patch"

    @property
    def journal(self) -> Path:
        """The events, one a line."""
        return self.folder / "events.jsonl"

    @property
    def verdict(self) -> Path:
        """How the attempt ended, where its process could not say so itself."""
        return self.folder / "verdict.json"

    @property
    def log(self) -> Path:
        """Standard output and error, capped."""
        return self.folder / "log.txt"

    @property
    def configuration(self) -> Path:
        """What a training script is told."""
        return self.folder / "configuration.json"

    @property
    def results(self) -> Path:
        """What a training script says it did, one line after the other."""
        return self.folder / "results.jsonl"

    @property
    def files(self) -> Path:
        """Whatever else a training script leaves."""
        return self.folder / "files"

    @property
    def progress(self) -> Path:
        """Steps and heartbeats as two 64-bit counters, overwritten in place."""
        return self.folder / "progress.bin"


@dataclass(frozen=True, slots=True)
class RunPaths:
    """One run."""

    folder: Path

    @property
    def spec(self) -> Path:
        """What defines the run."""
        return self.folder / "spec.json"

    @property
    def lease(self) -> Path:
        """Held by the one process that writes to the run."""
        return self.folder / ".lease"

    @property
    def claim(self) -> Path:
        """Held by the worker or command that sees the run through its attempts."""
        return self.folder / ".claim"

    @property
    def stop(self) -> Path:
        """A request to end the run at its next step; holds the reason."""
        return self.folder / "stop"

    @property
    def model(self) -> Path:
        """The final policy, in the format of stable-baselines3."""
        return self.folder / "model.zip"

    @property
    def normalisation(self) -> Path:
        """Statistics of normalised observations and rewards, frozen at the end."""
        return self.folder / "normalisation.npz"

    @property
    def checkpoints(self) -> Path:
        """Complete checkpoints, one folder each."""
        return self.folder / "checkpoints"

    @property
    def replay(self) -> Path:
        """Experience that off-policy checkpoints share, in chunks that are never changed."""
        return self.folder / "replay"

    def attempt(self, number: int) -> AttemptPaths:
        """The attempt with this number."""
        return AttemptPaths(self.folder / "attempts" / str(number))

    def attempts(self) -> list[AttemptPaths]:
        """The attempts so far, lowest number first.

        Raises:
            RecordError: The folder cannot be read.
        """
        folder = self.folder / "attempts"
        numbers = sorted(int(name) for name in _names(folder) if NUMBER.fullmatch(name))
        return [AttemptPaths(folder / str(number)) for number in numbers]


@dataclass(frozen=True, slots=True)
class ExperimentPaths:
    """One experiment."""

    folder: Path

    @property
    def name(self) -> str:
        """The experiment's name."""
        return self.folder.name

    @property
    def definition(self) -> Path:
        """The question."""
        return self.folder / "experiment.json"

    @property
    def adaptive(self) -> Path:
        """The design of its sequential comparison, frozen at the first look, and every look."""
        return self.folder / "adaptive.json"

    @property
    def trials(self) -> Path:
        """What a sweep has proposed so far, one trial a line."""
        return self.folder / "trials.jsonl"

    @property
    def selection(self) -> Path:
        """The winner of a sweep, frozen before any test run exists."""
        return self.folder / "selection.json"

    @property
    def ledger(self) -> Path:
        """What the records were when they were written, one entry a line."""
        return self.folder / "ledger.jsonl"

    @property
    def catalogue(self) -> Path:
        """Its runs that are over, in brief; may be deleted at any time."""
        return self.folder / ".catalogue"

    @property
    def mirror(self) -> Path:
        """A sweep as a study of Optuna; may be deleted at any time."""
        return self.folder / "optuna.journal"

    @property
    def trackers(self) -> Path:
        """How far trackers are, and files of theirs; without it everything is pushed anew."""
        return self.folder / "trackers"

    @property
    def orders(self) -> Path:
        """The runs that any worker may take, a file each."""
        return self.folder / "orders"

    @property
    def jobs(self) -> Path:
        """What is kept of jobs on a cluster: their ids, their output."""
        return self.folder / "jobs"

    @property
    def lock(self) -> Path:
        """Held by the one command that drives the experiment."""
        return self.folder / ".lock"

    def run(self, name: str) -> RunPaths:
        """The run with this folder name."""
        return RunPaths(self.folder / name)

    def runs(self) -> list[RunPaths]:
        """Every run, by name, one that has lost its spec included.

        Raises:
            RecordError: The folder cannot be read.
        """
        found = _folders(self.folder)
        return [RunPaths(p) for p in found if _may_hold(p, *RUN_HOLDS)]


@dataclass(frozen=True, slots=True)
class Layout:
    """The folder `runs/`."""

    root: Path

    def experiment(self, name: str) -> ExperimentPaths:
        """The experiment with this name."""
        return ExperimentPaths(self.root / check_name(name))

    def experiments(self) -> list[ExperimentPaths]:
        """Every experiment, by name, one that has lost its definition included.

        Raises:
            RecordError: The folder cannot be read.
        """
        return [ExperimentPaths(p) for p in _folders(self.root) if _is_experiment(p)]


def _is_experiment(folder: Path) -> bool:
    if _may_hold(folder, "experiment.json"):
        return True
    return any(_may_hold(inner, *RUN_HOLDS) for inner in _folders(folder))


def _folders(folder: Path) -> list[Path]:
    """The folders in `folder` by name, links to nowhere included, hidden ones left out."""
    return [folder / name for name in sorted(_names(folder))]


def _names(folder: Path) -> list[str]:
    """The names of the folders in `folder`; see `_folders`."""
    try:
        with os.scandir(folder) as entries:
            return [e.name for e in entries if not e.name.startswith(".") and _may_be_folder(e)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RecordError(f"{folder} cannot be read: {error.strerror}") from error


def _may_be_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir() or (entry.is_symlink() and not entry.is_file())
    except OSError:
        return True


def _may_hold(folder: Path, *names: str) -> bool:
    """Whether one of the names is in the folder; a folder that cannot be looked into may."""
    place = str(folder)
    if any(os.path.lexists(f"{place}/{name}") for name in names):
        return True
    try:
        folder.stat()
        # It may be there without being seen.
        return any((folder / name).is_symlink() or (folder / name).exists() for name in names)
    except OSError:
        return True
