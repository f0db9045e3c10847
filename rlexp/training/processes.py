"""Environments in processes of their own, whose faults and deaths reach the training."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from stable_baselines3.common.vec_env import SubprocVecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from rlexp.training.monitor import FAULT, Env

CLOSE_LIMIT = 5.0
"""Seconds that environments may take to close, after which their processes are killed."""
BEAT_EVERY = 0.2
"""Seconds between signs of life as an environment is waited for."""


class EnvironmentDied(Exception):  # noqa: N818
    """The process of an environment is gone."""

    def __init__(self, process: BaseProcess) -> None:
        process.join(1.0)
        code = process.exitcode
        how = f"was killed by signal {-code}" if code is not None and code < 0 else "ended"
        super().__init__(f"the process of an environment {how}")


class GuardedConnection:
    """The end of a pipe that notices when the process at the other end dies.

    Forked processes hold one another's ends open, so the pipe itself may never tell.
    """

    def __init__(self, connection: Connection, process: BaseProcess) -> None:
        self._connection, self._process = connection, process
        self.send, self.close, self.fileno = connection.send, connection.close, connection.fileno

    def answers(self, timeout: float) -> bool:
        """Whether there is something to receive, or to raise, within so many seconds."""
        return bool(wait([self._connection, self._process.sentinel], timeout))

    def recv(self) -> Any:
        """Receive, or raise `EnvironmentDied`."""
        if self._connection not in wait([self._connection, self._process.sentinel]):
            raise EnvironmentDied(self._process)
        try:
            return self._connection.recv()
        except (EOFError, ConnectionResetError) as error:
            raise EnvironmentDied(self._process) from error


class ProcessVector(SubprocVecEnv):
    """A vector whose members are forked: eight start in 0.1 s where fresh ones need 11."""

    def __init__(self, makers: Sequence[Callable[[], Env]]) -> None:
        super().__init__(list(makers), start_method="fork")
        pairs = zip(self.remotes, self.processes, strict=True)
        self.remotes = tuple(GuardedConnection(*pair) for pair in pairs)

    def reset(self) -> VecEnvObs:
        """Reset every environment, and raise what went wrong in one of them."""
        observations = super().reset()
        _raise_fault(self.reset_infos)
        return observations

    def step_wait(self) -> VecEnvStepReturn:
        """Wait for every environment, and raise what went wrong in one of them."""
        result = super().step_wait()
        _raise_fault(result[3])
        return result

    def close(self) -> None:
        """Close every environment that still answers.

        The library's own would wait for ever for one that is dead, or that does not end.
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

    def resume(
        self, situations: Sequence[dict[str, Any]], limit: float, beat: Callable[[], object]
    ) -> list[str | None]:
        """Let every environment repeat its own situation at the same time.

        Args:
            situations: One for each environment.
            limit: Seconds that each may take.
            beat: Called again and again until all have answered, or should have.

        Returns:
            For each, why it is not where it was, or nothing.

        Raises:
            EnvironmentDied: One of the processes is gone.
        """
        for remote, situation in zip(self.remotes, situations, strict=True):
            remote.send(("env_method", ("resume", (situation, limit), {})))
        deadline = time.monotonic() + limit + CLOSE_LIMIT
        return [_answer(remote, deadline, beat) for remote in self.remotes]


def _answer(remote: GuardedConnection, deadline: float, beat: Callable[[], object]) -> Any:
    """What an environment answers; past the deadline, nobody is told that it may still do so."""
    while not remote.answers(BEAT_EVERY):
        if time.monotonic() < deadline:
            beat()
    return remote.recv()


def _raise_fault(infos: Sequence[dict[str, Any]]) -> None:
    for info in infos:
        if FAULT in info:
            raise info[FAULT]
