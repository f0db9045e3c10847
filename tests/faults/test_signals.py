"""Ctrl-C, SIGTERM and SIGUSR1 end a command in order; a second Ctrl-C ends it at once."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest
from studies import LONG, StudyFolder, new_study, unhurried, wait_until

WORDS = ("run", "experiment=x", "seeds.test=3", *LONG)


LASTING = {"RLEXP_QUICK": '{"seconds": 600}'}


@pytest.fixture
def cold(tmp_path: Path) -> Iterator[StudyFolder]:
    """A study whose runs train nothing, and whose commands are processes of their own."""
    with new_study(tmp_path, quick=True) as study:
        yield study


@pytest.mark.parametrize(
    ("number", "code", "quick"),
    [(signal.SIGINT, 130, True), (signal.SIGTERM, 143, False), (signal.SIGUSR1, 75, True)],
)
def test_a_signal_ends_the_command_in_order(
    number: signal.Signals, code: int, *, quick: bool, tmp_path: Path
) -> None:
    """A signal interrupts the running runs, and the command prints how to continue."""
    with new_study(tmp_path, quick=quick, warm=True) as study:
        check_end_in_order(study, number, code)


def check_end_in_order(study: StudyFolder, number: signal.Signals, code: int) -> None:
    """Send a signal to a command, and check its exit code, records and processes."""
    command = study.start(*WORDS, variables=LASTING)
    wait_until(lambda: len(study.workers("x")) == 2)
    command.send_signal(number)
    output, _ = command.communicate(timeout=60)
    assert code == command.returncode, output
    assert [e["ending"] for e in study.events("x", "ended")] == ["interrupted"] * 2
    assert "To continue: rlexp run experiment=x seeds.test=3" in output
    assert not study.processes()


def test_a_second_ctrl_c_ends_everything_within_two_seconds(cold: StudyFolder) -> None:
    """A run that ignores requests to stop is dead two seconds after the second Ctrl-C."""
    program, *arguments = [*cold.program, *WORDS]
    deaf = {"RLEXP_QUICK": '{"seconds": 600, "deaf": true}'}
    command = pexpect.spawn(
        program,
        arguments,
        cwd=cold.folder,
        encoding="utf-8",
        timeout=60,
        env={**cold.variables, **deaf},
    )
    wait_until(lambda: len(cold.workers("x")) == 2)
    command.sendintr()
    time.sleep(0.5)
    # The command, the server, and two runs with a guard each.
    assert len(cold.processes()) == 6
    command.sendintr()
    wait_until(lambda: not cold.processes() or not command.isalive(), unhurried(2.0))
    command.expect(pexpect.EOF)
    command.close()
    assert command.exitstatus == 130
    assert not cold.processes()
    assert [r["state"] for r in cold.runs("x")] == [*["interrupted"] * 2, "planned"]


def test_a_signal_while_the_server_warms_up_ends_the_command(cold: StudyFolder) -> None:
    """Ctrl-C before the first run has started ends the command at once, and no run begins."""
    warming = {"RLEXP_QUICK": '{"seconds": 600, "warming": 600}'}
    command = cold.start(*WORDS, "--no-probe", variables=warming)
    wait_until(lambda: list((cold.folder / "runs").glob("x/*/spec.json")))
    command.send_signal(signal.SIGINT)
    output, _ = command.communicate(timeout=60)
    assert command.returncode == 130, output
    assert not cold.processes()
    assert ["planned"] * 3 == [run["state"] for run in cold.runs("x")]


def test_what_the_shell_ignores_stays_ignored(cold: StudyFolder) -> None:
    """A command that inherits an ignored SIGHUP, as under nohup, ignores SIGHUP."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        command = cold.start(*WORDS, variables=LASTING)
    finally:
        signal.signal(signal.SIGHUP, before)
    wait_until(lambda: len(cold.workers("x")) == 2)
    command.send_signal(signal.SIGHUP)
    time.sleep(1.0)
    assert command.poll() is None
    command.terminate()
    assert command.wait(60) == 143
