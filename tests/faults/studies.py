"""Real commands in a study of their own, and the files that they leave."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from in_full import IN_FULL
from last_words import last_words
from tracing import STRACE
from warm_process import warm_process

from rlexp.app.reading.summary import describe_run, read_entries
from rlexp.app.results import to_json
from rlexp.protocol.seeds import Phase
from rlexp.store.layout import ExperimentPaths
from rlexp.store.provenance import usable_cores
from rlexp.store.runs import read_experiment

HERE = Path(__file__).parent
ODD = HERE.parent / "training" / "odd_environments.py"
STUCK = HERE / "stuck_environments.py"
QUICK = HERE / "quick_command.py"
LONG = ("budget.steps=2_000_000", "budget.evaluation_every=null", "algorithm.n_steps=256")


@dataclass(frozen=True)
class StudyFolder:
    """A folder in which commands are given.

    Attributes:
        quick: Whether runs train nothing.
        warm: Whether commands are forked from a process that has imported everything. A command
            that another program starts is not forked, unless that program is strace; in full tests
            only commands under strace are forked. `/proc` does not show the arguments and the
            environment of a fork.
    """

    folder: Path
    quick: bool = False
    warm: bool = False
    commands: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(
        self,
        *arguments: str,
        before: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> subprocess.Popen[str]:
        """Start a command and leave it running.

        Args:
            arguments: After `rlexp`.
            before: A program that starts the command, with its arguments, for example strace.
            variables: Additional environment variables.
            settings: Of `subprocess.Popen`.
        """
        forked = before[0] == STRACE if before else not IN_FULL
        if self.warm and forked and not settings:
            environment = {**self.variables, **(variables or {})}
            warm = warm_process("quick" if self.quick else "full")
            fork = warm.fork(self.folder, [self.program[-1], *arguments], environment)
            self.commands.append(fork)
            return fork.begin(before)
        command = subprocess.Popen(
            [*before, *self.program, *arguments],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**self.variables, **(variables or {})},
            **settings,
        )
        self.commands.append(command)
        return command

    @property
    def program(self) -> list[str]:
        """The command line of `rlexp`."""
        return [sys.executable, *([str(QUICK)] if self.quick else ["-m", "rlexp"])]

    @property
    def variables(self) -> dict[str, str]:
        """The environment of the commands."""
        study_variables = {"RLEXP_HOME": str(self.folder / "cache"), "NO_COLOR": "1"}
        path = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])] if self.quick else []
        return (
            os.environ | study_variables | ({"PYTHONPATH": os.pathsep.join(path)} if path else {})
        )

    def give(self, *arguments: str, **settings: Any) -> tuple[int, str]:
        """Give a command and wait for it; returns its exit code and its output."""
        process = self.start(*arguments, **settings)
        output, _ = process.communicate(timeout=120)
        return process.returncode, output

    def runs(self, experiment: str) -> list[dict[str, Any]]:
        """The runs of an experiment, as a summary describes them."""
        paths = ExperimentPaths(self.folder / "runs" / experiment)
        entries = read_entries(paths, read_experiment(paths), Phase.TEST)
        return [to_json(describe_run(configuration, stored)) for configuration, stored in entries]

    def close(self) -> None:
        """End every command that the test left running."""
        for command in self.commands:
            command.kill()
            command.wait()
            if command.stdout is not None:
                command.stdout.close()

    def events(self, experiment: str, kind: str) -> list[dict[str, Any]]:
        """Every event of a kind, of all runs and attempts, by folder name and attempt."""
        events = []
        for path in sorted((self.folder / "runs" / experiment).glob("*/attempts/*/events.jsonl")):
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            events += [line for line in lines if line["event"] == kind]
        return events

    def processes(self) -> list[psutil.Process]:
        """Every process that works in this folder."""
        processes = []
        for process in psutil.process_iter():
            try:
                is_here = process.pid != os.getpid() and process.cwd() == str(self.folder)
            except psutil.Error:
                continue
            if is_here and process.status() != psutil.STATUS_ZOMBIE:
                processes.append(process)
        return processes

    def workers(self, experiment: str) -> list[int]:
        """The process ids of all attempts that have started."""
        return [event["pid"] for event in self.events(experiment, "started")]


@contextmanager
def new_study(folder: Path, *, quick: bool = False, warm: bool = False) -> Iterator[StudyFolder]:
    """A study with faulty environments; no command outlives it."""
    folder.mkdir(parents=True, exist_ok=True)
    for module in (ODD, STUCK):
        shutil.copy(module, folder)
    study = StudyFolder(folder.resolve(), quick, warm)
    try:
        yield study
    finally:
        study.close()


def wait_until(condition: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Wait until a condition is true; returns its value."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)
    return value


def unhurried(seconds: float) -> float:
    """The seconds that this machine may take, at its load, for `seconds` of an idle machine."""
    return seconds * max(1.0, 2.0 * os.getloadavg()[0] / usable_cores())


def odd(fault: str | Sequence[str], *arguments: str) -> list[str]:
    """Arguments that train on environments that go wrong."""
    faults = fault if isinstance(fault, str) else ",".join(fault)
    return last_words(
        "environment=gymnasium",
        "environment.id=odd_environments:Odd-v0",
        f"environment.arguments.fault={faults}",
        "algorithm.n_steps=64",
        "budget.evaluation_every=null",
        "budget.final_episodes=2",
        "seeds.test=1",
        *arguments,
    )
