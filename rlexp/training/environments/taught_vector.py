"""The vector of environments whose tasks one teacher chooses, for every episode of a run."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from rlexp.environments.run_teacher import LESSON, TASK_BOX, Array, RunTeacher, ValuedRollout
from rlexp.training.environments.episode_log import NotReplayable
from rlexp.training.environments.rng_state import to_plain_tree
from rlexp.training.environments.subprocess_vec_env import ForkedVecEnv, raise_fault

BEGIN_EPISODE = "begin_episode"
"""Method of an environment that begins an episode with a task."""


class TaughtVector(VecEnvWrapper):
    """Asks the teacher for the task of each episode, once it has heard of all that ended before.

    An environment of the vector waits after its last step until it is given a task, so that the
    teacher hears of the same episodes in the same order, in whichever process environments are.
    """

    def __init__(self, venv: VecEnv, teacher: RunTeacher, seed: int) -> None:
        """Begin the lessons of a run.

        Args:
            venv: The vector of environments, without normalisation.
            teacher: The teacher.
            seed: Seed of the generator that the teacher draws from.
        """
        super().__init__(venv)
        ((low, high),) = venv.get_attr(TASK_BOX, indices=0)
        self.generator = np.random.default_rng(seed)
        self.lessons = teacher.begin(low, high, self.generator)
        # Of each environment: the tasks of its episodes since the last rollout began.
        self._tasks: list[list[Array]] = [[] for _ in range(venv.num_envs)]

    @property
    def hears_rollouts(self) -> bool:
        """Whether the teacher hears of rollouts."""
        return hasattr(self.lessons, "hear_rollout")

    def reset(self) -> VecEnvObs:
        """Begin an episode in every environment; episodes that are cut are not told."""
        for position in range(self.num_envs):
            task = self.lessons.propose()
            self._tasks[position] = [task]
            self.venv.env_method("plan_episode", task, indices=position)
        return self.venv.reset()

    def step_wait(self) -> VecEnvStepReturn:
        """Step, tell the teacher of all episodes that have ended, and begin as many."""
        observations, rewards, dones, infos = self.venv.step_wait()
        ended = np.flatnonzero(dones).tolist()
        for position in ended:
            self._tell(infos[position].pop(LESSON, None), infos[position])
        if ended:
            tasks = [self.lessons.propose() for _ in ended]
            self._note(ended, tasks)
            begun = _begin_episodes(self.venv, ended, tasks)
            for position, (observation, _) in zip(ended, begun, strict=True):
                _put(observations, position, observation)
        return observations, rewards, dones, infos

    def _note(self, positions: Sequence[int], tasks: Sequence[Array]) -> None:
        """Keep the tasks of episodes that begin; only the newest, if nothing hears of rollouts."""
        for position, task in zip(positions, tasks, strict=True):
            past = self._tasks[position] if self.hears_rollouts else []
            self._tasks[position] = [*past, task]

    def hear_rollout(self, model: Any, rewards: NDArray[np.float32]) -> None:
        """Tell the teacher of a rollout that has ended.

        Args:
            model: The learner, whose rollout buffer is full.
            rewards: The rewards of the rollout (steps × environments).
        """
        buffer = model.rollout_buffer
        rollout = ValuedRollout(
            tasks=self._tasks,
            starts=buffer.episode_starts.astype(bool),
            rewards=rewards,
            values=buffer.values.copy(),
            advantages=buffer.advantages.copy(),
            ended=np.asarray(model._last_episode_starts, dtype=bool),  # noqa: SLF001
            discount=float(model.gamma),
        )
        self.lessons.hear_rollout(rollout)  # type: ignore[attr-defined]
        self._tasks = [tasks[-1:] for tasks in self._tasks]

    def _tell(self, lesson: tuple[Array, float | None] | None, info: dict[str, Any]) -> None:
        if lesson is None:
            return
        task, outcome = lesson
        if outcome is not None and np.isfinite(outcome):
            if hasattr(self.lessons, "count_steps"):
                self.lessons.count_steps(int(info["episode"]["l"]))
            self.lessons.learn(task, outcome)

    @property
    def acted(self) -> int | None:
        """How often outcomes have changed what is proposed; None for a teacher that does not count it."""
        return getattr(self.lessons, "acted", None)

    @property
    def counts(self) -> dict[str, int]:
        """Further numbers of what the teacher did, by name."""
        return dict(getattr(self.lessons, "counts", {}))

    def state(self) -> dict[str, Any]:
        """Return the state of the teacher and of its generator, copied.

        Raises:
            NotReplayable: The teacher cannot say its state.
        """
        kind = type(self.lessons).__name__
        if not (hasattr(self.lessons, "state") and hasattr(self.lessons, "restore")):
            raise NotReplayable(f"{kind} of the teacher has no state() and restore()")
        lessons = to_plain_tree(self.lessons.state())
        tasks = [[task.copy() for task in episodes] for episodes in self._tasks]
        generator = self.generator.bit_generator.state
        return {"generator": generator, "lessons": lessons, "tasks": tasks}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from the result of `state`."""
        self.lessons.restore(state["lessons"])
        self.generator.bit_generator.state = state["generator"]
        self._tasks = [[task.copy() for task in episodes] for episodes in state["tasks"]]


class TellingRollouts(BaseCallback):
    """Tells the teacher of a run of each rollout."""

    def __init__(self, vector: TaughtVector) -> None:
        super().__init__()
        self._vector = vector
        self._rewards: list[NDArray[np.float32]] = []

    def _on_rollout_start(self) -> None:
        self._rewards.clear()

    def _on_step(self) -> bool:
        # The buffer adds the estimated value of the last observation to the reward before a time limit.
        self._rewards.append(np.array(self.locals["rewards"], dtype=np.float32))
        return True

    def _on_rollout_end(self) -> None:
        self._vector.hear_rollout(self.model, np.stack(self._rewards))


def taught_vector(vector: VecEnv | None) -> TaughtVector | None:
    """Return the layer of a vector in which the teacher of the run is, or None."""
    while isinstance(vector, VecEnvWrapper):
        if isinstance(vector, TaughtVector):
            return vector
        vector = vector.venv
    return None


def _begin_episodes(
    vector: VecEnv, positions: Sequence[int], tasks: Sequence[Array]
) -> list[tuple[Any, dict[str, Any]]]:
    """Begin an episode in some environments; returns each first observation and its info."""
    if isinstance(vector, ForkedVecEnv):
        begun = vector.call_each(BEGIN_EPISODE, positions, tasks)
        raise_fault([info for _, info in begun])
        return begun
    pairs = zip(positions, tasks, strict=True)
    return [vector.env_method(BEGIN_EPISODE, task, indices=i)[0] for i, task in pairs]


def _put(observations: Any, position: int, observation: Any) -> None:
    """Write the observation of one environment into those of the vector."""
    if isinstance(observations, dict):
        for key, stacked in observations.items():
            stacked[position] = observation[key]
    elif isinstance(observations, tuple):
        for stacked, part in zip(observations, observation, strict=True):
            stacked[position] = part
    else:
        observations[position] = observation
