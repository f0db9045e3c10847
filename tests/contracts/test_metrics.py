"""Properties of every metric: shapes, order, direction and intervals."""

from functools import partial
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from members import member, names, target
from members import settings as values_of
from pydantic import TypeAdapter, ValidationError

from rlexp.errors import ConfigError
from rlexp.metrics import Metric
from rlexp.stats.aggregate import Aggregate, aggregate_of
from rlexp.stats.bootstrap import interval
from rlexp.stats.replicates import replicates
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores

METRICS = names("metric")
SIZES = [(1,), (5,), (4, 4, 4), (1, 6, 3)]

scores = st.lists(
    st.lists(st.integers(-80, 80).map(lambda number: number / 8), min_size=1, max_size=6),
    min_size=1,
    max_size=4,
)


def normal_scores(sizes: tuple[int, ...]) -> TaskScores:
    """Normally distributed scores of tasks with these numbers of runs."""
    generator = np.random.default_rng(sum(sizes))
    return TaskScores.from_tasks([generator.normal(size=size) for size in sizes])


def test_there_are_four_metrics() -> None:
    """The metrics are those of Agarwal et al. (2021)."""
    assert ["iqm", "mean", "median", "optimality_gap"] == METRICS


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_says_what_it_is(name: str) -> None:
    """A metric has a distinct title, a direction and immutable settings."""
    metric: Metric = member("metric", name)
    others = [member("metric", other).title for other in METRICS if other != name]
    assert metric.title
    assert metric.title not in others
    assert isinstance(metric.higher_is_better, bool)
    assert metric == member("metric", name)
    assert hash(metric) == hash(member("metric", name))


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("sizes", SIZES)
def test_a_batch_gives_a_value_for_each_of_its_rows(name: str, sizes: tuple[int, ...]) -> None:
    """A metric of scores of shape (…, N) has the shape (…)."""
    metric: Metric = member("metric", name)
    values = np.random.default_rng(0).normal(size=(2, 3, sum(sizes)))
    results = metric(TaskScores(values, sizes))
    assert (2, 3) == results.shape
    assert np.float64 == results.dtype
    single_result = float(metric(TaskScores(values[1, 2], sizes)))
    assert single_result == pytest.approx(float(results[1, 2]), rel=1e-14)


@pytest.mark.parametrize("name", METRICS)
@given(scores, st.randoms())
def test_runs_have_no_order(name: str, tasks: list[list[float]], random: Random) -> None:
    """The order of runs does not change the value of a metric, not even in its last bit."""
    metric: Metric = member("metric", name)
    shuffled = TaskScores.from_tasks([random.sample(task, len(task)) for task in tasks])
    assert metric(TaskScores.from_tasks(tasks)) == metric(shuffled)


@pytest.mark.parametrize("name", METRICS)
@given(scores, st.integers(0, 8))
def test_better_runs_are_never_worse(name: str, tasks: list[list[float]], increase: int) -> None:
    """Higher scores move the metric in its direction, or not at all."""
    metric: Metric = member("metric", name)
    before = float(metric(TaskScores.from_tasks(tasks)))
    after = float(metric(TaskScores.from_tasks([np.asarray(task) + increase for task in tasks])))
    assert (after >= before - 1e-12) if metric.higher_is_better else (after <= before + 1e-12)


@pytest.mark.parametrize("name", METRICS)
def test_equal_scores_are_aggregated_to_themselves(name: str) -> None:
    """Equal scores give that score; the optimality gap gives its distance to 1."""
    metric: Metric = member("metric", name)
    result = float(metric(TaskScores.from_tasks([[0.25] * 5, [0.25]])))
    assert (0.25 if metric.higher_is_better else 0.75) == pytest.approx(result)


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("sizes", SIZES[1:])
def test_a_metric_is_the_aggregate_that_it_names(name: str, sizes: tuple[int, ...]) -> None:
    """A metric has the same replicates as an aggregate and as a plain function."""
    metric: Metric = member("metric", name)
    assert isinstance(aggregate_of(metric), Aggregate)
    resampling = Resampling(repetitions=50)
    replicates_by_name = replicates(
        normal_scores(sizes), {"fast": metric, "plain": partial(metric)}, resampling
    )
    assert replicates_by_name["plain"] == pytest.approx(
        replicates_by_name["fast"], rel=1e-12, abs=1e-14
    )


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_has_an_interval(name: str) -> None:
    """The interval of a metric contains its estimate."""
    metric: Metric = member("metric", name)
    estimate = interval(normal_scores((4, 4, 4)), metric, Resampling(repetitions=200))
    assert estimate.low is not None
    assert estimate.high is not None
    assert estimate.low < estimate.estimate < estimate.high


@pytest.mark.parametrize("name", METRICS)
def test_unknown_settings_are_refused(name: str) -> None:
    """A misspelt setting is refused."""
    with pytest.raises(ConfigError, match=r"unknown key 'metric\.gama'"):
        member("metric", name, gama=1.0)


@settings(deadline=None)
@given(st.floats(-5, 5))
def test_gamma_is_where_the_gap_closes(gamma: float) -> None:
    """Scores at gamma have an optimality gap of 0; the default gamma is 1."""
    metric = member("metric", "optimality_gap", gamma=gamma)
    assert 0.0 == pytest.approx(float(metric(TaskScores.from_tasks([[gamma, 9.0], [gamma]]))))
    assert 1.0 == member("metric", "optimality_gap").gamma


@pytest.mark.parametrize("wrong_gamma", ['"high"', "NaN", "Infinity", "null", "true"])
def test_gamma_is_a_finite_number(wrong_gamma: str) -> None:
    """A gamma that is not finite is refused before any computation."""
    adapter = TypeAdapter(target(values_of("metric", "optimality_gap")["_target_"]))
    with pytest.raises(ValidationError, match="gamma"):
        adapter.validate_json(f'{{"gamma": {wrong_gamma}}}', strict=True, extra="forbid")
