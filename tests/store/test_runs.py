"""Experiments and runs on disk: written files are read back, and damaged ones are refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from samples import configuration, experiment, spec

from rlexp.errors import ConfigError, RecordError
from rlexp.protocol.seeds import Phase, SeedPlan
from rlexp.records.run import State
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.runs import (
    folder_size,
    read_experiment,
    read_run,
    read_spec,
    write_experiment,
    write_run,
)

SPEC = spec()


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    """A planned run."""
    paths = RunPaths(tmp_path / "it's a study" / SPEC.name)
    write_run(paths, SPEC)
    return paths


@pytest.fixture
def experiment_paths(tmp_path: Path) -> ExperimentPaths:
    """The paths of an experiment that is not written yet."""
    return ExperimentPaths(tmp_path / "question")


def change_json(path: Path, **changes: Any) -> None:
    """Change values in a JSON file; the value `...` removes a key."""
    document = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({k: v for k, v in document.items() if v is not ...}))


def test_an_experiment_is_read_as_it_was_written(experiment_paths: ExperimentPaths) -> None:
    """An experiment is read back unchanged, without settings of the execution such as timeouts."""
    seeds = SeedPlan(root=5, tuning=(7, 3), selection=0, test=4)
    two_labels = experiment(configuration("ppo"), configuration("a2c"))
    requested = replace(two_labels, name="question", seeds=seeds)
    write_experiment(experiment_paths, requested)
    stored = read_experiment(experiment_paths)
    assert (requested, requested.fingerprint) == (stored, stored.fingerprint)
    with_timeout = replace(requested, configurations=(configuration(timeout=1.0),))
    write_experiment(experiment_paths, with_timeout)
    assert (configuration(),) == read_experiment(experiment_paths).configurations


def test_an_experiment_has_the_name_of_its_folder(experiment_paths: ExperimentPaths) -> None:
    """An experiment in a renamed folder has the new name."""
    write_experiment(experiment_paths, experiment())
    experiment_paths.folder.rename(experiment_paths.folder.with_name("renamed"))
    renamed_paths = ExperimentPaths(experiment_paths.folder.with_name("renamed"))
    assert "renamed" == read_experiment(renamed_paths).name


@pytest.mark.parametrize(
    "changes",
    [
        {"label": 7},
        {"label": " "},
        {"task": "a\x1b[31m"},
        {"reference": "x"},
        {"reference": {"random": float("nan")}},
        {"reference": {"threshold": "high"}},
        {"reference": {"minimum": 10**400}},
        {"algorithm": 5},
        {"environment": None},
        {"measures": {"cost": {"minimum": -(10**400)}}},
        {"measures": {"cost": {"direction": "down"}}},
    ],
)
def test_a_damaged_configuration_is_named(
    experiment_paths: ExperimentPaths, changes: dict[str, Any]
) -> None:
    """An invalid label, task, plug-in, reference score or measure in a definition is refused."""
    write_experiment(experiment_paths, experiment())
    document = json.loads(experiment_paths.definition.read_text())
    change_json(
        experiment_paths.definition, configurations=[{**document["configurations"][0], **changes}]
    )
    with pytest.raises(RecordError, match=r"experiment.json is damaged"):
        read_experiment(experiment_paths)


@pytest.mark.parametrize(
    "changes",
    [
        {"seeds": ...},
        {"seeds": 5},
        {"seeds": {"root": 0}},
        {"configurations": ...},
        {"configurations": 5},
        {"configurations": ["ppo"]},
        {"configurations": [{}]},
        {"failures": ...},
        {"failures": "zero"},
    ],
)
def test_a_damaged_experiment_is_named(
    experiment_paths: ExperimentPaths, changes: dict[str, Any]
) -> None:
    """A definition with missing values or values of a wrong type is refused."""
    write_experiment(experiment_paths, experiment())
    change_json(experiment_paths.definition, **changes)
    with pytest.raises(RecordError, match=r"experiment.json is damaged"):
        read_experiment(experiment_paths)


def test_a_contradictory_experiment_is_an_error(
    experiment_paths: ExperimentPaths,
) -> None:
    """A definition whose seeds contradict each other gives an error of one line."""
    write_experiment(experiment_paths, experiment())
    change_json(
        experiment_paths.definition, seeds={"root": 0, "tuning": [1], "selection": 0, "test": [1]}
    )
    with pytest.raises((RecordError, ConfigError)) as caught:
        read_experiment(experiment_paths)
    assert "\n" not in str(caught.value)


def test_a_specification_is_read_as_it_was_written(paths: RunPaths) -> None:
    """The specification of a run is read back unchanged."""
    assert SPEC == read_spec(paths)


def test_an_existing_specification_is_not_rewritten(paths: RunPaths) -> None:
    """Writing the same specification again does not touch the file."""
    before = paths.spec.stat().st_mtime_ns, paths.spec.read_bytes()
    write_run(paths, SPEC)
    assert before == (paths.spec.stat().st_mtime_ns, paths.spec.read_bytes())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 1}, "was changed: its content no longer has its id"),
        ({"algorithm": {"gamma": 0.5}}, "was changed"),
        ({"id": ...}, "was changed"),
        ({"root": float("nan")}, "is damaged"),
        ({"phase": "training"}, "is damaged"),
        ({"budget": ...}, "is damaged"),
        ({"schema": 7}, "in schema 7, and this is rlexp .* pip install --upgrade rlexp"),
        ({"schema": "1"}, "is not of schema version 1 or 2"),
    ],
)
def test_a_specification_that_was_changed_is_refused(
    paths: RunPaths, changes: dict[str, Any], message: str
) -> None:
    """A changed specification is refused, so that no score gets a wrong configuration."""
    change_json(paths.spec, **changes)
    with pytest.raises(RecordError, match=message):
        read_run(paths)


def test_a_run_without_attempts_is_planned(paths: RunPaths) -> None:
    """A run that has only its specification is planned."""
    stored = read_run(paths)
    assert (State.PLANNED, 0, paths) == (stored.record.state, stored.record.attempts, stored.paths)


def test_the_phase_is_read_as_an_enum(paths: RunPaths) -> None:
    """The phase of a stored specification is read as a `Phase`."""
    assert Phase.TEST is read_spec(paths).phase


def test_the_size_of_a_folder_is_that_of_its_files(tmp_path: Path) -> None:
    """The size of a folder counts its files, and counts a link without following it."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").write_bytes(b"12345")
    (tmp_path / "y").write_bytes(b"123")
    (tmp_path / "loop").symlink_to(tmp_path)
    link = (tmp_path / "loop").lstat().st_size
    assert 8 <= folder_size(tmp_path) <= 8 + link
