"""Runs that hang, crash or take all memory are named, ended with their processes, not scored."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from studies import StudyFolder, new_study, unhurried, wait_until

WORDS = (
    "environment=gymnasium",
    "environment.id=stuck_environments:Stuck-v0",
    "environment.vector.kind=subprocess",
    "algorithm.n_steps=64",
    "algorithm.n_epochs=1",
    "budget.steps=128",
    "budget.evaluation_every=null",
    "budget.final_episodes=2",
    "seeds.test=1",
)
SILENT = (
    "environment.arguments.fault=loop,deadlock,reset",
    "environment.vector.count=1",
    "executor.workers=3",
    "executor.hang_timeout=2",
)
"""Faults after which a run makes no progress any more."""
OTHERS = (
    "environment.arguments.fault=close,memory,orphan,segfault",
    "environment.vector.count=2",
    "executor.workers=4",
)
"""Faults that end by themselves, so that no time limit matters on a busy machine."""


@pytest.fixture(scope="module")
def stuck(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StudyFolder]:
    """Experiments in which nearly every run goes wrong."""
    with new_study(tmp_path_factory.mktemp("study"), warm=True) as study:
        overrides = {"silent": SILENT, "others": OTHERS}
        commands = [
            study.start("run", *WORDS, *w, f"experiment={n}") for n, w in overrides.items()
        ]
        for command in commands:
            output, _ = command.communicate(timeout=240)
            assert command.returncode == 1, output
        yield study


def test_each_fault_has_its_name_and_none_a_score(stuck: StudyFolder) -> None:
    """Hung, crashed and out-of-memory runs are told apart, and a hanging close does no harm."""
    runs = [run for name in ("silent", "others") for run in stuck.runs(name)]
    runs_by_fault = {run["label"].partition("=")[2]: run for run in runs}
    assert {
        "loop": ("failed", "hung", 3, None),
        "deadlock": ("failed", "hung", 3, None),
        "reset": ("failed", "hung", 3, None),
        "close": ("completed", None, 1, 10.0),
        "memory": ("failed", "out_of_memory", 3, None),
        "orphan": ("failed", "crashed", 3, None),
        "segfault": ("failed", "crashed", 3, None),
    } == {
        k: (r["state"], r["failure"], r["attempts"], r["score"]) for k, r in runs_by_fault.items()
    }
    assert runs_by_fault["loop"]["reason"].startswith("no progress for 2 s; ")


@pytest.mark.parametrize(
    ("fault", "function"),
    [("loop", "_loop"), ("deadlock", "_deadlock"), ("reset", "_sleep_in_reset")],
)
def test_the_log_says_where_a_run_was_stuck(stuck: StudyFolder, fault: str, function: str) -> None:
    """Before a hung run is killed, all its processes write their stacks into its log."""
    run = next(r for r in stuck.runs("silent") if r["label"].endswith(f"={fault}"))
    attempts = stuck.folder / "runs" / "silent" / run["run"] / "attempts"
    logs = [(attempts / number / "log.txt").read_text() for number in "123"]
    # On a busy machine, an attempt may not reach the fault in its time.
    assert any(f"in {function}" in log and "stuck_environments.py" in log for log in logs)


def test_nothing_lives_on(stuck: StudyFolder) -> None:
    """No process of a run or of its environments is left."""
    pids = [int(p.name.split("-")[1]) for p in (stuck.folder / "processes").iterdir()]
    assert len(pids) >= 6
    wait_until(lambda: not stuck.processes(), unhurried(2.0))
    # Zombies whose parent died before them are removed by the init process.
    wait_until(lambda: not [pid for pid in pids if psutil.pid_exists(pid)], 10.0)


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[StudyFolder]:
    """A study whose runs train nothing."""
    with new_study(tmp_path / "study", quick=True, warm=True) as study:
        yield study


def test_a_run_that_is_stopped_from_outside_is_hung_and_tried_again(quick: StudyFolder) -> None:
    """A run after SIGSTOP is killed as hung, logs its stack, and completes in a next attempt."""
    arguments = ("experiment=x", "seeds.test=1", "executor.hang_timeout=2", "budget.steps=3000")
    first = {"RLEXP_QUICK": '{"seconds": 600, "again": 0}'}
    command = quick.start("run", *arguments, variables=first)
    (worker,) = wait_until(lambda: quick.workers("x"))
    os.kill(worker, signal.SIGSTOP)
    output, _ = command.communicate(timeout=60)
    assert command.returncode == 0, output
    assert "failed (hung): no progress for 2 s; " in output
    assert "raise executor.hang_timeout; trying again" in output
    assert [("completed", 2)] == [(r["state"], r["attempts"]) for r in quick.runs("x")]
    log = next((quick.folder / "runs").glob("x/*/attempts/1/log.txt")).read_text()
    assert "quick_runs.py" in log
    wait_until(lambda: not psutil.pid_exists(worker), 10.0)


def test_no_dead_run_stays_a_zombie(quick: StudyFolder) -> None:
    """Runs that ended or were killed do not stay zombies while their command goes on."""
    arguments = ("experiment=x", "seeds.test=12", "executor.workers=2", "budget.steps=3000")
    command = quick.start("run", *arguments, variables={"RLEXP_QUICK": '{"seconds": 0.4}'})
    workers = wait_until(lambda: quick.workers("x"))
    os.kill(workers[0], signal.SIGKILL)
    wait_until(lambda: len(quick.events("x", "ended")) >= 6)
    assert command.poll() is None
    assert len(quick.workers("x")) - len(quick.events("x", "ended")) <= 3
    zombies = [p for p in psutil.Process(command.pid).children(recursive=True) if _is_zombie(p)]
    wait_until(lambda: not [p for p in zombies if _is_zombie(p)], 2.0)
    output, _ = command.communicate(timeout=60)
    assert command.returncode == 0, output


def _is_zombie(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
