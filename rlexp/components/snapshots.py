"""Start states from a guide's snapshots (Zhao et al. 2024, "Snapshot Reinforcement Learning").

A snapshot is kept as how it came about, a seed and actions, and reached by repeating them: so it
works in every environment that repeats itself from a seed, and needs no way to set a state.
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
"""Of one trajectory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshots:
    """Episodes in training begin where a guide has been; evaluation begins as the task does."""

    identity: ClassVar = Identity("component", "snapshots", excluded=("guide",))

    guide: str
    """The folder of a completed run, or of an experiment with one, whose final policy acts."""
    weights: str | None
    """The digest of that policy; null takes, and records, the one that is there."""
    probability: Annotated[float, Interval(ge=0, le=1)]
    """That an episode begins at a snapshot; 0 leaves every start to the task."""
    trajectories: Annotated[int, Ge(1)]
    """Episodes of the guide."""
    every: Annotated[int, Ge(1)]
    """Steps of a trajectory between snapshots."""
    choice: Literal["uniform", "clusters"]
    """Each snapshot alike, or each cluster of observations alike (status classification)."""
    clusters: Annotated[int, Ge(1)]
    """How many clusters there are at most."""
    truncate: Annotated[int, Ge(1)] | None
    """Steps after which an episode from a snapshot is cut (student trajectory truncation)."""
    until: Annotated[int, Ge(1)] | None
    """Steps of an environment after which episodes begin as the task does; null: they never do."""
    seed: Annotated[int, Ge(0)]
    """Of the trajectories, so that all runs begin at the same snapshots."""

    @property
    def splits(self) -> bool:
        """It helps to learn; evaluation holds nothing out."""
        return False

    def pinned(self) -> "Snapshots":
        """The same with the digest of its guide.

        Raises:
            ConfigError: There is no such policy.
        """
        if self.weights or not self.probability:
            return self
        return replace(self, weights=final_weights(self.guide, NAME))

    def wrap(self, environment: Env, stage: Stage) -> Env:
        """Return the environment with start states of the guide, where it trains.

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
    """An environment whose episodes may begin in the middle of the guide's."""

    resets_again = True

    def __init__(self, env: Env, guide: Guide, settings: Snapshots) -> None:
        super().__init__(env)
        self._guide: Guide | None = guide
        self._settings = settings
        self._trajectories: list[tuple[int, list[Any]]] = []
        self._places: NDArray[np.int64] = np.empty((0, 2), dtype=np.int64)
        self._members: list[NDArray[np.int64]] = []
        self._left: int | None = None
        self._steps = 0

    def reset(self, **settings: Any) -> tuple[Any, dict[str, Any]]:
        """Reset as the task does, or to a snapshot that is drawn."""
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
        return self._reached(int(trajectory), int(step))

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step; an episode from a snapshot may be cut."""
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
        """Go where the guide was; what is drawn afterwards is drawn by our own generator again."""
        bare = self.env.unwrapped
        generator = bare.np_random
        seed, actions = self._trajectories[trajectory]
        observation, info = self.env.reset(seed=seed)
        for action in actions[:step]:
            observation, _, terminated, truncated, info = self.env.step(action)
            if terminated or truncated:
                # An environment that does not repeat itself begins as its task does.
                bare.np_random = generator
                return self.env.reset()
        bare.np_random = generator
        return observation, info

    def _explore(self, guide: Guide) -> None:
        """Let the guide play, and keep its actions and where the snapshots are."""
        numbers = np.random.SeedSequence(self._settings.seed).generate_state(
            self._settings.trajectories
        )
        places: list[tuple[int, int]] = []
        seen: list[Any] = []
        for number, seed in enumerate(map(int, numbers)):
            actions, observations = self._trajectory(guide, seed)
            self._trajectories.append((seed, actions))
            # The last step of a trajectory leads to its end, from where nothing can begin.
            steps = range(self._settings.every, len(actions), self._settings.every)
            places += [(number, step) for step in steps]
            seen += [observations[step] for step in steps]
        self._places = np.asarray(places, dtype=np.int64).reshape(-1, 2)
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
        """Numbers of snapshots by cluster; of one cluster where all are alike."""
        everything = np.arange(len(seen))
        if self._settings.choice == "uniform" or len(seen) < 2:
            return [everything]
        from scipy.cluster.vq import kmeans2

        flat = np.stack([np.asarray(each, dtype=np.float64).ravel() for each in seen])
        spread = flat.std(axis=0)
        scaled = (flat - flat.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        count = min(self._settings.clusters, len(np.unique(scaled, axis=0)))
        generator = np.random.default_rng(self._settings.seed)
        _, labels = kmeans2(scaled, count, minit="++", seed=generator)
        groups = [everything[labels == label] for label in range(count)]
        return [group for group in groups if group.size]
