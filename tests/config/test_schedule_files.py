"""Files of schedules: what they mean, what identifies a run, and mistakes in them."""

from pathlib import Path

import pytest

from rlexp.app.execution.request import read_request
from rlexp.app.workspace import Workspace
from rlexp.config.schedule_files import schedule_text, with_schedules
from rlexp.config.sweep import compose_sweep
from rlexp.errors import ConfigError
from rlexp.store.layout import Layout

WORDS = ("environment=cartpole", "budget.steps=3000")
GOOD = {"algorithm.learning_rate": [0.001, 0.0001], "algorithm.gamma": [0.9, 0.99]}


def write(folder: Path, name: str = "rates.yaml", text: str | None = None) -> Path:
    """Write a schedule into a folder."""
    path = folder / name
    path.write_text(schedule_text([0, 1000], GOOD) if text is None else text, encoding="utf-8")
    return path


def identity(folder: Path, word: str) -> str:
    """The fingerprint of the configuration that a word sets."""
    request = read_request([*WORDS, word], Workspace(folder, Layout(folder / "runs")))
    return request.experiment.configurations[0].fingerprint


def test_the_content_of_a_file_identifies_a_run(tmp_path: Path) -> None:
    """Two files with equal values define the same run; other values define another one."""
    write(tmp_path)
    write(tmp_path, "copy.yaml", "# a comment\n" + schedule_text([0, 1000], GOOD))
    other = {"algorithm.learning_rate": [0.001, 0.0002]}
    write(tmp_path, "other.yaml", schedule_text([0, 1000], other))
    first, copy, changed = (
        identity(tmp_path, f"algorithm.learning_rate={{schedule: {name}.yaml}}")
        for name in ("rates", "copy", "other")
    )
    assert first == copy != changed


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    """The cache of compositions never holds the content of a file that has changed since."""
    word = "algorithm.learning_rate={schedule: rates.yaml}"
    write(tmp_path)
    first = identity(tmp_path, word)
    write(tmp_path, text=schedule_text([0, 2000], GOOD))
    assert first != identity(tmp_path, word)


def test_one_file_holds_several_settings(tmp_path: Path) -> None:
    """Each setting takes its own values from a file."""
    write(tmp_path)
    named = {"schedule": "rates.yaml"}
    settings = {"algorithm": {"learning_rate": named, "gamma": named, "n_steps": 8}}
    steps = {"shape": "steps", "steps": [0, 1000]}
    expected = {
        "learning_rate": {**steps, "values": [0.001, 0.0001]},
        "gamma": {**steps, "values": [0.9, 0.99]},
        "n_steps": 8,
    }
    assert {"algorithm": expected} == with_schedules(settings, tmp_path)


def test_a_sweep_takes_schedules(tmp_path: Path) -> None:
    """The trials of a sweep over another setting have the schedule of the command."""
    write(tmp_path)
    words = [*WORDS, "algorithm.gamma={schedule: rates.yaml}", "algorithm.ent_coef=0.0,0.1"]
    request = compose_sweep(None, words, tmp_path)
    settings = request.configure({"algorithm.ent_coef": 0.1})
    assert [0.9, 0.99] == settings["algorithm"]["gamma"]["values"]


MISTAKES = {
    "absent": (None, "there is no file rates.yaml"),
    "not yaml": ("{", "rates.yaml is not yaml"),
    "no mapping": ("- 1", "rates.yaml is no schedule: it needs"),
    "another key": (schedule_text([0], {}) + "more: 1\n", "rates.yaml is no schedule"),
    "a later version": ("schedule: 2\nsteps: [0]\nvalues: {}\n", "has version 2 of schedules"),
    "another setting": (
        schedule_text([0], {"algorithm.gamma": [1.0]}),
        "no values for it; it has those of algorithm.gamma",
    ),
    "no list": (
        "schedule: 1\nsteps: 0\nvalues: {algorithm.learning_rate: [1]}\n",
        "are lists",
    ),
    "too few values": (
        schedule_text([0, 10], {"algorithm.learning_rate": [1.0]}),
        "the schedule has 2 steps and 1 values",
    ),
    "a late beginning": (
        schedule_text([10], {"algorithm.learning_rate": [1.0]}),
        "the steps of a schedule begin with 0",
    ),
    "falling steps": (
        schedule_text([0, 10, 10], {"algorithm.learning_rate": [1.0, 2.0, 3.0]}),
        "10 follows 10: sort them",
    ),
    "out of range": (
        schedule_text([0, 10], {"algorithm.learning_rate": [1.0, -2.0]}),
        "algorithm.learning_rate.values.1=-2.0: must be greater than 0",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_a_file_is_one_line(name: str, tmp_path: Path) -> None:
    """A wrong file is refused before training, in one line that names the setting."""
    text, expected = MISTAKES[name]
    if text is not None:
        write(tmp_path, text=text)
    words = [*WORDS, "algorithm.learning_rate={schedule: rates.yaml}"]
    with pytest.raises(ConfigError) as caught:
        read_request(words, Workspace(tmp_path, Layout(tmp_path / "runs")))
    message = str(caught.value)
    assert message.startswith("algorithm.learning_rate")
    assert expected in message
    assert "\n" not in message


def test_a_constant_setting_takes_no_schedule(tmp_path: Path) -> None:
    """A setting that cannot change while training is refused, and those that can are named."""
    write(tmp_path, text=schedule_text([0], {"algorithm.n_epochs": [4]}))
    words = [*WORDS, "algorithm.n_epochs={schedule: rates.yaml}"]
    with pytest.raises(
        ConfigError, match=r"n_epochs cannot change while a run trains.*clip_range"
    ):
        read_request(words, Workspace(tmp_path, Layout(tmp_path / "runs")))


def test_a_learner_without_rollouts_takes_no_schedule(tmp_path: Path) -> None:
    """ARS has no rollouts between which a value could change, and is refused."""
    write(tmp_path)
    words = ["algorithm=ars", "agent=linear", "algorithm.learning_rate={schedule: rates.yaml}"]
    with pytest.raises(ConfigError, match="ARS has no rollouts"):
        read_request([*WORDS, *words], Workspace(tmp_path, Layout(tmp_path / "runs")))
