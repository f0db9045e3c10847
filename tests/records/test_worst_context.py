"""The worst mean return of a context is a measure of a run, whose name says what it is made of."""

from dataclasses import replace

import pytest
from measured_samples import contexts
from samples import spec

from rlexp.records.context_returns import is_worst_context
from rlexp.records.events import Evaluated, Measures
from rlexp.records.run import RunRecord, State

GRID = ((1.0, 0.5), (1.0, 0.7), (2.0, 0.5))
NAMES = ("gravity", "length")


def measures(returns: tuple[float, ...], measured: Measures | None) -> object:
    """The measures of a completed run with this final evaluation."""
    final = Evaluated(
        time=1.0,
        step=10,
        returns=returns,
        lengths=(1,) * len(returns),
        seconds=0.1,
        final=True,
        measures=measured,
    )
    return RunRecord(spec=spec(), state=State.COMPLETED, final=final).measures


def test_it_is_the_least_mean_of_a_context() -> None:
    """Episodes are averaged within a context first: one bad episode is not the worst context."""
    played = contexts(NAMES, [*GRID, *GRID])
    returns = (0.0, 30.0, 40.0, 100.0, 34.0, 44.0)
    expected = {"worst_of_3_contexts_by_2_episodes": 32.0}
    assert expected == measures(returns, played)


def test_the_name_says_that_contexts_have_different_numbers_of_episodes() -> None:
    """A list that is played once and in part again has contexts with one and with two episodes."""
    played = contexts(NAMES, [*GRID, GRID[0]])
    expected = {"worst_of_3_contexts_by_1_to_2_episodes": 5.0}
    assert expected == measures((5.0, 6.0, 7.0, 5.0), played)
    assert all(map(is_worst_context, expected))


@pytest.mark.parametrize(
    ("names", "played"),
    [
        (NAMES, [GRID[0]] * 3),
        (("level",), [(1.0,), (2.0,), (3.0,)]),
    ],
    ids=["one context", "levels"],
)
def test_it_needs_several_contexts(
    names: tuple[str, ...], played: list[tuple[float, ...]]
) -> None:
    """One context has no worst one, and levels are no numbers of the dynamics."""
    assert measures((5.0, 6.0, 7.0), contexts(names, played)) == {}


def test_a_return_that_is_no_score_leaves_it_out() -> None:
    """An infinite return of one context does not hide behind the means of others."""
    played = contexts(NAMES, GRID)
    assert measures((5.0, 6.0, float("inf")), played) == {}


def test_a_run_in_brief_keeps_it() -> None:
    """A catalogue, which holds runs without episodes, shows the same number."""
    final = Evaluated(
        time=1.0,
        step=10,
        returns=(5.0, 6.0, 7.0),
        lengths=(1, 1, 1),
        seconds=0.1,
        final=True,
        measures=contexts(NAMES, GRID),
    )
    record = replace(RunRecord(spec=spec(), state=State.COMPLETED), final=final)
    assert record.in_brief().measures == {"worst_of_3_contexts_by_1_episode": 5.0}
