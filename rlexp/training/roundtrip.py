"""Whether the state of an environment can be put back to the byte, found out by doing it."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.vec_env import VecEnv

from rlexp.environments import Environment
from rlexp.errors import RlexpError
from rlexp.training.draws import seed_globals, undisturbed_globals
from rlexp.training.memory import Array, NotRepeatable, digest
from rlexp.training.processes import EnvironmentDied
from rlexp.training.situation import capture, restore
from rlexp.training.vectorise import training_vector

EPISODES = 2
"""That are played before the state is taken, so that what they leave behind shows."""
EPISODE_STEPS = 1250
"""After which an episode that goes on is cut by a reset."""
EPISODE_SECONDS = 0.8
"""The same, in time."""
EARLY = 3
"""Steps into an episode."""
AFTERWARDS = 20
"""Steps that are compared after the reset that ends the episode."""
REPLAYABLE = (
    gym.spaces.Box,
    gym.spaces.Discrete,
    gym.spaces.MultiBinary,
    gym.spaces.MultiDiscrete,
)

Outcome = dict[str, Any]
History = list[tuple[Array | None, Outcome]]
Draw = Callable[[], Array]


def check_round_trip(
    environment: Environment,
    gamma: float,
    seed: int,
    *,
    beat: Callable[[], object] = lambda: None,
) -> str | None:
    """Play an environment, put its state into a fresh one, and see whether both go on alike.

    Its state is taken early and late in an episode, after two others. Both environments then
    play on to the next episode with the same random actions. It takes seconds at most, longer
    only where single steps do.

    Args:
        environment: The task. One environment of it is tried, in a process of its own if those
            of its vector have one.
        gamma: Discount, for the normalisation of rewards.
        seed: Of the environment and of the actions.
        beat: Called at every step; what it raises ends the trial.

    Returns:
        Why a state cannot be put back, in one line, or nothing.
    """
    with undisturbed_globals(), TemporaryDirectory(prefix="rlexp-probe-") as folder:
        trial = _Trial(environment, gamma, seed, Path(folder), beat)
        try:
            return trial.difference()
        except NotRepeatable as error:
            return str(error).removeprefix("environment 0: ")
        except (RlexpError, EnvironmentDied) as error:
            return f"it fails as this is tried: {error}"


@dataclass(slots=True)
class _Player:
    """A vector of one environment, and how far into an episode that is."""

    vector: VecEnv
    length: int = 0

    def take(self, action: Array | None) -> Outcome:
        """Take an action, or reset where there is none; returns all that follows."""
        if action is None:
            self.length = 0
            return {"observations": deepcopy(self.vector.reset())}
        # A copy, for an environment may work in the array that it is given.
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
class _Trial:
    """The trial of one environment."""

    environment: Environment
    gamma: float
    seed: int
    folder: Path
    beat: Callable[[], object]

    def difference(self) -> str | None:
        """Where a state that was put back goes on differently, or nothing."""
        with self._player() as player:
            space = player.vector.action_space
            if not isinstance(space, REPLAYABLE):
                return f"actions of kind {type(space).__name__} cannot be repeated"
            draw = random_actions(player.vector, self.seed)
            player.take(None)
            lengths = [len(self._episode(player, draw)) for _ in range(EPISODES)]
            for depth in (min(EARLY, *lengths), 3 * max(lengths) // 4):
                self._reach(player, draw, depth)
                if found := self._compare(player, draw):
                    return found
        return None

    def _episode(self, player: _Player, draw: Draw) -> History:
        """Play until the episode ends, or is cut."""
        deadline = time.monotonic() + EPISODE_SECONDS
        history: History = []
        while True:
            history.append(self._step(player, draw()))
            if player.length == 0:
                return history
            if len(history) >= EPISODE_STEPS or time.monotonic() > deadline:
                return [*history, self._step(player, None)]

    def _reach(self, player: _Player, draw: Draw, depth: int) -> None:
        """Play until an episode is as deep as is wanted, or as it can be."""
        while player.length < depth:
            self._step(player, draw())
            if player.length == 0:
                depth = 3 * depth // 4

    def _compare(self, first: _Player, draw: Draw) -> str | None:
        """Play on, and let another environment do the same from there."""
        situation = capture(first.vector)
        seed_globals(self.seed)
        history = self._episode(first, draw)
        history += [self._step(first, draw()) for _ in range(AFTERWARDS)]
        with self._player() as second:
            restore(second.vector, situation)
            seed_globals(self.seed)
            for number, (action, expected) in enumerate(history, 1):
                _, found = self._step(second, action)
                for name, value in expected.items():
                    if digest(value) != digest(found[name]):
                        return f"its {name} differ at step {number} after its state was put back"
        return None

    def _step(self, player: _Player, action: Array | None) -> tuple[Array | None, Outcome]:
        self.beat()
        return action, player.take(action)

    @contextmanager
    def _player(self) -> Iterator[_Player]:
        """Make an environment, as a training does; what fails as it is closed is no matter."""
        seed_globals(self.seed)
        seeds = [self.seed]
        vector = training_vector(self.environment, seeds, seeds, self.gamma, self.folder)
        try:
            yield _Player(vector)
        finally:
            with suppress(Exception):
                vector.close()


def random_actions(vector: VecEnv, seed: int) -> Draw:
    """Random actions for a vector of one, of those that are allowed; arrays of shape 1 × action."""
    space = deepcopy(vector.action_space)
    space.seed(seed)
    masked = vector.has_attr("action_masks")

    def draw() -> Array:
        mask = np.asarray(vector.env_method("action_masks")[0]) if masked else None
        return np.asarray([space.sample(mask=_as_gymnasium(space, mask))])

    return draw


def _as_gymnasium(space: gym.Space[Any], mask: Array | None) -> Any:
    """The mask of a learner in the form that a space takes."""
    if mask is None or isinstance(space, gym.spaces.Discrete):
        return None if mask is None else mask.astype(np.int8)
    if isinstance(space, gym.spaces.MultiDiscrete):
        parts = np.split(mask.ravel().astype(np.int8), np.cumsum(space.nvec.ravel())[:-1])
        return tuple(parts)
    return None
