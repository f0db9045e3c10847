"""Guesses: the share and the distribution of the trials that are drawn from priors."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from scipy.stats import kstest, truncnorm

from rlexp.protocol.space import Choice, Integer, Parameter, Prior, Real, Space
from rlexp.records.trial import Trial, TrialOrigin
from rlexp.tuners import Problem, Suggestion
from rlexp.tuners.prior import FIRST_SHARE, STRENGTH, prior_point, prior_share, with_prior

RATE = Parameter(key="rate", domain=Real(1e-5, 1e-1, "log"), prior=Prior(1e-3, 0.1))
EPOCHS = Parameter(key="epochs", domain=Integer(1, 20))
LAYER = Parameter(key="layer", domain=Choice(("a", "b", "c")), prior=Prior("b", 0.3))
SPACE = Space(parameters=(RATE, EPOCHS, LAYER))
FIXED = {"rate": 0.05, "epochs": 19, "layer": "c"}


@dataclass
class Constant:
    """A tuner that suggests the same again and again."""

    parent: int | None = None
    steps: int | None = None
    asked: list[int] = field(default_factory=list)

    def needs(self, number: int) -> int:
        """As many as the number says, to see that it is passed on."""
        return number

    def suggest(self, trials: Sequence[Trial], number: int) -> Suggestion | None:
        """The constant."""
        self.asked.append(number)
        return Suggestion(FIXED, self.steps, self.parent)


def problem(space: Space = SPACE, seed: int = 3) -> Problem:
    """A problem over a space."""
    return Problem(space=space, objectives=1, steps=100, seed=seed)


def test_share_of_the_prior_decays() -> None:
    """Half of the first trials come from the prior, then a share that falls as 1 / n."""
    assert FIRST_SHARE == prior_share(1) == prior_share(round(STRENGTH / FIRST_SHARE))
    assert STRENGTH / 100 == prior_share(100)
    suggester = with_prior(Constant(), problem())
    drawn = [suggester.suggest([], number) for number in range(1, 401)]
    count = sum(s is not None and s.origin is TrialOrigin.PRIOR for s in drawn)
    expected = sum(map(prior_share, range(1, 401)))
    spread = np.sqrt(sum(p * (1 - p) for p in map(prior_share, range(1, 401))))
    assert abs(count - expected) < 4 * spread


def test_drawn_trial_keeps_what_has_no_prior() -> None:
    """A drawn trial has the values and steps of the tuner except for the parameters with a prior."""
    suggester = with_prior(Constant(steps=7), problem())
    suggestions = [suggester.suggest([], number) for number in range(1, 60)]
    drawn = [s for s in suggestions if s is not None and s.origin is TrialOrigin.PRIOR]
    assert len({s.parameters["rate"] for s in drawn}) == len(drawn) > 5
    assert {(19, 7)} == {(s.parameters["epochs"], s.steps) for s in drawn}
    others = [s for s in suggestions if s is not None and s.origin is None]
    assert all(FIXED == s.parameters for s in others)


def test_repeated_configurations_are_not_replaced() -> None:
    """A trial that repeats a configuration with more steps is never drawn from the prior."""
    suggester = with_prior(Constant(parent=4), problem())
    assert all(Suggestion(FIXED, None, 4) == suggester.suggest([], n) for n in range(1, 50))


def test_draws_depend_on_seed_and_number_only() -> None:
    """A fresh suggester draws the same, and another seed draws something else."""
    one, again = (with_prior(Constant(), problem()) for _ in range(2))
    forwards = [one.suggest([], number) for number in range(1, 30)]
    backwards = [again.suggest([], number) for number in reversed(range(1, 30))]
    assert forwards == backwards[::-1]
    other = with_prior(Constant(), problem(seed=4))
    assert forwards != [other.suggest([], number) for number in range(1, 30)]


def test_without_priors_the_tuner_is_itself() -> None:
    """A space without priors gets the tuner that it had."""
    tuner = Constant()
    assert with_prior(tuner, problem(Space(parameters=(EPOCHS,)))) is tuner


@pytest.mark.parametrize(("guess", "width"), [(1e-3, 0.1), (1e-5, 0.25), (0.09, 1.0)])
def test_range_has_a_cut_normal_distribution(guess: float, width: float) -> None:
    """Draws from a range follow the normal distribution around the guess, cut off at the ends."""
    domain = Real(1e-5, 1e-1, "log")
    uniform = np.random.default_rng(0).random(2_000)
    points = [prior_point(domain, Prior(guess, width), u, 0.5) for u in uniform]
    centre = domain.to_unit(guess)
    assert centre is not None
    cut = truncnorm((0 - centre) / width, (1 - centre) / width, centre, width)
    assert kstest(points, cut.cdf).pvalue > 0.001


def test_choice_has_its_guess_mostly() -> None:
    """A choice has its guess with probability 1 − width, and otherwise any value."""
    draws = np.random.default_rng(1).random((3_000, 2))
    values = [
        LAYER.domain.from_unit(prior_point(LAYER.domain, Prior("b", 0.3), *d)) for d in draws
    ]
    assert 0.8 == pytest.approx(values.count("b") / 3_000, abs=0.03)
    assert 0.1 == pytest.approx(values.count("a") / 3_000, abs=0.03)
