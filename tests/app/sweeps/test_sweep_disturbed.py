"""Sweeps with copied, damaged or deleted files keep their results or are refused."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from last_words import last_words
from quick_parts import quick_parts
from stored_runs import console
from stored_sweeps import StoredSweep, finished_sweep, stored_sweep

from rlexp.app.commands.train.sweep import SweepOptions
from rlexp.app.reporting.evidence import collect_evidence
from rlexp.app.sweeps.state import read_runs
from rlexp.cli.train.sweep import execute as sweep
from rlexp.engine.sweep_source import SweepStage
from rlexp.errors import ProtocolError
from rlexp.protocol.seeds import Phase
from rlexp.protocol.sweep import Sweep
from rlexp.store.layout import RunPaths

quick = pytest.fixture(autouse=True)(quick_parts)

FEW = (
    "algorithm.learning_rate=0.001",
    "algorithm.n_epochs=choice(9,10)",
    "sweep.promoted=1",
    "tuner=random",
)


def first_run(stored: StoredSweep) -> RunPaths:
    """The first run of the search."""
    return stored.paths.run(stored.made[0].name)


def test_a_copied_run_does_not_replace_its_original(tmp_path: Path) -> None:
    """An edited copy of a run changes no result."""
    stored = stored_sweep(tmp_path)
    stored.go_on(until=SweepStage.SEARCH)
    before = {s.record.spec.id: s.record.score for s in read_runs(stored.paths)}
    copy = stored.paths.run("zz-copy")
    shutil.copytree(first_run(stored).folder, copy.folder)
    journal = copy.attempts()[-1].journal
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    edited = [{**e, "returns": [1e6, 1e6]} if e.get("final") else e for e in events]
    journal.write_text("".join(json.dumps(e) + "\n" for e in edited))
    assert before == {s.record.spec.id: s.record.score for s in read_runs(stored.paths)}


@pytest.mark.parametrize("content", ["", "[1]", '{"schema": 1, "budget": 3, "id": 5}'])
def test_a_damaged_run_is_executed_again(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, content: str
) -> None:
    """A damaged run is executed again, and the sweep reaches the same result."""
    undamaged = finished_sweep(tmp_path / "whole", tmp_path_factory)
    stored = stored_sweep(tmp_path / "damaged")
    stored.go_on(runs=6)
    run = first_run(stored)
    run.spec.write_text(content)
    source = stored.go_on()
    assert SweepStage.DONE is source.stage
    assert 2 == len(run.attempts())
    assert undamaged.paths.selection.read_bytes() == stored.paths.selection.read_bytes()
    assert undamaged.paths.trials.read_bytes() == _without_seconds(undamaged, stored)


def test_a_lost_choice_cannot_be_repeated(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A sweep with test runs and without selection.json is refused and adds no trials."""
    stored = finished_sweep(tmp_path, tmp_path_factory)
    stored.paths.selection.unlink()
    proposed = stored.paths.trials.read_bytes()
    overrides = last_words(*stored.words, "sweep.trials=20")
    for options in (SweepOptions(), SweepOptions(dry_run=True), SweepOptions(retry=True)):
        with pytest.raises(ProtocolError, match=r"has test runs but no selection\.json"):
            sweep(None, overrides, options, stored.study, console())
    assert proposed == stored.paths.trials.read_bytes()


def test_shared_runs_are_counted_once(tmp_path: Path) -> None:
    """Trials of one configuration share runs, whose steps count once."""
    stored = stored_sweep(tmp_path, *FEW)
    stored.go_on()
    (sweep_evidence,) = collect_evidence(["made_up"], Phase.TEST, stored.study).sweeps
    tuning = [s for s in stored.made if s.phase is Phase.TUNING]
    assert len(tuning) < 3 * len(sweep_evidence.trials)
    assert 100 * len(tuning) == sum(t.spent for t in sweep_evidence.trials)
    assert (
        100 * len(tuning)
        == max(t.ended_at for t in sweep_evidence.trials)
        == sweep_evidence.costs["tuning"].steps
    )
    by_epochs: dict[int, set[tuple[object, ...]]] = {}
    for t in sweep_evidence.trials:
        result = (t.value, t.eligible, t.state, t.ended_at if t.eligible else None)
        by_epochs.setdefault(t.parameters["algorithm.n_epochs"], set()).add(result)
    assert {1} == {len(result) for result in by_epochs.values()}


def test_the_threshold_is_part_of_the_definition_if_the_objective_uses_it(tmp_path: Path) -> None:
    """Another threshold gives another definition only if the objective uses it."""
    from rlexp.app.sweeps.request import read_sweep

    stored = stored_sweep(tmp_path)
    requested = read_sweep(None, stored.words, stored.study).experiment
    default = requested.default
    other = replace(default, reference={**default.reference, "threshold": 12.0})
    assert requested.fingerprint == replace(requested, configurations=(other,)).fingerprint
    assert requested.sweep is not None
    fast: Sweep = replace(
        requested.sweep, plan=replace(requested.sweep.plan, objective="steps_to_threshold")
    )
    timed = replace(requested, sweep=fast)
    assert timed.fingerprint != replace(timed, configurations=(other,)).fingerprint


def _without_seconds(first: StoredSweep, second: StoredSweep) -> bytes:
    """The trials of the second sweep with the suggestion times of the first."""
    times = [json.loads(line)["seconds"] for line in first.paths.trials.read_text().splitlines()]
    lines = [json.loads(line) for line in second.paths.trials.read_text().splitlines()]
    trials = [{**line, "seconds": time} for line, time in zip(lines, times, strict=True)]
    return "".join(json.dumps(t, separators=(",", ":")) + "\n" for t in trials).encode()
