"""Settings with which a command executes runs, in local processes or through remote workers."""

import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rlexp.app.tracking.mirror_client import ChosenTrackers
from rlexp.app.workspace import Workspace
from rlexp.store.layout import RunPaths
from rlexp.store.provenance import Code, collect

if TYPE_CHECKING:
    from rlexp.engine.run_in_flight import AttemptSettings
    from rlexp.executors import Executor, Remote, Session, SharedProcess
    from rlexp.store.locks.lease import Lease

COMMAND = (sys.executable, "-m", "rlexp")
"""The command with which remote workers are started."""
ENTRY = "rlexp.app.execution.run_process:execute"
"""The function that a process forked for one attempt calls, as module and name."""
PRELOAD = (
    *("!tensorboard", "torch", "rlexp.training.deferred_dynamo:defer"),
    *("stable_baselines3", "sb3_contrib", "rlexp.app.execution.run_process"),
    "@rlexp.app.execution.run_process:import_compiler",
)
"""Modules that the server process imports once, before it forks runs.

Of `MODULE:FUNCTION`, the function is called: the first model would otherwise import `torch._dynamo` in
every run. The mark `!` keeps a module from being imported: stable-baselines3 imports an installed
TensorBoard, which takes half a second and is not used. What follows the mark `@` waits for the first
compiled run.
"""


def conductor() -> "SharedProcess":
    """The process that advances compiled runs together."""
    from rlexp.algorithms.compiled.runtime import CONDUCT, CONDUCTOR
    from rlexp.executors import SharedProcess

    return SharedProcess(CONDUCT, 1, CONDUCTOR)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchOptions:
    """Options shared by all commands that execute runs.

    Attributes:
        dry_run: Whether to return the plan without starting a run.
        retry: Whether runs with a final failure are executed again.
        allow_drift: Whether runs continue from checkpoints that other package versions made.
        probe: Whether to measure what runs cost before the first one starts; None measures plans
            that seem to take a minute or longer.
        deadline: When runs are asked to stop, as a time of `time.monotonic`; None never.
    """

    dry_run: bool = False
    retry: bool = False
    allow_drift: bool = False
    probe: bool | None = None
    deadline: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSettings:
    """How runs are executed.

    Attributes:
        executor: The plug-in that executes the runs.
        threads: Threads of each run.
        operational: Operational fields of the budget, and further settings of every attempt.
        command: The command line that the user typed.
        with_drift: The same command with `--allow-drift`.
        trackers: The trackers that receive the records.
        detach: Whether remote runs continue after this command has ended.
        changeable: Whether overrides of the command may change the configurations of its runs.
        override_option: The option before each override of the command; empty without one.
        sequential: Whether a sequential test judges the runs, so that more seeds may follow.
        deadline: When runs are asked to stop, as a time of `time.monotonic`; None never.
        opened: The session of the executor, if it was opened while the plan was checked.
    """

    executor: "Executor | Remote"
    threads: int
    operational: Mapping[str, Any]
    command: tuple[str, ...]
    with_drift: str | None = None
    trackers: ChosenTrackers = field(default_factory=ChosenTrackers)
    detach: bool = False
    changeable: bool = True
    override_option: str = ""
    sequential: bool = False
    deadline: float | None = None
    opened: "AbstractContextManager[Session] | None" = None

    @property
    def is_out_of_time(self) -> bool:
        """Whether the deadline has passed."""
        return self.deadline is not None and time.monotonic() >= self.deadline

    @property
    def allow_drift(self) -> bool:
        """Whether runs continue from checkpoints that other package versions made."""
        return bool(self.operational.get("allow_drift"))

    @property
    def keeps_replay(self) -> bool:
        """Whether replay buffers stay on disk when runs end."""
        return self.operational.get("keep_last") is True

    def orders(self, code: Code, workspace: Workspace) -> "AttemptSettings":
        """The settings and the provenance that are written for every attempt."""
        from rlexp.engine.run_in_flight import AttemptSettings

        return AttemptSettings(
            settings={**self.operational, "allowed": list(workspace.allowed)},
            provenance=collect(code, self.command, workspace.folder, os.environ),
            patch=code.patch,
            timeout=self.operational["timeout"],
        )


def claim_run(paths: RunPaths, on_loss: Callable[[], None]) -> "Lease | None":
    """Claim a run for this process; the claim covers all attempts that the process starts.

    Returns None where another process holds the claim.
    """
    from rlexp.store.locks.lease import take

    return take(paths.claim, f"run {paths.folder.name}", now=time.time(), on_loss=on_loss)
