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
    st.lists(st.integers(-80, 80).map(lambda whole: whole / 8), min_size=1, max_size=6),
    min_size=1,
    max_size=4,
)


def normal(sizes: tuple[int, ...]) -> TaskScores:
    """Normal scores of tasks of these sizes."""
    generator = np.random.default_rng(sum(sizes))
    return TaskScores.from_tasks([generator.normal(size=size) for size in sizes])


def test_there_are_four() -> None:
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
    """Scores of shape (…, N) give values of shape (…)."""
    metric: Metric = member("metric", name)
    values = np.random.default_rng(0).normal(size=(2, 3, sum(sizes)))
    found = metric(TaskScores(values, sizes))
    assert (2, 3) == found.shape
    assert np.float64 == found.dtype
    one = float(metric(TaskScores(values[1, 2], sizes)))
    assert one == pytest.approx(float(found[1, 2]), rel=1e-14)


@pytest.mark.parametrize("name", METRICS)
@given(scores, st.randoms())
def test_runs_have_no_order(name: str, tasks: list[list[float]], random: Random) -> None:
    """The order of runs does not change a metric to the last bit."""
    metric: Metric = member("metric", name)
    shuffled = TaskScores.from_tasks([random.sample(task, len(task)) for task in tasks])
    assert metric(TaskScores.from_tasks(tasks)) == metric(shuffled)


@pytest.mark.parametrize("name", METRICS)
@given(scores, st.integers(0, 8))
def test_better_runs_are_never_worse(name: str, tasks: list[list[float]], more: int) -> None:
    """Higher scores move the metric in its direction, or not at all."""
    metric: Metric = member("metric", name)
    before = float(metric(TaskScores.from_tasks(tasks)))
    after = float(metric(TaskScores.from_tasks([np.asarray(task) + more for task in tasks])))
    assert (after >= before - 1e-12) if metric.higher_is_better else (after <= before + 1e-12)


@pytest.mark.parametrize("name", METRICS)
def test_equal_scores_are_aggregated_to_themselves(name: str) -> None:
    """Equal scores give that score, or its distance to the best one."""
    metric: Metric = member("metric", name)
    found = float(metric(TaskScores.from_tasks([[0.25] * 5, [0.25]])))
    assert (0.25 if metric.higher_is_better else 0.75) == pytest.approx(found)


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("sizes", SIZES[1:])
def test_a_metric_is_the_aggregate_that_it_names(name: str, sizes: tuple[int, ...]) -> None:
    """The metric equals the aggregate of which intervals are computed."""
    metric: Metric = member("metric", name)
    assert isinstance(aggregate_of(metric), Aggregate)
    resampling = Resampling(repetitions=50)
    found = replicates(normal(sizes), {"fast": metric, "plain": partial(metric)}, resampling)
    assert found["plain"] == pytest.approx(found["fast"], rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_has_an_interval(name: str) -> None:
    """The interval contains the estimate."""
    metric: Metric = member("metric", name)
    found = interval(normal((4, 4, 4)), metric, Resampling(repetitions=200))
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.estimate < found.high


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


@pytest.mark.parametrize("wrong", ['"high"', "NaN", "Infinity", "null", "true"])
def test_gamma_is_a_finite_number(wrong: str) -> None:
    """A gamma that is not finite is refused before any computation."""
    adapter = TypeAdapter(target(values_of("metric", "optimality_gap")["_target_"]))
    with pytest.raises(ValidationError, match="gamma"):
        adapter.validate_json(f'{{"gamma": {wrong}}}', strict=True, extra="forbid")
