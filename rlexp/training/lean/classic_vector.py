"""A vector that steps its environments of classic control at once, and keeps them as they would be.

The environments stay what `DummyVecEnv` holds: every reset, every recorded episode and every other
call goes through them, with their own generators. Only their steps are computed together. Before
anything but a step touches an environment, it receives the state, the counters and the log of the
steps since.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium.wrappers import OrderEnforcing, TimeLimit
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import DummyVecEnv
from stable_baselines3.common.vec_env.base_vec_env import (
    VecEnvIndices,
    VecEnvObs,
    VecEnvStepReturn,
)

from rlexp.training.environments.monitor import Env, RewardTap, WatchedEnvironment
from rlexp.training.lean.classic_control import Dynamics, Outcome, dynamics_of

MOST_ROWS = 1024
"""Steps that are kept outside of the environments."""
BEAT_STEPS = 16
"""Steps between two heartbeats while episodes are played: about half a millisecond."""
Acting = Callable[[NDArray[np.float32]], NDArray[Any]]


class ClassicControlVector(DummyVecEnv):
    """A `DummyVecEnv` of watched environments whose steps NumPy computes at once."""

    envs: list[WatchedEnvironment]  # type: ignore[assignment]

    def __init__(
        self, members: Sequence[WatchedEnvironment], dynamics: Dynamics, limit: int
    ) -> None:
        """Make the vector.

        Args:
            members: The environments.
            dynamics: The steps of these environments.
            limit: Steps after which an episode is truncated.
        """
        count = len(members)
        self._dynamics, self._limit = dynamics, limit
        self._actions: list[NDArray[Any]] = []
        self._rewards: list[NDArray[np.float64]] = []
        # Of each environment: the first row of the step log that it has not received yet.
        self._received = [0] * count
        self._elapsed = np.zeros(count, dtype=np.int64)
        self._playing = np.ones(count, dtype=bool)
        self._states = np.zeros((count, dynamics.size))
        self._observations = np.zeros((count, 0), dtype=np.float32)
        # Last, because it asks the environments for their render mode.
        super().__init__(factories(members))
        self._bares: list[Any] = [env.unwrapped for env in self.envs]
        self._time_limits: list[Any] = [env.env.env for env in self.envs]  # type: ignore[attr-defined]

    def reset(self) -> VecEnvObs:
        """Reset every environment."""
        self._hand_over()
        observations = super().reset()
        self._take_back()
        return observations

    def step_wait(self) -> VecEnvStepReturn:
        """Step every environment that is not at rest."""
        outcome = self._dynamics.step(self._states, self.actions)
        # A sum is no finite number where an entry is none.
        if not np.isfinite(outcome.observations.sum() + outcome.rewards.sum()):
            return self._step_each()
        rewards = self._record(outcome)
        infos: list[dict[str, Any]] = [
            {"TimeLimit.truncated": False} for _ in range(self.num_envs)
        ]
        dones = self._end_episodes(outcome.terminated, infos)
        self._hand_over_many()
        return self._observations.copy(), rewards.astype(np.float32), dones, infos

    def play(
        self, act: Acting, beat: Callable[[], object]
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Play until every environment rests: the steps that `reset` and `step` would make.

        Left out is what `step` makes for its caller: copies, and a dictionary for each environment.

        Args:
            act: Returns new arrays of actions for observations (environments × shape).
            beat: Called every `BEAT_STEPS` steps, as a heartbeat.

        Yields:
            For each episode, the position of its environment, and the info dictionary of its last step.
        """
        self.reset()
        while self._playing.any():
            infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
            dones = self._play_until_an_end(act, beat, infos)
            yield from ((position, infos[position]) for position in np.flatnonzero(dones).tolist())

    def _play_until_an_end(
        self, act: Acting, beat: Callable[[], object], infos: list[dict[str, Any]]
    ) -> NDArray[np.bool_]:
        """Play until an episode has ended, or some rows are kept; returns whose episode has ended."""
        rests = None if self._playing.all() else ~self._playing[:, None]
        # Before the first time limit, only a terminal state ends an episode.
        steps = self._limit - int(self._elapsed[self._playing].max())
        for number in range(min(steps, MOST_ROWS - len(self._rewards))):
            self.actions = act(self._observations)
            outcome = self._dynamics.step(self._states, self.actions)
            if not math.isfinite(np.add.reduce(outcome.observations, axis=None)):
                _, _, dones, infos[:] = self._step_each()
                return dones
            if rests is not None:
                np.copyto(outcome.states, self._states, where=rests)
                np.copyto(outcome.observations, self._observations, where=rests)
            self._states, self._observations = outcome.states, outcome.observations
            self._elapsed += self._playing
            self._rewards.append(outcome.rewards)
            self._actions.append(self.actions)
            if number % BEAT_STEPS == 0:
                beat()
            # For few environments, bytes are compared much faster than arrays.
            if b"\x01" in outcome.terminated.tobytes() and outcome.terminated[self._playing].any():
                break
        dones = self._end_episodes(outcome.terminated, infos)
        self._hand_over_many()
        return dones

    def _end_episodes(
        self, terminated: NDArray[np.bool_], infos: list[dict[str, Any]]
    ) -> NDArray[np.bool_]:
        """End the episodes that are over after a step, and return which they are."""
        truncated = self._elapsed >= self._limit
        dones: NDArray[np.bool_] = (terminated | truncated) & self._playing
        if dones.any():
            for position in np.flatnonzero(dones).tolist():
                timed_out = bool(truncated[position] and not terminated[position])
                self._end_episode(position, infos[position], timed_out)
        return dones

    def _record(self, outcome: Outcome) -> NDArray[np.float64]:
        """Take over the results of a step; returns the rewards, 0 of environments at rest."""
        playing, rewards = self._playing, outcome.rewards
        if playing.all():
            self._states, self._observations = outcome.states, outcome.observations
            self._elapsed += 1
        else:
            column = playing[:, None]
            self._states = np.where(column, outcome.states, self._states)
            self._observations = np.where(column, outcome.observations, self._observations)
            self._elapsed += playing
            rewards = np.where(playing, rewards, 0.0)
        self._rewards.append(rewards)
        # A copy, because the caller may reuse its array.
        self._actions.append(self.actions.copy())
        return rewards

    def _end_episode(self, position: int, info: dict[str, Any], timed_out: bool) -> None:
        """Let an environment record its episode and begin the next."""
        last = self._observations[position].copy()
        self._give(position, last)
        env = self.envs[position]
        env.end_episode(info)
        info["TimeLimit.truncated"] = timed_out
        info["terminal_observation"] = last
        observation, self.reset_infos[position] = env.reset()
        self._take(position, observation)

    def _step_each(self) -> VecEnvStepReturn:
        """Step each environment by itself, so that a fault is reported as everywhere."""
        self._hand_over()
        result = super().step_wait()
        self._take_back()
        return result

    def _hand_over_many(self) -> None:
        """Give the environments their steps if these fill the memory that is kept for them."""
        if len(self._rewards) >= MOST_ROWS:
            self._hand_over()

    def _hand_over(self) -> None:
        """Give all environments what they would have recorded by themselves."""
        for position in range(self.num_envs):
            self._give(position, self._observations[position])
        self._actions, self._rewards = [], []
        self._received = [0] * self.num_envs

    def _give(self, position: int, observation: NDArray[np.float32]) -> None:
        first = self._received[position]
        if first == len(self._rewards) or not self._playing[position]:
            return
        actions = [row[position] for row in self._actions[first:]]
        self.envs[position].receive_steps(
            actions,
            # Rewards are added to 0.0 on their way through the wrappers, which turns -0.0 into 0.0.
            [float(row[position]) + 0.0 for row in self._rewards[first:]],
            observation.copy(),
        )
        self._dynamics.write(self._bares[position], self._states[position], actions[-1])
        self._time_limits[position]._elapsed_steps = int(self._elapsed[position])  # noqa: SLF001
        self._received[position] = len(self._rewards)

    def _take_back(self) -> None:
        """Continue from the states of the environments."""
        self._states = np.zeros((self.num_envs, self._dynamics.size))
        shape = self.observation_space.shape or ()
        self._observations = np.zeros((self.num_envs, *shape), dtype=np.float32)
        for position, env in enumerate(self.envs):
            self._take(position, env.observation)

    def _take(self, position: int, observation: NDArray[np.float32] | None) -> None:
        self._received[position] = len(self._rewards)
        self._playing[position] = not self.envs[position].resting
        # An environment without a state was never reset.
        if (state := getattr(self._bares[position], "state", None)) is not None:
            self._states[position] = state
        if observation is not None:
            self._observations[position] = observation
        self._elapsed[position] = self._time_limits[position]._elapsed_steps or 0  # noqa: SLF001

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Return an attribute of each environment."""
        self._hand_over()
        return super().get_attr(attr_name, indices)

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Set an attribute of each environment."""
        self._hand_over()
        super().set_attr(attr_name, value, indices)
        self._take_back()

    def env_method(
        self,
        method_name: str,
        *method_args: Any,
        indices: VecEnvIndices = None,
        **method_kwargs: Any,
    ) -> list[Any]:
        """Call a method of each environment."""
        self._hand_over()
        results = super().env_method(method_name, *method_args, indices=indices, **method_kwargs)
        self._take_back()
        return results


