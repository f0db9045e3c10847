"""`rlexp report` a second time: nothing is computed where no file has changed."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from quick_parts import quick_parts
from stored_runs import Stored, configuration, console, output, stored, study

from rlexp.app import kept_report
from rlexp.app.commands import report as reporting
from rlexp.app.commands.report import REFUSED, Wanted, report
from rlexp.errors import RlexpError
from rlexp.store.lease import hold

quick = pytest.fixture(autouse=True)(quick_parts)

QUICK = ("repetitions=200", "section=[verdicts,checklist]")
UNCHANGED = "Nothing changed since this was written"


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A cache of its own, and files that count as old at once."""
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(kept_report, "SETTLED", -3600.0)


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


def write(folder: Path, *targets: str, as_json: bool = False, **wanted: Any) -> int:
    """Write a report with few resamples."""
    words = (*QUICK, *wanted.pop("words", ()))
    asked = Wanted(words=words, **wanted)
    return report(targets or ("alpha",), asked, study(folder), console(as_json=as_json))


def page(folder: Path) -> Path:
    """Where the report is."""
    return folder / "reports" / "alpha" / "report.html"


def test_the_second_time_nothing_is_computed(
    tmp_path: Path, alpha: Stored, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    """The same is said, and the files stay as they are."""
    assert 0 == write(tmp_path)
    first, content = output(capsys), page(tmp_path).read_bytes()
    monkeypatch.setattr(reporting, "gather", None)
    assert 0 == write(tmp_path)
    assert first.replace("Wrote", f"{UNCHANGED}:") == output(capsys)
    assert content == page(tmp_path).read_bytes()


def test_json_says_the_same_both_times(
    tmp_path: Path, alpha: Stored, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files, notices, failed checks, and what comes next."""
    write(tmp_path, as_json=True)
    first = json.loads(output(capsys))
    write(tmp_path, as_json=True)
    assert first == json.loads(output(capsys))


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
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Path, Stored], None],
) -> None:
    """Whatever changed: records, the report, what is kept of it, what must not be shown."""
    monkeypatch.setenv("SOME_API_KEY", "")
    write(tmp_path)
    change(tmp_path, alpha)
    write(tmp_path)
    assert UNCHANGED not in output(capsys)
    assert page(tmp_path).read_text().startswith("<!")


@pytest.mark.parametrize("wanted", [{"words": ("level=0.9",)}, {"formats": ("html", "md")}])
def test_other_settings_are_another_report(
    tmp_path: Path, alpha: Stored, capsys: pytest.CaptureFixture[str], wanted: dict[str, Any]
) -> None:
    """A level or a format that was not asked for before is computed."""
    write(tmp_path)
    write(tmp_path, **wanted)
    assert UNCHANGED not in output(capsys)


def test_settings_of_the_study_count(
    tmp_path: Path, alpha: Stored, capsys: pytest.CaptureFixture[str]
) -> None:
    """A `conf/report.yaml` of the study's own is read each time."""
    write(tmp_path)
    own = tmp_path / "conf" / "report.yaml"
    own.parent.mkdir()
    packaged = Path(__file__).parents[2] / "conf" / "report.yaml"
    own.write_text(packaged.read_text().replace("alpha: 0.05", "alpha: 0.01"))
    write(tmp_path)
    assert UNCHANGED not in output(capsys)


def test_variables_are_filled_in_each_time(
    tmp_path: Path,
    alpha: Stored,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A setting that names one may mean something else the next time."""
    monkeypatch.setenv("METHOD", "percentile")
    for _ in range(2):
        write(tmp_path, words=("interval=${oc.env:METHOD}",))
    assert UNCHANGED not in output(capsys)


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


def test_strict_refuses_the_second_time_too(
    tmp_path: Path, alpha: Stored, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is that of the checks, whenever they were made."""
    alpha.run(0).spec.unlink()
    codes = [write(tmp_path, strict=True) for _ in range(2)]
    assert UNCHANGED in output(capsys)
    assert [REFUSED, REFUSED] == codes


def test_nothing_is_kept_while_a_command_drives(
    tmp_path: Path, alpha: Stored, capsys: pytest.CaptureFixture[str]
) -> None:
    """What runs may be over in the next moment without a file that changes."""
    with hold(alpha.paths.lock, "the experiment", now=time.time()):
        write(tmp_path)
        write(tmp_path)
    assert UNCHANGED not in output(capsys)


def test_what_has_just_changed_is_not_kept(
    tmp_path: Path,
    alpha: Stored,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A file may change twice within one tick of its file system's clock."""
    monkeypatch.setattr(kept_report, "SETTLED", 2.0)
    (alpha.paths.folder / "now").write_text(str(time.time()))
    write(tmp_path)
    write(tmp_path)
    assert UNCHANGED not in output(capsys)


def test_a_link_may_lead_elsewhere_tomorrow(
    tmp_path: Path, alpha: Stored, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is kept of an experiment that holds one."""
    (alpha.paths.folder / "link").symlink_to(tmp_path)
    write(tmp_path)
    write(tmp_path)
    assert UNCHANGED not in output(capsys)


def test_a_cache_that_takes_nothing_costs_nothing(
    tmp_path: Path, alpha: Stored, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where notes go there is a file: the report is written each time."""
    (tmp_path / "home").write_text("no folder")
    assert [0, 0] == [write(tmp_path), write(tmp_path)]
    assert UNCHANGED not in output(capsys)
