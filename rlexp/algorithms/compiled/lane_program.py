"""A program of which a run has one lane, while other runs may have the other lanes.

`Conductor` advances runs of several processes together. Without it, and after its death, this process
advances its run in lanes of which all others are empty. The bits are the same.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, ClassVar, Protocol

import numpy as np

from rlexp.algorithms.compiled.lanes import LaneCall, LaneResult, Lanes, without
from rlexp.algorithms.compiled.program import ChunkLog, CompiledProgram
from rlexp.algorithms.compiled.programs import kept_program
from rlexp.algorithms.compiled.runtime import CONDUCTOR

GONE = (EOFError, OSError, ValueError)
"""What a call raises whose conductor has died."""
LEAVE = "leave"
"""The message of a run that has ended."""


class RefusedCallError(Exception):
    """The conductor could not execute a call; the text says why."""


class LaneKeeper(Protocol):
    """Has lanes, and advances the run in one of them."""

    def advance(self, call: LaneCall, parts: dict[str, Any] | None, rollouts: int) -> LaneResult:
        """Train for some rollouts.

        Args:
            call: What the run passes.
            parts: What stays in the lane, in the first call of a run; None in later calls.
            rollouts: Number of rollouts.
        """
        ...

    def leave(self) -> None:
        """Give the lane back."""
        ...


class LaneAlone:
    """Lanes of this process, whose first lane has its run."""

    def __init__(self, program: CompiledProgram, count: int, device: str) -> None:
        """Take the lanes that an earlier run of this process with the same program had."""
        self._lanes = kept_program(Lanes(program, count, device))

    def advance(self, call: LaneCall, parts: dict[str, Any] | None, rollouts: int) -> LaneResult:
        """Train for some rollouts; see `LaneKeeper`."""
        if parts is not None:
            self._lanes.attach(0, parts)
        return self._lanes.advance({0: call}, rollouts)[0]

    def leave(self) -> None:
        """Do nothing: the next run of this process takes the lane."""


class ConductedLane:
    """A lane of the conductor of this process."""

    def __init__(self, descriptor: int, program: CompiledProgram, count: int, device: str) -> None:
        """Ask for a lane."""
        # A copy: the descriptor stays open for the next run of this process.
        self._connection = Connection(os.dup(descriptor))
        self._connection.send((program, count, device))

    def advance(self, call: LaneCall, parts: dict[str, Any] | None, rollouts: int) -> LaneResult:
        """Train for some rollouts; see `LaneKeeper`.

        Raises:
            EOFError: The conductor has died.
            OSError: The conductor has died.
            RefusedCallError: The conductor could not execute the call.
        """
        self._connection.send((call, parts, rollouts))
        answer = self._connection.recv()
        if isinstance(answer, LaneResult):
            return answer
        raise RefusedCallError(answer)

    def leave(self) -> None:
        """Give the lane back."""
        try:
            self._connection.send(LEAVE)
        except OSError:
            # The conductor has died.
            return
        finally:
            self._connection.close()


@dataclass(slots=True)
class LaneProgram:
    """The program of a run that has one of several lanes, with the functions of a `CompiledProgram`.

    Attributes:
        program: The program of a single run.
        count: Number of lanes.
        device: Where the program computes: `cpu` or `cuda`.
        restored: Returns the state of the run after its last call, with all parts.
    """

    is_shared: ClassVar[bool] = True

    program: CompiledProgram
    count: int
    device: str
    restored: Callable[[], Any]
    _keeper: LaneKeeper = field(init=False, repr=False)
    _has_lane: bool = field(init=False, default=False, repr=False)

    def __post_init__(self) -> None:
        """Ask the conductor of this process for a lane, if there is one."""
        descriptor = os.environ.get(CONDUCTOR)
        try:
            if descriptor is None:
                raise EOFError("this process has no conductor")
            self._keeper = ConductedLane(int(descriptor), self.program, self.count, self.device)
        except GONE:
            self._keeper = LaneAlone(self.program, self.count, self.device)

    @property
    def size(self) -> int:
        """Transitions of a rollout."""
        return self.program.size

    @property
    def steps(self) -> int:
        """Steps of a rollout in each environment."""
        return self.program.steps

    @property
    def rollouts(self) -> int:
        """Rollouts of one call, at most."""
        return self.program.rollouts

    def begin(self, *arguments: Any) -> Any:
        """See `CompiledProgram.begin`; on the processor, whatever the device of the program is."""
        import jax

        with jax.default_device(jax.devices("cpu")[0]):
            return self.program.begin(*arguments)

    def advance(
        self, state: Any, scalars: Mapping[str, Any], schedules: Mapping[str, Any], count: Any
    ) -> tuple[Any, ChunkLog]:
        """Train for `count` rollouts; see `CompiledProgram.trained`.

        Returns:
            The state, whose large parts hold the newest rows alone, and the log of these rollouts.

        Raises:
            RefusedCallError: The conductor could not execute the program.
        """
        try:
            result = self._advance(state, scalars, schedules, int(count))
        except GONE as error:
            if self.device != "cpu":
                # This process has begun to use the processor, and JAX cannot turn to a GPU any more.
                raise RefusedCallError("the process with the program has died") from error
            # Nothing of the call has reached the learner: it is made again, from the state before it.
            self._keeper, self._has_lane = LaneAlone(self.program, self.count, self.device), False
            result = self._advance(self.restored(), scalars, schedules, int(count))
        return result.state._replace(**result.written), result.log

    def _advance(self, state: Any, scalars: Any, schedules: Any, rollouts: int) -> LaneResult:
        names = self.program.resident
        parts = None if self._has_lane else {name: getattr(state, name) for name in names}
        call = LaneCall(*_arrays((without(state, names), dict(scalars), dict(schedules))))
        result = self._keeper.advance(call, None if parts is None else _arrays(parts), rollouts)
        self._has_lane = True
        return result

    def newest(self, array: Any, rows: Any) -> Any:
        """Rows of a large part that the last call has written; see `CompiledProgram.newest`."""
        return np.asarray(array)[-len(rows) :]

    def leave(self) -> None:
        """Give the lane back, at the end of the run."""
        self._keeper.leave()


def _arrays(tree: Any) -> Any:
    """A tree of arrays of NumPy, which can be sent to another process."""
    import jax

    return jax.tree.map(np.asarray, tree)
