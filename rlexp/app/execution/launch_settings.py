"""How runs are executed, whichever command asks for them and whoever executes them."""

import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rlexp.app.tracking.mirror_client import Trackers
from rlexp.app.workspace import Workspace
from rlexp.engine.running import Orders
from rlexp.executors import Executor, Remote
from rlexp.store.layout import RunPaths
from rlexp.store.lease import Held, take
from rlexp.store.provenance import Code, collect

COMMAND = (sys.executable, "-m", "rlexp")
"""What workers elsewhere are started with."""
ENTRY = "rlexp.app.execution.run_process:execute"
PRELOAD = (
    *("!tensorboard", "torch", "stable_baselines3", "sb3_contrib", "torch._dynamo"),
    "rlexp.app.execution.run_process",
)
"""What every run needs; `torch._dynamo` is pulled in by the first model.

stable-baselines3 would import TensorBoard where it is installed, for half a second, and for nothing.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchOptions:
    """Options of every command that brings runs to their end.

    Attributes:
        dry_run: Whether to return the plan, and start nothing.
        retry: Whether runs are tried again whose failure is final.
        allow_drift: Whether runs continue from checkpoints of other versions.
    """

    dry_run: bool = False
    retry: bool = False
    allow_drift: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Driving:
    """How runs are executed.

    Attributes:
        executor: What executes them.
        threads: Of each run.
        operational: Of a budget, and what else an attempt is asked for.
        command: What the user typed.
        with_drift: The command that continues from checkpoints of other versions, too.
        trackers: What the records are mirrored to.
        detach: Whether runs elsewhere go on without this command.
    """

    executor: Executor | Remote
    threads: int
    operational: Mapping[str, Any]
    command: tuple[str, ...]
    with_drift: str | None = None
    trackers: Trackers = field(default_factory=Trackers)
    detach: bool = False

    @property
    def allow_drift(self) -> bool:
        """Whether checkpoints of other versions are continued from."""
        return bool(self.operational.get("allow_drift"))

    def orders(self, code: Code, workspace: Workspace) -> Orders:
        """What the attempts are asked for."""
        return Orders(
            settings={**self.operational, "allowed": list(workspace.allowed)},
            provenance=collect(code, self.command, workspace.folder, os.environ),
            patch=code.patch,
            timeout=self.operational["timeout"],
        )


def claim(paths: RunPaths, on_loss: Callable[[], None]) -> Held | None:
    """Claim a run for this process, as long as it sees it through its attempts."""
    return take(paths.claim, f"run {paths.folder.name}", now=time.time(), on_loss=on_loss)
