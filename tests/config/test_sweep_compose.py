"""Composition of sweeps: definitions, overrides and search spaces."""

from pathlib import Path
from typing import Any

import pytest
from composing import refusal as run_refusal
from composing import value_at
from quick_parts import quick_parts
from samples import write_tree
from sweeping import DEFINITION, conditions, domains, refusal

from rlexp.config.parameter_entries import ParameterEntry
from rlexp.config.sweep import SweepRequest, compose_sweep
from rlexp.config.sweep_overrides import sort_overrides
from rlexp.protocol.space import Choice, Integer, Real
from rlexp.protocol.sweep import SweepPlan

quick = pytest.fixture(autouse=True)(quick_parts)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A study with a definition of its own."""
    return write_tree(tmp_path, {"sweeps/mine.yaml": DEFINITION})


@pytest.fixture(scope="module")
def sweep_request(tmp_path_factory: pytest.TempPathFactory) -> SweepRequest:
    """The sweep of the definition without overrides."""
    folder = write_tree(tmp_path_factory.mktemp("study"), {"sweeps/mine.yaml": DEFINITION})
    return compose_sweep("mine", [], folder)


def test_definition_is_composed(sweep_request: SweepRequest) -> None:
    """The space, the tuner and the plan come from the definition and the defaults."""
    assert {
        "agent.network": Choice(([64], [64, 64], None)),
        "switch.gamma": Choice((True, False)),
        "algorithm.gamma": Real(0.9, 0.999, "flipped_log"),
        "algorithm.learning_rate": Real(1e-5, 0.1, "log"),
    } == domains(sweep_request)
    assert {"algorithm.gamma": {"switch.gamma": (True,)}} == conditions(sweep_request)
    assert ("rlexp.tuners.random.RandomSearch", "rlexp.pruners.none.Never") == (
        sweep_request.tuner["_target_"],
        sweep_request.pruner["_target_"],
    )
    assert {"root": 0, "tuning": 5, "selection": 5, "test": 10} == sweep_request.plain["seeds"]
    assert sweep_request.plan == SweepPlan(
        trials=20,
        full_runs=None,
        steps=None,
        hours=None,
        allocation="two_stage",
        promoted=0.08,
        objective="score",
        aggregate="mean",
        finalists=3,
        lag=None,
        failures="worst",
        stop_after=5,
        storage=None,
    )


@pytest.mark.parametrize(
    ("word", "key", "expected"),
    [
        ("algorithm=ppo", "algorithm._target_", "rlexp.algorithms.ppo.PPO"),
        ("budget.steps=99", "budget.steps", 99),
        ("environment=acrobot", "environment.id", "Acrobot-v1"),
        ("seeds.tuning=[3,4]", "seeds.tuning", [3, 4]),
        ("experiment=other", "experiment", "other"),
        ("environment.arguments.gravity=5", "environment.arguments", {"gravity": 5}),
        ("+benchmark=cartpole", "environment.vector.count", 8),
    ],
)
def test_overrides_win_over_the_definition(
    folder: Path, word: str, key: str, expected: Any
) -> None:
    """Overrides replace options and values of the definition."""
    assert expected == value_at(compose_sweep("mine", [word], folder).plain, key)


def test_overrides_choose_tuner_pruner_and_plan(folder: Path) -> None:
    """Settings of the search are changed like other settings."""
    overrides = ["tuner=tpe", "tuner.startup=3", "pruner=median", "sweep.trials=7", "sweep.lag=0"]
    request = compose_sweep("mine", overrides, folder)
    assert ("rlexp.tuners.tpe.TPE", 3, "rlexp.pruners.median.MedianPruner", 7, 0) == (
        request.tuner["_target_"],
        request.tuner["startup"],
        request.pruner["_target_"],
        request.plan.trials,
        request.plan.lag,
    )


@pytest.mark.parametrize(
    ("word", "key", "expected"),
    [
        ("algorithm.learning_rate=interval(0.1,0.2)", "learning_rate", Real(0.1, 0.2)),
        ("algorithm.learning_rate=choice(0.1,0.2)", "learning_rate", Choice((0.1, 0.2))),
        ("algorithm.learning_rate=0.1,0.2", "learning_rate", Choice((0.1, 0.2))),
        (
            "sweep.space.algorithm.learning_rate='interval(0.1,0.2)'",
            "learning_rate",
            Real(0.1, 0.2),
        ),
        ("sweep.space.algorithm.learning_rate=interval(0.1,0.2)", "learning_rate", Real(0.1, 0.2)),
        ("sweep.space.algorithm.learning_rate=[0.1,null]", "learning_rate", Choice((0.1, None))),
        ("++sweep.space.algorithm.tau='interval(0.1,0.2)'", "tau", Real(0.1, 0.2)),
        ("sweep.space={algorithm:{tau:'interval(0.1,0.2)'}}", "tau", Real(0.1, 0.2)),
        ("algorithm.buffer_size=interval(10,20)", "buffer_size", Integer(10, 20)),
    ],
)
def test_override_with_several_values_is_searched(
    folder: Path, word: str, key: str, expected: Any
) -> None:
    """An override with several values replaces the parameter of the definition."""
    assert expected == domains(compose_sweep("mine", [word], folder))[f"algorithm.{key}"]


def test_override_with_values_keeps_the_conditions(folder: Path) -> None:
    """An override of values does not change the conditions of a parameter."""
    request = compose_sweep("mine", ["algorithm.gamma=interval(0.1,0.2)"], folder)
    assert {"algorithm.gamma": {"switch.gamma": (True,)}} == conditions(request)


@pytest.mark.parametrize(
    ("overrides", "removed_keys"),
    [
        (["algorithm.learning_rate=0.1"], {"algorithm.learning_rate"}),
        (["sweep.space.algorithm.learning_rate=null"], {"algorithm.learning_rate"}),
        (["~sweep.space.algorithm.learning_rate"], {"algorithm.learning_rate"}),
        (["switch.gamma=true"], {"switch.gamma"}),
        (["switch.gamma=false"], {"switch.gamma", "algorithm.gamma"}),
        (["agent.network=[8]"], {"agent.network"}),
        (["agent.network=[8],[9]"], set()),
    ],
)
def test_override_with_one_value_removes_its_parameter(
    folder: Path, sweep_request: SweepRequest, overrides: list[str], removed_keys: set[str]
) -> None:
    """An override with one value removes its parameter, and parameters that depend on it."""
    request = compose_sweep("mine", overrides, folder)
    assert removed_keys == set(sweep_request.space.keys) - set(request.space.keys)


def test_last_override_of_a_key_wins(folder: Path) -> None:
    """A key is either searched or fixed, as its last override states."""
    single_value, several_values = "agent.network=[8]", "agent.network=[8],[9]"
    searched, fixed = (
        sort_overrides([single_value, several_values], folder),
        sort_overrides([several_values, single_value], folder),
    )
    assert ({}, {"agent.network": ParameterEntry("[8],[9]")}) == (searched.fixed, searched.written)
    assert ({"agent.network": [8]}, {}) == (fixed.fixed, fixed.written)


def test_condition_that_always_holds_is_dropped(folder: Path) -> None:
    """A parameter has no condition if an override fixes the switch that it depends on."""
    assert {} == conditions(compose_sweep("mine", ["switch.gamma=true"], folder))


def test_ranges_may_refer_to_the_configuration(folder: Path) -> None:
    """A range follows the budget that an override sets."""
    text = DEFINITION + "    algorithm.buffer_size: int(interval(10, ${budget.steps}))\n"
    write_tree(folder, {"sweeps/mine.yaml": text})
    request = compose_sweep("mine", ["budget.steps=500"], folder)
    assert Integer(10, 500) == domains(request)["algorithm.buffer_size"]


def test_sweep_needs_no_definition(tmp_path: Path) -> None:
    """A sweep without a definition uses the defaults of runs and sweeps."""
    request = compose_sweep(None, ["algorithm.gamma=interval(0.9,0.99)"], tmp_path)
    assert ({"algorithm.gamma": 0.99}, "rlexp.tuners.tpe.TPE", 50) == (
        request.default,
        request.tuner["_target_"],
        request.plan.trials,
    )


def test_shared_space_can_be_an_override(tmp_path: Path) -> None:
    """An override can choose a packaged space, for any task."""
    overrides = ["algorithm=dqn", "environment=mountain_car", "+sweeps/space=dqn"]
    request = compose_sweep(None, overrides, tmp_path)
    assert Integer(1000, 100_000, log=True) == domains(request)["algorithm.buffer_size"]


def test_definition_of_the_study_wins_over_the_packaged_one(folder: Path) -> None:
    """A file of the study hides the packaged file of the same name."""
    write_tree(folder, {"sweeps/quick.yaml": DEFINITION})
    assert 20 == compose_sweep("quick", [], folder).plan.trials


def test_sweep_defaults_of_the_study_win(folder: Path) -> None:
    """A study can replace `conf/sweep.yaml`."""
    text = "defaults:\n  - tuner: sobol\n  - pruner: none\nsweep: {space: {}}\n"
    write_tree(folder, {"conf/sweep.yaml": text})
    message = refusal(folder, "mine")
    assert message.startswith(
        "sweep.full_runs is missing: give it a value with sweep.full_runs=…; sweep.steps is missing"
    )


@pytest.mark.parametrize(
    ("word", "message"),
    [
        (
            "tuner=tpe",
            "tuner belongs to sweeps, not to runs; use it with: rlexp sweep NAME tuner=tpe",
        ),
        (
            "+pruner=median",
            "pruner belongs to sweeps, not to runs; use it with: rlexp sweep NAME pruner=median",
        ),
        (
            "sweep.trials=3",
            "sweep settings belong to sweeps, not to runs; use it with: rlexp sweep NAME sweep.trials=3",
        ),
        ("+sweeps=quick", "use them with: rlexp sweep NAME"),
    ],
)
def test_run_refuses_sweep_overrides(tmp_path: Path, word: str, message: str) -> None:
    """A run refuses sweep settings, and the error names the command that accepts them."""
    assert message in run_refusal(tmp_path, word)
