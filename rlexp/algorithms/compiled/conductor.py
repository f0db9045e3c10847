"""Advances the runs of several processes together, each in a lane of the same call.

A run sends a call, and gets an answer when its rollouts are done. Calls of runs that have the same program are
executed together, for as many rollouts as the shortest of them has left. Neither the company of a run
nor how its rollouts are divided among calls changes a bit.
"""

import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

import jax
import numpy as np

from rlexp.algorithms.compiled.lane_program import LEAVE
from rlexp.algorithms.compiled.lanes import LaneCall, LaneResult, Lanes
from rlexp.algorithms.compiled.program import CompiledProgram
from rlexp.algorithms.compiled.programs import comparable

LEAST_WAIT, MOST_WAIT = 0.02, 1.0
"""Seconds for which a call waits for those of other runs; between them, as long as the last call took."""
LONGEST_MESSAGE = 1
"""Bytes beside a descriptor that arrives."""


@dataclass(slots=True)
class LaneMember:
    """A run that has a lane.

    Attributes:
        lane: Number of its lane.
        call: Its call, without the rollouts that are done; None between two calls.
        left: Rollouts of the call that are not done.
        since: When the call arrived, on the monotonic clock.
        done: Results of the rollouts that are done.
    """

    lane: int
    call: LaneCall | None = None
    left: int = 0
    since: float = 0.0
    done: list[LaneResult] = field(default_factory=list)


@dataclass(slots=True)
class LaneGroup:
    """The lanes of one program, and the runs in them.

    Attributes:
        lanes: The lanes.
        members: The runs, by their connection.
        seconds: How long the last call took.
    """

    lanes: Lanes
    members: dict[Connection, LaneMember] = field(default_factory=dict)
    seconds: float = 0.0

    def join(self, connection: Connection) -> bool:
        """Give a run a lane; returns False if none is free."""
        taken = {member.lane for member in self.members.values()}
        free = next((lane for lane in range(self.lanes.count) if lane not in taken), None)
        if free is not None:
            self.members[connection] = LaneMember(free)
        return free is not None

    @property
    def waiting(self) -> dict[Connection, LaneMember]:
        """The runs that wait for an answer."""
        return {c: member for c, member in self.members.items() if member.call is not None}

    def due(self, now: float) -> float:
        """Seconds until the next call should be made; infinite without a waiting run."""
        waiting = self.waiting
        if not waiting or len(waiting) == len(self.members):
            return 0.0 if waiting else float("inf")
        patience = min(max(self.seconds, LEAST_WAIT), MOST_WAIT)
        return max(min(m.since for m in waiting.values()) + patience - now, 0.0)

    def advance(self) -> Iterator[tuple[Connection, LaneResult]]:
        """Make a call, and return the results of the runs whose rollouts are done."""
        waiting = self.waiting
        rollouts = min(member.left for member in waiting.values())
        calls = {m.lane: m.call for m in waiting.values() if m.call is not None}
        begun = time.monotonic()
        results = self.lanes.advance(calls, rollouts)
        self.seconds = time.monotonic() - begun
        for connection, member in waiting.items():
            member.done.append(results[member.lane])
            member.left -= rollouts
            if member.left == 0:
                yield connection, _joined(member.done)
                member.call, member.done = None, []
            elif member.call is not None:
                member.call = _rest(member.call, results[member.lane], rollouts)


