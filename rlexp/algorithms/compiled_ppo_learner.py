"""PPO of stable-baselines3 whose training is a compiled program.

The learner is the library's: policy, optimiser, files and predictions. `learn` alone is replaced. JAX
is imported there, so that a trained policy can be played without it.
"""

import math
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import numpy as np
import stable_baselines3
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.type_aliases import MaybeCallback, Schedule

from rlexp.algorithms.compiled_programs import beating, kept_program
from rlexp.algorithms.compiled_vector import CompiledVector
from rlexp.errors import ConfigError

if TYPE_CHECKING:
    from rlexp.algorithms.compiled_ppo_program import Chunk, PPOProgram, ProgramState

CHUNK_SECONDS = 0.25
"""Seconds of a chunk, about: a request to stop waits for its end."""
MOST_ROLLOUTS = 64
"""Rollouts of a chunk, at most."""
MOST_NUMBERS = 1 << 18
"""Ends of episodes that a chunk may report, which limits its rollouts."""
SCALARS = ("gamma", "gae_lambda", "ent_coef", "vf_coef", "max_grad_norm")


@runtime_checkable
class Timetable(Protocol):
    """A callback that knows the steps at which training must be interrupted."""

    def next_evaluation(self, after: int) -> int | None:
        """The first step after `after` at which an evaluation is due, or None."""
        ...

    def next_checkpoint(self, after: int) -> int | None:
        """The first step after `after` at which a checkpoint is due, or None."""
        ...


