"""A study mirror that a thread updates in the background."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from socket import socket
from threading import Event
from threading import enumerate as threads
from time import monotonic
from typing import Any

import pytest
from mirroring import SPACE, expected, mirror, plain_trials, sample_trial, study

from rlexp.exchange.background import BackgroundMirror
from rlexp.exchange.optuna_study import MirroredTrial, OptunaStudyMirror, redirect_library_logs


def test_shows_the_sweep(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """After closing, the study has the last snapshot, and nothing was printed."""
    background = BackgroundMirror(mirror(tmp_path, f"sqlite:///{tmp_path}/x.db"))
    assert background.check(30) is None
    trials = [sample_trial(0), sample_trial(1, "running")]
    background.offer(trials[:1])
    background.offer(trials)
    assert background.close(30) is None
    assert background.problem is None
    assert expected(trials) == plain_trials(study(tmp_path, f"sqlite:///{tmp_path}/x.db").trials)
    assert ("", "") == capfd.readouterr()
    assert "optuna mirror" not in {thread.name for thread in threads()}


def test_nothing_to_show(tmp_path: Path) -> None:
    """A mirror without a snapshot closes at once and leaves the study unchanged."""
    mirror(tmp_path).sync([sample_trial(0)])
    assert BackgroundMirror(mirror(tmp_path)).close(30) is None
    assert expected([sample_trial(0)]) == plain_trials(study(tmp_path).trials)


class SlowMirror(OptunaStudyMirror):
    """A mirror that takes a while and records the sizes of its updates."""

    def __init__(self, folder: Path, act: Callable[[int], object]) -> None:
        super().__init__(
            None, journal=folder / "x", name="slow", space=SPACE, directions=("maximize",)
        )
        self.sizes: list[int] = []
        self.act = act

    def open(self) -> None:
        """Nothing needs to be opened."""

    def sync(
        self,
        trials: Sequence[MirroredTrial],
        attributes: Mapping[str, Any] | None = None,
        notes: Mapping[int | None, str] | None = None,
    ) -> None:
        """Record the number of trials, then call `act`."""
        self.sizes.append(len(trials))
        self.act(len(self.sizes))


def test_only_the_latest_snapshot_is_written(tmp_path: Path) -> None:
    """Of the snapshots that arrive while the mirror is busy, only the last is written."""
    is_busy, released = Event(), Event()

    def act(_: int) -> None:
        is_busy.set()
        released.wait(30)

    slow = SlowMirror(tmp_path, act)
    background = BackgroundMirror(slow)
    background.offer([sample_trial(0)])
    assert is_busy.wait(30)
    for count in range(2, 500):
        background.offer([sample_trial(0)] * count)
    released.set()
    assert background.close(30) is None
    assert [1, 499] == slow.sizes


def test_never_waits(tmp_path: Path) -> None:
    """All methods return while the mirror hangs, and `close` returns the problem."""
    released = Event()
    background = BackgroundMirror(SlowMirror(tmp_path, lambda _: released.wait(30)))
    start = monotonic()
    for _ in range(1000):
        background.offer([sample_trial(0)])
    assert background.problem is None
    problem = background.close(0.2)
    assert monotonic() - start < 5
    assert problem is not None
    assert "is not up to date: it is too slow" in problem
    released.set()


def test_tries_again(tmp_path: Path) -> None:
    """A problem is reported in one line until an update succeeds."""
    problems: list[str | None] = []

    def act(attempt: int) -> None:
        if attempt < 3:
            raise OSError("gone\nfor a while") from ValueError("the cause.\nmore")
        problems.append(background.problem)

    background = BackgroundMirror(SlowMirror(tmp_path, act))
    background.offer([sample_trial(0)])
    assert background.close(30) is None
    assert background.problem is None
    reason = f"the study in {tmp_path}/x is not up to date: the cause; the search continues"
    assert [f"{reason}, and the study is updated when this is possible again"] == problems


def test_the_thread_is_mostly_idle(tmp_path: Path) -> None:
    """The thread works at most a tenth of the time while the search is running."""
    slow = SlowMirror(tmp_path, lambda _: Event().wait(0.1))
    background = BackgroundMirror(slow)
    assert background.check(30) is None
    start = monotonic()
    while monotonic() - start < 1.5:
        background.offer([sample_trial(0)])
        Event().wait(0.01)
    assert len(slow.sizes) <= 3
    background.close(30)


def test_dead_server(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The report of a stopped server has no password, and closing does not wait for it."""
    pytest.importorskip("psycopg")
    url = "postgresql://me:opensesame@127.0.0.1:1/d?application_name=opensesame"
    background = BackgroundMirror(mirror(tmp_path, url))
    background.offer([sample_trial(0)])
    check_problem = background.check(30)
    start = monotonic()
    close_problem = background.close(0.5)
    assert monotonic() - start < 5
    for problem in (check_problem, close_problem):
        assert problem is not None
        assert 1 == len(problem.splitlines())
        assert "opensesame" not in problem
        assert "postgresql+psycopg://me:***@127.0.0.1:1/d" in problem
        assert "refused" in problem
    assert ("", "") == capfd.readouterr()


def test_silent_server(tmp_path: Path) -> None:
    """A server that accepts connections and never answers delays nothing."""
    pytest.importorskip("psycopg")
    with socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        url = f"postgresql://me@127.0.0.1:{server.getsockname()[1]}/d"
        background = BackgroundMirror(mirror(tmp_path, url))
        background.offer([sample_trial(0)])
        start = monotonic()
        problem = background.check(0.5)
        assert problem is not None
        assert "it has not answered yet" in problem
        assert background.close(0.5) is not None
        assert monotonic() - start < 5


class LateMirror(SlowMirror):
    """A slow mirror that is slow already when its study is opened."""

    def open(self) -> None:
        """Do what an update does."""
        self.act(0)


def test_a_file_that_is_late_is_no_problem(tmp_path: Path) -> None:
    """On a busy machine, the first attempt on the sweep's own file may take long: no warning."""
    release = Event()
    late = LateMirror(tmp_path, lambda _: release.wait(30))
    background = BackgroundMirror(late)
    background.offer([sample_trial(0)])
    assert background.check(0.1) is None
    release.set()
    assert background.close(30) is None
    assert [1] == late.sizes


def test_another_study(tmp_path: Path) -> None:
    """The problem says that the study belongs to another sweep."""
    mirror(tmp_path, owner="other").sync([sample_trial(0)])
    background = BackgroundMirror(mirror(tmp_path))
    problem = background.check(30)
    assert problem is not None
    assert "belongs to another sweep" in problem
    assert "catches up" not in problem
    background.close(0)


def test_log(tmp_path: Path) -> None:
    """Optuna's messages go to the most recently set function."""
    first: list[str] = []
    second: list[str] = []
    redirect_library_logs(first.append)
    url: Any = f"sqlite:///{tmp_path}/x.db"
    mirror(tmp_path, url, log=second.append).sync([])
    assert [] == first
    assert any("A new study created" in message for message in second)
    redirect_library_logs()
