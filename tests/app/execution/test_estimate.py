"""The expected time and disk space of runs are composed of what steps, updates and episodes cost."""

import json
from dataclasses import asdict, replace
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
from samples import ENVIRONMENT, algorithm, ended, evaluated, failed, part, spec, started

from rlexp.app.execution.checks.compatibility import EnvironmentSpaces
from rlexp.app.execution.estimate import (
    LEAST_PROBE_SPREAD,
    LEAST_SPREAD,
    ROUGH_BYTES,
    START_UP,
    Basis,
    CostEstimate,
    RateCache,
    Rates,
    cache_file,
    combine,
    estimate_cost,
    guess_rates,
    rates_of_run,
    store_rates,
)
from rlexp.app.execution.machine_load import MachineLoad
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import Event, Measured
from rlexp.records.logged_values import OFFLINE_STEPS
from rlexp.records.run import RunRecord


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for this test."""
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))
    return cache_file()


def rates(**changes: Any) -> Rates:
    """What a run costs: by default a second for each step, and nothing else."""
    values: dict[str, Any] = {"start": 0.0, "step": 1.0, "update": 0.0, "episode": 0.0}
    values |= {"final_episode": 0.0, "spread": 1.0, "episode_spread": 1.0, "bytes": 5}
    return Rates(**{**values, "basis": Basis.PROBE, **changes})


def seconds(run_spec: RunSpec, of: Rates, begun: int = 0) -> float:
    """The expected seconds of one run without the start of the command."""
    known, continued = {run_spec.fingerprint: of}, {run_spec.name: begun}
    return estimate_cost([run_spec], 1, rates=known, continued=continued).seconds - START_UP


SPACES = EnvironmentSpaces(("Box",), "Discrete", 1, masked=False, light=True)
IMAGES = replace(SPACES, observation=("Box", "Image"), light=False)


def test_a_first_guess_knows_images_updates_and_foreign_tasks() -> None:
    """A guess is larger for images, for more gradient steps and for tasks of other packages."""
    dqn = {"buffer_size": 10, "gradient_steps": 1, "train_freq": 4}
    often, rarely = (
        guess_rates(spec(learner=algorithm("dqn", **{**dqn, "gradient_steps": steps})), SPACES)
        for steps in (-1, 1)
    )
    images = guess_rates(spec(learner=algorithm("dqn", **dqn)), IMAGES)
    foreign = guess_rates(spec(learner=algorithm("dqn", **dqn)), replace(SPACES, light=False))
    assert often.update == 4 * rarely.update
    assert images.update > rarely.update
    assert min(images.step, foreign.step) > rarely.step
    assert Basis.GUESS is images.basis


def test_a_guess_has_no_range() -> None:
    """A plan with a guessed run has no range, because nothing says how wrong the guess is."""
    measured, guessed = spec(), spec(learner=algorithm("a2c"))
    expected = estimate_cost([measured, guessed], 1, rates={measured.fingerprint: rates()})
    assert (None, None, Basis.GUESS) == (expected.low, expected.high, expected.basis)
    assert ROUGH_BYTES + 5 == expected.bytes
    assert (False, "guess") == (expected.of_plan()["measured"], expected.of_plan()["basis"])


def test_updates_count_from_the_step_at_which_learning_starts() -> None:
    """Steps before `learning_starts` cost no update, and steps before a checkpoint nothing."""
    run_spec = spec(learner=algorithm("dqn", learning_starts=40))
    of = rates(step=1.0, update=10.0)
    assert 100 + 60 * 10 == seconds(run_spec, of)
    assert 80 + 60 * 10 == seconds(run_spec, of, begun=20)
    assert 10 + 10 * 10 == seconds(run_spec, of, begun=90)


def test_evaluations_are_counted_apart() -> None:
    """Evaluations during training and the final one cost their own episodes."""
    run_spec = spec(evaluation_every=10, evaluation_episodes=8, final_episodes=16)
    of = rates(step=1.0, start=7.0, episode=0.5, final_episode=2.0)
    assert 7 + 100 + 10 * 8 * 0.5 + 16 * 2 == seconds(run_spec, of)
    assert 7 + 50 + 5 * 8 * 0.5 + 16 * 2 == seconds(run_spec, of, begun=50)
    never = spec(evaluation_every=None, final_episodes=8)
    assert 7 + 100 + 8 * 2 == seconds(never, of)


def test_the_range_covers_rates_and_lengths_of_episodes() -> None:
    """The range divides and multiplies by the spread of rates, and that of episodes besides."""
    run_spec = spec(evaluation_every=None, final_episodes=8)
    of = rates(final_episode=10.0, spread=2.0, episode_spread=5.0)
    expected = estimate_cost([run_spec], 1, rates={run_spec.fingerprint: of})
    assert START_UP / LEAST_SPREAD + 50 + 8.0 == expected.low
    assert START_UP * LEAST_SPREAD + 200 + 800.0 == expected.high
    assert START_UP + 180 == expected.seconds


def factors(of: Rates, load: MachineLoad | None) -> tuple[float, float]:
    """How many times shorter and longer than expected a long run may take."""
    run_spec = spec(steps=1_000_000, evaluation_every=None)
    expected = estimate_cost([run_spec], 1, rates={run_spec.fingerprint: of}, load=load)
    assert expected.low is not None
    assert expected.high is not None
    return expected.seconds / expected.low, expected.high / expected.seconds


@pytest.mark.parametrize(
    ("measured", "now", "shorter", "longer"),
    [
        (0.0, 0.0, 1.0, 1.0),
        # On two cores, three processes take 1.5 times as long, and five 2.5 times.
        (2.0, 2.0, 1.5, 2.5 / 1.5),
        # What was measured beside others is faster on a machine that is idle now.
        (5.0, 0.0, 3.0, 11 / 6),
        # What was measured on an idle machine is slower beside others.
        (0.0, 5.0, 1.0, 3.0),
    ],
)
def test_the_range_covers_other_programs_that_end_and_begin(
    measured: float, now: float, shorter: float, longer: float
) -> None:
    """Half to twice the other processes are covered, and as many as there are now."""
    load = MachineLoad(cores=2, threads=1, others=now)
    assert (shorter, longer) == pytest.approx(factors(rates(others=measured), load), rel=1e-4)
    assert (1.0, 1.0) == pytest.approx(factors(rates(others=measured), None), rel=1e-4)


def test_a_command_starts_slower_beside_other_programs() -> None:
    """The start is not measured, so it is expected as slow as the present load makes it."""
    load = MachineLoad(cores=2, threads=1, others=5.0)
    assert 3 * START_UP == estimate_cost([], 1, load=load).seconds


BUSY, QUIET = 6.5, 1.0
"""Processes of other programs while plans were measured: the middle of the recorded span."""
RECORDED = (
    *((BUSY, ratio) for ratio in (1.07, 0.96, 0.78, 1.93, 2.09, 0.90, 1.47, 0.71)),
    *((QUIET, ratio) for ratio in (1.52, 1.00, 0.94, 0.88, 1.01, 0.68, 1.00, 1.01)),
    *((QUIET, ratio) for ratio in (1.41, 0.67, 0.76)),
)
"""Others, and expected over true seconds, of the 19 plans in `benchmarks/README.md`."""


def test_nine_of_ten_recorded_durations_are_inside_the_range() -> None:
    """Runs of eight cells on two shared cores ended inside the range of their plans."""
    inside = []
    for others, ratio in RECORDED:
        load = MachineLoad(cores=2, threads=1, others=others)
        shorter, longer = factors(rates(spread=LEAST_PROBE_SPREAD, others=others), load)
        inside.append(1 / longer <= ratio <= shorter)
    assert sum(inside) >= 0.9 * len(RECORDED)
    assert max(shorter, longer) < 2.6


def test_episodes_that_change_while_a_policy_learns_widen_the_range() -> None:
    """A pilot whose last evaluation took thrice the mean of all says so."""
    begin = started().time
    journal: list[Event] = [
        started(),
        Measured(time=begin + 10, step=10, metrics={}),
        replace(evaluated(20, 1.0), time=begin + 20, seconds=1.0),
        replace(evaluated(50, 1.0), time=begin + 50, seconds=5.0),
        replace(evaluated(100, 1.0, final=True), time=begin + 100, seconds=5.0),
        replace(ended(100), seconds=100.0),
    ]
    of = rates_of_run(finished_run(spec(), journal), 7)
    assert of is not None
    assert 3.0 == pytest.approx(of.episode_spread)


def starting_from_data(steps: int, **changes: Any) -> RunSpec:
    """A run with an offline stage."""
    dataset = part("dataset", "minari", "rlexp.datasets.minari.Minari", offline_steps=steps)
    return replace(spec(**changes), dataset=dataset)


def test_an_offline_stage_takes_its_gradient_steps() -> None:
    """A run that starts from data takes longer, one that continues after its first step does not."""
    run, of = starting_from_data(50), rates(gradient=2.0)
    assert 200.0 == seconds(run, of)
    assert 40.0 == seconds(run, of, begun=60)
    assert 100.0 == seconds(spec(), of)
    learner = algorithm("sac", buffer_size=10, gradient_steps=1, train_freq=1)
    assert guess_rates(spec(learner=learner)).gradient > 0.0
    script = starting_from_data(50, learner=algorithm("external", command="python train.py"))
    assert 0 == script.offline_steps


def test_a_finished_run_says_what_a_gradient_step_on_data_costs() -> None:
    """The time of the offline stage is divided by its gradient steps, and is no part of the start."""
    begin = started().time
    journal: list[Event] = [
        started(),
        *(
            Measured(time=begin + 5 + 2 * count, step=0, metrics={OFFLINE_STEPS: float(count)})
            for count in (10, 30, 50)
        ),
        Measured(time=begin + 120, step=10, metrics={}),
        replace(evaluated(100, 1.0, final=True), time=begin + 215, seconds=5.0),
        replace(ended(100), seconds=215.0),
    ]
    of = rates_of_run(finished_run(starting_from_data(50), journal), 7)
    assert of is not None
    assert (2.0, 1.0) == (of.gradient, of.step)
    assert 10.0 == pytest.approx(of.start)
    training = replace(of, episode=0.0, final_episode=0.0)
    assert 210.0 == pytest.approx(seconds(starting_from_data(50), training))


def test_a_worker_starts_its_next_run_when_it_is_free() -> None:
    """The plan ends with the last run, and no run is divided among workers."""
    known = {spec().fingerprint: rates()}
    ends = [
        estimate_cost([spec(k) for k in range(3)], workers, rates=known).seconds - START_UP
        for workers in (1, 2, 3, 100)
    ]
    assert [300, 200, 100, 100] == ends


def test_an_empty_plan_costs_the_start_only() -> None:
    """An empty plan costs only the start-up time."""
    low, high = START_UP / LEAST_SPREAD, START_UP * LEAST_SPREAD
    assert CostEstimate(START_UP, 0, low, high, Basis.RUNS) == estimate_cost([], 4)


def events(
    first: float, seconds_per_step: float, *, steps: int = 100, evaluation: float = 0.0
) -> list[Event]:
    """A run that logs at step 10 after `first` seconds, and evaluates at step 50 and at its end."""
    begin = started().time
    at = [begin + first + seconds_per_step * (step - 10) for step in (10, 50, steps)]
    final = at[2] + 2 * evaluation
    return [
        started(),
        Measured(time=at[0], step=10, metrics={}),
        replace(evaluated(50, 1.0), time=at[1] + evaluation, seconds=evaluation),
        replace(evaluated(steps, 1.0, final=True), time=final, seconds=evaluation),
        replace(ended(steps), seconds=final - begin),
    ]


def finished_run(run_spec: RunSpec, journal: list[Event]) -> RunRecord:
    """The record of a run with one attempt."""
    return RunRecord.fold(run_spec, [journal])


def test_a_finished_run_gives_its_rate_without_start_and_evaluation() -> None:
    """Neither start-up nor evaluations count as steps, however long they took."""
    of = rates_of_run(finished_run(spec(), events(60.0, 2.0, evaluation=80.0)), 7)
    assert of is not None
    assert (2.0, 0.0, 40.0) == pytest.approx((of.step, of.update, of.start))
    # One episode occupies the whole vector of evaluation environments.
    assert (10.0, 10.0) == pytest.approx((of.episode, of.final_episode))
    assert (7, Basis.RUNS, LEAST_SPREAD) == (of.bytes, of.basis, of.spread)


def test_a_pilot_predicts_the_full_run() -> None:
    """The estimate of ten times the steps is ten times the training, with a single start-up."""
    pilot = finished_run(spec(steps=100), events(60.0, 2.0, evaluation=80.0))
    of = rates_of_run(pilot, 7)
    full = spec(steps=1000, evaluation_every=None, final_episodes=8)
    assert of is not None
    assert 40 + 2000 + 80 == pytest.approx(seconds(full, of))


@pytest.mark.parametrize(
    ("learner", "journal"),
    [
        (algorithm(), [started(), evaluated(100, 1.0, final=True), ended(100)]),
        (algorithm("dqn", learning_starts=60), events(60.0, 2.0)),
        (algorithm(), events(60.0, -2.0)),
    ],
)
def test_a_run_whose_events_do_not_show_training_gives_no_rate(
    learner: dict[str, Any], journal: list[Event]
) -> None:
    """Runs that log nothing, explore at random or turn back the clock are not measured."""
    assert rates_of_run(finished_run(spec(learner=learner), journal), 7) is None


def test_only_completed_runs_are_remembered(cache: Path) -> None:
    """Failed and unfinished runs are not stored."""
    store_rates([(failed(spec()), 5), (RunRecord(spec=spec()), 5)], 1)
    assert not cache.exists()


def test_several_runs_give_the_median_and_a_spread_that_covers_them() -> None:
    """The median is robust against single runs, which widen the range."""
    three = [rates(step=step, bytes=int(step)) for step in (1.0, 2.0, 10.0)]
    of = combine(three)
    assert (2.0, 2, 5.0) == (of.step, of.bytes, of.spread)


def test_later_runs_replace_a_probe_and_a_probe_replaces_no_run() -> None:
    """Runs measure better than probes, so a probe never replaces what runs have shown."""
    cached = RateCache(2)
    cached.store([(spec(), rates(step=3.0))])
    cached.store([(spec(), rates(step=2.0, basis=Basis.RUNS))])
    cached.store([(spec(), rates(step=5.0))])
    assert rates(step=2.0, basis=Basis.RUNS) == RateCache(2).find(spec())


@pytest.mark.parametrize(
    "other",
    [
        spec(learner=algorithm("a2c")),
        spec(learner=algorithm(gamma=0.9)),
        RunSpec.from_plain({**spec().plain(), "environment": {**ENVIRONMENT, "id": "Acrobot-v1"}}),
        RunSpec.from_plain({**spec().plain(), "compute": {"threads": 2, "device": "cpu"}}),
        RunSpec.from_plain(
            {**spec().plain(), "environment": {**ENVIRONMENT, "vector": {"count": 8}}}
        ),
    ],
)
def test_rates_of_other_kinds_are_not_used(other: RunSpec) -> None:
    """Algorithm, its settings, task, vector and threads decide what a run costs."""
    RateCache(1).store([(spec(), rates())])
    assert (rates(), None) == (RateCache(1).find(spec()), RateCache(1).find(other))


def test_rates_of_another_offline_stage_are_not_used() -> None:
    """The rate of a single gradient step on data is unknown, and a longer stage would seem to cost nothing."""
    RateCache(1).store([(starting_from_data(1), rates(gradient=0.0))])
    assert RateCache(1).find(starting_from_data(1)) is not None
    assert RateCache(1).find(starting_from_data(2000)) is None
    assert RateCache(1).find(starting_from_data(0)) is None


def test_rates_hold_for_every_budget_and_seed_but_not_for_other_workers() -> None:
    """Budget and seed change no rate; runs at the same time slow each other down."""
    RateCache(2).store([(spec(), rates())])
    assert rates() == RateCache(2).find(spec(7, steps=9999))
    assert RateCache(1).find(spec()) is None


def test_rates_of_other_versions_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version of a package may be faster or slower."""
    RateCache(1).store([(spec(), rates())])
    monkeypatch.setattr(
        "rlexp.app.execution.estimate.collect_versions", lambda _: {"torch": "0.1"}
    )
    assert RateCache(1).find(spec()) is None


