"""Signals at bad moments: in an update, in the last evaluation, while saving."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from in_full import long
from studies import StudyFolder, new_study, wait_until
from tracing import injecting, traced

from rlexp.engine.run_in_flight import read_progress

BUDGET = ("budget.steps=3000", "budget.evaluation_every=1000")


@pytest.fixture
def study(tmp_path: Path) -> Iterator[StudyFolder]:
    """A study with real runs."""
    with new_study(tmp_path / "study", warm=True) as study:
        yield study


def steps(study: StudyFolder) -> list[int]:
    """Environment steps of every run."""
    paths = (study.folder / "runs").glob("x/*/attempts/1/progress.bin")
    return sorted(read_progress(path)[0] for path in paths)


def test_a_signal_in_an_update_or_the_last_evaluation_ends_the_command(study: StudyFolder) -> None:
    """SIGUSR1 in a long update or evaluation interrupts the runs after the grace period."""
    arguments = (
        "experiment=x",
        "seeds.test=1",
        "budget.steps=256",
        "budget.evaluation_every=null",
        "budget.final_episodes=100_000",
        "algorithm.n_steps=256",
        "algorithm.n_epochs=1,100_000",
        "executor.workers=2",
        "executor.grace=1",
    )
    command = study.start("run", *arguments)
    wait_until(lambda: steps(study) == [256, 256], 120)
    time.sleep(0.3)
    command.send_signal(signal.SIGUSR1)
    start = time.monotonic()
    output, _ = command.communicate(timeout=60)
    assert (75, True) == (command.returncode, time.monotonic() - start < 30), output
    assert [("interrupted", None)] * 2 == [(r["state"], r["score"]) for r in study.runs("x")]
    assert "To continue: rlexp run experiment=x" in output
    assert not study.processes()


@traced
@long
def test_a_signal_while_saving_loses_nothing(tmp_path: Path) -> None:
    """SIGTERM during slow saves leaves runs that a repeat completes, none of them twice."""
    with new_study(tmp_path / "study", quick=True) as study:
        arguments = ("run", "experiment=x", *BUDGET, "seeds.test=4")
        before = injecting("fsync", "delay_enter=300000", "1+", tmp_path / "trace")
        command = study.start(*arguments, before=before)
        wait_until(lambda: study.events("x", "evaluated"))
        (process,) = [
            p for p in study.processes() if "run" in p.cmdline() and not _traces(p.cmdline())
        ]
        process.send_signal(signal.SIGTERM)
        output, _ = command.communicate(timeout=60)
        assert command.returncode == 143, output
        states = {r["run"]: r["state"] for r in study.runs("x")}
        assert set(states.values()) <= {"completed", "interrupted", "planned"}
        code, output = study.give(*arguments)
        assert code == 0, output
        assert ["completed"] * 4 == [r["state"] for r in study.runs("x")]
        completed = [r for r in study.runs("x") if states[r["run"]] == "completed"]
        assert [1] * len(completed) == [r["attempts"] for r in completed]


def _traces(arguments: list[str]) -> bool:
    return "strace" in arguments[0]
