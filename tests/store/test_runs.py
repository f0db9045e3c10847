"""Runs on disk: what is written is read, and the states of runs whose processes die."""

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
    """A run that is planned."""
    paths = RunPaths(tmp_path / "it's a study" / SPEC.name)
    write_run(paths, SPEC)
    return paths


@pytest.fixture
def question(tmp_path: Path) -> ExperimentPaths:
    """Where an experiment is written."""
    return ExperimentPaths(tmp_path / "question")


def change(path: Path, **changes: Any) -> None:
    """Write other values into a file of JSON; `...` takes a key away."""
    document = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({k: v for k, v in document.items() if v is not ...}))


def test_an_experiment_is_read_as_it_was_asked(question: ExperimentPaths) -> None:
    """But for how it is executed, which is no part of the question."""
    seeds = SeedPlan(root=5, tuning=(7, 3), selection=0, test=4)
    both = experiment(configuration("ppo"), configuration("a2c"))
    requested = replace(both, name="question", seeds=seeds)
    write_experiment(question, requested)
    read = read_experiment(question)
    assert (requested, requested.fingerprint) == (read, read.fingerprint)
    operational = replace(requested, configurations=(configuration(timeout=1.0),))
    write_experiment(question, operational)
    assert (configuration(),) == read_experiment(question).configurations


def test_an_experiment_has_the_name_of_its_folder(question: ExperimentPaths) -> None:
    """A folder may be renamed or copied: nothing else needs to be changed."""
    write_experiment(question, experiment())
    question.folder.rename(question.folder.with_name("renamed"))
    moved = ExperimentPaths(question.folder.with_name("renamed"))
    assert "renamed" == read_experiment(moved).name


@pytest.mark.parametrize(
    "changes",
    [
        {"label": 7},
        {"label": " "},
        {"task": "a\x1b[31m"},
        {"reference": "x"},
        {"reference": {"random": float("nan")}},
        {"reference": {"threshold": "high"}},
    ],
)
def test_a_damaged_configuration_is_named(
    question: ExperimentPaths, changes: dict[str, Any]
) -> None:
    """What is no name and no score reaches no report."""
    write_experiment(question, experiment())
    document = json.loads(question.definition.read_text())
    change(question.definition, configurations=[{**document["configurations"][0], **changes}])
    with pytest.raises(RecordError, match=r"experiment.json is damaged"):
        read_experiment(question)


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
def test_a_damaged_experiment_is_named(question: ExperimentPaths, changes: dict[str, Any]) -> None:
    """Whatever is missing from it or of another kind."""
    write_experiment(question, experiment())
    change(question.definition, **changes)
    with pytest.raises(RecordError, match=r"experiment.json is damaged"):
        read_experiment(question)


def test_a_question_that_contradicts_itself_is_an_error_of_one_line(
    question: ExperimentPaths,
) -> None:
    """Even where somebody edited the file by hand."""
    write_experiment(question, experiment())
    change(question.definition, seeds={"root": 0, "tuning": [1], "selection": 0, "test": [1]})
    with pytest.raises((RecordError, ConfigError)) as caught:
        read_experiment(question)
    assert "\n" not in str(caught.value)


def test_a_run_is_known_by_its_specification(paths: RunPaths) -> None:
    """What was written is read."""
    assert SPEC == read_spec(paths)


def test_a_run_that_is_there_stays_as_it_is(paths: RunPaths) -> None:
    """A command that is repeated rewrites nothing."""
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
    """A score never stands under a configuration that did not make it."""
    change(paths.spec, **changes)
    with pytest.raises(RecordError, match=message):
        read_run(paths)


def test_a_run_without_attempts_is_planned(paths: RunPaths) -> None:
    """Its folder is all there is."""
    stored = read_run(paths)
    assert (State.PLANNED, 0, paths) == (stored.record.state, stored.record.attempts, stored.paths)


def test_the_phase_is_a_phase_again(paths: RunPaths) -> None:
    """A record of a test is never taken for anything else."""
    assert Phase.TEST is read_spec(paths).phase


def test_the_size_of_a_folder_is_that_of_its_files(tmp_path: Path) -> None:
    """Links count as themselves, so that a loop has an end."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").write_bytes(b"12345")
    (tmp_path / "y").write_bytes(b"123")
    (tmp_path / "loop").symlink_to(tmp_path)
    link = (tmp_path / "loop").lstat().st_size
    assert 8 <= folder_size(tmp_path) <= 8 + link
