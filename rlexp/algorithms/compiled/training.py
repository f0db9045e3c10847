"""How a learner of stable-baselines3 trains by a compiled program that returns now and then.

The learner is the library's: policy, optimisers, files and predictions. `learn` alone is replaced. JAX
is imported there, so that a trained policy can be played without it.
"""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.type_aliases import MaybeCallback

from rlexp.algorithms.compiled.programs import beating, kept_program
from rlexp.algorithms.compiled.vector import CompiledVector
from rlexp.errors import ConfigError

if TYPE_CHECKING:
    from rlexp.algorithms.compiled.adam import AdamState
    from rlexp.algorithms.compiled.environments import CompiledEnvironments
    from rlexp.algorithms.compiled.program import ChunkLog, CompiledProgram

CHUNK_SECONDS = 0.25
"""Seconds of a chunk, about: a request to stop waits for its end."""
GROWTH = 4
"""How many times the rollouts of the last chunk a chunk may have."""


@runtime_checkable
class Timetable(Protocol):
    """A callback that knows the steps at which training must be interrupted."""

    def next_evaluation(self, after: int) -> int | None:
        """The first step after `after` at which an evaluation is due, or None."""
        ...

    def next_checkpoint(self, after: int) -> int | None:
        """The first step after `after` at which a checkpoint is due, or None."""
        ...

    def next_change(self, after: int) -> int | None:
        """The first step after `after` at which a hyperparameter changes, or None."""
        ...


