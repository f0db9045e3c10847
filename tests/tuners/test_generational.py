"""Generational tuners replay rounds from the history only."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from generational_searches import complete, cube

from rlexp.protocol.space import Choice, Integer, Parameter, Real, Space
from rlexp.records.trial import Trial, TrialState
from rlexp.tuners import Suggestion
from rlexp.tuners.generational import (
    CandidatePoint,
    EvaluatedPoint,
    Generations,
    ReplaySuggester,
    evaluated_point,
    sort_key,
)

SPACE = Space(
    parameters=(
        Parameter(key="kind", domain=Choice(("a", "b"))),
        Parameter(key="rate", domain=Real(1e-5, 1e-1, "log"), when={"kind": ("a",)}),
        Parameter(key="layers", domain=Integer(1, 4)),
    )
)


class Sums:
    """A method whose state is the sum of all values, and whose points are a tenth of the state."""

    def __init__(self) -> None:
        self.told_rounds: list[int] = []

    def begin(self) -> float:
        """The initial sum, 0."""
        return 0.0

    def ask(self, state: float, index: int) -> Sequence[CandidatePoint]:
        """Two points, or one point in the first round, at a tenth of the state."""
        return [CandidatePoint((state / 10,))] * (1 if index == 0 else 2)

    def tell(self, state: float, index: int, members: Sequence[EvaluatedPoint]) -> float:
        """Add the values of a round to the state."""
        self.told_rounds.append(index)
        return state + sum(m.trial.values[0] for m in members if m.trial)


def history(*values: float) -> list[Trial]:
    """Complete trials with these values."""
    return [complete(n, Suggestion({"x0": 0.0}), v) for n, v in enumerate(values)]


def first_value(suggestion: Suggestion | None) -> float:
    """The value of the only parameter."""
    assert suggestion is not None
    value: float = suggestion.parameters["x0"]
    return value


def test_rounds_are_replayed_once() -> None:
    """Rounds that were replayed are cached, and later rounds continue from them."""
    method = Sums()
    replay = ReplaySuggester(cube(1), Generations(initial=1, size=2), method)
    past = history(1.0, 1.0, 2.0, 3.0, 1.0)
    assert [0.1, 0.4, 0.8] == [first_value(replay.suggest(past, n)) for n in (1, 3, 5)]
    assert [0.8, 0.1] == [first_value(replay.suggest(past, n)) for n in (6, 2)]
    assert [0, 1, 2] == method.told_rounds


def test_changed_history_is_replayed() -> None:
    """A changed history is replayed from its first changed round on."""
    method = Sums()
    replay = ReplaySuggester(cube(1), Generations(initial=1, size=2), method)
    past, other_past = history(1.0, 1.0, 2.0, 3.0, 1.0), history(1.0, 1.0, 1.0, 3.0, 1.0)
    result = [first_value(replay.suggest(h, 5)) for h in (past, other_past, past)]
    assert pytest.approx([0.8, 0.7, 0.8]) == result
    assert [0, 1, 2, 1, 2, 1, 2] == method.told_rounds


def test_missing_trial_has_no_value() -> None:
    """A failed trial that the sweep excludes is passed to the method as None."""
    replay = ReplaySuggester(cube(1), Generations(initial=1, size=2), Sums())
    past = history(1.0, 1.0, 2.0)
    assert pytest.approx(0.3) == first_value(replay.suggest([past[0], past[2]], 3))


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"kind": "a", "rate": 1e-3, "layers": 2}, (0.2, 0.5, 0.3)),
        ({"kind": "a", "rate": 1e-2, "layers": 2}, (0.2, 0.75, 0.3)),
        ({"kind": "b", "layers": 4}, (0.75, 0.5, 0.875)),
        ({"kind": "c", "rate": 1.0, "layers": None}, (0.2, 0.5, 0.3)),
        ({"kind": "a", "rate": 1.0, "layers": 99}, (0.2, 1.0, 0.875)),
        ({}, (0.2, 0.5, 0.3)),
    ],
)
def test_a_point_is_where_its_trial_was_run(
    parameters: dict[str, object], expected: tuple[float, ...]
) -> None:
    """The point of a trial is the suggested point if that has the values of the trial."""
    trial = complete(1, Suggestion(parameters))
    assert pytest.approx(expected) == evaluated_point(SPACE, (0.2, 0.5, 0.3), trial)


def test_missing_trial_keeps_the_suggested_point() -> None:
    """Without a trial, the suggested point is used."""
    assert (0.2, 0.5, 0.3) == evaluated_point(SPACE, (0.2, 0.5, 0.3), None)


def test_suggested_points_are_kept_exactly() -> None:
    """Rounding by decoding and encoding does not change a suggested point."""
    point = (0.1, 0.123456789012345, 0.71)
    trial = complete(1, Suggestion(SPACE.decode(point)))
    assert point == evaluated_point(SPACE, point, trial)


def test_pruned_trials_rank_below_complete_ones() -> None:
    """Pruned trials rank by step, then by value; failed trials are last."""
    complete_trial = complete(1, Suggestion({}), -5.0)
    pruned_trials = [
        replace(complete_trial, state=TrialState.PRUNED, values=(), intermediate=values)
        for values in ({200: -9.0}, {100: 3.0}, {100: 2.0, 50: 99.0})
    ]
    failed_trials = [
        replace(complete_trial, state=TrialState.FAILED, values=()),
        replace(complete_trial, values=(float("nan"),)),
        replace(complete_trial, state=TrialState.PRUNED, values=()),
    ]
    order = [complete_trial, *pruned_trials, *failed_trials]
    assert order == sorted(order, key=sort_key, reverse=True)
    assert {sort_key(None)} == {sort_key(t) for t in failed_trials}
