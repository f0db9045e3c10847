"""Plays and films episodes with a restored policy."""

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, stdev
from typing import TYPE_CHECKING

from rlexp.app.execution.run_process import assemble
from rlexp.app.observer import Observer
from rlexp.errors import RecordError
from rlexp.protocol.seeds import EVALUATION_ENVIRONMENTS
from rlexp.store.files import publish_with

if TYPE_CHECKING:
    from rlexp.training.evaluate import Episodes
    from rlexp.training.parts import Training
    from rlexp.training.restore import Learner
from zipfile import BadZipFile, ZipFile

from rlexp.app.reading.imported import refuse_external_run
from rlexp.protocol.spec import RunSpec
from rlexp.records.run import RunRecord, State
from rlexp.store.layout import RunPaths

MOST_UNPACKED = 10
"""Times the size of an archive that its content may have; ours are not compressed at all."""
SPARE = 1 << 24
"""Bytes that the content may have on top of that."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A saved policy: of which run, where it lies, and after how many steps it was saved."""

    spec: RunSpec
    model: Path
    normalisation: Path
    step: int
    checkpoint: bool
    weights: str | None


def find_policy(paths: RunPaths, record: RunRecord, checkpoint: int | None) -> Policy:
    """The policy that is asked for: the final one, or that of a checkpoint.

    Raises:
        RecordError: The run has none; says why, and which there are.
    """
    refuse_external_run(record.spec)
    steps = _checkpoints(paths)
    name = paths.folder.name
    known = f"it has: {', '.join(map(str, steps))}" if steps else "it has none"
    if checkpoint is not None:
        if checkpoint not in steps:
            raise RecordError(f"run {name} has no checkpoint at step {checkpoint} ({known})")
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
    """Refuse files that lie elsewhere, or would fill the memory when they are unpacked.

    What is no archive at all is left to those who read it.

    Raises:
        RecordError: One of them does; says which.
    """
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
    return MOST_UNPACKED * path.stat().st_size + SPARE


def _unpacked(path: Path) -> int:
    try:
        with ZipFile(path) as archive:
            return sum(member.file_size for member in archive.infolist())
    except (OSError, BadZipFile, ValueError, NotImplementedError):
        return 0


EVERY = 15.0
"""Seconds between lines of progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Where the values of the episodes of one policy lie.

    Attributes:
        mean: Their mean.
        median: Their median.
        standard_deviation: Their sample standard deviation; nothing of a single episode.
        minimum: The smallest.
        maximum: The largest.
    """

    mean: float
    median: float
    standard_deviation: float | None
    minimum: float
    maximum: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """The spread of one value or more."""
        return cls(
            mean=fmean(values),
            median=median(values),
            standard_deviation=stdev(values) if len(values) > 1 else None,
            minimum=min(values),
            maximum=max(values),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FilmedEpisode:
    """A film of an episode.

    Attributes:
        file: The film.
        episode_return: The undiscounted return of the episode, of the task's own reward.
        length: Its length, in environment steps.
    """

    file: Path
    episode_return: float
    length: int


@dataclass(frozen=True, slots=True)
class Player:
    """A restored policy on the fresh seeds of one draw."""

    training: "Training"
    model: "Learner"
    draw: int
    deterministic: bool

    def play(self, episodes: int, observer: Observer) -> "Episodes":
        """Play episodes: their returns and lengths."""
        from rlexp.training.evaluate import Evaluator

        streams = self.training.streams
        with closing(Evaluator(self.training.environment, EVALUATION_ENVIRONMENTS)) as evaluator:
            return evaluator.evaluate(
                self.model,
                seeds=[streams.fresh(self.draw, i) for i in range(EVALUATION_ENVIRONMENTS)],
                sampling=streams.fresh_sampling(self.draw),
                episodes=episodes,
                deterministic=self.deterministic,
                beat=Progress(observer),
            )

    def film(self, number: int, path: Path) -> FilmedEpisode:
        """Film the first episode of the environment with this number.

        Raises:
            RlexpError: It cannot be rendered or written; says why.
        """
        from rlexp.training.camera import film
        from rlexp.training.evaluate import Episodes

        episodes = Episodes()
        streams = self.training.streams

        def shoot(temporary: Path) -> None:
            nonlocal episodes
            episodes = film(
                self.training.environment,
                self.model,
                temporary,
                seed=streams.fresh(self.draw, number),
                sampling=streams.fresh_sampling(self.draw),
                deterministic=self.deterministic,
            )

        try:
            publish_with(path, shoot)
        except OSError as error:
            raise RecordError(
                f"cannot write {path}: {error.strerror or error}; "
                "choose another folder with --output",
            ) from error
        return FilmedEpisode(
            file=path, episode_return=episodes.returns[0], length=episodes.lengths[0]
        )


def restored(
    policy: Policy,
    *,
    draw: int,
    deterministic: bool | None,
    allowed: tuple[str, ...],
) -> Player:
    """Restore a policy.

    Args:
        policy: Which one.
        draw: Which of the sets of fresh seeds.
        deterministic: Whether it acts without sampling; null does as the run's evaluations did.
        allowed: Packages from which the run may name classes.

    Raises:
        RlexpError: The run's files are damaged or do not fit one another.
    """
    from rlexp.training.restore import restore

    try:
        training = assemble(policy.spec, allowed=allowed)
    except (KeyError, TypeError) as error:
        raise RecordError(f"the run's spec.json is damaged: {error!r}") from error
    model = restore(training, policy.model, policy.normalisation, weights=policy.weights)
    usual = training.budget.evaluation_deterministic
    return Player(training, model, draw, usual if deterministic is None else deterministic)


class Progress:
    """Says now and then that episodes are being played."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._steps = 0
        self._next = time.monotonic() + EVERY

    def __call__(self) -> None:
        """Count a step of all environments."""
        self._steps += EVALUATION_ENVIRONMENTS
        if time.monotonic() >= self._next:
            self._next += EVERY
            self._observer.note(f"  playing: {self._steps:,} steps so far")
