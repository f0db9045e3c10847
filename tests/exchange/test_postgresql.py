"""A sweep mirrored to a real PostgreSQL server that is restarted."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from time import sleep

import pytest
from mirroring import Place, expected, mirror, mirrored, shown, study
from postgresql_server import PASSWORD, Server, binaries, running_server
from racing import race

from rlexp.exchange.background import BackgroundMirror

PROGRAMS = binaries()
pytestmark = pytest.mark.skipif(PROGRAMS is None, reason="needs PostgreSQL: initdb and pg_ctl")


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    """A server for this file."""
    pytest.importorskip("psycopg")
    assert PROGRAMS is not None
    with running_server(PROGRAMS) as server:
        yield server


@pytest.fixture
def server(running: Server) -> Server:
    """The server, with an empty database."""
    running.empty()
    return running


@pytest.fixture
def place(server: Server, tmp_path: Path) -> Iterator[Place]:
    """The server's database."""
    with closing(Place(tmp_path, server.url)) as made:
        yield made


def test_a_sweep(place: Place) -> None:
    """The study follows a growing sweep; a new mirror completes the study of another."""
    trials = [mirrored(0), mirrored(1, "failed"), mirrored(2, "pruned")]
    one = place.mirror()
    for count in range(len(trials)):
        one.sync([*trials[:count], mirrored(count, "running")])
    one.close()
    place.mirror().sync([*trials, mirrored(3, "running")])
    loaded = place.study()
    assert expected([*trials, mirrored(3, "running")]) == shown(loaded.trials)
    assert 0 == loaded.best_trial.number


def test_starts_over(place: Place) -> None:
    """If a finished trial differs, the study is written again."""
    one = place.mirror()
    one.sync([mirrored(0), mirrored(1)])
    one.sync([mirrored(0), mirrored(1, values=(9.0,))])
    assert expected([mirrored(0), mirrored(1, values=(9.0,))]) == place.told()


@pytest.mark.slow
def test_processes_on_a_fresh_database(server: Server, tmp_path: Path) -> None:
    """Two processes create one set of tables and one study, with every trial once."""
    race(tmp_path, server.url)


@pytest.mark.slow
def test_restarts(server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A server crash loses no trial, repeats none, and delays nothing."""
    one = BackgroundMirror(mirror(tmp_path, server.url))
    assert one.check(30) is None
    for number in range(16):
        one.offer([*(mirrored(n) for n in range(number)), mirrored(number, "running")])
        if number in {4, 8}:
            server.restart()
        if number == 12:
            server.stop()
        sleep(0.1)
    while (problem := one.problem) is None:
        sleep(0.1)
    server.start()
    one.offer([mirrored(number) for number in range(16)])
    assert one.close(60) is None
    assert expected([mirrored(number) for number in range(16)]) == shown(
        study(tmp_path, server.url).trials
    )
    assert PASSWORD not in problem
    assert "opensesame" not in problem
    assert ("", "") == capfd.readouterr()


def test_restart_between_steps(server: Server, place: Place) -> None:
    """A restart between two updates has no effect."""
    one = place.mirror()
    one.sync([mirrored(0, "running")])
    server.restart()
    one.sync([mirrored(0), mirrored(1)])
    assert expected([mirrored(0), mirrored(1)]) == place.told()


def test_wrong_password(server: Server, tmp_path: Path) -> None:
    """The error about a wrong password does not contain it."""
    one = BackgroundMirror(mirror(tmp_path, server.url.replace("opensesame", "wrong")))
    problem = one.check(30)
    one.close(0)
    assert problem is not None
    assert "password authentication failed" in problem
    assert "wrong" not in problem
