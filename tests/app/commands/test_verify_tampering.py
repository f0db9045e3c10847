"""`rlexp verify` finds edited, copied and deleted records."""

import shutil
from pathlib import Path

import pytest
from sealed_runs import (
    Spoil,
    copy_folder,
    copy_journal,
    copy_policy,
    copy_unsealed,
    edit,
    edit_origin,
    link_policy,
    name_of,
    rename,
    seal_attempt,
    sealed,
    verify,
)
from stored_runs import completed, stored, study

from rlexp.app.commands.order.remove import remove
from rlexp.store.layout import Layout

TAMPERING: dict[str, tuple[Spoil, str]] = {
    "run gone": (
        lambda experiment: shutil.rmtree(experiment.run(4).folder),
        "missing: alpha/{4}: it is gone, with 2 attempts",
    ),
    "attempt gone": (
        lambda experiment: shutil.rmtree(experiment.run(4).attempt(2).folder),
        "missing: alpha/{4}: attempt 2 is gone",
    ),
    "journal gone": (
        lambda experiment: experiment.run(2).attempt(1).journal.unlink(),
        "missing: alpha/{2}: attempts/1/events.jsonl is gone",
    ),
    "policy gone": (
        lambda experiment: experiment.run(2).model.unlink(),
        "missing: alpha/{2}: model.zip is gone",
    ),
    "definition gone": (
        lambda experiment: experiment.paths.definition.unlink(),
        "missing: alpha: experiment.json is gone",
    ),
    "one number of the journal": (
        lambda experiment: edit(experiment.run(2).attempt(1).journal, "21.0", "91.0"),
        "edited: alpha/{2}: attempts/1/events.jsonl is not what was written",
    ),
    "specification": (
        lambda experiment: edit(experiment.run(2).spec, '"seed": 2', '"seed": 3'),
        "edited: alpha/{2}: spec.json is not what was written",
    ),
    "provenance and settings": (
        edit_origin,
        (
            "edited: alpha/{2}: attempts/1/attempt.json and attempts/1/provenance.json are not "
            "what was written"
        ),
    ),
    "verdict added": (
        lambda experiment: experiment.run(2).attempt(1).verdict.write_text("{}"),
        "edited: alpha/{2}: attempts/1/verdict.json was added",
    ),
    "policy is a link": (
        link_policy,
        "edited: alpha/{2}: model.zip is not what was written",
    ),
    "definition": (
        lambda experiment: edit(experiment.paths.definition, '"missing"', '"worst"'),
        "edited: alpha: experiment.json is not what was written",
    ),
    "definition that cannot be read": (
        lambda experiment: experiment.paths.definition.write_text("{"),
        "edited: alpha: experiment.json is not what was written",
    ),
    "copied policy": (copy_policy, "copied: alpha/{4}: model.zip is that of {3}"),
    "copied journal": (
        copy_journal,
        "copied: alpha/{4}: attempts/2/events.jsonl is that of {3}",
    ),
    "copied journal, not entered": (
        copy_unsealed,
        "copied: alpha/{4}: attempts/3/events.jsonl is that of {3}",
    ),
}


@pytest.mark.parametrize(("spoil", "expected"), TAMPERING.values(), ids=TAMPERING)
def test_tampering_is_named(tmp_path: Path, spoil: Spoil, expected: str) -> None:
    """Each kind of tampering gives exit code 1 and a line with the kind, the file and the run."""
    experiment = sealed(tmp_path)
    assert 0 == verify(tmp_path).code
    spoil(experiment)
    result = verify(tmp_path)
    assert 1 == result.code
    faults = [x for x in result.lines if x.startswith(("missing:", "edited:", "copied:"))]
    names = {str(seed): name_of(experiment, seed) for seed in range(5)}
    for seed, name in names.items():
        expected = expected.replace(f"{{{seed}}}", name)
    assert [expected] == faults


def test_a_run_copied_over_another_is_named_with_its_source(tmp_path: Path) -> None:
    """Each copied file is named with its source; an attempt that the source lacks is missing."""
    experiment = sealed(tmp_path)
    copy_folder(experiment)
    result = verify(tmp_path)
    target, source = f"alpha/{name_of(experiment, 4)}", name_of(experiment, 3)
    assert 1 == result.code
    assert f"missing: {target}: attempt 2 is gone" in result.lines
    copied = f"attempts/1/events.jsonl, model.zip and spec.json are those of {source}"
    assert f"copied: {target}: {copied}" in result.lines
    assert result.lines[-2].startswith("alpha: 4 of 6 attempts match the ledger (head ")


def test_a_run_under_the_name_of_another_is_a_copy(tmp_path: Path) -> None:
    """A run in a folder with the name of another run is reported as a copy."""
    experiment = sealed(tmp_path)
    rename(experiment)
    result = verify(tmp_path)
    assert 1 == result.code
    source = name_of(experiment, 3)
    expected = f"copied: alpha/ppo-test-5-0123456789: attempts/1/events.jsonl is that of {source}"
    assert expected in result.lines


def test_copies_are_found_without_a_ledger(tmp_path: Path) -> None:
    """A copied journal is found without a ledger, because two runs never have equal journals."""
    experiment = stored(Layout(tmp_path / "runs"))
    for seed in range(2):
        experiment.complete(seed, 1.0 + seed)
    shutil.copy(experiment.run(0).attempt(1).journal, experiment.run(1).attempt(1).journal)
    result = verify(tmp_path)
    names = sorted(name_of(experiment, seed) for seed in range(2))
    assert 1 == result.code
    expected = f"copied: alpha/{names[1]}: attempts/1/events.jsonl is that of {names[0]}"
    assert expected in result.lines


def test_a_faulty_record_can_be_made_again(tmp_path: Path) -> None:
    """The suggested command removes the run, and the repeated run matches."""
    experiment = sealed(tmp_path)
    edit(experiment.run(2).attempt(1).journal, "21.0", "91.0")
    *_, hint = verify(tmp_path).lines
    target = f"alpha/{name_of(experiment, 2)}"
    command = f"rlexp rm {target} --yes"
    assert f"To remove the run, so that repeating its command makes it again: {command}" == hint
    assert remove(target, study(tmp_path), yes=True).removed
    assert 0 == verify(tmp_path).code
    seal_attempt(experiment, 2, completed(5.0))
    result = verify(tmp_path)
    assert (0, True) == (result.code, result.lines[-1].startswith("alpha: 6 of 6 "))


def test_verifying_writes_nothing(tmp_path: Path) -> None:
    """Verification changes no file of a faulty experiment."""
    experiment = sealed(tmp_path)
    copy_folder(experiment)
    with experiment.paths.ledger.open("ab") as file:
        file.write(b"garbage")
    before = {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in tmp_path.rglob("*")}
    assert 1 == verify(tmp_path).code
    assert before == {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in tmp_path.rglob("*")}
