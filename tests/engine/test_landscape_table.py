"""Landscapes are read as they were published, and searched for the nearest configuration."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from landscape_samples import ROWS, SENTINEL, landscape, raw_returns
from landscape_table import Landscape, domain, load, names, space_of, without_crashes

from rlexp.protocol.space import Choice, Integer, Real

DQN = load("cc_cartpole_dqn")
PENDULUM = load("cc_pendulum_sac")


def test_there_are_twelve() -> None:
    """There are twelve landscapes; two of them cannot tell configurations apart."""
    landscapes = [load(name) for name in names()]
    assert 12 == len(landscapes)
    assert {(256, 10, 10)} == {item.returns.shape for item in landscapes}
    assert {256} == {len(item.rows) for item in landscapes}
    flat = [item.name for item in landscapes if item.is_flat]
    assert ["cc_mountain_car_ppo", "minigrid_unlock_dqn"] == flat


def test_a_training_is_read_as_it_was_written() -> None:
    """The first lines of the first configuration have the published values."""
    assert (5_000, 10_000) == DQN.steps[:2]
    assert [135.80469, 138.80469] == DQN.returns[0, 0, :2].tolist()
    assert 0.0001313028028065 == DQN.rows[0]["learning_rate"]
    assert DQN.rows[0]["use_target_network"] is False
    assert 72_738 == DQN.rows[0]["buffer_size"]
    assert "buffer_alpha" not in DQN.rows[0]


def test_crashes_are_no_returns() -> None:
    """The 299 crashed trainings of Pendulum have no final return and the worst score."""
    assert 299 == np.isnan(PENDULUM.final).sum()
    assert np.isfinite(PENDULUM.scores).all()
    assert PENDULUM.scores[np.isnan(PENDULUM.final)].max() == np.nanmin(PENDULUM.final)


@pytest.mark.parametrize("crash", [np.nan, SENTINEL])
def test_nothing_counts_after_a_crash(crash: float) -> None:
    """Returns after a crash are dropped, and a return of zero is kept."""
    returns = without_crashes(np.array([[1.0, crash, 3.0], [0.0, -1.0, 2.0]]))
    assert [[True, False, False], [True, True, True]] == np.isfinite(returns).tolist()


def test_the_space_is_that_of_the_columns() -> None:
    """Columns over decades get log scales, and columns with gaps get conditions."""
    space = {parameter.key: parameter for parameter in DQN.space.parameters}
    assert Choice((64, 128, 256)) == space["buffer_batch_size"].domain
    assert Choice((False, True)) == space["use_target_network"].domain
    assert Integer(1103, 119_978, log=False) == space["buffer_size"].domain
    rate = space["learning_rate"].domain
    assert isinstance(rate, Real)
    assert "log" == rate.scale
    assert {"use_target_network": (True,)} == space["target_update_interval"].when
    for key in ("buffer_alpha", "buffer_beta", "buffer_epsilon"):
        assert {"buffer_prio_sampling": (True,)} == space[key].when


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2, 3], Choice((1, 2, 3))),
        (list(range(1, 1000)), Integer(1, 999)),
        ([2**k for k in range(12)], Integer(1, 2048, log=True)),
        ([0.5 * k for k in range(1, 30)], Real(0.5, 14.5)),
        ([10.0**-k for k in range(12)], Real(1e-11, 1.0, "log")),
        ([-(2.0**k) for k in range(12)], Real(-2048.0, -1.0)),
    ],
)
def test_a_column_spans_a_domain(values: list[float], expected: object) -> None:
    """Few values are choices; a log scale is used where it spreads the values evenly."""
    assert expected == domain(values)


def test_a_gap_that_nothing_decides_is_refused() -> None:
    """A column with gaps that no other column decides is refused."""
    rows: list[dict[str, Any]] = [{"on": True, "rate": 0.1}, {"on": True, "rate": 0.2}]
    with pytest.raises(ValueError, match="nothing decides where rate is there"):
        space_of([*rows, {"on": True}, {"on": False}])


@pytest.mark.parametrize("table", [DQN, PENDULUM])
def test_a_configuration_is_next_to_itself(table: Landscape) -> None:
    """Each configuration is its own nearest one, and encoding keeps its parameters."""
    assert list(range(256)) == [table.nearest(row) for row in table.rows]
    for row in table.rows[:20]:
        shares = [0.0 if share is None else share for share in table.space.encode(row)]
        decoded = table.space.decode(shares)
        assert set(row) == set(decoded)
        assert decoded == pytest.approx(row)


def test_excluded_configurations_are_passed_over() -> None:
    """The nearest configuration is one that is not excluded, unless all are excluded."""
    sample = landscape()
    row = sample.rows[5]
    # The neighbours in the rate, 4 and 6, differ in the switch, which weighs more.
    assert [5, 3, 7] == [sample.nearest(row, excluded) for excluded in ([], [5, 7], [5, 3])]
    assert 5 == sample.nearest(row, range(ROWS))


def test_scores_are_scaled_by_the_task() -> None:
    """Scores are scaled so that the 5th percentile is 0 and the 95th percentile is 1."""
    means = landscape().final.mean(axis=1)
    low, high = np.percentile(means, (5, 95))
    sample = landscape()
    assert [0.0, 1.0] == [sample.normalise(float(low)), sample.normalise(float(high))]
    assert 0.5 == pytest.approx(sample.normalise(float(low + high) / 2))


def test_a_configuration_that_always_crashes_has_no_mean() -> None:
    """A configuration that always crashes does not change the scale of the scores."""
    returns = raw_returns()
    returns[3] = SENTINEL
    expected = replace(landscape(), returns=np.delete(raw_returns(), 3, axis=0)).ends
    assert expected == landscape(returns).ends
