"""`rlexp verify` on unchanged records, and on unusual records that are no fault."""

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
    keep,
    name_of,
    sealed,
    told,
)
from stored_runs import completed, evaluated, stored

from rlexp.errors import RecordError
from rlexp.records.checkpoint import Checkpoint
from rlexp.records.ledger import SealedAttempt
from rlexp.store.checkpoints import publish_checkpoint
from rlexp.store.layout import Layout
from rlexp.store.lease import hold
from rlexp.store.ledger import append_entry, read_ledger
from rlexp.store.ledger_writer import LedgerWriter
from rlexp.store.runs import write_experiment

quick = pytest.fixture(autouse=True)(quick_parts)


def test_unchanged_records_match(tmp_path: Path) -> None:
    """The last line has the number of attempts and the head to note."""
    made = sealed(tmp_path)
    result = told(tmp_path)
    head = head_of(made)[:12]
    assert (0, [f"alpha: 6 of 6 attempts match the ledger (head {head})"]) == (
        result.code,
        result.lines,
    )


def test_json_has_everything(tmp_path: Path) -> None:
    """The document has one entry per experiment, with the whole head."""
    made = sealed(tmp_path)
    made.run(2).model.unlink()
    printed = rlexp(tmp_path, "verify", "--json")
    finding = {
        "kind": "missing",
        "text": "model.zip is gone",
        "run": name_of(made, 2),
        "fault": True,
    }
    verdict = f"5 of 6 attempts match the ledger (head {head_of(made)[:12]})"
    expected = {
        "experiment": "alpha",
        "attempts": 6,
        "matching": 5,
        "late": 0,
        "lines": 7,
        "head": head_of(made),
        "faults": 1,
        "findings": [finding],
    }
    assert 1 == printed.code
    (document,) = printed.document("verification")["experiments"]
    (command,) = document.pop("next")
    assert f"rlexp rm alpha/{name_of(made, 2)} --yes" == command["command"]
    assert {"verdict": verdict, **expected} == document


def test_all_experiments_are_verified(tmp_path: Path) -> None:
    """One faulty experiment makes the exit code 1; the others are verified, too."""
    sealed(tmp_path, "alpha", 1)
    beta = sealed(tmp_path, "beta", 1)
    assert 0 == told(tmp_path, None).code
    beta.run(0).model.write_text("other")
    result = told(tmp_path, None)
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
    """An unknown name is an error."""
    result = told(tmp_path, None)
    assert (0, True) == (result.code, result.lines[0].endswith("to start one, use 'rlexp run'"))
    with pytest.raises(RecordError, match="there is no experiment 'alpha'"):
        told(tmp_path)


def test_a_missing_ledger_is_no_fault(tmp_path: Path) -> None:
    """The next command enters the existing records."""
    made = stored(Layout(tmp_path / "runs"))
    made.complete(0, 1.0)
    made.paths.ledger.unlink()
    result = told(tmp_path)
    assert 0 == result.code
    unsealed = (
        f"unsealed: alpha: 1 attempt of {name_of(made, 0)} ended and is not in the ledger; "
        "repeating the command that made them enters them"
    )
    assert [unsealed, "alpha: without a ledger its 1 attempt cannot be verified"] == result.lines
    write_experiment(made.paths, made.experiment)
    LedgerWriter(made.paths).enter_late()
    (line,) = told(tmp_path).lines
    assert line.startswith("alpha: 1 of 1 attempt matches the ledger, 1 entered late (head ")


def test_attempts_of_an_active_command_are_not_called_unsealed(tmp_path: Path) -> None:
    """The command will enter them in the ledger."""
    made = sealed(tmp_path, runs=2)
    made.complete(0, 1.0)
    with hold(made.paths.lock, "experiment", now=time.time()):
        assert 1 == len(told(tmp_path).lines)
    assert told(tmp_path).lines[0].startswith("unsealed: ")


