"""A fork looks at ended runs before the command does, and no result depends on it."""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from stored_runs import Stored, configuration, failed, stored, study

from rlexp.app.reading import look_ahead
from rlexp.app.reading.experiment_scan import ExperimentScan, survey
from rlexp.app.reading.look_ahead import CHECKSUM, LookAhead, looking_ahead, take_look
from rlexp.cli import looking_ahead_for
from rlexp.store import catalogue, run_stamps

FAILED = 5
"""The seed of the run that failed."""


@pytest.fixture
def experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stored:
    """Six ended runs, of which the last has failed, in a catalogue that a fork is worth."""
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(catalogue, "FEWEST", 1)
    monkeypatch.setattr(catalogue, "SETTLED", -3600.0)
    monkeypatch.setattr(look_ahead, "FEWEST_BYTES", 1)
    monkeypatch.setattr(look_ahead, "can_fork", lambda: True)
    made = stored(study(tmp_path).layout, "alpha", configuration("ppo"), test=6)
    for seed in range(FAILED):
        made.complete(seed, 400.0 + seed)
    made.attempt(FAILED, failed())
    survey(made.paths, brief=True)
    return made


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders of runs at which this process looks itself."""
    seen: list[str] = []
    original = run_stamps.stamp_of

    def stamp_of(folder: str, attempts: int) -> run_stamps.Stamp:
        seen.append(Path(folder).name)
        return original(folder, attempts)

    monkeypatch.setattr(catalogue, "stamp_of", stamp_of)
    return seen


def ended_fork(experiment: Stored) -> LookAhead:
    """A look ahead whose fork has ended."""
    look = look_ahead._BEGUN.get()
    assert look is not None
    assert look.is_of(experiment.paths)
    look._fork.result()
    return look


def scan_after_look(experiment: Stored) -> ExperimentScan:
    """A scan that begins after a fork has looked at every run."""
    with looking_ahead([experiment.paths]):
        ended_fork(experiment)
        return survey(experiment.paths, brief=True)


def name_of(experiment: Stored, seed: int) -> str:
    """The name of a run."""
    return experiment.run(seed).folder.name


def test_the_command_looks_only_at_runs_that_may_run_again(
    experiment: Stored, looks: list[str]
) -> None:
    """After a fork has looked, the command looks itself at the failed run only, with the same result."""
    expected = survey(experiment.paths, brief=True)
    assert {name_of(experiment, seed) for seed in range(6)} == {*looks}
    looks.clear()
    assert expected == scan_after_look(experiment)
    assert [name_of(experiment, FAILED)] == looks


CHANGES: list[Callable[[Stored], object]] = [
    lambda experiment: os.utime(experiment.run(1).attempt(1).journal),
    lambda experiment: experiment.run(1).spec.unlink(),
    lambda experiment: experiment.run(1).attempt(1).journal.write_bytes(b""),
    lambda experiment: experiment.run(1).folder.rename(experiment.paths.folder / "elsewhere"),
    lambda experiment: experiment.paths.catalogue.write_bytes(b"damaged"),
    lambda experiment: experiment.paths.catalogue.unlink(),
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_before_the_command_is_seen(
    experiment: Stored, change: Callable[[Stored], object]
) -> None:
    """What changed before the fork looked is read again, as without a fork."""
    change(experiment)
    # A damaged catalogue is written again by the first scan; both scans begin without one.
    present = (
        experiment.paths.catalogue.read_bytes() if experiment.paths.catalogue.exists() else None
    )
    expected = survey(experiment.paths, brief=True)
    if present is None:
        experiment.paths.catalogue.unlink()
    else:
        experiment.paths.catalogue.write_bytes(present)
    with looking_ahead([experiment.paths]):
        look = look_ahead._BEGUN.get()
        if look is not None:
            with suppress(ValueError):
                look._fork.result()
        assert expected == survey(experiment.paths, brief=True)


def test_a_run_that_vanishes_after_the_look_is_gone(experiment: Stored) -> None:
    """A folder that is removed between the look of the fork and the command's is no run."""
    with looking_ahead([experiment.paths]):
        ended_fork(experiment)
        experiment.run(2).folder.rename(experiment.paths.folder.parent / "removed")
        scan = survey(experiment.paths, brief=True)
    (gone,) = [run for run in scan.runs if run.name == name_of(experiment, 2)]
    assert gone.stored is not None
    assert 0 == gone.stored.record.attempts


