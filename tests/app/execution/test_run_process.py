"""An attempt keeps, uses, refuses or removes the checkpoints of earlier attempts."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from finished_runs import Finished, prepared, study
from quick_parts import quick_parts
from samples import ended, started

from rlexp.app.execution.run_process import RunListener, execute
from rlexp.records.checkpoint import MODEL, STATE, Checkpoint, Transitions
from rlexp.records.events import Ending, Failure, Refused, RunEnded
from rlexp.store.checkpoints.checkpoint_files import checkpoint_steps, publish_checkpoint
from rlexp.store.journal import JournalWriter
from rlexp.store.runs import new_attempt, read_attempts, read_spec, write_verdict

quick = pytest.fixture(autouse=True)(quick_parts)


def checkpoint(step: int) -> Checkpoint:
    """A checkpoint with a replay buffer of ten rows."""
    rows = Transitions(step - 10, step, b"rows")
    return Checkpoint(
        step=step, files={MODEL: b"m", STATE: b"s"}, oldest=step - 10, transitions=rows
    )


@pytest.fixture(scope="module")
def prepared_run(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A run that has not started."""
    arguments = ("algorithm.n_steps=32", "algorithm.batch_size=16", "algorithm.n_epochs=1")
    return prepared(tmp_path_factory.mktemp("a study"), *arguments)


@pytest.fixture
def run(tmp_path: Path, prepared_run: Finished) -> Finished:
    """A run whose first attempt left two checkpoints."""
    shutil.copytree(prepared_run.study.folder, tmp_path, dirs_exist_ok=True)
    run_with_checkpoints = Finished(study(tmp_path), study(tmp_path).run(prepared_run.name))
    about = {"run": read_spec(run_with_checkpoints.paths).id, "attempt": 1, "versions": {}}
    for step in (100, 200):
        publish_checkpoint(run_with_checkpoints.paths, checkpoint(step), about)
    return run_with_checkpoints


@pytest.fixture
def listener(run: Finished) -> Iterator[RunListener]:
    """The listener of a further attempt."""
    attempt = run.paths.attempt(1)
    with closing(JournalWriter(attempt.journal)) as journal:
        listener = RunListener(run.paths, attempt, journal)
        listener.origin = {"run": "x", "attempt": 2}
        yield listener
        listener.last_resort.cancel()


def test_refused_checkpoints_stay_until_a_new_one_exists(
    run: Finished, listener: RunListener
) -> None:
    """Refused checkpoints are removed only with the first checkpoint of the new attempt."""
    listener.goes_on_from(None)
    assert [200, 100] == checkpoint_steps(run.paths)
    listener.checkpoint(checkpoint(50))
    assert [50] == checkpoint_steps(run.paths)


def test_refused_checkpoints_are_removed_at_the_end_of_the_run(
    run: Finished, listener: RunListener
) -> None:
    """A completed run removes checkpoints of attempts that do not count."""
    listener.goes_on_from(None)
    listener.emit(ended())
    assert [] == checkpoint_steps(run.paths)


@pytest.mark.parametrize(
    ("ending", "keeps_buffer"),
    [
        (Ending.COMPLETED, False),
        (Ending.PRUNED, False),
        (Ending.INTERRUPTED, True),
        (Ending.FAILED, True),
    ],
)
def test_the_replay_buffer_is_removed_at_the_end_of_the_run(
    ending: Ending, keeps_buffer: bool, run: Finished, listener: RunListener
) -> None:
    """A completed or pruned run keeps its policies and removes its replay buffer."""
    listener.goes_on_from(200)
    listener.emit(ended(ending=ending))
    assert ([200, 100], keeps_buffer) == (checkpoint_steps(run.paths), run.paths.replay.exists())


def test_temporary_files_of_a_dead_attempt_are_removed(run: Finished) -> None:
    """Temporary files of a dead attempt are removed, and those of other programs stay."""
    temporary, foreign = (run.paths.folder / f".0123abcd.{name}" for name in (MODEL, "stop"))
    temporary.touch()
    foreign.touch()
    execute([str(run.paths.folder), "1"])
    assert (False, True) == (temporary.exists(), foreign.exists())


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (ended(failure=Failure.HUNG), "died while it restored this checkpoint (hung"),
        (ended(ending=Ending.INTERRUPTED), "architecture was not installed"),
    ],
)
def test_a_checkpoint_that_kills_its_attempt_is_refused(
    end: RunEnded, reason: str, run: Finished
) -> None:
    """An attempt refuses a checkpoint if the previous attempt died while restoring it."""
    attempt = run.paths.attempt(1)
    with closing(JournalWriter(attempt.journal)) as journal:
        journal.append(started(1))
    write_verdict(attempt, end)
    settings = attempt.settings.read_text()
    second = new_attempt(run.paths, {}, {}, "")
    second.settings.write_text(settings)
    execute([str(run.paths.folder), "2"])
    refused = [e for e in read_attempts(run.paths)[1].events if isinstance(e, Refused)]
    assert [200, 100] == [e.step for e in refused]
    assert reason in refused[0].reason, refused[0].reason
