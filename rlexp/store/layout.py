"""The paths of all files under `runs/`."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rlexp.errors import ConfigError, RecordError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=,@-]{0,119}")
RUN_HOLDS = ("spec.json", "attempts")
"""A folder of an experiment that holds one of these names is a run."""
NUMBER = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


def check_name(name: str) -> str:
    """Return `name` if it can be a folder under `runs/`.

    Raises:
        ConfigError: The name could lead out of `runs/`, or is invalid on common file systems.
    """
    if not NAME.fullmatch(name) or ".." in name:
        raise ConfigError(
            f"experiment={name!r} cannot be a folder name: "
            "use up to 120 letters, digits and . _ + = , @ -, starting with a letter or digit",
        )
    return name


def check_digest(digest: object, setting: str, content: str) -> None:
    """Refuse what is no digest, because a digest becomes a path, and a foreign record could hold `..`.

    Args:
        digest: What a record holds as the digest.
        setting: The recorded setting.
        content: What the digest is to name.

    Raises:
        RecordError: It is no sha256 in hexadecimal.
    """
    if not isinstance(digest, str) or not DIGEST.fullmatch(digest):
        raise RecordError(f"{setting}={digest!r:.80} is no digest of {content}")


@dataclass(frozen=True, slots=True)
class AttemptPaths:
    """The files of one attempt at executing a run."""

    folder: Path

    @property
    def number(self) -> int:
        """The attempt's number, from 1: its fencing token."""
        return int(self.folder.name)

    @property
    def settings(self) -> Path:
        """Settings of the attempt besides the run: checkpoint interval, time limit."""
        return self.folder / "attempt.json"

    @property
    def provenance(self) -> Path:
        """Code, command, packages and machine that produced the numbers."""
        return self.folder / "provenance.json"

    @property
    def patch(self) -> Path:
        """Uncommitted changes to the study's code."""
        return self.folder / "diff.patch"

    @property
    def journal(self) -> Path:
        """The events, one per line."""
        return self.folder / "events.jsonl"

    @property
    def verdict(self) -> Path:
        """How the attempt ended, written by the supervisor if the process could not record it."""
        return self.folder / "verdict.json"

    @property
    def log(self) -> Path:
        """Standard output and standard error, limited in size."""
        return self.folder / "log.txt"

    @property
    def configuration(self) -> Path:
        """The configuration that an external training script reads."""
        return self.folder / "configuration.json"

    @property
    def results(self) -> Path:
        """The results that an external training script writes, one per line."""
        return self.folder / "results.jsonl"

    @property
    def files(self) -> Path:
        """All other files that an external training script writes."""
        return self.folder / "files"

    @property
    def system_metrics(self) -> Path:
        """Measurements of processor, memory and GPUs, one per line; only where they are asked for."""
        return self.folder / "system.jsonl"

    @property
    def progress(self) -> Path:
        """Steps and heartbeats as two 64-bit counters, overwritten in place."""
        return self.folder / "progress.bin"


