"""`rlexp verify` accepts unchanged records and unusual records without a fault."""

import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import rlexp
from quick_parts import quick_parts
from sealed_runs import (
    edit,
    head_of,
    name_of,
    seal_attempt,
    sealed,
    verify,
)
from stored_runs import completed, evaluated, stored

from rlexp.errors import RecordError
from rlexp.records.checkpoint import Checkpoint
from rlexp.records.ledger import SealedAttempt
from rlexp.store.checkpoints.checkpoint_files import publish_checkpoint
from rlexp.store.layout import Layout
from rlexp.store.ledger_writer import LedgerWriter
from rlexp.store.locks.lease import hold
from rlexp.store.registers.ledger import append_entry, read_ledger
from rlexp.store.runs import write_experiment

quick = pytest.fixture(autouse=True)(quick_parts)


def test_unchanged_records_match(tmp_path: Path) -> None:
    """The last line has the number of attempts and the head of the ledger."""
    experiment = sealed(tmp_path)
    result = verify(tmp_path)
    head = head_of(experiment)[:12]
    assert (0, [f"alpha: 6 of 6 attempts match the ledger (head {head})"]) == (
        result.code,
        result.lines,
    )


def test_json_has_everything(tmp_path: Path) -> None:
    """The JSON document has an entry for each experiment with findings and next commands."""
    experiment = sealed(tmp_path)
    experiment.run(2).model.unlink()
    printed = rlexp(tmp_path, "verify", "--json")
    finding = {
        "kind": "missing",
        "text": "model.zip is gone",
        "run": name_of(experiment, 2),
        "fault": True,
    }
    verdict = f"5 of 6 attempts match the ledger (head {head_of(experiment)[:12]})"
    expected = {
        "experiment": "alpha",
        "attempts": 6,
        "matching": 5,
        "late": 0,
        "lines": 7,
        "head": head_of(experiment),
        "faults": 1,
        "findings": [finding],
    }
    assert 1 == printed.code
    (document,) = printed.document("verification")["experiments"]
    (command,) = document.pop("next")
    assert f"rlexp rm alpha/{name_of(experiment, 2)} --yes" == command["command"]
    assert {"verdict": verdict, **expected} == document


def test_all_experiments_are_verified(tmp_path: Path) -> None:
    """One faulty experiment gives exit code 1, and the others are verified too."""
    sealed(tmp_path, "alpha", 1)
    beta = sealed(tmp_path, "beta", 1)
    assert 0 == verify(tmp_path, None).code
    beta.run(0).model.write_text("other")
    result = verify(tmp_path, None)
    assert 1 == result.code
    starts = [
        "alpha: 2 of 2",
        f"edited: beta/{name_of(beta, 0)}",
        "beta: 1 of 2",
        "To remove the run",
    ]
    assert [True] * 4 == [
        line.startswith(start) for line, start in zip(result.lines, starts, strict=True)
    ]


def test_an_empty_runs_folder_is_no_fault(tmp_path: Path) -> None:
    """Without experiments, `verify` finds no fault; an unknown name is an error."""
    result = verify(tmp_path, None)
    assert (0, True) == (result.code, result.lines[0].endswith("to start one, use 'rlexp run'"))
    with pytest.raises(RecordError, match="there is no experiment 'alpha'"):
        verify(tmp_path)


def test_a_missing_ledger_is_no_fault(tmp_path: Path) -> None:
    """Without a ledger, attempts are reported as unsealed; the next command enters them."""
    experiment = stored(Layout(tmp_path / "runs"))
    experiment.complete(0, 1.0)
    experiment.paths.ledger.unlink()
    result = verify(tmp_path)
    assert 0 == result.code
    unsealed = (
        f"unsealed: alpha: 1 attempt of {name_of(experiment, 0)} ended and is not in the ledger; "
        "repeating the command that made them enters them"
    )
    assert [unsealed, "alpha: without a ledger its 1 attempt cannot be verified"] == result.lines
    write_experiment(experiment.paths, experiment.experiment)
    LedgerWriter(experiment.paths).enter_late()
    (line,) = verify(tmp_path).lines
    assert line.startswith("alpha: 1 of 1 attempt matches the ledger, 1 entered late (head ")


def test_attempts_of_an_active_command_are_not_called_unsealed(tmp_path: Path) -> None:
    """Attempts without an entry are reported only if no command holds the experiment."""
    experiment = sealed(tmp_path, runs=2)
    experiment.complete(0, 1.0)
    with hold(experiment.paths.lock, "experiment", now=time.time()):
        assert 1 == len(verify(tmp_path).lines)
    assert verify(tmp_path).lines[0].startswith("unsealed: ")


