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
from rlexp.app.policies import Policy
from rlexp.errors import RecordError
from rlexp.protocol.seeds import EVALUATION_ENVIRONMENTS
from rlexp.store.files import publish_with

if TYPE_CHECKING:
    from rlexp.training.evaluate import Episodes
    from rlexp.training.parts import Training
    from rlexp.training.restore import Learner

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
