"""Incompatible plug-ins are refused before any run, and environments cannot harm the command."""

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest
from quick_parts import quick_parts

from rlexp.app.execution.checks.compatibility import call_in_subprocess, check_compatibility
from rlexp.app.execution.request import read_request
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError
from rlexp.store.layout import Layout

quick = pytest.fixture(autouse=True)(quick_parts)


def refusal(folder: Path, *overrides: str) -> str:
    """The message with which overrides are refused."""
    study = Workspace(folder, Layout(folder / "runs"))
    with pytest.raises(ConfigError) as caught:
        check_compatibility(read_request(overrides, study).experiment.configurations, study)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        (
            ["algorithm=dqn", "environment=pendulum"],
            "the actions of Pendulum-v1 are Box, but DQN needs Discrete",
        ),
        (["agent=cnn"], "agent=cnn cannot read CartPole-v1: its observations are Box"),
        (["agent=lstm"], "gives a MlpLstmPolicy, which PPO does not have"),
        (["agent=gbrl", "algorithm=dqn"], "gives a TreePolicy, which DQN does not have"),
        *(
            [(["agent=gbrl"], "not installed: pip install 'rlexp[gbrl]'")]
            if find_spec("gbrl") is None
            else []
        ),
        (["algorithm=maskable_ppo"], "CartPole-v1 has no action_masks()"),
        (
            ["budget.steps=2000"],
            "less than one rollout (n_steps * environments = 2048 * 1 = 2048)",
        ),
        (
            ["environment=frozen_lake", "environment.vector.normalise_observations=true"],
            "environment.vector.normalise_observations needs numeric observations",
        ),
        (
            ["environment=frozen_lake", "environment.vector.frame_stack=2"],
            "environment.vector.frame_stack needs numeric observations",
        ),
        (["compute.batch=2"], "advances compiled runs together, and PPO is not compiled"),
        (["compute.batch=0"], "compute.batch=0: must be greater than or equal to 1"),
        (["environment.arguments.colour=red"], "unexpected keyword argument 'colour'"),
    ],
)
def test_incompatible_plug_ins_are_named(
    overrides: list[str], reason: str, tmp_path: Path
) -> None:
    """One line has the incompatible plug-ins or settings and the reason."""
    assert reason in refusal(tmp_path, *overrides)


def test_compatible_plug_ins_pass(tmp_path: Path) -> None:
    """The default configuration passes the check."""
    study = Workspace(tmp_path, Layout(tmp_path / "runs"))
    check_compatibility(read_request([], study).experiment.configurations, study)


def test_a_function_is_called_in_a_subprocess() -> None:
    """The result comes back as plain values, and no child process remains."""
    before = psutil.Process().children()
    assert [1, {"a": None}] == call_in_subprocess("it", lambda: [1, {"a": None}])
    assert before == psutil.Process().children()


@pytest.mark.parametrize(
    ("kill", "description"),
    [(lambda: os._exit(0), "with code 0"), (lambda: os.kill(os.getpid(), 9), "by signal 9")],
)
def test_a_function_that_kills_its_process_is_an_error(kill: object, description: str) -> None:
    """The command reports how a child process ended that was killed by its function."""
    assert callable(kill)
    with pytest.raises(ConfigError, match=f"the process that examined it ended {description}"):
        call_in_subprocess("it", kill)


def test_a_function_leaves_no_process(tmp_path: Path) -> None:
    """Processes in sessions of their own end with the child process that started them."""
    call_in_subprocess(
        "it", lambda: subprocess.Popen(["sleep", "1000"], cwd=tmp_path, start_new_session=True).pid
    )
    assert [] == processes_in(tmp_path)


def test_an_interrupted_child_executes_nothing_of_the_command(tmp_path: Path) -> None:
    """Ctrl-C reaches the child, too: the `finally` blocks of the command are executed only by the command."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    executed = tmp_path / "executed"

    @contextmanager
    def noted() -> Iterator[None]:
        try:
            yield
        finally:
            with executed.open("a") as file:
                file.write(f"{os.getpid()}\n")

    with pytest.raises(ConfigError, match="ended with code 70"), noted():
        call_in_subprocess("it", interrupt)
    assert f"{os.getpid()}\n" == executed.read_text()


def test_a_killed_command_leaves_no_process(tmp_path: Path) -> None:
    """A child process that examines an environment ends when its command is killed."""
    parent = os.fork()
    if parent == 0:
        with suppress(BaseException):
            os.chdir(tmp_path)
            call_in_subprocess("it", lambda: ctypes.PyDLL(None).sleep(1000))
        os._exit(1)
    wait_until(lambda: len(processes_in(tmp_path)) == 3)
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    wait_until(lambda: not processes_in(tmp_path))


def processes_in(folder: Path) -> list[int]:
    """The processes that work in a folder."""
    processes = psutil.process_iter(["cwd"])
    return [p.pid for p in processes if p.info["cwd"] == str(folder)]


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until a condition is true."""
    deadline = time.monotonic() + 10.0
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def test_errors_are_passed_to_the_parent() -> None:
    """Errors of rlexp keep their message; other errors are named with their type."""
    with pytest.raises(ConfigError, match=r"^ValueError: two lines$"):
        call_in_subprocess("it", lambda: int_of("two\nlines"))


def int_of(text: str) -> int:
    """Fail with a message of several lines."""
    raise ValueError(text)
