"""A plan says from which checkpoint each run continues and how much time and disk it needs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from quick_parts import quick_parts
from samples import ENVIRONMENT, algorithm, spec
from stored_runs import study

from rlexp.app.execution.checkpoints import (
    RunBeginning,
    describe_beginnings,
    drift_command,
    find_beginnings,
    largest_replay_buffer,
    steps_done,
)
from rlexp.app.execution.checks.compatibility import EnvironmentSpaces
from rlexp.app.execution.estimate import START_UP, estimate_cost, rates_of_run
from rlexp.app.execution.software_versions import collect_versions
from rlexp.app.plans import RefusedCheckpoint, StartingPoints
from rlexp.environments import Vector
from rlexp.protocol.identity import canonical
from rlexp.protocol.spec import RunSpec
from rlexp.records.checkpoint import Checkpoint
from rlexp.records.events import Continued, Ending, Event, RunEnded, RunStarted
from rlexp.records.run import RunRecord
from rlexp.store.checkpoints.checkpoint_files import publish_checkpoint
from rlexp.store.layout import ExperimentPaths

quick = pytest.fixture(autouse=True)(quick_parts)

VECTOR = Vector(
    count=1,
    kind="dummy",
    frame_stack=1,
    normalise_observations=False,
    normalise_rewards=False,
    clip_observations=10.0,
    clip_rewards=10.0,
)
OBSERVATION = 4 * 4
"""Bytes of an observation of CartPole."""


@pytest.fixture(autouse=True)
def _separate_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "cache"))


@pytest.fixture
def paths(tmp_path: Path) -> ExperimentPaths:
    """An experiment without runs."""
    return study(tmp_path).layout.experiment("alpha")


def save_checkpoints(paths: ExperimentPaths, run_spec: RunSpec, *steps: int, **about: Any) -> None:
    """Publish checkpoints of a run with the present versions; `about` changes their origin."""
    origin = {
        "run": run_spec.id,
        "attempt": 1,
        "versions": collect_versions(run_spec),
        **about,
    }
    for step in steps:
        checkpoint = Checkpoint(step=step, files={"a.npz": b"a"})
        publish_checkpoint(paths.run(run_spec.name), checkpoint, origin)


def test_the_newest_checkpoint_of_each_run_counts(paths: ExperimentPaths, tmp_path: Path) -> None:
    """A run continues from its newest checkpoint; a run without an intact one is left out."""
    first, damaged, without_folder = (spec(seed) for seed in range(3))
    save_checkpoints(paths, first, 40, 60)
    paths.run(damaged.name).folder.mkdir()
    paths.run(damaged.name).checkpoints.symlink_to(tmp_path)
    expected = {first.name: RunBeginning(step=60)}
    assert expected == find_beginnings(paths, [first, damaged, without_folder])


def test_checkpoints_of_other_versions_need_permission(
    paths: ExperimentPaths,
) -> None:
    """Without permission the run starts at step 0, and the plan gives the reason."""
    run_spec, versions = spec(), {**collect_versions(spec()), "torch": "1.0"}
    save_checkpoints(paths, run_spec, 40, 60, versions=versions)
    change = f"torch was 1.0, is {collect_versions(run_spec)['torch']}"
    anew = RunBeginning(step=60, anew=True, reason=change, drifted=True)
    beginnings = find_beginnings(paths, [run_spec])
    assert ({run_spec.name: anew}, {}) == (beginnings, steps_done(beginnings))
    planned = describe_beginnings(beginnings, "rlexp resume", 0)
    assert {run_spec.name: RefusedCheckpoint(step=60, reason=change)} == planned.anew
    assert ({}, {}, "rlexp resume") == (planned.continued, planned.drifts, planned.allow_drift)
    beginnings = find_beginnings(paths, [run_spec], allow_drift=True)
    assert {run_spec.name: RunBeginning(step=60, reason=change, drifted=True)} == beginnings
    assert StartingPoints(
        continued={run_spec.name: 60},
        drifts={run_spec.name: change},
        anew={},
        allow_drift=None,
        replay_bytes=0,
    ) == describe_beginnings(beginnings, "rlexp resume", 0)


def test_an_earlier_checkpoint_is_used_if_the_newest_is_unusable(paths: ExperimentPaths) -> None:
    """The plan names an earlier checkpoint if the newest one cannot be used."""
    run_spec = spec()
    save_checkpoints(paths, run_spec, 40)
    save_checkpoints(paths, run_spec, 60, versions={})
    assert {run_spec.name: RunBeginning(step=40)} == find_beginnings(paths, [run_spec])
    (drifting,) = find_beginnings(paths, [run_spec], allow_drift=True).values()
    assert (60, True) == (drifting.step, drifting.drifted)


@pytest.mark.parametrize("defect", ["damaged", "copied", "no versions"])
def test_unusable_checkpoints_are_named_with_the_reason(
    paths: ExperimentPaths, defect: str
) -> None:
    """The plan has the reason, and suggests `--allow-drift` only where it helps."""
    run_spec = spec()
    origins: dict[str, dict[str, Any]] = {
        "damaged": {},
        "copied": {"run": "a"},
        "no versions": {"versions": 1},
    }
    save_checkpoints(paths, run_spec, 40, **origins[defect])
    if defect == "damaged":
        (paths.run(run_spec.name).checkpoints / "40" / "manifest.json").write_text("{}")
    (beginning,) = find_beginnings(paths, [run_spec]).values()
    expected = {
        "damaged": "it is damaged",
        "copied": "it belongs to another run",
        "no versions": "the versions that it was made with are not recorded",
    }
    helps = defect == "no versions"
    assert RunBeginning(step=40, anew=True, reason=expected[defect], drifted=helps) == beginning
    allowed = find_beginnings(paths, [run_spec], allow_drift=True)
    assert ({run_spec.name: 40} if helps else {}) == steps_done(allowed)
    command = describe_beginnings({run_spec.name: beginning}, "rlexp resume", 0).allow_drift
    assert ("rlexp resume" if helps else None) == command


def test_versions_are_collected_once_for_each_environment(
    paths: ExperimentPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Versions are collected once per environment, and only for runs with checkpoints."""
    other = {**ENVIRONMENT, "id": "Acrobot-v1"}
    runs = [spec(seed, learner=algorithm(name)) for seed in range(5) for name in ("ppo", "a2c")]
    runs += [replace(spec(seed), environment=other) for seed in range(3)]
    for run in runs:
        save_checkpoints(paths, run, 40)
    specs_looked_up: list[RunSpec] = []

    def collect_and_count(run_spec: RunSpec) -> dict[str, str]:
        specs_looked_up.append(run_spec)
        return collect_versions(run_spec)

    monkeypatch.setattr("rlexp.app.execution.checkpoints.collect_versions", collect_and_count)
    assert dict.fromkeys((run.name for run in runs), 40) == steps_done(
        find_beginnings(paths, runs)
    )
    assert 2 == len(specs_looked_up)
    assert {} == find_beginnings(paths, [spec(100)])
    assert 2 == len(specs_looked_up)


