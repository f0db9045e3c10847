"""Start states from a guide's snapshots (Zhao et al. 2024, "Snapshot Reinforcement Learning").

A snapshot is stored as a seed and a list of actions, and reached by replaying them. It therefore
works in every environment that is reproducible from a seed, without a method to set its state.
"""

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, SupportsFloat

import gymnasium as gym
import numpy as np
from annotated_types import Ge, Interval
from numpy.typing import NDArray

from rlexp.components.guides import Guide, final_weights, load_guide
from rlexp.environments import Stage
from rlexp.errors import ConfigError, EnvironmentFault
from rlexp.protocol.identity import Identity

Env = gym.Env[Any, Any]
NAME = "snapshots"
MOST_STEPS = 100_000
"""Largest number of steps of a trajectory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshots:
    """Training episodes begin at states of a guide; evaluation episodes begin as the task does."""

    identity: ClassVar = Identity("component", "snapshots", excluded=("guide",))

    guide: str
    """The folder of a completed run, or of an experiment with one run, whose policy guides."""
    weights: str | None
    """The digest of that policy; null records the digest of the present policy."""
    probability: Annotated[float, Interval(ge=0, le=1)]
    """Probability that an episode begins at a snapshot; 0 disables snapshots."""
    trajectories: Annotated[int, Ge(1)]
    """Number of episodes that the guide plays."""
    every: Annotated[int, Ge(1)]
    """Steps between two snapshots of a trajectory."""
    choice: Literal["uniform", "clusters"]
    """Draw snapshots uniformly, or first a cluster of observations (status classification)."""
    clusters: Annotated[int, Ge(1)]
    """Largest number of clusters."""
    truncate: Annotated[int, Ge(1)] | None
    """Steps after which an episode from a snapshot is truncated (student trajectory truncation)."""
    until: Annotated[int, Ge(1)] | None
    """Steps of an environment after which snapshots are no longer used; null sets no limit."""
    seed: Annotated[int, Ge(0)]
    """Seed of the trajectories, so that all runs use the same snapshots."""

    @property
    def splits(self) -> bool:
        """False: evaluation uses the same distribution as training."""
        return False

    def pinned(self) -> "Snapshots":
        """Return this component with the digest of its guide.

        Raises:
            ConfigError: The policy does not exist.
        """
        if self.weights or not self.probability:
            return self
        return replace(self, weights=final_weights(self.guide, NAME))

    def wrap(self, environment: Env, stage: Stage) -> Env:
        """Return the environment with start states of the guide for training, else unchanged.

        Raises:
            ConfigError: The guide does not fit the environment.
        """
        if stage is not Stage.TRAINING or self.probability == 0:
            return environment
        if self.choice == "clusters" and not isinstance(
            environment.observation_space, gym.spaces.Box
        ):
            raise ConfigError(
                "component snapshots clusters observations that are arrays of numbers (Box), not "
                f"{type(environment.observation_space).__name__}: use "
                "environment.components.snapshots.choice=uniform"
            )
        guide = load_guide(self.guide, self.weights, environment, NAME)
        return SnapshotEnvironment(environment, guide, self)


class SnapshotEnvironment(gym.Wrapper[Any, Any, Any, Any]):
    """An environment whose episodes may begin in the middle of a guide's trajectory."""

    resets_again = True
    acts_as = "component snapshots"

    def __init__(self, env: Env, guide: Guide, settings: Snapshots) -> None:
        super().__init__(env)
        self.acted = 0
        self._guide: Guide | None = guide
        self._settings = settings
        self._trajectories: list[tuple[int, list[Any]]] = []
        self._places: NDArray[np.int64] = np.empty((0, 2), dtype=np.int64)
        self._members: list[NDArray[np.int64]] = []
        self._left: int | None = None
        self._steps = 0

    def reset(self, **settings: Any) -> tuple[Any, dict[str, Any]]:
        """Reset as the task does, or to a drawn snapshot."""
        if self._guide is not None:
            self._explore(self._guide)
            self._guide = None
        result = self.env.reset(**settings)
        self._left = None
        if self._is_over or self.np_random.random() >= self._settings.probability:
            return result
        members = self._members[self.np_random.integers(len(self._members))]
        trajectory, step = self._places[members[self.np_random.integers(len(members))]]
        self._left = self._settings.truncate
        self.acted += 1
        return self._reached(int(trajectory), int(step))

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step; an episode from a snapshot may be truncated."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._steps += 1
        if self._left is not None:
            self._left -= 1
            truncated = truncated or (self._left <= 0 and not terminated)
        return observation, reward, terminated, truncated, info

    @property
    def _is_over(self) -> bool:
        until = self._settings.until
        return not len(self._places) or (until is not None and self._steps >= until)

    def _reached(self, trajectory: int, step: int) -> tuple[Any, dict[str, Any]]:
        """Replay a trajectory up to a step, and restore the generator afterwards."""
        bare = self.env.unwrapped
        # A reset with a seed replaces the generator object, so keep the object, not its state.
        generator = bare.np_random
        seed, actions = self._trajectories[trajectory]
        observation, info = self.env.reset(seed=seed)
        for action in actions[:step]:
            observation, _, terminated, truncated, info = self.env.step(action)
            if terminated or truncated:
                # The environment is not reproducible from a seed: begin as the task does.
                bare.np_random = generator
                return self.env.reset()
        bare.np_random = generator
        return observation, info

    def _explore(self, guide: Guide) -> None:
        """Let the guide play, and store its actions and the positions of the snapshots."""
        numbers = np.random.SeedSequence(self._settings.seed).generate_state(
            self._settings.trajectories
        )
        positions: list[tuple[int, int]] = []
        seen: list[Any] = []
        for number, seed in enumerate(map(int, numbers)):
            actions, observations = self._trajectory(guide, seed)
            self._trajectories.append((seed, actions))
            # The last step ends the episode, so no episode can begin there.
            steps = range(self._settings.every, len(actions), self._settings.every)
            positions += [(number, step) for step in steps]
            seen += [observations[step] for step in steps]
        self._places = np.asarray(positions, dtype=np.int64).reshape(-1, 2)
        self._members = self._clustered(seen)

    def _trajectory(self, guide: Guide, seed: int) -> tuple[list[Any], list[Any]]:
        guide.begin()
        observation, _ = self.env.reset(seed=seed)
        actions: list[Any] = []
        observations = [observation]
        over = False
        while not over:
            if len(actions) == MOST_STEPS:
                raise EnvironmentFault(
                    f"an episode of the guide does not end within {MOST_STEPS:,} steps: "
                    "give environment.max_episode_steps"
                )
            action = guide.act(observation)
            actions.append(action)
            observation, _, terminated, truncated, _ = self.env.step(action)
            observations.append(observation)
            over = terminated or truncated
        return actions, observations

    def _clustered(self, seen: list[Any]) -> list[NDArray[np.int64]]:
        """Return the numbers of the snapshots of each cluster; one cluster for uniform draws."""
        numbers = np.arange(len(seen))
        if self._settings.choice == "uniform" or len(seen) < 2:
            return [numbers]
        from scipy.cluster.vq import kmeans2

        flat = np.stack([np.asarray(each, dtype=np.float64).ravel() for each in seen])
        spread = flat.std(axis=0)
        # An entry that never changes has the deviation 0: the division by 1 keeps it at 0.
        scaled = (flat - flat.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        # There cannot be more clusters than different points.
        count = min(self._settings.clusters, len(np.unique(scaled, axis=0)))
        generator = np.random.default_rng(self._settings.seed)
        _, labels = kmeans2(scaled, count, minit="++", seed=generator)
        groups = [numbers[labels == label] for label in range(count)]
        # `kmeans2` may leave a cluster empty, from which no snapshot can be drawn.
        return [group for group in groups if group.size]
