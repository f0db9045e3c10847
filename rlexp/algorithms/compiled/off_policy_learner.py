"""Off-policy learners of stable-baselines3 whose training is a compiled program."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.utils import ConstantSchedule, LinearSchedule

from rlexp.algorithms.compiled.training import CompiledTraining

if TYPE_CHECKING:
    from rlexp.algorithms.compiled.off_policy_program import (
        CompiledLearning,
        OffPolicyProgram,
        OffPolicyState,
    )
    from rlexp.algorithms.compiled.program import ChunkLog, CompiledProgram
    from rlexp.algorithms.compiled.replay import StoredTransitions

MOST_NUMBERS = 1 << 13
"""Ends of episodes that a chunk may report, which limits its rollouts."""
RING = {
    "observations": "observations",
    "following": "next_observations",
    "actions": "actions",
    "rewards": "rewards",
    "dones": "dones",
    "truncations": "timeouts",
}
"""Arrays of the library's replay buffer by those of the program."""


class CompiledOffPolicyLearner(CompiledTraining, OffPolicyAlgorithm):
    """An off-policy learner that is compiled with its environments.

    The replay buffer of the library receives the transitions after each chunk: checkpoints save it.
    A subclass names the class of the library as its second base, and fills the methods below.
    """

    log_episodes = 4

    def _learning(self) -> "CompiledLearning":
        """The algorithm of the program."""
        raise NotImplementedError

    def _learned(self) -> Any:
        """Networks and optimisers, as the program takes them."""
        raise NotImplementedError

    def _write_learned(self, learned: Any) -> None:
        """Copy what the program has learned into networks and optimisers."""
        raise NotImplementedError

    def _scalars(self) -> dict[str, Any]:
        """Hyperparameters of the algorithm that are arguments of the program."""
        return {}

    def _exploration(self, steps: NDArray[np.int64], total: int) -> NDArray[np.float32]:
        """The rate of random actions of the steps that begin after these steps."""
        del total
        return np.zeros(steps.shape, np.float32)

    def _program(self) -> "OffPolicyProgram":
        from rlexp.algorithms.compiled.off_policy_program import OffPolicyProgram

        frequency, buffer = self._frequency(), self.replay_buffer
        assert buffer is not None
        size = frequency * self.n_envs
        return OffPolicyProgram(
            environments=self._environments(),
            learning=self._learning(),
            train_freq=frequency,
            gradient_steps=size if self.gradient_steps < 0 else self.gradient_steps,
            batch_size=self.batch_size,
            n_steps=self.n_steps,
            bootstrap=bool(buffer.handle_timeout_termination),
            rollouts=max(1, MOST_NUMBERS // size),
        )

    def _frequency(self) -> int:
        # The library turns the number into a pair of number and unit.
        frequency: Any = self.train_freq
        return int(frequency.frequency)

    def _state(self, program: "CompiledProgram") -> "OffPolicyState":
        from rlexp.algorithms.compiled.off_policy_program import OffPolicyState

        return OffPolicyState(self._learned(), *self._begin(program), self._ring())

    def _ring(self) -> "StoredTransitions":
        """The transitions of the library's replay buffer, as the program stores them."""
        import jax.numpy as jnp

        from rlexp.algorithms.compiled.replay import StoredTransitions

        arrays: dict[str, Any] = {n: getattr(self.replay_buffer, a) for n, a in RING.items()}
        discrete = np.issubdtype(arrays["actions"].dtype, np.integer)
        if discrete:
            arrays["actions"] = arrays["actions"][..., 0].astype(np.int32)
        for name in ("dones", "truncations"):
            arrays[name] = arrays[name].astype(np.bool_)
        return StoredTransitions(**{name: jnp.array(array) for name, array in arrays.items()})

    def _write_ring(self, program: Any, ring: "StoredTransitions", steps: int) -> None:
        """Copy the newest transitions of the program, of so many steps, into the library's buffer."""
        buffer = self.replay_buffer
        assert buffer is not None
        rows = (buffer.pos + np.arange(steps)[-buffer.buffer_size :]) % buffer.buffer_size
        for name, column in RING.items():
            if name == "truncations" and not buffer.handle_timeout_termination:
                # The library leaves zeros there.
                continue
            kept = getattr(buffer, column)
            written = program.newest(getattr(ring, name), rows)
            kept[rows] = written.reshape(len(rows), *kept.shape[1:])
        buffer.full = buffer.full or buffer.pos + steps >= buffer.buffer_size
        buffer.pos = (buffer.pos + steps) % buffer.buffer_size

    def _rollouts(
        self, caller: BaseCallback, program: Any, total: int, last: int, seconds: float
    ) -> int:
        begin, starts = self.num_timesteps, self.learning_starts
        if begin > starts:
            # The first rollouts that learn take longer than those before them.
            seconds = seconds if begin - last * program.size > starts else math.inf
            return super()._rollouts(caller, program, total, last, seconds)
        rest: int = math.ceil((starts + 1 - begin) / program.size)
        return min(rest, super()._rollouts(caller, program, total, last, seconds))

    def _advance(
        self, program: "CompiledProgram", state: "OffPolicyState", rollouts: int, total: int
    ) -> tuple["OffPolicyState", "ChunkLog"]:
        scalars = {
            "learning_starts": np.int32(self.learning_starts),
            "gamma": np.float32(self.gamma),
            **self._scalars(),
        }
        schedules = self._schedules(program, rollouts, total)
        state, log = program.advance(state, scalars, schedules, np.int32(rollouts))
        self._write_learned(state.learned)
        self._write_ring(program, state.ring, rollouts * program.steps)
        self._keep(state.key, state.environments)
        return state, log

    def _schedules(
        self, program: "CompiledProgram", rollouts: int, total: int
    ) -> dict[str, NDArray[Any]]:
        """Learning rates, and rates of random actions of the steps, of each rollout; see the program."""
        calls = np.arange(program.rollouts, dtype=np.int32) * program.steps
        rates = np.zeros(program.rollouts, np.float32)
        ends = self.num_timesteps + (np.arange(rollouts) + 1) * program.size
        rates[:rollouts] = values_of(self.lr_schedule, 1.0 - ends / total)
        exploration = np.zeros((program.rollouts, program.steps), np.float32)
        begins = np.arange(rollouts * program.steps) * self.n_envs + self.num_timesteps
        exploration[:rollouts] = self._exploration(begins, total).reshape(-1, program.steps)
        calls += self.num_timesteps // self.n_envs
        return {"calls": calls, "learning_rate": rates, "exploration": exploration}

    def _report(self, log: "ChunkLog", rollouts: int, interval: int, total: int) -> None:
        numbers = self._numbers(log, rollouts)
        # The callback names the step at which a loss is no number any more.
        lost = np.flatnonzero(~np.isfinite(list(numbers.values())).all(axis=0))
        rollouts = int(lost[0]) + 1 if len(lost) else rollouts
        steps = rollouts * self._frequency()
        lengths = np.asarray(log.lengths).reshape(-1, self.n_envs)[:steps]
        returns = np.asarray(log.returns).reshape(-1, self.n_envs)[:steps]
        begin, size = self.num_timesteps, self._frequency() * self.n_envs
        reported = begin
        for step in np.flatnonzero(lengths.any(axis=1)):
            episodes = list(self._episodes(lengths[step], returns[step]))
            assert self.ep_info_buffer is not None
            self.ep_info_buffer.extend(episodes)
            self.num_timesteps = begin + (int(step) + 1) * self.n_envs
            for _ in episodes:
                self._episode_num += 1
                if interval and self._episode_num % interval == 0:
                    # The update of a rollout follows its last step.
                    done = begin + int(step) // self._frequency() * size
                    self._record(numbers, begin, reported, done, total)
                    reported = done
                    self._record_step(total)
                    self.dump_logs()
        self.num_timesteps = begin + rollouts * size
        self._record(numbers, begin, reported, self.num_timesteps, total)
        self._record_step(total)

    def _numbers(self, log: "ChunkLog", rollouts: int) -> dict[str, NDArray[np.float32]]:
        """What each rollout logs."""
        return {name: np.asarray(row)[:rollouts] for name, row in log.numbers.items()}

    def _record_step(self, total: int) -> None:
        """Log what the library logs at each step."""
        self._update_current_progress_remaining(self.num_timesteps, total)

    def _record(
        self,
        numbers: dict[str, NDArray[np.float32]],
        begin: int,
        after: int,
        until: int,
        total: int,
    ) -> None:
        """Log the last update of the rollouts that end after one step and until another."""
        size = self._frequency() * self.n_envs
        ends = np.arange(after + size, until + 1, size)
        updates = ends[ends > self.learning_starts]
        taken = size if self.gradient_steps < 0 else self.gradient_steps
        if not len(updates) or not taken:
            return
        self._n_updates += taken * len(updates)
        last = int(updates[-1])
        self._update_current_progress_remaining(last, total)
        self._update_learning_rate(self._optimisers())
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        for name, row in numbers.items():
            self.logger.record(f"train/{name}", float(row[(last - begin) // size - 1]))

    def _optimisers(self) -> Any:
        """The optimisers whose learning rates follow the schedule."""
        return self.policy.optimizer


def values_of(
    schedule: Callable[[float], float], remaining: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The values of a schedule at fractions of training that remain."""
    inner = getattr(schedule, "value_schedule", schedule)
    if isinstance(inner, ConstantSchedule):
        return np.full(remaining.shape, float(inner.val))
    if isinstance(inner, LinearSchedule):
        passed = 1.0 - remaining
        line = inner.start + passed * (inner.end - inner.start) / inner.end_fraction
        return np.where(passed > inner.end_fraction, inner.end, line)
    return np.array([schedule(float(value)) for value in remaining])
