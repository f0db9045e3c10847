"""Guesses of the user: some suggestions of any tuner are drawn around the guesses."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rlexp.protocol.space import Choice, Domain, Parameter, Prior
from rlexp.records.trial import Trial, TrialOrigin
from rlexp.tuners import Problem, Suggester, Suggestion

FIRST_SHARE = 0.5
"""Probability that an early trial is drawn from the prior, as in the first bracket of PriorBand
(Mallik et al., 2023)."""
STRENGTH = 5
"""Trial n is drawn from the prior with probability min(1/2, `STRENGTH` / n). The decay is that of πBO
(Hvarfner et al., 2022), whose prior counts with the exponent β / n."""
PRIOR_STREAM = 1
"""Number of the random stream, beside that of the tuner, which has none."""


def prior_share(number: int) -> float:
    """The probability with which trial `number`, from 1, is drawn from the prior."""
    return min(FIRST_SHARE, STRENGTH / number)


def with_prior(suggester: Suggester, problem: Problem) -> Suggester:
    """A tuner that draws some trials from the prior; the tuner itself if no parameter has one."""
    if not any(parameter.prior for parameter in problem.space.parameters):
        return suggester
    return PriorMixture(suggester, problem)


@dataclass(frozen=True, slots=True)
class PriorMixture:
    """Draws a decreasing share of the trials from the prior, and leaves the others to a tuner.

    A drawn trial has its values of the parameters with a prior from there, and all others from the
    suggestion of the tuner. Trials that repeat a configuration with more steps stay as they are.

    Attributes:
        suggester: The tuner.
        problem: Its problem.
    """

    suggester: Suggester
    problem: Problem

    def needs(self, number: int) -> int:
        """See `Suggester.needs`."""
        return self.suggester.needs(number)

    def suggest(self, trials: Sequence[Trial], number: int) -> Suggestion | None:
        """The suggestion of the tuner, or a draw from the prior in its place, with its steps."""
        suggestion = self.suggester.suggest(trials, number)
        if suggestion is None or suggestion.parent is not None:
            return suggestion
        sequence = np.random.SeedSequence([self.problem.seed, number, PRIOR_STREAM])
        generator = np.random.Generator(np.random.PCG64(sequence))
        if generator.random() >= prior_share(number):
            return suggestion
        space = self.problem.space
        # Drawn for every parameter, so that a value does not depend on which of the others are active.
        drawn = generator.random((2, len(space.parameters)))
        point = [
            _share(parameter, share, pair)
            for parameter, share, pair in zip(
                space.parameters, space.encode(suggestion.parameters), drawn.T, strict=True
            )
        ]
        return replace(suggestion, parameters=space.decode(point), origin=TrialOrigin.PRIOR)


def _share(parameter: Parameter, suggested: float | None, drawn: NDArray[np.float64]) -> float:
    """The share of a parameter in its range: from the prior, else suggested, else uniform."""
    first, second = map(float, drawn)
    if parameter.prior is None:
        return first if suggested is None else suggested
    return prior_point(parameter.domain, parameter.prior, first, second)


def prior_point(domain: Domain, prior: Prior, first: float, second: float) -> float:
    """A draw from a prior as a share of a domain.

    A range has a normal distribution around the guess, cut off at the ends (as in PriorBand). A choice
    has its guess with probability 1 − width, and otherwise any of its values.

    Args:
        domain: The values.
        prior: The guess, which is in the domain, and its width.
        first: A uniform number in [0, 1).
        second: Another one.
    """
    from scipy.special import ndtr, ndtri

    centre = domain.to_unit(prior.guess)
    assert centre is not None  # The guess was checked with the space.
    if isinstance(domain, Choice):
        return centre if first >= prior.width else second
    low, high = ndtr((0.0 - centre) / prior.width), ndtr((1.0 - centre) / prior.width)
    share = centre + prior.width * float(ndtri(low + first * (high - low)))
    return min(max(share, 0.0), 1.0)
