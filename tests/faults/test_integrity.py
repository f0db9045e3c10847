"""Records match their ledger whatever happens to a command; changed records do not match."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from in_full import long
from injection import fail_at, kill_at, traced
from last_words import last_words
from studies import StudyFolder, new_study, odd, wait_until
from test_disk import _may_mount
from test_sweep_kill import WORDS as SWEEP

from rlexp.app.reading.experiment_scan import survey
from rlexp.app.reading.integrity import examine
from rlexp.records.integrity import Integrity, RecordKind
from rlexp.store.layout import ExperimentPaths
from rlexp.store.ledger_writer import LedgerWriter
from rlexp.store.registers.ledger import read_ledger

QUICK = ("experiment=x", "budget.steps=3000", "budget.evaluation_every=1000")
SLOWLY = json.dumps({"seconds": 0.3})


@pytest.fixture
def study(tmp_path: Path) -> Iterator[StudyFolder]:
    """A study whose runs train nothing."""
    with new_study(tmp_path / "study", quick=True, warm=True) as study:
        yield study


def verdict(study: StudyFolder, name: str = "x") -> Integrity:
    """The findings of `rlexp verify`."""
    return examine(survey(ExperimentPaths(study.folder / "runs" / name)))


def count_matching(study: StudyFolder, name: str = "x") -> int:
    """Check that every attempt matches and nothing else is found; returns their number."""
    integrity = verdict(study, name)
    assert [] == [f for f in integrity.findings if f.kind is not RecordKind.REMARK]
    assert integrity.attempts == integrity.matching
    return integrity.matching


def run_of(study: StudyFolder, seed: int, name: str = "x") -> Path:
    """The folder of a run."""
    (folder,) = (study.folder / "runs" / name).glob(f"*-test-{seed}-*")
    return folder


def test_a_repeated_command_names_an_edited_score(study: StudyFolder) -> None:
    """A repeat of a finished command names the run whose score was edited, on one line."""
    words = ("run", *QUICK, "seeds.test=2")
    code, output = study.give(*words)
    assert (code, "ledger" in output) == (0, False), output
    journal = run_of(study, 1) / "attempts" / "1" / "events.jsonl"
    *lines, final, end = journal.read_text().splitlines()
    edited = re.sub(r'"returns":\[[\d.]+', '"returns":[499.0', final)
    assert edited != final
    journal.write_text("\n".join([*lines, edited, end, ""]))
    code, output = study.give(*words)
    name = run_of(study, 1).name
    expected = f"x: 1 run differs from the ledger ({name}); 'rlexp verify x' says what"
    assert (code, output.count(expected)) == (0, 1), output


def test_what_is_made_extended_and_removed_matches(study: StudyFolder) -> None:
    """Added seeds and removed runs match the ledger, and a repeat makes a removed run again."""
    assert study.give("run", *QUICK, "seeds.test=2")[0] == 0
    assert 2 == count_matching(study)
    assert study.give("run", *QUICK, "seeds.test=4")[0] == 0
    assert 4 == count_matching(study)
    assert study.give("rm", f"x/{run_of(study, 1).name}", "--yes")[0] == 0
    assert 3 == count_matching(study)
    assert study.give("run", *QUICK, "seeds.test=4")[0] == 0
    code, output = study.give("verify")
    assert (0, True) == (code, output.startswith("x: 4 of 4 attempts match the ledger (head "))


def test_what_failed_and_is_tried_again_matches(study: StudyFolder) -> None:
    """A failed attempt and its retry are both in the ledger."""
    arguments = ("run", *QUICK, "seeds.test=2")
    assert study.give(*arguments, variables={"RLEXP_QUICK": '{"raises": true}'})[0] == 1
    assert 2 == count_matching(study)
    assert study.give(*arguments, "--retry")[0] == 0
    assert 4 == count_matching(study)
    assert 0 == verdict(study).late


def test_a_run_that_is_killed_and_the_attempt_after_it_match(study: StudyFolder) -> None:
    """A killed attempt and the attempt after it are both in the ledger."""
    arguments = ("run", *QUICK, "seeds.test=2")
    command = study.start(*arguments, variables={"RLEXP_QUICK": SLOWLY})
    os.kill(wait_until(lambda: study.workers("x"))[0], signal.SIGKILL)
    assert "killed by signal 9" in command.communicate(timeout=60)[0]
    assert 3 == count_matching(study)


@pytest.mark.parametrize("dice", [0, *(pytest.param(n, marks=long) for n in (1, 2))])
def test_commands_that_are_killed_again_and_again_leave_records_that_match(
    study: StudyFolder, dice: int
) -> None:
    """Records match after each random kill, and a repeat enters all attempts."""
    draw = random.Random(dice)
    arguments = ("run", *QUICK, "seeds.test=6")
    for _ in range(4):
        command = study.start(*arguments, variables={"RLEXP_QUICK": SLOWLY})
        wait_until(partial(_has_progressed, study, command, len(study.workers("x"))))
        time.sleep(draw.random() / 2)
        command.send_signal(draw.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1]))
        command.wait(30)
        assert () == verdict(study).faults
    assert study.give(*arguments)[0] == 0
    assert count_matching(study) == len(list(study.folder.glob("runs/x/*/attempts/*")))


def _has_progressed(study: StudyFolder, command: subprocess.Popen[str], before: int) -> bool:
    """Whether a further run has started or the command has ended."""
    return len(study.workers("x")) > before or command.poll() is not None


def test_what_ended_as_its_command_was_killed_is_entered_by_a_repeat(study: StudyFolder) -> None:
    """A repeat that runs nothing enters a run that is missing in the ledger."""
    arguments = ("run", *QUICK, "seeds.test=2")
    assert study.give(*arguments)[0] == 0
    ledger = study.folder / "runs" / "x" / "ledger.jsonl"
    ledger.write_bytes(b"".join(ledger.read_bytes().splitlines(keepends=True)[:-1]))
    assert [RecordKind.UNSEALED] == [f.kind for f in verdict(study).findings]
    code, output = study.give(*arguments)
    assert (0, True) == (code, "nothing to run" in output)
    assert (2, 1) == (count_matching(study), verdict(study).late)


@long
@pytest.mark.slow
def test_a_sweep_that_is_killed_matches(study: StudyFolder) -> None:
    """A killed, repeated and extended sweep matches the ledger, with its definition and choice."""
    arguments = ("sweep", *last_words(*SWEEP, "sweep.trials=4"), "experiment=x")
    command = study.start(*arguments, variables={"RLEXP_QUICK": SLOWLY})
    wait_until(lambda: len(study.events("x", "ended")) >= 2)
    command.kill()
    command.wait()
    assert () == verdict(study).faults
    assert study.give(*arguments)[0] == 0
    count = count_matching(study)
    assert study.give(*last_words(*arguments, "seeds.test=3"))[0] == 0
    assert count < count_matching(study)
    documents = [getattr(entry, "name", "") for entry in _entries(study)]
    assert {"experiment.json", "selection.json"} <= set(documents)
    ledger = study.folder / "runs" / "x" / "ledger.jsonl"
    ledger.write_bytes(b"".join(ledger.read_bytes().splitlines(keepends=True)[:-1]))
    before = verdict(study).late
    assert study.give(*last_words(*arguments, "seeds.test=3"))[0] == 0
    assert before + 1 == verdict(study).late
    count_matching(study)


def _entries(study: StudyFolder) -> list[object]:
    ledger = read_ledger(ExperimentPaths(study.folder / "runs" / "x"))
    assert ledger is not None
    return list(ledger.entries)


def test_a_sequential_comparison_matches(study: StudyFolder) -> None:
    """A sequential comparison matches the ledger, and a changed design is found."""
    arguments = ("algorithm=ppo,a2c", "seeds.test=1")
    assert study.give("run", *QUICK, *arguments)[0] == 0
    options = ("--adaptive", "--group", "3", "--interims", "2", "--alpha", "0.2")
    code, output = study.give("compare", "x", *options)
    assert code == 0, output
    assert count_matching(study) >= 6
    design = study.folder / "runs" / "x" / "adaptive.json"
    design.write_text(design.read_text().replace('"alpha": 0.2', '"alpha": 0.9'))
    expected = "adaptive.json is not what was written"
    assert [expected] == [f.text for f in verdict(study).faults]


def test_what_a_learner_leaves_matches_until_it_is_tampered_with(tmp_path: Path) -> None:
    """A run copied over another run is named by `verify` and by the report."""
    with new_study(tmp_path / "study", warm=True) as study:
        arguments = odd("none", "experiment=x", "budget.steps=128", "seeds.test=2")
        assert study.give("run", *arguments)[0] == 0
        assert 2 == count_matching(study)
        code, output = study.give("report", "x", "--format", "json", "--output", "before")
        assert code == 0, output
        assert "2 of 2 attempts match the ledger (head " in _report(study, "before")
        shutil.rmtree(run_of(study, 0))
        shutil.copytree(run_of(study, 1), study.folder / "copy")
        (study.folder / "copy").rename(_name_of_seed_0(study))
        code, output = study.give("verify", "x")
        source = run_of(study, 1).name
        finding = f"attempts/1/events.jsonl, model.zip and spec.json are those of {source}"
        assert (1, True) == (code, finding in output), output
        code, output = study.give("report", "x", "--format", "json", "--output", "after")
        assert "Check failed: x: 1 record differs from the ledger" in output, output
        assert "1 of 2 attempts matches the ledger (head " in _report(study, "after")
        assert finding in _report(study, "after")


def _report(study: StudyFolder, folder: str) -> str:
    (path,) = (study.folder / folder).glob("*.json")
    return path.read_text()


def _name_of_seed_0(study: StudyFolder) -> Path:
    """The folder of the run with seed 0, as the ledger names it."""
    paths = ExperimentPaths(study.folder / "runs" / "x")
    names = [getattr(entry, "run", "") for entry in _entries(study)]
    return paths.run(next(name for name in names if "-test-0-" in name)).folder


@pytest.mark.skipif(not _may_mount(), reason="needs unshare and tmpfs")
def test_a_full_disk_costs_no_entry(study: StudyFolder) -> None:
    """Runs without room in the ledger on a full disk are entered by the next command."""
    arguments = [*study.program, "run", *QUICK, "seeds.test=12"]
    runs, saved_runs = study.folder / "runs", study.folder / "kept"
    runs.mkdir()
    saved_runs.mkdir()
    script = (
        'mount -t tmpfs -o size=200k tmpfs "$1" && shift && '
        '"$@"; code=$?; cp -r runs/. kept/; exit $code'
    )
    result = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, "sh", str(runs), *arguments],
        cwd=study.folder,
        env=study.variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode in {1, 2}, result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    runs.rmdir()
    saved_runs.rename(runs)
    assert () == verdict(study).faults
    code, output = study.give("run", *QUICK, "seeds.test=12")
    assert code == 0, output
    assert count_matching(study) >= 12


ENTERING = """
import sys
from pathlib import Path
from rlexp.store.layout import ExperimentPaths
from rlexp.store.ledger_writer import LedgerWriter

