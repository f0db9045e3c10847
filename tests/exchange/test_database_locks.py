"""Locks between processes that mirror the same sweep."""

import errno
import fcntl
from pathlib import Path
from threading import Thread
from time import sleep

import pytest
from mirroring import expected, mirror, plain_trials, study
from race import TRIALS
from racing import race, racer

from rlexp.exchange.locks import file_lock
from rlexp.exchange.optuna_study import JOURNAL


def test_processes_on_a_fresh_journal(tmp_path: Path) -> None:
    """Two processes that start at once create one journal with every trial once."""
    race(tmp_path)


@pytest.mark.slow
def test_processes_on_a_fresh_sqlite(tmp_path: Path) -> None:
    """Two processes that start at once create one database with every trial once."""
    race(tmp_path, f"sqlite:///{tmp_path}/x.db")


def test_killed_writer(tmp_path: Path) -> None:
    """The next process completes a study whose writer was killed."""
    journal = tmp_path / JOURNAL
    starter = tmp_path / "go"
    starter.touch()
    with racer(tmp_path, starter) as writer:
        while not journal.exists() or journal.read_bytes().count(b'"op_code":4') < 2:
            sleep(0.001)
        writer.kill()
    mirror(tmp_path).sync(TRIALS)
    assert expected(TRIALS) == plain_trials(study(tmp_path).trials)


def test_one_at_a_time(tmp_path: Path) -> None:
    """The second holder waits until the first one has released the lock."""
    order: list[str] = []

    def second() -> None:
        with file_lock(tmp_path / "turn"):
            order.append("second")

    waiting = Thread(target=second)
    with file_lock(tmp_path / "turn"):
        waiting.start()
        waiting.join(0.2)
        order.append("first")
    waiting.join(10)
    assert ["first", "second"] == order


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mirror works on a file system that supports no locks."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with file_lock(tmp_path / "turn"):
        reached = True
    assert reached


def test_errors_go_through(tmp_path: Path) -> None:
    """An error inside the lock releases it and is raised."""
    with pytest.raises(OSError, match="disk"), file_lock(tmp_path / "turn"):
        raise OSError(errno.ENOSPC, "disk")
    with file_lock(tmp_path / "turn"):
        pass
