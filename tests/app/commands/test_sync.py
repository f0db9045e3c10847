"""`rlexp sync` pushes pending records once, and follows no link."""

import os
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pytest
from finished_runs import study
from quick_parts import quick_parts
from samples import continued, ended, evaluated, experiment, started, write_tree
from warm_processes import MIRRORS, warm_up

from rlexp.app.commands.order.sync import SyncOutcome, SyncRow, sync
from rlexp.app.observer import SilentObserver
from rlexp.app.tracking import mirror_client
from rlexp.app.tracking.earlier_trackers import trackers_of
from rlexp.app.tracking.mirror_client import MirrorClient, MirrorRequest
from rlexp.cli.order.sync import show_pushed, sync_exit_code
from rlexp.console import Console
from rlexp.errors import ConfigError
from rlexp.protocol.seeds import Phase
from rlexp.records.events import Ending, Event, Failure, Measured
from rlexp.store.journal import JournalWriter
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.runs import new_attempt, write_experiment, write_run

quick = pytest.fixture(autouse=True)(quick_parts)

TENSORBOARD = "tracker=[tensorboard]"
SECOND = """\
second:
  _target_: rlexp.trackers.tensorboard.TensorBoard
  folder: elsewhere
  wait: 10
  required: false
"""


@pytest.fixture(autouse=True)
def warm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork tracker processes from a process that has imported their modules."""
    warm_up(monkeypatch, mirror_client, MIRRORS)


@pytest.fixture
def paths(tmp_path: Path) -> ExperimentPaths:
    """An experiment of two runs, none of which has started."""
    experiment_paths = ExperimentPaths(tmp_path / "runs" / "sample")
    write_experiment(experiment_paths, experiment())
    for _, spec in experiment().specs(Phase.TEST):
        write_run(experiment_paths.run(spec.name), spec)
    return experiment_paths


def attempt(run: RunPaths, *events: Event, torch_version: str = "1") -> None:
    """Write a further attempt with these events and a version of a package."""
    folder = new_attempt(run, {}, {"packages": {"torch": torch_version}}, "")
    journal = JournalWriter(folder.journal)
    for event in events:
        journal.append(event)
    journal.close()


def loss(step: int, value: float = 0.5) -> Measured:
    """A logged loss at a step."""
    return Measured(time=float(step), step=step, metrics={"loss": value})


def sync_rows(paths: ExperimentPaths, *words: str) -> tuple[int, list[dict[str, object]]]:
    """The exit code of a sync and a row for each tracker."""
    workspace = study(paths.folder.parent.parent)
    pushed = sync([paths.name, *(words or [TENSORBOARD])], workspace, wait=30.0)
    return sync_exit_code(pushed), [asdict(row) for row in pushed.rows]


def points(paths: ExperimentPaths, run: RunPaths) -> Counter[tuple[str, int, float]]:
    """The losses of a run in TensorBoard."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    from tensorboard.util.tensor_util import make_ndarray

    experiment_folder = paths.folder.parent.parent / "tensorboard" / paths.name
    owners = experiment_folder.glob("*/.run")
    folders = [owner.parent for owner in owners if owner.read_text() == run.folder.name]
    return Counter(
        (value.tag, event.step, float(make_ndarray(value.tensor)))
        for folder in folders
        for path in folder.glob("*tfevents*")
        for event in EventFileLoader(str(path)).Load()
        for value in event.summary.value
        if value.tag == "loss"
    )


def losses(steps: Sequence[int], value: float = 0.5) -> Counter[tuple[str, int, float]]:
    """The recorded losses of a run."""
    return Counter(("loss", step, value) for step in steps)


def test_a_second_sync_changes_nothing(paths: ExperimentPaths) -> None:
    """A second sync changes neither the files of the tracker nor the stored positions."""
    first, second = paths.runs()
    attempt(first, started(), loss(10), loss(20), evaluated(100, 5.0, final=True), ended())
    attempt(second, started(), loss(10), ended(40, failure=Failure.NAN))
    code, (row,) = sync_rows(paths)
    assert (code, row["pending"], row["problem"]) == (0, 0, None)
    assert points(paths, first) == losses([10, 20])
    before = contents(paths.folder.parent.parent)
    assert sync_rows(paths)[0] == 0
    assert before == contents(paths.folder.parent.parent)


