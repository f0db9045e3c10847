"""Ctrl-C, SIGTERM and SIGUSR1 end a command in order; a second Ctrl-C ends it at once."""

import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest
from studies import LONG, StudyFolder, new_study, wait_until

WORDS = ("run", "experiment=x", "seeds.test=3", *LONG)


@pytest.fixture
def study(tmp_path: Path) -> Iterator[StudyFolder]:
    """A study."""
    with new_study(tmp_path) as study:
        yield study


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGUSR1, 75)],
)
def test_a_signal_ends_the_command_in_order(
    number: signal.Signals,
    code: int,
    study: StudyFolder,
) -> None:
    """Running runs are recorded as interrupted, and the command to continue is printed."""
    command = study.start(*WORDS)
    wait_until(lambda: len(study.workers("x")) == 2)
    command.send_signal(number)
    output, _ = command.communicate(timeout=20)
    assert code == command.returncode, output
    assert [e["ending"] for e in study.events("x", "ended")] == ["interrupted"] * 2
    assert "To continue: rlexp run experiment=x seeds.test=3" in output
    assert not study.processes()


def test_a_second_ctrl_c_ends_everything_within_two_seconds(study: StudyFolder) -> None:
    """Even a run that hangs inside its environment is dead two seconds after the second Ctrl-C."""
    words = (
        "environment=gymnasium",
        "environment.id=odd_environments:Odd-v0",
        "environment.arguments.fault=hang",
        "budget.steps=5000",
        "experiment=x",
        "seeds.test=2",
    )
    command = pexpect.spawn(
        sys.executable,
        ["-m", "rlexp", "run", *words],
        cwd=study.folder,
        encoding="utf-8",
        timeout=60,
    )
    wait_until(lambda: len(study.workers("x")) == 2)
    time.sleep(1.0)
    command.sendintr()
    time.sleep(0.5)
    assert study.processes()
    command.sendintr()
    wait_until(lambda: not study.processes() or not command.isalive(), 2.0)
    command.expect(pexpect.EOF)
    command.close()
    assert command.exitstatus == 130
    assert not study.processes()
    assert [r["state"] for r in study.runs("x")] == ["interrupted"] * 2


def test_a_signal_while_the_server_warms_up_ends_the_command(study: StudyFolder) -> None:
    """Ctrl-C before the first run has started leaves planned runs and no process."""
    command = study.start(*WORDS)
    wait_until(lambda: list((study.folder / "runs").glob("x/*/spec.json")))
    command.send_signal(signal.SIGINT)
    output, _ = command.communicate(timeout=20)
    assert command.returncode == 130, output
    assert not study.processes()


def test_what_the_shell_ignores_stays_ignored(study: StudyFolder) -> None:
    """A command under nohup goes on when its terminal closes."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        command = study.start(*WORDS)
    finally:
        signal.signal(signal.SIGHUP, before)
    wait_until(lambda: len(study.workers("x")) == 2)
    command.send_signal(signal.SIGHUP)
    time.sleep(1.0)
    assert command.poll() is None
    command.terminate()
    assert command.wait(20) == 143
