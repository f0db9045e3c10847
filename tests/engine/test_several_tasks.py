"""A sweep on several tasks: allocation, choice, ranks, failures, and independence of workers and kills."""

import random
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from simulated_sweeps import World, plan

from rlexp.engine.relative_values import rank_shares, ranked_trials
from rlexp.engine.sweep_source import SweepStage
from rlexp.protocol.seeds import Phase, SeedPlan
from rlexp.protocol.spec import RunSpec
from rlexp.protocol.sweep import SweepTask
from rlexp.records.run import RunRecord
from rlexp.records.trial import TrialState
from rlexp.tuners.tpe import TPE

SMALL = SweepTask(task="small", low=0.0, high=1.0)
LARGE = SweepTask(task="large", low=-1000.0, high=0.0)
COST = SweepTask(task="cost", low=50.0, high=10.0)
TASKS = (SMALL, LARGE, COST)
PEAKS = {"small": 0.2, "large": 0.6, "cost": 0.7}
"""The value of the parameter that is best on each task."""


def raw_score(x: float, spec: RunSpec) -> float:
    """A score in the units of its task; normalised, 1 at the peak of the task, with some noise."""
    task = next(t for t in TASKS if t.task == spec.environment["id"])
    noise = random.Random(f"{spec.phase} {spec.seed} {task.task} {x:.12f}").gauss(0, 0.02)
    share = 1 - (x - PEAKS[task.task]) ** 2 + noise
    return task.low + share * (task.high - task.low)


def world(**changes: Any) -> World:
    """A sweep on three tasks, of which the scores of one are the largest, and one is minimised."""
    settings: dict[str, Any] = {"allocation": "two_stage", "normalisation": "anchors", **changes}
    return World(
        plan=plan(**settings),
        score=raw_score,
        seeds=SeedPlan(root=0, tuning=2, selection=2, test=2),
        tasks=TASKS,
    )


def tasks_of(records: list[RunRecord]) -> set[tuple[str, int]]:
    """The tasks and seeds of some runs."""
    return {(r.spec.environment["id"], r.spec.seed) for r in records}


def of_phase(sweep: World, phase: Phase) -> list[RunRecord]:
    """The runs of a phase."""
    return [r for r in sweep.records.values() if r.spec.phase is phase]


@pytest.mark.parametrize("screened", [None, 2])
def test_trials_are_screened_on_the_first_tasks_and_the_best_run_on_all(
    screened: int | None,
) -> None:
    """Every trial runs on the first tasks and one seed; promoted ones on every task and seed."""
    sweep = world(screening_tasks=screened)
    sweeping = sweep.run(2, 0)
    first = {(t.task, 0) for t in TASKS[: screened or 1]}
    every = set(product((t.task for t in TASKS), (0, 1)))
    whole = {c.number for c in sweeping.ranked()}
    for entry in sweeping.search.entries:
        expected = every if entry.proposal.number in whole else first
        assert expected == tasks_of(list(entry.records.values()))
    # A quarter of twelve trials is promoted.
    assert len(whole) == 3


def test_the_choice_is_by_the_mean_of_normalised_scores() -> None:
    """Scores in hundreds do not outweigh scores about one, and a minimised task counts the right way."""
    sweep = world(allocation="fixed", finalists=12)
    sweeping = sweep.run(2, 0)
    chosen = sweep.notes.selections[0]
    x = sweeping.search.entries[chosen.winner].proposal.parameters["algorithm.x"]
    # The mean of the three peaks; other trials are closer to the peak of each task alone.
    assert x == pytest.approx(sum(PEAKS.values()) / len(PEAKS), abs=0.03)
    assert "mean normalised score on 3 tasks × 2 selection seeds" in chosen.rule
    # A finalist has one score a seed: the mean normalised score over the tasks.
    assert [(2, 2)] * 12 == [(len(f.tuning), len(f.selection)) for f in chosen.finalists]
    assert all(0 < score < 1.1 for f in chosen.finalists for score in f.tuning)


def test_winner_and_default_are_tested_on_every_task() -> None:
    """The test phase has each task, seed and configuration once."""
    sweep = world()
    sweep.run(3, 1)
    tests = of_phase(sweep, Phase.TEST)
    assert 2 * 3 * 2 == len(tests)
    assert set(product((t.task for t in TASKS), (0, 1))) == tasks_of(tests)