def test_runs_that_have_not_ended_are_no_finding(tmp_path: Path) -> None:
    """Lost runs and runs that never started are not reported."""
    made = sealed(tmp_path, runs=3)
    made.attempt(0, [evaluated(10, 1.0)])
    assert 1 == len(told(tmp_path).lines)


def test_an_unplanned_run_is_a_remark(tmp_path: Path) -> None:
    """A run outside the definition is no fault."""
    made = sealed(tmp_path, runs=2)
    keep(made, 7, completed(1.0))
    result = told(tmp_path)
    text = "the experiment's definition does not include it"
    assert (0, f"foreign: alpha/{name_of(made, 7)}: {text}") == (result.code, result.lines[0])


def test_unreadable_journal_lines_are_a_remark(tmp_path: Path) -> None:
    """The lines were unreadable when the attempt ended, so they are no fault."""
    made = sealed(tmp_path, runs=2)
    attempt = made.attempt(0, completed(3.0)).attempts()[-1]
    edit(attempt.journal, '{"event":"evaluated"', "torn")
    LedgerWriter(made.paths).enter(made.run(0), attempt.number)
    result = told(tmp_path)
    text = "1 line of its journal cannot be read"
    assert (0, f"remark: alpha/{name_of(made, 0)}: {text}") == (result.code, result.lines[0])


def test_a_run_repeated_after_a_manual_removal_is_a_remark(tmp_path: Path) -> None:
    """The removal is no longer a fault, but it is still reported."""
    made = sealed(tmp_path)
    shutil.rmtree(made.run(4).folder)
    LedgerWriter(made.paths).enter_late()
    lost = told(tmp_path)
    gone = f"missing: alpha/{name_of(made, 4)}: it is gone, with 2 attempts"
    assert (1, gone) == (lost.code, lost.lines[0])
    keep(made, 4, completed(1.0))
    result = told(tmp_path)
    text = "it was run again after its records were removed by hand"
    assert (0, f"remark: alpha/{name_of(made, 4)}: {text}") == (result.code, result.lines[0])


def test_an_unreadable_ledger_is_one_line(tmp_path: Path) -> None:
    """The other experiments are verified."""
    made = sealed(tmp_path, runs=1)
    sealed(tmp_path, "beta", 1)
    made.paths.ledger.unlink()
    made.paths.ledger.mkdir()
    result = told(tmp_path, None)
    assert (1, True) == (result.code, "broken chain: alpha: ledger.jsonl cannot be" in str(result))
    assert result.lines[-1].startswith("beta: 2 of 2 ")


def test_damaged_checkpoints_matter_while_a_run_needs_them(tmp_path: Path) -> None:
    """They are a fault for an unfinished run and a remark for a completed one."""
    made = sealed(tmp_path, runs=2)
    unfinished = stored(Layout(tmp_path / "runs"), "beta")
    runs = [made.run(0), unfinished.attempt(0, [evaluated(10, 1.0)])]
    for run, spec in zip(runs, (made.spec(0), unfinished.spec(0)), strict=True):
        publish_checkpoint(run, Checkpoint(step=10, files={"a": b"1"}), {"run": spec.id})
    assert 0 == told(tmp_path, None).code
    for run in runs:
        (run.checkpoints / "10" / "a").write_bytes(b"2")
    result = told(tmp_path, None)
    kinds = [line.partition(":")[0] for line in result.lines if "checkpoints" in line]
    assert (1, ["remark", "damaged"]) == (result.code, kinds)


def test_a_hostile_name_in_a_ledger_is_harmless(tmp_path: Path) -> None:
    """Its control characters are replaced, and no file of that name is opened."""
    made = sealed(tmp_path, runs=1)
    name = "\x1b[31m[link=file:///etc/passwd]<script>"
    ledger = read_ledger(made.paths)
    assert ledger is not None
    entry = ledger.entries[1]
    assert isinstance(entry, SealedAttempt)
    append_entry(made.paths, replace(entry, run=name))
    result = told(tmp_path)
    assert 1 == result.code
    assert "\x1b" not in "".join(result.lines)
    assert any("[link=file:///etc/passwd]<script>" in line for line in result.lines)
