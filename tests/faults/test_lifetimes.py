"""Nothing that a command started outlives it, whatever it does and whoever is killed."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from studies import StudyFolder, new_study, unhurried, wait_until

from rlexp.store.locks.lease import hold

TRAINING = (
    "experiment=x",
    "environment=gymnasium",
    "environment.id=stuck_environments:Stuck-v0",
    "environment.vector.count=1",
    "algorithm.n_steps=64",
    "algorithm.n_epochs=1",
    "budget.evaluation_every=null",
    "budget.final_episodes=2",
    "seeds.test=1",
)
SHORT = "budget.steps=128"
LONG = "budget.steps=2_000_000"
QUICK = ("run", "experiment=x", "seeds.test=1", "budget.steps=3000")


@pytest.fixture
def study(tmp_path: Path) -> Iterator[StudyFolder]:
    """A study with faulty environments."""
    with new_study(tmp_path / "study", warm=True) as study:
        yield study
        kill_all(study)


def kill_all(study: StudyFolder) -> None:
    """End what a failed test has left behind."""
    for process in study.processes():
        process.kill()


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[StudyFolder]:
    """A study whose runs train nothing, and whose server imports everything anew."""
    with new_study(tmp_path / "study", quick=True) as study:
        yield study
        kill_all(study)


def keepers(run: int, command: int) -> dict[str, psutil.Process]:
    """The guard, the server and the command of a run, by name."""
    parents = psutil.Process(run).parents()
    number = [process.pid for process in parents].index(command)
    return {"guard": parents[0], "server": parents[number - 1], "command": parents[number]}


@pytest.mark.parametrize("fault", ["held", "stopped"])
def test_a_run_without_python_ends_with_the_command_and_the_server(
    study: StudyFolder, fault: str
) -> None:
    """A run that is stopped or in C code ends with the command and the server; a repeat completes."""
    words = ("run", *TRAINING, SHORT, "environment.arguments.fault=held")
    command = study.start(*words)
    (note,) = wait_until(lambda: list((study.folder / "processes").glob("held-*")))
    run = int(note.name.removeprefix("held-"))
    processes = keepers(run, command.pid)
    if fault == "stopped":
        processes["guard"].suspend()
        os.kill(run, signal.SIGSTOP)
    processes["server"].kill()
    processes["command"].kill()
    wait_until(lambda: not study.processes(), unhurried(2.0))
    code, output = study.give(*words)
    assert code == 0, output
    assert [("completed", 2)] == [(r["state"], r["attempts"]) for r in study.runs("x")]


@pytest.mark.parametrize(
    "killed", [("command",), ("command", "server"), ("command", "guard"), ("guard", "command")]
)
def test_helpers_in_their_own_sessions_end_with_a_kill(
    study: StudyFolder, killed: tuple[str, ...]
) -> None:
    """Helpers of a run in sessions of their own end when these processes are killed."""
    words = ("run", *TRAINING, LONG, "environment.arguments.fault=helpers")
    command = study.start(*words)
    (note,) = wait_until(lambda: list((study.folder / "processes").glob("helpers-*")))
    run = int(note.name.removeprefix("helpers-"))
    helpers = wait_until(lambda: pids if len(pids := sleeping(study)) == 2 else [])
    processes = keepers(run, command.pid)
    for name in killed:
        processes[name].kill()
    wait_until(lambda: not study.processes(), unhurried(2.0))
    assert [] == [pid for pid in (run, *helpers) if is_alive(pid)]


def sleeping(study: StudyFolder) -> list[int]:
    """The helpers that environments have started."""
    return [p.pid for p in study.processes() if p.name() == "sleep"]


def is_alive(pid: int) -> bool:
    """Whether a process exists that has not ended."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_a_completed_run_leaves_no_helper(study: StudyFolder) -> None:
    """Helpers in sessions of their own end with a run that completes."""
    code, output = study.give("run", *TRAINING, SHORT, "environment.arguments.fault=helpers")
    assert code == 0, output
    assert [] == study.processes()


def servers(command: int) -> list[psutil.Process]:
    """The servers that a command has started."""
    servers = []
    for child in psutil.Process(command).children():
        with suppress(psutil.ZombieProcess):
            servers += [child] if "rlexp.executors.server" in child.cmdline() else []
    return servers


WARMING = {"RLEXP_QUICK": '{"warming": 600}'}


def test_a_command_killed_while_the_server_warms_up_leaves_no_process(quick: StudyFolder) -> None:
    """The server ends with its command while it still imports modules."""
    command = quick.start(*QUICK, variables=WARMING)
    wait_until(lambda: servers(command.pid))
    command.kill()
    wait_until(lambda: not quick.processes(), unhurried(1.0))


def test_a_server_killed_while_it_warms_up_is_named(quick: StudyFolder) -> None:
    """The command says by which signal its server ended, and what to do, on one line."""
    command = quick.start(*QUICK, variables=WARMING)

    def kill_server() -> bool:
        # A server that is killed before the command waits for it is started again.
        for server in servers(command.pid):
            server.kill()
        return command.poll() is not None

    wait_until(kill_server)
    output, _ = command.communicate(timeout=60)
    (line,) = [line for line in output.splitlines() if "the server that starts runs" in line]
    assert "was killed by signal 9 (Killed) before it was ready; give the same command" in line
    assert "message above" not in output
    assert "Traceback" not in output


def test_a_run_that_a_process_still_executes_is_waited_for(quick: StudyFolder) -> None:
    """A repeat waits for a run whose lease a process holds, names the process, counts no failure."""
    interrupted = quick.start(*QUICK, variables={"RLEXP_QUICK": '{"seconds": 600}'})
    wait_until(lambda: quick.workers("x"))
    interrupted.kill()
    wait_until(lambda: not quick.processes(), unhurried(2.0))
    (attempts,) = (quick.folder / "runs" / "x").glob("*/attempts")
    with hold(attempts.parent / ".lease", "the run", now=0.0):
        command = quick.start(*QUICK)
        assert command.stdout is not None
        line = next(line for line in command.stdout if "waits for" in line)
        assert f"waits for process {os.getpid()} on " in line
        assert ["1"] == [path.name for path in attempts.iterdir()]
    output, _ = command.communicate(timeout=60)
    assert command.returncode == 0, output
    assert [("completed", 2)] == [(r["state"], r["attempts"]) for r in quick.runs("x")]
