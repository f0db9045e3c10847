"""The table of scores: what may stand in one table, and what is missing from it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import algorithm, completed, failed, spec

from rlexp.errors import ProtocolError
from rlexp.protocol.seeds import Phase
from rlexp.records.run import RunRecord
from rlexp.records.score_table import Entry, ScoreTable

TASK = "CartPole-v1"


def entry(seed: int, score: float, label: str = "ppo", task: str = TASK, root: int = 0) -> Entry:
    """A completed run in its place."""
    learner = algorithm(label)
    return Entry(label, task, completed(spec(seed, root=root, learner=learner), score))


def test_scores_are_sorted_into_cells() -> None:
    """By label and task, then by root and seed."""
    table = ScoreTable.from_records(
        [entry(0, 1.0), entry(1, 2.0), entry(0, 3.0, "a2c"), entry(0, 4.0, task="Acrobot-v1")],
        Phase.TEST,
    )
    assert {
        ("ppo", TASK): {(0, 0): 1.0, (0, 1): 2.0},
        ("a2c", TASK): {(0, 0): 3.0},
        ("ppo", "Acrobot-v1"): {(0, 0): 4.0},
    } == table.cells
    assert () == table.missing


@given(st.permutations(range(6)))
def test_the_order_of_the_records_does_not_matter(order: list[int]) -> None:
    """The same records make the same table."""
    table = ScoreTable.from_records([entry(seed, float(seed)) for seed in order], Phase.TEST)
    assert {("ppo", TASK): {(0, seed): float(seed) for seed in range(6)}} == table.cells


def test_a_failed_or_unfinished_run_is_missing() -> None:
    """It stands in no cell, and is named."""
    absent = [
        Entry("ppo", TASK, failed(spec(1))),
        Entry("ppo", TASK, RunRecord(spec=spec(2))),
    ]
    table = ScoreTable.from_records([entry(0, 5.0), *absent], Phase.TEST)
    assert ({(0, 0): 5.0}, tuple(absent)) == (table.cells["ppo", TASK], table.missing)


def test_a_configuration_without_any_score_keeps_its_cell() -> None:
    """What failed everywhere is empty, not absent."""
    table = ScoreTable.from_records([Entry("ppo", TASK, failed(spec()))], Phase.TEST)
    assert {("ppo", TASK): {}} == table.cells


@pytest.mark.parametrize("asked", [Phase.TUNING, Phase.SELECTION])
def test_phases_are_never_mixed(asked: Phase) -> None:
    """A test score cannot reach a table of tuning scores, nor the other way round."""
    with pytest.raises(ProtocolError, match=f"is of phase test, not {asked}"):
        ScoreTable.from_records([entry(0, 1.0)], asked)
    with pytest.raises(ProtocolError, match=f"is of phase {asked}, not test"):
        ScoreTable.from_records(
            [entry(0, 1.0), Entry("ppo", TASK, completed(spec(1, asked), 1.0))], Phase.TEST
        )


def test_a_seed_counts_once() -> None:
    """Two configurations under one label are told apart before they are averaged."""
    other = Entry("ppo", TASK, failed(spec(0, learner=algorithm("a2c"))))
    with pytest.raises(ProtocolError, match="ppo on CartPole-v1 has seed 0 twice"):
        ScoreTable.from_records([entry(0, 1.0), other], Phase.TEST)


def test_the_same_seed_of_another_root_is_another_run() -> None:
    """Roots key all numbers."""
    table = ScoreTable.from_records([entry(0, 1.0), entry(0, 2.0, root=1)], Phase.TEST)
    assert {(0, 0): 1.0, (1, 0): 2.0} == table.cells["ppo", TASK]


@pytest.mark.parametrize("changes", [{"steps": 200}, {"final_episodes": 3}, {"score": "auc"}])
def test_budgets_of_a_task_are_equal(changes: dict[str, Any]) -> None:
    """Who trained longer, or was measured otherwise, is not compared."""
    learner = algorithm("a2c")
    other = Entry("a2c", TASK, completed(spec(learner=learner, **changes), 1.0))
    with pytest.raises(ProtocolError, match="ppo and a2c have different budgets on CartPole-v1"):
        ScoreTable.from_records([entry(0, 1.0), other], Phase.TEST)


def test_budgets_of_two_tasks_may_differ() -> None:
    """Scores are compared within a task."""
    other = Entry("ppo", "Acrobot-v1", completed(spec(steps=200), 1.0))
    table = ScoreTable.from_records([entry(0, 1.0), other], Phase.TEST)
    assert 2 == len(table.cells)
