"""What sweeps of populations refuse before anything trains."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from samples import configuration

from rlexp.app.commands.train.plan import PlanAsk, plan
from rlexp.app.commands.train.sweep import SweepOptions, sweep
from rlexp.app.commands.train.sweep_study import open_study
from rlexp.app.execution import extension
from rlexp.app.observer import SilentObserver
from rlexp.app.plans import SweepOutline
from rlexp.app.sweeps import request as sweep_request
from rlexp.app.sweeps.populations import schedule_of
from rlexp.app.sweeps.request import Configurer, read_sweep
from rlexp.app.sweeps.state import check_sweep_plug_ins
from rlexp.app.sweeps.tries import read_tries
from rlexp.app.workspace import Workspace
from rlexp.cli.plans import sweep_plan_lines
from rlexp.config.validate import build
from rlexp.errors import ConfigError
from rlexp.protocol.identity import digest, identifying
from rlexp.store.layout import Layout
from rlexp.tuners.pbt import NetworkGrowth
from rlexp.tuners.population import Population

WORDS = (
    *("environment=cartpole", "budget.steps=2048"),
    *("tuner=pbt", "sweep.space.algorithm.gamma=interval(0.9,0.999)"),
)
SIZE = ("tuner.population=4", "tuner.generations=4", "sweep.trials=21")
DQN = (
    *("algorithm=dqn", "algorithm.exploration_initial_eps=0.1"),
    "algorithm.exploration_final_eps=0.1",
)
REFUSED = {
    "one member": (("tuner.population=1", "sweep.trials=30"), "tuner.population=1"),
    "one generation": (("tuner.generations=1", "sweep.trials=30"), "tuner.generations=1"),
    "unequal generations": (
        ("tuner.generations=3", "sweep.trials=90"),
        "tuner.generations=3 does not divide budget.steps=2048: set budget.steps=2046",
    ),
    "too few trials": (
        ("tuner.population=4", "tuner.generations=4", "sweep.trials=20"),
        "set sweep.trials=21",
    ),
    "a constant setting": (
        (*SIZE, "sweep.space.algorithm.n_epochs=range(2,9)"),
        "sweep.space.algorithm.n_epochs cannot change while a run trains",
    ),
    "the beginning of a network": (
        (*SIZE, "sweep.space.agent.ortho_init=choice(true,false)"),
        "sweep.space.agent.ortho_init cannot change while a run trains",
    ),
    "a compiled network": (
        (*SIZE, "algorithm=compiled_ppo", "sweep.space.agent.network=choice([8],[16])"),
        "agent.network changes while the run trains, and the network of algorithm=compiled_ppo cannot",
    ),
    "no replay buffer": (
        (*SIZE, "tuner.shared_replay=true"),
        "tuner.shared_replay=true is for algorithms with a replay buffer",
    ),
    "joined transitions": (
        (*SIZE, *DQN, "algorithm.n_steps=3", "tuner.shared_replay=true"),
        "algorithm.experience brings single transitions",
    ),
    "another replay": (
        (*SIZE, *DQN, "replay=prioritised", "tuner.shared_replay=true"),
        "tuner.shared_replay=true adds transitions to the library's own replay buffer",
    ),
    "nothing kept": (
        (*SIZE, *DQN, "sweep.continuation=false", "tuner.shared_replay=true"),
        "sweep.continuation=false keeps nothing",
    ),
    "a pruner": ((*SIZE, "pruner=median"), "set pruner=none"),
    "a race": ((*SIZE, "sweep.allocation=racing"), "set sweep.allocation=two_stage or fixed"),
    "another limit": ((*SIZE, "sweep.full_runs=3"), "leave the limit out"),
    "several objectives": ((*SIZE, "sweep.objective=[score,auc]"), "optimises one objective"),
    "the length of training": (
        (*SIZE, "algorithm.learning_rate={shape: linear, initial: 1e-3}"),
        "algorithm.learning_rate depends on the length of training",
    ),
    "several tasks": (
        (*SIZE, "environment=cartpole,acrobot"),
        "tuner=pbt is for a sweep on one task, and environment names 2",
    ),
    "earlier sweeps": (
        (*SIZE, "sweep.warm_start=before"),
        "sweep.warm_start does not fit tuner=pbt",
    ),
    "a bound": ((*SIZE, "sweep.stop_at_regret=1"), "sweep.stop_at_regret does not fit tuner=pbt"),
    "a guess": (
        (*SIZE, "sweep.space.algorithm.gae_lambda={values: 'interval(0.9, 0.99)', prior: 0.95}"),
        "sweep.space.algorithm.gae_lambda.prior does not fit tuner=pbt",
    ),
    "a value that a callback sets": (
        (
            *SIZE,
            "callback=schedule",
            "callback.schedule.values={gamma: {shape: constant, initial: 0.9}}",
        ),
        "sweep.space.algorithm.gamma is searched, and callback schedule sets gamma while a run trains",
    ),
    "another word": (("sweep.method=pbt",), "type tuner=pbt"),
}


def workspace(folder: Path) -> Workspace:
    """An empty workspace."""
    return Workspace(folder, Layout(folder / "runs"))


def check(words: tuple[str, ...], folder: Path) -> None:
    """What the command checks before it writes or trains anything."""
    requested = read_sweep(None, [*WORDS, *words], workspace(folder))
    check_sweep_plug_ins(requested.experiment, None, workspace(folder))


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_population_cannot_do_is_refused(name: str, tmp_path: Path) -> None:
    """The mistake is one line with what to type, before anything is written."""
    words, expected = REFUSED[name]
    with pytest.raises(ConfigError) as caught:
        check(words, tmp_path)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "runs").exists()


def test_a_try_beside_a_population_is_refused(tmp_path: Path) -> None:
    """A trial of a population belongs to a member, so that the user cannot add one while it trains."""
    requested = read_sweep(None, [*WORDS, *SIZE], workspace(tmp_path))
    configurer = Configurer(requested, workspace(tmp_path), {})
    with pytest.raises(ConfigError, match="--try does not fit tuner=pbt"):
        read_tries(["algorithm.gamma=0.95"], configurer)
    assert [] == read_tries([], configurer)


def test_a_study_with_a_population_is_refused(tmp_path: Path) -> None:
    """Ask and tell has no states from which a member could go on."""
    space, default = {"gamma": "interval(0.9, 0.99)"}, {"gamma": 0.95}
    words = ["budget.steps=2048", "tuner=pbt", *SIZE]
    with pytest.raises(
        ConfigError, match="tuner=pbt continues trainings from the states of others"
    ):
        open_study("study", space, default, "task", words, workspace(tmp_path))
    assert not (tmp_path / "runs").exists()


def test_a_plan_of_hours_for_a_population_is_refused(tmp_path: Path) -> None:
    """The designs of plans are searches of independent trials, which a population is not."""
    ask = PlanAsk(name=None, overrides=(*WORDS, *SIZE), hours=1.0, probe=False)
    with pytest.raises(ConfigError, match="--hours does not fit tuner=pbt"):
        plan(ask, workspace(tmp_path), SilentObserver())


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("sweep.space.agent.network=choice([8],[16,16])",),
        (*DQN, "tuner.shared_replay=true"),
    ],
)
def test_a_population_that_fits_is_accepted(words: tuple[str, ...], tmp_path: Path) -> None:
    """The words of the cases above are right without their mistake."""
    requested = read_sweep(None, [*WORDS, *SIZE, *words], workspace(tmp_path))
    assert requested.sweep.plan.continuation is True


def test_a_search_of_values_that_a_schedule_replaces_is_refused(tmp_path: Path) -> None:
    """With every tuner a scheduled value replaces the searched one; a controller begins with it."""
    words = ["environment=cartpole", "budget.steps=2048", "tuner=random", "sweep.trials=4"]
    scheduled = "callback.schedule.values={gamma: {shape: constant, initial: 0.9}}"
    space = "sweep.space.algorithm.gamma=interval(0.9,0.999)"
    with pytest.raises(ConfigError, match="take it out of the space, or out of the callback"):
        read_sweep(None, [*words, "callback=schedule", scheduled, space], workspace(tmp_path))
    space = "sweep.space.algorithm.n_steps=choice(128,256)"
    controlled = [*words, "callback=adaptive_rollout_length", space]
    assert read_sweep(None, controlled, workspace(tmp_path)).experiment.default.callback


def test_transitions_of_an_environment_that_cannot_be_restored_are_not_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its runs would keep no state to share, which is said before anything trains."""
    monkeypatch.setattr(sweep_request, "check_compatibility", lambda *_: None)
    monkeypatch.setattr(extension, "call_in_subprocess", lambda *_: "it draws its own seeds")
    for words, refused in ((("tuner.shared_replay=true",), True), ((), False)):
        requested = read_sweep(None, [*WORDS, *SIZE, *DQN, *words], workspace(tmp_path))
        configurer = Configurer(requested, workspace(tmp_path), {})
        if not refused:
            configurer.check_default()
            continue
        with pytest.raises(ConfigError, match="own seeds; leave out"):
            configurer.check_default()


