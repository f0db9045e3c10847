"""Environments that hang, crash or take all memory at their thirtieth step."""

import ctypes
import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

AT = 30


class StuckEnv(gym.Env[np.ndarray, Any]):
    """Four observed numbers, two actions, ten steps an episode; `fault` says how it goes wrong.

    Further arguments of any number are for tests of large configurations.
    """

    def __init__(self, fault: str = "none", **_: Any) -> None:
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (4,), np.float32)
        self.action_space = gym.spaces.Discrete(2)
        self.fault, self.steps, self.length = fault, 0, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.length = 0
        if self.fault == "reset" and self.steps >= AT:
            _sleep_in_reset()
        return self._observe(), {}

    def _observe(self) -> np.ndarray:
        return self.np_random.uniform(-1, 1, 4).astype(np.float32)

    def step(self, action: int) -> Any:
        del action
        self.steps += 1
        self.length += 1
        if self.steps == AT and self.fault in AT_STEP:
            _note(self.fault)
            AT_STEP[self.fault]()
        return self._observe(), 1.0, self.length >= 10, False, {}

    def close(self) -> None:
        if self.fault == "close":
            _note(self.fault)
            time.sleep(10_000)


def _note(fault: str) -> None:
    """Leave the number of this process in the study, so that a test can look for survivors."""
    folder = Path("processes")
    folder.mkdir(exist_ok=True)
    (folder / f"{fault}-{os.getpid()}").touch()


def _sleep_in_reset() -> None:
    time.sleep(10_000)


def _loop() -> None:
    while True:
        pass


def _deadlock() -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def _take_memory() -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 50_000_000, -1))
    np.ones(100_000_000)


def _hold_interpreter() -> None:
    """Execute C code that lets no Python code run, in the first attempt only."""
    if len(list(Path("processes").glob("held-*"))) == 1:
        ctypes.PyDLL(None).sleep(10_000)


def _start_helpers() -> None:
    """Start a process in a session of its own, and one whose parent has ended."""
    for program in ("sleep 10000", "setsid sleep 10000 & exit"):
        subprocess.Popen(["/bin/sh", "-c", program], start_new_session=True)


AT_STEP: dict[str, Callable[[], object]] = {
    "loop": _loop,
    "deadlock": _deadlock,
    "memory": _take_memory,
    "held": _hold_interpreter,
    "helpers": _start_helpers,
    "orphan": lambda: os.kill(os.getppid(), signal.SIGKILL),
    "segfault": lambda: ctypes.string_at(0),
}

gym.register("Stuck-v0", "stuck_environments:StuckEnv")
