"""Commands that show scores name on one line the runs that differ from the ledger."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import rlexp
from quick_parts import quick_parts
from sealed_runs import edit, name_of, seal_attempt, sealed
from stored_runs import Stored, completed, configuration, evaluated, stored

import rlexp as package
from rlexp.app.commands.exchange.load import load
from rlexp.errors import RecordError
from rlexp.store import catalogue, changed_records
from rlexp.store.layout import Layout
from rlexp.store.ledger_writer import LedgerWriter
from rlexp.store.locks.lease import hold
from rlexp.store.registers.ledger import sum_of_file

quick = pytest.fixture(autouse=True)(quick_parts)


@pytest.fixture
def experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stored:
    """Two labels of three finished runs in a ledger, and a catalogue that holds them."""
    monkeypatch.setattr(catalogue, "FEWEST", 1)
    monkeypatch.setattr(catalogue, "SETTLED", -3600.0)
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))
    made = stored(Layout(tmp_path / "runs"), "alpha", configuration(), configuration("a2c"))
    for label in ("ppo", "a2c"):
        for seed in range(3):
            run = made.complete(seed, 20.0 + seed, label=label)
            LedgerWriter(made.paths).enter(run, 1)
    assert rlexp(tmp_path, "ls", "alpha").code == 0
    assert made.paths.catalogue.exists()
    return made


def edit_score(experiment: Stored) -> str:
    """Edit the score of a run and restore the times of the file; return the run's name."""
    journal = experiment.run(2).attempt(1).journal
    before = journal.stat()
    edit(journal, "23.0", "93.0")
    os.utime(journal, ns=(before.st_atime_ns, before.st_mtime_ns))
    return name_of(experiment, 2)


COMMANDS: dict[str, tuple[str, ...]] = {
    "ls": ("ls",),
    "ls of an experiment": ("ls", "alpha"),
    "ls of labels": ("ls", "--group"),
    "show": ("show", "alpha"),
    "status": ("status", "alpha"),
    "compare": ("compare", "alpha"),
    "power": ("power", "alpha", "--difference", "10"),
    "export": ("export", "csv", "alpha", "--output", "scores.csv", "--level", "runs"),
    "resume": ("resume", "alpha"),
}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_an_edited_score_is_named_on_one_line(experiment: Stored, words: tuple[str, ...]) -> None:
    """Every command that uses an edited score names its run, and what to type, on one line."""
    folder = experiment.paths.folder.parents[1]
    before = rlexp(folder, *words)
    assert "ledger" not in before.out + before.err
    name = edit_score(experiment)
    (folder / "scores.csv").unlink(missing_ok=True)
    for _ in range(2):
        printed = rlexp(folder, *words)
        (folder / "scores.csv").unlink(missing_ok=True)
        text = " ".join((printed.out + printed.err).split())
        expected = f"1 run differs from the ledger ({name}); 'rlexp verify alpha' says what"
        assert expected in text
        assert text.count(expected) == 1
        assert before.code == printed.code


@pytest.mark.parametrize("name", COMMANDS)
def test_json_says_what_differs(experiment: Stored, name: str) -> None:
    """The JSON document of every command says which run differs."""
    run = edit_score(experiment)
    printed = rlexp(experiment.paths.folder.parents[1], *COMMANDS[name], "--json")
    assert f"differs from the ledger ({run})" in json.dumps(json.loads(printed.out))


def test_an_edited_run_is_named_where_it_is_shown(experiment: Stored) -> None:
    """`show` of a run says that it differs."""
    folder, name = experiment.paths.folder.parents[1], name_of(experiment, 2)
    assert "ledger" not in rlexp(folder, "show", f"alpha/{name}").out
    edit_score(experiment)
    assert "1 run differs from the ledger" in rlexp(folder, "show", f"alpha/{name}").out


def test_python_functions_say_what_differs(experiment: Stored) -> None:
    """`rlexp.load` and `rlexp.compare` hold the sentence."""
    folder = experiment.paths.folder.parents[1]
    assert load(experiment.paths.folder).problems == ()
    edit_score(experiment)
    assert any("differs from the ledger" in p for p in load(experiment.paths.folder).problems)
    comparison = package.compare("alpha", workspace=folder)
    assert any("differs from the ledger" in check for check in comparison.failed_checks)


