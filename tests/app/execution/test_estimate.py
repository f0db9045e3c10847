"""The expected time and disk space of runs are computed from earlier runs."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from samples import algorithm, ended, evaluated, failed, spec, started

from rlexp.app.execution.estimate import (
    ROUGH,
    ROUGH_BYTES,
    ROUGH_OTHER,
    START_UP,
    CostEstimate,
    cache_file,
    estimate_cost,
    store_speeds,
)
from rlexp.protocol.spec import RunSpec
from rlexp.records.run import RunRecord


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for this test."""
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))
    return cache_file()


def completed_run(spec: RunSpec, steps: int, seconds: float) -> RunRecord:
    """A completed run with this many steps and seconds."""
    final = evaluated(steps, 1.0, final=True)
    return RunRecord.fold(spec, [[started(), final, replace(ended(steps), seconds=seconds)]])


@pytest.mark.parametrize(
    ("name", "rate"), [("ppo", ROUGH["ppo"]), ("dqn", ROUGH["dqn"]), ("sac", ROUGH_OTHER)]
)
def test_a_first_guess_is_marked_as_unmeasured(name: str, rate: float) -> None:
    """Without earlier runs, the estimate says that it is not measured."""
    result = estimate_cost([spec(learner=algorithm(name), steps=10_000)], 1)
    assert CostEstimate(10_000 / rate + START_UP, ROUGH_BYTES, measured=False) == result


def test_earlier_runs_give_the_speed() -> None:
    """The estimate uses the median speed of the last runs of the same kind."""
    store_speeds(
        [
            (completed_run(spec(k), 100, seconds), 50 * k)
            for k, seconds in enumerate((1.0, 2.0, 50.0))
        ]
    )
    result = estimate_cost([spec(7, steps=1000), spec(8, steps=1000)], 1)
    assert CostEstimate(2 * 1000 / 50 + START_UP, 100, measured=True) == result


def test_workers_share_the_time_but_not_the_disk() -> None:
    """More workers shorten the time, up to one worker per run, and leave the disk space."""
    specs = [spec(k, steps=2000) for k in range(4)]
    seconds = [estimate_cost(specs, workers).seconds - START_UP for workers in (1, 2, 4, 100)]
    assert [4.0, 2.0, 1.0, 1.0] == seconds
    assert 4 * ROUGH_BYTES == estimate_cost(specs, 2).bytes


def test_an_empty_plan_costs_the_start_only() -> None:
    """An empty plan costs only the start-up time."""
    assert CostEstimate(START_UP, 0, measured=True) == estimate_cost([], 4)


@pytest.mark.parametrize(
    "other",
    [
        spec(learner=algorithm("a2c")),
        RunSpec.from_plain(
            {**spec().plain(), "environment": {"_target_": "x", "id": "Acrobot-v1"}}
        ),
        RunSpec.from_plain({**spec().plain(), "compute": {"threads": 2, "device": "cpu"}}),
        RunSpec.from_plain(
            {**spec().plain(), "environment": {**spec().environment, "vector": {"count": 8}}}
        ),
    ],
)
def test_speeds_of_other_kinds_are_not_used(other: RunSpec) -> None:
    """Algorithm, task, number of environments and threads define the kind of a run."""
    store_speeds([(completed_run(spec(), 100, 1.0), 5)])
    assert (True, False) == (
        estimate_cost([spec()], 1).measured,
        estimate_cost([other], 1).measured,
    )


def test_one_unknown_run_makes_the_sum_a_guess() -> None:
    """A single unmeasured run makes the whole estimate unmeasured."""
    store_speeds([(completed_run(spec(), 100, 1.0), 5)])
    assert not estimate_cost([spec(), spec(learner=algorithm("a2c"))], 1).measured


def test_only_completed_runs_are_remembered(cache: Path) -> None:
    """Speeds of failed and unfinished runs are not stored."""
    store_speeds(
        [(failed(spec()), 5), (RunRecord(spec=spec()), 5), (completed_run(spec(), 100, 0.0), 5)]
    )
    assert {} == json.loads(cache.read_text())


def test_later_runs_correct_the_speed() -> None:
    """A new measurement replaces that of the same kind and leaves the others."""
    other_kind = spec(learner=algorithm("sac"))
    store_speeds([(completed_run(spec(), 100, 1.0), 5), (completed_run(other_kind, 100, 10.0), 5)])
    store_speeds([(completed_run(spec(), 200, 1.0), 5)])
    seconds = [
        estimate_cost([run_spec], 1).seconds - START_UP for run_spec in (spec(), other_kind)
    ]
    assert [0.5, 10.0] == seconds


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "7",
        "null",
        '{"ppo CartPole-v1 x1 t1": 5}',
        '{"ppo CartPole-v1 x1 t1": []}',
        '{"ppo CartPole-v1 x1 t1": [1]}',
        '{"ppo CartPole-v1 x1 t1": {"a": 1}}',
        '{"ppo CartPole-v1 x1 t1": ["fast", 1]}',
        '{"ppo CartPole-v1 x1 t1": [0, 5]}',
        '{"ppo CartPole-v1 x1 t1": [-1, 5]}',
        '{"ppo CartPole-v1 x1 t1": [NaN, 5]}',
        '{"ppo CartPole-v1 x1 t1": [1e999, 5]}',
        "[" * 100_000,
        "\0",
    ],
)
def test_a_damaged_cache_counts_as_empty(cache: Path, content: str) -> None:
    """A damaged cache gives an unmeasured estimate and is written again."""
    cache.parent.mkdir(parents=True)
    cache.write_text(content)
    assert not estimate_cost([spec()], 1).measured
    store_speeds([(completed_run(spec(), 100, 1.0), 5)])
    assert estimate_cost([spec()], 1).measured


def test_an_unwritable_cache_is_ignored(cache: Path) -> None:
    """An unwritable cache leaves the estimate unmeasured."""
    cache.parent.parent.mkdir(parents=True)
    cache.parent.write_text("a file")
    store_speeds([(completed_run(spec(), 100, 1.0), 5)])
    assert not estimate_cost([spec()], 1).measured


def test_the_cache_is_in_the_users_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache is in the folder that the system provides for caches."""
    monkeypatch.delenv("RLEXP_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert Path("/cache/rlexp/speeds.json") == cache_file()
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert Path("/home/someone/.cache/rlexp/speeds.json") == cache_file()