class CompiledTraining(BaseAlgorithm):
    """A learner that is compiled with its environments, which a `CompiledVector` names.

    A subclass names the class of the library as its second base, and fills four methods.
    """

    in_chunks = True
    """Whether many rollouts pass between two calls of the callback."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        self.program_state: dict[str, NDArray[Any]] = {}
        """Keys and environments of the program, between two chunks; empty before the first."""
        super().__init__(*arguments, **settings)

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "program_state"]

    def _program(self) -> "CompiledProgram":
        """The program of these settings; `kept_program` may replace it."""
        raise NotImplementedError

    def _state(self, program: "CompiledProgram") -> Any:
        """The state from which the program continues, or with which it begins."""
        raise NotImplementedError

    def _advance(
        self, program: "CompiledProgram", state: Any, rollouts: int, total: int
    ) -> tuple[Any, "ChunkLog"]:
        """Train for some rollouts, and return the next state and what they logged."""
        raise NotImplementedError

    def _report(self, log: "ChunkLog", rollouts: int, interval: int, total: int) -> None:
        """Log what the rollouts of a chunk computed as the library does, and count their steps."""
        raise NotImplementedError

    def learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int | None = None,
        tb_log_name: str = "compiled",
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
        interval = self.log_episodes if log_interval is None else log_interval
        caller.on_training_start(locals(), globals())
        with beating(caller):
            # The first call in a process imports JAX.
            program = self._shared(kept_program(self._program()))
        try:
            self._train(program, caller, interval, total)
        finally:
            program.leave()
        caller.on_training_end()
        return self

    def _train(
        self, program: "CompiledProgram", caller: BaseCallback, interval: int, total: int
    ) -> None:
        """Train chunk by chunk, up to a number of steps."""
        state: Any = None
        rollouts, seconds = 0, math.inf
        while self.num_timesteps < total:
            caller.on_rollout_start()
            if state is None:
                with beating(caller):
                    # No rollout: this call compiles, and changes nothing.
                    state, _ = self._advance(program, self._state(program), 0, total)
            self._call_at_evaluations(caller, program.size, total)
            rollouts = self._rollouts(caller, program, total, rollouts, seconds)
            begun = time.perf_counter()
            # A call may wait for those of other runs.
            with beating(caller) if program.is_shared else nullcontext():
                state, log = self._advance(program, state, rollouts, total)
            seconds = (time.perf_counter() - begun) / rollouts
            self._report(log, rollouts, interval, total)
            caller.on_step()
            caller.on_rollout_end()

    log_episodes = 1
    """The interval of logging that `learn` of the library has by default."""

    def _shared(self, program: "CompiledProgram") -> Any:
        """The program, or a lane of it where several runs are advanced together."""
        lanes, device = self._vector().lanes, self._vector().device
        if lanes == 1 and device == "cpu":
            return program
        from rlexp.algorithms.compiled.lane_program import LaneProgram

        return LaneProgram(program, lanes, device, lambda: self._state(program))

    def _environments(self) -> "CompiledEnvironments":
        """The environments of the program.

        Raises:
            ConfigError: The twin does not fit the task.
        """
        from rlexp.algorithms.compiled.environments import CompiledEnvironments

        vector, action = self._vector(), self.action_space
        _check_shapes(vector)
        return CompiledEnvironments(
            twin=vector.twin,
            count=vector.num_envs,
            time_limit=vector.time_limit,
            low=action.low if isinstance(action, spaces.Box) else None,
            high=action.high if isinstance(action, spaces.Box) else None,
            actions=int(action.n)
            if isinstance(action, spaces.Discrete)
            else int(np.prod(action.shape or ())),
        )

    def _vector(self) -> CompiledVector:
        vector = self.env
        assert isinstance(vector, CompiledVector)
        return vector

    def _begin(self, program: "CompiledProgram") -> tuple[Any, Any]:
        """Key and environments from which the program continues, or with which it begins."""
        import jax

        seeds = np.asarray(self._vector().seeds, dtype=np.uint32)
        beginning: tuple[Any, Any] = program.begin(np.uint32(self.seed or 0), seeds)
        if not self.program_state:
            return beginning
        leaves, shape = jax.tree.flatten(beginning)
        saved = [self.program_state[str(number)] for number in range(len(leaves))]
        continued: tuple[Any, Any] = jax.tree.unflatten(shape, saved)
        return continued

    def _keep(self, *trees: Any) -> None:
        """Keep key and environments of the program, which the next chunk or attempt continues."""
        import jax

        leaves = jax.tree.leaves(trees)
        self.program_state = {str(n): np.array(leaf) for n, leaf in enumerate(leaves)}

    def _call_at_evaluations(self, caller: BaseCallback, size: int, total: int) -> None:
        """Call the callback at the steps of the coming rollout at which an evaluation is due."""
        if not isinstance(caller, Timetable):
            return
        begin = self.num_timesteps
        due = caller.next_evaluation(begin)
        while due is not None and due <= begin + size:
            # The library evaluates after the first step of all environments that reaches it.
            self.num_timesteps = begin + math.ceil((due - begin) / self.n_envs) * self.n_envs
            self._before_evaluation(total)
            caller.on_step()
            due = caller.next_evaluation(self.num_timesteps)
        self.num_timesteps = begin

    def _before_evaluation(self, total: int) -> None:
        """Set what decides the actions of an evaluation at the present step."""

    def _rollouts(
        self,
        caller: BaseCallback,
        program: "CompiledProgram",
        total: int,
        last: int,
        seconds: float,
    ) -> int:
        """Rollouts of the next chunk, given those of the last, and the seconds that each took."""
        begin, size = self.num_timesteps, program.size
        # The last rollout is a chunk of its own: a run is extended from its start.
        most = [program.rollouts, math.ceil((total - begin) / size) - 1, GROWTH * last]
        most.append(1 if math.isinf(seconds) else int(CHUNK_SECONDS / seconds))
        if isinstance(caller, Timetable):
            evaluation = caller.next_evaluation(begin + size)
            if evaluation is not None:
                most.append(math.ceil((evaluation - begin) / size) - 1)
            # A value is in force from the first rollout after its step on, which begins a chunk.
            ends = (caller.next_checkpoint(begin), caller.next_change(begin))
            most += [math.ceil((end - begin) / size) for end in ends if end is not None]
        return int(max(1, min(most)))

    def _episodes(
        self, lengths: NDArray[np.int32], returns: NDArray[np.float32]
    ) -> Iterator[dict[str, Any]]:
        """The episodes that ended in a rollout (steps × environments), in their order."""
        seconds = round((time.time_ns() - self.start_time) / 1e9, 6)
        for position in zip(*np.nonzero(lengths), strict=True):
            yield {"r": float(returns[position]), "l": int(lengths[position]), "t": seconds}


def adam_state(
    named: Sequence[tuple[str, torch.Tensor]], optimiser: torch.optim.Optimizer
) -> "AdamState":
    """Parameters and the state of Adam of torch, as a program takes them."""
    from rlexp.algorithms.compiled.adam import AdamState

    states = optimiser.state
    first, second = (
        {
            name: _array(states[p][moment]) if states.get(p) else np.zeros_like(_array(p))
            for name, p in named
        }
        for moment in ("exp_avg", "exp_avg_sq")
    )
    steps = max((float(states[p]["step"]) for _, p in named if states.get(p)), default=0.0)
    parameters = {name: _array(p) for name, p in named}
    return AdamState(parameters, first, second, np.float32(steps))


def write_adam_state(
    state: "AdamState",
    named: Sequence[tuple[str, torch.Tensor]],
    optimiser: torch.optim.Optimizer,
) -> None:
    """Copy what a program has learned into parameters and Adam of torch."""
    write_parameters(state.parameters, named)
    for name, parameter in named:
        optimiser.state[parameter] = {
            "step": torch.tensor(float(state.steps)),
            "exp_avg": torch.from_numpy(np.array(state.first[name])),
            "exp_avg_sq": torch.from_numpy(np.array(state.second[name])),
        }


def write_parameters(arrays: Any, named: Sequence[tuple[str, torch.Tensor]]) -> None:
    """Copy arrays by name into parameters of torch."""
    with torch.no_grad():
        for name, parameter in named:
            parameter.copy_(torch.from_numpy(np.array(arrays[name])))


def _array(tensor: torch.Tensor) -> NDArray[Any]:
    array: NDArray[Any] = tensor.detach().numpy().copy()
    return array


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