def vector_of(members: Sequence[WatchedEnvironment]) -> DummyVecEnv:
    """Return a vector of these environments; of classic control, one that steps them at once."""
    bares = [_bare_of(member) for member in members]
    limits = {_limit_of(member) for member in members}
    if len(limits) != 1 or None in limits or any(bare is None for bare in bares):
        return DummyVecEnv(factories(members))
    dynamics = dynamics_of([bare for bare in bares if bare is not None])
    (limit,) = limits
    if dynamics is None or limit is None:
        return DummyVecEnv(factories(members))
    return ClassicControlVector(members, dynamics, limit)


def factories(members: Sequence[WatchedEnvironment]) -> list[Callable[[], Env]]:
    """Return a function for each environment that returns it, as `DummyVecEnv` wants them."""
    # `partial` binds each environment early.
    return [partial(_itself, member) for member in members]


def _itself(member: WatchedEnvironment) -> Env:
    return member


def _bare_of(member: WatchedEnvironment) -> Env | None:
    """The environment below exactly the wrappers whose work the vector does, or None."""
    layer: Env = member.env
    for kind in (RewardTap, TimeLimit, OrderEnforcing):
        if type(layer) is not kind:
            return None
        layer = layer.env
    return layer


def _limit_of(member: WatchedEnvironment) -> int | None:
    tap = member.env
    limit = tap.env if isinstance(tap, gymnasium.Wrapper) else None
    return limit._max_episode_steps if type(limit) is TimeLimit else None  # noqa: SLF001
