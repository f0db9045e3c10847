"""No choice is made where test scores may be known, and no damage outlives its run."""

import json
from pathlib import Path

import pytest
from samples import configuration, experiment

from rlexp.errors import ProtocolError
from rlexp.protocol.seeds import Phase
from rlexp.records.events import Ending, Failure, RunEnded, RunStarted
from rlexp.records.run import RunRecord
from rlexp.records.selection import Finalist, Selection
from rlexp.store.layout import ExperimentPaths
from rlexp.store.runs import read_spec, write_experiment, write_run
from rlexp.store.schemas import SPEC
from rlexp.store.sweeps import StoredTrial, append_trial, write_selection

SELECTION = Selection(winner=0, finalists=(Finalist(number=0, tuning=(1.0,)),), rule="best")
SPECS = {phase: configuration().spec(phase, 0, 0) for phase in Phase}


@pytest.fixture
def paths(tmp_path: Path) -> ExperimentPaths:
    """A sweep that has chosen and has a test run."""
    paths = ExperimentPaths(tmp_path / "sample")
    write_experiment(paths, experiment(configuration()))
    append_trial(
        paths, StoredTrial(number=0, parameters={}, steps=100, configuration=configuration())
    )
    write_run(paths.run(SPECS[Phase.TUNING].name), SPECS[Phase.TUNING])
    write_selection(paths, SELECTION)
    write_run(paths.run(SPECS[Phase.TEST].name), SPECS[Phase.TEST])
    return paths


def test_a_removed_choice_is_not_made_again(paths: ExperimentPaths) -> None:
    """Who deletes the choice after the tests cannot choose by knowing them."""
    paths.selection.unlink()
    with pytest.raises(ProtocolError, match=r"has test runs and no selection\.json"):
        write_selection(paths, SELECTION)
    assert not paths.selection.exists()


def test_a_damaged_run_folder_does_not_hinder_a_choice(paths: ExperimentPaths) -> None:
    """Runs that do not say their phase are no test runs."""
    paths.selection.unlink()
    for content in ("[]", "x", '{"schema": 1, "phase": "other"}'):
        paths.run(SPECS[Phase.TEST].name).spec.write_text(content)
        write_selection(paths, SELECTION)
        paths.selection.unlink()


@pytest.mark.parametrize("content", ["", "[]", "x", '{"schema": 1}'])
def test_a_damaged_spec_is_put_right(paths: ExperimentPaths, content: str) -> None:
    """A run is defined by who asks for it, so that damage in its folder fails no attempt."""
    spec = SPECS[Phase.TEST]
    run = paths.run(spec.name)
    run.spec.write_text(content)
    write_run(run, spec)
    assert spec == read_spec(run)


def test_the_spec_of_another_run_is_put_right(paths: ExperimentPaths) -> None:
    """A folder that holds a copy of another run becomes the one that its name says."""
    run = paths.run(SPECS[Phase.TEST].name)
    other = configuration().spec(Phase.TEST, 0, 1)
    run.spec.write_text(json.dumps({**SPEC.head(), "id": other.id, **other.plain()}))
    write_run(run, SPECS[Phase.TEST])
    assert SPECS[Phase.TEST] == read_spec(run)


def test_seconds_of_all_attempts_are_spent() -> None:
    """What an attempt took counts, though another followed; what none said does not."""
    spec = SPECS[Phase.TUNING]
    started = [RunStarted(time=0.0, attempt=k, pid=1, host="here") for k in (1, 2, 3)]
    crash = RunEnded(time=9.0, step=50, ending=Ending.FAILED, seconds=4.0, failure=Failure.CRASHED)
    done = RunEnded(time=20.0, step=100, ending=Ending.COMPLETED, seconds=7.0)
    lost = RunEnded(
        time=9.0, step=10, ending=Ending.FAILED, seconds=float("nan"), failure=Failure.HUNG
    )
    record = RunRecord.fold(
        spec, [[started[0], crash], [started[1], lost], [started[2], done], []]
    )
    assert (11.0, 160) == (record.seconds_spent, record.spent)