def test_runs_that_have_not_ended_are_no_finding(tmp_path: Path) -> None:
    """Lost runs and runs that never started are not reported."""
    experiment = sealed(tmp_path, runs=3)
    experiment.attempt(0, [evaluated(10, 1.0)])
    assert 1 == len(verify(tmp_path).lines)


def test_an_unplanned_run_is_a_remark(tmp_path: Path) -> None:
    """A run outside the definition is reported and is no fault."""
    experiment = sealed(tmp_path, runs=2)
    seal_attempt(experiment, 7, completed(1.0))
    result = verify(tmp_path)
    text = "the experiment's definition does not include it"
    assert (0, f"foreign: alpha/{name_of(experiment, 7)}: {text}") == (
        result.code,
        result.lines[0],
    )


def test_unreadable_journal_lines_are_a_remark(tmp_path: Path) -> None:
    """Lines that were unreadable when the attempt ended are reported and are no fault."""
    experiment = sealed(tmp_path, runs=2)
    attempt = experiment.attempt(0, completed(3.0)).attempts()[-1]
    edit(attempt.journal, '{"event":"evaluated"', "torn")
    LedgerWriter(experiment.paths).enter(experiment.run(0), attempt.number)
    result = verify(tmp_path)
    text = "1 line of its journal cannot be read"
    assert (0, f"remark: alpha/{name_of(experiment, 0)}: {text}") == (result.code, result.lines[0])


def test_a_run_repeated_after_a_manual_removal_is_a_remark(tmp_path: Path) -> None:
    """A removed run is a fault; after the run was repeated, the removal is a remark."""
    experiment = sealed(tmp_path)
    shutil.rmtree(experiment.run(4).folder)
    LedgerWriter(experiment.paths).enter_late()
    removed = verify(tmp_path)
    expected = f"missing: alpha/{name_of(experiment, 4)}: it is gone, with 2 attempts"
    assert (1, expected) == (removed.code, removed.lines[0])
    seal_attempt(experiment, 4, completed(1.0))
    result = verify(tmp_path)
    text = "it was run again after its records were removed by hand"
    assert (0, f"remark: alpha/{name_of(experiment, 4)}: {text}") == (result.code, result.lines[0])


def test_an_unreadable_ledger_is_one_line(tmp_path: Path) -> None:
    """An unreadable ledger is a fault of its experiment, and the others are verified."""
    experiment = sealed(tmp_path, runs=1)
    sealed(tmp_path, "beta", 1)
    experiment.paths.ledger.unlink()
    experiment.paths.ledger.mkdir()
    result = verify(tmp_path, None)
    assert (1, True) == (result.code, "broken chain: alpha: ledger.jsonl cannot be" in str(result))
    assert result.lines[-1].startswith("beta: 2 of 2 ")


def test_damaged_checkpoints_matter_while_a_run_needs_them(tmp_path: Path) -> None:
    """Damaged checkpoints are a fault for an unfinished run and a remark for a completed one."""
    experiment = sealed(tmp_path, runs=2)
    unfinished = stored(Layout(tmp_path / "runs"), "beta")
    runs = [experiment.run(0), unfinished.attempt(0, [evaluated(10, 1.0)])]
    for run, spec in zip(runs, (experiment.spec(0), unfinished.spec(0)), strict=True):
        publish_checkpoint(run, Checkpoint(step=10, files={"a": b"1"}), {"run": spec.id})
    assert 0 == verify(tmp_path, None).code
    for run in runs:
        (run.checkpoints / "10" / "a").write_bytes(b"2")
    result = verify(tmp_path, None)
    kinds = [line.partition(":")[0] for line in result.lines if "checkpoints" in line]
    assert (1, ["remark", "damaged"]) == (result.code, kinds)


def test_a_hostile_name_in_a_ledger_is_harmless(tmp_path: Path) -> None:
    """Control characters in the names of a ledger are replaced."""
    experiment = sealed(tmp_path, runs=1)
    name = "\x1b[31m[link=file:///etc/passwd]<script>"
    ledger = read_ledger(experiment.paths)
    assert ledger is not None
    entry = ledger.entries[1]
    assert isinstance(entry, SealedAttempt)
    append_entry(experiment.paths, replace(entry, run=name))
    result = verify(tmp_path)
    assert 1 == result.code
    assert "\x1b" not in "".join(result.lines)
    assert any("[link=file:///etc/passwd]<script>" in line for line in result.lines)
