"""`rlexp report` computes nothing if no file has changed since the last report."""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import give
from quick_parts import quick_parts
from stored_runs import Stored, configuration, stored, study

from rlexp.app.commands.judge import report as reporting
from rlexp.app.commands.judge.report import ReportFiles, ReportRequest, report
from rlexp.app.reading import beside as forks
from rlexp.errors import RlexpError
from rlexp.store.locks.lease import hold
from rlexp.store.tracker_positions import TrackerPositions

quick = pytest.fixture(autouse=True)(quick_parts)

QUICK = ("repetitions=200", "section=[verdicts,checklist]")
UNCHANGED = "Unchanged, already written"


@pytest.fixture(autouse=True)
def trusted_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A separate cache, and files that count as old as soon as they are written."""
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(reporting, "SETTLED", -3600.0)


@pytest.fixture
def alpha(tmp_path: Path) -> Stored:
    """Two labels with four scores each."""
    experiment = stored(
        study(tmp_path).layout, "alpha", configuration("ppo"), configuration("a2c"), test=4
    )
    for seed in range(4):
        experiment.complete(seed, 400.0 + seed)
        experiment.complete(seed, 100.0 + seed, label="a2c")
    return experiment


def write(folder: Path, *targets: str, **options: Any) -> ReportFiles:
    """Write a report with few resamples."""
    overrides = (*QUICK, *options.pop("overrides", ()))
    request = ReportRequest(targets=targets or ("alpha",), overrides=overrides, **options)
    return report(request, study(folder))


def command_output(folder: Path, *words: str, code: int = 0) -> str:
    """The output of the command."""
    settings = [word for override in QUICK for word in ("--set", override)]
    return give(folder, "report", "alpha", *settings, *words, code=code)


def page(folder: Path) -> Path:
    """The path of the report."""
    return folder / "reports" / "alpha" / "report.html"


def test_the_second_time_nothing_is_computed(
    tmp_path: Path, alpha: Stored, monkeypatch: Any
) -> None:
    """A repeated command computes no report, prints the same and leaves the files unchanged."""
    first, content = command_output(tmp_path), page(tmp_path).read_bytes()
    monkeypatch.setattr(reporting, "collect_evidence", None)
    assert first.replace("Wrote", f"{UNCHANGED}:") == command_output(tmp_path)
    assert content == page(tmp_path).read_bytes()


def test_the_result_is_the_same_both_times(tmp_path: Path, alpha: Stored) -> None:
    """A repeated report has the same files, labels, notices, checks and next commands."""
    first, second = write(tmp_path), write(tmp_path)
    assert (False, True) == (first.unchanged, second.unchanged)
    assert replace(first, unchanged=True) == second


def test_a_push_to_a_tracker_keeps_the_report(tmp_path: Path, alpha: Stored) -> None:
    """What trackers store beside the records of an experiment changes no report."""
    write(tmp_path)
    cursors = TrackerPositions(alpha.paths, "tensorboard", "tensorboard")
    with cursors.holding(time.time()):
        cursors.move("a run", step=1)
    assert write(tmp_path).unchanged


def a_new_score(folder: Path, alpha: Stored) -> None:
    """Add a completed run."""
    alpha.complete(4, 300.0)


def a_deleted_run(folder: Path, alpha: Stored) -> None:
    """Delete the records of a run."""
    alpha.run(0).spec.unlink()


def an_edited_journal(folder: Path, alpha: Stored) -> None:
    """Edit a journal and keep its size and times."""
    path = alpha.run(0).attempt(1).journal
    times = path.stat()
    path.write_bytes(path.read_bytes().replace(b"400", b"900"))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def an_edited_page(folder: Path, alpha: Stored) -> None:
    """Edit the report."""
    page(folder).write_text("other")


def a_deleted_page(folder: Path, alpha: Stored) -> None:
    """Delete the report."""
    page(folder).unlink()


def a_damaged_cache_entry(folder: Path, alpha: Stored) -> None:
    """Damage the cache entry of the report."""
    for entry in (folder / "home" / "rlexp" / "reports").iterdir():
        entry.write_text('{"schema": 1, "source": 3}')


def a_secret(folder: Path, alpha: Stored) -> None:
    """Add a secret variable, which a report masks."""
    os.environ["SOME_API_KEY"] = "seeds-were-never"


@pytest.mark.parametrize(
    "change",
    [
        a_new_score,
        a_deleted_run,
        an_edited_journal,
        an_edited_page,
        a_deleted_page,
        a_damaged_cache_entry,
        a_secret,
    ],
)
def test_after_a_change_the_report_is_computed_again(
    tmp_path: Path,
    alpha: Stored,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Path, Stored], None],
) -> None:
    """Changed records, reports, cache entries or secrets lead to a new report."""
    monkeypatch.setenv("SOME_API_KEY", "")
    write(tmp_path)
    change(tmp_path, alpha)
    assert not write(tmp_path).unchanged
    assert page(tmp_path).read_text().startswith("<!")


@pytest.mark.parametrize("seed", range(4))
def test_a_change_in_either_half_is_seen_by_two_processes(
    tmp_path: Path, alpha: Stored, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Where a fork looks at half of the files, an edit of any run leads to a new report."""
    monkeypatch.setattr(reporting, "WORTH_FORKING", 1)
    monkeypatch.setattr(forks, "can_fork", lambda: True)
    write(tmp_path)
    assert write(tmp_path).unchanged
    for label in ("ppo", "a2c"):
        os.utime(alpha.run(seed, label).attempt(1).journal)
        assert not write(tmp_path).unchanged


