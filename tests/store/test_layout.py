"""Paths under `runs/`, and names that could lead out of the folder."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlexp.errors import ConfigError, RecordError
from rlexp.store.layout import ExperimentPaths, Layout, RunPaths, check_name

GOOD = ["a", "CartPole-v1-ppo+a2c-1a2b3c", "x.y_z=1,2@home", "0", "A" * 120]
BAD = [
    "",
    ".",
    "..",
    "../x",
    "x/../../y",
    "a/b",
    "a..b",
    "/etc",
    ".hidden",
    "-x",
    "a b",
    "a\n",
    "\na",
    "a\0b",
    "ü",
    "実験",
    "a’b",
    "~",
    "$HOME",
    "a;b",
    "x" * 121,
    "x" * 300,
]


@pytest.mark.parametrize("name", GOOD)
def test_a_good_name_is_taken_as_it_is(name: str) -> None:
    """Names with the characters of algorithms and environments are accepted unchanged."""
    assert name == check_name(name)


@pytest.mark.parametrize("name", BAD)
def test_a_bad_name_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    """The error about a bad name is one line that says what is allowed."""
    with pytest.raises(ConfigError, match="cannot be a folder name: use up to 120") as caught:
        Layout(tmp_path).experiment(name)
    assert "\n" not in str(caught.value)


@given(st.text(max_size=130) | st.from_regex(r"[\w./-]{1,10}", fullmatch=True))
def test_no_accepted_name_leaves_the_folder(name: str) -> None:
    """Every accepted name is a folder directly under `runs/`."""
    try:
        folder = Layout(Path("/runs")).experiment(name).folder
    except ConfigError:
        return
    assert Path("/runs") == Path(os.path.normpath(folder)).parent
    assert name == folder.name == ExperimentPaths(folder).name


def test_every_path_of_a_run_is_inside_it(tmp_path: Path) -> None:
    """All files of a run have different paths inside its folder."""
    run = Layout(tmp_path).experiment("e").run("ppo-test-0-abc")
    attempt = run.attempt(3)
    files = [
        *(run.spec, run.lease, run.stop, run.model, run.normalisation, run.checkpoints),
        *(attempt.settings, attempt.provenance, attempt.patch, attempt.journal),
        *(attempt.verdict, attempt.log, attempt.progress),
    ]
    assert len(files) == len(set(files))
    assert [] == [p for p in files if not p.is_relative_to(tmp_path / "e" / "ppo-test-0-abc")]
    assert (3, run.folder / "attempts" / "3") == (attempt.number, attempt.folder)


def test_attempts_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    """Attempts are ordered by number, and other folder names are ignored."""
    for name in ("10", "9", "1", "0", "²", "3x", ".4", "x"):
        (tmp_path / "attempts" / name).mkdir(parents=True)
    assert [1, 9, 10] == [attempt.number for attempt in RunPaths(tmp_path).attempts()]


def test_experiments_and_runs_are_listed_by_name(tmp_path: Path) -> None:
    """Experiments and runs are listed by name; folders without their files are ignored."""
    for path in ("b/experiment.json", "a/experiment.json", "b/r2/spec.json", "b/r1/spec.json"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("{}")
    for other_folder in ("c", "b/notes", ".trash"):
        (tmp_path / other_folder).mkdir()
    (tmp_path / "README.md").write_text("")
    layout = Layout(tmp_path)
    assert ["a", "b"] == [e.name for e in layout.experiments()]
    assert ["r1", "r2"] == [run.folder.name for run in layout.experiment("b").runs()]
    assert [] == layout.experiment("a").runs()


def test_a_missing_folder_is_empty(tmp_path: Path) -> None:
    """A missing folder has no experiments, runs or attempts, and raises no error."""
    layout = Layout(tmp_path / "runs")
    run = layout.experiment("x").run("y")
    assert [[], [], []] == [layout.experiments(), layout.experiment("x").runs(), run.attempts()]


def test_a_file_in_place_of_a_folder_is_an_error(tmp_path: Path) -> None:
    """A file in place of the folder of runs is an error."""
    (tmp_path / "runs").write_text("")
    with pytest.raises(RecordError, match="runs cannot be read"):
        Layout(tmp_path / "runs").experiments()