def test_strict_comparison_reads_every_file(experiment: Stored) -> None:
    """`compare --strict` refuses a changed file that decides no score; without it, none is read."""
    folder = experiment.paths.folder.parents[1]
    edit(experiment.run(2).attempt(1).provenance, "a" * 40, "b" * 40)
    assert "differs" not in str(rlexp(folder, "compare", "alpha"))
    printed = rlexp(folder, "compare", "alpha", "--strict")
    assert printed.code == 3
    assert "Check failed: alpha: 1 record differs from the ledger" in printed.out


@pytest.mark.parametrize("name", ["power", "export"])
def test_strict_plans_and_exports_refuse(experiment: Stored, name: str) -> None:
    """With `--strict`, a pilot or an export of which any file changed is refused."""
    folder = experiment.paths.folder.parents[1]
    edit(experiment.run(2).attempt(1).provenance, "a" * 40, "b" * 40)
    assert "from the ledger" not in str(rlexp(folder, *COMMANDS[name]))
    (folder / "scores.csv").unlink(missing_ok=True)
    with pytest.raises(RecordError, match=r"alpha: 1 record differs .*'rlexp verify alpha'"):
        rlexp(folder, *COMMANDS[name], "--strict")
    assert not (folder / "scores.csv").exists()


def verdict(experiment: Stored) -> None:
    """Add a verdict to a finished attempt."""
    experiment.run(2).attempt(1).verdict.write_text("{}")


def rewrite_line(experiment: Stored) -> None:
    """Edit a score, and the sum of its journal in the ledger."""
    journal = experiment.run(2).attempt(1).journal
    before = sum_of_file(journal)
    edit_score(experiment)
    edit(experiment.paths.ledger, str(before), str(sum_of_file(journal)))


@pytest.mark.parametrize("spoil", [verdict, rewrite_line])
def test_other_changes_are_named(experiment: Stored, spoil: Callable[[Stored], None]) -> None:
    """An added verdict, and a ledger that was edited with the score, are named every time."""
    spoil(experiment)
    folder = experiment.paths.folder.parents[1]
    for _ in range(2):
        assert "the ledger" in rlexp(folder, "ls", "alpha").err


def test_unchanged_runs_are_compared_once(
    experiment: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the catalogue holds is not compared again, by commands with and without curves."""

    def refuse(*_: object) -> None:
        raise AssertionError("the ledger or a file was read again")

    monkeypatch.setattr(changed_records, "read_ledger", refuse)
    monkeypatch.setattr(changed_records, "sum_of_file", refuse)
    folder = experiment.paths.folder.parents[1]
    assert rlexp(folder, "ls", "alpha").code == 0
    assert load(experiment.paths.folder).problems == ()


def test_a_run_that_was_made_again_is_silent(experiment: Stored) -> None:
    """A run that was removed by hand and made again, and entered, does not differ."""
    folder = experiment.paths.folder.parents[1]
    shutil.rmtree(experiment.run(2).folder)
    LedgerWriter(experiment.paths).enter_late()
    seal_attempt(experiment, 2, completed(50.0))
    assert "ledger" not in rlexp(folder, "ls", "alpha").err


def test_unfinished_and_older_experiments_are_silent(tmp_path: Path) -> None:
    """Nothing differs in a run that is being written, one not in the ledger yet, or without one."""
    experiment = sealed(tmp_path, runs=3)
    experiment.complete(0, 5.0)
    running = experiment.attempt(1, [evaluated(50, 1.0)])
    with hold(running.lease, "run", now=0.0):
        journal = running.attempts()[-1].journal
        journal.write_bytes(journal.read_bytes() + b'{"event":"eval')
        assert "ledger" not in str(rlexp(tmp_path, "status", "alpha"))
    experiment.paths.ledger.unlink()
    assert "ledger" not in str(rlexp(tmp_path, "status", "alpha"))
    assert "ledger" not in str(rlexp(tmp_path, "show", "alpha"))