VALID = {**asdict(rates()), "basis": "probe"}
DAMAGED: tuple[Any, ...] = (
    5,
    [],
    {},
    {**VALID, "step": "fast"},
    {**VALID, "step": 0},
    {**VALID, "update": -2},
    {**VALID, "step": nan},
    {**VALID, "start": inf},
    {**VALID, "spread": 0.5},
    {**VALID, "basis": "hearsay"},
    {**VALID, "more": 1},
)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "7",
        "null",
        *(json.dumps({"any": value}) for value in DAMAGED),
        "[" * 100_000,
        "\0",
    ],
)
def test_a_damaged_cache_counts_as_empty(cache: Path, content: str) -> None:
    """A damaged cache gives no rates and is written again."""
    cache.parent.mkdir(parents=True)
    cache.write_text(content)
    assert RateCache(1).find(spec()) is None
    RateCache(1).store([(spec(), rates())])
    assert rates() == RateCache(1).find(spec())
    assert 1 == len(json.loads(cache.read_text()))


def test_an_unwritable_cache_is_ignored(cache: Path) -> None:
    """An unwritable cache keeps nothing, and is no error."""
    cache.parent.parent.mkdir(parents=True)
    cache.parent.write_text("a file")
    RateCache(1).store([(spec(), rates())])
    assert RateCache(1).find(spec()) is None


def test_the_cache_is_in_the_users_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache is in the folder that the system provides for caches."""
    monkeypatch.delenv("RLEXP_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert Path("/cache/rlexp/rates.json") == cache_file()
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert Path("/home/someone/.cache/rlexp/rates.json") == cache_file()
