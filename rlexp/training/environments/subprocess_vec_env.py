"""A vector with one process per environment, which raises the faults and deaths of these."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from stable_baselines3.common.vec_env import SubprocVecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from rlexp.training.environments.monitor import FAULT, Env

CLOSE_LIMIT = 5.0
"""Seconds that environments may take to close before their processes are killed."""
BEAT_EVERY = 0.2
"""Seconds between heartbeats while waiting for an environment."""


class EnvironmentDied(Exception):  # noqa: N818
    """The process of an environment has ended."""

    def __init__(self, process: BaseProcess) -> None:
        # The exit code of a process is unknown until the process was joined.
        process.join(1.0)
        code = process.exitcode
        how = f"was killed by signal {-code}" if code is not None and code < 0 else "ended"
        super().__init__(f"the process of an environment {how}")


class GuardedConnection:
    """A pipe end that raises `EnvironmentDied` when the process at the other end dies.

    Forked processes inherit the pipe ends of one another, so that a pipe may stay open after its
    process died: the sentinel of the process is watched as well.
    """

    def __init__(self, connection: Connection, process: BaseProcess) -> None:
        self._connection, self._process = connection, process
        self.send, self.close, self.fileno = connection.send, connection.close, connection.fileno

    def has_reply(self, timeout: float) -> bool:
        """Whether a reply or the end of the process arrives within `timeout` seconds."""
        return bool(wait([self._connection, self._process.sentinel], timeout))

    def recv(self) -> Any:
        """Return the next reply; raises `EnvironmentDied` if the process has ended."""
        # A reply that was sent before the process died is still received.
        if self._connection not in wait([self._connection, self._process.sentinel]):
            raise EnvironmentDied(self._process)
        try:
            return self._connection.recv()
        except (EOFError, ConnectionResetError) as error:
            raise EnvironmentDied(self._process) from error


class ForkedVecEnv(SubprocVecEnv):
    """A vector with a forked process per environment.

    Eight forked processes start in 0.1 s; eight fresh interpreters need 11 s.
    """

    def __init__(self, makers: Sequence[Callable[[], Env]]) -> None:
        super().__init__(list(makers), start_method="fork")
        # `SubprocVecEnv` only uses `remotes`, so wrapping them guards all its methods.
        pairs = zip(self.remotes, self.processes, strict=True)
        self.remotes = tuple(GuardedConnection(*pair) for pair in pairs)

    def reset(self) -> VecEnvObs:
        """Reset every environment; raises the fault of an environment that failed."""
        observations = super().reset()
        raise_fault(self.reset_infos)
        return observations

    def step_wait(self) -> VecEnvStepReturn:
        """Wait for the step of every environment; raises the fault of one that failed."""
        result = super().step_wait()
        raise_fault(result[3])
        return result

    def close(self) -> None:
        """Close every environment, and kill processes that do not end in time.

        The method of the library waits forever for a process that is dead or does not end.
        """
        if self.closed:
            return
        self.closed = True
        for remote in self.remotes:
            with suppress(OSError):
                remote.send(("close", None))
        deadline = time.monotonic() + CLOSE_LIMIT
        for process in self.processes:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
        for remote in self.remotes:
            remote.close()

    def call_each(
        self, method: str, positions: Sequence[int], arguments: Sequence[Any]
    ) -> list[Any]:
        """Call a method of some environments in parallel, each with its argument.

        Args:
            method: The name of the method.
            positions: The environments.
            arguments: The argument for each of them.

        Returns:
            The result of each, in this order.

        Raises:
            EnvironmentDied: A process has ended.
        """
        for position, argument in zip(positions, arguments, strict=True):
            self.remotes[position].send(("env_method", (method, (argument,), {})))
        return [self.remotes[position].recv() for position in positions]

    def resume(
        self, env_states: Sequence[dict[str, Any]], limit: float, beat: Callable[[], object]
    ) -> list[str | None]:
        """Let all environments replay their logged episodes in parallel.

        Args:
            env_states: The captured state of each environment.
            limit: Seconds that each replay may take.
            beat: Called repeatedly until all have replied or the limit has passed.

        Returns:
            For each environment the reason why its replay failed, or None.

        Raises:
            EnvironmentDied: A process has ended.
        """
        for remote, env_state in zip(self.remotes, env_states, strict=True):
            remote.send(("env_method", ("resume", (env_state, limit), {})))
        deadline = time.monotonic() + limit + CLOSE_LIMIT
        return [_reply(remote, deadline, beat) for remote in self.remotes]


def _reply(remote: GuardedConnection, deadline: float, beat: Callable[[], object]) -> Any:
    """Wait for the reply of an environment, with heartbeats until the deadline.

    Without heartbeats, the engine ends a run whose environment hangs in its replay.
    """
    while not remote.has_reply(BEAT_EVERY):
        if time.monotonic() < deadline:
            beat()
    return remote.recv()


def raise_fault(infos: Sequence[dict[str, Any]]) -> None:
    """Raise the first fault that an environment reports."""
    for info in infos:
        if FAULT in info:
            raise info[FAULT]