def test_sweeps_from_before_networks_could_grow_keep_their_definition(tmp_path: Path) -> None:
    """The tuner that an older sweep recorded has the digest of today's, and grows networks the same way."""
    older = {
        "plug_in": {"group": "tuner", "name": "pbt", "version": 1},
        "_target_": "rlexp.tuners.pbt.PBT",
        "population": 4,
        "generations": 4,
        "quantile": 0.25,
        "resample": 0.25,
        "factors": [0.8, 1.2],
        "fixed": True,
    }
    requested = read_sweep(None, [*WORDS, *SIZE], workspace(tmp_path))
    definition = requested.sweep.definition()
    assert digest(identifying(older)) == digest(definition["tuner"])
    assert replace(requested.sweep, tuner=older).definition() == definition
    built = [build(tuner, "tuner") for tuner in (older, requested.sweep.tuner)]
    assert built[0] == built[1]
    assert built[0].network_growth == NetworkGrowth()


def test_a_plan_counts_the_parts_of_trainings(tmp_path: Path) -> None:
    """Parts of a generation count with their own steps, and the rival is among the finalists and tests."""
    words = (
        *(*WORDS, *SIZE, "sweep.allocation=fixed", "sweep.finalists=1"),
        *("seeds.tuning=2", "seeds.selection=1", "seeds.test=3"),
    )
    options = SweepOptions(dry_run=True, probe=False)
    outline = sweep(None, words, options, workspace(tmp_path), SilentObserver())
    assert isinstance(outline, SweepOutline)
    # 21 trials on 2 seeds, 2 finalists on 1 seed, and 3 configurations on 3 seeds.
    assert 21 * 2 + 2 * 1 + 3 * 3 == outline.population_runs
    # The default, 4 × 4 parts of a quarter each, and 4 times the other three quarters.
    assert (1 + 4 + 3) * 2 + 2 * 1 + 3 * 3 == outline.runs
    text = " ".join(sweep_plan_lines(outline))
    assert "at most 53 runs with as many environment steps as 27 whole runs of 2,048" in text


def test_trials_have_places_in_generations() -> None:
    """Numbers count the members of one generation after another, the unchanged ones last."""
    population = Population(size=3, generations=2, steps=100, fixed=True)
    assert [(0, 0), (0, 2), (1, 0), (2, 2)] == [population.locate(n) for n in (1, 3, 4, 9)]
    assert 10 == population.trials
    assert range(4, 7) == population.members(1)
    assert 50 == population.interval


def test_a_schedule_lists_every_parameter_at_every_change() -> None:
    """The file of a schedule has a value of each parameter at each step at which one changes."""
    rate = {"shape": "steps", "steps": [0, 20], "values": [0.1, 0.2]}
    base = configuration()
    changing = replace(base, algorithm={**base.algorithm, "learning_rate": rate, "gamma": 0.9})
    text = schedule_of(changing, ("algorithm.learning_rate", "algorithm.gamma"))
    assert text is not None
    expected = {"algorithm.learning_rate": [0.1, 0.2], "algorithm.gamma": [0.9, 0.9]}
    assert {"schedule": 1, "steps": [0, 20], "values": expected} == yaml.safe_load(text)
    assert schedule_of(base, ()) is None
