"""Checks by trial whether the state of an environment can be restored bit for bit by replay."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.vec_env import VecEnv

from rlexp.environments import Environment
from rlexp.errors import RlexpError
from rlexp.temporary_folders import scratch
from rlexp.training.environments.episode_log import Array, NotReplayable, digest
from rlexp.training.environments.rng_state import seed_globals, undisturbed_globals
from rlexp.training.environments.subprocess_vec_env import EnvironmentDied
from rlexp.training.vec_env_state import capture_vec_env, restore_vec_env
from rlexp.training.vectorise import training_vector

EPISODES = 2
"""Episodes played before the state is captured, so that state kept over episodes is noticed."""
EPISODE_STEPS = 1250
"""Steps after which a longer episode is ended by a reset."""
EPISODE_SECONDS = 0.8
"""Seconds after which a longer episode is ended by a reset."""
EARLY = 3
"""Step of an episode at which the state is captured the first time."""
AFTERWARDS = 20
"""Steps of the next episode that are compared."""
REPLAYABLE = (
    gym.spaces.Box,
    gym.spaces.Discrete,
    gym.spaces.MultiBinary,
    gym.spaces.MultiDiscrete,
)

StepResult = dict[str, Any]
Trajectory = list[tuple[Array | None, StepResult]]
ActionSampler = Callable[[], Array]


def check_round_trip(
    environment: Environment,
    gamma: float,
    seed: int,
    *,
    beat: Callable[[], object] = lambda: None,
) -> str | None:
    """Play an environment, restore its state in a fresh one, and compare how both continue.

    The state is captured early and late in an episode, after two other episodes. Both environments
    then play into the next episode with the same random actions. The check takes a few seconds,
    or longer if single steps do.

    Args:
        environment: The task. One environment is checked, in a separate process if the
            environments of its vector have one.
        gamma: Discount, for the normalisation of rewards.
        seed: Seed of the environment and of the actions.
        beat: Called at every step; its exceptions end the check.

    Returns:
        The reason why a state cannot be restored, in one line, or None.
    """
    with undisturbed_globals(), scratch("rlexp-probe-") as (folder, _):
        check = _ReplayCheck(environment, gamma, seed, folder, beat)
        try:
            return check.difference()
        except NotReplayable as error:
            return str(error).removeprefix("environment 0: ")
        except (RlexpError, EnvironmentDied) as error:
            return f"the environment fails during the replay check: {error}"


@dataclass(slots=True)
class _Player:
    """A vector of one environment, and the steps of its current episode."""

    vector: VecEnv
    length: int = 0

    def take(self, action: Array | None) -> StepResult:
        """Take an action, or reset if it is None; returns everything that a learner sees."""
        if action is None:
            self.length = 0
            return {"observations": deepcopy(self.vector.reset())}
        # A copy, because an environment may change the array that it receives.
        observations, rewards, dones, (info,) = self.vector.step(action.copy())
        self.length = 0 if dones[0] else self.length + 1
        episode = info.get("episode", {})
        return {
            "ends of episodes": [bool(dones[0]), bool(info.get("TimeLimit.truncated"))],
            "observations": deepcopy(observations),
            "rewards": rewards.copy(),
            "last observations of episodes": deepcopy(info.get("terminal_observation")),
            "returns of episodes": [episode.get("r"), episode.get("l")],
        }


@dataclass(slots=True)
class _ReplayCheck:
    """The replay check of one environment."""

    environment: Environment
    gamma: float
    seed: int
    folder: Path
    beat: Callable[[], object]

    def difference(self) -> str | None:
        """Return where a restored environment continues differently, or None."""
        with self._player() as player:
            space = player.vector.action_space
            if not isinstance(space, REPLAYABLE):
                return f"{type(space).__name__} actions cannot be replayed"
            draw = random_actions(player.vector, self.seed)
            player.take(None)
            # Counters and curricula only show after complete episodes.
            lengths = [len(self._episode(player, draw)) for _ in range(EPISODES)]
            for depth in (min(EARLY, *lengths), 3 * max(lengths) // 4):
                self._reach(player, draw, depth)
                if difference := self._compare(player, draw):
                    return difference
        return None

    def _episode(self, player: _Player, draw: ActionSampler) -> Trajectory:
        """Play until the episode ends or reaches a limit."""
        deadline = time.monotonic() + EPISODE_SECONDS
        trajectory: Trajectory = []
        while True:
            trajectory.append(self._step(player, draw()))
            if player.length == 0:
                return trajectory
            if len(trajectory) >= EPISODE_STEPS or time.monotonic() > deadline:
                return [*trajectory, self._step(player, None)]

    def _reach(self, player: _Player, draw: ActionSampler, depth: int) -> None:
        """Play until the current episode has `depth` steps; shorter episodes lower the depth."""
        while player.length < depth:
            self._step(player, draw())
            if player.length == 0:
                depth = 3 * depth // 4

    def _compare(self, first: _Player, draw: ActionSampler) -> str | None:
        """Play on, and compare with a second environment that is restored to the same state."""
        env_state = capture_vec_env(first.vector)
        # Environments may draw from global generators: both continue from the same states.
        seed_globals(self.seed)
        trajectory = self._episode(first, draw)
        trajectory += [self._step(first, draw()) for _ in range(AFTERWARDS)]
        with self._player() as second:
            restore_vec_env(second.vector, env_state)
            seed_globals(self.seed)
            for number, (action, expected) in enumerate(trajectory, 1):
                _, result = self._step(second, action)
                for name, value in expected.items():
                    if digest(value) != digest(result[name]):
                        return f"its {name} differ at step {number} after its state was restored"
        return None

    def _step(self, player: _Player, action: Array | None) -> tuple[Array | None, StepResult]:
        self.beat()
        return action, player.take(action)

    @contextmanager
    def _player(self) -> Iterator[_Player]:
        """Make an environment as a training does; errors while closing it are ignored."""
        seed_globals(self.seed)
        seeds = [self.seed]
        vector = training_vector(
            self.environment, seeds, seeds, self.gamma, self.folder, teacher_seed=self.seed
        )
        try:
            yield _Player(vector)
        finally:
            with suppress(Exception):
                vector.close()


def random_actions(vector: VecEnv, seed: int) -> ActionSampler:
    """Return a sampler of random allowed actions for a vector of one (1 × shape of an action)."""
    space = deepcopy(vector.action_space)
    space.seed(seed)
    masked = vector.has_attr("action_masks")

    def draw() -> Array:
        mask = np.asarray(vector.env_method("action_masks")[0]) if masked else None
        return np.asarray([space.sample(mask=_as_gymnasium(space, mask))])

    return draw


def _as_gymnasium(space: gym.Space[Any], mask: Array | None) -> Any:
    """Convert the action mask of a learner to the form that `Space.sample` takes."""
    if mask is None or isinstance(space, gym.spaces.Discrete):
        # Gymnasium accepts masks of this type only.
        return None if mask is None else mask.astype(np.int8)
    if isinstance(space, gym.spaces.MultiDiscrete):
        parts = np.split(mask.ravel().astype(np.int8), np.cumsum(space.nvec.ravel())[:-1])
        return tuple(parts)
    return None
