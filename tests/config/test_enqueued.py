"""Configurations that a sweep tries first: their values, and what is refused."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from quick_parts import quick_parts
from samples import write_tree

from rlexp.config.enqueued import complete_parameters, enqueued_parameters
from rlexp.config.sweep import compose_sweep
from rlexp.errors import ConfigError
from rlexp.protocol.space import Choice, Integer, Parameter, Real, Space

quick = pytest.fixture(autouse=True)(quick_parts)

DEFINITION = """\
# @package _global_
defaults:
  - override /algorithm: ppo
  - override /environment: cartpole
sweep:
  trials: 4
  space:
    algorithm:
      learning_rate: tag(log, interval(1e-4, 1e-2))
      n_epochs: int(interval(2, 12))
"""
BRANCHED = Space(
    parameters=(
        Parameter(key="algorithm", domain=Choice(("ppo", "dqn"))),
        Parameter(key="algorithm.gamma", domain=Real(0.9, 0.99)),
        Parameter(key="algorithm.n_epochs", domain=Integer(1, 9), when={"algorithm": ("ppo",)}),
        Parameter(key="algorithm.tau", domain=Real(0.1, 1.0), when={"algorithm": ("dqn",)}),
    )
)
DEFAULT = {"algorithm": "ppo", "algorithm.gamma": 0.95, "algorithm.n_epochs": 4}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A study with a definition of its own."""
    return write_tree(tmp_path, {"sweeps/mine.yaml": DEFINITION})


def enqueued(folder: Path, *words: str) -> tuple[Mapping[str, Any], ...] | None:
    """The enqueued parameters of a sweep."""
    return enqueued_parameters(compose_sweep("mine", words, folder))


def test_other_parameters_have_their_defaults(folder: Path) -> None:
    """An entry has the values that it names, and the defaults of all other searched parameters."""
    words = "sweep.enqueue=[{algorithm.n_epochs: 3}, {algorithm: {learning_rate: 0.002}}]"
    first, second = enqueued(folder, words) or ()
    request = compose_sweep("mine", [], folder)
    assert {**request.default, "algorithm.n_epochs": 3} == first
    assert {**request.default, "algorithm.learning_rate": 0.002} == second


def test_nothing_is_enqueued_by_default(folder: Path) -> None:
    """Without the setting, and with an empty list, nothing is tried first."""
    assert enqueued(folder) is None
    assert enqueued(folder, "sweep.enqueue=[]") is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["sweep.enqueue=[{algorithm.gama: 0.9}]"],
            "sweep.enqueue[0]: algorithm.gama is not searched",
        ),
        (
            ["sweep.enqueue=[{}, {algorithm.n_epochs: 13}]"],
            "sweep.enqueue[1]: algorithm.n_epochs=13 is outside of the space: 2 to 12",
        ),
        (
            ["sweep.enqueue=[{algorithm.n_epochs: many}]"],
            "sweep.enqueue[0]: algorithm.n_epochs=many is outside of the space: 2 to 12",
        ),
        (
            ["sweep.enqueue=[{algorithm.n_epochs: 2.5}]"],
            "sweep.enqueue[0]: algorithm.n_epochs=2.5",
        ),
        (
            ["sweep.enqueue=[{}]", "tuner=grid"],
            "sweep.enqueue does not fit tuner=grid, which tries every combination once",
        ),
        (
            ["sweep.enqueue=[{}, {}]", "sweep.trials=2"],
            (
                "sweep.enqueue has 2 configurations, and sweep.trials=2 tries the default and 1 more: "
                "set sweep.trials=3 or more"
            ),
        ),
    ],
)
def test_wrong_entries_are_refused(folder: Path, words: list[str], message: str) -> None:
    """The error is one line that names the entry, the parameter and what is allowed."""
    with pytest.raises(ConfigError) as error:
        enqueued(folder, *words)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_conditions_decide_which_parameters_are_active() -> None:
    """Values of another branch replace the defaults; what is not active is left out."""
    values = {"algorithm": "dqn", "algorithm.tau": 0.5}
    expected = {"algorithm": "dqn", "algorithm.gamma": 0.95, "algorithm.tau": 0.5}
    assert expected == complete_parameters(BRANCHED, values, DEFAULT, "x")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"algorithm.tau": 0.5}, "x: algorithm.tau is searched with algorithm=dqn only"),
        (
            {"algorithm": "dqn"},
            "x has no value of algorithm.tau, which has no default: add algorithm.tau (0.1 to 1)",
        ),
        ({"algorithm": "sac"}, "x: algorithm=sac is outside of the space: ppo, dqn"),
    ],
)
def test_conditions_are_named(values: dict[str, Any], message: str) -> None:
    """An inactive parameter, and an active one without a value, are refused with the condition."""
    with pytest.raises(ConfigError) as error:
        complete_parameters(BRANCHED, values, DEFAULT, "x")
    assert message in str(error.value)
