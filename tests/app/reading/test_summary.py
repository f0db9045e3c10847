"""Summaries are computed from the records of an experiment on disk."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from quick_parts import quick_parts
from samples import (
    REFERENCE,
    completed,
    configuration,
    ended,
    evaluated,
    experiment,
    started,
)

from rlexp.app.reading.headline_aggregate import HeadlineAggregate
from rlexp.app.reading.summary import PhaseSummary, read_entries, summarise
from rlexp.app.results import to_json
from rlexp.errors import ProtocolError
from rlexp.metrics.estimate import Estimator, declared_ends
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import Event, Failure
from rlexp.stats.aggregate import interquartile_mean
from rlexp.stats.pairs.pilot import detectable_differences
from rlexp.stats.pairs.power import QUICK, ComparisonPlan
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores
from rlexp.store.journal import JournalWriter
from rlexp.store.layout import ExperimentPaths
from rlexp.store.runs import new_attempt, write_run

quick = pytest.fixture(autouse=True)(quick_parts)

NAN = Failure.NAN


@pytest.fixture
def paths(tmp_path: Path) -> ExperimentPaths:
    """The folder of an empty experiment."""
    return ExperimentPaths(tmp_path / "runs" / "sample")


def run(paths: ExperimentPaths, spec: RunSpec, *events: Event) -> None:
    """Write a run with one attempt that has these events."""
    write_run(paths.run(spec.name), spec)
    attempt = new_attempt(paths.run(spec.name), {}, {}, "")
    writer = JournalWriter(attempt.journal)
    for event in (started(), *events):
        writer.append(event)
    writer.close()


def scored(
    paths: ExperimentPaths, definition: Experiment, *results: float | Failure | None
) -> None:
    """Write test runs with these results in order; None leaves a run planned."""
    for (_, spec), result in zip(definition.specs(Phase.TEST), results, strict=True):
        if isinstance(result, Failure):
            run(paths, spec, ended(40, failure=result))
        elif result is not None:
            run(paths, spec, evaluated(100, result, final=True), ended())


def summary(
    paths: ExperimentPaths, definition: Experiment, *, detectable: bool = False
) -> PhaseSummary:
    """The summary of the experiment's test runs."""
    return summarise(
        paths,
        definition,
        Phase.TEST,
        read_entries(paths, definition, Phase.TEST),
        HeadlineAggregate(),
        detectable=detectable,
    )


def test_scores_are_summarised_by_configuration(paths: ExperimentPaths) -> None:
    """Each configuration has its scores by seed and their interquartile mean."""
    definition = experiment(configuration("ppo"), configuration("a2c"), test=4)
    scored(paths, definition, 1.0, 10.0, 2.0, 20.0, 3.0, 30.0, 4.0, 40.0)
    phase_summary = summary(paths, definition)
    ppo, a2c = phase_summary.cells
    assert {0: 1.0, 1: 2.0, 2: 3.0, 3: 4.0} == ppo.scores
    assert ("ppo", "a2c", 2.5, 25.0) == (
        ppo.label,
        a2c.label,
        ppo.estimate and ppo.estimate.estimate,
        a2c.estimate and a2c.estimate.estimate,
    )
    assert [4, 4, 0, 0, 0] == [
        getattr(ppo, key) for key in ("n", "planned", "failed", "missing", "counted_as_worst")
    ]
    assert ("sample", "test", str(paths.folder)) == (
        phase_summary.experiment,
        phase_summary.phase,
        phase_summary.folder,
    )


def test_what_never_acted_is_said_of_its_label(paths: ExperimentPaths) -> None:
    """With several labels, a sentence names the label; with one label, it needs no name."""
    definition = experiment(configuration("ppo"), configuration("a2c"), test=1)
    for (chosen, spec), acted in zip(
        definition.specs(Phase.TEST), ({"teacher": 0}, None), strict=True
    ):
        run(paths, spec, evaluated(100, 1.0, final=True), replace(ended(), acted=acted))
        assert chosen.label in {"ppo", "a2c"}
    assert ("ppo: teacher never acted in 1 of 1 run",) == summary(paths, definition).remarks
    alone = replace(definition, configurations=definition.configurations[:1])
    assert ("teacher never acted in 1 of 1 run",) == summary(paths, alone).remarks


def test_complete_runs_show_what_a_comparison_could_find(paths: ExperimentPaths) -> None:
    """Two labels of four seeds each plan with each other; an incomplete label has no plan."""
    definition = experiment(configuration("ppo"), configuration("a2c"), test=4)
    scored(paths, definition, 1.0, 10.0, 2.0, 20.0, 3.0, 30.0, 4.0, None)
    ppo, a2c = summary(paths, definition, detectable=True).cells
    scores = TaskScores.from_tasks([[1.0, 2.0, 3.0, 4.0]])
    expected = detectable_differences(
        scores, scores, plan=ComparisonPlan(samples=QUICK), floor=4, furthest=499.0
    )
    assert expected == ppo.detectable
    assert a2c.detectable is None
    assert summary(paths, definition).cells[0].detectable is None


