"""Measures what a training costs, in some seconds of it: steps, updates and evaluation apart.

`probe` builds a learner once and trains it for a moment. The learner is thrown away: no run
continues from it. A run draws its numbers from its own generators, so a probe changes none of them.
"""

import math
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import configure

from rlexp.environments import Stage
from rlexp.environments.composed import splits
from rlexp.protocol.seeds import EVALUATION_ENVIRONMENTS, Phase
from rlexp.training.evaluate import Evaluator, undisturbed
from rlexp.training.lean.learner import shortcuts_of
from rlexp.training.lean.registry import CLASSIC_CONTROL
from rlexp.training.parts import Training

STEPPING_SECONDS = 1.2
"""Seconds of environment steps that a probe measures."""
UPDATING_SECONDS = 1.2
"""Seconds of updates that a probe measures."""
EVALUATION_SECONDS = 0.8
"""Seconds of evaluation that a probe measures."""
SETTLING = 0.25
"""Share of a measurement, at its beginning, that is left out: the first calls fill caches."""
GRADIENT_STEPS = 4
"""Gradient steps of one measured update of a learner with a replay buffer."""
SLICES = 4
"""Parts of a measurement whose rates are compared, to know how much they vary."""
LENGTHENING = 10.0
"""Factor by which episodes with a time limit may become longer while a policy learns."""
LENGTHENING_WITHOUT_LIMIT = 4.0
"""The same for episodes without a known time limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurements:
    """What a probe has measured.

    Attributes:
        start: Seconds to build environments and learner.
        step: Seconds of one environment step without updates.
        update: Seconds of updates for one environment step, once learning has started.
        episode: Expected seconds of one episode of an evaluation.
        spread: Factor, at least 1, by which rates varied within the probe.
        episode_spread: Factor, at least 1, by which the length of episodes is unknown.
        model: Bytes of the policy's file.
        gradient: Seconds of one gradient step on a minibatch of a replay buffer; 0 without one.
    """

    start: float
    step: float
    update: float
    episode: float
    spread: float
    episode_spread: float
    model: int
    gradient: float


class Enough(Exception):  # noqa: N818
    """The time of a measurement is over."""


def probe(training: Training, folder: Path, built: Callable[[], object]) -> Measurements:
    """Build a learner, train it for some seconds, and return what that costs.

    Args:
        training: The parts of the run.
        folder: An empty folder for the files of stable-baselines3.
        built: Called once the learner is built: errors before and after have other causes.

    Raises:
        ConfigError: The parts do not fit one another.
        MemoryError: The learner needs more memory than there is.
    """
    begun = time.perf_counter()
    model = training.build(folder)
    start = time.perf_counter() - begun
    built()
    assert model.env is not None
    with (
        closing(model.env),
        closing(configure(str(folder), ["csv"])) as logger,
        shortcuts_of(model, training.shortcuts),
    ):
        model.save(folder / "model.zip")
        model.set_logger(logger)
        stepping = _train(model)
        playing, seconds_to_make = _evaluate(training, model)
        # The first mark of a compiled program comes after its compilation.
        compiled = getattr(model, "in_chunks", False)
        shortest, longest = _episode_lengths(model, playing)
        return Measurements(
            start=start + seconds_to_make + (stepping.marks[0][0] if compiled else 0.0),
            step=stepping.seconds_per_step(),
            update=stepping.update_per_step(model, _observed_length(model, playing)),
            episode=math.sqrt(shortest * longest) * playing.seconds_per_step() * _plays(training),
            spread=stepping.spread(),
            episode_spread=math.sqrt(longest / shortest),
            model=(folder / "model.zip").stat().st_size,
            gradient=stepping.seconds_of_update() if _replays(model) else 0.0,
        )


def _plays(training: Training) -> int:
    """How often a policy is evaluated: twice where scores use a held-out distribution."""
    held_out = training.streams.phase is Phase.TEST and splits(training.environment)
    return 2 if held_out else 1


class Stepping(BaseCallback):
    """Measures environment steps and updates while a learner trains, and ends the training."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = time.perf_counter()
        self.marks: list[tuple[float, int]] = []
        """Seconds without updates, and environment steps, at each call."""
        self.updating = 0.0
        """Seconds of all updates so far."""
        self.updates: list[tuple[float, float]] = []
        """Seconds and gradient steps of each update; a whole rollout's update counts as one."""

    def _on_step(self) -> bool:
        seconds = time.perf_counter() - self.begun - self.updating
        self.marks.append((seconds, self.num_timesteps))
        # Two updates measure better than the first alone, if they come soon.
        updated = len(self.updates) > 1 or self.updated or seconds > 2 * STEPPING_SECONDS
        # At least two marks are needed for a rate, however slow the environment is.
        if len(self.marks) > SLICES and seconds > STEPPING_SECONDS and updated:
            raise Enough
        return True

    @property
    def updated(self) -> bool:
        """Whether updates were measured for long enough."""
        return self.updating > UPDATING_SECONDS

    def add_update(self, seconds: float, gradient_steps: float, share: float = 1.0) -> None:
        """Add an update, of which `share` was executed."""
        self.updating += seconds
        self.updates.append((seconds / share, gradient_steps))

    def _settled(self) -> list[tuple[float, int]]:
        return self.marks[int(len(self.marks) * SETTLING) :]

    def seconds_per_step(self) -> float:
        """Seconds of one environment step without updates."""
        return _rate(self._settled())

    def spread(self) -> float:
        """The largest factor between the rate of a part of the measurement and the whole rate."""
        settled, whole = self._settled(), self.seconds_per_step()
        size = max(len(settled) // SLICES, 2)
        parts = [_rate(settled[i : i + size + 1]) for i in range(0, len(settled) - size, size)]
        factors = [max(part / whole, whole / part) for part in parts if part > 0 < whole]
        return median(factors) if factors else 1.0

    def seconds_of_update(self) -> float:
        """Seconds of one gradient step, or of a whole update on a rollout; 0 if none was measured."""
        # The first update also allocates the state of the optimisers.
        settled = self.updates[1:] or self.updates
        count = sum(number for _, number in settled)
        return sum(seconds for seconds, _ in settled) / count if count else 0.0

    def update_per_step(self, model: BaseAlgorithm, length: float) -> float:
        """Seconds of updates for one environment step; `length` is that of an episode in steps."""
        return self.seconds_of_update() * _updates_per_step(model, length)


def _rate(marks: list[tuple[float, int]]) -> float:
    """Seconds per environment step between the first and the last mark."""
    (begun, first), (ended, last) = marks[0], marks[-1]
    return max(ended - begun, 0.0) / max(last - first, 1)


def _updates_per_step(model: BaseAlgorithm, length: float) -> float:
    """Gradient steps, or whole updates without a replay buffer, for one environment step."""
    if _replays(model):
        if model.gradient_steps < 0:  # type: ignore[attr-defined]
            return 1.0
        frequency = model.train_freq  # type: ignore[attr-defined]
        steps = frequency.frequency * (length if frequency.unit.value == "episode" else 1)
        return float(model.gradient_steps / max(steps * model.n_envs, 1))  # type: ignore[attr-defined]
    return 1.0 / (model.n_steps * model.n_envs) if hasattr(model, "n_steps") else 0.0


def _replays(model: BaseAlgorithm) -> bool:
    return getattr(model, "replay_buffer", None) is not None


def _train(model: BaseAlgorithm) -> Stepping:
    """Train for some seconds; returns what was measured."""
    _skip_the_beginning(model)
    stepping = Stepping()
    # A compiled program collects and learns at once, and its rate is measured as a whole.
    train = None if getattr(model, "in_chunks", False) else getattr(model, "train", None)
    if train is not None:
        timed = _timed_replay if _replays(model) else _timed_rollout
        model.train = timed(model, train, stepping)  # type: ignore[attr-defined]
    with suppress(Enough):
        model.learn(10**9, callback=stepping)
    if train is not None and not stepping.updates:
        _update_once(model)
    return stepping


def _skip_the_beginning(model: BaseAlgorithm) -> None:
    """Let the learner act and learn from its first step as it does in the middle of a training."""
    if _replays(model):
        model.learning_starts = 0  # type: ignore[attr-defined]
    # A random action costs less than the network's: the mean rate over a training is measured.
    schedule = getattr(model, "exploration_schedule", None)
    if schedule is not None:
        rate = mean(schedule(left) for left in np.linspace(1.0, 0.0, 101))
        model.exploration_schedule = lambda _: rate  # type: ignore[attr-defined]


def _timed_replay(
    model: Any, train: Callable[..., None], stepping: Stepping
) -> Callable[..., None]:
    """An update of a learner with a replay buffer, cut to few gradient steps and timed."""

    def update(gradient_steps: int, batch_size: int) -> None:
        # Further updates would only lengthen the probe; hindsight waits for a complete episode.
        if stepping.updated or not getattr(model.replay_buffer, "can_sample", True):
            return
        few = min(gradient_steps, GRADIENT_STEPS)
        begun = time.perf_counter()
        train(gradient_steps=few, batch_size=batch_size)
        stepping.add_update(time.perf_counter() - begun, few)

    return update


def _timed_rollout(
    model: BaseAlgorithm, train: Callable[..., None], stepping: Stepping
) -> Callable[..., None]:
    """An update on a rollout, timed; a long one is cut and its rest is computed."""

    def update() -> None:
        if stepping.updated:
            return
        begun, done, share = time.perf_counter(), 0, 1.0

        def count(*_: Any) -> None:
            nonlocal done
            done += 1
            if time.perf_counter() - begun > UPDATING_SECONDS:
                raise Enough

        optimiser = model.policy.optimizer if hasattr(model.policy, "optimizer") else None
        hook = optimiser.register_step_post_hook(count) if optimiser is not None else None
        try:
            train()
        except Enough:
            share = min(done / _gradient_steps(model), 1.0)
        finally:
            if hook is not None:
                hook.remove()
        stepping.add_update(time.perf_counter() - begun, 1, share)

    return update


def _gradient_steps(model: BaseAlgorithm) -> int:
    """Gradient steps of a whole update on a rollout."""
    rollout = getattr(model, "n_steps", 1) * model.n_envs
    batches = math.ceil(rollout / getattr(model, "batch_size", rollout))
    return batches * getattr(model, "n_epochs", 1)


def _update_once(model: BaseAlgorithm) -> None:
    """Update a learner whose first rollout is longer than the measurement.

    The rest of the rollout is zeros, which cost as much as experience.
    """
    if _replays(model):
        # Hindsight learns from complete episodes only.
        complete = getattr(model.replay_buffer, "truncate_last_trajectory", None)  # type: ignore[attr-defined]
        if complete is not None:
            with catch_warnings():
                simplefilter("ignore")
                complete()
        model.train(  # type: ignore[attr-defined]
            gradient_steps=GRADIENT_STEPS,
            batch_size=model.batch_size,  # type: ignore[attr-defined]
        )
    elif (rollout := getattr(model, "rollout_buffer", None)) is not None:
        rollout.full = True
        model.train()  # type: ignore[attr-defined]


@dataclass(slots=True)
class Playing:
    """What an evaluation of some seconds has measured.

    Attributes:
        marks: Seconds, and steps of one environment, at each step of the vector.
        lengths: Lengths of the episodes that ended, in steps.
    """

    marks: list[tuple[float, int]] = field(default_factory=list)
    lengths: tuple[int, ...] = ()

    def seconds_per_step(self) -> float:
        """Seconds of evaluation for one step of one of the environments."""
        settled = self.marks[int(len(self.marks) * SETTLING) :]
        return _rate(settled) / EVALUATION_ENVIRONMENTS if len(settled) > 1 else 0.0


def _evaluate(training: Training, model: BaseAlgorithm) -> tuple[Playing, float]:
    """Evaluate for some seconds; returns what was measured, and the seconds to make environments."""
    begun, playing, streams = time.perf_counter(), Playing(), training.streams
    with undisturbed(model, streams.sampling(0)):
        evaluator = Evaluator(
            training.environment,
            EVALUATION_ENVIRONMENTS,
            stage=Stage.EVALUATION,
            at_once=CLASSIC_CONTROL in training.shortcuts,
        )
    made = time.perf_counter()

    def beat() -> None:
        now = time.perf_counter() - made
        playing.marks.append((now, len(playing.marks)))
        if now > EVALUATION_SECONDS and len(playing.marks) > SLICES:
            raise Enough

    with closing(evaluator), suppress(Enough):
        episodes = evaluator.evaluate(
            model,
            seeds=[streams.evaluation(0, i) for i in range(EVALUATION_ENVIRONMENTS)],
            sampling=streams.sampling(0),
            episodes=EVALUATION_ENVIRONMENTS,
            deterministic=training.budget.evaluation_deterministic,
            beat=beat,
        )
        playing.lengths = tuple(episodes.lengths)
    return playing, made - begun


def _observed_length(model: BaseAlgorithm, playing: Playing) -> float:
    """Mean length of the episodes that were seen, in steps."""
    trained = [int(episode["l"]) for episode in model.ep_info_buffer or ()]
    seen = [*trained, *playing.lengths]
    if seen:
        return mean(seen)
    # No episode has ended: one of unknown length is as likely in its first half as in its second.
    played = max(model.num_timesteps / model.n_envs, len(playing.marks), 1)
    return min(2.0 * played, _time_limit(model) or math.inf)


def _episode_lengths(model: BaseAlgorithm, playing: Playing) -> tuple[float, float]:
    """The shortest and the longest mean length of episodes to expect, in steps."""
    length = max(_observed_length(model, playing), 1.0)
    limit = _time_limit(model)
    if limit is None:
        return length, length * LENGTHENING_WITHOUT_LIMIT
    return length, max(min(float(limit), length * LENGTHENING), length)


def _time_limit(model: BaseAlgorithm) -> int | None:
    """The step at which every episode is truncated; None if nothing says one."""
    assert model.env is not None
    specs: list[Any] = []
    with suppress(AttributeError, NotImplementedError):
        specs = model.env.get_attr("spec", indices=[0])
    limit = getattr(specs[0], "max_episode_steps", None) if specs else None
    return int(limit) if limit else None


def as_document(measured: Measurements) -> Mapping[str, float]:
    """The measurements as JSON values."""
    return {name: getattr(measured, name) for name in Measurements.__slots__}