def test_the_drift_command_repeats_the_permissions(tmp_path: Path) -> None:
    """The suggested command allows each package once."""
    workspace = replace(study(tmp_path), allowed=("own",))
    expected = "rlexp run 'a=b c' --retry --allow-import own --allow-drift"
    assert expected == drift_command(["rlexp", "run", "a=b c"], workspace, "--retry")
    words = ["rlexp", "resume", "first", "--allow-import", "own"]
    assert "rlexp resume first --allow-import own --allow-drift" == drift_command(words, workspace)


def test_the_estimate_covers_only_the_remaining_steps() -> None:
    """Steps before the checkpoint take no time in the estimate."""
    from_start, from_half = spec(0, steps=10_000), spec(1, steps=10_000)
    full = estimate_cost([from_start, from_half], 1).seconds - START_UP
    remaining = (
        estimate_cost([from_start, from_half], 1, continued={from_half.name: 5000}).seconds
        - START_UP
    )
    assert full * 3 / 4 == pytest.approx(remaining)


def test_a_continued_run_gives_no_rate() -> None:
    """The events of a run that continued lie in several attempts, with pauses between them."""
    run_spec = spec(steps=100_000, evaluation_every=1000)
    assert rates_of_run(continued(run_spec, step=20_000, seconds=80.0), 1000) is None


def continued(run_spec: RunSpec, *, step: int, seconds: float) -> RunRecord:
    """A completed run whose second attempt continued at a step and took these seconds."""
    first: list[Event] = [
        RunStarted(time=0, attempt=1, pid=1, host="here"),
        RunEnded(time=9, step=step, ending=Ending.INTERRUPTED, seconds=9.0),
    ]
    second: list[Event] = [
        RunStarted(time=10, attempt=2, pid=1, host="here"),
        Continued(time=10, step=step, attempt=1),
        RunEnded(time=90, step=100_000, ending=Ending.COMPLETED, seconds=seconds),
    ]
    return RunRecord.fold(run_spec, [first, second])


def test_replay_buffers_are_part_of_the_disk_space() -> None:
    """Each worker needs space for one replay buffer, as large as the steps of a run fill it."""
    assert (
        3 * 500
        == estimate_cost([spec()] * 5, 3, replay=500).bytes - estimate_cost([spec()] * 5, 3).bytes
    )
    cartpole = EnvironmentSpaces.of(gymnasium.make("CartPole-v1"), VECTOR)
    assert 2 * OBSERVATION + 8 + 12 == cartpole.transition
    spaces = {canonical(ENVIRONMENT): cartpole}
    buffered = [
        spec(learner=algorithm("dqn", buffer_size=size), steps=1000) for size in (10, 10**6)
    ]
    assert 10 * cartpole.transition == largest_replay_buffer(buffered[:1], spaces)
    assert 1000 * cartpole.transition == largest_replay_buffer(buffered, spaces)
    assert 0 == largest_replay_buffer([spec()], spaces) == largest_replay_buffer(buffered, {})
