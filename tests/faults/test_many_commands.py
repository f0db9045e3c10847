"""Several commands at once, and repeated commands: one writer and one set of results."""

import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import optuna
import pytest
from in_full import IN_FULL, long
from last_words import last_words
from optuna.storages.journal import JournalFileBackend
from sqlalchemy.pool import NullPool
from studies import StudyFolder, new_study, wait_until

from rlexp.exchange.optuna_study import redirect_library_logs
from rlexp.store.layout import ExperimentPaths
from rlexp.store.sweeps import read_trials

RUN = ("run", "experiment=x", "budget.steps=3000", "budget.evaluation_every=1000", "seeds.test=2")
RATE = "algorithm.learning_rate=tag(log, interval(1e-5, 1e-1))"
SWEEP = (
    "sweep",
    "algorithm=ppo",
    "environment=cartpole",
    "budget.steps=3000",
    "budget.evaluation_every=1000",
    "tuner=random",
    "sweep.trials=8",
    "sweep.lag=2",
    "seeds.tuning=2",
    "seeds.selection=1",
    "seeds.test=1",
)
SLOW = {"RLEXP_QUICK": '{"seconds": 1.0}'}
BRISK = {"RLEXP_QUICK": '{"seconds": 0.1}'}


@pytest.fixture
def study(tmp_path: Path) -> Iterator[StudyFolder]:
    """A study whose runs train nothing."""
    with new_study(tmp_path / "study", quick=True, warm=True) as study:
        yield study


def test_of_three_commands_at_once_one_runs(study: StudyFolder) -> None:
    """Of three commands at once one runs, and the others are refused and name its process."""
    commands = [study.start(*RUN, variables=SLOW) for _ in range(3)]
    outputs = {c: c.communicate(timeout=60)[0] for c in commands}
    assert [0, 2, 2] == sorted(c.returncode for c in commands), outputs
    winner = next(c for c in commands if c.returncode == 0)
    for command, output in outputs.items():
        if command is not winner:
            assert f"in use by process {winner.pid} on " in output
            assert 1 == len(output.splitlines())
    assert [("completed", 1)] * 2 == [(r["state"], r["attempts"]) for r in study.runs("x")]


@long
def test_of_two_sweeps_on_one_name_one_runs(study: StudyFolder) -> None:
    """The second of two sweeps with one name is refused, and so is another search space."""
    arguments = last_words(*SWEEP, RATE, "sweep.trials=3", "experiment=s")
    first, second = (study.start(*arguments, variables=SLOW) for _ in range(2))
    outputs = [c.communicate(timeout=60)[0] for c in (first, second)]
    assert [0, 2] == sorted(c.returncode for c in (first, second)), outputs
    refused = next(o for c, o in zip((first, second), outputs, strict=True) if c.returncode == 2)
    assert "is in use by process" in refused
    before = read_trials(ExperimentPaths(study.folder / "runs" / "s"))
    other_rate = RATE.replace("1e-1", "1e-2")
    code, output = study.give(*last_words(*SWEEP, other_rate, "sweep.trials=3", "experiment=s"))
    assert (2, True) == (code, "another" in output), output
    assert before == read_trials(ExperimentPaths(study.folder / "runs" / "s"))


def trials_of(study: StudyFolder, url: str | None) -> list[optuna.trial.FrozenTrial]:
    """The trials of the mirror, as Optuna reads them."""
    redirect_library_logs()
    if url is None:
        journal = str(study.folder / "runs" / "s" / "optuna.journal")
        backend = JournalFileBackend(journal)
        return optuna.load_study(
            study_name="s", storage=optuna.storages.JournalStorage(backend)
        ).trials
    storage = optuna.storages.RDBStorage(url, engine_kwargs={"poolclass": NullPool})
    return optuna.load_study(study_name="s", storage=storage).trials


def has_ended(study: StudyFolder, count: int) -> bool:
    """Whether at least `count` runs have ended."""
    return len(study.events("s", "ended")) >= count


