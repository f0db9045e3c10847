"""Restores a saved policy, and plays and films episodes with it."""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median, stdev
from traceback import extract_tb
from typing import TYPE_CHECKING, Self
from zipfile import BadZipFile, ZipFile

from rlexp.app.execution.checks.import_permission import check_imports
from rlexp.app.execution.run_process import assemble
from rlexp.app.observer import Observer
from rlexp.app.reading.imported import refuse_external_run, refuse_imported_run
from rlexp.app.reading.provenance import settings_of
from rlexp.app.workspace import Workspace
from rlexp.errors import EnvironmentFault, RecordError, RlexpError
from rlexp.protocol.budget import LEAN
from rlexp.protocol.seeds import EVALUATION_ENVIRONMENTS
from rlexp.protocol.spec import RunSpec
from rlexp.records.run import RunRecord, State
from rlexp.store.files import publish_with
from rlexp.store.layout import RunPaths
from rlexp.store.runs import read_run
from rlexp.training.lean.registry import CLASSIC_CONTROL

if TYPE_CHECKING:
    from rlexp.training.episode_recording import WithRecording
    from rlexp.training.evaluate import Episodes
    from rlexp.training.parts import Training
    from rlexp.training.restore import Learner

LARGEST_RATIO = 10
"""Largest allowed size of an archive's content, as a multiple of the archive.

Archives that rlexp writes are not compressed, so that their ratio is about 1.
"""
ALLOWANCE = 1 << 24
"""Bytes that are allowed in addition, for small archives."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A saved policy: its run, its files, and the step at which it was saved."""

    spec: RunSpec
    model: Path
    normalisation: Path
    step: int
    checkpoint: bool
    weights: str | None


def find_policies(
    runs: Sequence[RunPaths],
    checkpoint: int | None,
    workspace: Workspace,
    command: Sequence[str],
) -> list[Policy]:
    """The policies of runs whose files may be read, and whose packages may be imported.

    Args:
        runs: The runs.
        checkpoint: The step of a checkpoint; None is the final policy.
        workspace: The workspace, with the packages that may be imported.
        command: The command that asks for them, for messages.

    Raises:
        RecordError: A run has no such policy, or its files are damaged.
        ConfigError: A package is not allowed.
    """
    records = [read_run(run).record for run in runs]
    for record in records:
        refuse_imported_run(record.spec)
    pairs = list(zip(runs, records, strict=True))
    policies = [find_policy(run, record, checkpoint) for run, record in pairs]
    check_imports([record.spec for record in records], workspace.allowed, command)
    # Archives are checked before anything of the workspace is imported.
    for policy, run in zip(policies, runs, strict=True):
        check_archives(policy, run)
    workspace.make_allowed_importable()
    return policies


def is_lean(paths: RunPaths) -> bool:
    """Whether the last attempt of the run was given with `compute.lean=true`, the default."""
    attempts = paths.attempts()
    return not attempts or settings_of(attempts[-1]).get(LEAN) is not False


def find_policy(paths: RunPaths, record: RunRecord, checkpoint: int | None) -> Policy:
    """The final policy of a run, or the policy of one of its checkpoints.

    Raises:
        RecordError: The run has no such policy; says why, and names its checkpoints.
    """
    refuse_external_run(record.spec)
    steps = _checkpoints(paths)
    name = paths.folder.name
    available = f"it has: {', '.join(map(str, steps))}" if steps else "it has none"
    if checkpoint is not None:
        if checkpoint not in steps:
            raise RecordError(f"run {name} has no checkpoint at step {checkpoint} ({available})")
        # A checkpoint's folder uses the file names of a run's folder.
        folder = RunPaths(paths.checkpoints / str(checkpoint))
        return Policy(record.spec, folder.model, folder.normalisation, checkpoint, True, None)
    if record.state is State.COMPLETED and paths.model.is_file():
        final = paths.model, paths.normalisation, record.step
        return Policy(record.spec, *final, False, record.weights)
    kind = f" ({record.failure})" if record.failure else ""
    reason = f": {record.reason}" if record.reason else ""
    hint = f"; --checkpoint={steps[-1]} evaluates its last checkpoint" if steps else ""
    missing = ", but its model.zip is missing" if record.state is State.COMPLETED else ""
    raise RecordError(
        f"run {name} has no final policy: it is {record.state}{kind}{missing}{reason}{hint}"
    )


def _checkpoints(paths: RunPaths) -> list[int]:
    try:
        folders = [p for p in paths.checkpoints.iterdir() if p.name.isascii() and p.name.isdigit()]
    except OSError:
        return []
    return sorted(int(p.name) for p in folders if (p / "model.zip").is_file())


def check_archives(policy: Policy, run: RunPaths) -> None:
    """Refuse files outside the run's folder, and archives that would fill the memory.

    A file that is not an archive passes: reading it raises the right error later.

    Raises:
        RecordError: A file is outside the folder, or its content is too large.
    """
    # A link could lead to a model elsewhere, which would be evaluated under this run's name.
    home = run.folder.resolve()
    for path in (policy.model, policy.normalisation):
        if not path.resolve().is_relative_to(home):
            raise RecordError(
                f"{path} is a link out of the run's folder, which is not followed; "
                "copy the file there"
            )
        if path.is_file() and (size := _unpacked(path)) > _limit(path):
            raise RecordError(
                f"{path} would unpack to {size:,} bytes, many times its size: it was not written "
                "by rlexp; take it from a copy of the run"
            )


def _limit(path: Path) -> int:
    return LARGEST_RATIO * path.stat().st_size + ALLOWANCE


def _unpacked(path: Path) -> int:
    try:
        with ZipFile(path) as archive:
            # Sizes come from the archive's directory; nothing is unpacked.
            return sum(member.file_size for member in archive.infolist())
    except (OSError, BadZipFile, ValueError, NotImplementedError):
        return 0


