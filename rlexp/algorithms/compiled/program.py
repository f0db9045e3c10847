"""What the programs of all compiled algorithms share: rollouts one after the other, and their log.

`CompiledProgram.advance` takes a state, trains for some rollouts, and returns the next state with what
each rollout logged. How rollouts are divided among calls changes no bit of the states.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from rlexp.algorithms.compiled.environments import CompiledEnvironments, EnvironmentState
from rlexp.algorithms.compiled.programs import comparable
from rlexp.algorithms.compiled.stored_code import StoredFunction, is_storable

Scalars: TypeAlias = Mapping[str, jax.Array]
"""Hyperparameters that the program takes as arguments, so that they need no new compilation."""


class ChunkLog(NamedTuple):
    """What rollouts logged: numbers by name (rollouts), and ends of episodes.

    Lengths and returns are those of `StepResult` (rollouts × steps × environments). The log of a single
    rollout has no first axis.
    """

    numbers: dict[str, jax.Array]
    lengths: jax.Array
    returns: jax.Array


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledProgram:
    """The settings that shape a program; a change of one of them compiles another program.

    A subclass fills `steps`, `logged` and `_iteration`.

    Attributes:
        environments: The environments.
        rollouts: Rollouts of one call, at most.
        advance: `trained`, compiled.
        begin: `_begin`, compiled.
    """

    donated: ClassVar[tuple[int, ...]] = ()
    """Arguments of `advance` whose memory the results may take; the caller must not use them again."""
    is_shared: ClassVar[bool] = False
    """Whether calls may wait for those of other runs."""
    resident: ClassVar[tuple[str, ...]] = ()
    """Large parts of the state, which stay with the program when several runs share a call."""

    environments: CompiledEnvironments
    rollouts: int
    advance: Callable[..., tuple[Any, ChunkLog]] = field(init=False)
    begin: Callable[..., tuple[jax.Array, EnvironmentState]] = field(init=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the settings alone: another process compiles the functions, or loads them."""
        settings = {part.name: getattr(self, part.name) for part in fields(self) if part.init}
        return _made, (type(self), settings)

    def __post_init__(self) -> None:
        advance = jax.jit(self.trained, donate_argnums=self.donated)
        begin = jax.jit(self._begin)
        if is_storable(self.environments.twin):
            settings = comparable(self)
            advance = StoredFunction(advance, ("advance", settings), self._shape_of_advance)
            begin = StoredFunction(begin, ("begin", settings), self._shape_of_begin)
        object.__setattr__(self, "advance", advance)
        object.__setattr__(self, "begin", begin)

    @property
    def steps(self) -> int:
        """Steps of a rollout in each environment."""
        raise NotImplementedError

    @property
    def logged(self) -> tuple[str, ...]:
        """Names of the numbers that each rollout logs."""
        raise NotImplementedError

    def _iteration(self, state: Any, scalars: Scalars) -> tuple[Any, ChunkLog]:
        """Collect one rollout and learn; returns the next state and the log of this rollout."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """Transitions of a rollout."""
        return self.steps * self.environments.count

    def _begin(self, seed: jax.Array, seeds: jax.Array) -> tuple[jax.Array, EnvironmentState]:
        """The key of the policy, and environments at the start of their first episodes.

        Args:
            seed: Seed of the policy, 32 bits.
            seeds: Seed of each environment, 32 bits.
        """
        return jax.random.PRNGKey(seed), self.environments.begin(seeds)

    def _shape_of_begin(self, seed: object, seeds: object) -> tuple[Any, EnvironmentState]:
        """A tree with the shape of what `begin` returns."""
        del seed, seeds
        # The state of every twin of rlexp is one array.
        return 0, EnvironmentState(0, 0, 0, 0, 0)

    def _shape_of_advance(self, state: Any, *_: object) -> tuple[Any, ChunkLog]:
        """A tree with the shape of what `advance` returns."""
        return state, ChunkLog(dict.fromkeys(self.logged, 0), 0, 0)

    def leave(self) -> None:
        """Do nothing: the program is kept for the next run."""

    def newest(self, array: Any, rows: Any) -> Any:
        """Rows of a large part of a state that the last call has written, as an array of NumPy."""
        return np.asarray(array)[rows]

    def written(self, resident: Mapping[str, Any], schedules: Scalars) -> dict[str, Any]:
        """The newest rows of the parts that stay with the program.

        Args:
            resident: These parts, by name.
            schedules: Hyperparameters of each rollout of the call.
        """
        del schedules
        return dict(resident)

    def trained(
        self, state: Any, scalars: Scalars, schedules: Scalars, count: jax.Array
    ) -> tuple[Any, ChunkLog]:
        """Train for `count` rollouts.

        Args:
            state: The state to continue from.
            scalars: Hyperparameters that all rollouts share.
            schedules: Hyperparameters of each rollout (rollouts × …).
            count: Rollouts, at most `rollouts`.
        """

        def body(number: jax.Array, carried: tuple[Any, ChunkLog]) -> Any:
            state, log = carried
            here = {**scalars, **{name: row[number] for name, row in schedules.items()}}
            state, rollout = self._iteration(state, here)
            return state, jax.tree.map(lambda rows, row: rows.at[number].set(row), log, rollout)

        shape = (self.rollouts, self.steps, self.environments.count)
        empty = ChunkLog(
            {name: jnp.zeros(self.rollouts, jnp.float32) for name in self.logged},
            jnp.zeros(shape, jnp.int32),
            jnp.zeros(shape, jnp.float32),
        )
        advanced: tuple[Any, ChunkLog] = jax.lax.fori_loop(0, count, body, (state, empty))
        return advanced


def _made(kind: type[CompiledProgram], settings: Mapping[str, Any]) -> CompiledProgram:
    return kind(**settings)
