"""Sweeps of populations whose runs follow a formula: schedules, barriers, kills and what they gain."""

import random
from dataclasses import replace
from functools import partial
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pytest
from in_full import long
from simulated_sweeps import EVERY, STEPS, World, plan

from rlexp.protocol.identity import digest
from rlexp.protocol.seeds import Phase, SeedPlan
from rlexp.protocol.shared_experience import EXPERIENCE
from rlexp.protocol.space import Parameter, Real, Space
from rlexp.protocol.spec import RunSpec
from rlexp.protocol.value_schedule import is_scheduled
from rlexp.records.selection import FIXED
from rlexp.tuners import Tuner
from rlexp.tuners.pb2 import PB2
from rlexp.tuners.pbt import PBT
from rlexp.tuners.time_varying_gp import (
    TimeVaryingData,
    best_point,
    kernel_of,
    negative_likelihood,
)

SPACE = Space(parameters=(Parameter(key="algorithm.x", domain=Real(0.05, 1.0, scale="log")),))
SIZES, GENERATIONS = {"pbt": 8, "pb2": 4}, 10
SIZE = SIZES["pbt"]
POPULATIONS: dict[str, Tuner] = {
    "pbt": PBT(
        population=SIZE,
        generations=GENERATIONS,
        quantile=0.25,
        resample=0.25,
        factors=(0.8, 1.2),
        fixed=True,
        growth=0.5,
        new_layer=0.2,
        new_units=(16, 32, 64),
        most_layers=3,
        most_units=500,
        shared_replay=False,
    ),
    "pb2": PB2(
        population=SIZES["pb2"],
        generations=GENERATIONS,
        quantile=0.25,
        fixed=True,
        most_rows=1000,
    ),
}
SHARING = "pbt that shares transitions"
POPULATIONS[SHARING] = replace(POPULATIONS["pbt"], shared_replay=True)  # type: ignore[type-var]
SIZES[SHARING] = SIZE
SEEDS = range(20)


def value_at(x: Any, step: int) -> float:
    """The value of a constant or a schedule at a step."""
    if not is_scheduled(x):
        return float(x)
    begun = [v for s, v in zip(x["steps"], x["values"], strict=True) if s <= step]
    return float(begun[-1])


def drifting(x: Any, spec: RunSpec, first: float = 0.9, last: float = 0.1) -> float:
    """The mean gain over a training whose best value moves from one to another, with noise of the seed."""
    steps = range(0, spec.budget["steps"], EVERY)
    best = [first + (last - first) * step / (STEPS - EVERY) for step in steps]
    gains = [1 - (value_at(x, step) - b) ** 2 for step, b in zip(steps, best, strict=True)]
    noise = random.Random(f"{spec.phase} {spec.root} {spec.seed} {spec.budget['steps']}")
    return sum(gains) / len(gains) + noise.gauss(0, 0.01)


def trials_of(tuner: str) -> int:
    """The number of trials of a population."""
    return 1 + SIZES[tuner] * (GENERATIONS + 1)


def world(tuner: str = "pbt", seed: int = 0, **changes: Any) -> World:
    """A sweep of a population on the drifting problem."""
    seeds = SeedPlan(root=seed, tuning=2, selection=2, test=5)
    settings = {"trials": trials_of(tuner), "allocation": "two_stage", "promoted": 0.08, **changes}
    return World(
        plan=plan(**settings),
        tuner=POPULATIONS[tuner],
        score=drifting,
        seeds=seeds,
        search_seed=seed,
        space=SPACE,
    )


def gain_over_the_best_constant(tuner: str, seed: int) -> float:
    """Mean test score of the best schedule minus that of the best of all constants, on equal seeds."""
    sweep = world(tuner, seed)
    sweeping = sweep.run(workers=4, order=seed)
    assert sweeping.selection is not None
    number = next(
        n for n in sweeping.selection.tested if sweeping.search.entries[n].proposal.changing
    )
    specs = sweeping.runs_of(number, Phase.TEST)
    mine = fmean(drifting(spec.algorithm["x"], spec) for spec in specs)
    constants = [0.05 + 0.95 * i / 200 for i in range(201)]
    return mine - max(fmean(drifting(x, spec) for spec in specs) for x in constants)