@pytest.mark.parametrize("normalisation", ["anchors", "ranks"])
@pytest.mark.parametrize("allocation", ["two_stage", "fixed"])
def test_workers_order_and_kills_change_no_number(normalisation: str, allocation: str) -> None:
    """One worker without a break, and four workers killed after every few runs, agree in everything."""
    settings: dict[str, Any] = {"normalisation": normalisation, "allocation": allocation}
    alone = replace(world(**settings), tuner=TPE(startup=3, candidates=24, multivariate=True))
    alone.run(1, 0)
    killed = replace(world(**settings), tuner=TPE(startup=3, candidates=24, multivariate=True))
    for order in range(40):
        killed.run(4, order, cut=7)
    assert alone.open().stage is SweepStage.DONE
    assert alone.outcome() == killed.outcome()


def test_racing_drops_configurations_that_are_behind_over_the_tasks() -> None:
    """In a race, some configurations get fewer than all tasks and seeds, and the best gets all."""
    sweep = replace(world(allocation="racing", normalisation="anchors"), one_by_one=True)
    sweeping = sweep.run(1, 0)
    counts = [len(e.records) for e in sweeping.search.entries]
    assert (6, True) == (max(counts), min(counts) < 6)


def test_a_task_that_fails_is_a_failed_trial_and_no_score() -> None:
    """A trial whose run on the second task fails cannot win, whatever its score on the first was."""

    def fails_on_large(x: float, spec: RunSpec) -> float | None:
        is_best = abs(x - PEAKS["small"]) < 0.25
        return None if is_best and spec.environment["id"] == "large" else raw_score(x, spec)

    sweep = replace(world(allocation="fixed"), score=fails_on_large)
    sweeping = sweep.run(2, 0)
    ended = [e.trial for e in sweeping.search.entries if e.trial is not None]
    failed = [t for t in ended if t.state is TrialState.FAILED]
    assert failed
    assert all(t.values == () for t in failed)
    assert sweep.notes.selections[0].winner not in {t.number for t in failed}


def test_a_failed_promotion_is_replaced_by_the_next_best_trial() -> None:
    """If a promoted trial fails on a further task, the next best trial is promoted as well."""

    def fails_on_cost(x: float, spec: RunSpec) -> float | None:
        near = x < 0.1
        return None if near and spec.environment["id"] == "cost" else raw_score(x, spec)

    sweep = replace(world(), score=fails_on_cost)
    sweeping = sweep.run(2, 0)
    failed = [
        e for e in sweeping.search.entries if any(r.score is None for r in e.records.values())
    ]
    assert failed
    assert len(sweeping.ranked()) == 3


def test_rank_shares_count_what_is_beaten() -> None:
    """The worst of three values has share 0, the best 1; equal values share theirs; one has one half."""
    assert [0.0, 1.0, 0.5] == rank_shares([1.0, 9.0, 3.0])
    assert [0.75, 0.75, 0.0] == rank_shares([5.0, 5.0, 1.0])
    assert [0.5] == rank_shares([4.0])


def test_a_tuner_sees_ranks_among_the_trials_that_it_may_see() -> None:
    """The rank of a trial depends on the compared trials, and is computed from those before it only."""
    sweep = world(allocation="fixed", normalisation="ranks")
    sweeping = sweep.run(2, 0)
    search = sweeping.search
    few = [t.values[0] for t in search.visible(4)]
    again = ranked_trials(search.entries[:4], search.question.objectives, 6)
    assert [t.values[0] for t in again] == few
    assert few != [t.values[0] for t in search.visible(12)][:4]
    assert 0.5 == pytest.approx(sum(few) / 4)


def test_the_choice_by_ranks_is_the_mean_rank_of_the_finalists() -> None:
    """With ranks, multiplying the scores of one task by any number changes nothing."""

    def stretched(x: float, spec: RunSpec) -> float:
        factor = 1e6 if spec.environment["id"] == "large" else 1.0
        return factor * raw_score(x, spec)

    pseudo = (
        replace(SMALL),
        SweepTask(task="large", low=0.0, high=1.0),
        SweepTask(task="cost", low=1.0, high=0.0),
    )
    usual = replace(world(normalisation="ranks", allocation="fixed"), tasks=pseudo)
    scaled = replace(
        world(normalisation="ranks", allocation="fixed"), tasks=pseudo, score=stretched
    )
    usual.run(1, 0)
    scaled.run(1, 0)
    assert usual.notes.selections == scaled.notes.selections