def contents(folder: Path) -> dict[Path, bytes]:
    """Every file in a folder."""
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("end", [ended(30, Ending.INTERRUPTED), None], ids=["stopped", "lost"])
def test_a_continued_run_is_pushed_completely(paths: ExperimentPaths, end: Event | None) -> None:
    """All steps of a run that was continued are pushed once."""
    run = paths.runs()[0]
    attempt(run, started(), loss(10), loss(20), loss(30), *([end] if end else []))
    for _ in range(2):
        code, (row,) = sync_rows(paths)
        assert (code, row["pending"]) == (0, 0)
    attempt(run, started(2), continued(20), loss(30), evaluated(30, 1.0), loss(40), ended(40))
    assert sync_rows(paths)[0] == 0
    assert points(paths, run) == losses([10, 20, 30, 40])


def test_a_retry_replaces_the_failed_attempt(paths: ExperimentPaths) -> None:
    """A retry replaces the points of the failed attempt."""
    run = paths.runs()[0]
    attempt(run, started(), loss(10, 1.0), loss(20, 1.0), ended(20, failure=Failure.ENVIRONMENT))
    assert sync_rows(paths)[0] == 0
    attempt(run, started(2), loss(10, 8.0), loss(20, 8.0), loss(30, 8.0), ended(30))
    assert sync_rows(paths)[0] == 0
    assert points(paths, run) == losses([10, 20, 30], 8.0)


def test_a_restart_with_other_packages_replaces_the_points(paths: ExperimentPaths) -> None:
    """A restart from step 0 with other packages replaces the earlier points."""
    run = paths.runs()[0]
    attempt(run, started(), loss(10, 1.0), loss(20, 1.0), loss(30, 1.0))
    assert sync_rows(paths)[0] == 0
    attempt(run, started(2), loss(10, 8.0), loss(20, 8.0), ended(20), torch_version="2")
    assert sync_rows(paths)[0] == 0
    assert points(paths, run) == losses([10, 20], 8.0)


def test_a_copy_is_another_experiment(paths: ExperimentPaths) -> None:
    """A copied experiment is pushed under its own name, and the original stays unchanged."""
    run = paths.runs()[0]
    attempt(run, started(), loss(10), ended(10))
    assert sync_rows(paths)[0] == 0
    copy = ExperimentPaths(paths.folder.with_name("copy"))
    shutil.copytree(paths.folder, copy.folder)
    assert sync_rows(copy)[0] == 0
    assert points(copy, copy.run(run.folder.name)) == losses([10]) == points(paths, run)


def test_a_new_experiment_with_an_old_name_gets_a_new_folder(
    paths: ExperimentPaths,
) -> None:
    """An experiment without stored positions gets a new folder."""
    run = paths.runs()[0]
    attempt(run, started(), loss(10), ended(10))
    assert sync_rows(paths)[0] == 0
    shutil.rmtree(paths.trackers)
    assert sync_rows(paths)[0] == 0
    folders = sorted((paths.folder.parent.parent / "tensorboard").glob("sample*"))
    assert len(folders) == 2
    assert [len(list(f.glob("*seed*/*tfevents*"))) for f in folders] == [1, 1]


def test_a_moved_workspace_keeps_its_positions(paths: ExperimentPaths, tmp_path: Path) -> None:
    """After a workspace was moved, nothing is pending."""
    attempt(paths.runs()[0], started(), loss(10), ended(10))
    assert sync_rows(paths)[0] == 0
    (tmp_path / "moved").mkdir()
    for name in ("runs", "tensorboard"):
        (tmp_path / name).rename(tmp_path / "moved" / name)
    moved_paths = ExperimentPaths(tmp_path / "moved" / "runs" / paths.name)
    code, (row,) = sync_rows(moved_paths, "tracker.tensorboard.wait=9")
    assert (code, row["pending"], row["place"]) == (0, 0, "tensorboard")


@pytest.mark.parametrize("linked", ["trackers", "place"])
def test_nothing_is_written_through_a_link(
    paths: ExperimentPaths, tmp_path: Path, linked: str
) -> None:
    """A link in the folder of an experiment is reported, and its target stays unchanged."""
    attempt(paths.runs()[0], started(), loss(10), ended(10))
    assert sync_rows(paths)[0] == 0
    victim = tmp_path / "victim"
    (victim / "wandb").mkdir(parents=True)
    (victim / "wandb" / "precious").write_text("kept")
    folder = paths.trackers
    if linked == "place":
        (folder,) = paths.trackers.glob("tensorboard-*")
    shutil.rmtree(folder)
    folder.symlink_to(victim)
    code, (row,) = sync_rows(paths)
    assert (code, "is a link" in str(row["problem"])) == (69, True)
    assert [p.name for p in victim.rglob("*")] == ["wandb", "precious"]