@pytest.mark.parametrize("tuner", ["pbt", pytest.param("pb2", marks=long)])
def test_a_population_beats_the_best_constant(tuner: str) -> None:
    """Where the best value drifts, schedules gain more than two standard errors over every constant."""
    gains = [gain_over_the_best_constant(tuner, seed) for seed in SEEDS]
    assert fmean(gains) > 2 * stdev(gains) / len(gains) ** 0.5 > 0


@pytest.mark.parametrize(
    "tuner", [SHARING, *(pytest.param(n, marks=long) for n in ("pbt", "pb2"))]
)
def test_workers_and_kills_change_nothing(tuner: str) -> None:
    """One worker, eight workers, and commands that are killed again and again end equally."""
    whole = world(tuner)
    whole.run(workers=1, order=1)
    parallel = world(tuner)
    parallel.run(workers=8, order=2)
    killed = world(tuner)
    for order in range(40):
        killed.run(workers=3, order=order, cut=15)
    killed.run(workers=3, order=99)
    assert whole.outcome() == parallel.outcome() == killed.outcome()
    assert trials_of(tuner) == len(whole.outcome()["trials"])


def test_a_generation_begins_when_the_one_before_has_ended() -> None:
    """No trial of a generation is proposed while a trial of an earlier one goes on."""
    sweep = world()
    sweeping = sweep.run(workers=8, order=3, cut=30)
    entries = sweeping.search.entries
    unfinished = [e.proposal.number for e in entries if e.trial is None]
    generations = {(number - 1) // SIZE for number in unfinished if number}
    assert len(generations) == 1
    assert (len(entries) - 2) // SIZE == max(generations)


def test_a_segment_continues_its_parent() -> None:
    """Each later part has the state of a run of the generation before, and the values of its parts."""
    sweep = world()
    sweep.run(workers=2, order=0)
    proposals = {p.number: (p, c) for p, c in sweep.notes.proposals}
    for number in range(1 + SIZE, 1 + SIZE * GENERATIONS):
        proposal, (configuration,) = proposals[number]
        assert proposal.parent is not None
        before, (old,) = proposals[proposal.parent]
        assert (number - 1) // SIZE == (proposal.parent - 1) // SIZE + 1
        x, then = configuration.algorithm["x"], old.algorithm["x"]
        steps = range(0, before.steps, EVERY)
        assert [value_at(then, s) for s in steps] == [value_at(x, s) for s in steps]
        assert proposal.parameters["algorithm.x"] == value_at(x, before.steps)


def test_members_receive_the_transitions_of_the_generation_before() -> None:
    """All members of a generation receive those of all runs of the one before, where it has ended."""
    sweep = world(SHARING)
    sweeping = sweep.run(workers=3, order=0)
    configurations = {p.number: c for p, (c,) in sweep.notes.proposals}
    interval = STEPS // GENERATIONS
    for generation in range(1, GENERATIONS):
        first = 1 + SIZE * generation
        members = [configurations[n].algorithm[EXPERIENCE] for n in range(first, first + SIZE)]
        assert all(member == members[0] for member in members)
        assert [0, *(interval * g for g in range(1, generation + 1))] == members[0]["steps"]
        runs = {
            sweeping.runs_of(n)[p].id: None
            for n in range(first - SIZE, first)
            for p in range(sweeping.search.question.screening)
        }
        assert digest([*runs]) == members[0]["values"][-1]
    # Their configurations are no others than those that every later seed trains.
    fixed = configurations[1 + SIZE * GENERATIONS].algorithm
    assert EXPERIENCE not in fixed
    entries = sweeping.search.entries
    assert all(entries[n].proposal.changing for n in range(1 + SIZE, 1 + SIZE * GENERATIONS))


def test_the_schedule_is_tested_beside_the_best_fixed_configuration() -> None:
    """Test seeds compare the winner, the best fixed configuration at equal cost, and the default."""
    sweep = world()
    sweep.score = partial(drifting, first=0.35, last=0.05)
    sweeping = sweep.run(workers=4, order=0)
    selection = sweeping.selection
    assert selection is not None
    assert selection.rival is not None
    assert FIXED == selection.rival.label
    entries = sweeping.search.entries
    assert [True, False, False] == [entries[n].proposal.changing for n in selection.tested]
    assert {f.number for f in selection.finalists} >= {selection.winner, selection.rival.number}
    tests = [r for r in sweep.records.values() if r.spec.phase is Phase.TEST]
    assert 3 * 5 == len(tests)
    assert all(r.spec.parent is None for r in tests)


def test_equal_cost_of_schedules_and_fixed_configurations() -> None:
    """The first configurations, unchanged to the end, take as many steps as the population does."""
    sweep = world()
    sweep.run(workers=4, order=0)
    steps = [p.steps for p, _ in sweep.notes.proposals]
    interval = STEPS // GENERATIONS
    assert [(1 + i // SIZE) * interval for i in range(SIZE * GENERATIONS)] == steps[1:-SIZE]
    assert [STEPS] * SIZE == steps[-SIZE:]
    assert [1 + member for member in range(SIZE)] == [
        p.parent for p, _ in sweep.notes.proposals[-SIZE:]
    ]


def test_failing_members_are_replaced() -> None:
    """A failed member copies a better one; where all fail, members are drawn anew and go on."""

    def broken(x: Any, spec: RunSpec) -> float | None:
        return None if value_at(x, spec.budget["steps"] - 1) > 0.3 else drifting(x, spec)

    sweep = world(stop_after=1000)
    sweep.score = broken
    sweeping = sweep.run(workers=4, order=0)
    assert sweeping.selection is not None
    proposals = {p.number: p for p, _ in sweep.notes.proposals}
    states = {e.proposal.number: e.trial.state for e in sweeping.search.entries if e.trial}
    failed = [n for n, state in states.items() if state == "failed"]
    assert failed
    assert all(p.parent not in failed for p in proposals.values())


def test_the_process_finds_what_gains_most() -> None:
    """With many rows of a known optimum that drifts, the proposed point is near the latest optimum."""
    random_numbers = np.random.default_rng(1)
    generations = np.repeat(np.arange(1.0, 9.0), 8)
    points = random_numbers.random((64, 1))
    optimum = 0.2 + 0.05 * generations
    data = TimeVaryingData(
        generations=generations,
        levels=np.zeros(64),
        gains=-((points[:, 0] - optimum) ** 2),
        points=points,
    )
    found = best_point(
        data, generation=9, level=0.0, assigned=np.zeros((0, 1)), random=random_numbers
    )
    assert abs(found[0] - 0.625) < 0.1


def test_the_gradient_of_the_likelihood_is_right() -> None:
    """The gradient equals differences of the likelihood."""
    random_numbers = np.random.default_rng(2)
    rows = np.column_stack([np.arange(12.0) // 3, random_numbers.random((12, 2))])
    targets = random_numbers.standard_normal(12)
    x = np.array([0.3, -0.5, -1.0, 0.2])
    _, gradient = negative_likelihood(kernel_of(x), rows, targets)
    for i in range(4):
        ends = [
            negative_likelihood(kernel_of(x + sign * 1e-6 * np.eye(4)[i]), rows, targets)[0]
            for sign in (1, -1)
        ]
        assert abs((ends[0] - ends[1]) / 2e-6 - gradient[i]) < 1e-5
