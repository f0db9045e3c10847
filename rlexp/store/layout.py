"""Every path under `runs/`."""

import re
from dataclasses import dataclass
from pathlib import Path

from rlexp.errors import ConfigError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=,@-]{0,119}")


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

    def attempt(self, number: int) -> AttemptPaths:
        """The attempt with this number."""
        return AttemptPaths(self.folder / "attempts" / str(number))

    def attempts(self) -> list[AttemptPaths]:
        """The attempts so far, lowest number first."""
        try:
            names = [p.name for p in (self.folder / "attempts").iterdir() if p.name.isdigit()]
        except FileNotFoundError:
            return []
        return [self.attempt(number) for number in sorted(map(int, names))]


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
    def lock(self) -> Path:
        """Held by the one command that drives the experiment."""
        return self.folder / ".lock"

    def run(self, name: str) -> RunPaths:
        """The run with this folder name."""
        return RunPaths(self.folder / name)

    def runs(self) -> list[RunPaths]:
        """Every run, by name."""
        try:
            found = [p for p in self.folder.iterdir() if (p / "spec.json").is_file()]
        except FileNotFoundError:
            return []
        return [RunPaths(p) for p in sorted(found)]


@dataclass(frozen=True, slots=True)
class Layout:
    """The folder `runs/`."""

    root: Path

    def experiment(self, name: str) -> ExperimentPaths:
        """The experiment with this name."""
        return ExperimentPaths(self.root / check_name(name))

    def experiments(self) -> list[ExperimentPaths]:
        """Every experiment, by name."""
        try:
            found = [p for p in self.root.iterdir() if (p / "experiment.json").is_file()]
        except FileNotFoundError:
            return []
        return [ExperimentPaths(p) for p in sorted(found)]
