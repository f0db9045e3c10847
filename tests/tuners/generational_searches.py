"""Helpers that run searches of generational tuners in tests."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import mannwhitneyu

from rlexp.protocol.space import Parameter, Real, Space
from rlexp.records.trial import Trial, TrialState
from rlexp.tuners import Problem, Suggestion, Tuner

STEPS = 27_000
Judge = Callable[[Suggestion, int], Trial]


def cube(dimensions: int) -> Space:
    """A space of unit intervals."""
    keys = [f"x{i}" for i in range(dimensions)]
    return Space(parameters=tuple(Parameter(key=key, domain=Real(0.0, 1.0)) for key in keys))


def problem_in(space: Space, seed: int = 0, objectives: int = 1, steps: int = STEPS) -> Problem:
    """A maximisation problem on a space."""
    return Problem(space=space, objectives=objectives, steps=steps, seed=seed)


def complete(number: int, suggestion: Suggestion, *values: float) -> Trial:
    """A complete trial with these values."""
    return Trial(
        number=number,
        parameters=suggestion.parameters,
        steps=suggestion.steps or STEPS,
        state=TrialState.COMPLETE,
        values=values,
    )


def failed(number: int, suggestion: Suggestion) -> Trial:
    """A failed trial."""
    return Trial(
        number=number,
        parameters=suggestion.parameters,
        steps=suggestion.steps or STEPS,
        state=TrialState.FAILED,
    )


def follow(
    tuner: Tuner, problem: Problem, judge: Judge, count: int, default: dict[str, Any] | None = None
) -> list[Trial]:
    """The trials of a search; trial 0 is the default, or else the middle of the space."""
    suggester = tuner.open(problem)
    first_values = default or problem.space.decode([0.5] * len(problem.space.parameters))
    trials = [judge(Suggestion(first_values), 0)]
    for number in range(1, count):
        suggestion = suggester.suggest(trials[: suggester.needs(number)], number)
        assert suggestion is not None
        trials.append(judge(suggestion, number))
    return trials


def points(trials: list[Trial]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The points of trials in the unit cube, of shape (trials, dimensions)."""
    return np.array([list(trial.parameters.values()) for trial in trials])


def is_clearly_greater(scores: list[float], others: list[float]) -> bool:
    """Whether scores are greater than others in a rank test at level 1e-6."""
    return bool(mannwhitneyu(scores, others, alternative="greater").pvalue < 1e-6)
