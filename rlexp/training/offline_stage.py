"""The offline stage of a training: gradient steps on recorded experience, before any environment step."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.utils import polyak_update

from rlexp.datasets.recorded import Episode
from rlexp.errors import ConfigError
from rlexp.records.logged_values import OFFLINE_PREFIX, OFFLINE_STEPS
from rlexp.records.prior_transitions import AFTER, BEFORE, PriorTransitions

CHUNK = 50
"""Gradient steps between two moments at which a training can be copied or stopped."""
DONE = "offline_steps_done"
"""Attribute of a learner: gradient steps of its offline stage so far; checkpoints keep the numbers of learners."""


def steps_done(model: BaseAlgorithm) -> int:
    """Gradient steps of the offline stage so far."""
    return int(getattr(model, DONE, 0))


def transitions_of(episodes: Iterable[Episode], model: BaseAlgorithm) -> PriorTransitions:
    """The transitions of episodes, in the form of the replay buffer of a learner.

    Actions of a Box are scaled to [-1, 1]. An episode that was recorded without its end counts as cut.

    Raises:
        ConfigError: There are none.
    """
    learner: Any = model
    buffer: ReplayBuffer = learner.replay_buffer
    parts = [dict(_rows(episode, learner)) for episode in episodes]
    if not parts:
        raise ConfigError("it holds no episodes")
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    arrays = {name: getattr(buffer, name) for name in ("actions", "rewards", "dones", "timeouts")}
    for part in (BEFORE, AFTER):
        array = getattr(buffer, part)
        named = array.items() if isinstance(array, dict) else [("", array)]
        arrays |= {f"{part}/{key}" if key else part: entry for key, entry in named}
    if joined.keys() != arrays.keys():
        raise ConfigError("its observations have other entries than those here")
    return PriorTransitions({name: _fitted(joined[name], arrays[name], name) for name in arrays})


def _rows(episode: Episode, learner: Any) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    observed = episode.observations
    for key, entry in observed.items() if isinstance(observed, dict) else [("", observed)]:
        rows, end = np.asarray(entry), f"/{key}" if key else ""
        yield f"{BEFORE}{end}", rows[:-1]
        yield f"{AFTER}{end}", rows[1:]
    actions = episode.actions
    yield "actions", learner.policy.scale_action(actions) if _is_scaled(learner) else actions
    cut = episode.truncations & ~episode.terminations
    ended = episode.terminations | episode.truncations
    if len(ended) and not ended[-1]:
        cut, ended = cut.copy(), ended.copy()
        cut[-1] = ended[-1] = True
    yield from (("rewards", episode.rewards), ("dones", ended), ("timeouts", cut))


def _is_scaled(learner: Any) -> bool:
    return type(learner.action_space).__name__ == "Box"


def _fitted(rows: np.ndarray[Any, Any], array: np.ndarray[Any, Any], name: str) -> Any:
    """Rows in the type and the form of the array of a buffer, which has steps and environments before."""
    if rows.size != len(rows) * int(np.prod(array.shape[2:])):
        raise ConfigError(f"its {name} have the form {list(rows.shape[1:])} here")
    return np.ascontiguousarray(rows.reshape(len(rows), *array.shape[2:]), dtype=array.dtype)


@dataclass(slots=True)
class OfflineStage:
    """Trains a learner on recorded experience, in chunks between which it can be copied.

    Attributes:
        steps: Gradient steps of the whole stage; 0 for a training without one.
        experience: Makes the buffer of the learner, once.
    """

    steps: int
    experience: Callable[[BaseAlgorithm], ReplayBuffer]
    _buffer: ReplayBuffer | None = field(default=None, init=False)

    def train(
        self,
        model: BaseAlgorithm,
        between: Callable[[int], object],
        report: Callable[[dict[str, float]], object],
    ) -> None:
        """Take the rest of the gradient steps; the data is dropped afterwards.

        Args:
            model: The learner, at step 0.
            between: Called after each chunk, with the gradient steps so far.
            report: Called with what the learner has logged, twenty times and at the end.
        """
        learner: Any = model
        each = max(self.steps // 20, 1)
        while (done := steps_done(model)) < self.steps:
            if self._buffer is None:
                self._buffer = self.experience(model)
            count = min(CHUNK - done % CHUNK, self.steps - done)
            with _drawing_from(learner, self._buffer):
                _gradient_steps(learner, count, done)
            setattr(learner, DONE, done + count)
            if (done + count) // each > done // each or done + count == self.steps:
                report({OFFLINE_STEPS: float(done + count), **_losses(learner)})
            between(done + count)
        self._buffer = None

    @contextmanager
    def acting_from_the_start(self, model: BaseAlgorithm) -> Iterator[None]:
        """Let the trained policy act from the first step, where the library would act randomly.

        These are the warm-up rollouts of WSRL (Zhou et al. 2024, arXiv:2412.07762): until
        `algorithm.learning_starts`, the policy that the data has trained fills the replay buffer.
        """
        if not self.steps:
            yield
            return
        learner: Any = model
        sample = type(learner)._sample_action  # noqa: SLF001
        learner.__dict__["_sample_action"] = lambda _, *rest, **named: sample(
            learner, 0, *rest, **named
        )
        # The library saves every attribute of a learner that it does not know as excluded.
        names = ("_sample_action", "_excluded_save_params")
        excluded = [*learner._excluded_save_params(), *names]  # noqa: SLF001
        learner.__dict__["_excluded_save_params"] = lambda: excluded
        try:
            yield
        finally:
            for name in names:
                learner.__dict__.pop(name, None)


@contextmanager
def _drawing_from(learner: Any, buffer: ReplayBuffer) -> Iterator[None]:
    online = learner.replay_buffer
    learner.replay_buffer = buffer
    try:
        yield
    finally:
        learner.replay_buffer = online


def _gradient_steps(learner: Any, count: int, done: int) -> None:
    """Take gradient steps; a Q-network's target follows as often as in the environment."""
    interval = _target_interval(learner)
    if interval is None:
        learner.train(gradient_steps=count, batch_size=learner.batch_size)
        return
    for number in range(done + 1, done + count + 1):
        learner.train(gradient_steps=1, batch_size=learner.batch_size)
        if number % interval == 0:
            online, target = (
                (learner.q_net, learner.q_net_target)
                if hasattr(learner, "q_net")
                else (learner.quantile_net, learner.quantile_net_target)
            )
            polyak_update(online.parameters(), target.parameters(), learner.tau)
            polyak_update(learner.batch_norm_stats, learner.batch_norm_stats_target, 1.0)


def _target_interval(learner: Any) -> int | None:
    """Gradient steps between two updates of the target of a Q-network; None for actor-critic learners.

    The library counts environment steps, in each of which it takes `gradient_steps / train_freq`.
    """
    if not hasattr(learner, "exploration_rate"):
        return None
    taken: float = max(learner.gradient_steps, 1) / learner.train_freq.frequency
    interval: int = round(learner.target_update_interval * taken)
    return max(interval, 1)


def _losses(learner: Any) -> dict[str, float]:
    """What the learner has logged, under names of this stage."""
    logged = learner.logger.name_to_value
    return {
        f"{OFFLINE_PREFIX}{name.rpartition('/')[2]}": float(value)
        for name, value in logged.items()
        if name.startswith("train/") and np.ndim(value) == 0 and name != "train/n_updates"
    }
