"""All trials of a sweep in a report."""

from collections.abc import Callable

import pytest
from evidence_samples import STEPS, inquiry, typical
from part_blocks import column, part_of, table
from sweep_samples import just_begun, minimised, odd_values, swept, two_sweeps

from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.sections.trials import TrialsSection


@pytest.mark.parametrize("sample", [typical, just_begun])
def test_there_is_no_part_without_a_trial(sample: Callable[[], Evidence]) -> None:
    """Plain runs, and sweeps without trials, have no table of trials."""
    assert None is TrialsSection().part(inquiry(sample()))


def test_a_row_for_each_trial() -> None:
    """Rows are sorted by number, with state, value, scores, steps and parameters."""
    part = part_of(TrialsSection(), swept())
    trials_table = table(part, "trials")
    assert list(range(12)) == column(trials_table, "trial")
    assert part.folded
    default = (0, "complete, default", 330.0, 3, STEPS, 3 * STEPS, "0.0003", "10", "mlp", "64")
    assert (*default, None) == trials_table.rows[0]


def test_each_trial_has_a_state_and_a_reason() -> None:
    """The state marks screened trials, and the last column has reasons."""
    trials_table = table(part_of(TrialsSection(), swept()), "trials")
    states = column(trials_table, "state")
    assert "complete, tuned" == states[5]
    assert ["screened", "complete", "pruned", "screened"] == states[1:5]
    assert ["failed", "unfinished"] == [states[6], states[11]]
    remarks = column(trials_table, "remark")
    assert ["below the median", "nan: the loss is not a number"] == [remarks[3], remarks[6]]


def test_several_objectives_have_a_column_each() -> None:
    """Objectives have columns in their declared order."""
    trials_table = table(part_of(TrialsSection(), minimised()), "trials")
    assert 330.0 == column(trials_table, "environment steps to the threshold")[0]
    assert 5.0 == column(trials_table, "standard deviation of the scores over tuning seeds")[0]


def test_values_that_are_no_numbers_are_missing() -> None:
    """A trial with a non-finite value has an empty cell."""
    assert [None, None, 2.0] == column(
        table(part_of(TrialsSection(), odd_values()), "trials"), "score"
    )[1:]


def test_several_sweeps_have_a_table_each() -> None:
    """Tables are named by their experiments."""
    part = part_of(TrialsSection(), two_sweeps())
    assert table(part, "trials-sample").rows == table(part, "trials-other").rows
