"""The schema of each kind of file, and the error for a file of another schema."""

import json
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from samples import configuration, experiment, spec, started

from rlexp.errors import RecordError
from rlexp.store import schemas
from rlexp.store.checkpoints.manifest import Manifest, decode_manifest
from rlexp.store.files import read_json
from rlexp.store.journal import JournalWriter, read_journal
from rlexp.store.layout import ExperimentPaths
from rlexp.store.runs import new_attempt, read_definition, read_spec, write_experiment, write_run
from rlexp.store.sweeps import StoredTrial, append_trial, read_trials

LATER = {"schema": 9, "rlexp": "7.5.3"}
MESSAGE = (
    r"was written by rlexp 7\.5\.3 in schema 9, and this is rlexp .*pip install --upgrade rlexp$"
)


@pytest.fixture
def paths(tmp_path: Path) -> ExperimentPaths:
    """An experiment with an attempted run and a trial."""
    paths = ExperimentPaths(tmp_path / "sample")
    write_experiment(paths, experiment())
    run = paths.run(spec().name)
    write_run(run, spec())
    attempt = new_attempt(run, {"allowed": []}, {"command": []}, "")
    journal = JournalWriter(attempt.journal)
    journal.append(started())
    journal.close()
    append_trial(
        paths, StoredTrial(number=0, parameters={}, steps=100, configuration=configuration())
    )
    return paths


def first_line(path: Path) -> dict[str, Any]:
    """The document in a file, or in the first line of the file."""
    text = path.read_text()
    document: dict[str, Any] = json.loads(text if path.suffix == ".json" else text.split("\n")[0])
    return document


def make_later(path: Path) -> None:
    """Change a file as if a later version of rlexp had written it."""
    path.write_text(json.dumps({**first_line(path), **LATER}) + "\n")


def test_every_file_says_its_schema_and_what_wrote_it(paths: ExperimentPaths) -> None:
    """Every kind of file holds its schema number and the version of rlexp."""
    run = paths.run(spec().name)
    attempt = run.attempt(1)
    expected = {
        paths.definition: schemas.EXPERIMENT,
        paths.trials: schemas.TRIALS,
        run.spec: schemas.SPEC,
        attempt.settings: schemas.ATTEMPT,
        attempt.provenance: schemas.PROVENANCE,
        attempt.journal: schemas.JOURNAL,
    }
    for path, schema in expected.items():
        document = first_line(path)
        assert (schema.version, version("rlexp")) == (document["schema"], document["rlexp"]), path
    assert (2, 2, 1) == (schemas.SPEC.version, schemas.EXPERIMENT.version, schemas.LEDGER.version)


def test_a_later_file_names_the_version_that_wrote_it(paths: ExperimentPaths) -> None:
    """The error for a file of a later version names that version and the upgrade command."""
    run = paths.run(spec().name)
    readers: dict[Path, Callable[[], object]] = {
        paths.definition: lambda: read_definition(paths),
        paths.trials: lambda: read_trials(paths),
        run.spec: lambda: read_spec(run),
        run.attempt(1).provenance: lambda: read_json(run.attempt(1).provenance),
        run.attempt(1).journal: lambda: read_journal(run.attempt(1).journal),
    }
    for path, read in readers.items():
        make_later(path)
        with pytest.raises(RecordError, match=MESSAGE) as caught:
            read()
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_later_manifest_is_refused() -> None:
    """A manifest of a later version is refused with the name of that version."""
    content = json.loads(Manifest(step=1, about={}, files={}).encode())
    with pytest.raises(ValueError, match=MESSAGE):
        decode_manifest(json.dumps({**content, **LATER}).encode())


@pytest.mark.parametrize("schema", [0, -1, "2", 2.0, True, None, [2]])
def test_invalid_schemas_are_refused(schema: object) -> None:
    """Only whole numbers of known schemas are accepted."""
    with pytest.raises(
        RecordError, match="it is not of schema version 1 or 2, which this version"
    ):
        schemas.SPEC.check({"schema": schema}, "it")