@dataclass(frozen=True, slots=True)
class RunPaths:
    """The files of one run."""

    folder: Path

    @property
    def spec(self) -> Path:
        """The definition of the run."""
        return self.folder / "spec.json"

    @property
    def lease(self) -> Path:
        """Lease of the one process that writes to the run."""
        return self.folder / ".lease"

    @property
    def claim(self) -> Path:
        """Lease of the worker or command that supervises the run through all its attempts."""
        return self.folder / ".claim"

    @property
    def stop(self) -> Path:
        """A request to end the run at its next step, with the reason."""
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
    def scoring(self) -> Path:
        """The final evaluation by the trusted code of a stream, of a run that has the field `code`."""
        return self.folder / "scoring.json"

    @property
    def checkpoints(self) -> Path:
        """Complete checkpoints, one folder each."""
        return self.folder / "checkpoints"

    @property
    def replay(self) -> Path:
        """Replay-buffer chunks that off-policy checkpoints share; a chunk is never changed."""
        return self.folder / "replay"

    @property
    def parent(self) -> "RunPaths":
        """The copy of the parent's training from which an extended run continues."""
        return RunPaths(self.folder / "parent")

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
    """The files of one experiment."""

    folder: Path

    @property
    def name(self) -> str:
        """The experiment's name."""
        return self.folder.name

    @property
    def definition(self) -> Path:
        """The definition of the experiment."""
        return self.folder / "experiment.json"

    @property
    def adaptive(self) -> Path:
        """The design of the sequential comparison, frozen at the first analysis, and all analyses."""
        return self.folder / "adaptive.json"

    @property
    def ablation(self) -> Path:
        """What an ablation compares, frozen before its first run."""
        return self.folder / "ablation.json"

    @property
    def trials(self) -> Path:
        """The trials that a sweep has proposed so far, one per line."""
        return self.folder / "trials.jsonl"

    @property
    def selection(self) -> Path:
        """The winner of a sweep, frozen before any test run exists."""
        return self.folder / "selection.json"

    @property
    def schedule(self) -> Path:
        """The schedule that a population came to, for `{schedule: FILE}`; a copy of what records hold."""
        return self.folder / "schedule.yaml"

    @property
    def annotations(self) -> Path:
        """Tags and notes of the experiment and of its runs; no record, and never sealed."""
        return self.folder / "annotations.json"

    @property
    def annotations_lock(self) -> Path:
        """Lease of the command that changes the tags and notes."""
        return self.folder / ".annotations.lock"

    @property
    def names(self) -> Path:
        """The names that the experiment has had, where it was renamed."""
        return self.folder / "names.json"

    @property
    def gate(self) -> Path:
        """The first gate of an experiment that `rlexp gate` trains."""
        return self.folder / "gate.json"

    @property
    def candidates(self) -> Path:
        """The register of a stream: its design, candidates, scores and decisions, one per line."""
        return self.folder / "candidates.jsonl"

    @property
    def scoring_orders(self) -> Path:
        """The policies of a stream that wait for their score by a worker, one file per run."""
        return self.folder / "scoring-orders"

    @property
    def scoring_answers(self) -> Path:
        """The scores that workers have computed for a stream, one file per run."""
        return self.folder / "scoring-answers"

    @property
    def left_out(self) -> Path:
        """The policies that a copy of the experiment in a bundle lacks, with their checksums."""
        return self.folder / "left_out.json"

    @property
    def ledger(self) -> Path:
        """Checksums of the records at the time they were written, one entry per line."""
        return self.folder / "ledger.jsonl"

    @property
    def policies(self) -> Path:
        """The policies that trainings begin with, one folder each, named by its digest."""
        return self.folder / "policies"

    @property
    def experience(self) -> Path:
        """The transitions that the members of a population share, one folder for each digest."""
        return self.folder / "experience"

    @property
    def prior_data(self) -> Path:
        """The transitions that trainings begin with, one folder each, named by its digest."""
        return self.folder / "prior_data"

    @property
    def catalogue(self) -> Path:
        """Cache with the ended runs in brief; may be deleted at any time."""
        return self.folder / ".catalogue"

    @property
    def curves(self) -> Path:
        """Cache with the curves of the runs in the catalogue; may be deleted at any time."""
        return self.folder / ".curves"

    @property
    def mirror(self) -> Path:
        """The sweep as an Optuna study; may be deleted at any time."""
        return self.folder / "optuna.journal"

    @property
    def trackers(self) -> Path:
        """Sync positions and files of trackers; without them everything is pushed anew."""
        return self.folder / "trackers"

    @property
    def orders(self) -> Path:
        """The queue of runs that any worker may take, one file per run."""
        return self.folder / "orders"

    @property
    def jobs(self) -> Path:
        """Ids and output of the experiment's cluster jobs."""
        return self.folder / "jobs"

    @property
    def lock(self) -> Path:
        """Lease of the one command that drives the experiment."""
        return self.folder / ".lock"

    def run(self, name: str) -> RunPaths:
        """The run with this folder name."""
        return RunPaths(self.folder / name)

    def runs(self, is_known: Callable[[str], bool] | None = None) -> list[RunPaths]:
        """Every run, sorted by name, including runs that have lost their spec.

        Args:
            is_known: Whether the folder of this name is known to be a run, so that nobody looks into it.

        Raises:
            RecordError: The folder cannot be read.
        """
        return [
            RunPaths(p)
            for p in _folders(self.folder)
            if (is_known is not None and is_known(p.name)) or _may_hold(p, *RUN_HOLDS)
        ]


@dataclass(frozen=True, slots=True)
class Layout:
    """The folder `runs/`."""

    root: Path

    @property
    def looks(self) -> Path:
        """The register of looks at test scores, one entry per line; `rlexp rm` leaves it."""
        return self.root / "looks.jsonl"

    @property
    def looks_lock(self) -> Path:
        """Lease of the command that enters looks."""
        return self.root / ".looks.lock"

    @property
    def protocols(self) -> Path:
        """The register of sealed protocols, one per line; `rlexp rm` leaves it."""
        return self.root / "protocols.jsonl"

    @property
    def protocols_lock(self) -> Path:
        """Lease of the command that registers a protocol."""
        return self.root / ".protocols.lock"

    def experiment(self, name: str) -> ExperimentPaths:
        """The experiment with this name."""
        return ExperimentPaths(self.root / check_name(name))

    def experiments(self) -> list[ExperimentPaths]:
        """Every experiment, sorted by name, including those that have lost their definition.

        Raises:
            RecordError: The folder cannot be read.
        """
        return [ExperimentPaths(p) for p in _folders(self.root) if _is_experiment(p)]


def _is_experiment(folder: Path) -> bool:
    if _may_hold(folder, "experiment.json"):
        return True
    return any(_may_hold(inner, *RUN_HOLDS) for inner in _folders(folder))


def _folders(folder: Path) -> list[Path]:
    """The folders in `folder` sorted by name, with broken links, without hidden folders."""
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
    # A broken link is listed: a run behind it must show up as damaged, not vanish.
    try:
        return entry.is_dir() or (entry.is_symlink() and not entry.is_file())
    except OSError:
        return True


def _may_hold(folder: Path, *names: str) -> bool:
    """Whether the folder holds one of the names; True for a folder that cannot be read."""
    # Strings: with ten thousand runs, building `Path` objects would take most of the time.
    prefix = str(folder)
    if any(os.path.lexists(f"{prefix}/{name}") for name in names):
        return True
    try:
        folder.stat()
        # `lexists` is False also on an error, such as a missing right to enter the folder:
        # `Path.exists` raises that error.
        return any((folder / name).is_symlink() or (folder / name).exists() for name in names)
    except OSError:
        return True


def cache_folder() -> Path:
    """The folder for caches that all workspaces of the user share; it may be deleted.

    For a user without a home folder, the path cannot be written to, and nothing is cached.
    """
    home = os.environ.get("RLEXP_HOME") or os.environ.get("XDG_CACHE_HOME")
    try:
        base = Path(home) if home else Path.home() / ".cache"
    # `Path.home` raises a RuntimeError where the user has no home folder.
    except RuntimeError:
        base = Path(os.devnull)
    return base / "rlexp"
