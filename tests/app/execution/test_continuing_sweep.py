"""The plan of a sweep says which runs continue from a checkpoint."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from quick_parts import quick_parts
from stored_runs import console, output
from stored_sweeps import StoredSweep, stored_sweep

from rlexp.app.commands.train.sweep import SweepOptions
from rlexp.app.execution.estimate import Basis, RateCache, Rates
from rlexp.app.execution.software_versions import collect_versions
from rlexp.cli.train.sweep import execute as sweep
from rlexp.engine.sweep_source import SweepStage
from rlexp.records.checkpoint import Checkpoint
from rlexp.store.checkpoints.checkpoint_files import publish_checkpoint
from rlexp.store.runs import write_run

quick = pytest.fixture(autouse=True)(quick_parts)


@pytest.fixture(autouse=True)
def _separate_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "cache"))


@pytest.fixture
def sweep_cut_short(tmp_path: Path) -> StoredSweep:
    """An interrupted sweep; its third run has a checkpoint of other versions."""
    stored = stored_sweep(tmp_path)
    stored.go_on(runs=3)
    rates = Rates(
        start=0.0,
        step=1.0,
        update=0.0,
        episode=0.0,
        final_episode=0.0,
        spread=1.0,
        episode_spread=1.0,
        bytes=1000,
        basis=Basis.RUNS,
    )
    for workers in (1, 2, 3, 4):
        RateCache(workers).store([(stored.made[0], rates)])
    last_spec, nonsense = stored.made[-1], cast("Any", "none")
    for journal in stored.paths.run(last_spec.name).folder.glob("attempts/*/events.jsonl"):
        journal.write_text(journal.read_text().splitlines(keepends=True)[0])
    hostile = replace(last_spec, environment=nonsense, compute=nonsense)
    write_run(stored.paths.run(hostile.name), hostile)
    about = {"run": last_spec.id, "versions": {**collect_versions(last_spec), "torch": "1.0"}}
    checkpoint = Checkpoint(step=50, files={"a.npz": b"a"})
    publish_checkpoint(stored.paths.run(last_spec.name), checkpoint, about)
    shutil.copytree(
        stored.paths.run(last_spec.name).checkpoints, stored.paths.run(hostile.name).checkpoints
    )
    return stored


def test_the_plan_of_a_sweep_names_runs_that_start_at_step_0(
    sweep_cut_short: StoredSweep, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plan suggests a command for the same stages that accepts the changed versions."""
    stored, options = sweep_cut_short, SweepOptions(dry_run=True, until=SweepStage.SEARCH)
    change = f"torch was 1.0, is {collect_versions(stored.made[-1])['torch']}"
    assert 0 == sweep(None, stored.words, options, stored.study, console())
    plan = output(capsys)
    assert (
        f"1 run starts from step 0, because its checkpoint at step 50 was refused: {change}"
        in plan
    )
    hint = next(
        line for line in plan.splitlines() if "to continue from these checkpoints anyway: " in line
    )
    assert hint.endswith(" --until search --allow-drift")
    allowed = replace(options, allow_drift=True)
    assert 0 == sweep(None, stored.words, allowed, stored.study, console())
    new_plan = output(capsys)
    assert "1 run continues from a checkpoint at step 50" in new_plan
    assert f"1 run continues with other versions: {change}" in new_plan


def test_restarted_runs_take_their_full_time(
    sweep_cut_short: StoredSweep, capsys: pytest.CaptureFixture[str]
) -> None:
    """The estimate leaves out only steps before a usable checkpoint."""
    stored, seconds = sweep_cut_short, []
    for allowed in (False, True):
        options = SweepOptions(dry_run=True, allow_drift=allowed)
        assert 0 == sweep(None, stored.words, options, stored.study, console(as_json=True))
        plan = json.loads(capsys.readouterr().out)
        beginnings = plan["beginnings"]
        assert [allowed, not allowed] == [bool(beginnings["continued"]), bool(beginnings["anew"])]
        seconds.append(plan["seconds"])
    assert seconds[0] > seconds[1] + 10
