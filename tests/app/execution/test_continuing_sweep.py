"""The plan of a sweep says which of its runs continue from a checkpoint."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from quick_parts import quick_parts
from stored_runs import console, output
from stored_sweeps import StoredSweep, stored_sweep

from rlexp.app.commands.sweep import SweepOptions
from rlexp.app.execution.estimate import store_speeds
from rlexp.app.execution.software_versions import collect_versions
from rlexp.cli.sweep import execute as sweep
from rlexp.engine.sweep_source import SweepStage
from rlexp.records.checkpoint import Checkpoint
from rlexp.store.checkpoints import publish_checkpoint
from rlexp.store.runs import read_run, write_run

quick = pytest.fixture(autouse=True)(quick_parts)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "cache"))


@pytest.fixture
def sweep_cut_short(tmp_path: Path) -> StoredSweep:
    """An interrupted sweep; its third run has a checkpoint of other versions."""
    made = stored_sweep(tmp_path)
    made.go_on(runs=3)
    store_speeds([(read_run(made.paths.run(made.made[0].name)).record, 1000)])
    spec_of_run, senseless = made.made[-1], cast("Any", "none")
    for journal in made.paths.run(spec_of_run.name).folder.glob("attempts/*/events.jsonl"):
        journal.write_text(journal.read_text().splitlines(keepends=True)[0])
    hostile = replace(spec_of_run, environment=senseless, compute=senseless)
    write_run(made.paths.run(hostile.name), hostile)
    about = {"run": spec_of_run.id, "versions": {**collect_versions(spec_of_run), "torch": "1.0"}}
    checkpoint = Checkpoint(step=50, files={"a.npz": b"a"})
    publish_checkpoint(made.paths.run(spec_of_run.name), checkpoint, about)
    shutil.copytree(
        made.paths.run(spec_of_run.name).checkpoints, made.paths.run(hostile.name).checkpoints
    )
    return made


def test_the_plan_of_a_sweep_names_runs_that_start_at_step_0(
    sweep_cut_short: StoredSweep, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plan suggests a command that covers the same stages as this one."""
    made, options = sweep_cut_short, SweepOptions(dry_run=True, until=SweepStage.SEARCH)
    change = f"torch was 1.0, is {collect_versions(made.made[-1])['torch']}"
    assert 0 == sweep(None, made.words, options, made.study, console())
    told = output(capsys)
    assert (
        f"1 run starts from step 0, because its checkpoint at step 50 was refused: {change}"
        in told
    )
    again = next(
        line for line in told.splitlines() if "to continue from these checkpoints anyway: " in line
    )
    assert again.endswith(" --until search --allow-drift")
    allowed = replace(options, allow_drift=True)
    assert 0 == sweep(None, made.words, allowed, made.study, console())
    printed = output(capsys)
    assert "1 run continues from a checkpoint at step 50" in printed
    assert f"1 run continues with other versions: {change}" in printed


def test_restarted_runs_take_their_full_time(
    sweep_cut_short: StoredSweep, capsys: pytest.CaptureFixture[str]
) -> None:
    """The estimate in JSON leaves out only steps before a usable checkpoint."""
    made, seconds = sweep_cut_short, []
    for allowed in (False, True):
        options = SweepOptions(dry_run=True, allow_drift=allowed)
        assert 0 == sweep(None, made.words, options, made.study, console(as_json=True))
        plan = json.loads(capsys.readouterr().out)
        begun = plan["beginnings"]
        assert [allowed, not allowed] == [bool(begun["continued"]), bool(begun["anew"])]
        seconds.append(plan["seconds"])
    assert seconds[0] > seconds[1] + 10
