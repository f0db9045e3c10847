"""Priors in a search space: what is read, what an override keeps, and what is refused."""

from pathlib import Path

import pytest
from quick_parts import quick_parts
from samples import write_tree

from rlexp.config.enqueued import guess_parameters
from rlexp.config.sweep import compose_sweep
from rlexp.errors import ConfigError
from rlexp.protocol.space import Prior, Space

quick = pytest.fixture(autouse=True)(quick_parts)

DEFINITION = """\
# @package _global_
defaults:
  - override /algorithm: ppo
  - override /environment: cartpole
sweep:
  trials: 4
  space:
    algorithm.learning_rate:
      values: tag(log, interval(1e-4, 1e-2))
      prior: {guess: 0.002, width: 0.1}
    algorithm.n_epochs:
      values: int(interval(2, 12))
      prior: 5
    algorithm.gamma: interval(0.9, 0.99)
"""
EPOCHS = "sweep.space.algorithm.n_epochs={{values: 'int(interval(2, 12))', prior: {}}}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A study with a definition of its own."""
    return write_tree(tmp_path, {"sweeps/mine.yaml": DEFINITION})


def priors(space: Space) -> dict[str, Prior]:
    """The priors of a space by parameter."""
    return {p.key: p.prior for p in space.parameters if p.prior is not None}


def test_priors_are_read_and_stored(folder: Path) -> None:
    """A guess alone has a quarter of the range as its width; the record of the space keeps both."""
    space = compose_sweep("mine", [], folder).space
    expected = {"algorithm.learning_rate": Prior(0.002, 0.1), "algorithm.n_epochs": Prior(5, 0.25)}
    assert expected == priors(space)
    assert space == Space.from_plain(space.plain())


def test_guesses_make_one_configuration(folder: Path) -> None:
    """The configuration of the guesses has the defaults of all other parameters."""
    request = compose_sweep("mine", [], folder)
    guess = {"algorithm.learning_rate": 0.002, "algorithm.n_epochs": 5}
    assert {**request.default, **guess} == guess_parameters(request)
    without = compose_sweep(
        "mine", ["algorithm.learning_rate=0.001", EPOCHS.format("null")], folder
    )
    assert guess_parameters(without) is None


def test_other_values_keep_the_prior(folder: Path) -> None:
    """An override of the values keeps the prior, and refuses it if its guess is outside of them."""
    space = compose_sweep("mine", ["algorithm.n_epochs=int(interval(3,9))"], folder).space
    assert Prior(5, 0.25) == priors(space)["algorithm.n_epochs"]
    with pytest.raises(ConfigError, match="guess 5 is outside of the space: 6 to 9"):
        compose_sweep("mine", ["algorithm.n_epochs=int(interval(6,9))"], folder)


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ("{guess: 99}", "guess 99 is outside of the space: 2 to 12"),
        ("{guess: many}", "guess many is outside of the space: 2 to 12"),
        ("{width: 0.1}", "has no guess: write prior:"),
        ("{guess: 4, width: 0}", "width=0 must be above 0 and at most 1"),
        ("{guess: 4, width: wide}", "width=wide must be above 0 and at most 1"),
        ("{gues: 4}", "unknown key 'gues'; did you mean 'guess'?"),
    ],
)
def test_bad_priors_are_refused(folder: Path, prior: str, message: str) -> None:
    """A wrong prior is one line that names the parameter."""
    with pytest.raises(ConfigError) as error:
        compose_sweep("mine", [EPOCHS.format(prior)], folder)
    assert "sweep.space.algorithm.n_epochs.prior" in str(error.value)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_grid_has_no_place_for_a_guess(folder: Path) -> None:
    """The grid tries every combination once, and refuses priors."""
    request = compose_sweep("mine", ["tuner=grid"], folder)
    with pytest.raises(ConfigError, match="a prior does not fit tuner=grid"):
        guess_parameters(request)
