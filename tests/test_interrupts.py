"""Ctrl-C ends a command also where a library catches the interrupt."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from typer.core import TyperGroup

from rlexp.__main__ import main as start
from rlexp.app.execution.signals import collect_signals
from rlexp.cli.application import make_app
from rlexp.errors import Interrupted
from rlexp.interrupts import remember_interrupts, was_interrupted


@pytest.fixture(autouse=True)
def remembering() -> Iterator[None]:
    """Let the process of the tests remember interrupts during a test."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    remember_interrupts()
    yield
    signal.signal(signal.SIGINT, before)


def interrupt_in_a_library() -> None:
    """Press Ctrl-C in a library that turns it into an error of its own."""
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt:
        raise ValueError("full_key: defaults") from None


def test_an_interrupt_that_a_library_catches_stops_the_runs() -> None:
    """A command that goes on after a swallowed Ctrl-C asks its runs to stop before the first begins."""
    with collect_signals() as signals:
        assert not signals.asked_to_stop()
    with pytest.raises(ValueError, match="full_key"):
        interrupt_in_a_library()
    with collect_signals() as signals:
        assert signal.SIGINT == signals.received


def test_an_interrupt_is_raised_as_before() -> None:
    """Where no library catches it, Ctrl-C is a KeyboardInterrupt."""
    assert not was_interrupted()
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    assert was_interrupted()


def test_an_interrupt_that_became_an_error_is_no_mistake_of_the_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The command says that it was interrupted, not what the library made of the interrupt."""
    monkeypatch.setattr(TyperGroup, "invoke", lambda *_: interrupt_in_a_library(), raising=False)
    with pytest.raises(Interrupted, match="interrupted"):
        make_app(("run",), ())(["run"], standalone_mode=False)


def test_an_interrupt_that_became_an_error_of_an_import_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An import that turns Ctrl-C into another error ends the command in one line, with its code."""
    monkeypatch.setattr("rlexp.cli.main", interrupt_in_a_library)
    with pytest.raises(SystemExit) as end:
        start()
    assert (130, "rlexp: interrupted\n") == (end.value.code, capsys.readouterr().err)


def test_an_error_without_an_interrupt_is_no_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of an import that no Ctrl-C caused is not reported as an interrupt."""
    monkeypatch.setattr("rlexp.cli.main", lambda: int("full_key"))
    with pytest.raises(ValueError, match="full_key"):
        start()


def test_an_ignored_interrupt_stays_ignored() -> None:
    """A command whose shell ignores SIGINT for it ignores SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    remember_interrupts()
    assert signal.SIG_IGN is signal.getsignal(signal.SIGINT)


def test_a_command_imports_nothing_before_it_catches_an_interrupt() -> None:
    """Where Ctrl-C would still end in a traceback, only two small files of rlexp are read."""
    probe = (
        "import sys; b = {*sys.modules}; import rlexp.__main__; print(sorted({*sys.modules} - b))"
    )
    command = [sys.executable, "-S", "-c", f"import sys; sys.path = {sys.path!r}; {probe}"]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "['rlexp', 'rlexp.__main__']" == process.stdout.strip()
