"""Kernels of notebooks: real processes in which the cells of a test are executed."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager, start_new_kernel

FAULTS = Path(__file__).parents[1] / "faults"
QUICK = """
from quick_command import become_quick
become_quick()
import rlexp
"""
"""A first cell, after which runs train nothing and take milliseconds."""


@dataclass
class Output:
    """What a cell has shown.

    Attributes:
        displays: Displayed results by display id, or by their number: HTML, or else text.
        updates: Number of messages that replaced a display.
        text: Printed text.
        error: Name of the error; empty without one.
        traceback: Lines of the error.
    """

    displays: dict[str, str] = field(default_factory=dict)
    updates: int = 0
    text: str = ""
    error: str = ""
    traceback: str = ""

    @property
    def html(self) -> str:
        """All displays together."""
        return "\n".join(self.displays.values())

    def receive(self, message: dict[str, Any]) -> None:
        """Add a message of the kernel."""
        content = message["content"]
        match message["msg_type"]:
            case "display_data" | "execute_result" | "update_display_data" as kind:
                key = content.get("transient", {}).get("display_id") or str(len(self.displays))
                data = content["data"]
                self.displays[key] = data.get("text/html", data["text/plain"])
                self.updates += kind == "update_display_data"
            case "stream":
                self.text += content["text"]
            case "error":
                self.error = content["ename"]
                self.traceback = "\n".join(content["traceback"])
            case _:
                pass


@dataclass
class Kernel:
    """A running kernel in a folder."""

    manager: KernelManager
    client: BlockingKernelClient

    @property
    def process(self) -> psutil.Process:
        """The process of the kernel."""
        return psutil.Process(self.manager.provisioner.pid)  # type: ignore[union-attr]

    def run(self, code: str) -> Output:
        """Execute a cell and wait for its end."""
        output = Output()
        self.client.execute_interactive(code, output_hook=output.receive, timeout=240)
        return output

    def interrupt_when(self, code: str, is_time: Callable[[], bool]) -> Output:
        """Execute a cell, and interrupt the kernel as a notebook does once it is time."""
        output = Output()
        request = self.client.execute(code)
        wait_until(is_time)
        self.manager.interrupt_kernel()
        while True:
            message = self.client.get_iopub_msg(timeout=240)
            if message["parent_header"].get("msg_id") == request:
                output.receive(message)
                if message["content"].get("execution_state") == "idle":
                    return output

    def kill_when(self, code: str, is_time: Callable[[], bool]) -> list[psutil.Process]:
        """Execute a cell, and kill the kernel once it is time; returns the kernel's children."""
        self.client.execute(code)
        wait_until(is_time)
        children: list[psutil.Process] = self.process.children(recursive=True)
        self.process.kill()
        return children


@contextmanager
def kernel_in(folder: Path) -> Iterator[Kernel]:
    """A kernel in a folder, whose own files are in this folder too."""
    jupyter = {
        name: str(folder / ".jupyter" / name)
        for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")
    }
    environment = {**os.environ, **jupyter, "RLEXP_HOME": str(folder / ".cache")}
    # The server of the runs imports the quick runs, too.
    environment["PYTHONPATH"] = str(FAULTS)
    (folder / ".jupyter").mkdir(exist_ok=True)
    manager, client = start_new_kernel(
        kernel_name="python3", cwd=str(folder), env=environment, startup_timeout=120
    )
    try:
        yield Kernel(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def wait_until(is_time: Callable[[], bool]) -> None:
    """Wait until something is true, for two minutes at most."""
    deadline = time.monotonic() + 120
    while not is_time():
        assert time.monotonic() < deadline, "it did not become true"
        time.sleep(0.02)
