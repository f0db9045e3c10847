"""The table of scores: which runs may stand in one table, and which runs are missing."""

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
    """A table entry of a completed run."""
    learner = algorithm(label)
    return Entry(label, task, completed(spec(seed, root=root, learner=learner), score))


def test_scores_are_sorted_into_cells() -> None:
    """Scores are in a cell for each label and task, by root and seed."""
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
    """The same records in any order give the same table."""
    table = ScoreTable.from_records([entry(seed, float(seed)) for seed in order], Phase.TEST)
    assert {("ppo", TASK): {(0, seed): float(seed) for seed in range(6)}} == table.cells


def test_a_failed_or_unfinished_run_is_missing() -> None:
    """A failed or unfinished run is in no cell and is listed as missing."""
    entries_without_score = [
        Entry("ppo", TASK, failed(spec(1))),
        Entry("ppo", TASK, RunRecord(spec=spec(2))),
    ]
    table = ScoreTable.from_records([entry(0, 5.0), *entries_without_score], Phase.TEST)
    assert ({(0, 0): 5.0}, tuple(entries_without_score)) == (
        table.cells["ppo", TASK],
        table.missing,
    )


def test_a_configuration_without_any_score_keeps_its_cell() -> None:
    """A configuration whose runs all failed has an empty cell."""
    table = ScoreTable.from_records([Entry("ppo", TASK, failed(spec()))], Phase.TEST)
    assert {("ppo", TASK): {}} == table.cells


@pytest.mark.parametrize("other_phase", [Phase.TUNING, Phase.SELECTION])
def test_phases_are_never_mixed(other_phase: Phase) -> None:
    """A table refuses runs of another phase."""
    with pytest.raises(ProtocolError, match=f"is of phase test, not {other_phase}"):
        ScoreTable.from_records([entry(0, 1.0)], other_phase)
    with pytest.raises(ProtocolError, match=f"is of phase {other_phase}, not test"):
        ScoreTable.from_records(
            [entry(0, 1.0), Entry("ppo", TASK, completed(spec(1, other_phase), 1.0))], Phase.TEST
        )


def test_a_seed_counts_once() -> None:
    """A second run with the same label, task and seed is refused."""
    other_entry = Entry("ppo", TASK, failed(spec(0, learner=algorithm("a2c"))))
    with pytest.raises(ProtocolError, match="ppo on CartPole-v1 has seed 0 twice"):
        ScoreTable.from_records([entry(0, 1.0), other_entry], Phase.TEST)


def test_the_same_seed_of_another_root_is_another_run() -> None:
    """Runs with equal seeds and different roots are different runs."""
    table = ScoreTable.from_records([entry(0, 1.0), entry(0, 2.0, root=1)], Phase.TEST)
    assert {(0, 0): 1.0, (1, 0): 2.0} == table.cells["ppo", TASK]


@pytest.mark.parametrize("changes", [{"steps": 200}, {"final_episodes": 3}, {"score": "auc"}])
def test_budgets_of_a_task_are_equal(changes: dict[str, Any]) -> None:
    """Runs of one task with different budgets are refused."""
    learner = algorithm("a2c")
    other_entry = Entry("a2c", TASK, completed(spec(learner=learner, **changes), 1.0))
    with pytest.raises(ProtocolError, match="ppo and a2c have different budgets on CartPole-v1"):
        ScoreTable.from_records([entry(0, 1.0), other_entry], Phase.TEST)


def test_budgets_of_two_tasks_may_differ() -> None:
    """Runs of different tasks may have different budgets."""
    other_entry = Entry("ppo", "Acrobot-v1", completed(spec(steps=200), 1.0))
    table = ScoreTable.from_records([entry(0, 1.0), other_entry], Phase.TEST)
    assert 2 == len(table.cells)
