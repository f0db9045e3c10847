"""Wrappers that seed an environment, record its episodes and refuse invalid numbers."""

import math
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from stable_baselines3.common.monitor import Monitor

from rlexp.environments import MEASURES
from rlexp.errors import EnvironmentFault

Env = gym.Env[Any, Any]
_ARRAY = np.ndarray
FAULT = "rlexp_fault"
"""Key of the info dictionary in which an environment in another process reports an error."""


class RewardTap(gym.Wrapper[Any, Any, Any, Any]):
    """Innermost wrapper: sums the task's own reward, before any other wrapper changes it."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.since_last_look = 0.0

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step, and add the reward to the sum."""
        result = self.env.step(action)
        try:  # noqa: SIM105  # a context manager costs as much as a step of CartPole
            self.since_last_look += float(result[1])
        except (TypeError, ValueError):
            pass  # The outermost wrapper reports a reward that is not a number, with its step.
        return result

    def look(self) -> float:
        """Return the sum of rewards since the last call, and reset it."""
        reward, self.since_last_look = self.since_last_look, 0.0
        return reward


class WatchedEnvironment(Monitor):
    """Outermost wrapper: seeds the first reset, checks every number, records every episode.

    The return of an episode is the sum of the task's own reward. Monitor's files and the `episode`
    entry of the info dictionary have the format of stable-baselines3.
    """

    def __init__(
        self, env: Env, tap: RewardTap, seed: int, *, filename: str | None, defer: bool
    ) -> None:
        """Wrap `env`.

        Args:
            env: The environment with all its wrappers.
            tap: The innermost of these wrappers.
            seed: Seed of the first reset; seeds that callers pass are ignored.
            filename: Path prefix of `monitor.csv`, or None to write no file.
            defer: Whether to report faults in the info dictionary instead of raising them, for
                an environment in another process, whose exceptions would be lost.
        """
        # Evaluations and the replay check also reset within an episode.
        super().__init__(env, filename, allow_early_resets=True)
        self._tap = tap
        self._seed: int | None = seed
        self._defer = defer
        self._fault: Exception | None = None
        self._observation: Any = None
        # The last array of actions, and all actions of the current episode, with arrays as bytes.
        self._action: Any = None
        self._past: deque[Any] | None = None
        box = isinstance(env.observation_space, gym.spaces.Box)
        self._shape = env.observation_space.shape if box else None

    def reseed(self, seed: int) -> None:
        """Use `seed` for the next reset."""
        self._seed = seed

    def deal(self, position: int, of: int) -> None:
        """Let a wrapper with a list of contexts play every `of`-th from `position` on."""
        if self.env.has_wrapper_attr("deal"):
            self.env.get_wrapper_attr("deal")(position, of)

    def reset(self, **settings: Any) -> tuple[Any, dict[str, Any]]:
        """Reset, with this wrapper's seed the first time and without a seed afterwards.

        Vectors of stable-baselines3 pass `seed + i`, and such seeds overlap between runs.
        """
        settings["seed"], self._seed = self._seed, None
        try:
            observation, info = super().reset(**settings)
            self._check("reset", observation, 0.0)
        except Exception as error:  # noqa: BLE001
            info = self._report_fault(error, "reset")
            return self.observation_space.sample(), info
        # A wrapper may step within a reset: such rewards are part of no episode.
        self._tap.look()
        self._observation = observation
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step, check every number, and record the episode when it ends."""
        # A faulty environment is stepped no more, but its vector still expects valid results.
        if self._fault is not None:
            return self.observation_space.sample(), 0.0, False, True, {FAULT: self._fault}
        # The caller may reuse its array, so the log keeps bytes.
        if (past := self._past) is not None:
            if type(action) is _ARRAY:
                self._action = action
                past.append(action.tobytes())
            else:
                past.append(action)
        # Counted before it is taken: a fault in the first step is one at step 1.
        self.total_steps += 1
        try:
            observation, reward, terminated, truncated, info = self.env.step(action)
            task_reward = self._tap.look()
            self._check("step", observation, reward, task_reward)
            if terminated or truncated:
                self._check_measures(info.get(MEASURES, {}))
        except Exception as error:  # noqa: BLE001
            info = self._report_fault(error, "step")
            return self.observation_space.sample(), 0.0, False, True, info
        self.rewards.append(task_reward)
        self._observation = observation
        if terminated or truncated:
            self.end_episode(info)
        return observation, reward, terminated, truncated, info

    @property
    def resting(self) -> bool:
        """Whether a step simulates nothing."""
        return False

    @property
    def observation(self) -> Any:
        """The last observation, or None before the first reset."""
        return self._observation

    def receive_steps(
        self, actions: Sequence[Any], rewards: Sequence[float], observation: Any
    ) -> None:
        """Record steps of the current episode that a vector has computed for this environment.

        Args:
            actions: The action of each step.
            rewards: The task's own reward of each step.
            observation: The observation after the last step.
        """
        if self._past is not None and type(actions[-1]) is _ARRAY:
            self._action = actions[-1]
            self._past.extend(action.tobytes() for action in actions)
        elif self._past is not None:
            self._past.extend(actions)
        self.total_steps += len(rewards)
        self.rewards.extend(rewards)
        self._observation = observation

    def close(self) -> None:
        """Close the environment, then the file, even if the environment raises an error."""
        try:
            self.env.close()
        finally:
            if self.results_writer is not None:
                self.results_writer.close()

    def end_episode(self, info: dict[str, Any]) -> None:
        """Record the end of an episode, also in the info dictionary of its last step."""
        self.needs_reset = True
        # `fsum` is exact, so that a return does not depend on the order of rounding.
        episode = {"r": math.fsum(self.rewards), "l": len(self.rewards)}
        episode["t"] = round(time.time() - self.t_start, 6)
        self.episode_returns.append(episode["r"])
        self.episode_lengths.append(int(episode["l"]))
        self.episode_times.append(episode["t"])
        if self.results_writer is not None:
            self.results_writer.write_row({**episode, **self.current_reset_info})
        info["episode"] = episode

    def _check(self, where: str, observation: Any, *rewards: SupportsFloat) -> None:
        if not self._is_good(observation) and (
            fault := _fault_of(observation, self.env.observation_space, "observation")
        ):
            raise EnvironmentFault(f"{where} {self.total_steps}: {fault}")
        for reward in rewards:
            if type(reward) is not float and np.ndim(reward) != 0:  # type: ignore[arg-type]
                raise EnvironmentFault(f"{where} {self.total_steps}: reward is no single number")
            if not math.isfinite(reward):
                raise EnvironmentFault(f"{where} {self.total_steps}: reward is {reward}")

    def _check_measures(self, measures: Mapping[str, float]) -> None:
        for name, value in measures.items():
            if not math.isfinite(value):
                raise EnvironmentFault(f"step {self.total_steps}: measure {name} is {value}")

    def _is_good(self, observation: Any) -> bool:
        """Whether an array has the declared shape and is finite; much faster than `_fault_of`."""
        return (
            type(observation) is np.ndarray
            and observation.shape == self._shape
            and (observation.dtype.kind != "f" or bool(np.isfinite(observation).all()))
        )

    def _report_fault(self, error: Exception, where: str) -> dict[str, Any]:
        """Raise a fault, or return it in an info dictionary if faults are deferred."""
        fault = self._as_fault(error, where)
        if not self._defer:
            raise fault from error
        self._fault = fault
        return {FAULT: fault}

    def _as_fault(self, error: Exception, where: str) -> Exception:
        line = " ".join(f"{type(error).__name__}: {error}".split())
        match error:
            case EnvironmentFault():
                return error
            case MemoryError():
                return MemoryError(line)
            case _:
                return EnvironmentFault(f"{where} {self.total_steps}: {line}")


class EvaluatedEnvironment(WatchedEnvironment):
    """A watched environment that plays a given number of episodes and then rests.

    A vector steps all its environments until the last one has played its episodes, and resets each
    at the end of an episode. An environment at rest simulates nothing and repeats its last
    observation.
    """

    _episodes_left = 0

    def play(self, episodes: int) -> None:
        """Play `episodes` episodes from the next reset on, then rest."""
        self._episodes_left = episodes

    def reset(self, **settings: Any) -> tuple[Any, dict[str, Any]]:
        """Begin the next episode, or rest."""
        if self._episodes_left:
            return super().reset(**settings)
        return self._rest(), {}

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step the current episode, or rest."""
        if not self._episodes_left:
            return self._rest(), 0.0, False, False, {}
        return super().step(action)

    @property
    def resting(self) -> bool:
        """Whether all episodes are played."""
        return not self._episodes_left

    def end_episode(self, info: dict[str, Any]) -> None:
        """Record the end of an episode; after the last one, the environment rests."""
        super().end_episode(info)
        self._episodes_left -= 1

    def _rest(self) -> Any:
        """Return the last observation, or any observation if there was no episode yet."""
        if self._observation is None:
            self._observation = self.observation_space.sample()
        return self._observation


def _fault_of(value: Any, space: gym.Space[Any], path: str) -> str | None:
    """Return the fault of an observation with the path of the field, or None."""
    if isinstance(space, gym.spaces.Dict):
        return _first(value, space.spaces.items(), path, lambda v, k: k in v)
    if isinstance(space, gym.spaces.Tuple):
        return _first(value, enumerate(space.spaces), path, lambda v, k: k < len(v))
    array = np.asarray(value)
    if array.shape != (space.shape or ()):
        return f"{path} has shape {array.shape}, declared is {space.shape or ()}"
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        where = [int(i) for i in np.argwhere(~np.isfinite(array))[0]]
        entry = f"{path}{where or ''}"
        return f"{entry} is {array[tuple(where)]}"
    return None


def _first(value: Any, parts: Any, path: str, holds: Any) -> str | None:
    for key, space in parts:
        if not holds(value, key):
            return f"{path}[{key!r}] is missing"
        if fault := _fault_of(value[key], space, f"{path}[{key!r}]"):
            return fault
    return None
