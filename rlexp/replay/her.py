"""HER: hindsight experience replay, for tasks with goals."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from rlexp.algorithms import Algorithm
from rlexp.algorithms.ranges import Count
from rlexp.environments import Environment
from rlexp.errors import ConfigError
from rlexp.protocol.identity import Identity
from rlexp.replay import BufferChoice
from rlexp.replay.library_buffer import LibraryBuffer, refuse_n_steps, refuse_saved_memory

if TYPE_CHECKING:
    import gymnasium

GOAL_KEYS = ("observation", "achieved_goal", "desired_goal")
"""Entries of an observation of a task with goals."""
REWARD_STEPS = 5
"""Steps that are played to compare rewards."""
REWARD_SEED = 0
"""The seed of these steps: the result of a check must not change from call to call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Her(LibraryBuffer):
    """Hindsight experience replay: a transition is also one towards a goal that was reached later.

    The task's own `compute_reward` gives the reward for the other goal. Settings have the names of the
    library.

    Andrychowicz et al. 2017, Hindsight Experience Replay, arXiv:1707.01495.
    """

    identity: ClassVar = Identity("replay", "her")
    rewritten_bytes: ClassVar[int] = 4
    """The length of a transition's episode."""
    added_bytes: ClassVar[int] = 16
    """The first row and the length of a transition's episode."""

    n_sampled_goal: Count
    """Transitions with another goal for each one with its own goal, in a minibatch."""
    goal_selection_strategy: Literal["future", "final", "episode"]
    """Which reached state becomes the goal: one of the rest of the episode, its last, or any of it."""
    copy_info_dict: bool
    """Whether `compute_reward` receives the `info` of the step, which is then stored."""

    def check(self, algorithm: Algorithm, environments: int, *, dictionary: bool) -> None:
        """Refuse a task whose observations hold no goals, and settings that HER cannot combine.

        Raises:
            ConfigError: Names what is in the way.
        """
        del environments
        if not dictionary:
            raise ConfigError(
                "replay=her needs a task with goals, whose observations are dictionaries with "
                "'achieved_goal' and 'desired_goal': choose such a task (environment=fetch_reach), or "
                "leave replay out",
                key="replay",
            )
        refuse_saved_memory(self, algorithm)
        refuse_n_steps(self, algorithm)

    def check_task(self, environment: Environment, algorithm: Algorithm) -> None:
        """Play some steps, and refuse a task whose rewards are not those of its `compute_reward`.

        Raises:
            ConfigError: Names what the task lacks, or the setting that is too small for its episodes.
        """
        made = environment.make()
        try:
            reason = goal_obstacle(made, with_infos=self.copy_info_dict)
            if reason is not None:
                raise ConfigError(
                    f"replay=her cannot use {environment.task}: {reason}", key="replay"
                )
            _check_stack(environment)
            _check_episode(algorithm, made, environment)
        finally:
            made.close()

    def buffer(self, algorithm: Algorithm, *, dictionary: bool) -> BufferChoice:
        """The library's buffer, in a form that checkpoints can hold."""
        del algorithm, dictionary
        from rlexp.replay.buffers.hindsight import HindsightBuffer

        return BufferChoice(
            kind=HindsightBuffer,
            arguments={
                "n_sampled_goal": self.n_sampled_goal,
                "goal_selection_strategy": self.goal_selection_strategy,
                "copy_info_dict": self.copy_info_dict,
            },
        )


def _check_stack(environment: Environment) -> None:
    if environment.vector.frame_stack > 1:
        raise ConfigError(
            "replay=her cannot use stacked observations, because goals would be stacked too: set "
            "environment.vector.frame_stack=1",
            key="environment.vector.frame_stack",
        )


def _check_episode(
    algorithm: Any, made: "gymnasium.Env[Any, Any]", environment: Environment
) -> None:
    """Refuse settings with which no episode is complete when the first minibatch is drawn."""
    episode, count = longest_episode(made), environment.vector.count
    if episode is None:
        return
    if algorithm.learning_starts < episode * count:
        raise ConfigError(
            f"replay=her learns from complete episodes, and algorithm.learning_starts="
            f"{algorithm.learning_starts} ends before the first one of {environment.task} "
            f"({episode} steps × {count} {'environment' if count == 1 else 'environments'}): set "
            f"algorithm.learning_starts={episode * count} or more",
            key="algorithm.learning_starts",
        )
    if algorithm.buffer_size < 2 * episode * count:
        raise ConfigError(
            f"replay=her keeps complete episodes, and algorithm.buffer_size={algorithm.buffer_size} is "
            f"too small for two of {environment.task} in each environment: set "
            f"algorithm.buffer_size={2 * episode * count} or more",
            key="algorithm.buffer_size",
        )


def goal_obstacle(made: "gymnasium.Env[Any, Any]", *, with_infos: bool) -> str | None:
    """Why hindsight cannot compute the rewards of an environment again; None if it can.

    Args:
        made: The environment, which is played for some steps.
        with_infos: Whether `compute_reward` receives the infos of the steps.
    """
    lacking = [
        key for key in GOAL_KEYS if key not in getattr(made.observation_space, "spaces", {})
    ]
    if lacking:
        return f"its observations lack {', '.join(map(repr, lacking))}"
    if not made.has_wrapper_attr("compute_reward"):
        return "it has no compute_reward(achieved_goal, desired_goal, info)"
    achieved, desired, rewards, infos = _played(made)
    given: Any = np.array(infos, dtype=object) if with_infos else [{} for _ in infos]
    try:
        computed = made.get_wrapper_attr("compute_reward")(achieved, desired, given)
        computed = np.asarray(computed, dtype=np.float64)
    except Exception as error:  # noqa: BLE001 (the code of a task may raise anything)
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return f"its compute_reward fails for several goals at once ({reason})"
    if computed.shape != rewards.shape:
        return (
            f"its compute_reward returns an array of shape {computed.shape} for {len(rewards)} goals: "
            "it must return one reward for each"
        )
    if not np.allclose(computed, rewards, rtol=1e-5, atol=1e-6):
        return (
            "its rewards are not those of its compute_reward, so that transitions with other goals "
            "would have rewards of another kind: leave out what changes rewards (a wrapper, a "
            "component)"
        )
    return None


def longest_episode(made: "gymnasium.Env[Any, Any]") -> int | None:
    """The time limit of an environment in steps; None if it declares none."""
    spec = made.spec
    return None if spec is None else spec.max_episode_steps


def _played(made: "gymnasium.Env[Any, Any]") -> tuple[Any, Any, Any, list[dict[str, Any]]]:
    """Achieved goals, desired goals, rewards and infos of some steps."""
    achieved, desired, rewards, infos = list[Any](), list[Any](), list[float](), list[Any]()
    made.action_space.seed(REWARD_SEED)
    made.reset(seed=REWARD_SEED)
    for _ in range(REWARD_STEPS):
        observation, reward, terminated, truncated, info = made.step(made.action_space.sample())
        achieved.append(np.array(observation["achieved_goal"]))
        desired.append(np.array(observation["desired_goal"]))
        rewards.append(float(reward))
        infos.append(info)
        if terminated or truncated:
            made.reset()
    return np.stack(achieved), np.stack(desired), np.asarray(rewards), infos