@pytest.mark.parametrize("options", [{"overrides": ("level=0.9",)}, {"formats": ("html", "md")}])
def test_other_settings_are_another_report(
    tmp_path: Path, alpha: Stored, options: dict[str, Any]
) -> None:
    """A report with another level or another format is computed."""
    write(tmp_path)
    assert not write(tmp_path, **options).unchanged


def test_settings_of_the_workspace_are_read_each_time(tmp_path: Path, alpha: Stored) -> None:
    """A changed `conf/report.yaml` of the workspace leads to a new report."""
    write(tmp_path)
    settings_file = tmp_path / "conf" / "report.yaml"
    settings_file.parent.mkdir()
    packaged = Path(__file__).parents[3] / "conf" / "report.yaml"
    settings_file.write_text(packaged.read_text().replace("alpha: 0.05", "alpha: 0.01"))
    assert not write(tmp_path).unchanged


def test_variables_are_filled_in_each_time(
    tmp_path: Path,
    alpha: Stored,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A report whose setting refers to an environment variable is not cached."""
    monkeypatch.setenv("METHOD", "percentile")
    for _ in range(2):
        assert not write(tmp_path, overrides=("interval=${oc.env:METHOD}",)).unchanged


def test_a_circular_link_is_a_one_line_error(tmp_path: Path) -> None:
    """An experiment that is a link to itself is refused with an error of rlexp."""
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "alpha").symlink_to("alpha")
    with pytest.raises(RlexpError):
        write(tmp_path)


def test_cache_entries_are_private(tmp_path: Path, alpha: Stored) -> None:
    """Only the user can read the folder of cache entries, because they cover secrets."""
    write(tmp_path)
    folder = tmp_path / "home" / "rlexp" / "reports"
    assert 0o700 == folder.stat().st_mode & 0o777
    assert 1 == len(list(folder.iterdir()))


def test_strict_refuses_the_second_time_too(tmp_path: Path, alpha: Stored) -> None:
    """A cached report has the exit code of its failed checks."""
    alpha.run(0).spec.unlink()
    assert UNCHANGED not in command_output(tmp_path, "--strict", code=3)
    assert UNCHANGED in command_output(tmp_path, "--strict", code=3)


def test_nothing_is_cached_while_a_command_runs(tmp_path: Path, alpha: Stored) -> None:
    """Nothing is cached while a command runs, because its runs can become lost at any time."""
    with hold(alpha.paths.lock, "the experiment", now=time.time()):
        write(tmp_path)
        assert not write(tmp_path).unchanged


def test_recent_changes_are_not_cached(
    tmp_path: Path,
    alpha: Stored,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Recent changes are not cached, because a file may change twice within one clock tick."""
    monkeypatch.setattr(reporting, "SETTLED", 2.0)
    (alpha.paths.folder / "now").write_text(str(time.time()))
    write(tmp_path)
    assert not write(tmp_path).unchanged


def test_an_experiment_with_a_link_is_not_cached(tmp_path: Path, alpha: Stored) -> None:
    """An experiment with a link is not cached, because the target of the link may change."""
    (alpha.paths.folder / "link").symlink_to(tmp_path)
    write(tmp_path)
    assert not write(tmp_path).unchanged


def test_an_unwritable_cache_is_ignored(tmp_path: Path, alpha: Stored) -> None:
    """Without a writable cache, the report is computed each time."""
    (tmp_path / "home").write_text("no folder")
    assert not any(write(tmp_path).unchanged for _ in range(2))
