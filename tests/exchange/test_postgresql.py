"""A sweep mirrored to a real PostgreSQL server that is stopped and restarted."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from time import sleep

import pytest
from mirroring import Place, expected, mirror, plain_trials, sample_trial, study
from postgresql_server import PASSWORD, Server, binaries, running_server
from racing import race

from rlexp.exchange.background import BackgroundMirror

PROGRAMS = binaries()
pytestmark = pytest.mark.skipif(PROGRAMS is None, reason="needs PostgreSQL: initdb and pg_ctl")


@pytest.fixture(scope="module")
def shared_server() -> Iterator[Server]:
    """A running server that all tests of this file share."""
    pytest.importorskip("psycopg")
    assert PROGRAMS is not None
    with running_server(PROGRAMS) as server:
        yield server


@pytest.fixture
def server(shared_server: Server) -> Server:
    """The shared server with an empty database."""
    shared_server.empty()
    return shared_server


@pytest.fixture
def place(server: Server, tmp_path: Path) -> Iterator[Place]:
    """The database of the server."""
    with closing(Place(tmp_path, server.url)) as opened:
        yield opened


def test_a_growing_sweep(place: Place) -> None:
    """The study follows a growing sweep, and a new mirror completes it."""
    trials = [sample_trial(0), sample_trial(1, "failed"), sample_trial(2, "pruned")]
    writer = place.mirror()
    for count in range(len(trials)):
        writer.sync([*trials[:count], sample_trial(count, "running")])
    writer.close()
    place.mirror().sync([*trials, sample_trial(3, "running")])
    loaded = place.study()
    assert expected([*trials, sample_trial(3, "running")]) == plain_trials(loaded.trials)
    assert 0 == loaded.best_trial.number


def test_starts_over(place: Place) -> None:
    """The study is written again if a finished trial of the sweep differs from it."""
    writer = place.mirror()
    writer.sync([sample_trial(0), sample_trial(1)])
    writer.sync([sample_trial(0), sample_trial(1, values=(9.0,))])
    assert expected([sample_trial(0), sample_trial(1, values=(9.0,))]) == place.trials()


@pytest.mark.slow
def test_processes_on_a_fresh_database(server: Server, tmp_path: Path) -> None:
    """Two processes that start at once create one study with every trial once."""
    race(tmp_path, server.url)


@pytest.mark.slow
def test_restarts(server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Server restarts and a stop lose no trial, repeat none and print nothing."""
    background = BackgroundMirror(mirror(tmp_path, server.url))
    assert background.check(30) is None
    for number in range(16):
        background.offer(
            [*(sample_trial(n) for n in range(number)), sample_trial(number, "running")]
        )
        if number in {4, 8}:
            server.restart()
        if number == 12:
            server.stop()
        sleep(0.1)
    while (problem := background.problem) is None:
        sleep(0.1)
    server.start()
    background.offer([sample_trial(number) for number in range(16)])
    assert background.close(60) is None
    assert expected([sample_trial(number) for number in range(16)]) == plain_trials(
        study(tmp_path, server.url).trials
    )
    assert PASSWORD not in problem
    assert "opensesame" not in problem
    assert ("", "") == capfd.readouterr()


def test_restart_between_steps(server: Server, place: Place) -> None:
    """A restart between two updates has no effect."""
    writer = place.mirror()
    writer.sync([sample_trial(0, "running")])
    server.restart()
    writer.sync([sample_trial(0), sample_trial(1)])
    assert expected([sample_trial(0), sample_trial(1)]) == place.trials()


def test_wrong_password(server: Server, tmp_path: Path) -> None:
    """The error about a wrong password does not contain the password."""
    background = BackgroundMirror(mirror(tmp_path, server.url.replace("opensesame", "wrong")))
    problem = background.check(30)
    background.close(0)
    assert problem is not None
    assert "password authentication failed" in problem
    assert "wrong" not in problem