@pytest.mark.parametrize("linked", ["run", "attempts", "attempt", "journal"])
def test_nothing_is_read_through_a_link(
    paths: ExperimentPaths, tmp_path: Path, linked: str
) -> None:
    """Linked records are not pushed, and other runs are."""
    first, second = paths.runs()
    for run in (first, second):
        attempt(run, started(), loss(10), ended(10))
    linked_paths = {
        "run": first.folder,
        "attempts": first.folder / "attempts",
        "attempt": first.attempt(1).folder,
        "journal": first.attempt(1).journal,
    }
    linked_paths[linked].rename(tmp_path / "elsewhere")
    linked_paths[linked].symlink_to(tmp_path / "elsewhere")
    code, (row,) = sync_rows(paths)
    assert (code, "link" in str(row["problem"])) == (69, True)
    assert points(paths, second) == losses([10])
    assert not points(paths, first)


def test_a_pipe_does_not_block_the_push(paths: ExperimentPaths) -> None:
    """A pipe in place of a journal is reported, and other runs are pushed."""
    first, second = paths.runs()
    attempt(first, started())
    attempt(second, started(), loss(10), ended(10))
    first.attempt(1).journal.unlink()
    os.mkfifo(first.attempt(1).journal)
    code, (row,) = sync_rows(paths)
    assert code == 69
    assert "regular file" in str(row["problem"])
    assert points(paths, second) == losses([10])


def test_a_damaged_position_does_not_stop_other_trackers(paths: ExperimentPaths) -> None:
    """The damaged position of one tracker does not stop the other."""
    write_tree(paths.folder.parent.parent, {"conf/tracker/second.yaml": SECOND})
    attempt(paths.runs()[0], started(), loss(10), ended(10))
    both_trackers = "tracker=[tensorboard,second]"
    assert sync_rows(paths, both_trackers)[0] == 0
    (cursors,) = paths.trackers.glob("second-*/cursors.jsonl")
    cursors.unlink()
    cursors.mkdir()
    code, rows = sync_rows(paths, both_trackers)
    row_of = {row["tracker"]: row for row in rows}
    assert (code, row_of["tensorboard"]["problem"], row_of["tensorboard"]["pending"]) == (
        69,
        None,
        0,
    )
    assert row_of["second"]["problem"]


def unreachable(paths: ExperimentPaths) -> ExperimentPaths:
    """The experiment with an ended run, where TensorBoard's folder cannot be made."""
    attempt(paths.runs()[0], started(), loss(10), ended(10))
    (paths.folder.parent.parent / "tensorboard").write_text("a file")
    return paths


def test_a_problem_is_noted_while_the_tracker_is_tried_again(paths: ExperimentPaths) -> None:
    """A tracker that cannot be reached is named at once, with the time for which it is tried."""
    notes: list[str] = []

    class Notes(SilentObserver):
        def note(self, text: str) -> None:
            notes.append(text)

    workspace = study(unreachable(paths).folder.parent.parent)
    sync([paths.name, TENSORBOARD], workspace, wait=3.0, observer=Notes())
    (note,) = notes
    assert note.startswith("tensorboard: ")
    assert note.endswith("; it is tried again for at most 3 s, and Ctrl-C ends that")


def test_a_push_ends_with_its_killed_command(paths: ExperimentPaths) -> None:
    """When the command of a push is gone, its process ends before the time limit of the push."""
    workspace = study(unreachable(paths).folder.parent.parent)
    request = MirrorRequest(
        trackers=trackers_of([TENSORBOARD], paths, workspace), once=True, wait=300
    )
    mirror = MirrorClient(paths, request, workspace, None)
    assert mirror._process.stdin is not None
    mirror._process.stdin.close()
    assert 0 == mirror._process.wait(60)
    mirror.kill()


def test_a_problem_is_not_folded(capsys: pytest.CaptureFixture[str]) -> None:
    """On a narrow terminal, a problem with its command is whole, on one line below the table."""
    problem = "the server does not answer; type rlexp sync first tracker.mlflow.uri=" + "x" * 80
    row = SyncRow(experiment="first", tracker="mlflow", place="here", pending=3, problem=problem)
    narrow = Console()
    narrow.out.width = 40
    show_pushed(SyncOutcome(rows=(row,), trackers=None, interrupted=None), narrow)
    assert f"first in mlflow: {problem}" == capsys.readouterr().out.splitlines()[-1]


def test_plain_secrets_in_settings_are_refused(paths: ExperimentPaths) -> None:
    """A setting with a secret in plain text is refused."""
    with pytest.raises(ConfigError, match="holds a secret in plain text") as caught:
        sync_rows(paths, "tracker=[mlflow]", "tracker.mlflow.uri=http://bob:sesame@127.0.0.1")
    assert "sesame" not in str(caught.value)
