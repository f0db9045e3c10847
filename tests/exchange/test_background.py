"""A study mirror that is updated by a thread."""

from collections.abc import Callable, Sequence
from pathlib import Path
from socket import socket
from threading import Event
from threading import enumerate as threads
from time import monotonic
from typing import Any

import pytest
from mirroring import SPACE, expected, mirror, mirrored, shown, study

from rlexp.exchange.background import BackgroundMirror
from rlexp.exchange.optuna_study import MirroredTrial, OptunaStudyMirror, redirect_library_logs


def test_shows_the_sweep(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """After closing, the study has the last snapshot, and nothing was printed."""
    one = BackgroundMirror(mirror(tmp_path, f"sqlite:///{tmp_path}/x.db"))
    assert one.check(30) is None
    trials = [mirrored(0), mirrored(1, "running")]
    one.offer(trials[:1])
    one.offer(trials)
    assert one.close(30) is None
    assert one.problem is None
    assert expected(trials) == shown(study(tmp_path, f"sqlite:///{tmp_path}/x.db").trials)
    assert ("", "") == capfd.readouterr()
    assert "optuna mirror" not in {thread.name for thread in threads()}


def test_nothing_to_show(tmp_path: Path) -> None:
    """A mirror without a snapshot closes at once and leaves the study unchanged."""
    mirror(tmp_path).sync([mirrored(0)])
    assert BackgroundMirror(mirror(tmp_path)).close(30) is None
    assert expected([mirrored(0)]) == shown(study(tmp_path).trials)


class Slow(OptunaStudyMirror):
    """A mirror that takes a while, and notes what it got."""

    def __init__(self, folder: Path, act: Callable[[int], object]) -> None:
        super().__init__(
            None, journal=folder / "x", name="slow", space=SPACE, directions=("maximize",)
        )
        self.got: list[int] = []
        self.act = act

    def open(self) -> None:
        """Nothing."""

    def sync(self, trials: Sequence[MirroredTrial]) -> None:
        """Note how many there are, and act."""
        self.got.append(len(trials))
        self.act(len(self.got))


def test_latest_wins(tmp_path: Path) -> None:
    """Of the snapshots that arrive while the mirror is busy, only the last is written."""
    busy, go = Event(), Event()

    def act(_: int) -> None:
        busy.set()
        go.wait(30)

    slow = Slow(tmp_path, act)
    one = BackgroundMirror(slow)
    one.offer([mirrored(0)])
    assert busy.wait(30)
    for count in range(2, 500):
        one.offer([mirrored(0)] * count)
    go.set()
    assert one.close(30) is None
    assert [1, 499] == slow.got


def test_never_waits(tmp_path: Path) -> None:
    """All methods return while the mirror hangs; `close` returns the problem."""
    go = Event()
    one = BackgroundMirror(Slow(tmp_path, lambda _: go.wait(30)))
    began = monotonic()
    for _ in range(1000):
        one.offer([mirrored(0)])
    assert one.problem is None
    problem = one.close(0.2)
    assert monotonic() - began < 5
    assert problem is not None
    assert "is not up to date: it is too slow" in problem
    go.set()


def test_tries_again(tmp_path: Path) -> None:
    """A problem is reported in one line as long as it lasts."""
    told: list[str | None] = []

    def act(times: int) -> None:
        if times < 3:
            raise OSError("gone\nfor a while") from ValueError("the cause.\nmore")
        told.append(one.problem)

    one = BackgroundMirror(Slow(tmp_path, act))
    one.offer([mirrored(0)])
    assert one.close(30) is None
    assert one.problem is None
    says = f"the study in {tmp_path}/x is not up to date: the cause; the search continues"
    assert [f"{says}, and the study is updated when this is possible again"] == told


def test_rests(tmp_path: Path) -> None:
    """The thread works at most a tenth of the time while the search is running."""
    slow = Slow(tmp_path, lambda _: Event().wait(0.1))
    one = BackgroundMirror(slow)
    assert one.check(30) is None
    began = monotonic()
    while monotonic() - began < 1.5:
        one.offer([mirrored(0)])
        Event().wait(0.01)
    assert len(slow.got) <= 3
    one.close(30)


def test_dead_server(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A server that is down is named without its password and not waited for at the end."""
    pytest.importorskip("psycopg")
    url = "postgresql://me:opensesame@127.0.0.1:1/d?application_name=opensesame"
    one = BackgroundMirror(mirror(tmp_path, url))
    one.offer([mirrored(0)])
    checked = one.check(30)
    began = monotonic()
    closed = one.close(0.5)
    assert monotonic() - began < 5
    for problem in (checked, closed):
        assert problem is not None
        assert 1 == len(problem.splitlines())
        assert "opensesame" not in problem
        assert "postgresql+psycopg://me:***@127.0.0.1:1/d" in problem
        assert "refused" in problem
    assert ("", "") == capfd.readouterr()


def test_silent_server(tmp_path: Path) -> None:
    """A server that accepts connections and never answers delays nothing."""
    pytest.importorskip("psycopg")
    with socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"postgresql://me@127.0.0.1:{silent.getsockname()[1]}/d"
        one = BackgroundMirror(mirror(tmp_path, url))
        one.offer([mirrored(0)])
        began = monotonic()
        problem = one.check(0.5)
        assert problem is not None
        assert "it has not answered yet" in problem
        assert one.close(0.5) is not None
        assert monotonic() - began < 5


def test_another_study(tmp_path: Path) -> None:
    """The problem names a study that belongs to another sweep."""
    mirror(tmp_path, owner="other").sync([mirrored(0)])
    one = BackgroundMirror(mirror(tmp_path))
    problem = one.check(30)
    assert problem is not None
    assert "belongs to another sweep" in problem
    assert "catches up" not in problem
    one.close(0)


def test_log(tmp_path: Path) -> None:
    """Optuna's messages go to the last function that was given."""
    first: list[str] = []
    second: list[str] = []
    redirect_library_logs(first.append)
    url: Any = f"sqlite:///{tmp_path}/x.db"
    mirror(tmp_path, url, log=second.append).sync([])
    assert [] == first
    assert any("A new study created" in message for message in second)
    redirect_library_logs()
