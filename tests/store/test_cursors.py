"""The positions of trackers on disk; a damaged file only gives an earlier position."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import pytest

from rlexp.errors import RecordError
from rlexp.store.layout import ExperimentPaths
from rlexp.store.tracker_positions import (
    STALE_LINES,
    TrackerPosition,
    TrackerPositions,
    experiment_identity,
    tracker_locations,
)


@pytest.fixture
def paths(tmp_path: Path) -> ExperimentPaths:
    """The folder of an experiment."""
    folder = tmp_path / "runs" / "sample"
    folder.mkdir(parents=True)
    return ExperimentPaths(folder)


def cursors(paths: ExperimentPaths, location: str = "here") -> TrackerPositions:
    """The positions of MLflow at a location."""
    return TrackerPositions(paths, "mlflow", location)


def test_a_cursor_is_found_again(paths: ExperimentPaths) -> None:
    """The next process reads the position for the same run and location only."""
    with cursors(paths).holding(0.0):
        pass
    first = cursors(paths)
    first.move("a", step=10, kept={"run": "x"})
    first.move("a", attempt=2)
    assert TrackerPosition(step=10, attempt=2, kept={"run": "x"}) == cursors(paths).of("a")
    assert TrackerPosition() == cursors(paths).of("b")
    assert TrackerPosition() == cursors(paths, "there").of("a")


def test_every_field_of_a_position_is_read_again(paths: ExperimentPaths) -> None:
    """The next process also knows the reported loss, and the attempt that the data begins with."""
    with cursors(paths).holding(0.0):
        pass
    position = TrackerPosition(step=10, attempt=2, lost=3, begun=2, kept={"run": "x"})
    cursors(paths).move("a", **asdict(position))
    assert position == cursors(paths).of("a")


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_torn_line_only_lags(paths: ExperimentPaths, cut: int) -> None:
    """A torn last line leaves the earlier position valid, and the next line is complete."""
    with cursors(paths).holding(0.0):
        pass
    first = cursors(paths)
    first.move("a", step=10)
    first.move("a", step=20)
    (file,) = paths.trackers.glob("*/cursors.jsonl")
    file.write_bytes(file.read_bytes()[:-cut])
    reread = cursors(paths)
    assert reread.of("a").step in {-1, 10}
    reread.move("a", step=30)
    assert 30 == cursors(paths).of("a").step


def test_nonsense_in_the_file_only_lags(paths: ExperimentPaths) -> None:
    """Damaged lines are skipped, and the position of the valid line counts."""
    with cursors(paths).holding(0.0):
        pass
    cursors(paths).move("a", step=10)
    (file,) = paths.trackers.glob("*/cursors.jsonl")
    file.write_bytes(b'\x00\n[]\n{"run": 1}\nnull\n' + b"[" * 10_000 + b"\n" + file.read_bytes())
    assert 10 == cursors(paths).of("a").step


def test_the_file_stays_small(paths: ExperimentPaths) -> None:
    """Outdated lines are removed from the file."""
    with cursors(paths).holding(0.0):
        pass
    positions = cursors(paths)
    for step in range(3 * STALE_LINES):
        positions.move("a", step=step)
    (file,) = paths.trackers.glob("*/cursors.jsonl")
    assert len(file.read_bytes().splitlines()) <= STALE_LINES + 1
    assert 3 * STALE_LINES - 1 == cursors(paths).of("a").step


def test_one_process_pushes_at_a_time(paths: ExperimentPaths) -> None:
    """A second process for the same location is refused; another location is free."""
    with cursors(paths).holding(0.0):
        with pytest.raises(RecordError, match="in mlflow is in use by"), cursors(paths).holding(0):
            pass
        with cursors(paths, "there").holding(0.0):
            pass
    assert [("mlflow", "here"), ("mlflow", "there")] == sorted(tracker_locations(paths))


def test_an_experiment_has_one_identity(paths: ExperimentPaths) -> None:
    """The identity is drawn once for each folder, even by several threads at once."""
    with ThreadPoolExecutor(8) as pool:
        identities = set(pool.map(lambda _: experiment_identity(paths), range(32)))
    assert 1 == len(identities)
    other_experiment = ExperimentPaths(paths.folder.with_name("other"))
    other_experiment.folder.mkdir()
    assert identities != {experiment_identity(other_experiment)}
    assert not list(paths.trackers.glob(".*"))


def test_a_damaged_identity_is_refused(paths: ExperimentPaths) -> None:
    """An identity that rlexp did not draw is refused with advice."""
    experiment_identity(paths)
    (paths.trackers / "identity.json").write_text('{"schema": 1, "id": "../../x"}')
    with pytest.raises(RecordError, match="to push everything anew"):
        experiment_identity(paths)


def test_a_linked_folder_is_refused(paths: ExperimentPaths) -> None:
    """A folder of positions that is a link is refused, because it may lead anywhere."""
    folder = cursors(paths).folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.symlink_to(paths.folder.parent)
    with pytest.raises(RecordError, match="link"):
        cursors(paths)
