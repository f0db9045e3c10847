"""`rlexp demo` trains a pair that is decided, and continues where it was interrupted."""

import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest
from command_line import typed as rlexp
from in_full import long
from stored_runs import stored, study

from rlexp.app.commands.setup.demo import Demonstration, demo
from rlexp.app.observer import SilentObserver
from rlexp.environments import twins
from rlexp.errors import ConfigError, RecordError

SHORT = ("seeds.test=2", "budget.steps=2048", "budget.evaluation_every=1024")
"""Overrides that make a demonstration of seconds."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a short demonstration has ended."""
    return tmp_path_factory.mktemp("folders") / "a new" / "folder"


@pytest.fixture(scope="module")
def shown(folder: Path) -> Demonstration:
    """The result of the short demonstration."""
    return demo(str(folder), SilentObserver(), SHORT)


def test_a_short_demonstration_compares_and_reports(shown: Demonstration, folder: Path) -> None:
    """Every run has a score, the two labels are compared, and the page is written."""
    assert (True, 4) == (shown.complete, shown.ran)
    assert shown.comparison is not None
    assert ("ppo tuned", "ppo default") == shown.comparison.labels
    assert folder / "reports" / "default-or-tuned" / "report.html" == shown.page


def test_only_runs_and_reports_are_written(shown: Demonstration, folder: Path) -> None:
    """The folder holds `runs/` and `reports/`, and nothing else."""
    assert {"runs", "reports"} == {path.name for path in folder.iterdir()}


def test_a_second_call_runs_nothing(shown: Demonstration, folder: Path) -> None:
    """The same call again starts no run, and has the same scores and the same page."""
    again = demo(str(folder), SilentObserver(), SHORT)

    assert (0, shown.page) == (again.ran, again.page)
    assert shown.outcome.scores == again.outcome.scores


def test_next_commands_are_for_the_folder(
    shown: Demonstration, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next commands begin with a change to the folder, and each one after it succeeds."""
    change, *commands = [step.command for step in shown.next]
    assert shlex.join(["cd", str(folder)]) == change
    monkeypatch.chdir(folder)
    codes = {text: rlexp(folder, *shlex.split(text)[1:]).code for text in commands}
    (folder / "study.yaml").unlink()
    assert dict.fromkeys(commands, 0) == codes
    assert 3 == len(commands)


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    """A folder that cannot be made is named on one line, with what to type."""
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"cannot be made: .*; name another one: rlexp demo"):
        demo(str(tmp_path / "file"), SilentObserver())


def test_another_experiment_of_this_name_is_refused(tmp_path: Path) -> None:
    """Where the folder holds another experiment of this name, another folder is asked for."""
    stored(study(tmp_path).layout, "default-or-tuned")
    with pytest.raises(RecordError, match="name another folder: rlexp demo FOLDER"):
        demo(str(tmp_path), SilentObserver(), SHORT)


def test_without_jax_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without JAX, `--compiled` ends with one line that holds the command to type, and runs nothing."""
    monkeypatch.setattr(
        twins, "find_spec", lambda name: None if name == "jax" else find_spec(name)
    )
    printed = rlexp(tmp_path, "demo", "--compiled")
    assert 2 == printed.code
    assert ["pip install 'rlexp[compiled]'"] == re.findall(r"pip install .*", printed.err)
    assert 1 == len(printed.err.splitlines())
    assert not (tmp_path / "runs").exists()


@long
def test_the_pair_is_decided(tmp_path: Path) -> None:
    """The whole demonstration ends with the verdict that the tuned settings are better."""
    printed = rlexp(tmp_path, "demo")

    assert 0 == printed.code, printed.err
    assert "ppo tuned is better than ppo default" in printed.out
    assert f"Report: {tmp_path / 'reports' / 'default-or-tuned' / 'report.html'}" in printed.out