@pytest.mark.parametrize("fault", ["killed", "slow", "no core"])
def test_without_marks_the_command_looks_itself(
    experiment: Stored, looks: list[str], monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """A killed fork, a slow fork and a machine with one core give the same scan."""
    expected = survey(experiment.paths, brief=True)
    looks.clear()
    if fault == "no core":
        monkeypatch.setattr(look_ahead, "can_fork", lambda: False)
    wait = (lambda *_: os._exit(1)) if fault == "killed" else (lambda *_: time.sleep(60))
    monkeypatch.setattr(look_ahead, "_look", wait)
    begun = time.monotonic()
    with looking_ahead([experiment.paths]):
        assert expected == survey(experiment.paths, brief=True)
    assert {name_of(experiment, seed) for seed in range(6)} == {*looks}
    assert time.monotonic() - begun < 30


def test_marks_of_another_catalogue_are_not_used(experiment: Stored, looks: list[str]) -> None:
    """The command looks itself where the catalogue was written again after the fork has read it."""
    with looking_ahead([experiment.paths]):
        look = ended_fork(experiment)
        look._marks[:CHECKSUM] = b"0" * CHECKSUM
        survey(experiment.paths, brief=True)
    assert {name_of(experiment, seed) for seed in range(6)} == {*looks}


def test_marks_serve_one_scan_and_not_for_long(
    experiment: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second scan of a command looks itself, and so does one that begins late."""
    with looking_ahead([experiment.paths]):
        assert take_look(experiment.paths) is not None
        assert take_look(experiment.paths) is None
    monkeypatch.setattr(look_ahead, "MOST_SECONDS", 0.0)
    with looking_ahead([experiment.paths]):
        assert take_look(experiment.paths) is None


def test_an_interrupted_command_leaves_no_fork(
    experiment: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fork is gone when an interrupt leaves the command."""
    monkeypatch.setattr(look_ahead, "_look", lambda *_: time.sleep(60))
    pids: list[int] = []
    with suppress(KeyboardInterrupt), looking_ahead([experiment.paths]):
        look = look_ahead._BEGUN.get()
        assert look is not None
        assert look._fork._pid is not None
        pids.append(look._fork._pid)
        raise KeyboardInterrupt
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)
    assert look_ahead._BEGUN.get() is None


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["show", "alpha"], True),
        (["ls", "--group", "alpha"], True),
        (["run", "experiment=alpha", "seeds.test=3"], True),
        (["show", "alpha/run"], False),
        (["show", "../alpha", "beta"], False),
        (["rm", "alpha"], False),
        ([], False),
    ],
)
def test_the_experiment_is_guessed_from_the_words(
    experiment: Stored, monkeypatch: pytest.MonkeyPatch, words: list[str], expected: bool
) -> None:
    """A fork begins for the experiment that a reading command names, and for nothing else."""
    monkeypatch.chdir(experiment.paths.folder.parents[1])
    with looking_ahead_for(words):
        assert expected == (look_ahead._BEGUN.get() is not None)


def test_inodes_of_64_bits_are_compared_whole(experiment: Stored) -> None:
    """A stamp with a number beyond 63 bits is packed, and differs from one with another high bit."""
    high, low = (1 << 63) + 5, 5
    assert run_stamps.packed([high, -1]) == run_stamps.packed([high, -1])
    assert run_stamps.packed([high, -1]) != run_stamps.packed([low, -1])
    assert 16 == len(run_stamps.packed([high, -1]))
