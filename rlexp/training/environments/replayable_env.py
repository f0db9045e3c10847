"""An environment whose state can be captured as a log of its episode and restored by replay."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from rlexp.environments.run_teacher import PLAN_TASK
from rlexp.training.environments.env_attributes import (
    compare_attributes,
    read_attributes,
    restore_numbers,
)
from rlexp.training.environments.episode_log import EpisodeLog, NotReplayable, digest, in_one_line
from rlexp.training.environments.monitor import Env, RewardTap, WatchedEnvironment
from rlexp.training.environments.rng_state import wrapper_stack

ACTED, ACTS_AS = "acted", "acts_as"
"""Attributes of wrappers: how often one has changed the training, and its kind and name in reports."""
REASON = "reason"
"""Key of a state that cannot be restored; its value says why."""
TASK = "task"
"""Key of a state whose episode has a task from the teacher of the run."""
WHEN_REPLAYED = "when its episode is replayed"


class ReplayableEnvironment(WatchedEnvironment):
    """A watched environment for training that logs its current episode."""

    def __init__(
        self, env: Env, tap: RewardTap, seed: int, *, filename: str | None, defer: bool
    ) -> None:
        """Wrap `env` as a `WatchedEnvironment` does.

        An environment that defers faults runs in a separate process, so that the global generators
        of that process belong to its state.
        """
        super().__init__(env, tap, seed, filename=filename, defer=defer)
        self._log = EpisodeLog(env, own_process=defer)
        self._layers = wrapper_stack(env)
        # The task of the current episode, where the teacher of the run chooses it.
        self._task: Any = None
        self._waits = False

    def plan_episode(self, task: Any) -> None:
        """Receive the task of the episode that the next reset begins (dimensions)."""
        self.env.get_wrapper_attr(PLAN_TASK)(task)
        self._task, self._waits = np.array(task, dtype=np.float64), False

    def begin_episode(self, task: Any) -> tuple[Any, dict[str, Any]]:
        """Begin an episode with a task (dimensions)."""
        self.plan_episode(task)
        return self.reset()

    def reset(self, **settings: Any) -> tuple[Any, dict[str, Any]]:
        """Reset, and start a new episode log.

        Once tasks are planned, a reset without a new one waits for it: the vector resets an
        environment before the teacher has heard of the episode.
        """
        if self._waits:
            return self._observation, {}
        self._waits = self._task is not None
        # Before the reset, which uses up the seed and draws from the generators.
        self._past = self._log.begin(self._seed)
        return super().reset(**settings)

    def acts(self) -> dict[str, int]:
        """How often each component has acted, of those with a counter `acted`, by kind and name."""
        counts: dict[str, int] = {}
        for layer in self._layers:
            count = getattr(layer, ACTED, None) if ACTS_AS in vars(type(layer)) else None
            if count is not None:
                name = getattr(layer, ACTS_AS)
                counts[name] = counts.get(name, 0) + int(count)
        return counts

    def env_state(self) -> dict[str, Any]:
        """Return the log that leads to the present state, or a `reason` why there is none.

        The log holds the seed, the generator states before the reset and now, the actions since
        (steps × shape of an action), the task's own rewards (steps), a digest of the present
        observation, digests of the attributes of all layers, and the number of steps of all
        episodes.
        """
        if self._fault is not None or self.needs_reset:
            return {REASON: "it is not within an episode"}
        try:
            return {
                **self._log.as_dict(self._action),
                **({} if self._task is None else {TASK: self._task}),
                "rewards": np.asarray(self.rewards, dtype=np.float64),
                "observation": digest(self._observation),
                "attributes": self._attributes(),
                "total_steps": self.total_steps,
            }
        except Exception as error:  # noqa: BLE001
            return {REASON: in_one_line(error)}

    def resume(
        self,
        env_state: dict[str, Any],
        limit: float,
        *,
        beat: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> str | None:
        """Replay a logged episode in this fresh environment.

        Args:
            env_state: The result of `env_state` of an environment with the same configuration.
            limit: Seconds that the replay may take.
            beat: Called at every step; its exceptions are passed on.
            clock: Returns monotonic seconds.

        Returns:
            The reason why the reached state differs from the logged state, or None.
        """
        deadline = clock() + limit
        actions = env_state["actions"].copy()
        try:
            self._begin_again(env_state)
            for number, action in enumerate(actions, 1):
                beat()
                self._replay_step(action, number)
                if clock() > deadline:
                    done = f"{number} of {len(actions)} steps"
                    return f"its episode takes too long to replay: {done} were done"
            self._compare(env_state)
        except NotReplayable as error:
            return str(error)
        return None

    def _begin_again(self, env_state: dict[str, Any]) -> None:
        """Reset with the seed of the run, then with the generators of the logged episode."""
        self._seed = env_state["seed"]
        try:
            # Only the first episode was reset with the seed; environments may build parts of their
            # state at that reset, so it comes first for every later episode too.
            if not env_state["seeded"]:
                self._plan_again(env_state)
                self.reset()
            self._plan_again(env_state)
            self._log.restore_generators(env_state["before"])
            self.reset()
        except Exception as error:
            raise NotReplayable(in_one_line(error)) from error
        if self._fault is not None:
            raise NotReplayable(in_one_line(self._fault))

    def _plan_again(self, env_state: dict[str, Any]) -> None:
        if TASK in env_state:
            self.plan_episode(env_state[TASK])

    def _replay_step(self, action: Any, number: int) -> None:
        """Take a logged step again, without a line in Monitor's file."""
        assert self._past is not None
        self._action = action
        # The next checkpoint of this attempt needs the whole episode, with its replayed part.
        self._past.append(action.tobytes() if isinstance(action, np.ndarray) else action)
        try:
            self._observation, _, terminated, truncated, _ = self.env.step(action)
        except Exception as error:
            raise NotReplayable(in_one_line(error)) from error
        self.rewards.append(self._tap.look())
        if terminated or truncated:
            raise NotReplayable(f"its episode ends at step {number} when it is replayed")

    def _compare(self, env_state: dict[str, Any]) -> None:
        """Compare rewards, observation, generators and attributes with the log, bit by bit."""
        # As integers, so that NaN equals NaN and 0.0 differs from -0.0.
        rewards = np.asarray(self.rewards, dtype=np.float64).view(np.int64)
        differing = np.flatnonzero(rewards != env_state["rewards"].view(np.int64))
        if differing.size:
            raise NotReplayable(f"the reward of step {differing[0] + 1} differs {WHEN_REPLAYED}")
        if digest(self._observation) != env_state["observation"]:
            where = f"after step {len(self.rewards)}"
            raise NotReplayable(f"the observation {where} differs {WHEN_REPLAYED}")
        self._log.check(env_state["now"])
        # Counters over all episodes cannot be replayed: set them, then compare the rest.
        restore_numbers(self._layers, self._attributes(), env_state["attributes"])
        compare_attributes(self._attributes(), env_state["attributes"])
        self.total_steps = env_state["total_steps"]

    def _attributes(self) -> dict[str, str]:
        return read_attributes(self._layers, (RewardTap,))
