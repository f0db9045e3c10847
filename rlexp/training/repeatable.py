"""An environment that can tell how its present state came about, and repeat what another told."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from rlexp.training.draws import layers
from rlexp.training.environment_fingerprint import (
    compare_attributes,
    put_back_numbers,
    read_attributes,
)
from rlexp.training.memory import EpisodeMemory, NotRepeatable, digest, in_one_line
from rlexp.training.monitor import Env, RewardTap, WatchedEnvironment

REASON = "reason"
"""Key of a situation that cannot be reproduced; its value says why."""
REPEATED = "as its episode is repeated"


class RepeatableEnvironment(WatchedEnvironment):
    """A watched environment that remembers its present episode: for training."""

    def __init__(
        self, env: Env, tap: RewardTap, seed: int, *, filename: str | None, defer: bool
    ) -> None:
        """Wrap `env`, as a watched environment does.

        Where it defers faults it has a process of its own, and the global generators there.
        """
        super().__init__(env, tap, seed, filename=filename, defer=defer)
        self._memory = EpisodeMemory(env, own_process=defer)
        self._layers = layers(env)

    def reset(self, **settings: Any) -> tuple[Any, dict[str, Any]]:
        """Reset, and begin to remember anew."""
        self._past = self._memory.begin(self._seed)
        return super().reset(**settings)

    def situation(self) -> dict[str, Any]:
        """How the present state came about: plain values and arrays, or a `reason` against it.

        It holds the seed, the generators from before the reset and of now, the actions since
        (steps × shape of an action), the task's own rewards (steps), a digest of the present
        observation, what the attributes of all layers hold, and the number of steps of all
        episodes.
        """
        if self._fault is not None or self.needs_reset:
            return {REASON: "it is in no episode"}
        try:
            return {
                **self._memory.tell(self._action),
                "rewards": np.asarray(self.rewards, dtype=np.float64),
                "observation": digest(self._observation),
                "attributes": self._attributes(),
                "total_steps": self.total_steps,
            }
        except Exception as error:  # noqa: BLE001
            return {REASON: in_one_line(error)}

    def resume(
        self,
        situation: dict[str, Any],
        limit: float,
        *,
        beat: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> str | None:
        """Repeat, in a fresh environment, the episode that led to a situation.

        Args:
            situation: What `situation` of another one with the same configuration returned.
            limit: Seconds that it may take.
            beat: Called at every step; what it raises is passed on.
            clock: Seconds since any moment.

        Returns:
            Why the state that was reached is not that of the situation, or nothing.
        """
        deadline = clock() + limit
        actions = situation["actions"].copy()
        try:
            self._begin_again(situation)
            for number, action in enumerate(actions, 1):
                beat()
                self._repeat(action, number)
                if clock() > deadline:
                    done = f"{number} of {len(actions)} steps"
                    return f"its episode takes too long to repeat: {done} were done"
            self._compare(situation)
        except NotRepeatable as error:
            return str(error)
        return None

    def _begin_again(self, situation: dict[str, Any]) -> None:
        """Reset as for the first episode, and then as for the one in question."""
        self._seed = situation["seed"]
        try:
            if not situation["seeded"]:
                self.reset()
            self._memory.put_back(situation["before"])
            self.reset()
        except Exception as error:
            raise NotRepeatable(in_one_line(error)) from error
        if self._fault is not None:
            raise NotRepeatable(in_one_line(self._fault))

    def _repeat(self, action: Any, number: int) -> None:
        """Take a step again; Monitor's file learns nothing of it."""
        assert self._past is not None
        self._action = action
        self._past.append(action.tobytes() if isinstance(action, np.ndarray) else action)
        try:
            self._observation, _, terminated, truncated, _ = self.env.step(action)
        except Exception as error:
            raise NotRepeatable(in_one_line(error)) from error
        self.rewards.append(self._tap.look())
        if terminated or truncated:
            raise NotRepeatable(f"its episode ends at step {number} as it is repeated")

    def _compare(self, situation: dict[str, Any]) -> None:
        """Compare everything with the first time, to the bit."""
        rewards = np.asarray(self.rewards, dtype=np.float64).view(np.int64)
        differing = np.flatnonzero(rewards != situation["rewards"].view(np.int64))
        if differing.size:
            raise NotRepeatable(f"the reward of step {differing[0] + 1} differs {REPEATED}")
        if digest(self._observation) != situation["observation"]:
            where = f"after step {len(self.rewards)}"
            raise NotRepeatable(f"the observation {where} differs {REPEATED}")
        self._memory.check(situation["now"])
        put_back_numbers(self._layers, self._attributes(), situation["attributes"])
        compare_attributes(self._attributes(), situation["attributes"])
        self.total_steps = situation["total_steps"]

    def _attributes(self) -> dict[str, str]:
        return read_attributes(self._layers, (RewardTap,))
