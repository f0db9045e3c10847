"""Several runs that one call of a compiled program advances together: `jax.vmap` of the program.

A call always has the same number of lanes, and a lane without a run repeats another one. The shape of the
arrays, and so the order of sums, depends on neither how many runs there are nor which they are.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rlexp.algorithms.compiled.program import ChunkLog, CompiledProgram
from rlexp.algorithms.compiled.programs import comparable
from rlexp.algorithms.compiled.runtime import use_gpu
from rlexp.algorithms.compiled.stored_code import StoredFunction, is_storable

ACTIVE = "active"
"""The scalar that says whether a lane writes to what stays in the lanes."""


class LaneCall(NamedTuple):
    """What a run passes to a call: its state without what stays in the lane, and hyperparameters."""

    state: Any
    scalars: Mapping[str, Any]
    schedules: Mapping[str, Any]


class LaneResult(NamedTuple):
    """What a run gets back: its state, what its rollouts logged, and what they wrote in the lane.

    The log has the rollouts of the call alone. `written` has the form of what stays in the lane, with the
    rows that the call has written (rows × …).
    """

    state: Any
    log: ChunkLog
    written: dict[str, Any]


@dataclass(eq=False, slots=True)
class Lanes:
    """The lanes of one program.

    Attributes:
        program: The program of a single run.
        count: Number of lanes.
        device: Where the program computes: `cpu` or `cuda`.
    """

    program: CompiledProgram
    count: int
    device: str
    _call: Callable[..., Any] = field(init=False, repr=False)
    _put: Callable[..., Any] = field(init=False, repr=False)
    _resident: dict[str, Any] | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Compile nothing yet, and make no arrays."""
        if self.device != "cpu":
            use_gpu()
        advance: Callable[..., Any] = jax.jit(self._advance, donate_argnums=(0,))
        if is_storable(self.program.environments.twin):
            settings = ("lanes", self.count, self.device, comparable(self.program))
            advance = StoredFunction(advance, settings, self._shape)
        self._call = advance
        self._put = jax.jit(_put, donate_argnums=(0,))
        self._resident = None if self.program.resident else {}

    def attach(self, lane: int, resident: Mapping[str, Any]) -> None:
        """Put what stays in a lane there, when a run takes the lane.

        Args:
            lane: Number of the lane.
            resident: Parts of the state of the run, by the names in `CompiledProgram.resident`.
        """
        if not resident:
            return
        if self._resident is None:
            self._resident = jax.tree.map(
                lambda array: jnp.zeros((self.count, *array.shape), array.dtype), dict(resident)
            )
        self._resident = self._put(self._resident, np.int32(lane), dict(resident))

    def advance(self, calls: Mapping[int, LaneCall], rollouts: int) -> dict[int, LaneResult]:
        """Train the runs of some lanes for the same number of rollouts.

        Args:
            calls: What each run passes, by its lane; at least one. Other lanes repeat one of them, and
                what stays in them is left as it is.
            rollouts: Number of rollouts, at most `CompiledProgram.rollouts`.
        """
        filler = next(iter(calls.values()))
        every = [calls.get(lane, filler) for lane in range(self.count)]
        state, scalars, schedules = jax.tree.map(lambda *rows: np.stack(rows), *every)
        if self.program.resident:
            active = np.array([lane in calls for lane in range(self.count)])
            scalars = {**scalars, ACTIVE: active}
        resident, *results = self._call(
            self._resident, state, scalars, schedules, np.int32(rollouts)
        )
        self._resident = resident
        state, log, written = jax.tree.map(np.asarray, tuple(results))
        # Copies: the rows of a single lane, so that the arrays of all lanes can be freed.
        log = jax.tree.map(lambda rows: rows[:, :rollouts], log)
        written = jax.tree.map(lambda rows: rows[:, : rollouts * self.program.steps], written)
        return {
            lane: LaneResult(
                *jax.tree.map(lambda rows, n=lane: rows[n].copy(), (state, log, written))
            )
            for lane in calls
        }

    def _advance(
        self,
        resident: dict[str, Any],
        state: Any,
        scalars: dict[str, jax.Array],
        schedules: dict[str, jax.Array],
        rollouts: jax.Array,
    ) -> tuple[Any, ...]:
        """Advance all lanes (lanes × …)."""
        program = self.program

        def one_lane(
            resident: dict[str, Any], state: Any, scalars: Any, schedules: Any
        ) -> tuple[Any, ...]:
            advanced, log = program.trained(
                state._replace(**resident), scalars, schedules, rollouts
            )
            stays = {name: getattr(advanced, name) for name in resident}
            return (
                stays,
                without(advanced, program.resident),
                log,
                program.written(stays, schedules),
            )

        results: tuple[Any, ...] = jax.vmap(one_lane)(resident, state, scalars, schedules)
        return results

    def _shape(self, resident: Any, state: Any, *_: object) -> tuple[Any, ...]:
        """A tree with the shape of what `_advance` returns."""
        log = ChunkLog(dict.fromkeys(self.program.logged, 0), 0, 0)
        return resident, state, log, resident


def without(state: Any, names: tuple[str, ...]) -> Any:
    """A state without the parts that stay in a lane."""
    return state._replace(**dict.fromkeys(names, ())) if names else state


def _put(lanes: Any, lane: jax.Array, parts: Any) -> Any:
    return jax.tree.map(lambda rows, row: rows.at[lane].set(row), lanes, parts)