def test_the_interval_does_not_depend_on_the_order_of_the_seeds(paths: ExperimentPaths) -> None:
    """The interval follows from the scores, the recorded seed and the number of repetitions."""
    definition = experiment(test=(9, 2, 5))
    scored(paths, definition, 3.0, 1.0, 2.0)
    (cell,) = summary(paths, definition).cells
    result = cell.estimate
    assert result is not None
    assert result.seed is not None
    estimator = Estimator(resampling=Resampling(seed=result.seed, repetitions=result.repetitions))
    values, ends = TaskScores.from_tasks([[1.0, 2.0, 3.0]]), declared_ends(REFERENCE)
    expected = estimator.estimate(values, interquartile_mean, ends)
    assert expected == result


def test_failed_and_missing_runs_are_counted_and_never_scored(paths: ExperimentPaths) -> None:
    """The mean covers only completed runs, and n is their number."""
    definition = experiment(test=4)
    scored(paths, definition, 5.0, NAN, None, 7.0)
    (cell,) = summary(paths, definition).cells
    assert [2, 4, 1, 1, 0] == [
        getattr(cell, key) for key in ("n", "planned", "failed", "missing", "counted_as_worst")
    ]
    assert ({0: 5.0, 3: 7.0}, 6.0) == (cell.scores, cell.estimate and cell.estimate.estimate)


def test_a_failure_counts_as_the_declared_minimum(paths: ExperimentPaths) -> None:
    """A failed run scores the minimum return of its task; a run that is only missing does not."""
    definition = experiment(
        configuration(reference={**REFERENCE, "minimum": -3.0}), test=4, failures="worst"
    )
    scored(paths, definition, 5.0, NAN, None, 7.0)
    (cell,) = summary(paths, definition).cells
    assert [3, 1, 1, 1] == [
        getattr(cell, key) for key in ("n", "counted_as_worst", "failed", "missing")
    ]
    # 3/4 of a run are cut at each end: (−3 + 4 · 5 + 7) / 6.
    assert ({0: 5.0, 3: 7.0}, 4.0) == (cell.scores, cell.estimate and cell.estimate.estimate)


def test_without_scores_there_is_no_mean(paths: ExperimentPaths) -> None:
    """Without completed runs there is no aggregate."""
    definition = experiment()
    assert None is summary(paths, definition).cells[0].estimate
    scored(paths, definition, NAN, NAN)
    (cell,) = summary(paths, definition).cells
    assert (None, 0, 2, 0) == (cell.estimate, cell.n, cell.failed, cell.missing)


def test_one_score_has_no_interval(paths: ExperimentPaths) -> None:
    """A single run gives no information about the variation between runs."""
    definition = experiment(test=1)
    scored(paths, definition, 5.0)
    result = summary(paths, definition).cells[0].estimate
    assert (5.0, None, None, 1, "too few runs for an interval (n = 1)") == tuple(
        getattr(result, key) for key in ("estimate", "low", "high", "n", "reason")
    )


def test_every_run_is_described(paths: ExperimentPaths) -> None:
    """The summary describes failed runs with their reason, and planned runs."""
    definition = experiment(test=3)
    scored(paths, definition, 5.0, NAN, None)
    completed_run, failed_run, planned_run = summary(paths, definition).runs
    assert [("completed", 5.0, 100), ("failed", None, 40), ("planned", None, 0)] == [
        (run.state, run.score, run.step) for run in (completed_run, failed_run, planned_run)
    ]
    assert ("nan", "reason of nan", 1, 1) == (
        failed_run.failure,
        failed_run.reason,
        failed_run.seed,
        failed_run.attempts,
    )
    assert {100} == {run.steps for run in (completed_run, failed_run, planned_run)}


def test_unreadable_lines_are_counted(paths: ExperimentPaths) -> None:
    """The summary reports the number of unreadable journal lines."""
    definition = experiment(test=1)
    scored(paths, definition, 5.0)
    ((_, spec),) = definition.specs(Phase.TEST)
    with paths.run(spec.name).attempt(1).journal.open("ab") as journal:
        journal.write(b"damage\n{")
    assert 2 == summary(paths, definition).runs[0].unreadable_lines


def test_unplanned_runs_are_left_out(paths: ExperimentPaths) -> None:
    """The summary covers only runs that the experiment's definition includes."""
    larger = experiment(test=4)
    scored(paths, larger, 1.0, 2.0, 3.0, 4.0)
    (cell,) = summary(paths, experiment(test=2)).cells
    assert {0: 1.0, 1: 2.0} == cell.scores


def test_a_summary_is_plain_data(paths: ExperimentPaths) -> None:
    """A summary can be written as JSON."""
    definition = experiment(test=3)
    scored(paths, definition, 5.0, NAN, None)
    text = json.dumps(to_json(summary(paths, definition)), allow_nan=False)
    assert '"failure": "nan"' in text


def test_thresholds_of_the_task_are_included(paths: ExperimentPaths) -> None:
    """The summary has the return at which the task counts as solved."""
    definition = experiment(configuration(reference={"threshold": 475.0, "minimum": None}))
    (cell,) = summary(paths, definition).cells
    assert (475.0, "final") == (cell.threshold, cell.score)


def test_runs_of_unequal_budgets_are_not_summarised(paths: ExperimentPaths) -> None:
    """Runs with different budgets are refused."""
    definition = experiment(configuration("ppo"), configuration("a2c", steps=200))
    with pytest.raises(ProtocolError, match="different budgets"):
        summary(paths, definition)


def test_the_samples_have_the_requested_score() -> None:
    """The sample record of other tests has the score that it was made with."""
    ((_, spec),) = experiment(test=1).specs(Phase.TEST)
    assert 5.0 == completed(spec, 5.0).score