LedgerWriter(ExperimentPaths(Path(sys.argv[1]))).enter_late()
"""


REMOVING = """
import sys
from pathlib import Path
from rlexp.app.commands.order.remove import remove
from rlexp.app.workspace import Workspace
from rlexp.store.layout import Layout

folder = Path(sys.argv[1])
assert remove(sys.argv[2], Workspace(folder, Layout(folder / "runs")), yes=True).removed
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an experiment whose last two runs are missing in the ledger."""
    with new_study(tmp_path_factory.mktemp("finished") / "study", quick=True, warm=True) as study:
        assert study.give("run", *QUICK, "seeds.test=3")[0] == 0
        ledger = study.folder / "runs" / "x" / "ledger.jsonl"
        ledger.write_bytes(b"".join(ledger.read_bytes().splitlines(keepends=True)[:-2]))
        return study.folder / "runs" / "x"


@traced
@pytest.mark.parametrize("call", ["ftruncate", "pwrite64", "fsync"])
@pytest.mark.parametrize("n", [1, 2])
def test_kill_9_during_an_entry_leaves_a_valid_ledger(
    finished: Path, tmp_path: Path, call: str, n: int
) -> None:
    """A kill at any system call of an entry leaves a valid ledger, which a repeat completes."""
    paths = ExperimentPaths(tmp_path / "x")
    shutil.copytree(finished, paths.folder)
    lines = len(paths.ledger.read_bytes().splitlines())
    outcome = kill_at(call, n, ENTERING, paths.folder, path=paths.ledger)
    assert (True, -signal.SIGKILL) == (outcome.hit, outcome.code)
    assert () == examine(survey(paths)).faults
    LedgerWriter(paths).enter_late()
    integrity = examine(survey(paths))
    assert ((), 3, 3) == (integrity.findings, integrity.attempts, integrity.matching)
    assert lines + 2 == len(paths.ledger.read_bytes().splitlines())


@traced
def test_a_run_can_be_removed_from_a_full_disk(finished: Path, tmp_path: Path) -> None:
    """A run can be removed while the disk is full, and `verify` finds no fault."""
    paths = ExperimentPaths(tmp_path / "runs" / "x")
    shutil.copytree(finished, paths.folder)
    LedgerWriter(paths).enter_late()
    name = paths.runs()[0].folder.name
    arguments = (tmp_path, f"x/{name}")
    outcome = fail_at("pwrite64", 1, "ENOSPC", REMOVING, *arguments, path=paths.ledger)
    assert (True, 0) == (outcome.hit, outcome.code), outcome.output
    integrity = examine(survey(paths))
    assert ((), 2, 2) == (integrity.faults, integrity.attempts, integrity.matching)
    assert name not in {run.folder.name for run in paths.runs()}