def test_a_killed_sweep_leaves_no_running_trial_and_tries_nothing_twice(
    study: StudyFolder,
) -> None:
    """A sweep that is killed twice has each trial once, in its records and in the Optuna mirror."""
    arguments = (*SWEEP, RATE, "experiment=s")
    for count in (3, 9):
        command = study.start(*arguments, variables=BRISK)
        wait_until(partial(has_ended, study, count))
        command.kill()
        command.wait()
    code, output = study.give(*arguments)
    assert code == 0, output
    mirrored_trials = trials_of(study, None)
    states = Counter(t.state.name for t in mirrored_trials)
    assert (8, {"COMPLETE", "PRUNED"}) == (states.total(), set(states))
    assert 8 == len({tuple(sorted(t.params.items())) for t in mirrored_trials})
    proposed = read_trials(ExperimentPaths(study.folder / "runs" / "s"))
    assert list(range(8)) == [t.number for t in proposed]
    ended = Counter(e["weights"] for e in study.events("s", "ended") if e["weights"])
    assert {1} == set(ended.values()), "a run was completed twice"


@long
def test_a_locked_database_holds_nobody_up(study: StudyFolder) -> None:
    """A sweep completes although its database is locked, and a repeat fills the mirror."""
    file = study.folder / "mirror.sqlite"
    url = f"sqlite:///{file}"
    words = (*SWEEP, RATE, "sweep.trials=4", f"sweep.storage={url}", "experiment=s")
    arguments = last_words(*words)
    locker = sqlite3.connect(file)
    locker.execute("BEGIN EXCLUSIVE")
    start = time.monotonic()
    code, output = study.give(*arguments)
    duration = time.monotonic() - start
    locker.rollback()
    locker.close()
    assert code == 0, output
    assert ("locked" in output, "Warning: " in output, "Traceback" in output) == (
        True,
        True,
        False,
    ), output
    assert duration < 30
    code, output = study.give(*arguments)
    assert (0, True) == (code, "nothing to run" in output), output
    states = Counter(t.state.name for t in trials_of(study, url))
    assert (4, {"COMPLETE", "PRUNED"}) == (states.total(), set(states))


def test_a_study_can_be_read_while_the_sweep_goes_on(study: StudyFolder) -> None:
    """A sweep completes while Optuna reads its mirror again and again."""
    url = f"sqlite:///{study.folder / 'mirror.sqlite'}"
    words = (*SWEEP, RATE, "sweep.trials=6", f"sweep.storage={url}", "experiment=s")
    arguments = last_words(*words)
    command = study.start(*arguments, variables=BRISK)
    wait_until((study.folder / "mirror.sqlite").exists)
    wait_until(lambda: len(study.events("s", "ended")) >= 3)
    trial_counts = []
    while command.poll() is None:
        trial_counts.append(len(trials_of(study, url)))
        time.sleep(0.3)
    output = command.communicate()[0]
    assert command.returncode == 0, output
    assert trial_counts == sorted(trial_counts)
    states = Counter(t.state.name for t in trials_of(study, url))
    assert (6, {"COMPLETE", "PRUNED"}) == (states.total(), set(states))


@pytest.mark.parametrize("name", ["run", "sweep"])
def test_a_crash_loop_ends_and_says_why(study: StudyFolder, name: str) -> None:
    """Where every run fails, each fails once; a sweep stops early and names the reason."""
    failing = {"RLEXP_QUICK": '{"raises": true}'}
    arguments = RUN if name == "run" else (*SWEEP, RATE, "sweep.stop_after=4", "experiment=x")
    code, output = study.give(*arguments, variables=failing)
    assert code == 1, output
    ended = study.events("x", "ended")
    assert {"step 3: RuntimeError: no motor"} == {e["reason"] for e in ended}
    assert "RuntimeError: no motor" in output
    if name == "run":
        assert 2 == len(ended)
    else:
        assert len(ended) <= 6
        assert "trials in a row failed alike" in output
    if name == "run" or IN_FULL:
        assert study.give(*arguments, variables=failing)[0] == 1
        assert len(ended) == len(study.events("x", "ended"))
