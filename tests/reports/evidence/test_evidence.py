"""Evidence of a report: runs that it combines, and runs that it refuses."""

import pytest
from evidence_samples import (
    CARTPOLE,
    LABELS,
    PENDULUM,
    broken,
    configured,
    evidence,
    incomplete,
    interrupted,
    learned,
    member,
    not_finite,
    reordered,
    run_spec,
    scored,
    task_missing,
    typical,
    worst,
)
from hypothesis import given
from hypothesis import strategies as st

from rlexp.errors import ProtocolError
from rlexp.protocol.seeds import Phase
from rlexp.reports.evidence.runs import unambiguous


def test_labels_keep_their_order_and_tasks_are_sorted() -> None:
    """Labels are in the requested order and tasks in the order of their names."""
    sample = evidence([*scored(configured("sac", PENDULUM), [1.0]), *scored(configured(), [2.0])])
    assert (("sac", "ppo"), (CARTPOLE, PENDULUM)) == (sample.labels, sample.tasks)


def test_a_cell_sorts_scores_and_counts_runs() -> None:
    """A cell has its scores in rising order and the number of planned runs."""
    cell = evidence(scored(configured(), [3.0, 1.0, 2.0])).cells["ppo", CARTPOLE]
    assert ([1.0, 2.0, 3.0], 3, 3) == (list(cell.scores), cell.n, cell.planned)


def test_there_is_no_cell_without_planned_runs() -> None:
    """A label without planned runs on a task has no cell for the task."""
    sample = task_missing()
    assert None is sample.cell("dqn", PENDULUM)
    assert [CARTPOLE] == [cell.task for cell in sample.of_label("dqn")]
    assert ["ppo", "a2c"] == [cell.label for cell in sample.of_task(PENDULUM)]


def test_every_run_without_a_score_is_of_one_kind() -> None:
    """Every run without a score is either failed or missing, where no score is NaN."""
    cell = incomplete().cells["a2c", CARTPOLE]
    counts = [len(runs) for runs in (cell.scored, cell.failed, cell.missing)]
    assert [1, 1, 3] == counts
    assert cell.planned == sum(counts)


def test_a_score_that_is_no_number_is_no_score() -> None:
    """A run that completed with NaN or infinity has no score."""
    for label in ("ppo", "a2c"):
        cell = not_finite().cells[label, CARTPOLE]
        assert (2, 1) == (cell.n, cell.planned - cell.n)


def test_failed_runs_count_as_worst_where_the_experiment_says_so() -> None:
    """Each failed run counts as the task's minimum score."""
    cell = worst().cells["a2c", CARTPOLE]
    assert ([1.0, 300.0, 310.0], 3, 1) == (list(cell.scores), cell.n, cell.counted_as_worst)


def test_failed_runs_are_missing_where_the_experiment_says_so() -> None:
    """A failed run has no score where failures do not count as the worst score."""
    cell = evidence(worst().members).cells["a2c", CARTPOLE]
    assert ([300.0, 310.0], 2, 3) == (list(cell.scores), cell.n, cell.planned)


def test_another_phase_is_refused() -> None:
    """Runs of another phase raise an error."""
    with pytest.raises(ProtocolError, match="phase tuning"):
        evidence(scored(configured(), [1.0], Phase.TUNING))


def test_the_same_seed_twice_is_refused() -> None:
    """Two runs with the same seed raise an error."""
    runs = scored(configured(), [1.0])
    with pytest.raises(ProtocolError, match="twice"):
        evidence([*runs, *runs])


def test_a_label_with_two_budgets_is_refused() -> None:
    """Runs of one label on one task with different budgets raise an error."""
    short = configured(steps=500, evaluation_every=100)
    with pytest.raises(ProtocolError, match="different budgets"):
        evidence([*scored(configured(), [1.0]), member(learned(run_spec(short, 1), 1, 0), short)])


@given(st.integers(0, 1000))
def test_cells_do_not_depend_on_the_order_of_the_runs(seed: int) -> None:
    """Runs in another order give the same cells."""
    assert list(typical().cells.items()) == list(reordered(typical(), seed).cells.items())


def test_names_are_those_that_commands_take() -> None:
    """The name of a run consists of its experiment and its folder."""
    run = scored(configured(), [1.0])[0]
    assert f"sample/{run.record.spec.name}" == run.name


def test_reference_is_that_of_the_task() -> None:
    """Reference scores come from the configuration of the first label with the task."""
    assert 475.0 == typical().reference(CARTPOLE)["threshold"]
    assert None is typical().reference(PENDULUM)["minimum"]


def test_ambiguous_labels_get_the_name_of_the_experiment() -> None:
    """Equal labels of two experiments on one task get the experiment as a prefix."""
    labels = [("a", "ppo", "x"), ("b", "ppo", "x"), ("b", "dqn", "x"), ("a", "sac", "y")]
    assert ["a/ppo", "b/ppo", "dqn", "sac"] == unambiguous(labels)


def test_a_label_of_two_experiments_on_different_tasks_is_one() -> None:
    """A label without ambiguity keeps its name."""
    assert ["ppo", "ppo"] == unambiguous([("a", "ppo", "x"), ("b", "ppo", "y")])


def test_a_label_twice_in_an_experiment_is_refused() -> None:
    """Two configurations with one label on a task raise an error."""
    with pytest.raises(ProtocolError, match="has ppo twice on x"):
        unambiguous([("a", "ppo", "x"), ("a", "ppo", "x")])


def test_states_of_runs_without_score_are_kept() -> None:
    """Failed and interrupted runs stay in their cell, in separate groups."""
    configuration = configured()
    runs = [
        member(broken(run_spec(configuration, 0)), configuration),
        member(interrupted(run_spec(configuration, 1)), configuration),
    ]
    cell = evidence(runs).cells["ppo", CARTPOLE]
    assert ([runs[0]], [runs[1]]) == (cell.failed, cell.missing)


def test_evidence_without_runs_is_empty() -> None:
    """Evidence without runs has neither labels nor tasks nor cells."""
    sample = evidence([])
    assert ((), (), {}) == (sample.labels, sample.tasks, sample.cells)


def test_samples_have_the_documented_size() -> None:
    """The typical sample has 3 labels × 2 tasks × 5 seeds with 11 evaluations each."""
    sample = typical()
    assert (LABELS, 2, 30) == (sample.labels, len(sample.tasks), len(sample.members))
    assert {11} == {len(m.record.evaluations) for m in sample.members}
