"""Searches for tests, with spaces of every kind and an objective without training."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlexp.protocol.space import Choice, Integer, Parameter, Real, Space
from rlexp.records.trial import Trial, TrialState
from rlexp.tuners import Problem, Suggestion, Tuner

STEPS = 81_000
NUMERIC = Space(
    parameters=(
        Parameter(key="algorithm.learning_rate", domain=Real(1e-5, 1, "log")),
        Parameter(key="algorithm.gamma", domain=Real(0.8, 0.9999, "flipped_log")),
        Parameter(key="algorithm.clip_range", domain=Real(0, 1)),
        Parameter(key="agent.layers", domain=Integer(1, 4)),
        Parameter(key="algorithm.n_steps", domain=Integer(16, 4096, log=True)),
    )
)
MIXED = Space(
    parameters=(
        *NUMERIC.parameters[:2],
        Parameter(key="agent.net_arch", domain=Choice(([64, 64], [256], []))),
        Parameter(key="algorithm.normalize", domain=Choice((True, False))),
        Parameter(key="algorithm.max_grad_norm", domain=Choice((1, 1.5, "none", None))),
    )
)
BRANCHED = Space(
    parameters=(
        Parameter(key="algorithm", domain=Choice(("ppo", "dqn", "a2c"))),
        Parameter(key="algorithm.learning_rate", domain=Real(1e-5, 1e-1, "log")),
        Parameter(key="switch.noise", domain=Choice((False, True)), when={"algorithm": ("dqn",)}),
        Parameter(key="algorithm.sigma", domain=Real(0.1, 1.0), when={"switch.noise": (True,)}),
        Parameter(
            key="algorithm.n_steps", domain=Integer(1, 9), when={"algorithm": ("ppo", "a2c")}
        ),
        Parameter(key="algorithm.clip_range", domain=Real(0, 1), when={"algorithm": ("ppo",)}),
    )
)
SPACES = {"numeric": NUMERIC, "mixed": MIXED, "branched": BRANCHED}


def problem(space: Space, objectives: int = 1, seed: int = 11) -> Problem:
    """A search problem with runs of `STEPS` environment steps."""
    return Problem(space=space, objectives=objectives, steps=STEPS, seed=seed)


def value(space: Space, values: Any, best: float = 0.3) -> float:
    """The objective; its maximum 0 has every active parameter at the share `best` of its range."""
    return -sum((share - best) ** 2 for share in space.encode(values) if share is not None)


def ended(space: Space, number: int, suggestion: Suggestion, objectives: int = 1) -> Trial:
    """The trial of a suggestion; of six trials, one is pruned and one fails."""
    states = (TrialState.PRUNED, TrialState.FAILED)
    state = states[number % 6 - 4] if number % 6 >= 4 else TrialState.COMPLETE
    steps = suggestion.steps or STEPS
    values = tuple(value(space, suggestion.parameters, 0.3 + 0.4 * i) for i in range(objectives))
    return Trial(
        number=number,
        parameters=suggestion.parameters,
        steps=steps,
        state=state,
        values=values if state is TrialState.COMPLETE else (),
        intermediate={} if state is TrialState.FAILED else {steps // 2: values[0]},
    )


def drawn(space: Space, number: int, seed: int = 0) -> dict[str, Any]:
    """Random values of the parameters."""
    generator = np.random.default_rng([seed, number])
    return space.decode(generator.random(len(space.parameters)).tolist())


@dataclass(frozen=True, slots=True)
class Search:
    """Suggestions and the trials that each was based on, by trial number, and all trials."""

    suggestions: dict[int, Suggestion]
    histories: dict[int, list[Trial]]
    trials: list[Trial]


def history(trials: Sequence[Trial], needs: int, number: int, lag: int) -> list[Trial]:
    """The trials that have ended when trial `number` is suggested."""
    return list(trials[: max(needs, number - lag)])


def complete(space: Space, number: int, values: Any, scores: tuple[float, ...] = ()) -> Trial:
    """A complete trial, by default with the value of the objective."""
    return Trial(
        number=number,
        parameters=values,
        steps=STEPS,
        state=TrialState.COMPLETE,
        values=scores or (value(space, values),),
    )


def best(tuner: Tuner, search_problem: Problem, count: int) -> float:
    """The best value of this number of trials without pruning and failures."""
    suggester = tuner.open(search_problem)
    trials = [complete(search_problem.space, 0, drawn(search_problem.space, 0))]
    for number in range(1, count):
        suggestion = suggester.suggest(trials, number)
        assert suggestion is not None
        trials.append(complete(search_problem.space, number, suggestion.parameters))
    return max(trial.values[0] for trial in trials)


def search(tuner: Tuner, search_problem: Problem, count: int, lag: int = 2) -> Search:
    """Run a search as a sweep does, with one suggester from beginning to end."""
    suggester = tuner.open(search_problem)
    trials = [
        ended(
            search_problem.space,
            0,
            Suggestion(drawn(search_problem.space, 0)),
            search_problem.objectives,
        )
    ]
    result = Search({}, {}, trials)
    for number in range(1, count + 1):
        ended_trials = history(trials, suggester.needs(number), number, lag)
        suggestion = suggester.suggest(ended_trials, number)
        if suggestion is None:
            break
        result.suggestions[number] = suggestion
        result.histories[number] = ended_trials
        trials.append(ended(search_problem.space, number, suggestion, search_problem.objectives))
    return result
