"""`rlexp report` a second time: nothing is computed where no file has changed."""

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

from rlexp.app.commands import report as reporting
from rlexp.app.commands.report import ReportFiles, ReportRequest, report
from rlexp.errors import RlexpError
from rlexp.store.lease import hold

quick = pytest.fixture(autouse=True)(quick_parts)

QUICK = ("repetitions=200", "section=[verdicts,checklist]")
UNCHANGED = "Unchanged, already written"


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A cache of its own, and files that count as old at once."""
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(reporting, "SETTLED", -3600.0)


@pytest.fixture
def alpha(tmp_path: Path) -> Stored:
    """Two labels with four scores each."""
    own = stored(
        study(tmp_path).layout, "alpha", configuration("ppo"), configuration("a2c"), test=4
    )
    for seed in range(4):
        own.complete(seed, 400.0 + seed)
        own.complete(seed, 100.0 + seed, label="a2c")
    return own


def write(folder: Path, *targets: str, **options: Any) -> ReportFiles:
    """Write a report with few resamples."""
    overrides = (*QUICK, *options.pop("overrides", ()))
    request = ReportRequest(targets=targets or ("alpha",), overrides=overrides, **options)
    return report(request, study(folder))


def said(folder: Path, *words: str, code: int = 0) -> str:
    """What the command prints."""
    settings = [word for override in QUICK for word in ("--set", override)]
    return give(folder, "report", "alpha", *settings, *words, code=code)


def page(folder: Path) -> Path:
    """Where the report is."""
    return folder / "reports" / "alpha" / "report.html"


def test_the_second_time_nothing_is_computed(
    tmp_path: Path, alpha: Stored, monkeypatch: Any
) -> None:
    """The command prints the same, and the files stay as they are."""
    first, content = said(tmp_path), page(tmp_path).read_bytes()
    monkeypatch.setattr(reporting, "gather", None)
    assert first.replace("Wrote", f"{UNCHANGED}:") == said(tmp_path)
    assert content == page(tmp_path).read_bytes()


def test_the_result_is_the_same_both_times(tmp_path: Path, alpha: Stored) -> None:
    """Files, labels, notices, failed checks and the next command are kept."""
    first, second = write(tmp_path), write(tmp_path)
    assert (False, True) == (first.unchanged, second.unchanged)
    assert replace(first, unchanged=True) == second


def a_new_score(folder: Path, alpha: Stored) -> None:
    """Another run is done."""
    alpha.complete(4, 300.0)


def a_run_less(folder: Path, alpha: Stored) -> None:
    """The records of a run are gone."""
    alpha.run(0).spec.unlink()


def an_edited_journal(folder: Path, alpha: Stored) -> None:
    """Of the same size, with the times of before."""
    path = alpha.run(0).attempt(1).journal
    before = path.stat()
    path.write_bytes(path.read_bytes().replace(b"400", b"900"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def an_edited_page(folder: Path, alpha: Stored) -> None:
    """What was written is not what is there."""
    page(folder).write_text("other")


def a_page_less(folder: Path, alpha: Stored) -> None:
    """What was written is not there."""
    page(folder).unlink()


def a_spoilt_note(folder: Path, alpha: Stored) -> None:
    """What is kept of the report cannot be read."""
    for note in (folder / "home" / "rlexp" / "reports").iterdir():
        note.write_text('{"schema": 1, "source": 3}')


def a_secret(folder: Path, alpha: Stored) -> None:
    """A report masks it wherever it stands."""
    os.environ["SOME_API_KEY"] = "seeds-were-never"


@pytest.mark.parametrize(
    "change",
    [
        a_new_score,
        a_run_less,
        an_edited_journal,
        an_edited_page,
        a_page_less,
        a_spoilt_note,
        a_secret,
    ],
)
def test_after_a_change_it_is_written_anew(
    tmp_path: Path,
    alpha: Stored,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Path, Stored], None],
) -> None:
    """Whatever changed: records, the report, what is kept of it, what must not be shown."""
    monkeypatch.setenv("SOME_API_KEY", "")
    write(tmp_path)
    change(tmp_path, alpha)
    assert not write(tmp_path).unchanged
    assert page(tmp_path).read_text().startswith("<!")


@pytest.mark.parametrize("options", [{"overrides": ("level=0.9",)}, {"formats": ("html", "md")}])
def test_other_settings_are_another_report(
    tmp_path: Path, alpha: Stored, options: dict[str, Any]
) -> None:
    """A level or a format that was not asked for before is computed."""
    write(tmp_path)
    assert not write(tmp_path, **options).unchanged


def test_settings_of_the_study_count(tmp_path: Path, alpha: Stored) -> None:
    """A `conf/report.yaml` of the study's own is read each time."""
    write(tmp_path)
    own = tmp_path / "conf" / "report.yaml"
    own.parent.mkdir()
    packaged = Path(__file__).parents[3] / "conf" / "report.yaml"
    own.write_text(packaged.read_text().replace("alpha: 0.05", "alpha: 0.01"))
    assert not write(tmp_path).unchanged


def test_variables_are_filled_in_each_time(
    tmp_path: Path,
    alpha: Stored,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A setting that names one may mean something else the next time."""
    monkeypatch.setenv("METHOD", "percentile")
    for _ in range(2):
        assert not write(tmp_path, overrides=("interval=${oc.env:METHOD}",)).unchanged


def test_an_experiment_that_leads_to_itself_is_an_error(tmp_path: Path) -> None:
    """In a line, as before anything was kept."""
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "alpha").symlink_to("alpha")
    with pytest.raises(RlexpError):
        write(tmp_path)


def test_notes_are_for_their_user_alone(tmp_path: Path, alpha: Stored) -> None:
    """Secrets are part of the sum that is kept."""
    write(tmp_path)
    folder = tmp_path / "home" / "rlexp" / "reports"
    assert 0o700 == folder.stat().st_mode & 0o777
    assert 1 == len(list(folder.iterdir()))


def test_strict_refuses_the_second_time_too(tmp_path: Path, alpha: Stored) -> None:
    """The exit code is that of the checks, whenever they were made."""
    alpha.run(0).spec.unlink()
    assert UNCHANGED not in said(tmp_path, "--strict", code=3)
    assert UNCHANGED in said(tmp_path, "--strict", code=3)


def test_nothing_is_kept_while_a_command_drives(tmp_path: Path, alpha: Stored) -> None:
    """What runs may be over in the next moment without a file that changes."""
    with hold(alpha.paths.lock, "the experiment", now=time.time()):
        write(tmp_path)
        assert not write(tmp_path).unchanged


def test_what_has_just_changed_is_not_kept(
    tmp_path: Path,
    alpha: Stored,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A file may change twice within one tick of its file system's clock."""
    monkeypatch.setattr(reporting, "SETTLED", 2.0)
    (alpha.paths.folder / "now").write_text(str(time.time()))
    write(tmp_path)
    assert not write(tmp_path).unchanged


def test_a_link_may_lead_elsewhere_tomorrow(tmp_path: Path, alpha: Stored) -> None:
    """Nothing is kept of an experiment that holds one."""
    (alpha.paths.folder / "link").symlink_to(tmp_path)
    write(tmp_path)
    assert not write(tmp_path).unchanged


def test_a_cache_that_takes_nothing_costs_nothing(tmp_path: Path, alpha: Stored) -> None:
    """Where notes go there is a file: the report is written each time."""
    (tmp_path / "home").write_text("no folder")
    assert not any(write(tmp_path).unchanged for _ in range(2))