class Conductor:
    """Serves runs until the process that started it is gone."""

    def __init__(self, control: socket.socket) -> None:
        """Serve the connections that arrive.

        Args:
            control: Where descriptors of connections arrive; its end is the end of the conductor.
        """
        self._control = control
        self._connections: set[Connection] = set()
        self._groups: list[LaneGroup] = []

    def serve(self) -> None:
        """Take calls, and execute them."""
        while True:
            now = time.monotonic()
            seconds = min((group.due(now) for group in self._groups), default=float("inf"))
            # Whoever has sent already takes part in the next call.
            ready = wait(
                [self._control, *self._connections], None if seconds == float("inf") else seconds
            )
            for source in ready:
                if isinstance(source, Connection):
                    self._hear(source)
                elif not self._accept():
                    return
            if not ready:
                self._advance()

    def _accept(self) -> bool:
        """Take a connection; returns False at the end of the control."""
        content, descriptors, _, _ = socket.recv_fds(self._control, LONGEST_MESSAGE, 1)
        self._connections.update(Connection(descriptor) for descriptor in descriptors)
        return bool(content)

    def _hear(self, connection: Connection) -> None:
        """Read the message of a run: it joins, makes a call, or leaves."""
        try:
            message: Any = connection.recv()
        except (EOFError, OSError):
            self._leave(connection)
            self._connections.discard(connection)
            connection.close()
            return
        if message == LEAVE:
            self._leave(connection)
        elif isinstance(message[0], CompiledProgram):
            self._leave(connection)
            self._join(connection, *message)
        else:
            self._take(connection, *message)

    def _leave(self, connection: Connection) -> None:
        for group in self._groups:
            group.members.pop(connection, None)

    def _join(
        self, connection: Connection, program: CompiledProgram, count: int, device: str
    ) -> None:
        for group in self._groups:
            if _same(group.lanes, program, count) and group.join(connection):
                return
        # Lanes without a run hold arrays, and those of another program may not fit beside them.
        self._groups = [group for group in self._groups if group.members]
        group = LaneGroup(Lanes(program, count, device))
        group.join(connection)
        self._groups.append(group)

    def _take(
        self, connection: Connection, call: LaneCall, parts: dict[str, Any] | None, rollouts: int
    ) -> None:
        group = next(group for group in self._groups if connection in group.members)
        member = group.members[connection]
        if parts:
            try:
                group.lanes.attach(member.lane, parts)
            # The arrays may not fit into the memory, for instance.
            except Exception as error:  # noqa: BLE001
                self._answer(connection, _reason(error))
                return
        member.call, member.left, member.since = call, rollouts, time.monotonic()

    def _advance(self) -> None:
        now = time.monotonic()
        for group in self._groups:
            if group.due(now) > 0.0:
                continue
            try:
                for connection, result in group.advance():
                    self._answer(connection, result)
            # The code of the user's twin may raise any error, at the first call.
            except Exception as error:  # noqa: BLE001
                for connection in group.waiting:
                    self._answer(connection, _reason(error))
                self._groups.remove(group)
                return

    def _answer(self, connection: Connection, answer: LaneResult | str) -> None:
        # A run that has died is found by the end of its connection.
        try:
            connection.send(answer)
        except OSError:
            self._leave(connection)


def _reason(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


def _same(lanes: Lanes, program: CompiledProgram, count: int) -> bool:
    try:
        return (lanes.count, comparable(lanes.program)) == (count, comparable(program))
    # The twin of a user may hold a value whose equality means nothing.
    except TypeError:
        return False


def _rest(call: LaneCall, result: LaneResult, rollouts: int) -> LaneCall:
    """The call of the rollouts that are left after the first ones."""

    def shifted(rows: Any) -> Any:
        return np.concatenate((rows[rollouts:], np.zeros_like(rows[:rollouts])))

    return call._replace(state=result.state, schedules=jax.tree.map(shifted, call.schedules))


def _joined(results: list[LaneResult]) -> LaneResult:
    """The result of calls that follow one another."""
    if len(results) == 1:
        return results[0]
    logs, written = ([getattr(r, name) for r in results] for name in ("log", "written"))
    return LaneResult(
        results[-1].state,
        jax.tree.map(lambda *rows: np.concatenate(rows), *logs),
        jax.tree.map(lambda *rows: np.concatenate(rows), *written),
    )


def conduct(control: socket.socket) -> None:
    """Advance the runs whose connections arrive at a socket, until its end."""
    Conductor(control).serve()
