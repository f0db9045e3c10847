"""`rlexp verify` checks the ledger, the definitions and the selection of a sweep."""

import shutil
from pathlib import Path

import pytest
from sealed_runs import (
    edit,
    head_of,
    name_of,
    seal_attempt,
    sealed,
    verify,
)
from stored_runs import completed, stored
from stored_sweeps import stored_sweep

from rlexp.errors import ConfigError
from rlexp.store.layout import ExperimentPaths, Layout
from rlexp.store.ledger_writer import LedgerWriter
from rlexp.store.registers.ledger import publish_document, read_ledger
from rlexp.store.runs import read_experiment, write_experiment
from rlexp.store.sweeps import read_trials


@pytest.fixture(scope="module")
def finished_sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a completed sweep and its ledger."""
    sweep = stored_sweep(tmp_path_factory.mktemp("finished"))
    sweep.go_on()
    LedgerWriter(sweep.paths).enter_late()
    return sweep.study.folder


@pytest.fixture
def sweep(finished_sweep: Path, tmp_path: Path) -> ExperimentPaths:
    """A copy of the completed sweep."""
    shutil.copytree(finished_sweep, tmp_path, dirs_exist_ok=True)
    return Layout(tmp_path / "runs").experiment("made_up")


def test_a_broken_chain_is_a_fault(tmp_path: Path) -> None:
    """Removing a run together with its ledger line breaks the chain."""
    experiment = sealed(tmp_path)
    lines = experiment.paths.ledger.read_bytes().splitlines(keepends=True)
    shutil.rmtree(experiment.run(2).folder)
    name = name_of(experiment, 2).encode()
    experiment.paths.ledger.write_bytes(b"".join(line for line in lines if name not in line))
    result = verify(tmp_path)
    expected = (
        "broken chain: alpha: line 5 does not follow from line 4: "
        "a line was changed, moved or taken out"
    )
    assert (1, expected) == (result.code, result.lines[0])


def test_a_rewritten_ledger_is_found_by_a_noted_head(tmp_path: Path) -> None:
    """A consistently forged ledger has correct sums but lacks the noted head."""
    experiment = sealed(tmp_path)
    noted_head = head_of(experiment)[:12]
    assert 0 == verify(tmp_path, head=noted_head.upper()).code
    seal_attempt(experiment, 0, completed(3.0))
    assert 0 == verify(tmp_path, head=noted_head).code
    ledger = read_ledger(experiment.paths)
    assert ledger is not None
    edit(experiment.run(1).attempt(1).journal, "11.0", "91.0")
    experiment.paths.ledger.unlink()
    write_experiment(experiment.paths, experiment.experiment)
    for seed in range(5):
        for attempt in experiment.run(seed).attempts():
            LedgerWriter(experiment.paths).enter(experiment.run(seed), attempt.number)
    assert 0 == verify(tmp_path).code
    result = verify(tmp_path, head=noted_head)
    expected = (
        f"rewritten: alpha: no line of the ledger has the sum {noted_head}: "
        "it was rewritten, or cut, since then"
    )
    assert (1, expected) == (result.code, result.lines[0])


@pytest.mark.parametrize("head", ["", "12", "x" * 12, "1" * 65])
def test_an_invalid_head_is_refused(tmp_path: Path, head: str) -> None:
    """The error about an invalid head shows the form of a head."""
    with pytest.raises(ConfigError, match="is not the head of a ledger"):
        verify(tmp_path, head=head)
    with pytest.raises(ConfigError, match="rlexp verify EXPERIMENT --head HEX"):
        verify(tmp_path, None, "12345678")


def test_a_command_that_is_killed_while_it_writes_leaves_no_fault(tmp_path: Path) -> None:
    """The ledger gets the new definition first, so the old one on disk is no fault."""
    experiment = sealed(tmp_path)
    before = experiment.paths.definition.read_bytes()
    write_experiment(experiment.paths, read_experiment(stored(Layout(tmp_path / "other")).paths))
    assert 0 == verify(tmp_path).code
    experiment.paths.definition.write_bytes(before)
    assert 0 == verify(tmp_path).code
    seal_attempt(experiment, 0, completed(1.0))
    assert 0 == verify(tmp_path).code


def test_an_old_definition_restored_later_is_a_fault(tmp_path: Path) -> None:
    """An old definition is a fault once the ledger has entries after the new definition."""
    experiment = sealed(tmp_path)
    before = experiment.paths.definition.read_bytes()
    write_experiment(experiment.paths, read_experiment(stored(Layout(tmp_path / "other")).paths))
    seal_attempt(experiment, 0, completed(1.0))
    experiment.paths.definition.write_bytes(before)
    for score in (2.0, 3.0):
        result = verify(tmp_path)
        assert "edited: alpha: experiment.json is not what was written" in result.lines
        seal_attempt(experiment, 0, completed(score))


@pytest.mark.parametrize("name", ["selection.json", "adaptive.json"])
def test_a_withdrawn_document_may_be_missing(tmp_path: Path, name: str) -> None:
    """An entered document may be missing after a killed command; another file there is a fault."""
    experiment = sealed(tmp_path)
    path = experiment.paths.folder / name
    publish_document(experiment.paths, path, {})
    path.unlink()
    seal_attempt(experiment, 0, completed(1.0))
    assert 0 == verify(tmp_path).code
    path.symlink_to("experiment.json")
    result = verify(tmp_path)
    assert (1, f"edited: alpha: {name} is not what was written") == (result.code, result.lines[0])
    path.unlink()
    publish_document(experiment.paths, path, {})
    assert 0 == verify(tmp_path).code


def test_an_edited_definition_is_not_forgotten_when_it_is_written_again(tmp_path: Path) -> None:
    """An edited definition stays a fault after a command has written it again."""
    experiment = sealed(tmp_path)
    edit(experiment.paths.definition, '"test": 5', '"test": 6')
    write_experiment(experiment.paths, stored(Layout(tmp_path / "other"), test=9).experiment)
    result = verify(tmp_path)
    expected = "edited: alpha: experiment.json had been edited when a command wrote it again"
    assert (1, expected) == (result.code, result.lines[0])


def test_an_unchanged_sweep_matches(sweep: ExperimentPaths, tmp_path: Path) -> None:
    """A sweep with unchanged trials and selection has no finding."""
    result = verify(tmp_path, "made_up")
    assert (0, 1) == (result.code, len(result.lines))
    assert len(read_trials(sweep)) == 8


@pytest.mark.parametrize(
    ("name", "before", "after", "expected"),
    [
        ("selection.json", '"winner"', '"loser"', "selection.json is not what was written"),
        ("trials.jsonl", '"steps":100', '"steps":101', "trials.jsonl is not what was written"),
        ("trials.jsonl", "", "", "trials.jsonl has grown since the choice was made"),
        ("experiment.json", '"trials": 8', '"trials": 9', "experiment.json is not what was"),
    ],
)
def test_an_edited_selection_is_named(
    sweep: ExperimentPaths,
    tmp_path: Path,
    name: str,
    before: str,
    after: str,
    expected: str,
) -> None:
    """Edits of the selection, the trials and the definition of a sweep are found."""
    path = sweep.folder / name
    if before:
        edit(path, before, after)
    else:
        path.write_text(path.read_text() + "{}\n")
    result = verify(tmp_path, "made_up")
    assert (1, True) == (
        result.code,
        any(f"edited: made_up: {expected}" in x for x in result.lines),
    )


def test_a_deleted_selection_is_missing(sweep: ExperimentPaths, tmp_path: Path) -> None:
    """Deleted files of a selection are missing, because the choice must not be made again."""
    sweep.selection.unlink()
    sweep.trials.unlink()
    result = verify(tmp_path, "made_up")
    assert 1 == result.code
    for name in ("selection.json", "trials.jsonl"):
        assert f"missing: made_up: {name} is gone" in result.lines


def test_a_forged_selection_is_reported(tmp_path: Path) -> None:
    """A selection that no command wrote has no entry in the ledger."""
    experiment = sealed(tmp_path, runs=1)
    experiment.paths.selection.write_text("{}")
    assert "unsealed: alpha: selection.json is not in the ledger" in verify(tmp_path).lines
