"""Two processes read the journals of an experiment, and the scan is that of one process."""

import os
from pathlib import Path
from typing import Any

import pytest
from stored_runs import configuration, failed, stored, study

from rlexp.app.reading import beside as forks
from rlexp.app.reading import experiment_scan
from rlexp.app.reading.experiment_scan import ExperimentScan, ScanMemory, survey
from rlexp.store import catalogue
from rlexp.store.layout import ExperimentPaths


def scan(paths: ExperimentPaths) -> tuple[ExperimentScan, set[str]]:
    """A scan without a catalogue before it, and the runs whose journals this process has opened."""
    for derived in (paths.catalogue, paths.curves):
        derived.unlink(missing_ok=True)
    opened: list[str] = []
    original_open = os.open

    def record_and_open(path: Any, *arguments: Any, **options: Any) -> int:
        opened.append(str(path))
        return original_open(path, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", record_and_open)
        memory = ScanMemory(lasting=False)
        scanned = survey(paths, catalogued=True, memory=memory, measured=lambda *_: True)
    return scanned, {Path(p).parents[2].name for p in opened if p.endswith("events.jsonl")}


def test_the_scan_of_two_processes_is_that_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records, changed and damaged runs, specifications and catalogue are the same."""
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(catalogue, "FEWEST", 1)
    monkeypatch.setattr(catalogue, "SETTLED", -3600.0)
    experiment = stored(study(tmp_path).layout, "alpha", configuration("ppo"), test=8)
    for seed in range(7):
        experiment.complete(seed, 400.0 + seed)
    experiment.attempt(7, failed())
    damaged = experiment.run(5).spec
    damaged.write_text(damaged.read_text().replace("test", "tset"))
    changed = experiment.run(6).attempt(1).journal
    changed.write_bytes(changed.read_bytes().replace(b"406", b"906"))

    alone, opened_alone = scan(experiment.paths)
    written = [experiment.paths.catalogue.read_bytes(), experiment.paths.curves.read_bytes()]
    monkeypatch.setattr(experiment_scan, "WORTH_FORKING", 1)
    monkeypatch.setattr(forks, "can_fork", lambda: True)
    by_two, opened = scan(experiment.paths)

    assert alone == by_two
    assert alone.problems == by_two.problems
    assert {id(run.stored.record.spec.algorithm) for run in by_two.runs if run.stored} == {
        id(by_two.runs[0].stored.record.spec.algorithm)  # type: ignore[union-attr]
    }
    assert written == [
        experiment.paths.catalogue.read_bytes(),
        experiment.paths.curves.read_bytes(),
    ]
    assert 3 <= len(opened) < len(opened_alone)


def test_a_killed_fork_loses_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the fork sends nothing, the command reads all runs itself."""
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))
    experiment = stored(study(tmp_path).layout, "alpha", configuration("ppo"), test=4)
    for seed in range(4):
        experiment.complete(seed, 400.0 + seed)
    expected, _ = scan(experiment.paths)
    monkeypatch.setattr(experiment_scan, "WORTH_FORKING", 1)
    monkeypatch.setattr(forks, "can_fork", lambda: True)
    monkeypatch.setattr(forks.PartBeside, "_send", lambda *_: None)
    assert expected == scan(experiment.paths)[0]
