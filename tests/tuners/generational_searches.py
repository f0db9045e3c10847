"""Searches of tuners that work in rounds, each suggestion made from as few trials as it needs."""

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
    """The unit cube: parameters are shares."""
    keys = [f"x{i}" for i in range(dimensions)]
    return Space(parameters=tuple(Parameter(key=key, domain=Real(0.0, 1.0)) for key in keys))


def problem_in(space: Space, seed: int = 0, objectives: int = 1, steps: int = STEPS) -> Problem:
    """A problem to maximise."""
    return Problem(space=space, objectives=objectives, steps=steps, seed=seed)


def complete(number: int, suggestion: Suggestion, *values: float) -> Trial:
    """A trial with these values."""
    return Trial(
        number=number,
        parameters=suggestion.parameters,
        steps=suggestion.steps or STEPS,
        state=TrialState.COMPLETE,
        values=values,
    )


def failed(number: int, suggestion: Suggestion) -> Trial:
    """A trial without a value."""
    return Trial(
        number=number,
        parameters=suggestion.parameters,
        steps=suggestion.steps or STEPS,
        state=TrialState.FAILED,
    )


def follow(
    tuner: Tuner, problem: Problem, judge: Judge, count: int, default: dict[str, Any] | None = None
) -> list[Trial]:
    """The trials of a search, the default configuration, the middle unless given, first."""
    suggester = tuner.open(problem)
    middle = default or problem.space.decode([0.5] * len(problem.space.parameters))
    trials = [judge(Suggestion(middle), 0)]
    for number in range(1, count):
        suggestion = suggester.suggest(trials[: suggester.needs(number)], number)
        assert suggestion is not None
        trials.append(judge(suggestion, number))
    return trials


def points(trials: list[Trial]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Where trials of the unit cube were run, of shape (trials, dimensions)."""
    return np.array([list(trial.parameters.values()) for trial in trials])


def is_clearly_greater(these: list[float], those: list[float]) -> bool:
    """Whether a rank test leaves no doubt."""
    return bool(mannwhitneyu(these, those, alternative="greater").pvalue < 1e-6)
