"""Whether the rewards of a task can be computed again for another goal."""

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import gymnasium

GOAL_KEYS = ("observation", "achieved_goal", "desired_goal")
"""Entries of an observation of a task with goals."""
STEPS = 5
"""Steps that are played to compare rewards."""
SEED = 0
"""The seed of these steps: the result of a check must not change from call to call."""


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
    made.action_space.seed(SEED)
    made.reset(seed=SEED)
    for _ in range(STEPS):
        observation, reward, terminated, truncated, info = made.step(made.action_space.sample())
        achieved.append(np.array(observation["achieved_goal"]))
        desired.append(np.array(observation["desired_goal"]))
        rewards.append(float(reward))
        infos.append(info)
        if terminated or truncated:
            made.reset()
    return np.stack(achieved), np.stack(desired), np.asarray(rewards), infos
