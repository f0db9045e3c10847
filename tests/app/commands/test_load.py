"""`rlexp.load` returns records and scores as arrays that include missing runs."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from stored_runs import Stored, configuration, evaluated, failed, stored

import rlexp
from rlexp.errors import ProtocolError, RecordError
from rlexp.protocol.seeds import Phase
from rlexp.records.run import State
from rlexp.store.layout import Layout


@pytest.fixture
def alpha(tmp_path: Path) -> Stored:
    """Runs of PPO, two completed and one failed; runs of A2C, one lost and two never started."""
    alpha = stored(Layout(tmp_path / "runs"), "alpha", configuration(), configuration("a2c"))
    alpha.complete(0, 100.0)
    alpha.attempt(1, failed())
    alpha.complete(2, 80.0)
    alpha.attempt(0, [evaluated(25, 3.0)], label="a2c")
    return alpha


def test_the_table_has_a_row_for_every_planned_run(alpha: Stored) -> None:
    """Failed and missing runs have rows with NaN as score."""
    table = rlexp.load(alpha.paths.folder).table
    assert ("run", "label", "task", "phase", "state", "seed", "score", "step") == table.dtype.names
    assert [
        ("ppo", 0, "completed"),
        ("a2c", 0, "lost"),
        ("ppo", 1, "failed"),
        ("a2c", 1, "planned"),
        ("ppo", 2, "completed"),
        ("a2c", 2, "planned"),
    ] == table[["label", "seed", "state"]].tolist()
    expected = [100.0, np.nan, np.nan, np.nan, 80.0, np.nan]
    np.testing.assert_array_equal(expected, table["score"])
    with pytest.raises(ValueError, match="read-only"):
        table["score"][0] = 1.0


def test_records_are_in_the_order_of_the_table(alpha: Stored) -> None:
    """The records are in the order of the rows."""
    loaded = rlexp.load(str(alpha.paths.folder))
    assert loaded.table["state"].tolist() == [str(r.state) for r in loaded.records]
    assert loaded.records[2].reason == "a loss is NaN"
    assert loaded.records[0].evaluations[0].returns == (25.0, 50.0)


def test_scores_are_those_of_completed_runs(alpha: Stored) -> None:
    """Only completed runs have scores, and configurations are not mixed."""
    loaded = rlexp.load(alpha.paths.folder)
    assert [100.0, 80.0] == loaded.scores("ppo").tolist()
    assert [] == loaded.scores("a2c", "CartPole-v1").tolist()
    with pytest.raises(ProtocolError, match="2 configurations match; name label and task"):
        loaded.scores()


def test_scores_of_phases_are_separate(alpha: Stored) -> None:
    """A tuning score is returned only for the tuning phase."""
    alpha.complete(0, 7.0, phase=Phase.TUNING)
    loaded = rlexp.load(alpha.paths.folder)
    assert [7.0] == loaded.scores("ppo", phase="tuning").tolist()
    assert [100.0, 80.0] == loaded.scores("ppo").tolist()
    assert [] == loaded.scores(phase="selection").tolist()


def test_curves_have_nan_for_missing_evaluations(alpha: Stored) -> None:
    """Curves have a row for each run and a column for each step with an evaluation."""
    loaded = rlexp.load(alpha.paths.folder)
    steps, returns = loaded.curves("ppo")
    assert [50, 100] == steps.tolist()
    expected = [[37.5, 75.0], [1.5, np.nan], [30.0, 60.0]]
    np.testing.assert_array_equal(expected, returns)
    steps, returns = loaded.curves("a2c")
    np.testing.assert_array_equal([[3.0], [np.nan], [np.nan]], returns)
    steps, returns = loaded.curves("ppo", phase="selection")
    assert ((0,), (0, 0)) == (steps.shape, returns.shape)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"label": "poo"}, "no label 'poo'; did you mean 'ppo'"),
        ({"task": "CartPol-v1"}, "no task 'CartPol-v1'; did you mean 'CartPole-v1'"),
        ({"phase": "tests"}, "no phase 'tests'; did you mean 'test'"),
    ],
)
def test_unknown_labels_tasks_and_phases_are_refused(
    alpha: Stored, words: dict[str, str], message: str
) -> None:
    """An unknown label, task or phase raises an error."""
    with pytest.raises(ProtocolError, match=message):
        rlexp.load(alpha.paths.folder).scores(**words)


def test_damaged_runs_are_named(alpha: Stored) -> None:
    """A run that cannot be read keeps its row, and its problem is named."""
    alpha.run(0).spec.write_text("{")
    loaded = rlexp.load(alpha.paths.folder)
    assert ("damaged", State.PLANNED) == (loaded.table["state"][0], loaded.records[0].state)
    assert [80.0] == loaded.scores("ppo").tolist()
    assert "spec.json cannot be read" in loaded.problems[0]


def test_an_experiment_without_runs_loads(tmp_path: Path) -> None:
    """Planned runs have rows before any run has started."""
    loaded = rlexp.load(stored(Layout(tmp_path / "runs")).paths.folder)
    assert ["planned"] * 3 == loaded.table["state"].tolist()


def test_a_folder_that_is_no_experiment_is_refused(alpha: Stored, tmp_path: Path) -> None:
    """The error about a folder that is no experiment suggests another or names the damage."""
    with pytest.raises(RecordError, match=r"no experiment .*; did you mean 'alpha'"):
        rlexp.load(tmp_path / "runs" / "alpa")
    alpha.paths.definition.write_text("{")
    with pytest.raises(RecordError, match=r"experiment\.json cannot be read"):
        rlexp.load(alpha.paths.folder)


def test_importing_rlexp_imports_nothing_heavy() -> None:
    """`import rlexp` imports no heavy module until a function is used."""
    code = "import sys, rlexp; print([m for m in ('numpy', 'torch', 'rich') if m in sys.modules])"
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout == "[]\n"
