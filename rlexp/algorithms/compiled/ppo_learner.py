"""PPO of stable-baselines3 whose training is a compiled program."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import stable_baselines3
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.type_aliases import Schedule

from rlexp.algorithms.compiled.training import CompiledTraining, adam_state, write_adam_state

if TYPE_CHECKING:
    from rlexp.algorithms.compiled.ppo_program import PPOProgram, ProgramState
    from rlexp.algorithms.compiled.program import ChunkLog, CompiledProgram

MOST_ROLLOUTS = 64
"""Rollouts of a chunk, at most."""
MOST_NUMBERS = 1 << 18
"""Ends of episodes that a chunk may report, which limits its rollouts."""
SCALARS = ("gamma", "gae_lambda", "ent_coef", "vf_coef", "max_grad_norm")


class CompiledPPOLearner(CompiledTraining, stable_baselines3.PPO):
    """PPO that is compiled with its environments, which a `CompiledVector` names."""

    def _program(self) -> "PPOProgram":
        from rlexp.algorithms.compiled.policy import CompiledPolicy
        from rlexp.algorithms.compiled.ppo_program import PPOProgram

        discrete = isinstance(self.action_space, spaces.Discrete)
        size = self.n_steps * self.n_envs
        return PPOProgram(
            environments=self._environments(),
            policy=CompiledPolicy.of(self.policy, discrete=discrete),
            n_steps=self.n_steps,
            batch_size=self.batch_size,
            n_epochs=self.n_epochs,
            normalize_advantage=self.normalize_advantage,
            clip_values=self.clip_range_vf is not None,
            stops_early=self.target_kl is not None,
            rollouts=max(1, min(MOST_ROLLOUTS, MOST_NUMBERS // size)),
        )

    def _state(self, program: "CompiledProgram") -> "ProgramState":
        from rlexp.algorithms.compiled.ppo_program import ProgramState

        named = list(self.policy.named_parameters())
        return ProgramState(adam_state(named, self.policy.optimizer), *self._begin(program))

    def _advance(
        self, program: "CompiledProgram", state: "ProgramState", rollouts: int, total: int
    ) -> tuple["ProgramState", "ChunkLog"]:
        schedules = self._schedules(program, rollouts, total)
        state, log = program.advance(state, self._scalars(), schedules, np.int32(rollouts))
        named = list(self.policy.named_parameters())
        write_adam_state(state.optimiser, named, self.policy.optimizer)
        self._keep(state.key, state.environments)
        return state, log

    def _scalars(self) -> dict[str, Any]:
        values = {name: np.float32(getattr(self, name)) for name in SCALARS}
        return {**values, "target_kl": np.float32(self.target_kl or 0.0)}

    def _schedules(
        self, program: "CompiledProgram", rollouts: int, total: int
    ) -> dict[str, NDArray[np.float32]]:
        """Scheduled values of each rollout; the library computes them after a rollout."""
        schedules: dict[str, Schedule] = {
            "learning_rate": self.lr_schedule,
            "clip_range": self.clip_range,  # type: ignore[dict-item]
        }
        if self.clip_range_vf is not None:
            schedules["clip_range_vf"] = self.clip_range_vf  # type: ignore[assignment]
        ends = [self.num_timesteps + (n + 1) * program.size for n in range(rollouts)]
        rows = {name: np.zeros(program.rollouts, np.float32) for name in schedules}
        for name, schedule in schedules.items():
            rows[name][:rollouts] = [schedule(1.0 - end / total) for end in ends]
        return rows

    def _report(self, log: "ChunkLog", rollouts: int, interval: int, total: int) -> None:
        numbers = {name: np.asarray(values) for name, values in log.numbers.items()}
        lengths, returns = np.asarray(log.lengths), np.asarray(log.returns)
        assert self.ep_info_buffer is not None
        for rollout in range(rollouts):
            self.num_timesteps += self.n_steps * self.n_envs
            self._update_current_progress_remaining(self.num_timesteps, total)
            self.ep_info_buffer.extend(self._episodes(lengths[rollout], returns[rollout]))
            iteration = self._iteration()
            if interval and iteration % interval == 0:
                self.dump_logs(iteration)
            self._record({name: float(values[rollout]) for name, values in numbers.items()})
            # The callback names the step at which the loss is no number any more.
            if not math.isfinite(numbers["loss"][rollout]):
                break

    def _iteration(self) -> int:
        """The rollouts since the beginning of this call of `learn`."""
        return (self.num_timesteps - self._num_timesteps_at_start) // (self.n_steps * self.n_envs)

    def _record(self, numbers: dict[str, float]) -> None:
        """Log what an update computed, under the names of the library."""
        self._n_updates += int(numbers.pop("epochs"))
        deviation = numbers.pop("std")
        if hasattr(self.policy, "log_std"):
            numbers["std"] = deviation
        for name, value in numbers.items():
            self.logger.record(f"train/{name}", value)
        remaining = self._current_progress_remaining
        rate, clip = self.lr_schedule(remaining), self.clip_range(remaining)  # type: ignore[operator]
        self.policy.optimizer.param_groups[0]["lr"] = rate
        self.logger.record("train/learning_rate", rate)
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("train/clip_range", clip)
        if self.clip_range_vf is not None:
            self.logger.record("train/clip_range_vf", self.clip_range_vf(remaining))  # type: ignore[operator]