class CompiledPPOLearner(stable_baselines3.PPO):
    """PPO that is compiled with its environments, which a `CompiledVector` names."""

    in_chunks = True
    """Whether many rollouts pass between two calls of the callback."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        self.program_state: dict[str, NDArray[Any]] = {}
        """Keys and environments of the program, between two chunks; empty before the first."""
        super().__init__(*arguments, **settings)

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "program_state"]

    def learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int = 1,
        tb_log_name: str = "CompiledPPO",
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> Self:
        """Train, as the library does; the callback is called between chunks of rollouts.

        An evaluation that falls into a rollout is played before the program collects that rollout: the
        policy is the same until its end, and the step is that at which the library would evaluate.

        Raises:
            ConfigError: The twin does not fit the task.
        """
        total, caller = self._setup_learn(
            total_timesteps, callback, reset_num_timesteps, tb_log_name, progress_bar
        )
        caller.on_training_start(locals(), globals())
        with beating(caller):
            # The first call in a process imports JAX.
            program = kept_program(self._program())
        state: ProgramState | None = None
        iteration, seconds = 0, math.inf
        while self.num_timesteps < total:
            caller.on_rollout_start()
            if state is None:
                with beating(caller):
                    state = self._state(program)
                    # No rollout: this call compiles, and changes nothing.
                    program.advance(
                        *(state, self._scalars(), self._schedules(program, 0, total)), np.int32(0)
                    )
            self._call_at_evaluations(caller, program.size)
            rollouts = self._rollouts(caller, program, total, seconds)
            schedules = self._schedules(program, rollouts, total)
            begun = time.perf_counter()
            state, chunk = program.advance(state, self._scalars(), schedules, np.int32(rollouts))
            self._take_over(state)
            seconds = (time.perf_counter() - begun) / rollouts
            iteration = self._report(chunk, rollouts, iteration, log_interval, total)
            caller.on_step()
            caller.on_rollout_end()
        caller.on_training_end()
        return self

    def _program(self) -> "PPOProgram":
        from rlexp.algorithms.compiled_policy import CompiledPolicy
        from rlexp.algorithms.compiled_ppo_program import PPOProgram

        vector, action = self.env, self.action_space
        assert isinstance(vector, CompiledVector)
        discrete = isinstance(action, spaces.Discrete)
        _check_shapes(vector)
        size = self.n_steps * vector.num_envs
        return PPOProgram(
            twin=vector.twin,
            policy=CompiledPolicy.of(self.policy, discrete=discrete),
            environments=vector.num_envs,
            time_limit=vector.time_limit,
            low=action.low if isinstance(action, spaces.Box) else None,
            high=action.high if isinstance(action, spaces.Box) else None,
            n_steps=self.n_steps,
            batch_size=self.batch_size,
            n_epochs=self.n_epochs,
            normalize_advantage=self.normalize_advantage,
            clip_values=self.clip_range_vf is not None,
            stops_early=self.target_kl is not None,
            rollouts=max(1, min(MOST_ROLLOUTS, MOST_NUMBERS // size)),
        )

    def _state(self, program: "PPOProgram") -> "ProgramState":
        """The state from which the program continues, or with which it begins."""
        import jax

        from rlexp.algorithms.compiled_ppo_program import Optimiser, ProgramState

        vector = self.env
        assert isinstance(vector, CompiledVector)
        seeds = np.asarray(vector.seeds, dtype=np.uint32)
        beginning = program.begin(np.uint32(self.seed or 0), seeds)
        if self.program_state:
            leaves, shape = jax.tree.flatten(beginning)
            saved = [self.program_state[str(number)] for number in range(len(leaves))]
            beginning = jax.tree.unflatten(shape, saved)
        key, environments = beginning
        return ProgramState(Optimiser(*self._optimiser_state()), key, environments)

    def _optimiser_state(self) -> tuple[Any, ...]:
        """Parameters and the state of Adam, by name."""
        named = dict(self.policy.named_parameters())
        states = self.policy.optimizer.state
        moments = [
            {
                name: _array(states[p][moment]) if states.get(p) else np.zeros_like(_array(p))
                for name, p in named.items()
            }
            for moment in ("exp_avg", "exp_avg_sq")
        ]
        steps = max((float(state["step"]) for state in states.values() if state), default=0.0)
        return {name: _array(p) for name, p in named.items()}, *moments, np.float32(steps)

    def _take_over(self, state: "ProgramState") -> None:
        """Copy what the program has learned into the policy, the optimiser and the learner."""
        import jax

        learned = jax.tree.map(np.asarray, state)
        optimiser = learned.optimiser
        with torch.no_grad():
            for name, parameter in self.policy.named_parameters():
                parameter.copy_(torch.from_numpy(optimiser.parameters[name].copy()))
                self.policy.optimizer.state[parameter] = {
                    "step": torch.tensor(float(optimiser.steps)),
                    "exp_avg": torch.from_numpy(optimiser.first[name].copy()),
                    "exp_avg_sq": torch.from_numpy(optimiser.second[name].copy()),
                }
        kept = jax.tree.leaves((learned.key, learned.environments))
        self.program_state = {str(number): leaf.copy() for number, leaf in enumerate(kept)}

    def _scalars(self) -> dict[str, Any]:
        values = {name: np.float32(getattr(self, name)) for name in SCALARS}
        return {**values, "target_kl": np.float32(self.target_kl or 0.0)}

    def _schedules(
        self, program: "PPOProgram", rollouts: int, total: int
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

    def _call_at_evaluations(self, caller: BaseCallback, size: int) -> None:
        """Call the callback at the steps of the coming rollout at which an evaluation is due."""
        if not isinstance(caller, Timetable):
            return
        begin = self.num_timesteps
        due = caller.next_evaluation(begin)
        while due is not None and due <= begin + size:
            # The library evaluates after the first step of all environments that reaches it.
            self.num_timesteps = begin + math.ceil((due - begin) / self.n_envs) * self.n_envs
            caller.on_step()
            due = caller.next_evaluation(self.num_timesteps)
        self.num_timesteps = begin

    def _rollouts(
        self, caller: BaseCallback, program: "PPOProgram", total: int, seconds: float
    ) -> int:
        """Rollouts of the next chunk, given the seconds that a rollout takes."""
        begin, size = self.num_timesteps, program.size
        # The last rollout is a chunk of its own: a run is extended from its start.
        most = [program.rollouts, math.ceil((total - begin) / size) - 1]
        most.append(1 if math.isinf(seconds) else int(CHUNK_SECONDS / seconds))
        if isinstance(caller, Timetable):
            evaluation = caller.next_evaluation(begin + size)
            if evaluation is not None:
                most.append(math.ceil((evaluation - begin) / size) - 1)
            checkpoint = caller.next_checkpoint(begin)
            if checkpoint is not None:
                most.append(math.ceil((checkpoint - begin) / size))
        return max(1, min(most))

    def _report(
        self, chunk: "Chunk", rollouts: int, iteration: int, log_interval: int, total: int
    ) -> int:
        """Log every rollout of a chunk as the library does; returns the number of iterations."""
        numbers = {name: np.asarray(values) for name, values in chunk.numbers.items()}
        lengths, returns = np.asarray(chunk.lengths), np.asarray(chunk.returns)
        assert self.ep_info_buffer is not None
        for rollout in range(rollouts):
            self.num_timesteps += self.n_steps * self.n_envs
            iteration += 1
            self._update_current_progress_remaining(self.num_timesteps, total)
            self.ep_info_buffer.extend(self._episodes(lengths[rollout], returns[rollout]))
            if log_interval and iteration % log_interval == 0:
                self.dump_logs(iteration)
            self._record({name: float(values[rollout]) for name, values in numbers.items()})
            # The callback names the step at which the loss is no number any more.
            if not math.isfinite(numbers["loss"][rollout]):
                break
        return iteration

    def _episodes(
        self, lengths: NDArray[np.int32], returns: NDArray[np.float32]
    ) -> Iterator[dict[str, Any]]:
        """The episodes that ended in a rollout (steps × environments), in their order."""
        seconds = round((time.time_ns() - self.start_time) / 1e9, 6)
        for place in zip(*np.nonzero(lengths), strict=True):
            yield {"r": float(returns[place]), "l": int(lengths[place]), "t": seconds}

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


def _check_shapes(vector: CompiledVector) -> None:
    """Refuse a twin whose observations are not those of the task.

    Raises:
        ConfigError: The shapes differ, or the twin cannot be traced.
    """
    import jax

    twin, space = vector.twin, vector.observation_space
    name = type(twin).__name__
    try:
        made = jax.eval_shape(lambda key: twin.observe(twin.reset(key)), jax.random.PRNGKey(0))
    # The code of the user's twin may raise any error.
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise ConfigError(f"algorithm.twin: {name} cannot be compiled: {reason}") from error
    if made.shape != space.shape or made.dtype != np.float32:
        raise ConfigError(
            f"algorithm.twin: {name} observes {made.dtype}{list(made.shape)}, and the task float32"
            f"{list(space.shape or ())}: return jnp.float32 arrays of that shape"
        )


def _array(tensor: torch.Tensor) -> NDArray[Any]:
    return tensor.detach().numpy().copy()
