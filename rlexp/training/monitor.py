"""Watches one environment: seeds it, measures episodes, and stops bad numbers at the border."""

import math
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from stable_baselines3.common.monitor import Monitor

from rlexp.environments import MEASURES
from rlexp.errors import EnvironmentFault

Env = gym.Env[Any, Any]
_ARRAY = np.ndarray
FAULT = "rlexp_fault"
"""Key of an info dictionary under which an environment in another process hands over an error."""


class RewardTap(gym.Wrapper[Any, Any, Any, Any]):
    """Innermost wrapper: sums the task's own reward, which no other wrapper has shaped."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.since_last_look = 0.0

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step and add up."""
        result = self.env.step(action)
        try:  # noqa: SIM105  # a context manager costs as much as a step of CartPole
            self.since_last_look += float(result[1])
        except (TypeError, ValueError):
            pass  # What is no number is named by the outermost wrapper, which knows the step.
        return result

    def look(self) -> float:
        """The reward since the last look."""
        reward, self.since_last_look = self.since_last_look, 0.0
        return reward


class WatchedEnvironment(Monitor):
    """Outermost wrapper: hands out our seed once, checks every number, logs every episode.

    An episode's return is the sum of the task's own reward. Monitor's files and the `episode`
    entry of the info dictionary stay as stable-baselines3 users know them.
    """

    def __init__(
        self, env: Env, tap: RewardTap, seed: int, *, filename: str | None, defer: bool
    ) -> None:
        """Wrap `env`.

        Args:
            env: The environment with all its wrappers.
            tap: The innermost of them.
            seed: Handed to the first reset, whatever others pass.
            filename: Where to write `monitor.csv`, or nowhere.
            defer: Report faults in the info dictionary instead of raising them, for an
                environment in another process, whose exceptions would be lost.
        """
        super().__init__(env, filename, allow_early_resets=True)
        self._tap = tap
        self._seed: int | None = seed
        self._defer = defer
        self._fault: Exception | None = None
        self._observation: Any = None
        # The last array of actions, and all actions of the present episode, arrays as bytes.
        self._action: Any = None
        self._past: deque[Any] | None = None
        box = isinstance(env.observation_space, gym.spaces.Box)
        self._shape = env.observation_space.shape if box else None

    def reseed(self, seed: int) -> None:
        """Hand `seed` to the next reset."""
        self._seed = seed

    def deal(self, position: int, of: int) -> None:
        """Let what plays a fixed list of situations play every `of`-th of them, from `position` on."""
        if self.env.has_wrapper_attr("deal"):
            self.env.get_wrapper_attr("deal")(position, of)

    def reset(self, **settings: Any) -> tuple[Any, dict[str, Any]]:
        """Reset with our own seed, the first time, and with none after that."""
        settings["seed"], self._seed = self._seed, None
        try:
            observation, info = super().reset(**settings)
            self._check("reset", observation, 0.0)
        except Exception as error:  # noqa: BLE001
            info = self._hand_over(error, "reset")
            return self.observation_space.sample(), info
        self._tap.look()
        self._observation = observation
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step, check, and close the episode's books at its end."""
        if self._fault is not None:
            return self.observation_space.sample(), 0.0, False, True, {FAULT: self._fault}
        if (past := self._past) is not None:
            if type(action) is _ARRAY:
                self._action = action
                past.append(action.tobytes())
            else:
                past.append(action)
        try:
            observation, reward, terminated, truncated, info = self.env.step(action)
            own = self._tap.look()
            self._check("step", observation, reward, own)
            if terminated or truncated:
                self._check_measures(info.get(MEASURES, {}))
        except Exception as error:  # noqa: BLE001
            info = self._hand_over(error, "step")
            return self.observation_space.sample(), 0.0, False, True, info
        self.rewards.append(own)
        self._observation = observation
        self.total_steps += 1
        if terminated or truncated:
            self._close_episode(info)
        return observation, reward, terminated, truncated, info

    def close(self) -> None:
        """Close the environment, and the file whatever that does."""
        try:
            self.env.close()
        finally:
            if self.results_writer is not None:
                self.results_writer.close()

    def _close_episode(self, info: dict[str, Any]) -> None:
        self.needs_reset = True
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
        """Whether a plain array is as declared, at a fraction of the cost of saying what is wrong."""
        return (
            type(observation) is np.ndarray
            and observation.shape == self._shape
            and (observation.dtype.kind != "f" or bool(np.isfinite(observation).all()))
        )

    def _hand_over(self, error: Exception, where: str) -> dict[str, Any]:
        """Raise what went wrong, or put it into an info dictionary."""
        fault = self._named(error, where)
        if not self._defer:
            raise fault from error
        self._fault = fault
        return {FAULT: fault}

    def _named(self, error: Exception, where: str) -> Exception:
        line = " ".join(f"{type(error).__name__}: {error}".split())
        match error:
            case EnvironmentFault():
                return error
            case MemoryError():
                return MemoryError(line)
            case _:
                return EnvironmentFault(f"{where} {self.total_steps}: {line}")


class EvaluatedEnvironment(WatchedEnvironment):
    """A watched environment that plays as many episodes as are wanted of it, and then rests.

    A vector steps all of its environments until the last of them is through, and resets each at
    the end of an episode. One that rests simulates nothing: it shows its last observation again.
    """

    _episodes_left = 0

    def play(self, episodes: int) -> None:
        """Play so many episodes from the next reset on, then rest; `reset` begins each of them."""
        self._episodes_left = episodes

    def reset(self, **settings: Any) -> tuple[Any, dict[str, Any]]:
        """Begin the next episode, if there is one."""
        if self._episodes_left:
            return super().reset(**settings)
        return self._rest(), {}

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Go on with the episode, if there is one."""
        if not self._episodes_left:
            return self._rest(), 0.0, False, False, {}
        result = super().step(action)
        if result[2] or result[3]:
            self._episodes_left -= 1
        return result

    def _rest(self) -> Any:
        """What a policy gets to see that acts for nothing."""
        if self._observation is None:
            self._observation = self.observation_space.sample()
        return self._observation


def _fault_of(value: Any, space: gym.Space[Any], path: str) -> str | None:
    """What is wrong with an observation, naming the field, or nothing."""
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
