"""No winner is chosen once test scores may be known, and damaged specifications are repaired."""

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
    """A sweep that has chosen its winner and has a test run."""
    paths = ExperimentPaths(tmp_path / "sample")
    write_experiment(paths, experiment(configuration()))
    append_trial(
        paths, StoredTrial(number=0, parameters={}, steps=100, configuration=configuration())
    )
    write_run(paths.run(SPECS[Phase.TUNING].name), SPECS[Phase.TUNING])
    write_selection(paths, SELECTION)
    write_run(paths.run(SPECS[Phase.TEST].name), SPECS[Phase.TEST])
    return paths


def test_a_removed_selection_is_not_made_again(paths: ExperimentPaths) -> None:
    """A selection that was deleted after test runs cannot be made again."""
    paths.selection.unlink()
    with pytest.raises(ProtocolError, match=r"has test runs but no selection\.json"):
        write_selection(paths, SELECTION)
    assert not paths.selection.exists()


def test_a_damaged_run_does_not_prevent_a_selection(paths: ExperimentPaths) -> None:
    """A run whose specification does not name its phase is not a test run."""
    paths.selection.unlink()
    for content in ("[]", "x", '{"schema": 1, "phase": "other"}'):
        paths.run(SPECS[Phase.TEST].name).spec.write_text(content)
        write_selection(paths, SELECTION)
        paths.selection.unlink()


@pytest.mark.parametrize("content", ["", "[]", "x", '{"schema": 1}'])
def test_a_damaged_spec_is_replaced(paths: ExperimentPaths, content: str) -> None:
    """A damaged specification is written again, so that it fails no attempt."""
    spec = SPECS[Phase.TEST]
    run = paths.run(spec.name)
    run.spec.write_text(content)
    write_run(run, spec)
    assert spec == read_spec(run)


def test_the_spec_of_another_run_is_replaced(paths: ExperimentPaths) -> None:
    """A folder with the specification of another run gets the right one."""
    run = paths.run(SPECS[Phase.TEST].name)
    other_spec = configuration().spec(Phase.TEST, 0, 1)
    run.spec.write_text(json.dumps({**SPEC.head(), "id": other_spec.id, **other_spec.plain()}))
    write_run(run, SPECS[Phase.TEST])
    assert SPECS[Phase.TEST] == read_spec(run)


def test_seconds_of_all_attempts_are_spent() -> None:
    """The spent seconds and steps are those of all attempts; NaN seconds do not count."""
    spec = SPECS[Phase.TUNING]
    starts = [RunStarted(time=0.0, attempt=k, pid=1, host="here") for k in (1, 2, 3)]
    crash = RunEnded(time=9.0, step=50, ending=Ending.FAILED, seconds=4.0, failure=Failure.CRASHED)
    completed = RunEnded(time=20.0, step=100, ending=Ending.COMPLETED, seconds=7.0)
    hung = RunEnded(
        time=9.0, step=10, ending=Ending.FAILED, seconds=float("nan"), failure=Failure.HUNG
    )
    record = RunRecord.fold(
        spec, [[starts[0], crash], [starts[1], hung], [starts[2], completed], []]
    )
    assert (11.0, 160) == (record.seconds_spent, record.spent)