NOTE_EVERY = 15.0
"""Seconds between two notes of progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnStatistics:
    """Summary statistics of the episodes of one policy.

    Attributes:
        mean: The mean.
        median: The median.
        standard_deviation: The sample standard deviation, or None for a single episode.
        minimum: The smallest value.
        maximum: The largest value.
    """

    mean: float
    median: float
    standard_deviation: float | None
    minimum: float
    maximum: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """The statistics of one or more values."""
        return cls(
            mean=fmean(values),
            median=median(values),
            standard_deviation=stdev(values) if len(values) > 1 else None,
            minimum=min(values),
            maximum=max(values),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FilmedEpisode:
    """A video of an episode.

    Attributes:
        file: The video file.
        episode_return: The undiscounted return of the episode, in the task's own reward.
        length: The episode's length, in environment steps.
    """

    file: Path
    episode_return: float
    length: int


@dataclass(frozen=True, slots=True)
class Player:
    """A restored policy, and the set of fresh seeds on which it plays."""

    training: "Training"
    model: "Learner"
    draw: int
    deterministic: bool

    def play(
        self, episodes: int, observer: Observer, recorded: "WithRecording | None" = None
    ) -> "Episodes":
        """Play episodes and return their returns and lengths.

        Args:
            episodes: How many.
            observer: Receives notes of progress.
            recorded: The task with environments that are recorded; None records nothing.
        """
        from rlexp.training.evaluate import Evaluator
        from rlexp.training.lean.learner import shortcuts_of

        streams, shortcuts = self.training.streams, self.training.shortcuts
        evaluator = Evaluator(
            recorded or self.training.environment,
            EVALUATION_ENVIRONMENTS,
            # Environments that are stepped at once are not recorded; they change no number.
            at_once=CLASSIC_CONTROL in shortcuts and recorded is None,
        )
        with closing(evaluator), shortcuts_of(self.model, shortcuts):
            return evaluator.evaluate(
                self.model,
                seeds=[streams.fresh(self.draw, i) for i in range(EVALUATION_ENVIRONMENTS)],
                sampling=streams.fresh_sampling(self.draw),
                episodes=episodes,
                deterministic=self.deterministic,
                beat=_ProgressNotes(observer),
            )

    def film(self, number: int, path: Path) -> FilmedEpisode:
        """Film the first episode of the environment with this number.

        Raises:
            RlexpError: The environment cannot be rendered, or the file cannot be written.
        """
        from rlexp.training.episode_video import record_video
        from rlexp.training.evaluate import Episodes

        episodes = Episodes()
        streams = self.training.streams

        def write_video(temporary: Path) -> None:
            nonlocal episodes
            episodes = record_video(
                self.training.environment,
                self.model,
                temporary,
                seed=streams.fresh(self.draw, number),
                sampling=streams.fresh_sampling(self.draw),
                deterministic=self.deterministic,
            )

        try:
            publish_with(path, write_video)
        except OSError as error:
            raise RecordError(
                f"cannot write {path}: {error.strerror or error}; "
                "choose another folder with --output",
            ) from error
        return FilmedEpisode(
            file=path, episode_return=episodes.returns[0], length=episodes.lengths[0]
        )


def restore_policy(
    policy: Policy,
    *,
    draw: int,
    deterministic: bool | None,
    allowed: tuple[str, ...],
    lean: bool = True,
) -> Player:
    """Restore a policy from its files.

    Args:
        policy: The policy.
        draw: The number of the set of fresh seeds.
        deterministic: Whether the policy acts without sampling; None for the run's own setting.
        allowed: Packages from which the run may name classes.
        lean: Whether the policy plays with shortcuts that change no number.

    Raises:
        RlexpError: The run's files are damaged or inconsistent.
    """
    from rlexp.training.restore import restore_policy

    try:
        training = assemble(policy.spec, allowed=allowed, lean=lean)
    except (KeyError, TypeError) as error:
        raise RecordError(f"the run's spec.json is damaged: {error!r}") from error
    model = restore_policy(training, policy.model, policy.normalisation, weights=policy.weights)
    recorded_setting = training.budget.evaluation_deterministic
    return Player(
        training, model, draw, recorded_setting if deterministic is None else deterministic
    )


@contextmanager
def environment_errors() -> Iterator[None]:
    """Turn an exception of the environment into a one-line error with its file and line.

    Raises:
        EnvironmentFault: The environment raised an exception.
    """
    try:
        yield
    except RlexpError:
        raise
    except Exception as error:
        frame = extract_tb(error.__traceback__)[-1]
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise EnvironmentFault(
            f"the run's environment fails: {reason} ({Path(frame.filename).name}:{frame.lineno}); "
            "for details: rlexp doctor --environment NAME",
        ) from error


def join_players(players: "Sequence[Player]") -> Player:
    """An ensemble of restored policies, which plays on the fresh seeds of the first one.

    Raises:
        ConfigError: The policies cannot act together.
    """
    from rlexp.training.ensemble import PolicyEnsemble

    ensemble = PolicyEnsemble([player.model for player in players])
    # Shortcuts replace methods of a learner, which an ensemble is not.
    training = replace(players[0].training, shortcuts=frozenset())
    return Player(training, ensemble.as_learner(), players[0].draw, deterministic=True)


class _ProgressNotes:
    """Notes every few seconds how many steps were played."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._steps = 0
        self._next = time.monotonic() + NOTE_EVERY

    def __call__(self) -> None:
        """Count a step of all environments."""
        self._steps += EVALUATION_ENVIRONMENTS
        if time.monotonic() >= self._next:
            self._next += NOTE_EVERY
            self._observer.note(f"  playing: {self._steps:,} steps so far")
